//! What a schedule makes of a kernel, in words: kernels of the same words are code of one kind.

use std::collections::BTreeSet;

use super::plan::{Held, Plan, Plans, WARP, values_of};
use super::search::ranked_by;
use crate::kernel::{InstOp, Kernel, Over, Segment};
use crate::schedule::KernelSchedule;

/// The kind of the code that a schedule gives launches of so many rows, segment by segment: how rows are spread (`loops`,
/// or in registers a `team` of neighbouring threads, a `warp`, a `block`, or several `blocks` a row), and what they do
/// beyond their own lanes.
///
/// # Errors
/// In words, why the kernel cannot have the schedule.
pub fn kind(kernel: &Kernel, schedule: &KernelSchedule, rows: usize) -> Result<String, String> {
    let plans = Plans::of(kernel, schedule)?;
    let many = plans.many.as_ref().filter(|(from, _)| rows >= *from).map(|(_, plan)| plan);
    let plan = many.unwrap_or(&plans.first);
    let segments = kernel.segments.iter().zip(&plan.held);
    let words: BTreeSet<String> = segments.map(|(segment, held)| of_segment(segment, *held, plan)).collect();
    Ok(words.into_iter().collect::<Vec<String>>().join(" | "))
}

fn of_segment(segment: &Segment, held: Option<Held>, plan: &Plan) -> String {
    let mut words = vec![match held {
        None => "loops",
        Some(held) if held.parts > 1 => "blocks",
        Some(held) if !held.is_team => "block",
        Some(held) if held.row_threads(plan.unit) < WARP => "team",
        Some(_) => "warp",
    }];
    let held_is = |is: fn(&Held) -> bool| held.as_ref().is_some_and(is);
    let any = |is: fn(&InstOp) -> bool| segment.insts.iter().any(|inst| is(&inst.op));
    let computed = |index: &fusewright_graph::Dim| values_of(index).next().is_some();
    let facts = [
        (held.is_none() && plan.at_once.is_some(), "apart"),
        (held_is(|held| held.uneven.is_some()), "uneven"),
        (held_is(|held| held.passes > 1), "passes"),
        (segment.inner.as_const() != Some(1), "inner"),
        (any(|op| matches!(op, InstOp::Reduce { over: Over::Row, .. })), "reduced"),
        (any(|op| matches!(op, InstOp::Reduce { over: Over::Group(_), .. })), "groups"),
        (segment.insts.iter().any(|inst| inst.op.is_search() && ranked_by(segment, inst).is_none()), "searched"),
        (segment.insts.iter().any(|inst| ranked_by(segment, inst).is_some()), "ranked"),
        (any(|op| matches!(op, InstOp::Cat)), "joined"),
        (any(|op| matches!(op, InstOp::Pack { .. })), "packed"),
        (segment.insts.iter().any(|i| matches!(&i.op, InstOp::Load { index, .. } if computed(index))), "gathered"),
        (segment.insts.iter().any(|i| matches!(&i.op, InstOp::Store { index, .. } if computed(index))), "scattered"),
    ];
    words.extend(facts.into_iter().filter(|(is, _)| *is).map(|(_, word)| word));
    words.join(" ")
}
