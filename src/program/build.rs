//! Building programs from partitioned graphs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use fusewright_abi::{DType, PayloadKind, Target};
use fusewright_codegen::backend::BackendError;
use fusewright_fusion::region::{
    FusedRegion, Kind, Partition, Step as PlannedStep, is_constant, is_layout, needs_no_kernel,
};
use fusewright_graph::tensor::Tensor;
use fusewright_graph::{
    Builder, Def, Graph, Input, InputKind, Node, NodeId, Op, Prim, TensorType, TypeError, Value, Weight,
};
use fusewright_runtime::KernelCache;

use super::Program;
use super::claims::claims;
use super::copies::{self, CopyKernel};
use super::device::{self, DeviceProgram};
use super::in_place::InPlace;
use super::layout::{Home, Layouts, lay_out};
use super::state;
use super::step::{CompiledKernel, LaunchDims, Step, Work};
use super::words;
use crate::Error;
use crate::compiler::{CompileError, Compiler, Made, content};
use crate::lowering;
use crate::matmul::widen;
use crate::watch;

/// A region or op that was to be a kernel and is not.
#[derive(Clone, Debug)]
pub struct Fallback {
    /// What it is called.
    pub label: String,
    /// Why it has no kernel.
    pub reason: String,
}

/// A program and what fell back to the reference path in it.
pub(crate) struct Built {
    pub program: Program,
    pub fallbacks: Vec<Fallback>,
    pub ops: OpCounts,
    /// Why regions and lone ops have no kernel, by their place in the partition.
    pub refused: BTreeMap<usize, String>,
}

/// Where the ops of a graph are computed. Views cost nothing and count as neither.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OpCounts {
    /// Inside generated kernels, be it one by itself.
    pub fused: usize,
    /// By a library or by the reference interpreter.
    pub unfused: usize,
}

impl OpCounts {
    /// Of a graph whose ops are all computed by the reference interpreter. Constants count as neither, too.
    pub fn by_reference(graph: &Graph) -> Self {
        let free = |op: &Op| is_layout(op) || is_constant(op);
        OpCounts { fused: 0, unfused: graph.nodes().iter().filter(|node| !free(&node.op)).count() }
    }
}

/// Compiles the regions of a partition and everything between them.
///
/// # Errors
/// Internal errors of the compiler, kernels that cannot be loaded, weights that contradict their types.
pub(crate) fn build(graph: &Graph, partition: &Partition, compiler: &Compiler) -> Result<Built, Error> {
    compiler.device(compiler.target())?;
    let mut built = build_at(graph, partition, compiler, Home::of(compiler.target()))?;
    built.program.device = DeviceProgram::of(compiler, &built.program)?;
    Ok(built)
}

/// As [`build`], for values that lie elsewhere than the target's kernels need them to.
pub(super) fn build_at(graph: &Graph, partition: &Partition, compiler: &Compiler, home: Home) -> Result<Built, Error> {
    assemble(graph, partition, (compiler, home), true, weights(graph)?)
}

/// As [`build`], to be looked at: for any target, without a device, and without the data of weights. It does not run.
///
/// # Errors
/// Internal errors of the compiler.
pub(crate) fn outline(graph: &Graph, partition: &Partition, compiler: &Compiler) -> Result<Built, Error> {
    let home = Home::of(compiler.target());
    assemble(graph, partition, (compiler, home), false, vec![None; graph.inputs().len()])
}

fn assemble(
    graph: &Graph,
    partition: &Partition,
    (compiler, home): (&Compiler, Home),
    runs: bool,
    weights: Vec<Option<Bytes>>,
) -> Result<Built, Error> {
    let (cache, kernels) = (KernelCache::default(), BTreeMap::new());
    let (in_kernels, named) = (BTreeSet::new(), BTreeSet::new());
    let mut bodies = bodies(partition)?;
    let made = made(&bodies, compiler);
    let (fallbacks, failed) = (Vec::new(), None);
    let mut build =
        Build { graph, compiler, home, runs, cache, weights, made, kernels, failed, fallbacks, named, in_kernels };
    let mut steps = Vec::with_capacity(partition.steps.len());
    let mut refused = BTreeMap::new();
    for &step in &partition.steps {
        let (before, kernel) = (steps.len(), partition.kernel_index(step));
        match (partition.kernel(step), step) {
            (Some(region), _) => {
                let body = kernel.and_then(|kernel| bodies.remove(&kernel));
                let body = body.ok_or_else(|| Error::Internal(format!("`{}` is computed twice", region.name)))?;
                let reason = build.region(region, body, &mut steps)?;
                refused.extend(kernel.zip(reason));
            }
            (None, PlannedStep::Node(id)) => build.without_kernel(id, &mut steps)?,
            (None, _) => return Err(Error::Internal("a step of the partition is missing".to_owned())),
        }
        steps[before..].iter_mut().for_each(|step| step.kernel = kernel);
    }
    // What a broken tool leaves to the host is no program of the target.
    if let Some(failed) = build.failed.take().filter(|_| build.in_kernels.is_empty()) {
        return Err(failed);
    }
    let (mut steps, layouts) = lay_out(graph, needed(graph, steps), home);
    if home == Home::Device {
        build.copies(&mut steps, &layouts)?;
        build.fallbacks.extend(steps.iter().filter_map(device::on_host));
    }
    let mut outside = BTreeSet::new();
    for step in &steps {
        let computed =
            matches!(step.work, Work::Reference(_) | Work::MatMul { .. } | Work::GroupedMatMul | Work::Attention(_));
        let Some(id) = made_by(graph, step).filter(|_| computed) else { continue };
        if matches!(step.work, Work::Reference(_)) && !build.named.contains(&id) {
            let refusal = || partition.unfused.iter().find(|unfused| unfused.node == id).map(|u| u.refusal.to_string());
            let region = step.kernel.and_then(|kernel| refused.get(&kernel)).cloned();
            let mut reason = by_reference(graph, id, region.or_else(refusal).unwrap_or_default());
            if home == Home::Device {
                reason.push_str("; it runs on the host");
            }
            build.fallbacks.push(Fallback { label: step.label.clone(), reason });
        }
        outside.insert(id);
    }
    let Build { weights, fallbacks, in_kernels, .. } = build;
    let ops = OpCounts { fused: in_kernels.len(), unfused: outside.len() };
    let (claims, planned) = (claims(graph), Mutex::default());
    let program = Program {
        graph: graph.clone(),
        steps,
        layouts,
        weights,
        attention: BTreeSet::new(),
        claims,
        planned,
        counters: compiler.counters(),
        device: None,
    };
    Ok(Built { program, fallbacks, ops, refused })
}

/// What tells kernels apart: [`content`].
type Content = (String, String);

/// The body of a region or lone op.
struct Body {
    graph: Graph,
    content: Content,
}

/// The bodies of a partition's kernels, by their place.
fn bodies(partition: &Partition) -> Result<BTreeMap<usize, Body>, Error> {
    let mut bodies = BTreeMap::new();
    for &step in &partition.steps {
        if let (Some(region), Some(kernel)) = (partition.kernel(step), partition.kernel_index(step)) {
            let graph = region.expand_body().map_err(|e| Error::Internal(e.to_string()))?;
            let content = content(&region.name, &graph);
            bodies.insert(kernel, Body { graph, content });
        }
    }
    Ok(bodies)
}

/// Compiles bodies, equal ones once.
fn made(bodies: &BTreeMap<usize, Body>, compiler: &Compiler) -> BTreeMap<Content, Result<Made, CompileError>> {
    let mut seen = BTreeSet::new();
    let distinct: Vec<&Body> = bodies.values().filter(|body| seen.insert(&body.content)).collect();
    let named: Vec<(&str, &Graph)> = distinct.iter().map(|body| (body.content.0.as_str(), &body.graph)).collect();
    let made = compiler.make_all(&named);
    distinct.iter().map(|body| body.content.clone()).zip(made).collect()
}

struct Build<'a> {
    graph: &'a Graph,
    compiler: &'a Compiler,
    home: Home,
    /// Whether kernels are loaded, to run.
    runs: bool,
    /// Loaded kernels by content, so that equal regions share one.
    cache: KernelCache,
    weights: Vec<Option<Bytes>>,
    /// What was compiled beforehand, by content.
    made: BTreeMap<Content, Result<Made, CompileError>>,
    /// Compiled kernels by content, or why there is none, so that equal regions are compiled once.
    kernels: BTreeMap<Content, Result<Arc<CompiledKernel>, String>>,
    /// The first failure of a tool of the machine.
    failed: Option<Error>,
    fallbacks: Vec<Fallback>,
    /// Nodes that are among them by their own names.
    named: BTreeSet<NodeId>,
    /// Nodes that some generated kernel computes.
    in_kernels: BTreeSet<NodeId>,
}

impl Build<'_> {
    /// A region or lone op: its kernel, or its ops one by one and why.
    fn region(&mut self, region: &FusedRegion, body: Body, steps: &mut Vec<Step>) -> Result<Option<String>, Error> {
        let reason = match self.kernel(body)? {
            Ok(kernel) => {
                steps.push(Step::new(Work::Kernel(kernel), &region.inputs, &region.outputs, region.name.clone()));
                self.in_kernels.extend(&region.nodes);
                return Ok(None);
            }
            Err(reason) => words::of_user(self.graph, &reason, &region.inputs, &region.outputs),
        };
        if let (Kind::Op, &[id]) = (region.kind, region.nodes.as_slice()) {
            self.fallbacks.push(Fallback { label: self.label(id), reason: reason.clone() });
            self.named.insert(id);
            self.without_kernel(id, steps)?;
            return Ok(Some(reason));
        }
        let before = self.fallbacks.len();
        let alone: Result<Vec<Body>, Error> =
            region.nodes.iter().filter_map(|&id| self.alone(id).transpose()).collect();
        self.prepare(&alone?);
        for &id in &region.nodes {
            self.lone(id, steps)?;
        }
        let needs_one = |id: &&NodeId| !needs_no_kernel(&self.graph.node(**id).op);
        // An op that is a region of its own has been listed by its own name.
        if self.fallbacks.len() == before || region.nodes.iter().filter(needs_one).count() > 1 {
            self.fallbacks.insert(before, Fallback { label: region.name.clone(), reason: reason.clone() });
        }
        Ok(Some(reason))
    }

    fn label(&self, id: NodeId) -> String {
        let node = self.graph.node(id);
        format!("{} [{}]", node.op.name(), self.graph.origin(node))
    }

    /// A node of a region that has no kernel: one of its own if there is one.
    fn lone(&mut self, id: NodeId, steps: &mut Vec<Step>) -> Result<(), Error> {
        let node = self.graph.node(id);
        let Some(body) = self.alone(id)? else { return self.without_kernel(id, steps) };
        match self.kernel(body)? {
            Ok(kernel) => {
                steps.push(Step::new(Work::Kernel(kernel), &node.operands, &node.results, self.label(id)));
                self.in_kernels.insert(id);
                Ok(())
            }
            Err(reason) => {
                let reason = words::of_user(self.graph, &reason, &node.operands, &node.results);
                self.fallbacks.push(Fallback { label: self.label(id), reason });
                self.named.insert(id);
                self.without_kernel(id, steps)
            }
        }
    }

    /// A node as a body of its own, if it needs a kernel.
    fn alone(&self, id: NodeId) -> Result<Option<Body>, Error> {
        let node = self.graph.node(id);
        if needs_no_kernel(&node.op) {
            return Ok(None);
        }
        let body = single(self.graph, node).and_then(|body| body.expanded());
        let graph = body.map_err(|e| Error::Internal(e.to_string()))?;
        Ok(Some(Body { content: content(node.op.name(), &graph), graph }))
    }

    /// Makes code of bodies together that are compiled next, where the backend does that.
    fn prepare(&self, bodies: &[Body]) {
        let mut seen = BTreeSet::new();
        let new = bodies.iter().filter(|body| !self.kernels.contains_key(&body.content) && seen.insert(&body.content));
        let named: Vec<(&str, &Graph)> = new.map(|body| (body.content.0.as_str(), &body.graph)).collect();
        self.compiler.prepare(&named);
    }

    /// A node that a library computes, that costs nothing, or that is left to the reference interpreter.
    fn without_kernel(&mut self, id: NodeId, steps: &mut Vec<Step>) -> Result<(), Error> {
        let work = self.work(id)?;
        let node = self.graph.node(id);
        steps.push(Step::new(work, &node.operands, &node.results, self.label(id)));
        Ok(())
    }

    fn work(&self, id: NodeId) -> Result<Work, Error> {
        let node = self.graph.node(id);
        match &node.op {
            op if is_layout(op) => return Ok(Work::View),
            Op::Prim(Prim::MatMul { transpose_b, .. }) if node.operands.iter().all(|&v| self.multiplies(v)) => {
                let widened = if self.home == Home::Host { self.widened(node.operands[1])? } else { None };
                return Ok(Work::MatMul { transpose_b: *transpose_b, widened });
            }
            Op::Prim(Prim::MatMul { transpose_b, .. })
                if self.home == Home::Device && lowering::takes_ints(self.graph, node) =>
            {
                return Ok(Work::MatMul { transpose_b: *transpose_b, widened: None });
            }
            Op::Prim(Prim::GroupedMatMul { .. }) if node.operands[..2].iter().all(|&v| self.multiplies(v)) => {
                return Ok(Work::GroupedMatMul);
            }
            Op::Prim(Prim::Sdpa(sdpa)) if node.operands.iter().enumerate().all(|(i, &v)| self.attends(i, v)) => {
                return Ok(Work::Attention(sdpa.clone()));
            }
            _ => {}
        }
        let body = Arc::new(single(self.graph, node).map_err(|e| Error::Internal(e.to_string()))?);
        Ok(if is_constant(&node.op) { Work::Constant(body) } else { Work::Reference(body) })
    }

    /// The kernel of a body, loaded if it is to run, or why it has none.
    fn kernel(&mut self, body: Body) -> Result<Result<Arc<CompiledKernel>, String>, Error> {
        let Body { graph, content } = body;
        if let Some(known) = self.kernels.get(&content) {
            let compiler = self.compiler;
            watch::known(&content.0, compiler.target(), compiler.backend().about().name);
            return Ok(known.clone());
        }
        let made = self.made.remove(&content).unwrap_or_else(|| self.compiler.make(&content.0, &graph));
        let kernel = match made {
            Ok(made) => Ok(Arc::new(self.loaded(made, &graph)?)),
            Err(CompileError::Dump(error) | CompileError::Replaced(error)) => return Err(*error),
            Err(error @ CompileError::Backend(BackendError::Target { .. } | BackendError::Memory { .. })) => {
                return Err(error.into());
            }
            // What the host model is for is to object to code: nothing is computed around it.
            Err(error @ CompileError::Backend(BackendError::Internal { .. }))
                if matches!(self.compiler.target(), Target::AscendSim { .. }) =>
            {
                return Err(error.into());
            }
            Err(refused) => {
                let said = refused.to_string();
                if matches!(refused, CompileError::Backend(BackendError::Tool { .. })) {
                    self.failed.get_or_insert_with(|| refused.into());
                }
                Err(said)
            }
        };
        self.kernels.insert(content, kernel.clone());
        Ok(kernel)
    }

    fn loaded(&self, made: Made, body: &Graph) -> Result<CompiledKernel, Error> {
        if self.runs && made.artifact.payload.kind == PayloadKind::AscendC {
            return Err(Error::Unavailable(format!(
                "target `{}`: kernels are Ascend C that nothing here compiles: no toolkit of CANN and no libacl_rtc.so was \
                 found (`FUSEWRIGHT_ASCEND_TOOLKIT` names one)",
                self.compiler.target()
            )));
        }
        let load = || self.cache.get_or_make(made.artifact.key, || self.compiler.load(&made));
        let module = self.runs.then(load).transpose()?;
        let Made { artifact, apart, .. } = made;
        let early = artifact.params.iter().enumerate().filter(|(_, param)| param.early).map(|(i, _)| i).collect();
        Ok(CompiledKernel {
            dims: LaunchDims::of(&artifact),
            in_place: InPlace::of(&artifact, body.inputs().len()),
            apart,
            early,
            key: artifact.key,
            bytes: artifact.payload.bytes.len(),
            alignment: artifact.launch.alignment as usize,
            module,
        })
    }

    /// Gives the copies of views a kernel each, as far as there is one.
    fn copies(&mut self, steps: &mut [Step], layouts: &Layouts) -> Result<(), Error> {
        let (mut copied, mut bodies) = (Vec::new(), Vec::new());
        for step in steps.iter_mut().filter(|step| matches!(step.work, Work::Copy(_))) {
            let body = copies::body(self.graph, layouts, step.outputs[0]);
            let Some(copy) = body.map_err(|e| Error::Internal(format!("{}: {e}", step.label)))? else { continue };
            bodies.push(Body { content: content("copy", &copy.body), graph: copy.body });
            copied.push((step, copy.source, copy.order));
        }
        self.prepare(&bodies);
        for ((step, source, order), body) in copied.into_iter().zip(bodies) {
            // Without one, the copy is listed with what else runs on the host.
            if let Ok(kernel) = self.kernel(body)? {
                step.work = Work::Copy(Some(CopyKernel { kernel, source, order }));
            }
        }
        Ok(())
    }

    /// Whether the matrix product library takes a value's dtype.
    fn multiplies(&self, value: Value) -> bool {
        let dtype = self.graph.ty(value).dtype;
        if self.home == Home::Device { lowering::is_taken(dtype) } else { widen(dtype, &[]).is_some() }
    }

    /// Whether attention takes a value as its `i`-th operand.
    fn attends(&self, i: usize, value: Value) -> bool {
        self.multiplies(value) || (i == 3 && self.graph.ty(value).dtype == DType::Bool)
    }

    /// The elements of a weight as f32, so that calls need not widen them; not of a buffer that calls may change.
    fn widened(&self, value: Value) -> Result<Option<Arc<Vec<f32>>>, Error> {
        let inputs = self.graph.inputs();
        let Some(index) = inputs.iter().position(|i| i.value == value) else { return Ok(None) };
        let changes = state::buffers(self.graph).any(|(buffer, _)| buffer == index);
        let Some(bytes) = self.weights[index].as_ref().filter(|_| !changes) else { return Ok(None) };
        check_weight(&inputs[index])?;
        Ok(widen(self.graph.ty(value).dtype, bytes).map(Arc::new))
    }
}

/// The node whose results a step that is no kernel makes.
pub(crate) fn made_by(graph: &Graph, step: &Step) -> Option<NodeId> {
    step.outputs.iter().find_map(|&value| match graph.def(value) {
        Def::Node(id, _) => Some(id),
        Def::Input(_) => None,
    })
}

/// Why an op that has no kernel is left to the reference: a library that computes such ops does not take it, or none does.
fn by_reference(graph: &Graph, id: NodeId, otherwise: String) -> String {
    match &graph.node(id).op {
        Op::Prim(Prim::MatMul { .. } | Prim::GroupedMatMul { .. } | Prim::Sdpa(_)) => {
            let dtypes = graph.node(id).operands.iter().map(|&v| graph.ty(v).dtype.name()).collect::<Vec<_>>();
            format!("no library takes operands in {}", dtypes.join(", "))
        }
        _ => otherwise,
    }
}

/// A graph of one node.
pub(crate) fn single(graph: &Graph, node: &Node) -> Result<Graph, TypeError> {
    let b = Builder::new(node.op.name());
    for symbol in graph.symbols() {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
    b.set_origin(node.origin.clone());
    let operands: Vec<Value> =
        node.operands.iter().enumerate().map(|(i, &v)| b.input(&format!("x{i}"), graph.ty(v).clone())).collect();
    for result in b.op(node.op.clone(), &operands)? {
        b.output(result);
    }
    Ok(b.finish())
}

/// The steps that the outputs depend on, in order, none twice: regions that fell back bring their own copies of
/// constants and views.
fn needed(graph: &Graph, steps: Vec<Step>) -> Vec<Step> {
    let mut wanted: BTreeSet<Value> = graph.outputs().iter().map(|o| o.value).collect();
    let mut kept: Vec<Step> = Vec::with_capacity(steps.len());
    for step in steps.into_iter().rev() {
        if step.outputs.iter().any(|v| wanted.contains(v)) {
            wanted.extend(&step.inputs);
            kept.push(step);
        }
    }
    kept.reverse();
    let mut made: BTreeSet<Value> = BTreeSet::new();
    kept.retain(|step| {
        let fresh = step.outputs.iter().any(|v| !made.contains(v));
        made.extend(&step.outputs);
        fresh
    });
    kept
}

/// Checks the checksum of an input's bytes, the first time by reading them.
///
/// # Errors
/// Bytes that are not those of the file when it was written.
pub(crate) fn check_weight(input: &Input) -> Result<(), Error> {
    let InputKind::Weight(Some(weight)) = &input.kind else { return Ok(()) };
    weight.checked().map(drop).map_err(|message| Error::Input(format!("weight `{}`: {message}", input.name)))
}

/// Contiguous bytes of every weight: the file's own where they are contiguous already.
fn weights(graph: &Graph) -> Result<Vec<Option<Bytes>>, Error> {
    let bytes = |name: &str, ty: &TensorType, weight: &Weight| -> Result<Bytes, Error> {
        let constant = |e: &fusewright_graph::Dim| e.as_const().and_then(|n| usize::try_from(n).ok());
        let bad = |message: String| Error::Input(format!("weight `{name}`: {message}"));
        let shape: Option<Vec<usize>> = ty.shape.iter().map(constant).collect();
        let shape = shape.ok_or_else(|| bad(format!("the shape of {ty} is not known")))?;
        let mut stride = 1;
        let mut contiguous = ty.dtype.bits() >= 8;
        for (&extent, &step) in shape.iter().zip(&weight.strides).rev() {
            contiguous &= extent == 1 || step == stride;
            stride *= extent;
        }
        let (width, count) = (ty.dtype.bytes_for(1), shape.iter().product::<usize>());
        let range = weight.offset * width..(weight.offset + count) * width;
        if contiguous && range.end <= weight.storage.len() {
            // The checksum is checked when the bytes are first used.
            return Ok(weight.storage.slice(range));
        }
        let tensor: Tensor = Tensor::from_weight(ty.dtype, &shape, weight).map_err(|e| bad(e.to_string()))?;
        Ok(Bytes::from(tensor.try_to_bytes()?))
    };
    let of_input = |input: &Input| match &input.kind {
        InputKind::User | InputKind::Settled | InputKind::Weight(None) => Ok(None),
        InputKind::Weight(Some(weight)) => bytes(&input.name, graph.ty(input.value), weight).map(Some),
    };
    graph.inputs().iter().map(of_input).collect()
}
