//! Both sides of an equation in f64, without any rounding between: what they have in common but for a little is no
//! equation, though the roundings of narrow dtypes may hide it on all operands that are tried.

use fusewright_graph::interp::{Symbols, run};
use fusewright_graph::operands::{Values, tensors};
use fusewright_graph::{Builder, DType, Graph, Literal, Node, Op, Prim, TensorType, TypeError, Value};

/// What two values may differ by in f64 alone, relative to them: far less than the last bit of f32.
const SAME: f64 = 1e-9;
/// What values differ by at least that are other functions on purpose, such as a side that a bound cuts off, and that
/// evaluation in their own dtypes tells apart.
const OTHER: f64 = 0.05;

/// The first pair of elements that are nearly the same and are not the same, as numbers.
pub(super) fn nearly_equal(left: &Graph, right: &Graph, rows: i64) -> Option<(f64, f64)> {
    let (left, right) = (widened(left)?, widened(right)?);
    let inputs = tensors(&left, rows, Values::Positive);
    let evaluate = |graph: &Graph| run(graph, &inputs, &Symbols::new()).ok();
    let (a, b) = (evaluate(&left)?, evaluate(&right)?);
    let floats = a.iter().zip(&b).filter_map(|(a, b)| a.floats().zip(b.floats()));
    let mut pairs = floats.flat_map(|(a, b)| a.iter().copied().zip(b.iter().copied()));
    pairs.find(|(a, b)| {
        let distance = (a - b).abs() / a.abs().max(b.abs());
        distance > SAME && distance < OTHER
    })
}

/// The graph with f64 in place of every float dtype, if nothing in it depends on the dtype.
fn widened(graph: &Graph) -> Option<Graph> {
    let graph = graph.expanded().ok()?;
    let b = Builder::new(graph.name());
    for symbol in graph.symbols() {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
    let mut map: Vec<Option<Value>> = vec![None; graph.value_count()];
    for input in graph.inputs() {
        let ty = graph.ty(input.value);
        let value = b.add_input(&input.name, TensorType::new(wide(ty.dtype), ty.shape.clone()), input.kind.clone());
        map[input.value.0 as usize] = Some(value);
    }
    for node in graph.nodes() {
        let operands = node.operands.iter().map(|v| map[v.0 as usize]).collect::<Option<Vec<Value>>>()?;
        let results = widened_node(&b, node, &operands).ok()??;
        node.results.iter().zip(results).for_each(|(old, new)| map[old.0 as usize] = Some(new));
    }
    for output in graph.outputs() {
        b.output(map[output.value.0 as usize]?);
    }
    Some(b.finish())
}

fn wide(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}

fn widened_node(b: &Builder, node: &Node, operands: &[Value]) -> Result<Option<Vec<Value>>, TypeError> {
    let Op::Prim(prim) = &node.op else { return Ok(None) };
    let prim = match prim {
        Prim::Bitcast { .. } | Prim::Pack { .. } | Prim::Opaque { .. } => return Ok(None),
        // Codes and whole numbers are what a side rounds to on purpose.
        Prim::Cast { to, .. } if !to.is_float() || !b.dtype(operands[0]).is_float() => return Ok(None),
        Prim::Cast { .. } => return Ok(Some(operands.to_vec())),
        Prim::Literal(Literal::Float(_, number)) => Prim::Literal(Literal::Float(DType::F64, *number)),
        Prim::Iota { dtype, shape, axis } => Prim::Iota { dtype: wide(*dtype), shape: shape.clone(), axis: *axis },
        other => other.clone(),
    };
    b.op(Op::Prim(prim), operands).map(Some)
}
