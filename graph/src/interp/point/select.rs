//! Order of floats: the first of the best, and the largest few.

use std::cmp::Ordering;

use crate::prim::ReduceOp;

/// Index of the first largest (`Max`) or smallest element; a NaN wins.
pub(in crate::interp) fn arg_best(op: ReduceOp, row: impl Iterator<Item = f64>) -> i64 {
    let mut best = (0, f64::NAN);
    for (i, x) in row.enumerate() {
        let better = if op == ReduceOp::Max { x > best.1 } else { x < best.1 };
        if i == 0 || (!best.1.is_nan() && (better || x.is_nan())) {
            best = (i, x);
        }
    }
    best.0 as i64
}

/// Indices in descending order of elements: NaN first, of equals the lower index first.
pub(in crate::interp) fn top_order(row: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..row.len()).collect();
    order.sort_by(|&i, &j| match (row[i].is_nan(), row[j].is_nan()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        (false, false) => row[j].partial_cmp(&row[i]).unwrap_or(Ordering::Equal),
    });
    order
}
