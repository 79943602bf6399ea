//! Equality of graphs op for op, commutative operands in either order.

use std::collections::BTreeMap;

use fusewright_graph::ops::Composite;
use fusewright_graph::{Def, Graph, Node, Op, Prim, TensorType, Value};

use super::cut::{Cut, Operand};

/// Operands of an expansion that are lanes of a wider value.
type Cuts = BTreeMap<Value, Cut>;

/// The values of a graph that are the results of a composite on the given operands, the first of them being `root`, if
/// the composite's expansion stands there op for op. An expansion that ends in a reshape is compared without it.
pub fn occurrence(graph: &Graph, composite: &Composite, operands: &[Operand], root: Value) -> Option<Vec<Value>> {
    let types: Vec<TensorType> = operands.iter().map(|operand| operand.ty(graph)).collect();
    let body = composite.body(&types.iter().collect::<Vec<_>>()).ok()?;
    let inputs = || body.inputs().iter().map(|input| input.value).zip(operands);
    let whole = |(input, operand): (Value, &Operand)| match operand {
        Operand::Value(value) => Some((input, *value)),
        Operand::Lanes(_) => None,
    };
    let mut map: BTreeMap<Value, Value> = inputs().filter_map(whole).collect();
    let cuts: Cuts = inputs().filter_map(|(input, operand)| Some((input, operand.cut(graph)?))).collect();
    let mut outputs: Vec<Value> = body.outputs().iter().map(|o| o.value).collect();
    *outputs.first_mut()? = before_reshape(&body, *outputs.first()?);
    let first = *outputs.first()?;
    if !equal(&body, first, graph, root, &cuts, &mut map) {
        return None;
    }
    outputs.iter().map(|&output| beside(&body, output, graph, &mut map)).collect()
}

/// The value of a graph that is computed as a further result `x` of `body`: one on the way to the first result, or one
/// made of such.
fn beside(body: &Graph, x: Value, graph: &Graph, map: &mut BTreeMap<Value, Value>) -> Option<Value> {
    if let Some(&known) = map.get(&x) {
        return Some(known);
    }
    let Def::Node(id, result) = body.def(x) else { return None };
    let node = body.node(id);
    let operands = node.operands.iter().map(|&v| beside(body, v, graph, map)).collect::<Option<Vec<Value>>>()?;
    let same = graph.nodes().iter().find(|n| n.op == node.op && n.operands == operands)?;
    let found = *same.results.get(result)?;
    map.insert(x, found);
    Some(found)
}

/// What a value is a reshape of, or the value itself: graphs reshape such results further.
pub fn before_reshape(graph: &Graph, value: Value) -> Value {
    match graph.def_node(value) {
        Some(node) if matches!(node.op, Op::Prim(Prim::Reshape { .. })) => node.operands[0],
        _ => value,
    }
}

/// Whether two graphs with as many inputs and outputs compute the same by the same nodes.
#[cfg(test)]
pub fn same_function(a: &Graph, b: &Graph) -> bool {
    let mut map: BTreeMap<Value, Value> = a.inputs().iter().zip(b.inputs()).map(|(x, y)| (x.value, y.value)).collect();
    a.inputs().len() == b.inputs().len()
        && a.outputs().len() == b.outputs().len()
        && a.outputs().iter().zip(b.outputs()).all(|(x, y)| equal(a, x.value, b, y.value, &Cuts::new(), &mut map))
}

/// Whether one slice is of an operand, and another the same lanes of what that operand is cut from.
fn cut_at_once(cuts: &Cuts, left: &Node, right: &Node) -> bool {
    let of = left.operands.first().and_then(|operand| cuts.get(operand));
    let from = right.operands.first();
    of.zip(from).is_some_and(|(cut, from)| cut.holds(&left.op, &right.op, *from))
}

/// Whether value `x` of graph `a` is computed as value `y` of graph `b`, given what is known to be equal.
fn equal(a: &Graph, x: Value, b: &Graph, y: Value, cuts: &Cuts, map: &mut BTreeMap<Value, Value>) -> bool {
    if let Some(&known) = map.get(&x) {
        return known == y;
    }
    let (Def::Node(i, result), Def::Node(j, other)) = (a.def(x), b.def(y)) else { return false };
    let (left, right) = (a.node(i), b.node(j));
    if cut_at_once(cuts, left, right) {
        map.insert(x, y);
        return true;
    }
    let alike =
        result == other && left.op == right.op && left.operands.len() == right.operands.len() && a.ty(x) == b.ty(y);
    if !alike {
        return false;
    }
    let commutes = matches!(&left.op, Op::Prim(Prim::Map(f)) if f.spec().commutative);
    let mut orders = vec![right.operands.clone()];
    if commutes {
        let mut swapped = right.operands.clone();
        swapped.swap(0, 1);
        orders.push(swapped);
    }
    for operands in orders {
        let mut attempt = map.clone();
        if left.operands.iter().zip(&operands).all(|(&p, &v)| equal(a, p, b, v, cuts, &mut attempt)) {
            *map = attempt;
            map.insert(x, y);
            return true;
        }
    }
    false
}
