//! How often a value is computed in one kernel.
//!
//! A concatenation of computed values is computed part by part, each with its own copy of what it reads. Where parts of
//! concatenations are concatenated again, the copies multiply. What is read where it lies has no copies, and an index that
//! chooses rows is one number for all parts of a row.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use fusewright_graph::{Graph, Op, Prim};

use super::{is_constant, is_layout};

/// How much more often than a value is computed one may be read, so that the ways to it stay few.
pub(super) const READS: usize = 8;

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
        let is_read = is_constant(&node.op) || is_layout(&node.op) || matches!(node.op, Op::Prim(Prim::Gather { .. }));
        if own.len() > if is_read { limit * READS } else { limit } {
            return limit + 1;
        }
        if !is_read {
            most = most.max(own.len());
        }
        let joins = matches!(node.op, Op::Prim(Prim::Cat { .. }));
        for (part, operand) in node.operands.iter().enumerate() {
            let through = |way: &u64| {
                let mut hasher = DefaultHasher::new();
                (way, id, part).hash(&mut hasher);
                hasher.finish()
            };
            let of_index = part == 1 && matches!(node.op, Op::Prim(Prim::Gather { .. }));
            let of_operand = &mut ways[operand.0 as usize];
            match (joins, of_index) {
                (true, _) => of_operand.extend(own.iter().map(through)),
                (_, true) => of_operand.extend([0]),
                _ => of_operand.extend(&own),
            }
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 16;

    /// The most copies of a body with a value `%a`, which is joined twice, so often.
    #[track_caller]
    fn doubled(nodes: &str, times: usize) -> usize {
        let mut text = format!("graph @g(s: 1..; %x: f32[s, 8], %t: f32[9, 8], %i: i64[s]) {{\n {nodes}\n");
        let mut last = "a".to_owned();
        for n in 1..=times {
            text += &format!(" %v{n} = cat %{last}, %{last} {{axis = 1}}\n");
            last = format!("v{n}");
        }
        text += &format!(" return %{last} }}");
        most_copies(&text.parse().unwrap_or_else(|e| panic!("{e}\n{text}")), LIMIT)
    }

    #[test]
    fn what_is_computed_is_copied_and_what_is_read_is_not() {
        assert_eq!(doubled("%a = exp %x", 3), 8);
        // The innermost concatenation itself.
        assert_eq!(doubled("%a = slice %x {axis = 1, start = 0, end = 4}", 3), 4);
        let gather = "%one = literal i64 1\n %p = add %i, %one\n %a = gather %t, %p {axis = 0}";
        assert_eq!(doubled(gather, 3), 4);
        // What computes a slice is copied with it.
        assert_eq!(doubled("%e = exp %x\n %a = slice %e {axis = 1, start = 0, end = 4}", 3), 8);
    }

    #[test]
    fn there_is_a_limit_to_both() {
        assert_eq!((doubled("%a = exp %x", 4), doubled("%a = exp %x", 5)), (16, LIMIT + 1));
        assert_eq!(doubled("%a = slice %x {axis = 1, start = 0, end = 4}", 5), 16);
        assert_eq!(doubled("%a = slice %x {axis = 1, start = 0, end = 4}", 40), LIMIT + 1);
    }
}
