//! When two graphs are the same: equal but for origins, value names, value numbers and the data of weights.

use std::collections::BTreeMap;

use crate::graph::{Graph, Input, InputKind, Node, Value};

/// Positions of values: inputs in order, then results in node order.
type Positions = BTreeMap<Value, usize>;

impl Graph {
    /// All values in canonical order: inputs, then the results of each node.
    pub fn values_in_order(&self) -> impl Iterator<Item = Value> + '_ {
        let results = self.nodes().iter().flat_map(|n| n.results.iter().copied());
        self.inputs().iter().map(|i| i.value).chain(results)
    }

    /// Whether the other graph computes the same in the same way: the same name, symbols, inputs, nodes in the same
    /// order, and outputs. Origins, value names and the data of weights do not count.
    pub fn same_as(&self, other: &Graph) -> bool {
        let (mine, others) = (self.positions(), other.positions());
        let place = |positions: &Positions, values: &[Value]| -> Vec<Option<usize>> {
            values.iter().map(|v| positions.get(v).copied()).collect()
        };
        let same_input = |a: &Input, b: &Input| {
            let kinds = matches!(
                (&a.kind, &b.kind),
                (InputKind::User, InputKind::User)
                    | (InputKind::Settled, InputKind::Settled)
                    | (InputKind::Weight(_), InputKind::Weight(_))
            );
            kinds && a.name == b.name && self.ty(a.value) == other.ty(b.value)
        };
        let same_node = |a: &Node, b: &Node| {
            a.op == b.op
                && place(&mine, &a.operands) == place(&others, &b.operands)
                && a.results.iter().map(|&v| self.ty(v)).eq(b.results.iter().map(|&v| other.ty(v)))
        };
        let outputs = |graph: &Graph, positions: &Positions| -> Vec<(Option<usize>, Option<String>)> {
            graph.outputs().iter().map(|o| (positions.get(&o.value).copied(), o.updates.clone())).collect()
        };
        self.name() == other.name()
            && self.symbols() == other.symbols()
            && self.inputs().len() == other.inputs().len()
            && self.inputs().iter().zip(other.inputs()).all(|(a, b)| same_input(a, b))
            && self.nodes().len() == other.nodes().len()
            && self.nodes().iter().zip(other.nodes()).all(|(a, b)| same_node(a, b))
            && outputs(self, &mine) == outputs(other, &others)
    }

    fn positions(&self) -> Positions {
        self.values_in_order().enumerate().map(|(position, value)| (value, position)).collect()
    }
}
