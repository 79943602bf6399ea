//! `test interp`: evaluates the graph by the reference interpreter, once per `; run:` line.
//!
//! `; run: x = 1 -0.0 nan; i = 0 2; s = 3` gives values to inputs and symbols. The values of an input repeat to fill its
//! shape; every user input has to be given. The output lists each result's type and values.

use std::collections::BTreeMap;

use fusewright_graph::interp::{self, Symbols};
use fusewright_graph::text::{Cursor, parse_value, print_literal, value_names};
use fusewright_graph::verify::verify;
use fusewright_graph::{DType, Graph, InputKind, Literal, Tensor};

use super::print::parse;
use super::{Case, Command, LineError, Outcome};

pub const COMMAND: Command = Command { name: "interp", has_output: true, run };

fn run(case: &Case, _: &[String]) -> Outcome {
    let graph = parse(case)?.graph;
    if let Err(violations) = verify(&graph) {
        return Err(vec![LineError::new(1, &violations[0].message)]);
    }
    if case.runs.is_empty() {
        return Err(vec![LineError::new(1, "no `; run:` line")]);
    }
    let mut text = String::new();
    for (line, given) in &case.runs {
        let results = evaluate(&graph, given).map_err(|e| vec![LineError::new(*line, e)])?;
        text += &format!("{given}\n");
        let names = value_names(&graph);
        for (output, result) in graph.outputs().iter().zip(&results) {
            text += &format!("  {} = {}\n", names[output.value.0 as usize], show(result));
        }
    }
    Ok(text)
}

fn evaluate(graph: &Graph, given: &str) -> Result<Vec<Tensor>, String> {
    let (inputs, symbols) = operands(graph, given)?;
    interp::run(graph, &inputs, &symbols).map_err(|e| e.to_string())
}

/// The user inputs and the symbols that a `; run:` line gives.
pub fn operands(graph: &Graph, given: &str) -> Result<(Vec<Tensor>, Symbols), String> {
    let mut values: BTreeMap<&str, &str> = BTreeMap::new();
    for part in given.split(';').filter(|p| !p.trim().is_empty()) {
        let (name, list) = part.split_once('=').ok_or_else(|| format!("`{}` gives no value", part.trim()))?;
        values.insert(name.trim(), list.trim());
    }
    let mut symbols = Symbols::new();
    for symbol in graph.symbols() {
        if let Some(text) = values.remove(symbol.name.as_str()) {
            symbols.insert(symbol.name.clone(), text.parse().map_err(|_| format!("`{text}` is no integer"))?);
        }
    }
    let mut inputs = Vec::new();
    for input in graph.inputs().iter().filter(|i| matches!(i.kind, InputKind::User)) {
        let list = values.remove(input.name.as_str()).ok_or_else(|| format!("no values of `{}`", input.name))?;
        let ty = graph.ty(input.value);
        let extent = |dim: &fusewright_graph::Dim| {
            let value = dim.eval(&|name| symbols.get(name).copied()).map_err(|e| e.to_string())?;
            usize::try_from(value).map_err(|e| e.to_string())
        };
        let shape = ty.shape.iter().map(extent).collect::<Result<Vec<usize>, String>>()?;
        inputs.push(tensor(ty.dtype, &shape, list)?);
    }
    match values.keys().next() {
        Some(name) => Err(format!("`{name}` is no input or symbol")),
        None => Ok((inputs, symbols)),
    }
}

fn tensor(dtype: DType, shape: &[usize], list: &str) -> Result<Tensor, String> {
    let mut cursor = Cursor::new(list).map_err(|e| e.message)?;
    let (mut floats, mut ints) = (Vec::new(), Vec::new());
    while !cursor.at_end() {
        match parse_value(&mut cursor, dtype).map_err(|e| e.message)? {
            Literal::Float(_, v) => floats.push(v),
            Literal::Int(_, v) => ints.push(v),
        }
    }
    let count: usize = shape.iter().product();
    let tensor = if dtype.is_float() {
        Tensor::from_f64(dtype, shape, floats.into_iter().cycle().take(count).collect())
    } else {
        Tensor::from_i64(dtype, shape, ints.into_iter().cycle().take(count).collect())
    };
    tensor.map_err(|e| e.to_string())
}

/// A tensor's type and values.
pub fn show(tensor: &Tensor) -> String {
    let dtype = tensor.dtype();
    let floats = tensor.floats().unwrap_or_default().iter().map(|&v| Literal::Float(dtype, v));
    let ints = tensor.ints().unwrap_or_default().iter().map(|&v| Literal::Int(dtype, v));
    let value = |literal: Literal| print_literal(&literal).split(' ').next_back().unwrap_or_default().to_owned();
    let values: Vec<String> = floats.chain(ints).map(value).collect();
    let shape: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
    format!("{dtype}[{}] {}", shape.join(", "), values.join(" ")).trim_end().to_owned()
}
