//! `opt run`, `diff` and `reduce`: graphs and kernels of a text, interpreted on inputs made from a seed.

use std::collections::BTreeMap;

use fusewright_abi::{ParamAccess, Target};
use fusewright_codegen::kernel::Kernel;
use fusewright_codegen::kernel::interp::run as run_kernel;
use fusewright_graph::interp;
use fusewright_graph::tensor::Tensor;
use fusewright_graph::{Graph, InputKind};

use super::{Items, items};
use crate::diff::{self, Verdict};
use crate::inputs::{Sizes, Values, shape, symbols, tensors, weights_as_inputs};
use crate::{Error, check};

/// Value of every symbol and dim of [`run`] that nothing sets.
const FEW: i64 = 3;
/// Values of every symbol of a graph in [`diff`] where nothing sets them, moved into their ranges.
const ROWS: [i64; 5] = [33, 1, 0, 2, 7];
/// Values of every dim of a kernel in [`diff`] where nothing sets them.
const DIMS: [i64; 3] = [3, 1, 7];

/// One graph or kernel of a text, evaluated.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// Its name.
    pub name: String,
    /// Values of its symbols or dims.
    pub sizes: BTreeMap<String, i64>,
    /// What it computes, by name.
    pub outputs: Vec<(String, Tensor)>,
}

/// One graph or kernel of a text, run every way there is.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// The targets that were compared.
    pub targets: Vec<Target>,
    /// The sizes it was run at.
    pub cases: Vec<BTreeMap<String, i64>>,
    /// What was found.
    pub verdict: Verdict,
}

/// Interprets every graph or kernel of a text.
///
/// # Errors
/// Text that does not parse, sizes that do not fit, and what the interpreters refuse.
pub fn run(text: &str, sizes: &Sizes, seed: u64) -> Result<Vec<Evaluated>, Error> {
    match items(text)? {
        Items::Graphs(graphs) => graphs.iter().map(|g| run_one_graph(&runnable(g), sizes, seed)).collect(),
        Items::Kernels(kernels) => kernels.iter().map(|k| run_one_kernel(k, sizes, seed)).collect(),
    }
}

/// A graph whose weights without data are inputs.
fn runnable(graph: &Graph) -> Graph {
    weights_as_inputs(graph, |kind| matches!(kind, InputKind::Weight(None)))
}

fn run_one_graph(graph: &Graph, sizes: &Sizes, seed: u64) -> Result<Evaluated, Error> {
    let bound = symbols(graph, sizes, FEW)?;
    let inputs = tensors(graph, &bound, seed, Values::Ordinary)?;
    let results = interp::run(graph, &inputs, &bound)?;
    let outputs = check::output_names(graph).into_iter().zip(results).collect();
    Ok(Evaluated { name: graph.name().to_owned(), sizes: bound, outputs })
}

fn run_one_kernel(kernel: &Kernel, sizes: &Sizes, seed: u64) -> Result<Evaluated, Error> {
    let bad = |message: String| Error::Call(format!("kernel `{}`: {message}", kernel.name));
    let dims = diff::dims(kernel, sizes, FEW)?;
    let mut buffers = diff::made_buffers(kernel, &dims, seed, Values::Ordinary)?;
    let rows = kernel.rows.eval(&|name| dims.get(name).copied()).map_err(|e| bad(e.to_string()))?;
    run_kernel(kernel, &mut buffers, &dims, 0..rows).map_err(|e| bad(e.to_string()))?;
    let mut outputs = Vec::new();
    for (param, buffer) in kernel.params.iter().zip(&buffers).filter(|(p, _)| p.access != ParamAccess::In) {
        let extents = shape(&param.shape, &dims).map_err(bad)?;
        let tensor = Tensor::from_bytes(param.dtype, &extents, buffer.bytes()).map_err(|e| bad(e.to_string()))?;
        outputs.push((format!("%{}", param.name), tensor));
    }
    Ok(Evaluated { name: kernel.name.clone(), sizes: dims, outputs })
}

/// Runs every graph or kernel of a text every way there is.
///
/// # Errors
/// Text that does not parse, sizes that do not fit, and what an interpreter or the backend refuses.
pub fn diff(text: &str, target: &Target, sizes: &Sizes, seed: u64) -> Result<Vec<Compared>, Error> {
    match items(text)? {
        Items::Graphs(graphs) => graphs.iter().map(|g| diff_graph(&runnable(g), target, sizes, seed)).collect(),
        Items::Kernels(_) if matches!(target, Target::Ascend { .. } | Target::AscendSim { .. }) => {
            let reason = "the file holds kernels, which `diff` runs on the host and on GPUs; NPUs take whole graphs";
            Err(Error::Input(format!("target `{target}`: {reason}")))
        }
        Items::Kernels(kernels) => kernels.iter().map(|k| diff_kernel(k, target, sizes, seed)).collect(),
    }
}

/// Runs a graph every way there is, with values of its symbols that nothing sets from small to middling.
///
/// # Errors
/// As [`diff()`].
pub fn diff_graph(graph: &Graph, target: &Target, sizes: &Sizes, seed: u64) -> Result<Compared, Error> {
    let mut cases: Vec<BTreeMap<String, i64>> = Vec::new();
    for default in ROWS {
        let case = symbols(graph, sizes, default)?;
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let verdict = diff::graph(graph, target, &cases, seed)?;
    Ok(Compared { name: graph.name().to_owned(), targets: diff::graph_targets(target), cases, verdict })
}

fn diff_kernel(kernel: &Kernel, target: &Target, sizes: &Sizes, seed: u64) -> Result<Compared, Error> {
    let mut cases: Vec<BTreeMap<String, i64>> = Vec::new();
    for default in DIMS {
        let case = diff::dims(kernel, sizes, default)?;
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let verdict = diff::kernel(kernel, target, &cases, seed)?;
    Ok(Compared { name: kernel.name.clone(), targets: diff::kernel_targets(target), cases, verdict })
}

/// The only graph of a text, its weights without data as inputs.
///
/// # Errors
/// Text that does not parse, or holds something else.
pub fn only_graph(text: &str) -> Result<Graph, Error> {
    let graphs = super::graphs(text, "reduce")?;
    match &graphs[..] {
        [graph] => Ok(runnable(graph)),
        _ => Err(Error::Input(format!("`reduce` takes one graph, the file holds {}", graphs.len()))),
    }
}
