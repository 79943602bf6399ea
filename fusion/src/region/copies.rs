//! How often a value is computed in one kernel.
//!
//! A concatenation of computed values is computed part by part, each with its own copy of what it reads. Where parts of
//! concatenations are concatenated again, the copies multiply.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use fusewright_graph::{Graph, Op, Prim};

/// The most often that a node of a body is computed, or `limit + 1` if that is more.
pub(super) fn most_copies(body: &Graph, limit: usize) -> usize {
    // The ways from each value to the outputs, by the parts of concatenations that are on them.
    let mut ways: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); body.value_count()];
    for output in body.outputs() {
        ways[output.value.0 as usize].insert(0);
    }
    let mut most = 0;
    for id in body.node_ids().rev() {
        let node = body.node(id);
        let own: BTreeSet<u64> = node.results.iter().flat_map(|r| ways[r.0 as usize].iter().copied()).collect();
        most = most.max(own.len());
        if most > limit {
            return limit + 1;
        }
        let joins = matches!(node.op, Op::Prim(Prim::Cat { .. }));
        for (part, operand) in node.operands.iter().enumerate() {
            let through = |way: &u64| {
                let mut hasher = DefaultHasher::new();
                (way, id, part).hash(&mut hasher);
                hasher.finish()
            };
            ways[operand.0 as usize].extend(own.iter().map(|way| if joins { through(way) } else { *way }));
        }
    }
    most
}
