//! An order of nodes in which every replacement has a place.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fusewright_graph::{Def, Graph, NodeId, Value};

use super::Match;

/// The order nearest to the present one in which all operands of a match stand before the first node that yields; `None`
/// if an operand is computed from what the match yields.
pub(super) fn of<'m>(graph: &Graph, found: impl IntoIterator<Item = &'m Match>) -> Option<Vec<NodeId>> {
    let count = graph.nodes().len();
    let mut readers: Vec<Vec<u32>> = vec![Vec::new(); count];
    let mut open = vec![0usize; count];
    let mut edge = |value: Value, to: NodeId| {
        if let Def::Node(from, _) = graph.def(value) {
            readers[from.0 as usize].push(to.0);
            open[to.0 as usize] += 1;
        }
    };
    for id in graph.node_ids() {
        graph.node(id).operands.iter().for_each(|&v| edge(v, id));
    }
    for matched in found {
        for id in matched.yielding(graph) {
            matched.operands.iter().for_each(|&v| edge(v, id));
        }
    }
    let mut ready: BinaryHeap<Reverse<u32>> =
        (0..count as u32).filter(|&i| open[i as usize] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(count);
    while let Some(Reverse(id)) = ready.pop() {
        order.push(NodeId(id));
        for &reader in &readers[id as usize] {
            open[reader as usize] -= 1;
            if open[reader as usize] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    (order.len() == count).then_some(order)
}
