//! Reductions, extremes and the largest k of a row.

use std::cmp::Ordering;

use fusewright_abi::DType;
use fusewright_graph::{NanRule, ReduceOp, num};

use super::scalar::map;
use crate::kernel::{Order, Tree};

/// Combines lanes in the order that is stated.
pub(super) fn reduce(dtype: DType, lanes: &[u64], op: ReduceOp, nan: NanRule, order: Order) -> u64 {
    let tree = match order {
        Order::Tree(tree) => tree,
        Order::Relaxed => Tree::interleaved(1),
    };
    let f = op.step(nan);
    let mut partial = vec![op.start(dtype).code(); tree.accumulators()];
    for (lane, &bits) in lanes.iter().enumerate() {
        let slot = &mut partial[tree.accumulator(lane)];
        *slot = map(f, dtype, &[*slot, bits]);
    }
    for (into, from) in tree.combine_steps() {
        partial[into] = map(f, dtype, &[partial[into], partial[from]]);
    }
    partial[0]
}

/// Lane of the extreme element: the first of equals; a NaN wins. `None` of no lanes.
pub(super) fn arg_reduce(dtype: DType, lanes: &[u64], op: ReduceOp) -> Option<usize> {
    let wanted = if op == ReduceOp::Max { Ordering::Greater } else { Ordering::Less };
    let mut best: Option<usize> = None;
    for (lane, &bits) in lanes.iter().enumerate() {
        let better = best.is_none_or(|b| match (is_nan(dtype, lanes[b]), is_nan(dtype, bits)) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => compare(dtype, bits, lanes[b]) == wanted,
        });
        if better {
            best = Some(lane);
        }
    }
    best
}

/// Lanes of the `k` largest in descending order; of equals the lower lane first; a NaN counts as largest.
pub(super) fn top_k(dtype: DType, lanes: &[u64], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    order.sort_by(|&a, &b| match (is_nan(dtype, lanes[a]), is_nan(dtype, lanes[b])) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => compare(dtype, lanes[b], lanes[a]),
    });
    order.truncate(k);
    order
}

fn is_nan(dtype: DType, bits: u64) -> bool {
    dtype.is_float() && num::decode(dtype, bits).is_nan()
}

fn compare(dtype: DType, a: u64, b: u64) -> Ordering {
    if dtype.is_float() {
        num::decode(dtype, a).partial_cmp(&num::decode(dtype, b)).unwrap_or(Ordering::Equal)
    } else {
        let value = |bits| num::int_value(dtype, num::decode_int(dtype, bits));
        value(a).cmp(&value(b))
    }
}
