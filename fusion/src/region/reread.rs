//! Inputs that are read in layouts which no row program holds together: a vector as a column and as a row of one
//! product, a matrix beside its transpose. One axis of such an input would be two axes of a value.
//!
//! Each layout is read by an input of its own, all of one tensor: the two readings have axes of their own then.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::axes::{AxisId, AxisMap};
use fusewright_graph::{Def, Graph, Node, NodeId, Op, Prim, TypeError, Value};

use super::RowForm;
use super::form::Piece;
use super::packed::returning;

/// A body of primitives in which no input with an axis that a value has twice is read in two layouts; `None` if none is.
pub(super) fn reread(body: &Graph) -> Option<RowForm> {
    let views = Views::of(body);
    let again = views.read_again(body, &AxisMap::of(body).ok()?);
    if again.is_empty() {
        return None;
    }
    let mut inputs: Vec<usize> = (0..body.inputs().len()).collect();
    let mut map: BTreeMap<Value, Value> = BTreeMap::new();
    let mut own: BTreeMap<Value, Value> = BTreeMap::new();
    let rebuilt = body.rebuild(|b, _, node, operands| {
        map.extend(node.operands.iter().copied().zip(operands.iter().copied()));
        let mut operands = operands.to_vec();
        for (at, operand) in operands.iter_mut().enumerate() {
            let old = node.operands[at];
            let reads = at > 0 || viewed(node).is_none();
            let Some(&input) = again.get(&old).filter(|_| reads) else { continue };
            if let Some(&known) = own.get(&old) {
                *operand = known;
                continue;
            }
            let whole = &body.inputs()[input];
            let mut name = format!("{}_{}", whole.name, inputs.len());
            while body.inputs().iter().any(|input| input.name == name) {
                name.push('_');
            }
            inputs.push(input);
            let mut value = b.add_input(&name, body.ty(whole.value).clone(), whole.kind.clone());
            for id in views.chain(body, old) {
                let step = body.node(id);
                let others = step.operands[1..].iter().map(|other| map[other]);
                value = b.op(step.op.clone(), &[value].into_iter().chain(others).collect::<Vec<_>>())?[0];
            }
            own.insert(old, value);
            *operand = value;
        }
        let results = b.op(node.op.clone(), &operands)?;
        map.extend(node.results.iter().copied().zip(results.iter().copied()));
        Ok::<_, TypeError>(results)
    });
    let rebuilt = rebuilt.ok()?;
    map.extend(body.inputs().iter().zip(rebuilt.inputs()).map(|(old, new)| (old.value, new.value)));
    let values: Vec<Value> = body.outputs().iter().map(|output| map[&output.value]).collect();
    let pieces = body.outputs().iter().enumerate().map(|(i, o)| Piece::whole(i, &body.ty(o.value).shape));
    Some(RowForm { body: returning(&rebuilt, &values)?, inputs, pieces: pieces.collect() })
}

/// What a node makes a view of.
fn viewed(node: &Node) -> Option<Value> {
    let Op::Prim(prim) = &node.op else { return None };
    let moves = matches!(
        prim,
        Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } | Prim::Slice { .. } | Prim::Gather { .. }
    );
    moves.then(|| node.operands[0])
}

/// The index maps of inputs.
struct Views {
    /// By value, the position of the input.
    of: Vec<Option<usize>>,
}

impl Views {
    fn of(body: &Graph) -> Views {
        let mut of = vec![None; body.value_count()];
        for (i, input) in body.inputs().iter().enumerate() {
            of[input.value.0 as usize] = Some(i);
        }
        for node in body.nodes() {
            if let Some(value) = viewed(node) {
                of[node.results[0].0 as usize] = of[value.0 as usize];
            }
        }
        Views { of }
    }

    /// The nodes that make a view, in order.
    fn chain(&self, body: &Graph, view: Value) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        let mut value = view;
        while let Def::Node(id, _) = body.def(value) {
            nodes.push(id);
            value = body.node(id).operands[0];
        }
        nodes.reverse();
        nodes
    }

    /// The layouts of inputs that are to be read by inputs of their own, with the positions of those: all but the first of
    /// each. What is written into, or returned as it came, is one input.
    fn read_again(&self, body: &Graph, axes: &AxisMap) -> BTreeMap<Value, usize> {
        let twice = twice(body, axes);
        let mut readings: BTreeMap<usize, BTreeSet<Value>> = BTreeMap::new();
        let mut whole: BTreeSet<usize> = BTreeSet::new();
        for node in body.nodes() {
            for (at, &operand) in node.operands.iter().enumerate() {
                let Some(input) = self.of[operand.0 as usize] else { continue };
                if at == 0 && matches!(node.op, Op::Prim(Prim::Scatter { .. })) {
                    whole.insert(input);
                }
                if at > 0 || viewed(node).is_none() {
                    readings.entry(input).or_default().insert(operand);
                }
            }
        }
        whole.extend(body.outputs().iter().filter_map(|output| self.of[output.value.0 as usize]));
        readings.retain(|&input, _| {
            let held = axes.flat(body.inputs()[input].value);
            !whole.contains(&input) && held.iter().any(|axis| twice.contains(axis))
        });
        let others = |(input, layouts): (usize, BTreeSet<Value>)| layouts.into_iter().skip(1).map(move |v| (v, input));
        readings.into_iter().flat_map(others).collect()
    }
}

/// The axes that some value has twice.
fn twice(body: &Graph, axes: &AxisMap) -> BTreeSet<AxisId> {
    let mut found = BTreeSet::new();
    for value in (0..body.value_count() as u32).map(Value) {
        let flat = axes.flat(value);
        found.extend((1..flat.len()).filter(|&i| flat[..i].contains(&flat[i])).map(|i| flat[i]));
    }
    found
}
