//! Quantisers with a scale per group of lanes, behind vLLM's fused ops.

use super::super::call::{Call, Imported};
use super::vllm::shaped;
use super::{One, last_axis};
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{Composite, QuantizeDynamic};

/// The least scale that vLLM's FP8 quantisers make.
pub(super) fn least_fp8_scale() -> f64 {
    f64::from((1.0 / (448.0 * 512.0)) as f32)
}

/// A value with its last axis in groups of `group_size` lanes; scales in other than row order are refused.
pub(super) fn in_groups(call: &Call<'_>, x: Value) -> One {
    for order in ["is_scale_transposed", "dummy_is_scale_transposed"] {
        if call.row.parameter(order).is_some() && call.bool(order)? {
            return Err("transposed scales".into());
        }
    }
    let axis = last_axis(call, x)?;
    let mut grouped = call.b.ty(x).shape;
    let group = Dim::constant(call.int("group_size")?);
    grouped[axis] = grouped[axis].exact_div(&group).ok_or("a ragged last group")?;
    grouped.push(group);
    Ok(call.b.reshape(x, grouped)?)
}

/// Codes and scales of groups, in the shapes of the arguments that they overwrite.
pub(super) fn dynamic_groups(call: &Call<'_>, op: QuantizeDynamic, groups: Value, names: [&str; 2]) -> Imported {
    let results = call.b.composite(Composite::new(op), &[groups])?;
    Ok(vec![shaped(call, results[0], names[0])?, shaped(call, results[1], names[1])?])
}
