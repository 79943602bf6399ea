//! Removes nodes that nothing needs.
//!
//! Needed are the outputs, ops of the host framework, whose effects are not known, and collectives, which other ranks
//! wait for.

use std::collections::BTreeMap;

use fusewright_graph::{Graph, Op, Prim, TypeError, Value};

use crate::pass::{Cx, Outcome, Pass, PassResult};

/// The pass.
pub const PASS: Pass = Pass { name: "dce", required: true, run };

/// Stands for results that nobody reads.
const UNUSED: Value = Value(u32::MAX);

fn run(graph: &Graph, cx: &mut Cx) -> PassResult {
    let (pruned, _, outcome) = without_unneeded(graph, cx);
    Ok((pruned, outcome))
}

/// Whether a node is needed though nobody reads it.
pub(super) fn has_effect(op: &Op) -> bool {
    matches!(op, Op::Prim(Prim::Opaque { .. } | Prim::AllReduce(_)))
}

/// The graph without its unneeded nodes.
pub fn prune(graph: &Graph) -> (Graph, Outcome) {
    let (pruned, _, outcome) = without_unneeded(graph, &mut Cx::default());
    (pruned, outcome)
}

/// The graph without its unneeded nodes, and the values that the results of the others have in it.
pub(super) fn without_unneeded(graph: &Graph, cx: &mut Cx) -> (Graph, BTreeMap<Value, Value>, Outcome) {
    let mut needed = vec![false; graph.value_count()];
    for output in graph.outputs() {
        needed[output.value.0 as usize] = true;
    }
    let mut live = vec![false; graph.nodes().len()];
    for id in graph.node_ids().rev() {
        let node = graph.node(id);
        if has_effect(&node.op) || node.results.iter().any(|r| needed[r.0 as usize]) || cx.is_spent() {
            live[id.0 as usize] = true;
            node.operands.iter().for_each(|v| needed[v.0 as usize] = true);
        } else {
            cx.spend();
        }
    }
    let changed = live.iter().filter(|l| !**l).count();
    let mut map = BTreeMap::new();
    let rebuilt = graph.rebuild(|b, id, node, operands| {
        if !live[id.0 as usize] {
            return Ok(vec![UNUSED; node.results.len()]);
        }
        let results = b.op(node.op.clone(), operands)?;
        map.extend(node.results.iter().copied().zip(results.iter().copied()));
        Ok::<_, TypeError>(results)
    });
    (rebuilt.expect("live nodes are rebuilt as they were"), map, Outcome { changed })
}

#[cfg(test)]
mod tests {
    use fusewright_graph::{Builder, DType::F32, Dim, TensorType};

    use super::*;

    #[test]
    fn unused_nodes_go_and_opaque_ones_stay() {
        let b = Builder::new("g");
        let x = b.input("x", TensorType::new(F32, [Dim::symbol("s")]));
        let dead = b.mul(x, x).expect("mul");
        b.name(dead, "dead");
        b.mul(dead, x).expect("mul");
        let fed = b.add(x, x).expect("add");
        let opaque = Prim::Opaque { target: "log".into(), attrs: Vec::new(), results: Vec::new() };
        b.op(Op::Prim(opaque), &[fed]).expect("opaque");
        b.output(x);
        let (out, outcome) = prune(&b.finish());
        assert_eq!(outcome.changed, 2);
        assert_eq!(out.nodes().iter().map(|n| n.op.name()).collect::<Vec<_>>(), ["add", "opaque"]);
    }
}
