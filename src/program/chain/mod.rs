//! Kernels in order on memory of the caller: what a framework gives a part of its own graph away to.
//!
//! A [`Program`] has results in memory of its own, and computes by a library or by reference what no kernel computes. A
//! chain does neither: every op is in a generated kernel, inputs are read and outputs are written where the caller has
//! them, and what lies between kernels is in memory that the caller may bring. A graph that is more than that is no chain;
//! [`Chain::of`] says which of its nodes are in the way, so that the caller keeps those and tries again.
//!
//! Sizes are fitted once ([`Chain::fit`]); a call at sizes that were met before computes none. A chain for a GPU runs on every
//! device of its kind, that of the stream of a call.

mod copied;
mod fit;
mod launch;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use fusewright_abi::{DType, Target};
use fusewright_fusion::region::{Partition, Step as PlannedStep, is_constant, is_layout};
use fusewright_graph::{Def, Dim, Graph, Node, NodeId, Op, Prim, TensorType, Value};
use fusewright_runtime::CodeCounts;
use fusewright_runtime::cuda::Gpu;

use super::build::build_at;
use super::in_place::Alias;
use super::layout::{Home, Layouts};
use super::plan::bind;
use super::plans::Plans;
use super::step::{Step, Work};
use super::{Program, made_by};
use crate::compile::fuse;
use crate::compiler::Compiler;
use crate::explain::{Explanation, explain};
use crate::settled::Ahead;
use crate::{Error, Fused, Options, watch};

pub use fit::Fitted;

/// Kernels that compute a graph, on memory of the caller.
#[derive(Debug)]
pub struct Chain {
    program: Program,
    /// The memory of each output: the order of its axes from the outermost to the innermost.
    orders: Vec<Vec<usize>>,
    /// What each output is the memory of.
    bases: Vec<Value>,
    /// By output, the input whose memory it is, of which kernels overwrite a part.
    overwritten: Vec<Option<usize>>,
    /// The kernels whose rows write to one place at most of whatever they overwrite.
    once: BTreeSet<usize>,
    regions: Vec<ChainRegion>,
    bodies: Vec<Graph>,
    explanation: Explanation,
    compiled: usize,
    from_disk: usize,
    /// Where the kernels run, if not on this machine's processor.
    gpu: Option<Gpu>,
    /// Of the last call.
    last: ArcSwapOption<Fitted>,
    known: Mutex<Plans<Vec<i64>, Arc<Fitted>>>,
}

/// A kernel of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainRegion {
    /// Name of the pattern, or of the kind of fusion.
    pub name: String,
    /// Names of its ops, in order.
    pub ops: Vec<String>,
    /// The framework's nodes that it computes, in order, each once.
    pub nodes: Vec<String>,
}

/// An output of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainOutput<'c> {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: &'c [Dim],
    /// The axes from the outermost in memory to the innermost; in that order the elements lie without gaps.
    pub order: &'c [usize],
    /// The input whose memory it is: kernels overwrite a part of that, which calls give as this output alone.
    pub overwrites: Option<usize>,
}

/// Something that keeps a graph from being a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outside {
    /// The framework's nodes that it is about; none of a graph that no node in particular spoils.
    pub nodes: Vec<String>,
    /// The output that it is about, if it is one.
    pub output: Option<usize>,
    /// Why.
    pub reason: String,
}

/// What became of a graph.
#[derive(Debug)]
pub enum Attempt {
    /// It is a chain.
    Chain(Box<Chain>),
    /// It is not, because of these.
    Outside(Vec<Outside>),
}

impl Chain {
    /// Compiles a graph, if generated kernels compute all of it.
    ///
    /// # Errors
    /// A graph with weights; a target that is not available; kernels that cannot be loaded; internal errors.
    pub fn of(graph: &Graph, target: &Target, options: &Options) -> Result<Attempt, Error> {
        fusewright_graph::verify::verify(graph).map_err(|e| Error::of_diagnostics(&e))?;
        if let Some(weight) = graph.inputs().iter().find(|input| !input.kind.is_given()) {
            return Err(Error::Input(format!("a chain has no weights, and `{}` is one", weight.name)));
        }
        let compiler = Compiler::of(target, options)?;
        let _watched = watch::graph(graph, target);
        // What its inputs are was enqueued by somebody else just before.
        let mut fused = fuse(graph, options, Some(target), Ahead::Anything)?;
        copied::copied(&fused.graph, &mut fused.partition).map_err(|e| Error::Internal(e.to_string()))?;
        // Before anything is compiled.
        let outside = without_kernels(&fused.graph, &fused.partition);
        if !outside.is_empty() {
            return Ok(Attempt::Outside(outside));
        }
        let built = build_at(&fused.graph, &fused.partition, &compiler, Home::Host)?;
        let program = built.program.claiming(graph);
        let mut outside = beside_kernels(&program, &fused, &built.fallbacks);
        let once = writing_once(&fused.partition)?;
        if Home::of(target) == Home::Device {
            outside.extend(one_by_one(&program, &fused, &once));
        }
        if !outside.is_empty() {
            return Ok(Attempt::Outside(outside));
        }
        let (orders, bases) = match landings(&program) {
            Ok(landings) => landings,
            Err(outside) => return Ok(Attempt::Outside(outside)),
        };
        let mut overwritten = vec![None; bases.len()];
        for (step, alias) in program.steps.iter().flat_map(partly) {
            let input = overwritten_input(&program, step, alias);
            let output = bases.iter().position(|&base| base == step.outputs[alias.output]);
            if let Some(output) = output {
                overwritten[output] = input;
            }
        }
        // Behind outputs, of which one that is constant is to blame by itself: equal constants of several ops are one.
        let outside = constants_elsewhere(&program, target);
        if !outside.is_empty() {
            return Ok(Attempt::Outside(outside));
        }
        let bodies: Result<Vec<Graph>, Error> = fused
            .partition
            .kernels()
            .map(|region| region.expand_body().map_err(|e| Error::Internal(e.to_string())))
            .collect();
        let log = compiler.log();
        let from_disk = log.iter().filter(|kernel| kernel.from_disk).count();
        Ok(Attempt::Chain(Box::new(Chain {
            program,
            orders,
            bases,
            overwritten,
            once,
            regions: fused.partition.kernels().map(|region| described(&fused.graph, region)).collect(),
            bodies: bodies?,
            explanation: explain(&fused)?,
            compiled: log.len() - from_disk,
            from_disk,
            gpu: matches!(target, Target::Cuda { .. }).then(|| compiler.gpu()).transpose()?,
            last: ArcSwapOption::empty(),
            known: Mutex::default(),
        })))
    }

    /// Names of the symbols, in the order in which [`Chain::fit`] takes their values.
    pub fn symbols(&self) -> impl Iterator<Item = &str> {
        self.program.graph.symbols().iter().map(|symbol| symbol.name.as_str())
    }

    /// Types of the inputs, in order.
    pub fn inputs(&self) -> Vec<&TensorType> {
        let graph = &self.program.graph;
        graph.inputs().iter().map(|input| graph.ty(input.value)).collect()
    }

    /// The values of the symbols, in the order of [`Chain::symbols`], at which inputs have these dtypes and extents.
    ///
    /// # Errors
    /// Tensors whose number, dtype, rank or extents do not fit, naming the input; a symbol that they do not tell.
    pub fn bind(&self, given: &[(DType, &[usize])]) -> Result<Vec<i64>, Error> {
        let binding = bind(&self.program.graph, given)?;
        let value = |name: &str| {
            let unknown = || Error::Call(format!("the inputs do not tell the size `{name}`"));
            binding.get(name).copied().ok_or_else(unknown)
        };
        self.symbols().map(value).collect()
    }

    /// The outputs, in order.
    pub fn outputs(&self) -> Vec<ChainOutput<'_>> {
        let graph = &self.program.graph;
        let places = self.orders.iter().zip(&self.overwritten);
        let outputs = graph.outputs().iter().zip(places).map(|(output, (order, &overwrites))| {
            let ty = graph.ty(output.value);
            ChainOutput { dtype: ty.dtype, shape: &ty.shape, order, overwrites }
        });
        outputs.collect()
    }

    /// The kernels, in order.
    pub fn regions(&self) -> &[ChainRegion] {
        &self.regions
    }

    /// The kernels as graphs of their own, in primitives, in the order of [`Chain::regions`].
    pub fn bodies(&self) -> &[Graph] {
        &self.bodies
    }

    /// What fused and why it ended where it did.
    pub fn explanation(&self) -> &Explanation {
        &self.explanation
    }

    /// How many kernels were compiled, and how many were taken from the cache on disk.
    pub fn compilations(&self) -> (usize, usize) {
        (self.compiled, self.from_disk)
    }

    /// Launches of one call.
    pub fn launches(&self) -> usize {
        self.program.steps.iter().filter(|step| matches!(step.work, Work::Kernel(_))).count()
    }

    /// Where the code of the kernels came from so far, that of later tiers too.
    pub fn code(&self) -> CodeCounts {
        self.program.code()
    }

    /// Makes the best code there is of every kernel now, rather than behind later calls.
    pub fn promote(&self) {
        self.program.promote();
    }

    /// The device that the kernels were loaded on first, if it is none of this machine's processors.
    pub fn gpu(&self) -> Option<&Gpu> {
        self.gpu.as_ref()
    }

    /// Another GPU of this process, by its number. The kernels are loaded there, so that no call does.
    ///
    /// # Errors
    /// A chain for the host; no such device, or one of another kind; a driver that refuses; too little memory.
    pub fn gpu_at(&self, ordinal: usize) -> Result<Gpu, Error> {
        let first = self.gpu.as_ref().ok_or_else(|| Error::Call("the kernels run on the host".to_owned()))?;
        let gpu = Gpu::at(first.target(), ordinal)?;
        for step in &self.program.steps {
            if let Work::Kernel(kernel) = &step.work
                && let Some(kernel) = kernel.module.as_ref().and_then(|module| module.on_device())
            {
                kernel.load_on(&gpu).map_err(|e| Error::from(e).about(&step.label))?;
            }
        }
        Ok(gpu)
    }

    /// What calls at these values of the symbols need, in the order of [`Chain::symbols`].
    ///
    /// # Errors
    /// Values outside the ranges of the symbols, or that give no sizes.
    pub fn fit(&self, symbols: &[i64]) -> Result<Arc<Fitted>, Error> {
        if let Some(last) = self.last.load().as_ref().filter(|last| last.symbols() == symbols) {
            return Ok(Arc::clone(last));
        }
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().get(&symbols.to_vec());
        let fitted = match before {
            Some(fitted) => fitted,
            None => {
                let fitted = Arc::new(Fitted::of(self, symbols)?);
                known().insert(symbols.to_vec(), Arc::clone(&fitted));
                fitted
            }
        };
        self.last.store(Some(Arc::clone(&fitted)));
        Ok(fitted)
    }
}

/// The name of the framework's node that a node came from.
fn origin(graph: &Graph, id: NodeId) -> Option<String> {
    graph.node(id).origin.node.as_deref().map(str::to_owned)
}

fn origins(graph: &Graph, ids: &[NodeId]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    ids.iter().filter_map(|&id| origin(graph, id)).filter(|name| seen.insert(name.clone())).collect()
}

fn described(graph: &Graph, region: &fusewright_fusion::region::FusedRegion) -> ChainRegion {
    let ops = region.body.nodes().iter().map(|node| node.op.name().to_owned()).collect();
    ChainRegion { name: region.name.clone(), ops, nodes: origins(graph, &region.nodes) }
}

/// The nodes of a partition that no kernel is to compute, and that are more than a view or a constant.
fn without_kernels(graph: &Graph, partition: &Partition) -> Vec<Outside> {
    let lone = partition.steps.iter().filter_map(|step| match step {
        PlannedStep::Node(id) => Some(*id),
        PlannedStep::Region(_) | PlannedStep::Lone(_) => None,
    });
    let computing = lone.filter(|&id| !is_layout(&graph.node(id).op) && !is_constant(&graph.node(id).op));
    let outside = computing.map(|id| {
        let refusal = partition.unfused.iter().find(|unfused| unfused.node == id).map(|u| u.refusal.to_string());
        let reason = format!("`{}`: {}", graph.node(id).op.name(), refusal.unwrap_or_default());
        Outside { nodes: origins(graph, &[id]), output: None, reason }
    });
    outside.collect()
}

/// The outputs of a step that begin with what one of its operands holds.
fn partly(step: &Step) -> impl Iterator<Item = (&Step, Alias)> {
    let kernel = if let Work::Kernel(kernel) = &step.work { Some(kernel) } else { None };
    let aliases = kernel.into_iter().flat_map(|kernel| kernel.in_place.aliases());
    aliases.filter(|alias| alias.begins).map(move |alias| (step, alias))
}

/// The input of the graph that a kernel overwrites a part of, if it is all of that input, nothing else reads it, and the
/// result is one of the graph's.
fn overwritten_input(program: &Program, step: &Step, alias: Alias) -> Option<usize> {
    let (graph, layouts) = (&program.graph, &program.layouts);
    let (old, new) = (step.inputs[alias.input], step.outputs[alias.output]);
    let view = layouts.get(old).ok()?;
    let Def::Input(input) = graph.def(view.base) else { return None };
    let is_whole = graph.ty(old).elements() == graph.ty(view.base).elements()
        && view.layout.offset == Dim::constant(0)
        && view.layout.is_contiguous(&view.shape);
    let base = |value: Value| layouts.get(value).ok().map(|view| view.base);
    let kernels = program.steps.iter().filter(|step| matches!(step.work, Work::Kernel(_)));
    let reads = kernels.flat_map(|step| &step.inputs).filter(|&&value| base(value) == Some(view.base)).count();
    let is_given = graph.outputs().iter().any(|output| base(output.value) == Some(new));
    (is_whole && reads == 1 && is_given).then_some(input)
}

/// The steps of a program that are no launches, and launches that must begin with what was there before and is elsewhere.
fn beside_kernels(program: &Program, fused: &Fused, fallbacks: &[super::Fallback]) -> Vec<Outside> {
    let graph = &program.graph;
    let steps = program.steps.iter().filter_map(|step| {
        let about = |nodes: Vec<String>, reason: String| Some(Outside { nodes, output: None, reason });
        let maker = || made_by(graph, step).map(|id| origins(graph, &[id])).unwrap_or_default();
        match &step.work {
            Work::Kernel(_) if partly(step).any(|(step, alias)| overwritten_input(program, step, alias).is_none()) => {
                about(writes_of(fused, step), "it overwrites parts of a tensor".to_owned())
            }
            Work::Kernel(_) | Work::View | Work::Constant(_) => None,
            _ => {
                let fallback = fallbacks.iter().find(|fallback| fallback.label == step.label);
                let reason = fallback.map_or("its elements would be copied", |fallback| fallback.reason.as_str());
                about(maker(), reason.to_owned())
            }
        }
    });
    steps.collect()
}

/// The framework's nodes that write at chosen places in a step, or all of the step.
fn writes_of(fused: &Fused, step: &Step) -> Vec<String> {
    let graph = &fused.graph;
    let region = step.kernel.and_then(|kernel| fused.partition.kernels().nth(kernel));
    let nodes = region.map_or(&[][..], |region| region.nodes.as_slice());
    let is_write = |id: &&NodeId| matches!(graph.node(**id).op, Op::Prim(Prim::Scatter { .. }));
    let writes: Vec<NodeId> = nodes.iter().filter(is_write).copied().collect();
    origins(graph, if writes.is_empty() { nodes } else { &writes })
}

/// The kernels that write once into each tensor that they overwrite, and read nothing else of it.
fn writing_once(partition: &Partition) -> Result<BTreeSet<usize>, Error> {
    let mut once = BTreeSet::new();
    for (kernel, region) in partition.kernels().enumerate() {
        let body = region.expand_body().map_err(|e| Error::Internal(e.to_string()))?;
        let into = |node: &Node| match node.op {
            Op::Prim(Prim::Scatter { .. }) => Some(Ok(stored_in(&body, node.operands[0]))),
            Op::Prim(Prim::ScatterReduce { .. }) => Some(Err(())),
            _ => None,
        };
        let written: Result<Vec<Value>, ()> = body.nodes().iter().filter_map(into).collect();
        let is_once = written.is_ok_and(|written| {
            let distinct: BTreeSet<Value> = written.iter().copied().collect();
            let reads = |node: &&Node, value: Value| {
                !is_layout(&node.op) && node.operands.iter().any(|&operand| stored_in(&body, operand) == value)
            };
            let alone = |&value: &Value| body.nodes().iter().filter(|node| reads(node, value)).count() == 1;
            let given = |value: &Value| matches!(body.def(*value), Def::Input(_));
            !written.is_empty() && distinct.len() == written.len() && written.iter().all(|v| given(v) && alone(v))
        });
        if is_once {
            once.insert(kernel);
        }
    }
    Ok(once)
}

/// What a value is another form of.
fn stored_in(graph: &Graph, mut value: Value) -> Value {
    while let Def::Node(id, _) = graph.def(value)
        && is_layout(&graph.node(id).op)
    {
        value = graph.node(id).operands[0];
    }
    value
}

/// Launches on a device that overwrite and whose rows would be computed one after another.
fn one_by_one(program: &Program, fused: &Fused, once: &BTreeSet<usize>) -> Vec<Outside> {
    let overwrites = program.steps.iter().filter(|step| partly(step).next().is_some());
    let ordered = overwrites.filter(|step| step.kernel.is_none_or(|kernel| !once.contains(&kernel)));
    let outside = ordered.map(|step| {
        let reason = "it writes several times into one tensor, one row after the other".to_owned();
        Outside { nodes: writes_of(fused, step), output: None, reason }
    });
    outside.collect()
}

/// The constants of a program that kernels cannot read where they are.
fn constants_elsewhere(program: &Program, target: &Target) -> Vec<Outside> {
    if Home::of(target) == Home::Host {
        return Vec::new();
    }
    let constants = program.steps.iter().filter(|step| matches!(step.work, Work::Constant(_)));
    let outside = constants.map(|step| {
        let nodes = made_by(&program.graph, step).map(|id| origins(&program.graph, &[id])).unwrap_or_default();
        let reason = "it depends on sizes alone, and lies in memory of the host".to_owned();
        Outside { nodes, output: None, reason }
    });
    outside.collect()
}

/// By output, the order of its axes in memory and the value that its memory is made as.
type Landings = (Vec<Vec<usize>>, Vec<Value>);

/// Where the outputs lie, if each is a tensor of its own that a kernel writes whole.
fn landings(program: &Program) -> Result<Landings, Vec<Outside>> {
    let (graph, layouts): (&Graph, &Layouts) = (&program.graph, &program.layouts);
    let kernels = || program.steps.iter().filter(|step| matches!(step.work, Work::Kernel(_)));
    let (mut orders, mut bases, mut outside) = (Vec::new(), Vec::new(), Vec::new());
    for (i, output) in graph.outputs().iter().enumerate() {
        let mut refuse = |reason: &str| {
            let nodes = match graph.def(output.value) {
                Def::Node(id, _) => origins(graph, &[id]),
                Def::Input(_) => Vec::new(),
            };
            outside.push(Outside { nodes, output: Some(i), reason: format!("output {i} {reason}") });
        };
        let Ok(view) = layouts.get(output.value) else {
            refuse("has no place in memory");
            continue;
        };
        let whole = graph.ty(view.base).elements() == graph.ty(output.value).elements();
        let at_front = view.layout.offset == Dim::constant(0);
        let order = view.layout.memory_order(&view.shape).filter(|_| whole && at_front);
        match order {
            _ if !kernels().any(|step| step.outputs.contains(&view.base)) => refuse("is written by no kernel"),
            _ if bases.contains(&view.base) => refuse("is the same tensor as another"),
            Some(order) => {
                orders.push(order);
                bases.push(view.base);
            }
            None => refuse("is a part of a larger tensor"),
        }
    }
    if outside.is_empty() { Ok((orders, bases)) } else { Err(outside) }
}

#[cfg(test)]
mod tests;
