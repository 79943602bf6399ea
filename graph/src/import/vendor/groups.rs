//! Quantisers with a scale per group of lanes, behind vLLM's fused ops.

use super::super::call::{Call, Imported};
use super::vllm::shaped;
use super::{One, last_axis};
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{Composite, QuantizeDynamic};
use crate::prim::Prim;

/// The least scale that vLLM's FP8 quantisers make.
pub(super) fn least_fp8_scale() -> f64 {
    f64::from((1.0 / (448.0 * 512.0)) as f32)
}

/// A value with its last axis in groups of `group_size` lanes.
pub(super) fn in_groups(call: &Call<'_>, x: Value) -> One {
    let axis = last_axis(call, x)?;
    let mut grouped = call.b.ty(x).shape;
    let group = Dim::constant(call.int("group_size")?);
    grouped[axis] = grouped[axis].exact_div(&group).ok_or("a ragged last group")?;
    grouped.push(group);
    Ok(call.b.reshape(x, grouped)?)
}

/// Codes and scales of groups, in the shapes of the arguments that they overwrite. A second operand bounds magnitudes.
pub(super) fn dynamic_groups(call: &Call<'_>, op: QuantizeDynamic, operands: &[Value], names: [&str; 2]) -> Imported {
    let results = call.b.composite(Composite::new(op), operands)?;
    Ok(vec![shaped(call, results[0], names[0])?, group_scales(call, results[1], names[1])?])
}

/// Scales of groups, one per row and group, as the argument that they overwrite has them. Transposed ones are a view of
/// memory that holds the groups one after the other: of rows by groups, or of that memory as it is.
pub(super) fn group_scales(call: &Call<'_>, scales: Value, argument: &str) -> One {
    let b = call.b;
    let mut transposed = false;
    for order in ["is_scale_transposed", "dummy_is_scale_transposed"] {
        transposed |= call.row.parameter(order).is_some() && call.bool(order)?;
    }
    let shape = b.ty(scales).shape;
    let groups = shape.iter().rev().nth(1).cloned().ok_or("scales of other than rows and groups")?;
    let rows = b.ty(scales).elements().exact_div(&groups).ok_or("an unknown number of rows")?;
    let stated = b.ty(call.tensor(argument)?).shape;
    if transposed && stated != [rows.clone(), groups.clone()] && stated == [groups.clone(), rows.clone()] {
        let scales = b.reshape(scales, vec![rows, groups])?;
        return Ok(b.prim(Prim::Permute { perm: vec![1, 0] }, &[scales])?);
    }
    shaped(call, scales, argument)
}
