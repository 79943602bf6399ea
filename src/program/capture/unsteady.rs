//! Values whose rows lie elsewhere if there are more of them, such as those of heads that follow each other.
//!
//! Recorded steps have them where a whole size has them. Steps of a call of fewer rows find them there if all of those read
//! and write by strides; else, as kernels do not, those that copy views on a device included, everything that touches such a value is enqueued by every call.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::{Dim, Value};

use super::parts::is_idle;
use crate::program::layout::View;
use crate::program::step::{Step, Work};
use crate::program::{Program, words};

/// The values of one memory.
#[derive(Default)]
struct Group {
    values: BTreeSet<Value>,
    /// Whether a row of it lies elsewhere if there are more.
    moves: bool,
    /// Whether a value of it begins elsewhere if there are more rows.
    begins_elsewhere: bool,
}

/// Adds to `reasons`, by the numbers of the steps, why more of them cannot be recorded, and gives the values whose rows lie
/// in calls of fewer rows where a whole size has them.
pub(super) fn divide(program: &Program, symbol: &str, reasons: &mut BTreeMap<usize, String>) -> BTreeSet<Value> {
    let groups = groups(program, symbol);
    let mut open: BTreeMap<Value, &Group> =
        groups.iter().filter(|(_, group)| group.moves).map(|(v, g)| (*v, g)).collect();
    loop {
        let stays = |base: &Value, group: &Group| {
            let made = program.steps.iter().any(|step| !is_idle(step) && step.outputs.contains(base));
            let by_strides =
                |number: &usize| !matches!(program.steps[*number].work, Work::Kernel(_) | Work::Copy(Some(_)));
            let split = touching(program, group).into_iter().filter(|number| reasons.contains_key(number));
            made && !group.begins_elsewhere && split.into_iter().all(|number| by_strides(&number))
        };
        let Some(base) = open.iter().find(|(base, group)| !stays(base, group)).map(|(base, _)| *base) else { break };
        let group = open.remove(&base);
        for number in group.map(|group| touching(program, group)).unwrap_or_default() {
            let name = words::name(&program.graph, base);
            let why = || format!("where rows of {name} lie depends on how many there are");
            reasons.entry(number).or_insert_with(why);
        }
    }
    open.values().flat_map(|group| &group.values).copied().collect()
}

/// The steps that read or write values of a group.
fn touching(program: &Program, group: &Group) -> BTreeSet<usize> {
    let has = |value: &Value| group.values.contains(value);
    let copies = |made: &Value| program.layouts.copies.get(made).is_some_and(|view| has(&view.base));
    let touches =
        |step: &Step| step.inputs.iter().any(has) || step.outputs.iter().any(|made| has(made) || copies(made));
    let steps = program.steps.iter().enumerate().filter(|(_, step)| !is_idle(step) && touches(step));
    steps.map(|(number, _)| number).collect()
}

/// The values of each memory, by the one that it is of.
fn groups(program: &Program, symbol: &str) -> BTreeMap<Value, Group> {
    let mut groups: BTreeMap<Value, Group> = BTreeMap::new();
    let one = Dim::constant(1);
    let mut add = |value: Option<Value>, view: &View| {
        let group = groups.entry(view.base).or_default();
        let begins = view.layout.offset.mentions(symbol);
        let strides = view.shape.iter().zip(&view.layout.strides);
        group.moves |= begins || strides.into_iter().any(|(e, stride)| *e != one && stride.mentions(symbol));
        group.begins_elsewhere |= begins;
        group.values.extend(value);
        group.values.insert(view.base);
    };
    program.layouts.views.iter().for_each(|(value, view)| add(Some(*value), view));
    program.layouts.copies.values().for_each(|view| add(None, view));
    groups
}
