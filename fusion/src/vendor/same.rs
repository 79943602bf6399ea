//! Whether graphs compute the same, by their nodes: operands of commutative functions may be swapped, names and order count for
//! nothing, views of results neither.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::{Graph, Op, Prim, Value};

/// The values of several graphs by number: equal numbers are equal computations of equal inputs.
#[derive(Default)]
pub(super) struct Numbers {
    ops: Vec<Op>,
    nodes: BTreeMap<Key, usize>,
}

/// The op, its operands, the result's place and its rank.
type Key = (usize, Vec<usize>, usize, usize);

/// Numbers that inputs have, which no node has.
const INPUTS: usize = 1 << 20;

impl Numbers {
    /// The numbers of the outputs of a graph whose inputs have the given ones, seen through views.
    pub fn of_outputs(&mut self, graph: &Graph, input: impl Fn(&str) -> Option<usize>) -> Vec<Option<usize>> {
        let known = self.known(graph, input);
        graph.outputs().iter().map(|output| known.get(&unviewed(graph, output.value)).copied()).collect()
    }

    /// The numbers of what the nodes of such a graph compute.
    pub fn of_values(&mut self, graph: &Graph, input: impl Fn(&str) -> Option<usize>) -> BTreeSet<usize> {
        self.known(graph, input).into_values().filter(|&number| number < INPUTS).collect()
    }

    fn known(&mut self, graph: &Graph, input: impl Fn(&str) -> Option<usize>) -> BTreeMap<Value, usize> {
        let mut known: BTreeMap<Value, usize> = BTreeMap::new();
        let inputs = graph.inputs().iter().filter_map(|i| Some((i.value, INPUTS + input(&i.name)?)));
        known.extend(inputs);
        for node in graph.nodes() {
            let function = if let Op::Prim(Prim::Map(f)) = &node.op { Some(f) } else { None };
            // What broadcasting adds to the left of a shape need not be there.
            let operand = |&value: &Value| if function.is_some() { unpadded(graph, value) } else { value };
            let operands: Option<Vec<usize>> = node.operands.iter().map(|v| known.get(&operand(v)).copied()).collect();
            let Some(mut operands) = operands else { continue };
            if function.is_some_and(|f| f.spec().commutative) {
                operands[..2].sort_unstable();
            }
            let op = self.op(&node.op);
            for (place, &result) in node.results.iter().enumerate() {
                let next = self.nodes.len();
                let key = (op, operands.clone(), place, graph.ty(result).rank());
                known.insert(result, *self.nodes.entry(key).or_insert(next));
            }
        }
        known
    }

    fn op(&mut self, op: &Op) -> usize {
        let found = self.ops.iter().position(|known| known == op);
        found.unwrap_or_else(|| {
            self.ops.push(op.clone());
            self.ops.len() - 1
        })
    }
}

/// What a value is a view of with other extents.
fn viewed(graph: &Graph, value: Value) -> Option<Value> {
    let node = graph.nodes().iter().find(|node| node.results.contains(&value))?;
    matches!(node.op, Op::Prim(Prim::Reshape { .. })).then(|| node.operands[0])
}

/// What a value is a reshaped view of, of views of views too.
fn unviewed(graph: &Graph, value: Value) -> Value {
    viewed(graph, value).map_or(value, |of| unviewed(graph, of))
}

/// What a value is if it only has axes of one more, in front of all others.
fn unpadded(graph: &Graph, value: Value) -> Value {
    let Some(of) = viewed(graph, value) else { return value };
    let (wide, narrow) = (&graph.ty(value).shape, &graph.ty(of).shape);
    let added = wide.strip_suffix(narrow.as_slice());
    if added.is_some_and(|added| added.iter().all(|extent| extent.as_const() == Some(1))) { of } else { value }
}
