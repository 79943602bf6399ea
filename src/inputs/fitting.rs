//! Sizes that a graph takes: those with which every extent is one and every slice lies inside its axis.

use fusewright_graph::interp::Symbols;
use fusewright_graph::{Dim, Graph, Op, Prim, dim_range};

/// How far from the number that is wanted another one is looked for.
const REACH: i64 = 1024;

/// The values of the symbols that `with` gives for the number nearest to `wanted` that fits, the greater of two; `None`
/// if none does.
pub(super) fn nearest(graph: &Graph, wanted: i64, with: &dyn Fn(i64) -> Symbols) -> Option<Symbols> {
    let needed = needed(graph);
    let numbers = (0..=REACH).flat_map(|far| [wanted.checked_add(far), wanted.checked_sub(far)]).flatten();
    numbers.filter(|&n| n >= 0).map(with).find(|values| needed.iter().all(|dim| holds(dim, values)))
}

fn holds(dim: &Dim, values: &Symbols) -> bool {
    dim.eval(&|name| values.get(name).copied()).is_ok_and(|value| value >= 0)
}

/// What must not be negative, where the ranges of the symbols leave that open.
fn needed(graph: &Graph) -> Vec<Dim> {
    let mut needed: Vec<Dim> = Vec::new();
    let mut need = |dim: Dim| {
        let known = dim_range(&dim, graph.symbols()).is_some_and(|(least, _)| least >= 0);
        if !known && !needed.contains(&dim) {
            needed.push(dim);
        }
    };
    for input in graph.inputs() {
        graph.ty(input.value).shape.iter().cloned().for_each(&mut need);
    }
    for node in graph.nodes() {
        node.results.iter().for_each(|&value| graph.ty(value).shape.iter().cloned().for_each(&mut need));
        if let Op::Prim(Prim::Slice { axis, start, end, .. }) = &node.op {
            let extent = &graph.ty(node.operands[0]).shape[*axis];
            [start.clone(), end - start, extent - end].into_iter().for_each(&mut need);
        }
    }
    needed
}
