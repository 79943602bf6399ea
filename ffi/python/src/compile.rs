//! Graphs in, kernels out.

use std::path::PathBuf;

use fusewright::graph::import;
use fusewright::{Attempt, Chain, Target};
use pyo3::prelude::*;

use crate::counters::{CACHE_HITS, COMPILES};
use crate::errors::{CompileError, raised};
use crate::kernel::Kernel;
use crate::options::options;

/// What is in the way of a graph's compilation: names of nodes, the number of an output, the reason.
type Outside = (Vec<String>, Option<usize>, String);

/// Compiles a graph for a target, if kernels compute all of it: `(kernel, [])`, else `(None, outside)`.
///
/// `program` is the JSON of an exported program without weights; `outside` lists names of its nodes, or the number of an
/// output, and why kernels do not compute it. `mode` is `exact` or `relaxed`, `pipeline` a file that lists passes, `device` the
/// number of the GPU, of those of this process, that they are loaded on.
///
/// Raises `CompileError` for a program that cannot be read, `UnavailableError` for a target that is not here.
#[pyfunction]
#[pyo3(signature = (name, program, target, *, mode = "exact", pipeline = None, device = 0))]
pub fn compile(
    py: Python<'_>,
    name: &str,
    program: &[u8],
    target: &str,
    mode: &str,
    pipeline: Option<PathBuf>,
    device: usize,
) -> PyResult<(Option<Kernel>, Vec<Outside>)> {
    let target: Target = target.parse().map_err(|e| CompileError::new_err(format!("`target`: {e}")))?;
    let options = options(mode, pipeline, device).map_err(raised)?;
    let attempt = py.detach(|| {
        let graph = match import::live(name, program) {
            Ok(graph) => graph,
            Err(diagnostic) => {
                let nodes: Vec<String> = diagnostic.origin.node.iter().map(|node| node.to_string()).collect();
                return Ok(Err((nodes, diagnostic.message)));
            }
        };
        Chain::of(&graph, &target, &options).map(Ok)
    });
    match attempt.map_err(raised)? {
        Ok(Attempt::Chain(chain)) => {
            let (compiled, from_disk) = chain.compilations();
            COMPILES.add(compiled);
            CACHE_HITS.add(from_disk);
            Ok((Some(Kernel::new(*chain, &target, &options)), Vec::new()))
        }
        Ok(Attempt::Outside(outside)) => {
            Ok((None, outside.into_iter().map(|o| (o.nodes, o.output, o.reason)).collect()))
        }
        // A node that makes no sense here is its framework's.
        Err((nodes, message)) if !nodes.is_empty() => Ok((None, vec![(nodes, None, message)])),
        Err((_, message)) => Err(CompileError::new_err(message)),
    }
}

/// Whether the importer has a row for an op, such as `aten.add.Tensor`.
#[pyfunction]
pub fn knows(target: &str) -> bool {
    import::is_known(target)
}

/// Whether a kernel may have a name of a pattern's, such as `add_rms_norm.fp8_static`.
#[pyfunction]
pub fn is_pattern(name: &str) -> bool {
    fusewright::explain::is_name(name)
}

/// Version of the compiler: kernels of two versions may differ.
#[pyfunction]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
