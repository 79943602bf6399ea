//! Models from files, and their calls on tensors of the caller.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fusewright::check::output_names;
use fusewright::explain::{self, Explanation};
use fusewright::graph::{Graph, Input, InputKind, Value};
use fusewright::inputs::weights_as_inputs;
use fusewright::{
    Argument, Compiled, Compiler, Error, HostTensor, Options, PictureStep, Progress, Target, TensorMut, TensorRef,
    compile, explain_page, model, picture_of, steps_picture,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::{Array, Lent, copied, described as sized};
use crate::counters::{CACHE_HITS, CALLS, COMPILES, LAUNCHES};
use crate::errors::{CallError, CompileError, raised};
use crate::memory;
use crate::options::options;
use crate::region::{Described, Region, described, symbols};

/// Name, dtype and extents of an input, whether it is a weight of the model, and whether calls may overwrite it.
type InputFacts = (String, &'static str, Vec<String>, bool, bool);
/// Name, dtype and extents of an output, and the input or buffer that it is the new value of.
type OutputFacts = (String, &'static str, Vec<String>, Option<String>);
/// Op, reason and origin of what does not fuse.
type Refusal = (String, String, String);
/// Name, ops, lines of the model, bytes moved, bytes op by op, and where it ends.
type RegionFacts = (String, Vec<String>, Vec<String>, Option<u64>, Option<u64>, Vec<Refusal>);

/// A model that was compiled from a file.
#[pyclass(frozen, weakref, module = "fusewright._native")]
#[derive(Debug)]
pub struct Program {
    title: String,
    /// The graph as it came, with weights that calls give among its inputs.
    graph: Graph,
    weights: Vec<String>,
    compiled: Compiled,
    target: Target,
    options: Options,
}

/// The buffers of a model that its graph updates, for one sequence of calls.
#[pyclass(frozen, module = "fusewright._native")]
#[derive(Debug)]
pub struct State(Mutex<fusewright::State>);

/// Compiles the graph in a file for a target.
///
/// `given` names weights that calls give as inputs, or is `None` for all of them; those without data in the file are inputs
/// in any case. `progress` is called with the name of a kernel, its number and the number of kernels, from any thread, as its
/// compilation begins.
///
/// Raises `CompileError` for a file that cannot be read or holds no graph, or a graph that cannot be run; `UnavailableError`
/// for a target that is not here.
#[pyfunction]
#[pyo3(signature = (path, target, *, mode = "exact", pipeline = None, device = 0, given = Some(Vec::new()), progress = None))]
#[allow(clippy::too_many_arguments)]
pub fn load(
    py: Python<'_>,
    path: PathBuf,
    target: &str,
    mode: &str,
    pipeline: Option<PathBuf>,
    device: usize,
    given: Option<Vec<String>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Program> {
    let target: Target = target.parse().map_err(|e| CompileError::new_err(format!("`target`: {e}")))?;
    let options = options(mode, pipeline, device).map_err(raised)?;
    let told = progress.map(listener).unwrap_or_default();
    let made = py.detach(|| {
        let about = |e: Error| e.about(path.display());
        let graph = model::open(&path)?;
        model::check_runnable(&graph).map_err(about)?;
        let (graph, weights) = with_weights(&graph, given.as_deref()).map_err(about)?;
        let compiled = compile(&graph, &target, &Options { progress: told, ..options.clone() }).map_err(about)?;
        let title = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Program { title, graph, weights, compiled, target, options })
    });
    let program: Program = made.map_err(raised)?;
    let from_disk = program.compiled.from_disk();
    COMPILES.add(program.compiled.kernels.len() - from_disk);
    CACHE_HITS.add(from_disk);
    Ok(program)
}

/// Tells a function of Python.
fn listener(function: Py<PyAny>) -> Progress {
    Progress::to(move |compiling| {
        Python::attach(|py| {
            let arguments = (compiling.name, compiling.number, compiling.of);
            if let Err(error) = function.call1(py, arguments) {
                error.write_unraisable(py, Some(function.bind(py)));
            }
        });
    })
}

/// The graph with weights as inputs, and their names.
fn with_weights(graph: &Graph, given: Option<&[String]>) -> Result<(Graph, Vec<String>), Error> {
    let weights = || graph.inputs().iter().filter(|input| matches!(input.kind, InputKind::Weight(_)));
    if let Some(name) = given.unwrap_or_default().iter().find(|name| weights().all(|weight| weight.name != **name)) {
        let names: Vec<String> = weights().map(|weight| format!("`{}`", weight.name)).collect();
        let known = if names.is_empty() { "has none".to_owned() } else { format!("has {}", names.join(", ")) };
        return Err(Error::Input(format!("`{name}` is no weight of the model, which {known}")));
    }
    let wanted = |input: &Input| match &input.kind {
        InputKind::Weight(None) => true,
        InputKind::Weight(Some(_)) => given.is_none_or(|given| given.contains(&input.name)),
        _ => false,
    };
    let names: Vec<String> = graph.inputs().iter().filter(|&input| wanted(input)).map(|i| i.name.clone()).collect();
    if names.is_empty() {
        return Ok((graph.clone(), names));
    }
    // Weights are asked for in the order of the inputs.
    let mut order = weights().map(wanted);
    let order: Vec<bool> = order.by_ref().collect();
    let next = std::cell::Cell::new(0);
    let made = weights_as_inputs(graph, |kind| {
        let is_weight = matches!(kind, InputKind::Weight(_));
        let at = next.replace(next.get() + usize::from(is_weight));
        is_weight && order[at]
    });
    Ok((made, names))
}

impl Program {
    fn users(&self) -> impl Iterator<Item = &Input> {
        self.graph.inputs().iter().filter(|input| input.kind.is_given())
    }

    fn updates(&self, name: &str) -> bool {
        self.graph.outputs().iter().any(|output| output.updates.as_deref() == Some(name))
    }

    fn explanation(&self) -> Result<Explanation, Error> {
        explain::explain(&self.compiled.fused)
    }

    fn kernels(&self) -> Result<(Explanation, explain::Kernels), Error> {
        let report = self.explanation()?;
        let kernels = explain::kernels(&self.compiled.fused, &report, &self.target)?;
        Ok((report, kernels))
    }
}

#[pymethods]
impl Program {
    /// Name of the file.
    #[getter]
    fn title(&self) -> &str {
        &self.title
    }

    /// The target of its compilation.
    #[getter]
    fn target(&self) -> String {
        self.target.to_string()
    }

    /// Per symbol: name, least and greatest value.
    #[getter]
    fn symbols(&self) -> Vec<(String, i64, Option<i64>)> {
        symbols(&self.graph)
    }

    /// The inputs of calls, in order.
    #[getter]
    fn inputs(&self) -> Vec<InputFacts> {
        let facts = |input: &Input| {
            let (name, dtype, shape) = described(input.name.clone(), self.graph.ty(input.value));
            let (is_weight, is_updated) = (self.weights.contains(&name), self.updates(&name));
            (name, dtype, shape, is_weight, is_updated)
        };
        self.users().map(facts).collect()
    }

    /// The results of calls, in order, new values of inputs and buffers too.
    #[getter]
    fn outputs(&self) -> Vec<OutputFacts> {
        let outputs = self.graph.outputs().iter().zip(output_names(&self.graph));
        let facts = |(output, name): (&fusewright::graph::Output, String)| {
            let (name, dtype, shape) = described(name, self.graph.ty(output.value));
            (name, dtype, shape, output.updates.clone())
        };
        outputs.map(facts).collect()
    }

    /// The buffers that calls update: name, dtype and extents.
    #[getter]
    fn buffers(&self) -> Vec<Described> {
        let weights = self.graph.inputs().iter().filter(|input| !input.kind.is_given() && self.updates(&input.name));
        weights.map(|input| described(input.name.clone(), self.graph.ty(input.value))).collect()
    }

    /// How many steps of each kind a call has.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (counts, all) = (self.compiled.program.counts(), PyDict::new(py));
        all.set_item("kernels", counts.kernels)?;
        all.set_item("matmuls", counts.matmuls)?;
        all.set_item("attentions", counts.attentions)?;
        all.set_item("references", counts.references)?;
        all.set_item("copies", counts.copies)?;
        Ok(all)
    }

    /// How many kernels were compiled, and how many were taken from the cache on disk.
    #[getter]
    fn compilations(&self) -> (usize, usize) {
        let from_disk = self.compiled.from_disk();
        (self.compiled.kernels.len() - from_disk, from_disk)
    }

    /// Names the weights of the file that calls do not give.
    #[getter]
    fn weights(&self) -> Vec<&str> {
        let stored = self.graph.inputs().iter().filter(|input| matches!(input.kind, InputKind::Weight(_)));
        stored.map(|input| input.name.as_str()).collect()
    }

    /// Says what is wrong with the cache or the environment's table of schedules; `None` if nothing is.
    #[getter]
    fn warning(&self) -> Option<&str> {
        self.compiled.warning.as_deref()
    }

    /// Per kernel: its facts.
    #[getter]
    fn regions(&self) -> PyResult<Vec<RegionFacts>> {
        let report = self.explanation().map_err(raised)?;
        let graph = &self.compiled.fused.graph;
        let regions = self.compiled.fused.partition.kernels().zip(report.regions);
        let facts = |(region, facts): (&fusewright::FusedRegion, explain::RegionReport)| {
            let mut sources: Vec<String> = Vec::new();
            for source in region.nodes.iter().filter_map(|&id| graph.node(id).origin.source.as_deref()) {
                if sources.iter().all(|known| known != source) {
                    sources.push(source.to_owned());
                }
            }
            let ends = facts.ends.into_iter().map(|end| (end.op, end.reason, end.origin)).collect();
            (facts.name, facts.ops, sources, facts.bytes_fused, facts.bytes_unfused, ends)
        };
        Ok(regions.map(facts).collect())
    }

    /// The kernels by themselves, in the order of `regions`.
    fn parts(&self) -> PyResult<Vec<Region>> {
        let graph = &self.compiled.fused.graph;
        let parts = self.compiled.fused.partition.kernels().map(|region| {
            let body = region.expand_body().map_err(|e| raised(Error::Internal(e.to_string())))?;
            let name = |&value: &Value| graph.value_name(value).map(str::to_owned);
            let names = region.inputs.iter().map(name).collect();
            Ok(Region::new(&region.name, &body, &self.target, &self.options).with_names(names))
        });
        parts.collect()
    }

    /// The values of the symbols at which bytes are counted.
    #[getter]
    fn bytes_at(&self) -> PyResult<Vec<(String, i64)>> {
        Ok(self.explanation().map_err(raised)?.bytes_at.into_iter().collect())
    }

    /// Ops that are in no kernel: each with the reason and where it came from.
    #[getter]
    fn refused(&self) -> PyResult<Vec<Refusal>> {
        let report = self.explanation().map_err(raised)?;
        Ok(report.refused.into_iter().map(|refusal| (refusal.op, refusal.reason, refusal.origin)).collect())
    }

    /// The ops that the reference interpreter computes, and why.
    #[getter]
    fn fallbacks(&self) -> Vec<(String, String)> {
        self.compiled.fallbacks.iter().map(|fallback| (fallback.label.clone(), fallback.reason.clone())).collect()
    }

    /// The picture of the kernels, as `fusewright explain --svg` draws it.
    fn svg(&self, py: Python<'_>) -> PyResult<String> {
        let picture = || {
            let (report, kernels) = self.kernels()?;
            steps_picture(&self.title, &self.compiled.fused, &report, &kernels)
        };
        py.detach(picture).map_err(raised)
    }

    /// The page of the graph and its kernels, as `fusewright explain --html` writes it.
    fn html(&self, py: Python<'_>) -> PyResult<String> {
        let page = || {
            let (report, kernels) = self.kernels()?;
            explain_page(&self.title, &self.compiled.fused, &report, &kernels, &Compiler::new(&self.target)?)
        };
        py.detach(page).map_err(raised)
    }

    /// Makes the best code there is now, rather than behind later calls.
    fn promote(&self, py: Python<'_>) {
        py.detach(|| self.compiled.program.promote());
    }

    /// The buffers with the values of the file, for a sequence of calls; `None` if calls update none.
    fn state(&self, py: Python<'_>) -> PyResult<Option<State>> {
        if self.buffers().is_empty() {
            return Ok(None);
        }
        let state = py.detach(|| self.compiled.program.state()).map_err(raised)?;
        Ok(Some(State(Mutex::new(state))))
    }

    /// Runs the program on tensors of the host, one for each of `inputs`, and gives one array for each of `outputs`, `None` for
    /// those that were written to `overwritten` inputs, by number, or to the state.
    ///
    /// Nothing checks what lies at the addresses: callers own tensors of those sizes. Raises `CallError` for tensors that do not
    /// fit.
    #[pyo3(signature = (tensors, overwritten = Vec::new(), state = None, threads = 1))]
    #[allow(unsafe_code)]
    fn run(
        &self,
        py: Python<'_>,
        tensors: Vec<Lent>,
        overwritten: Vec<usize>,
        state: Option<&State>,
        threads: usize,
    ) -> PyResult<Vec<Option<Array>>> {
        let names: Vec<&str> = self.users().map(|input| input.name.as_str()).collect();
        let name = |i: usize| names.get(i).copied().unwrap_or("?");
        let sizes = tensors.iter().enumerate().map(|(i, lent)| sized(name(i), lent)).collect::<PyResult<Vec<_>>>()?;
        let place = |i: usize| tensors[i].2..tensors[i].2.saturating_add(sizes[i].1);
        for &i in &overwritten {
            let apart = |a: &Range<usize>, b: &Range<usize>| a.end <= b.start || b.end <= a.start;
            let other = (0..tensors.len()).find(|&j| j != i && !apart(&place(i), &place(j)));
            if let Some(j) = other.filter(|_| !place(i).is_empty()) {
                let message = format!("input `{}` is overwritten, and shares memory with input `{}`", name(i), name(j));
                return Err(CallError::new_err(message));
            }
        }
        let mut arguments: Vec<Argument<'_>> = Vec::with_capacity(tensors.len());
        for (i, ((_, shape, address), (dtype, bytes))) in tensors.iter().zip(&sizes).enumerate() {
            arguments.push(if overwritten.contains(&i) {
                // SAFETY: the caller owns a tensor of that size there, which nothing else of this call touches.
                Argument::LentInOut(TensorMut::raw(*dtype, unsafe { memory::written(*address, *bytes) }, shape))
            } else {
                // SAFETY: the caller keeps a tensor of that size there.
                Argument::Lent(TensorRef::raw(*dtype, unsafe { memory::read(*address, *bytes) }, shape))
            });
        }
        let program = &self.compiled.program;
        let results = py.detach(|| match state {
            Some(state) => program.run_with_state(&mut state.lock(), &mut arguments, threads),
            None => program.run_in_place(&mut arguments, threads),
        });
        let results = results.map_err(raised)?;
        CALLS.add(1);
        LAUNCHES.add(program.counts().kernels);
        Ok(results.into_iter().map(|result| result.map(Array::from)).collect())
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, fusewright::State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl State {
    /// Names of the buffers.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.lock().buffers().map(|(name, _)| name.to_owned()).collect()
    }

    /// A copy of a buffer; `None` if there is none of the name.
    fn get(&self, name: &str) -> Option<Array> {
        self.lock().get(name).cloned().map(Array::from)
    }

    /// Gives a buffer another value of the same type.
    fn set(&self, name: &str, value: Lent) -> PyResult<()> {
        let new = copied(name, &value)?;
        let mut state = self.lock();
        let unknown = || CallError::new_err(format!("the program updates no buffer `{name}`"));
        let buffer = state.get_mut(name).ok_or_else(unknown)?;
        let of = |tensor: &HostTensor| format!("{}{:?}", tensor.dtype, tensor.shape);
        if (new.dtype, &new.shape) != (buffer.dtype, &buffer.shape) {
            return Err(CallError::new_err(format!("buffer `{name}` is {}, got {}", of(buffer), of(&new))));
        }
        *buffer = new;
        Ok(())
    }
}

/// A kernel with its ops, bytes moved and bytes op by op; without a name, ops that are computed elsewhere.
type DrawnStep = (Option<String>, Vec<String>, Option<u64>, Option<u64>);

/// The picture of steps under a title.
#[pyfunction]
pub fn picture(title: &str, steps: Vec<DrawnStep>) -> PyResult<String> {
    let step = |(name, ops, bytes_fused, bytes_unfused): DrawnStep| match name {
        Some(name) => vec![PictureStep::Kernel { name, ops, bytes_fused, bytes_unfused }],
        None => ops.into_iter().map(PictureStep::Apart).collect(),
    };
    let steps: Vec<PictureStep> = steps.into_iter().flat_map(step).collect();
    picture_of(title, &steps).map_err(raised)
}
