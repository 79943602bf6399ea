//! Inner rows whose reductions run ahead of what uses them: first those of all inner rows, then everything else.
//!
//! What follows a reduction waits for it, for the root and the quotients behind it, and a short row has too little else to
//! do meanwhile. Reductions of several rows wait beside each other. Every inner row is read twice, so that all of them
//! have to stay in the first-level cache.

use fusewright_abi::DType;

use super::hazard;
use super::keep::Reach;
use super::plan::{self, Pass, Plan};
use super::stash::Stored;
use crate::kernel::{Inst, InstOp, Kernel, Level, Segment, Shape, Val};

/// Most lanes of a row that is short.
const SHORT: i64 = 512;
/// Most lanes of all inner rows.
const ALL: i64 = 8192;

/// What runs ahead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::backend) struct Ahead {
    /// How many phases.
    pub phases: usize,
    /// How many inner rows there are.
    pub rows: i64,
    /// Scalars that the phases behind them take from each inner row.
    pub carried: Vec<Val>,
}

impl Ahead {
    /// One line for people.
    pub fn describe(&self, segment: &Segment) -> String {
        format!("segment `{}` reduces all of its {} inner rows ahead", segment.name, self.rows)
    }
}

/// What of a plan runs ahead, if that pays and no row depends on another.
pub(super) fn choose(kernel: &Kernel, segment: &Segment, found: &Stored, plan: &Plan) -> Option<Ahead> {
    let rows = segment.inner.as_const().filter(|rows| *rows > 1)?;
    let phases = plan.phases.len().checked_sub(1).filter(|phases| *phases > 0)?;
    let (ahead, behind) = plan.phases.split_at(phases);
    let lanes = |pass: &Pass| match pass {
        Pass::Flat { lanes, .. } => lanes.as_const(),
        Pass::Grouped(_) | Pass::Search(_) => None,
    };
    for pass in ahead.iter().chain(behind).flatten() {
        lanes(pass).filter(|lanes| *lanes <= SHORT && lanes * rows <= ALL)?;
    }
    let reduces = |at: usize| matches!(segment.insts[at].op, InstOp::Reduce { .. });
    if ahead.iter().flatten().flat_map(Pass::sinks).any(|at| !reduces(at)) {
        return None;
    }
    // Nothing is kept of one inner row for its later phases, and no row writes what another reads.
    let kept = plan.kept.iter().any(|kept| kept.reach == Reach::InnerRow);
    let stores = |inst: &Inst| match &inst.op {
        InstOp::Store { param, .. } => hazard::overwrites(kernel, segment, *param),
        _ => false,
    };
    if kept || found.stashed.contains(&true) || segment.insts.iter().any(stores) {
        return None;
    }
    let carried = carried(segment, phases);
    carried.iter().all(|v| segment.ty(*v).dtype == DType::F32).then_some(Ahead { phases, rows, carried })
}

/// The scalars of an inner row that depend on reductions of the first `phases`, and that lanes, addresses, stores or later
/// reductions take.
fn carried(segment: &Segment, phases: usize) -> Vec<Val> {
    let stages = plan::stages(segment, &vec![false; segment.insts.len()]);
    let levels = segment.levels();
    let reduced = |v: Val| {
        let at = v.0 as usize;
        let scalar = segment.ty(v).shape == Shape::Scalar && levels[at] == Level::Inner;
        scalar && (1..=phases).contains(&stages[at])
    };
    let mut carried = Vec::new();
    for (at, inst) in segment.insts.iter().enumerate() {
        let later = inst.results.iter().all(|v| !reduced(*v));
        for v in plan::operands(segment, at).filter(|v| later && reduced(*v)) {
            if !carried.contains(&v) {
                carried.push(v);
            }
        }
    }
    carried
}
