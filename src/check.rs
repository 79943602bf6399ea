//! Comparing results with stored ones.
//!
//! A stored result is right if it lies in the interval that the graph's own arithmetic allows: the bounds of every
//! reduction order, matrix product and approximate function, carried through all roundings. Nothing is picked.

use std::collections::BTreeMap;

use fusewright_graph::tensor::Tensor;
use fusewright_graph::{Graph, InputKind, TensorType, interp};

use crate::{Error, HostTensor};

/// One case of a check file: inputs and expected outputs that share a prefix.
#[derive(Clone, Debug)]
pub struct Case {
    /// `""` or `"b_"`.
    pub prefix: String,
    /// The user inputs in order.
    pub inputs: Vec<HostTensor>,
    /// The expected outputs in order, without those that overwrite inputs.
    pub expected: Vec<HostTensor>,
}

/// How one output compares with the expected one.
#[derive(Clone, PartialEq, Debug)]
pub struct OutputCheck {
    /// Element type.
    pub dtype: fusewright_abi::DType,
    /// Number of elements.
    pub elements: usize,
    /// Elements of other bits.
    pub mismatched: usize,
    /// Largest distance in units in the last place, or in codes of 8-bit types.
    pub max_ulp: u64,
    /// Largest absolute difference.
    pub max_abs: f64,
    /// Elements of ours outside the interval.
    pub outside: usize,
    /// Elements of the expected result outside the interval: another graph of the same function may give such.
    pub expected_outside: usize,
    /// Elements of the expected result further outside the interval than the widest one is wide: another function gave
    /// them.
    pub expected_far: usize,
    /// Elements whose interval is a single value.
    pub exact: usize,
}

impl OutputCheck {
    /// Whether every element of ours lies in its interval, and none of the expected ones is far from it.
    pub fn passed(&self) -> bool {
        self.outside == 0 && self.expected_far == 0
    }
}

/// The cases of a check file: `in0…`/`out0…`, and a second one under `b_` where it is there.
///
/// # Errors
/// Inputs or outputs of the graph that the file lacks, or that do not have the graph's types, by their names there.
pub fn cases(graph: &Graph, tensors: &BTreeMap<String, HostTensor>) -> Result<Vec<Case>, Error> {
    let users = graph.inputs().iter().filter(|i| matches!(i.kind, InputKind::User));
    let inputs: Vec<&TensorType> = users.map(|i| graph.ty(i.value)).collect();
    let outputs: Vec<&TensorType> = results(graph).map(|i| graph.ty(graph.outputs()[i].value)).collect();
    let mut cases = Vec::new();
    for prefix in ["", "b_"] {
        if !prefix.is_empty() && !tensors.keys().any(|name| name.starts_with(prefix)) {
            continue;
        }
        let mut symbols = BTreeMap::new();
        let mut take = |kind: &str, types: &[&TensorType]| -> Result<Vec<HostTensor>, Error> {
            let taken = types.iter().enumerate().map(|(i, ty)| {
                let name = format!("{prefix}{kind}{i}");
                let missing = || Error::Input(format!("there is no tensor `{name}`"));
                let tensor = tensors.get(&name).ok_or_else(missing)?;
                fit(&name, tensor, ty, &mut symbols)?;
                Ok(tensor.clone())
            });
            taken.collect()
        };
        let (inputs, expected) = (take("in", &inputs)?, take("out", &outputs)?);
        cases.push(Case { prefix: prefix.to_owned(), inputs, expected });
    }
    Ok(cases)
}

/// Names of all outputs in files: `out0…`, and `new_NAME` for one that overwrites the input `NAME`.
pub fn output_names(graph: &Graph) -> Vec<String> {
    let mut count = 0..;
    let name = |output: &fusewright_graph::Output| match &output.updates {
        Some(input) => format!("new_{input}"),
        None => format!("out{}", count.next().unwrap_or(0)),
    };
    graph.outputs().iter().map(name).collect()
}

/// Positions of the outputs that a caller is given; the others overwrite inputs.
fn results(graph: &Graph) -> impl Iterator<Item = usize> {
    let outputs = graph.outputs().iter().enumerate();
    outputs.filter(|(_, output)| output.updates.is_none()).map(|(i, _)| i)
}

/// Refuses a tensor that is not of a type; symbols that have no value yet take theirs from its shape.
fn fit(name: &str, tensor: &HostTensor, ty: &TensorType, symbols: &mut BTreeMap<String, i64>) -> Result<(), Error> {
    let (dtype, shape) = (tensor.dtype, &tensor.shape);
    let misfit = |why: &str| Error::Input(format!("tensor `{name}` is {dtype}{shape:?}, the graph has {ty}{why}"));
    if dtype != ty.dtype || shape.len() != ty.rank() {
        return Err(misfit(""));
    }
    for (extent, &got) in ty.shape.iter().zip(shape) {
        let got = i64::try_from(got).map_err(|_| misfit(""))?;
        if let Some(symbol) = extent.as_symbol() {
            symbols.entry(symbol.to_owned()).or_insert(got);
        }
        // An extent over symbols that only later tensors bind is left to the program.
        match extent.eval(&|s| symbols.get(s).copied()) {
            Ok(expected) if expected != got => return Err(misfit(&format!(", where {extent} is {expected}"))),
            _ => {}
        }
    }
    Ok(())
}

/// Runs a graph on the reference path: the interpreter, every op correctly rounded.
///
/// # Errors
/// Inputs that do not fit, weights without data, ops that the interpreter lacks.
pub fn reference(graph: &Graph, inputs: &[&HostTensor]) -> Result<Vec<HostTensor>, Error> {
    let tensors = inputs.iter().map(|t| to_tensor(t)).collect::<Result<Vec<_>, _>>()?;
    let results = interp::run(graph, &tensors, &interp::Symbols::new()).map_err(|e| Error::Call(e.to_string()))?;
    Ok(results.iter().map(from_tensor).collect())
}

/// Compares a case's produced outputs with the expected ones inside the graph's intervals.
///
/// # Errors
/// Outputs of another dtype or shape; what the interpreter lacks.
pub fn compare(graph: &Graph, case: &Case, produced: &[HostTensor]) -> Result<Vec<OutputCheck>, Error> {
    let inputs = case.inputs.iter().map(to_tensor).collect::<Result<Vec<_>, _>>()?;
    let intervals = interp::enclose(graph, &inputs, &interp::Symbols::new()).map_err(|e| Error::Call(e.to_string()))?;
    if produced.len() != intervals.len() {
        return Err(Error::Call(format!("{} results of a graph with {} outputs", produced.len(), intervals.len())));
    }
    let mut checks = Vec::with_capacity(produced.len());
    for (i, (at, expected)) in results(graph).zip(&case.expected).enumerate() {
        let (interval, ours) = (&intervals[at], &produced[at]);
        let bad = |message: String| Error::Call(format!("output {i}: {message}"));
        if ours.dtype != expected.dtype || ours.shape != expected.shape {
            let (ours, theirs) = ((ours.dtype, &ours.shape), (expected.dtype, &expected.shape));
            return Err(bad(format!("is {}{:?}, expected {}{:?}", ours.0, ours.1, theirs.0, theirs.1)));
        }
        let (ours, expected) = (to_tensor(ours)?, to_tensor(expected)?);
        let difference = ours.compare(&expected).map_err(|e| bad(e.to_string()))?;
        let inside = interval.check(&ours).map_err(|e| bad(e.to_string()))?;
        let theirs = interval.check(&expected).map_err(|e| bad(e.to_string()))?;
        checks.push(OutputCheck {
            dtype: ours.dtype(),
            elements: ours.len(),
            mismatched: difference.mismatched,
            max_ulp: difference.max_ulp,
            max_abs: difference.max_abs,
            outside: inside.elements - inside.inside,
            expected_outside: theirs.elements - theirs.inside,
            expected_far: theirs.far,
            exact: inside.single_valued,
        });
    }
    Ok(checks)
}

pub(crate) fn to_tensor(tensor: &HostTensor) -> Result<Tensor, Error> {
    Tensor::from_bytes(tensor.dtype, &tensor.shape, &tensor.bytes).map_err(|e| Error::Call(e.to_string()))
}

pub(crate) fn from_tensor(tensor: &Tensor) -> HostTensor {
    HostTensor { dtype: tensor.dtype(), shape: tensor.shape().to_vec(), bytes: tensor.to_bytes() }
}
