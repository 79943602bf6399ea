//! The plan of a call of fewer rows in the memory of a plan of more.

use std::collections::BTreeSet;

use fusewright_graph::{Value, interp};

use crate::Error;
use crate::program::Program;
use crate::program::plan::{Binding, Place, Plan};
use crate::program::step::Work;
use crate::program::words;

/// A plan for other values of the symbols, in which everything lies in the buffers where `plan` has it, and what is in
/// `spread` at the strides that it has there.
///
/// # Errors
/// A value that is larger than its buffer, though there are fewer rows; extents that have no value.
pub(super) fn resized(
    program: &Program,
    plan: &Plan,
    binding: Binding,
    spread: &BTreeSet<Value>,
) -> Result<Plan, Error> {
    let (graph, layouts) = (&program.graph, &program.layouts);
    let none = vec![None; plan.slots.len()];
    let mut small = Plan { binding, slots: none, copies: Default::default(), constants: Vec::new(), ..plan.clone() };
    let inputs = graph.inputs().iter().map(|input| input.value);
    let made = program.steps.iter().flat_map(|step| step.outputs.iter().copied());
    for value in inputs.chain(made) {
        let Some(old) = &plan.slots[value.0 as usize] else { continue };
        let mut slot = small.slot(graph.ty(value), layouts.get(value)?, old.place)?;
        if spread.contains(&value) {
            slot.strided.strides.clone_from(&old.strided.strides);
        }
        if let Place::Buffer(buffer) = slot.place
            && slot.strided.end().is_none_or(|end| slot.dtype.bytes_for(end) > plan.buffers[buffer].bytes)
        {
            let name = words::name(graph, value);
            return Err(Error::Call(format!("{name} takes more memory for fewer rows: capture sizes that are calls'")));
        }
        small.slots[value.0 as usize] = Some(slot);
    }
    for (value, old) in &plan.copies {
        let view = layouts.copies.get(value);
        let view = view.ok_or_else(|| Error::Internal(format!("{value:?} is no copy")))?;
        let mut slot = small.slot(graph.ty(*value), view, old.place)?;
        if spread.contains(&view.base) {
            slot.strided.strides.clone_from(&old.strided.strides);
        }
        small.copies.insert(*value, slot);
    }
    let mut seen = BTreeSet::new();
    for step in &program.steps {
        let Work::Constant(body) = &step.work else { continue };
        if step.outputs.iter().all(|&output| seen.insert(output)) {
            let results = interp::run(body, &[], &small.binding).map_err(|e| Error::Call(e.to_string()))?;
            small.constants.extend(results.first().map(|tensor| tensor.to_bytes()));
        }
    }
    Ok(small)
}
