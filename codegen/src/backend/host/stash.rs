//! Group values that are read as a row: stored once, by the loop over their groups, and loaded wherever they are read.
//!
//! Without that, every lane that reads one would run through its group again, and through those below it.

use super::definitions;
use crate::kernel::{InstOp, Over, Segment, Shape};

/// Most bytes of stack memory that one takes.
const MOST_BYTES: i64 = 16 << 10;

/// By instruction, whether it takes the elements of groups as a row, and these depend on a reduction over lanes.
pub(in crate::backend) fn stashed(segment: &Segment) -> Vec<bool> {
    let definitions = definitions(segment);
    let mut reduced = vec![false; segment.insts.len()];
    let mut stashed = vec![false; segment.insts.len()];
    for (at, inst) in segment.insts.iter().enumerate() {
        let own = matches!(inst.op, InstOp::Reduce { over: Over::Group(_), .. });
        let below = || {
            let mut operands = inst.args.iter().filter(|v| !matches!(segment.ty(**v).shape, Shape::Scalar));
            operands.any(|v| reduced[definitions[v.0 as usize]])
        };
        reduced[at] = own || below();
        if matches!(inst.op, InstOp::AsRow) && reduced[at] && bytes(segment, at).is_some() {
            (stashed[at], reduced[at]) = (true, false);
        }
    }
    stashed
}

/// The memory that the result of an instruction takes, if it is known and not too much.
pub(in crate::backend) fn bytes(segment: &Segment, at: usize) -> Option<i64> {
    let ty = segment.ty(*segment.insts[at].results.first()?);
    let elements = ty.shape.elements().as_const()?;
    let bytes = elements.checked_mul(i64::from(ty.dtype.bits() / 8))?;
    (1..=MOST_BYTES).contains(&bytes).then_some(bytes)
}
