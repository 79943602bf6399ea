//! How many registers a thread may have where one block more of a processor depends on it.
//!
//! The assembler rounds what it takes up to what it likes; blocks of norms and of softmax then leave room for fewer than
//! would fit, and too few loads are underway. A bound is only stated where it holds all that a thread has at once, so that
//! it makes nothing spill.

use super::plan::{Plan, VECTOR, whole_block};
use crate::kernel::{InstOp, Kernel, Over, Segment, Shape, Val};

/// Registers of one multiprocessor of every architecture that code is made for.
const ALL: u32 = 1 << 16;
/// Registers are dealt out by so many.
const STEP: u32 = 8;
/// Registers of addresses, partial results and what is on its way through formulas.
const BESIDE: u32 = 24;
/// From here on the assembler needs no bound.
const MOST: u32 = 128;

/// The bound of a kernel whose rows are reduced by blocks that hold them.
pub(super) fn registers(kernel: &Kernel, plan: &Plan) -> Option<u32> {
    let ([segment], [Some(held)]) = (kernel.segments.as_slice(), plan.held.as_slice()) else { return None };
    whole_block(segment)?;
    let needed = (words(segment)? * held.vectors * held.passes + BESIDE).next_multiple_of(STEP);
    let blocks = ALL / (plan.threads * needed);
    let bound = ALL / (plan.threads * blocks.max(1)) / STEP * STEP;
    (blocks > 0 && bound < MOST).then_some(bound)
}

/// Registers that a vector of each row takes at the most: of those that live across a reduction, or of all that are loaded.
fn words(segment: &Segment) -> Option<u32> {
    let is_row = |value: &Val| matches!(segment.ty(*value).shape, Shape::Row(_));
    let size = |value: &Val| VECTOR * segment.ty(*value).dtype.bits().next_multiple_of(16) / 32;
    let loads = segment.insts.iter().filter(|inst| matches!(inst.op, InstOp::Load { .. }));
    let loaded: u32 = loads.flat_map(|inst| &inst.results).filter(|value| is_row(value)).map(size).sum();
    let reductions = || {
        let all = segment.insts.iter().enumerate();
        all.filter(|(_, inst)| matches!(inst.op, InstOp::Reduce { over: Over::Row, .. })).map(|(at, _)| at)
    };
    let live = reductions().map(|at| {
        let before = segment.insts[..at].iter().flat_map(|inst| inst.results.iter().map(move |value| (inst, value)));
        let kept: Vec<Val> = before
            .filter(|(_, value)| is_row(value) && segment.insts[at + 1..].iter().any(|inst| inst.args.contains(value)))
            // A wider form of a value is that value.
            .map(|(inst, value)| match (&inst.op, inst.args.as_slice()) {
                (InstOp::Cast { .. }, [of]) if size(of) < size(value) => *of,
                _ => *value,
            })
            .collect();
        let mut distinct: Vec<&Val> = kept.iter().collect();
        distinct.sort_unstable();
        distinct.dedup();
        distinct.into_iter().map(size).sum::<u32>()
    });
    reductions().next()?;
    live.max().map(|live| live.max(loaded))
}
