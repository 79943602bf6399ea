//! Short runs of wide rows: what one pass of a loop reads of each row, where rows are much wider.
//!
//! A processor foresees long runs by itself, and is still learning of a short one when it ends. So the same lanes of a
//! later row are asked for ahead of their use.

use fusewright_graph::Dim;

use crate::kernel::{INNER, ROW};

/// Bytes of a run that a processor foresees the end of, and how far ahead of their use elements are asked for.
const LONG: i64 = 2048;

/// How many bytes ahead a load asks for elements of so many bytes; `None` where the loop over its lanes reads long runs,
/// or runs that may follow each other.
pub(in crate::backend) fn distance(index: &Dim, lanes: &Dim, bytes: u32) -> Option<i64> {
    let bytes = i64::from(bytes);
    let run = lanes.as_const()?.checked_mul(bytes)?;
    let stride = index.split_linear(ROW)?.0.as_const()?.checked_mul(bytes)?;
    // Inner rows may be what lies between.
    let is_short = run <= LONG && stride > 0 && stride >= run.checked_mul(2)? && !index.mentions(INNER);
    is_short.then(|| stride.saturating_mul(LONG.unsigned_abs().div_ceil(stride.unsigned_abs()).cast_signed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::LANE;

    fn distance_of(stride: i64, inner: i64, lanes: i64, bytes: u32) -> Option<i64> {
        let part = |name: &str, by: i64| &Dim::symbol(name) * &Dim::constant(by);
        let index = &(&part(ROW, stride) + &part(INNER, inner)) + &Dim::symbol(LANE);
        distance(&index, &Dim::constant(lanes), bytes)
    }

    #[test]
    fn whole_rows_are_asked_for_at_least_two_kilobytes_ahead() {
        assert_eq!(distance_of(1024, 0, 256, 2), Some(2048));
        assert_eq!(distance_of(1536, 0, 256, 2), Some(3072));
        assert_eq!(distance_of(100, 0, 25, 2), Some(2200));
    }

    #[test]
    fn long_runs_and_runs_that_follow_each_other_are_left_to_the_processor() {
        assert_eq!(distance_of(4096, 0, 1025, 2), None);
        assert_eq!(distance_of(256, 0, 256, 2), None);
        assert_eq!(distance_of(4096, 128, 128, 2), None);
        assert_eq!(distance_of(i64::MAX, 0, 128, 2), None);
    }
}
