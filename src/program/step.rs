//! Steps of a program and how each is carried out.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use bytes::Bytes;
use fusewright_abi::{ContentKey, Count, DType, DimArg, DimSource, KernelArtifact};
use fusewright_graph::prim::Sdpa;
use fusewright_graph::tensor::{Tensor, check_memory};
use fusewright_graph::{Graph, Input, Node, Op, Prim, Value, interp};
use fusewright_runtime::{Arg, Module};

use super::argument::UserMemory;
use super::build::check_weight;
use super::copies::CopyKernel;
use super::in_place::InPlace;
use super::plan::{Binding, Place, Plan, Slot};
use crate::attention::{AttentionRule, AttentionShape, Bias, attention};
use crate::compiler::Apart;
use crate::matmul::{MatMulShape, grouped_matmul, matmul, narrow, rounding, widen};
use crate::model::not_run;
use crate::{Error, guard};

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    /// Launches a generated kernel.
    Kernel(Arc<CompiledKernel>),
    /// Multiplies matrices; the right operand may be a weight widened beforehand.
    MatMul { transpose_b: bool, widened: Option<Arc<Vec<f32>>> },
    /// A product of rows, each with the matrix of its group.
    GroupedMatMul,
    /// Attends queries to keys and values.
    Attention(Sdpa),
    /// The elements of an operand as they lie, under another shape or at other strides.
    View,
    /// The elements of a view in row-major order; on a device by a kernel.
    Copy(Option<CopyKernel>),
    /// A value that depends on the symbols alone; the plan holds it.
    Constant(Arc<Graph>),
    /// Evaluates a graph by the reference interpreter.
    Reference(Arc<Graph>),
}

/// A kernel that is made, and loaded where it is to run.
#[derive(Debug)]
pub(crate) struct CompiledKernel {
    pub dims: LaunchDims,
    pub in_place: InPlace,
    /// Outputs that were to lie in the memory of inputs and may not.
    pub apart: Vec<Apart>,
    /// Arguments that a dependent launch reads while the launch before it runs.
    pub early: Vec<usize>,
    pub key: ContentKey,
    /// Size of its code.
    pub bytes: usize,
    /// What the address of every buffer is a multiple of.
    pub alignment: usize,
    /// Not there in a program that is made to be looked at.
    pub module: Option<Arc<dyn Module>>,
}

/// How the integer arguments and the row count of a launch follow from the shapes of its tensors.
#[derive(Debug)]
pub(crate) struct LaunchDims {
    dims: Vec<DimArg>,
    rows: Count,
}

impl LaunchDims {
    /// Of an artifact.
    pub fn of(artifact: &KernelArtifact) -> Self {
        LaunchDims { dims: artifact.dims.clone(), rows: artifact.launch.rows.clone() }
    }

    /// Integer arguments and number of rows for contiguous tensors of the given shapes.
    ///
    /// # Errors
    /// A symbol that nothing binds.
    pub fn resolve(&self, shapes: &[&[usize]], binding: &Binding) -> Result<(Vec<i64>, usize), String> {
        let value = |dim: &DimArg| match dim.source {
            DimSource::Extent { param, axis } => Ok(shapes[param][axis] as i64),
            DimSource::Stride { param, axis } => Ok(shapes[param][axis + 1..].iter().product::<usize>() as i64),
            DimSource::Symbol => {
                binding.get(&dim.name).copied().ok_or_else(|| format!("symbol `{}` has no value", dim.name))
            }
        };
        let dims = self.dims.iter().map(value).collect::<Result<Vec<i64>, String>>()?;
        let rows = self.rows.count(&dims);
        Ok((dims, rows))
    }
}

/// One step: reads values, makes values.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub work: Work,
    pub inputs: Vec<Value>,
    pub outputs: Vec<Value>,
    /// What to call the step in errors and reports.
    pub label: String,
    /// The kernel of the partition that it is, or is a part of.
    pub kernel: Option<usize>,
}

impl Step {
    /// Why nothing here computes the step, if that is so.
    pub fn not_run(&self) -> Option<&'static str> {
        let Work::Reference(body) = &self.work else { return None };
        body.nodes().iter().find_map(|node| not_run(&node.op))
    }
}

/// The memory of one call.
pub(crate) struct Memory<'a> {
    pub users: Vec<UserMemory<'a>>,
    pub weights: &'a [Option<Bytes>],
    /// The inputs of the graph, in the order of `weights`.
    pub inputs: &'a [Input],
    pub buffers: &'a mut [Vec<u8>],
    pub constants: &'a [Vec<u8>],
    pub threads: usize,
    /// Whether guard bytes stand behind what kernels write.
    pub guarded: bool,
}

impl Memory<'_> {
    /// The elements of a slot in row-major order, borrowed where they lie so.
    pub fn elements(&self, slot: &Slot) -> Result<Cow<'_, [u8]>, Error> {
        let (memory, bits) = (self.place(slot.place)?, slot.dtype.bits());
        let start = slot.strided.offset * bits as usize;
        if slot.strided.is_contiguous() && start.is_multiple_of(8) {
            return Ok(Cow::Borrowed(&memory[start / 8..][..slot.bytes]));
        }
        Ok(Cow::Owned(slot.strided.gather(bits, memory)?))
    }

    /// All bytes of a place.
    fn place(&self, place: Place) -> Result<&[u8], Error> {
        match place {
            Place::User(i) => Ok(self.users[i].bytes()),
            Place::Weight(i) => {
                let input = &self.inputs[i];
                let missing = || Error::Call(format!("weight `{}` has no data in the file of the model", input.name));
                let bytes = self.weights[i].as_ref().ok_or_else(missing)?;
                check_weight(input)?;
                Ok(bytes)
            }
            Place::Buffer(i) => Ok(&self.buffers[i]),
            Place::Constant(i) => Ok(&self.constants[i]),
        }
    }

    /// Overwrites a tensor of the caller, if it may be.
    pub fn overwrite(&mut self, user: usize, bytes: &[u8]) {
        if let Some(tensor) = self.users[user].overwritten() {
            tensor.copy_from_slice(bytes);
        }
    }
}

impl Step {
    /// A step that is part of no kernel of the partition.
    pub fn new(work: Work, inputs: &[Value], outputs: &[Value], label: String) -> Self {
        Step { work, inputs: inputs.to_vec(), outputs: outputs.to_vec(), label, kernel: None }
    }

    /// Whether its result is a copy of its first operand, of which the interpreter may have overwritten chosen places.
    pub fn copies_first(&self) -> bool {
        let is_write = |node: &Node| matches!(node.op, Op::Prim(Prim::Scatter { .. }));
        match &self.work {
            Work::Copy(_) => true,
            Work::Reference(body) => body.nodes().iter().any(is_write),
            _ => false,
        }
    }

    /// Carries the step out.
    ///
    /// # Errors
    /// A launch or an evaluation that fails, naming the step.
    pub fn run(&self, plan: &Plan, memory: &mut Memory<'_>) -> Result<(), Error> {
        self.carry_out(plan, memory).map_err(|error| match error {
            Error::Call(message) if message.starts_with(&self.label) => Error::Call(message),
            Error::Input(message) => Error::Input(message),
            other => other.about(&self.label),
        })
    }

    fn carry_out(&self, plan: &Plan, memory: &mut Memory<'_>) -> Result<(), Error> {
        let inputs = self.inputs.iter().map(|&v| plan.get(v)).collect::<Result<Vec<_>, _>>()?;
        let outputs = self.outputs.iter().map(|&v| plan.get(v)).collect::<Result<Vec<_>, _>>()?;
        match &self.work {
            Work::View | Work::Constant(_) => Ok(()),
            Work::Copy(_) => {
                let source = plan.copies.get(&self.outputs[0]);
                let source = source.ok_or_else(|| Error::Internal(format!("{}: nothing to copy", self.label)))?;
                let elements = memory.elements(source)?.into_owned();
                write(memory, outputs[0], &elements);
                Ok(())
            }
            Work::Kernel(kernel) => self.launch(kernel, plan, &inputs, &outputs, memory),
            Work::MatMul { transpose_b, widened } => {
                self.matmul(*transpose_b, widened.as_deref(), &inputs, outputs[0], memory)
            }
            Work::GroupedMatMul => self.grouped_matmul(&inputs, outputs[0], memory),
            Work::Attention(sdpa) => self.attention(sdpa, &inputs, outputs[0], memory),
            Work::Reference(graph) => self.reference(graph, &plan.binding, [&inputs, &outputs], memory),
        }
    }

    fn launch(
        &self,
        kernel: &CompiledKernel,
        plan: &Plan,
        inputs: &[&Slot],
        outputs: &[&Slot],
        memory: &mut Memory<'_>,
    ) -> Result<(), Error> {
        let slots: Vec<&Slot> = inputs.iter().chain(outputs).copied().collect();
        let shapes: Vec<&[usize]> = slots.iter().map(|slot| slot.shape.as_slice()).collect();
        let (dims, rows) = kernel.dims.resolve(&shapes, &plan.binding).map_err(|m| self.error(m))?;
        // Outputs are taken out of the memory of the call while the kernel borrows the rest of it.
        let mut taken: Vec<Taken<'_>> = outputs.iter().map(|slot| take(memory, slot)).collect();
        let result = self.launch_on(kernel, [inputs, outputs], memory, &mut taken, (&dims, rows));
        for (slot, buffer) in outputs.iter().zip(taken) {
            put_back(memory, slot, buffer);
        }
        result
    }

    /// Launches a kernel that writes to `taken`.
    fn launch_on(
        &self,
        kernel: &CompiledKernel,
        [inputs, outputs]: [&[&Slot]; 2],
        memory: &Memory<'_>,
        taken: &mut [Taken<'_>],
        (dims, rows): (&[i64], usize),
    ) -> Result<(), Error> {
        let mut same: Vec<Option<usize>> = vec![None; inputs.len()];
        for alias in kernel.in_place.aliases().filter(|a| outputs[a.output].place == inputs[a.input].place) {
            same[alias.input] = Some(inputs.len() + alias.output);
        }
        let mut reads = Vec::with_capacity(inputs.len());
        for (slot, same) in inputs.iter().zip(same) {
            reads.push(match same {
                Some(output) => Err(output),
                None => Ok(memory.elements(slot)?),
            });
        }
        for alias in kernel.in_place.aliases().filter(|alias| alias.begins) {
            if let Ok(old) = &reads[alias.input] {
                taken[alias.output][..outputs[alias.output].bytes].copy_from_slice(old);
            }
        }
        if memory.guarded {
            taken.iter_mut().zip(outputs).for_each(|(buffer, slot)| buffer.arm(slot.bytes));
        }
        let mut args: Vec<Arg<'_>> = Vec::with_capacity(reads.len() + taken.len());
        args.extend(reads.iter().map(|read| match read {
            Ok(bytes) => Arg::In(bytes),
            Err(output) => Arg::Same(*output),
        }));
        args.extend(taken.iter_mut().zip(outputs).map(|(buffer, slot)| Arg::Out(&mut buffer[..slot.bytes])));
        let module = kernel.module.as_ref();
        let module = module.ok_or_else(|| Error::Internal(format!("{}: its code is not loaded", self.label)))?;
        let launched = module.launch(&mut args, dims, rows, memory.threads);
        launched.map_err(|e| Error::from(e).about(&self.label))?;
        let mut written = taken.iter().zip(outputs).enumerate().filter(|_| memory.guarded);
        written.try_for_each(|(i, (buffer, slot))| {
            let behind =
                |at: usize| format!("output {i} holds {} bytes, byte {} was written", slot.bytes, slot.bytes + at);
            guard::check(buffer, slot.bytes).map_err(|at| Error::Internal(format!("{}: {}", self.label, behind(at))))
        })
    }

    fn matmul(
        &self,
        transpose_b: bool,
        widened: Option<&Vec<f32>>,
        inputs: &[&Slot],
        output: &Slot,
        memory: &mut Memory<'_>,
    ) -> Result<(), Error> {
        let (a, b) = (inputs[0], inputs[1]);
        let shape = matmul_shape(a, b, output, transpose_b);
        let unsupported = |dtype: DType| self.error(format!("matrix product of {dtype}"));
        check_widened(inputs.iter().take(if widened.is_some() { 1 } else { 2 }).chain([&output]))?;
        let left = widen(a.dtype, &memory.elements(a)?).ok_or_else(|| unsupported(a.dtype))?;
        let product = match widened {
            Some(right) => matmul(shape, &left, right),
            None => {
                let right = widen(b.dtype, &memory.elements(b)?).ok_or_else(|| unsupported(b.dtype))?;
                matmul(shape, &left, &right)
            }
        };
        write_narrowed(memory, output, &product).ok_or_else(|| unsupported(output.dtype))
    }

    fn grouped_matmul(&self, inputs: &[&Slot], output: &Slot, memory: &mut Memory<'_>) -> Result<(), Error> {
        let [x, w, ends] = *inputs else { return Err(self.error("takes 3 operands".to_owned())) };
        let unsupported = |dtype: DType| self.error(format!("matrix product of {dtype}"));
        check_widened([x, w, output].iter())?;
        let rows = widen(x.dtype, &memory.elements(x)?).ok_or_else(|| unsupported(x.dtype))?;
        let matrices = widen(w.dtype, &memory.elements(w)?).ok_or_else(|| unsupported(w.dtype))?;
        let bytes = memory.elements(ends)?;
        let ends = Tensor::from_bytes(ends.dtype, &ends.shape, &bytes)?;
        let ends = ends.ints().ok_or_else(|| self.error(format!("groups that end at {}", ends.dtype())))?;
        let shape = [x.shape[0], x.shape[1], w.shape[2]];
        let product = grouped_matmul(shape, &rows, &matrices, ends);
        write_narrowed(memory, output, &product).ok_or_else(|| unsupported(output.dtype))
    }

    fn attention(&self, sdpa: &Sdpa, inputs: &[&Slot], output: &Slot, memory: &mut Memory<'_>) -> Result<(), Error> {
        let (q, k, v) = (inputs[0], inputs[1], inputs[2]);
        let shape = AttentionShape {
            batch: q.shape[0],
            query_heads: q.shape[1],
            key_heads: k.shape[1],
            queries: q.shape[2],
            keys: k.shape[2],
            depth: q.shape[3],
            value_depth: v.shape[3],
        };
        let unsupported = || self.error(format!("attention over {}", q.dtype));
        check_widened(inputs.iter().chain([&output]))?;
        let round = if sdpa.wide { |x| x } else { rounding(q.dtype).ok_or_else(unsupported)? };
        let rule = AttentionRule { causal: sdpa.causal, scale: f64::from_bits(sdpa.scale_bits) as f32, round };
        let read = |slot: &Slot| widen(slot.dtype, &memory.elements(slot)?).ok_or_else(unsupported);
        let (queries, keys, values) = (read(q)?, read(k)?, read(v)?);
        // What stretches is read once.
        let mask = inputs.get(3).map(|mask| mask.unstretched());
        let bias = match &mask {
            Some(mask) if mask.dtype == DType::Bool => {
                let seen = memory.elements(mask)?;
                let flags = seen.iter().map(|&seen| if seen == 0 { f32::NEG_INFINITY } else { 0.0 });
                Some(Bias::new(flags.collect(), &mask.shape))
            }
            Some(mask) => Some(Bias::new(read(mask)?, &mask.shape)),
            None => None,
        };
        let result = attention(shape, rule, [&queries, &keys, &values], bias.as_ref());
        write_narrowed(memory, output, &result).ok_or_else(unsupported)
    }

    /// One node by the reference interpreter; the shapes of its operands alone need not give the symbols.
    fn reference(
        &self,
        graph: &Graph,
        binding: &Binding,
        [inputs, outputs]: [&[&Slot]; 2],
        memory: &mut Memory<'_>,
    ) -> Result<(), Error> {
        let mut tensors = Vec::with_capacity(inputs.len());
        for slot in inputs {
            let tensor = Tensor::from_bytes(slot.dtype, &slot.shape, &memory.elements(slot)?);
            tensors.push(tensor?);
        }
        let results = interp::run(graph, &tensors, binding)?;
        for (slot, result) in outputs.iter().zip(results) {
            write(memory, slot, &result.try_to_bytes()?);
        }
        Ok(())
    }

    fn error(&self, message: String) -> Error {
        Error::Call(format!("{}: {message}", self.label))
    }
}

/// Whether the machine has memory for tensors as f32.
fn check_widened<'a>(slots: impl Iterator<Item = &'a &'a Slot>) -> Result<(), Error> {
    let (mut elements, mut largest) = (0usize, None::<&Slot>);
    for &slot in slots {
        elements = elements.saturating_add(slot.elements());
        largest = largest.filter(|other| other.elements() >= slot.elements()).or(Some(slot));
    }
    largest.map_or(Ok(()), |slot| Ok(check_memory::<f32>(elements, slot.dtype, &slot.shape)?))
}

fn matmul_shape(a: &Slot, b: &Slot, out: &Slot, transpose_b: bool) -> MatMulShape {
    let rank = a.shape.len();
    MatMulShape {
        batch: a.shape[..rank - 2].iter().product(),
        batched_b: b.shape.len() > 2,
        m: a.shape[rank - 2],
        k: a.shape[rank - 1],
        n: out.shape[out.shape.len() - 1],
        transpose_b,
    }
}

/// Writes the elements of a slot, given in row-major order.
fn write(memory: &mut Memory<'_>, slot: &Slot, elements: &[u8]) {
    let mut out = take(memory, slot);
    slot.strided.scatter(slot.dtype.bits(), elements, &mut out);
    put_back(memory, slot, out);
}

/// Rounds f32 values to a slot's dtype; `None` if it has no such rounding.
fn write_narrowed(memory: &mut Memory<'_>, slot: &Slot, values: &[f32]) -> Option<()> {
    if slot.strided.is_contiguous() {
        let mut out = take(memory, slot);
        let done = narrow(slot.dtype, values, &mut out[..slot.bytes]);
        put_back(memory, slot, out);
        return done;
    }
    let mut rounded = vec![0; slot.bytes];
    narrow(slot.dtype, values, &mut rounded)?;
    write(memory, slot, &rounded);
    Some(())
}

/// Memory that is taken out of that of a call while a step writes to it.
enum Taken<'a> {
    Own(Vec<u8>),
    Lent(&'a mut [u8]),
}

impl Taken<'_> {
    /// Writes guard bytes behind the first `used`; memory of others has no room for them.
    fn arm(&mut self, used: usize) {
        if let Taken::Own(buffer) = self {
            guard::arm(buffer, used);
        }
    }
}

impl Deref for Taken<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Taken::Own(buffer) => buffer,
            Taken::Lent(bytes) => bytes,
        }
    }
}

impl DerefMut for Taken<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Taken::Own(buffer) => buffer,
            Taken::Lent(bytes) => bytes,
        }
    }
}

fn take<'a>(memory: &mut Memory<'a>, slot: &Slot) -> Taken<'a> {
    match slot.place {
        Place::Buffer(i) => Taken::Own(std::mem::take(&mut memory.buffers[i])),
        Place::User(i) => match &mut memory.users[i] {
            UserMemory::InOut(bytes) => Taken::Own(std::mem::take(*bytes)),
            UserMemory::LentInOut(bytes) => Taken::Lent(std::mem::take(bytes)),
            UserMemory::Read(_) => Taken::Own(Vec::new()),
        },
        Place::Weight(_) | Place::Constant(_) => Taken::Own(Vec::new()),
    }
}

fn put_back<'a>(memory: &mut Memory<'a>, slot: &Slot, taken: Taken<'a>) {
    match (slot.place, taken) {
        (Place::Buffer(i), Taken::Own(buffer)) => memory.buffers[i] = buffer,
        (Place::User(i), taken) => match (&mut memory.users[i], taken) {
            (UserMemory::InOut(bytes), Taken::Own(mut buffer)) => {
                // Guard bytes are none of the caller's.
                buffer.truncate(slot.bytes);
                **bytes = buffer;
            }
            (UserMemory::LentInOut(bytes), Taken::Lent(taken)) => *bytes = taken,
            _ => {}
        },
        _ => {}
    }
}
