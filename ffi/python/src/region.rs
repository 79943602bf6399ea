//! One kernel by itself: what it takes and gives, its forms, and code to call it.

use fusewright::graph::{Graph, Input, TensorType};
use fusewright::inputs::weights_as_inputs;
use fusewright::{Attempt, Chain, Compiler, Options, Target};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{CompileError, raised};
use crate::kernel::Kernel;

/// Name, dtype and extents of a tensor.
pub type Described = (String, &'static str, Vec<String>);

/// Gives a type as Python sees it.
pub fn described(name: String, ty: &TensorType) -> Described {
    (name, ty.dtype.name(), ty.shape.iter().map(ToString::to_string).collect())
}

/// Gives name and range of each symbol.
pub fn symbols(graph: &Graph) -> Vec<(String, i64, Option<i64>)> {
    graph.symbols().iter().map(|symbol| (symbol.name.clone(), symbol.min, symbol.max)).collect()
}

/// A kernel of a program as a graph of its own.
#[pyclass(frozen, module = "fusewright._native")]
#[derive(Debug)]
pub struct Region {
    name: String,
    body: Graph,
    /// The names of the inputs in the graph around, where they have some there.
    names: Vec<Option<String>>,
    target: Target,
    options: Options,
}

impl Region {
    /// Takes a body in primitives. Weights are inputs of its calls like all others.
    pub fn new(name: &str, body: &Graph, target: &Target, options: &Options) -> Self {
        let body = weights_as_inputs(body, |kind| !kind.is_given());
        let (target, options) = (target.clone(), options.clone());
        Region { name: name.to_owned(), body, names: Vec::new(), target, options }
    }

    /// The same with names of its inputs in the graph around.
    pub fn with_names(self, names: Vec<Option<String>>) -> Self {
        Region { names, ..self }
    }
}

#[pymethods]
impl Region {
    /// Name of the pattern, or of the kind of fusion.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The target of its compilation.
    #[getter]
    fn target(&self) -> String {
        self.target.to_string()
    }

    /// Per symbol: name, least and greatest value.
    #[getter]
    fn symbols(&self) -> Vec<(String, i64, Option<i64>)> {
        symbols(&self.body)
    }

    /// Per input: name, dtype and extents.
    #[getter]
    fn inputs(&self) -> Vec<Described> {
        let name = |i: usize| self.names.get(i).cloned().flatten();
        let inputs = self.body.inputs().iter().enumerate();
        let named = |(i, input): (usize, &Input)| {
            described(name(i).unwrap_or_else(|| input.name.clone()), self.body.ty(input.value))
        };
        inputs.map(named).collect()
    }

    /// Per output: name, dtype and extents.
    #[getter]
    fn outputs(&self) -> Vec<Described> {
        let outputs = self.body.outputs().iter().enumerate();
        outputs.map(|(i, output)| described(format!("out{i}"), self.body.ty(output.value))).collect()
    }

    /// The forms of the kernel by name, in the order of compilation.
    ///
    /// Raises `CompileError` for what no backend takes, `UnavailableError` for a target that is not here.
    fn stages<'py>(&self, py: Python<'py>) -> PyResult<Vec<(&'static str, Bound<'py, PyBytes>)>> {
        let stages = py.detach(|| {
            let compiler = Compiler::of(&self.target, &self.options)?;
            Ok::<_, fusewright::Error>(compiler.stages(&self.name, &self.body)?)
        });
        let stages = stages.map_err(raised)?;
        Ok(stages.into_iter().map(|stage| (stage.name, PyBytes::new(py, &stage.bytes))).collect())
    }

    /// The kernel, ready to be called.
    ///
    /// Raises `CompileError` for one that cannot be called by itself, and why.
    fn compile(&self, py: Python<'_>) -> PyResult<Kernel> {
        match py.detach(|| Chain::of(&self.body, &self.target, &self.options)).map_err(raised)? {
            Attempt::Chain(chain) => Ok(Kernel::new(*chain, &self.target, &self.options)),
            Attempt::Outside(outside) => {
                let why: Vec<String> = outside.into_iter().map(|part| part.reason).collect();
                let message = format!("kernel `{}` cannot be called by itself: {}", self.name, why.join("; "));
                Err(CompileError::new_err(message))
            }
        }
    }
}
