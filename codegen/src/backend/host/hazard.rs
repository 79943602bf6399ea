//! Stores that might overwrite what is still to be loaded.
//!
//! Kernel IR promises that a row's stores happen after its loads. Here a store runs right after the loads of its own
//! chunk, so every other load of the same memory must be proved to touch other elements. Where that fails, a loop before
//! all others saves the lanes that are overwritten; where they do not fit, the kernel is refused.

use fusewright_graph::Dim;

use super::plan::{Pass, Plan};
use super::stash::Stored;
use super::walk::{Touch, Walk};
use super::{Forms, Refused, Taken};
use crate::kernel::{Inst, InstOp, Kernel, LANE, ParamId, Segment, Shape, Val};

/// Whether two parameters may be the same memory.
pub(super) fn overlap(kernel: &Kernel, a: ParamId, b: ParamId) -> bool {
    a == b || kernel.param(a).alias == Some(b) || kernel.param(b).alias == Some(a)
}

/// Whether a store may overwrite what its row loads.
pub(in crate::backend) fn overwrites(kernel: &Kernel, segment: &Segment, to: ParamId) -> bool {
    segment.insts.iter().any(|inst| matches!(&inst.op, InstOp::Load { param, .. } if overlap(kernel, *param, to)))
}

/// Rows of lanes that stores of other rows of lanes may overwrite.
pub(super) fn overwritten(kernel: &Kernel, segment: &Segment) -> Vec<Val> {
    let stores: Vec<ParamId> = row_stores(segment).into_iter().map(|(_, to)| to).collect();
    let lost = |inst: &&Inst| match &inst.op {
        InstOp::Load { param, .. } => stores.iter().any(|to| overlap(kernel, *param, *to)),
        _ => false,
    };
    segment.insts.iter().filter(lost).flat_map(|inst| &inst.results).copied().collect()
}

/// Stores of lanes or groups, and the parameters they write.
fn row_stores(segment: &Segment) -> Vec<(usize, ParamId)> {
    let stores = segment.insts.iter().enumerate().filter_map(|(i, inst)| match &inst.op {
        InstOp::Store { param, .. } if segment.ty(inst.args[0]).shape != Shape::Scalar => Some((i, *param)),
        _ => None,
    });
    stores.collect()
}

/// A sink or a part of one, in the order in which it runs.
struct Access {
    /// Loops run in this order.
    at: usize,
    inst: usize,
    offset: Dim,
    lanes: Option<i64>,
    loads: Vec<Touch>,
}

/// Proves every store of a plan, or refuses one.
pub(super) fn check(kernel: &Kernel, segment: &Segment, found: &Stored, plan: &Plan, forms: &dyn Forms) -> Taken<()> {
    let risky: Vec<_> = row_stores(segment).into_iter().filter(|(_, to)| overwrites(kernel, segment, *to)).collect();
    if risky.is_empty() {
        return Ok(());
    }
    let accesses = accesses(segment, found, plan, forms);
    for (inst, to) in risky {
        for store in accesses.iter().filter(|a| a.inst == inst) {
            for other in accesses.iter().filter(|a| a.at >= store.at) {
                let lost = |t: &&Touch| overlap(kernel, t.param, to) && !plan.saved.contains(&t.value);
                for touch in other.loads.iter().filter(lost) {
                    if !apart(segment, store, other, touch, kernel.param(to).dtype == kernel.param(touch.param).dtype) {
                        return Err(refusal(kernel, segment, inst, touch.param));
                    }
                }
            }
        }
    }
    Ok(())
}

fn accesses(segment: &Segment, found: &Stored, plan: &Plan, forms: &dyn Forms) -> Vec<Access> {
    let mut accesses = Vec::new();
    for (at, pass) in plan.phases.iter().flatten().enumerate() {
        let mut add = |inst: usize, offset: &Dim, lanes: Option<i64>| {
            let end = lanes.map(|n| offset + &Dim::constant(n));
            let piece = end.as_ref().map(|end| (offset, end));
            let loads = Walk::of(segment, found, inst, piece, forms).touches;
            accesses.push(Access { at, inst, offset: offset.clone(), lanes, loads });
        };
        match pass {
            Pass::Flat { lanes, jobs, .. } => {
                jobs.iter().for_each(|j| add(j.inst, &j.offset, lanes.as_const()));
            }
            Pass::Grouped(g) => {
                let jobs = g.jobs.iter().flat_map(|(_, _, jobs)| jobs);
                jobs.for_each(|j| add(j.inst, &j.offset, None));
                g.elements.iter().for_each(|&inst| add(inst, &Dim::constant(0), None));
            }
            Pass::Search(inst) => add(*inst, &Dim::constant(0), None),
        }
    }
    accesses
}

/// Whether a load never reads what the store has written before it.
fn apart(segment: &Segment, store: &Access, other: &Access, touch: &Touch, same_dtype: bool) -> bool {
    let InstOp::Store { index, .. } = &segment.insts[store.inst].op else { return false };
    if let Some((read, lanes)) = &touch.shifted
        && (store.at, same_dtype, read) == (other.at, true, index)
        && &other.offset + lanes == store.offset
    {
        return true;
    }
    let written = index.split_linear(LANE).and_then(|(slope, rest)| Some((slope.as_const()?, rest)));
    let (Some((slope, rest)), Some((read_slope, read_start))) = (written, &touch.linear) else { return false };
    if !same_dtype || slope != *read_slope || slope <= 0 {
        return false;
    }
    let by = Dim::constant(slope);
    let write_start = &rest + &(&by * &store.offset);
    let read_start = read_start + &(&by * &other.offset);
    let Some(distance) = (&read_start - &write_start).as_const() else { return false };
    if distance % slope != 0 {
        return true;
    }
    let ahead = distance / slope;
    if store.at == other.at {
        // A pass may read what a later one overwrites, not what an earlier one has.
        return ahead >= 0 || store.lanes.is_some_and(|n| -ahead >= n);
    }
    store.lanes.is_some_and(|n| ahead >= n) || other.lanes.is_some_and(|n| -ahead >= n)
}

fn refusal(kernel: &Kernel, segment: &Segment, inst: usize, read: ParamId) -> Refused {
    Refused {
        place: format!("segment `{}`, instruction {inst} `store`", segment.name),
        reason: format!(
            "it may overwrite elements of `{}` that other lanes of the row still read",
            kernel.param(read).name
        ),
    }
}
