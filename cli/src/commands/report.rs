//! What several commands report in the same words and keys.

use fusewright::{Placement, StepCounts};
use serde_json::{Value, json};

use crate::output::counted;

/// How many steps of each kind a call runs.
pub fn steps(counts: StepCounts) -> String {
    let several = [
        (counts.kernels, "kernel"),
        (counts.copies, "copy"),
        (counts.matmuls, "matrix product"),
        (counts.attentions, "attention"),
        (counts.references, "op"),
    ];
    format!("{} by the interpreter", several.map(|(count, noun)| counted(count, noun)).join(", "))
}

/// Where each new value of an input goes; `names` are those of all outputs.
pub fn updates(names: &[String], placement: &Placement) -> Vec<Value> {
    let update = |update: &fusewright::Update| {
        json!({
            "name": names[update.output],
            "input": update.input,
            "in_place": update.in_place,
            "reason": update.reason,
        })
    };
    placement.updates.iter().map(update).collect()
}

/// What is copied because memory could not be shared.
pub fn update_copies(placement: &Placement) -> Vec<Value> {
    let copy = |copy: &fusewright::UpdateCopy| json!({ "of": copy.of, "bytes": copy.bytes, "reason": copy.reason });
    placement.copies.iter().map(copy).collect()
}
