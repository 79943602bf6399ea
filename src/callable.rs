//! `fuse`: a few ops, one kernel, called on borrowed memory.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytemuck::Pod;
use fusewright_abi::{DType, Target};
use fusewright_codegen::lower::{Outputs, stride_name};
use fusewright_fusion::region::Refusal;
use fusewright_graph::{Builder, Def, Graph, NodeId, Op, Prim, TensorType, TypeError, Value};
use fusewright_runtime::{Arg, Counters, Module, TierCounts};

use crate::compiler::{Compiler, Made};
use crate::program::{InPlace, LaunchDims, bind, miscounted};
use crate::{Error, Fused, Options, fuse_graph, watch};

/// A Rust type that is the storage of a dtype.
pub trait Element: Pod {
    /// The dtype.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),* $(,)?) => {
        $( impl Element for $rust { const DTYPE: DType = DType::$dtype; } )*
    };
}

elements! {
    f64 => F64, f32 => F32, half::bf16 => BF16, half::f16 => F16,
    i64 => I64, i32 => I32, i16 => I16, i8 => I8, u64 => U64, u32 => U32, u16 => U16, u8 => U8,
}

/// A contiguous tensor that is read.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    pub(crate) dtype: DType,
    pub(crate) shape: &'a [usize],
    pub(crate) bytes: &'a [u8],
}

/// A tensor that is written: contiguous, or with rows of its first axis further apart, as a slice of a wider tensor has.
#[derive(Debug)]
pub struct TensorMut<'a> {
    pub(crate) dtype: DType,
    pub(crate) shape: &'a [usize],
    pub(crate) bytes: &'a mut [u8],
    pub(crate) stride: Option<usize>,
}

impl<'a> TensorRef<'a> {
    /// Elements of a slice in the given shape.
    pub fn new<T: Element>(elements: &'a [T], shape: &'a [usize]) -> Self {
        TensorRef { dtype: T::DTYPE, shape, bytes: bytemuck::cast_slice(elements) }
    }

    /// Raw bytes of a dtype that has no Rust type.
    pub fn raw(dtype: DType, bytes: &'a [u8], shape: &'a [usize]) -> Self {
        TensorRef { dtype, shape, bytes }
    }
}

impl<'a> TensorMut<'a> {
    /// Elements of a slice in the given shape.
    pub fn new<T: Element>(elements: &'a mut [T], shape: &'a [usize]) -> Self {
        TensorMut::raw(T::DTYPE, bytemuck::cast_slice_mut(elements), shape)
    }

    /// Raw bytes of a dtype that has no Rust type.
    pub fn raw(dtype: DType, bytes: &'a mut [u8], shape: &'a [usize]) -> Self {
        TensorMut { dtype, shape, bytes, stride: None }
    }

    /// The same with `stride` elements from the beginning of one step along the first axis to that of the next. What
    /// lies between is not touched; the memory may end with the last element.
    #[must_use]
    pub fn with_stride(self, stride: usize) -> Self {
        TensorMut { stride: Some(stride), ..self }
    }

    /// Elements from row to row, and the bytes that the tensor spans.
    ///
    /// # Errors
    /// Rows that overlap, or of which some begin within a byte.
    fn span(&self) -> Result<(usize, Option<usize>), String> {
        let all = |shape: &[usize]| shape.iter().try_fold(1usize, |n, &e| n.checked_mul(e));
        let row = self.shape.get(1..).and_then(all).unwrap_or(0);
        let Some(stride) = self.stride else { return Ok((row, all(self.shape).map(|n| self.dtype.bytes_for(n)))) };
        let Some(&rows) = self.shape.first().filter(|_| self.shape.len() > 1) else {
            return Err("has no rows that could lie apart".to_owned());
        };
        if rows > 1 && stride < row {
            return Err(format!("has rows of {row} elements, {stride} apart"));
        }
        if !(stride.saturating_mul(self.dtype.bits() as usize)).is_multiple_of(8) {
            return Err(format!("has rows that begin within a byte: {stride} elements apart"));
        }
        let before = rows.checked_sub(1).and_then(|n| n.checked_mul(stride));
        let elements = if rows == 0 { Some(0) } else { before.and_then(|n| n.checked_add(row)) };
        Ok((stride, elements.map(|n| self.dtype.bytes_for(n))))
    }
}

/// A fused region that can be called.
#[derive(Debug)]
pub struct Callable {
    graph: Graph,
    name: String,
    dims: LaunchDims,
    in_place: InPlace,
    /// Per input of the kernel, the output that overwrites it.
    overwritten_by: Vec<Option<usize>>,
    apart: Vec<(usize, String)>,
    /// By output, the name of the integer that says how far apart its rows lie.
    strides: Vec<Option<String>>,
    module: Arc<dyn Module>,
    counters: Arc<Counters>,
    warning: Option<String>,
    /// Of the last call.
    last: ArcSwapOption<Sizes>,
}

/// Fuses the ops that `build` adds into one kernel for this machine's CPU.
///
/// The outputs of `build` are the outputs of the callable. Everything must fit one kernel: if not, the error says which
/// op does not join and why.
///
/// An output of two axes or more that overwrites no input may be given with its rows apart, see
/// [`TensorMut::with_stride`].
///
/// What a scatter writes into is overwritten in place: it is no input of the callable but an output, which holds the old
/// elements before a call and the new ones after it. An output that `build` adds with
/// [`Builder::add_output`] as the update of an input is the same, if the kernel may write where it reads; if not,
/// [`Callable::apart`] says why and both are there. Such outputs come before those that `build` returns.
///
/// # Errors
/// Ops whose operands do not fit; ops that do not fuse into one kernel; no kernel for this machine.
pub fn fuse(build: impl FnOnce(&Builder) -> Result<Vec<Value>, TypeError>) -> Result<Callable, Error> {
    fuse_with(&Options::default(), build)
}

/// As [`fuse`], with the passes, cache, tiers and threads that the caller chose.
///
/// # Errors
/// As [`fuse`].
pub fn fuse_with(
    options: &Options,
    build: impl FnOnce(&Builder) -> Result<Vec<Value>, TypeError>,
) -> Result<Callable, Error> {
    let b = Builder::new("fused");
    let outputs = build(&b).map_err(|e| Error::Input(e.to_string()))?;
    outputs.into_iter().for_each(|value| b.output(value));
    Callable::of(b.finish(), options)
}

impl Callable {
    /// The kernel of a graph.
    ///
    /// # Errors
    /// As [`fuse`].
    pub(crate) fn of(graph: Graph, options: &Options) -> Result<Callable, Error> {
        if graph.outputs().is_empty() {
            return Err(Error::Input("there are no outputs, so there is nothing to compute".to_owned()));
        }
        fusewright_graph::verify::verify(&graph).map_err(|e| Error::of_diagnostics(&e))?;
        let _watched = watch::graph(&graph, &Target::Cpu);
        let fused = fuse_graph(&graph, options)?;
        let [region] = &fused.partition.regions[..] else {
            return Err(Error::Input(not_one_kernel(&fused)));
        };
        // The kernel takes the graph's inputs and gives its outputs, in the caller's order.
        let body = fused.graph.expanded().map_err(|e| Error::Internal(e.to_string()))?;
        let compiler = Compiler::of(&Target::Cpu, options)?.with_outputs(Outputs::Strided);
        let made = compiler.make(&region.name, &body)?;
        let module = compiler.load(&made)?;
        let Made { artifact, apart, .. } = made;
        let (dims, in_place) = (LaunchDims::of(&artifact), InPlace::of(&artifact, body.inputs().len()));
        let apart = apart.into_iter().map(|apart| (apart.output, apart.reason)).collect();
        let by = |input| in_place.aliases().find(|alias| alias.input == input).map(|alias| alias.output);
        let overwritten_by = (0..body.inputs().len()).map(by).collect();
        let own = |name: &String| body.symbols().iter().all(|s| s.name != *name);
        let taken = |name: &String| own(name) && artifact.dims.iter().any(|dim| dim.name == *name);
        let strides = (0..body.outputs().len()).map(|i| Some(stride_name(i)).filter(taken)).collect();
        Ok(Callable {
            name: region.name.clone(),
            dims,
            in_place,
            overwritten_by,
            apart,
            strides,
            module,
            counters: compiler.counters(),
            warning: compiler.warning(),
            last: ArcSwapOption::empty(),
            graph: body,
        })
    }
}

/// Why the ops of a graph are not one kernel: each op that does not join, and each result that needs none.
pub(crate) fn not_one_kernel(fused: &Fused) -> String {
    let (graph, partition) = (&fused.graph, &fused.partition);
    let name = |id: NodeId| graph.node(id).op.name();
    let unfused = partition
        .unfused
        .iter()
        .filter(|u| ![Refusal::Constant, Refusal::OneElement, Refusal::InMemory].contains(&u.refusal));
    let mut reasons: Vec<String> = unfused.map(|u| format!("`{}`: {}", name(u.node), u.refusal)).collect();
    for (i, region) in partition.regions.iter().enumerate() {
        let ops: Vec<&str> = region.body.nodes().iter().map(|node| node.op.name()).collect();
        let ends = region.ends.iter().map(|end| format!("before or after `{}`: {}", name(end.node), end.refusal));
        reasons.push(format!("kernel {} ({}) ends {}", i + 1, ops.join(" "), ends.collect::<Vec<_>>().join(", ")));
    }
    if partition.regions.is_empty() {
        reasons.extend(graph.outputs().iter().enumerate().filter_map(|(i, output)| match graph.def(output.value) {
            Def::Input(n) => {
                Some(format!("output {i} is input `{}` as it came, once simplified", graph.inputs()[n].name))
            }
            Def::Node(id, _) if matches!(graph.node(id).op, Op::Prim(Prim::Literal(_))) => {
                Some(format!("output {i} is a constant, once simplified"))
            }
            Def::Node(..) => None,
        }));
    }
    let why = if reasons.is_empty() { "it has no output".to_owned() } else { reasons.join("; ") };
    format!("the ops make {} kernels, not one: {why}", partition.regions.len())
}

impl Callable {
    /// Name of the fused pattern.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Types of the inputs, in order, without those that are overwritten.
    pub fn inputs(&self) -> Vec<&TensorType> {
        let inputs = self.graph.inputs().iter().zip(&self.overwritten_by);
        inputs.filter(|(_, by)| by.is_none()).map(|(input, _)| self.graph.ty(input.value)).collect()
    }

    /// The outputs that are overwritten in place, by position, and the name of the input that each is.
    pub fn overwrites(&self) -> Vec<(usize, &str)> {
        let inputs = self.graph.inputs();
        self.in_place.aliases().map(|alias| (alias.output, inputs[alias.input].name.as_str())).collect()
    }

    /// What is wrong with the kernel cache, if something is; the kernel does not suffer from it.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// The outputs that update inputs and are not written where those lie, by position, and why.
    pub fn apart(&self) -> &[(usize, String)] {
        &self.apart
    }

    /// Types of the outputs, in order.
    pub fn outputs(&self) -> Vec<&TensorType> {
        self.graph.outputs().iter().map(|o| self.graph.ty(o.value)).collect()
    }

    /// Computes the outputs on up to `threads` threads; the bits do not depend on how many. Outputs that
    /// [`Callable::overwrites`] lists hold the old elements of their inputs.
    ///
    /// # Errors
    /// Tensors whose number, dtype, shape or length do not fit, named; a launch that fails.
    pub fn call(&self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>], threads: usize) -> Result<(), Error> {
        let last = self.last.load();
        let new;
        let sizes = match last.as_deref().filter(|sizes| sizes.are_of(inputs, outputs)) {
            Some(sizes) => sizes,
            None => {
                new = Arc::new(self.sizes(inputs, outputs)?);
                self.last.store(Some(Arc::clone(&new)));
                &*new
            }
        };
        let count = self.overwritten_by.len();
        let mut read = inputs.iter();
        let mut args: Vec<Arg<'_>> = Vec::with_capacity(count + outputs.len());
        for by in &self.overwritten_by {
            args.extend(match *by {
                Some(output) => Some(Arg::Same(count + output)),
                None => read.next().map(|t| Arg::In(t.bytes)),
            });
        }
        args.extend(outputs.iter_mut().map(|t| Arg::Out(t.bytes)));
        let launched = self.module.launch(&mut args, &sizes.dims, sizes.rows, threads.max(1));
        launched.map_err(|e| Error::from(e).about(&self.name))
    }

    /// Makes the best code there is now, rather than behind later calls.
    pub fn promote(&self) {
        self.module.promote();
    }

    /// What became of the tiers of the kernel so far.
    pub fn tiers(&self) -> TierCounts {
        self.counters.counts()
    }

    /// Checks tensors, and gives what a launch needs of their sizes.
    fn sizes(&self, inputs: &[TensorRef<'_>], outputs: &[TensorMut<'_>]) -> Result<Sizes, Error> {
        let types = self.outputs();
        let read = self.graph.inputs().iter().zip(&self.overwritten_by).filter(|(_, by)| by.is_none());
        if read.clone().count() != inputs.len() {
            let names = read.map(|(input, _)| input.name.as_str());
            return Err(miscounted(&format!("`{}`", self.graph.name()), names, inputs.len()));
        }
        if types.len() != outputs.len() {
            return Err(Error::Call(format!("`{}` has {} outputs, got {}", self.name, types.len(), outputs.len())));
        }
        let mut read = inputs.iter();
        let mut given: Vec<(DType, &[usize])> = Vec::with_capacity(self.graph.inputs().len());
        for by in &self.overwritten_by {
            given.extend(match *by {
                Some(output) => Some((outputs[output].dtype, outputs[output].shape)),
                None => read.next().map(|t| (t.dtype, t.shape)),
            });
        }
        let mut binding = bind(&self.graph, &given)?;
        for (i, (ty, output)) in types.iter().zip(outputs.iter()).enumerate() {
            let expected = ty.shape.iter().map(|e| e.eval(&|s| binding.get(s).copied())).collect::<Result<Vec<_>, _>>();
            let expected = expected.map_err(|e| Error::Call(e.to_string()))?;
            let fits = expected.iter().map(|&e| usize::try_from(e)).eq(output.shape.iter().map(|&e| Ok(e)));
            if ty.dtype != output.dtype || !fits {
                let (dtype, shape) = (output.dtype, output.shape);
                return Err(Error::Call(format!("output {i} is {ty} = {expected:?}, got {dtype}{shape:?}")));
            }
        }
        let names = self.graph.inputs().iter().zip(&self.overwritten_by).filter(|(_, by)| by.is_none());
        for ((input, _), TensorRef { dtype, shape, bytes }) in names.zip(inputs) {
            if dtype.bytes_of(shape) != Some(bytes.len()) {
                let (name, got) = (&input.name, bytes.len());
                return Err(Error::Call(format!("input `{name}` is a tensor {dtype}{shape:?}, but has {got} bytes")));
            }
        }
        for (i, output) in outputs.iter().enumerate() {
            binding.extend(self.stride(i, output)?);
        }
        let shapes: Vec<&[usize]> = given.iter().map(|t| t.1).chain(outputs.iter().map(|t| t.shape)).collect();
        let (dims, rows) = self.dims.resolve(&shapes, &binding).map_err(Error::Call)?;
        let reads = inputs.iter().map(|t| (t.dtype, t.shape.to_vec(), t.bytes.len(), None));
        let writes = outputs.iter().map(|t| (t.dtype, t.shape.to_vec(), t.bytes.len(), t.stride));
        Ok(Sizes { inputs: inputs.len(), tensors: reads.chain(writes).collect(), dims, rows })
    }

    /// The integer that says how far apart the rows of an output lie, if the kernel takes one.
    fn stride(&self, i: usize, output: &TensorMut<'_>) -> Result<Option<(String, i64)>, Error> {
        let (stride, spanned) = output.span().map_err(|e| Error::Call(format!("output {i} {e}")))?;
        let got = output.bytes.len();
        let fits = if output.stride.is_some() { spanned.is_some_and(|n| n <= got) } else { spanned == Some(got) };
        if !fits {
            let (dtype, shape) = (output.dtype, output.shape);
            return Err(Error::Call(format!("output {i} is a tensor {dtype}{shape:?}, but has {got} bytes")));
        }
        match &self.strides[i] {
            Some(name) => {
                let message = |_| Error::Call(format!("output {i} has rows beyond the address space"));
                Ok(Some((name.clone(), i64::try_from(stride).map_err(message)?)))
            }
            None if output.stride.is_some() => {
                let message = format!("output {i} is given with a stride, but this kernel writes it contiguous");
                Err(Error::Call(message))
            }
            None => Ok(None),
        }
    }
}

/// The sizes of a call that was checked, so that the next one of the same is not.
#[derive(Debug)]
struct Sizes {
    inputs: usize,
    /// Dtype, shape, bytes and stride of each input, then of each output.
    tensors: Vec<(DType, Vec<usize>, usize, Option<usize>)>,
    /// Integer arguments of the launch.
    dims: Vec<i64>,
    rows: usize,
}

impl Sizes {
    fn are_of(&self, inputs: &[TensorRef<'_>], outputs: &[TensorMut<'_>]) -> bool {
        let same = |known: &(DType, Vec<usize>, usize, Option<usize>), dtype, shape: &[usize], bytes: usize, stride| {
            known.0 == dtype && known.1 == shape && known.2 == bytes && known.3 == stride
        };
        let (reads, writes) = self.tensors.split_at(self.inputs);
        reads.len() == inputs.len()
            && writes.len() == outputs.len()
            && reads.iter().zip(inputs).all(|(known, t)| same(known, t.dtype, t.shape, t.bytes.len(), None))
            && writes.iter().zip(outputs).all(|(known, t)| same(known, t.dtype, t.shape, t.bytes.len(), t.stride))
    }
}
