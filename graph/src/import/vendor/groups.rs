//! Quantisers with a scale per group of lanes, behind vLLM's fused ops.

use fusewright_abi::DType;

use super::super::aten::layout::expand_to;
use super::super::aten::promote::convert;
use super::super::call::{Call, Imported, Refusal};
use super::vllm::shaped;
use super::{One, absmax, f32, last_axis};
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{Apply, Composite, DynamicScale, Floor, NanCode, QuantizeDynamic};
use crate::prim::{Prim, Rounding};
use crate::scalar::ScalarFn;

/// The least scale that vLLM's FP8 quantisers make.
pub(super) fn least_fp8_scale() -> f64 {
    f64::from((1.0 / (448.0 * 512.0)) as f32)
}

/// A value with its last axis in groups of `group_size` lanes.
pub(super) fn in_groups(call: &Call<'_>, x: Value) -> One {
    let axis = last_axis(call, x)?;
    let mut grouped = call.b.ty(x).shape;
    let group = Dim::constant(call.int("group_size")?);
    let ragged = || call.refused("group_size", &format!("a ragged last group of rows of {}", grouped[axis]));
    grouped[axis] = grouped[axis].exact_div(&group).ok_or_else(ragged)?;
    grouped.push(group);
    Ok(call.b.reshape(x, grouped)?)
}

/// Codes and scales of groups, in the shapes of the arguments that they overwrite. A second operand bounds magnitudes.
pub(super) fn dynamic_groups(call: &Call<'_>, op: QuantizeDynamic, operands: &[Value], names: [&str; 2]) -> Imported {
    let results = call.b.composite(Composite::new(op), operands)?;
    Ok(vec![shaped(call, results[0], names[0])?, group_scales(call, results[1], names[1])?])
}

/// Refuses an argument for scales.
fn unlike(call: &Call<'_>, argument: &str) -> Refusal {
    call.refused(argument, "scales of other than rows and groups")
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
    let groups = shape.iter().rev().nth(1).cloned().ok_or_else(|| unlike(call, argument))?;
    let rows = b.ty(scales).elements().exact_div(&groups).ok_or_else(|| unlike(call, argument))?;
    let stated = b.ty(call.tensor(argument)?).shape;
    if transposed && stated != [rows.clone(), groups.clone()] && stated == [groups.clone(), rows.clone()] {
        let scales = b.reshape(scales, vec![rows, groups])?;
        return Ok(b.prim(Prim::Permute { perm: vec![1, 0] }, &[scales])?);
    }
    shaped(call, scales, argument)
}

/// The names of the arguments that bound codes.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub(super) low: &'static str,
    pub(super) high: &'static str,
}

/// A number argument as the nearest f32.
fn number(call: &Call<'_>, name: &str) -> Result<f64, Refusal> {
    Ok(f64::from(call.scalar(name)?.as_f64() as f32))
}

/// The e4m3 quantiser of groups whose largest magnitude is at least `eps`; NaN gives the lower bound.
pub(super) fn fp8_groups(
    call: &Call<'_>,
    apply: Apply,
    power: bool,
    bounds: Bounds,
) -> Result<QuantizeDynamic, Refusal> {
    let bound = number(call, bounds.high)?;
    if number(call, bounds.low)? != -bound {
        return Err(call.refused(bounds.low, &format!("not opposite to `{}`, which is {bound}", bounds.high)));
    }
    Ok(QuantizeDynamic {
        bound,
        floor_of: Floor::AbsMax,
        floor: number(call, "eps")?,
        scale: if power { DynamicScale::PowerOfTwo } else { DynamicScale::Quotient },
        apply,
        nan: NanCode::Low,
        ..QuantizeDynamic::default()
    })
}

/// Codes of groups in the dtype of `output_q`, with scales in f32.
pub(super) fn dynamic_group_codes(call: &Call<'_>, apply: Apply, power: bool, bounds: Bounds) -> Imported {
    let b = call.b;
    if b.dtype(call.tensor("output_s")?) != DType::F32 {
        return Err(call.refused("output_s", "scales in other than f32"));
    }
    match b.dtype(call.tensor("output_q")?) {
        DType::F8E4M3 => {
            let op = fp8_groups(call, apply, power, bounds)?;
            dynamic_groups(call, op, &[in_groups(call, call.tensor("input")?)?], ["output_q", "output_s"])
        }
        DType::I8 if !power => truncated_groups(call, apply, bounds),
        DType::I8 => Err(call.refused("output_q", "codes in int8 by powers of two")),
        _ => Err(call.refused("output_q", "codes other than e4m3 and int8")),
    }
}

/// Int8 codes that are cut off, not rounded; NaN gives the lower bound.
fn truncated_groups(call: &Call<'_>, apply: Apply, bounds: Bounds) -> Imported {
    let b = call.b;
    let x = convert(b, in_groups(call, call.tensor("input")?)?, DType::F32)?;
    let (low, high) = (number(call, bounds.low)?, number(call, bounds.high)?);
    for (name, inside) in [(bounds.low, low >= -128.0), (bounds.high, high <= 127.0)] {
        if !inside {
            return Err(call.refused(name, "a bound beyond the codes"));
        }
    }
    let largest = absmax(call, x, vec![last_axis(call, x)?])?;
    let largest = b.map(ScalarFn::Max, &[largest, f32(call, number(call, "eps")?)?])?;
    let (low, high) = (f32(call, low)?, f32(call, high)?);
    let scale = b.div(largest, high)?;
    let scaled = match apply {
        Apply::Divide => b.div(x, scale)?,
        _ => b.mul(x, b.div(f32(call, 1.0)?, scale)?)?,
    };
    let clamped = b.map(ScalarFn::MinNum, &[b.map(ScalarFn::MaxNum, &[scaled, low])?, high])?;
    let codes = b.prim(Prim::Cast { to: DType::I8, round: Rounding::TowardZero, saturate: false }, &[clamped])?;
    Ok(vec![shaped(call, codes, "output_q")?, group_scales(call, scale, "output_s")?])
}

pub(super) fn per_token_group_quant_int8(call: &Call<'_>) -> Imported {
    dynamic_group_codes(call, Apply::Reciprocal, false, Bounds { low: "int8_min", high: "int8_max" })
}

/// Powers of two as scales, of which the exponents of four groups fill a word, the first in its lowest bits; groups that
/// are not there are 0.
pub(super) fn fp8_packed(call: &Call<'_>) -> Imported {
    let b = call.b;
    let op = fp8_groups(call, Apply::Reciprocal, true, Bounds { low: "fp8_min", high: "fp8_max" })?;
    let results = b.composite(Composite::new(op), &[in_groups(call, call.tensor("input")?)?])?;
    let shape = b.ty(results[1]).shape;
    let groups = shape.iter().rev().nth(1).cloned().ok_or_else(|| unlike(call, "output_s_packed"))?;
    let rows = b.ty(results[1]).elements().exact_div(&groups).ok_or_else(|| unlike(call, "output_s_packed"))?;
    let power = b.bitcast(b.cast(results[1], DType::F8E8M0)?, DType::U8)?;
    let mut exponents = b.reshape(power, vec![rows.clone(), groups.clone()])?;
    let four = Dim::constant(4);
    let full = &groups.ceil_div(&four) * &four;
    if full != groups {
        let none = expand_to(call, b.int(DType::U8, 0)?, &[rows, &full - &groups])?;
        exponents = b.cat(&[exponents, none], 1)?;
    }
    let words = b.prim(Prim::Pack { ways: 4, to: DType::I32 }, &[exponents])?;
    let stated = b.ty(call.tensor("output_s_packed")?);
    if stated.dtype != DType::I32 {
        return Err(call.refused("output_s_packed", "scales in other than words"));
    }
    Ok(vec![shaped(call, results[0], "output_q")?, shaped(call, words, "output_s_packed")?])
}
