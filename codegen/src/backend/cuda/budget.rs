//! How many registers a thread may have where one block more of a processor depends on it.
//!
//! The assembler rounds what it takes up to what it likes; blocks of norms and of softmax then leave room for fewer than
//! would fit, and too few loads are underway. A bound is only stated where it holds all that a thread has at once, so that
//! it makes nothing spill.

use std::collections::BTreeSet;

use super::extents::is_free;
use super::plan::{Plan, VECTOR, whole_block};
use crate::kernel::{Inst, InstOp, Kernel, Over, Segment, Shape, Val};

/// Registers of one multiprocessor of every architecture that code is made for.
pub(super) const ALL: u32 = 1 << 16;
/// Registers are dealt out by so many.
const STEP: u32 = 8;
/// Registers of addresses, partial results and what is on its way through formulas.
const BESIDE: u32 = 24;
/// More of them for each sum behind the first, whose lanes are computed of what another has given.
const OF_A_SUM: u32 = 4;
/// With fewer the assembler spills what it computes with.
const LEAST: u32 = 40;
/// From here on the assembler needs no bound.
const MOST: u32 = 128;

/// A bound of registers.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// Most registers of a thread.
    pub bound: u32,
    /// Whether more is kept across a reduction than was loaded. Then fewer registers mean that less is computed at once,
    /// which is slower where a block has a processor to itself.
    pub crowded: bool,
}

impl Budget {
    /// The bound of a kernel whose rows are reduced by blocks that hold them.
    pub fn of(kernel: &Kernel, plan: &Plan) -> Option<Budget> {
        let ([segment], [Some(held)]) = (kernel.segments.as_slice(), plan.held.as_slice()) else { return None };
        whole_block(segment)?;
        let [loaded, kept] = [loaded(segment), kept(segment)?];
        let is_sum = |inst: &&Inst| matches!(&inst.op, InstOp::Reduce { op, over: Over::Row, .. } if !is_free(*op));
        let sums = segment.insts.iter().filter(is_sum).count() as u32;
        let beside = BESIDE + sums.saturating_sub(1) * OF_A_SUM;
        let needed = (loaded.max(kept) * held.vectors * held.passes + beside).next_multiple_of(STEP).max(LEAST);
        let registers = ALL / plan.threads;
        let blocks = registers / needed;
        let bound = registers.checked_div(blocks)? / STEP * STEP;
        (bound < MOST).then_some(Budget { bound, crowded: kept > loaded })
    }
}

/// Registers that a vector of a value takes; none if it is no row.
fn size(segment: &Segment, value: Val) -> u32 {
    let ty = segment.ty(value);
    if matches!(ty.shape, Shape::Row(_)) { VECTOR * ty.dtype.bits().next_multiple_of(16) / 32 } else { 0 }
}

/// Registers that a vector of each row takes that is loaded.
fn loaded(segment: &Segment) -> u32 {
    let loads = segment.insts.iter().filter(|inst| matches!(inst.op, InstOp::Load { .. }));
    loads.flat_map(|inst| &inst.results).map(|value| size(segment, *value)).sum()
}

/// Registers that a vector of each row takes that is kept across a reduction, at the one for which they are the most.
fn kept(segment: &Segment) -> Option<u32> {
    let reductions = segment.insts.iter().enumerate();
    let reductions = reductions.filter(|(_, inst)| matches!(inst.op, InstOp::Reduce { over: Over::Row, .. }));
    let across = |at: usize| {
        let used_later = |value: &Val| segment.insts[at + 1..].iter().any(|inst| inst.args.contains(value));
        let results = segment.insts[..at].iter().flat_map(|inst| inst.results.iter().map(move |value| (inst, *value)));
        let kept: BTreeSet<Val> = results
            .filter(|(_, value)| used_later(value))
            // A wider form of a value is that value.
            .map(|(inst, value)| match (&inst.op, inst.args.as_slice()) {
                (InstOp::Cast { .. }, [of]) if size(segment, *of) < size(segment, value) => *of,
                _ => value,
            })
            .collect();
        kept.into_iter().map(|value| size(segment, value)).sum()
    };
    reductions.map(|(at, _)| across(at)).max()
}
