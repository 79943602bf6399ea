//! Loads that a store of the same row may overwrite.
//!
//! Kernel IR promises that a row's stores happen after its loads. A block recomputes loads in every phase and its
//! threads run freely, so a load of a parameter that the segment also writes is copied to shared memory first, unless
//! each thread overwrites only what it alone has read.

use std::collections::BTreeSet;

use crate::kernel::{InstOp, Kernel, ParamId, Segment, Shape, Val};

/// What [`find`] found.
pub(super) struct Hazards {
    /// Whether any load may be overwritten, so that stores have to wait for all threads.
    pub any: bool,
    /// Instructions whose result must be staged.
    pub staged: BTreeSet<usize>,
    /// Whether what may be overwritten is also read by threads that do not write it.
    pub scalars: bool,
}

/// How a value depends on a load, not counting what reductions and scalars have already computed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Dependence {
    None,
    SameLane,
    OtherLane,
}

/// Finds the loads of a segment that its stores may overwrite.
pub(super) fn find(kernel: &Kernel, segment: &Segment) -> Hazards {
    let mut found = Hazards { any: false, staged: BTreeSet::new(), scalars: false };
    for (i, inst) in segment.insts.iter().enumerate() {
        let InstOp::Load { param, .. } = &inst.op else { continue };
        let overwrites = segment
            .insts
            .iter()
            .any(|s| matches!(&s.op, InstOp::Store { param: to, .. } if overlap(kernel, *param, *to)));
        if !overwrites {
            continue;
        }
        found.any = true;
        let value = inst.results[0];
        if segment.ty(value).shape == Shape::Scalar {
            found.scalars = true;
        } else if !overwritten_by_its_reader(kernel, segment, i, *param) {
            found.staged.insert(i);
        }
    }
    found
}

/// Whether two parameters may be the same memory.
pub(super) fn overlap(kernel: &Kernel, a: ParamId, b: ParamId) -> bool {
    a == b || kernel.param(a).alias == Some(b) || kernel.param(b).alias == Some(a)
}

fn overwritten_by_its_reader(kernel: &Kernel, segment: &Segment, load: usize, param: ParamId) -> bool {
    let load = &segment.insts[load];
    let value = load.results[0];
    let shape = &segment.ty(value).shape;
    segment.insts.iter().all(|store| {
        let InstOp::Store { param: to, index, .. } = &store.op else { return true };
        let same_length = segment.ty(store.args[0]).shape == *shape;
        let depends = store.args.iter().map(|&v| dependence(segment, v, value)).max().unwrap_or(Dependence::None);
        let reads_safely = depends == Dependence::None || (depends == Dependence::SameLane && same_length);
        let writes_safely = !overlap(kernel, param, *to) || (same_length && load.op.index() == Some(index));
        reads_safely && writes_safely
    })
}

fn dependence(segment: &Segment, value: Val, on: Val) -> Dependence {
    // Values are in SSA order, so one sweep upward from the load decides every value.
    let mut of = vec![Dependence::None; segment.types.len()];
    of[on.0 as usize] = Dependence::SameLane;
    for inst in segment.insts.iter().filter(|i| !i.results.contains(&on)) {
        let Some(&result) = inst.results.first() else { continue };
        let shape = &segment.ty(result).shape;
        let settled = *shape == Shape::Scalar || matches!(inst.op, InstOp::Reduce { .. } | InstOp::TopK { .. });
        let same_lane =
            matches!(inst.op, InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_) | InstOp::Load { .. });
        let depends = inst.args.iter().map(|&a| match of[a.0 as usize] {
            Dependence::SameLane if same_lane && segment.ty(a).shape == *shape => Dependence::SameLane,
            Dependence::None => Dependence::None,
            _ => Dependence::OtherLane,
        });
        of[result.0 as usize] = if settled { Dependence::None } else { depends.max().unwrap_or(Dependence::None) };
    }
    of[value.0 as usize]
}
