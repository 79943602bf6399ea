//! Cases of a check file: stored inputs, and results to compare with, by their names in the file.

use std::collections::BTreeMap;

use fusewright_graph::{Graph, TensorType};

use crate::{Error, HostTensor};

/// One case of a check file: inputs and expected outputs that share a prefix.
#[derive(Clone, Debug)]
pub struct Case {
    /// `""` or `"b_"`.
    pub prefix: String,
    /// The user inputs in order.
    pub inputs: Vec<HostTensor>,
    /// The expected results by the positions of their outputs, if there are any to compare with; those that overwrite
    /// inputs are not stored.
    pub expected: Option<Vec<(usize, HostTensor)>>,
}

/// The cases of a check file: `in0…`/`out0…`, and a second one under `b_` where it is there. A case without any `out0…`
/// holds inputs to run on and nothing to compare with.
///
/// # Errors
/// Inputs or outputs of the graph that the file lacks, or that do not have the graph's types, and tensors numbered
/// beyond those of the graph, by their names there.
pub fn cases(graph: &Graph, tensors: &BTreeMap<String, HostTensor>) -> Result<Vec<Case>, Error> {
    let users = graph.inputs().iter().filter(|i| i.kind.is_given());
    let inputs: Vec<&TensorType> = users.map(|i| graph.ty(i.value)).collect();
    let outputs: Vec<&TensorType> = results(graph).map(|i| graph.ty(graph.outputs()[i].value)).collect();
    let mut cases = Vec::new();
    for prefix in ["", "b_"] {
        let file = Prefixed { prefix, tensors };
        if !prefix.is_empty() && file.numbers("in").next().or(file.numbers("out").next()).is_none() {
            continue;
        }
        let mut symbols = BTreeMap::new();
        let taken = file.take("in", &inputs, &mut symbols)?;
        let stored = file.numbers("out").next().is_some();
        let expected = stored.then(|| file.take("out", &outputs, &mut symbols)).transpose()?;
        let expected = expected.map(|stored| results(graph).zip(stored).collect());
        cases.push(Case { prefix: prefix.to_owned(), inputs: taken, expected });
    }
    Ok(cases)
}

/// The tensors of a check file that share a prefix.
struct Prefixed<'a> {
    prefix: &'static str,
    tensors: &'a BTreeMap<String, HostTensor>,
}

impl Prefixed<'_> {
    /// The numbers of the tensors of a kind.
    fn numbers<'s>(&'s self, kind: &'s str) -> impl Iterator<Item = usize> + 's {
        let number = move |name: &String| name.strip_prefix(self.prefix)?.strip_prefix(kind)?.parse().ok();
        self.tensors.keys().filter_map(number)
    }

    /// The tensors of a kind, one per type.
    fn take(
        &self,
        kind: &str,
        types: &[&TensorType],
        symbols: &mut BTreeMap<String, i64>,
    ) -> Result<Vec<HostTensor>, Error> {
        let prefix = self.prefix;
        if let Some(extra) = self.numbers(kind).find(|&n| n >= types.len()) {
            let (count, kind_of) = (types.len(), if kind == "in" { "inputs" } else { "outputs" });
            let message = format!("there is a tensor `{prefix}{kind}{extra}`, the graph has {count} {kind_of}");
            return Err(Error::Input(message));
        }
        let taken = types.iter().enumerate().map(|(i, ty)| {
            let name = format!("{prefix}{kind}{i}");
            let missing = || Error::Input(format!("there is no tensor `{name}`"));
            let tensor = self.tensors.get(&name).ok_or_else(missing)?;
            fit(&name, tensor, ty, symbols)?;
            Ok(tensor.clone())
        });
        taken.collect()
    }
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
            Ok(expected) if expected != got && extent.as_const().is_some() => return Err(misfit("")),
            Ok(expected) if expected != got => return Err(misfit(&format!(", where {extent} is {expected}"))),
            _ => {}
        }
    }
    Ok(())
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
pub fn results(graph: &Graph) -> impl Iterator<Item = usize> {
    let outputs = graph.outputs().iter().enumerate();
    outputs.filter(|(_, output)| output.updates.is_none()).map(|(i, _)| i)
}
