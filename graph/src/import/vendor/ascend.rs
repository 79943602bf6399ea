//! Ascend's kernels: f32 inside, reciprocal deviations by square root and division.

use fusewright_abi::DType;

use super::super::aten::layout::cut;
use super::super::aten::promote::convert;
use super::super::aten::reduce::{count, over};
use super::super::call::{Call, Imported, Refusal};
use super::{One, absmax, f32, int8_codes, last_axis, wide};
use crate::dim::Dim;
use crate::graph::Value;
use crate::prim::ReduceOp;
use crate::scalar::ScalarFn;

/// `1 / √(Σ z²·(1/n) + eps)`; the factor comes before the sum.
fn rstd(call: &Call<'_>, z: Value) -> One {
    let b = call.b;
    let axes = [last_axis(call, z)?];
    let one = f32(call, 1.0)?;
    let factor = b.div(one, count(call, z, &axes, DType::F32)?)?;
    let mean = over(call, ReduceOp::Add, b.mul(b.mul(z, z)?, factor)?, &axes)?;
    let eps = f32(call, call.scalar("epsilon")?.as_f64())?;
    Ok(b.div(one, b.map(ScalarFn::Sqrt, &[b.add(mean, eps)?])?)?)
}

pub(super) fn rms_norm(call: &Call<'_>) -> Imported {
    let b = call.b;
    let (z, dtype) = (wide(call, "self")?, b.dtype(call.tensor("self")?));
    let scale = rstd(call, z)?;
    let y = b.mul(b.mul(z, scale)?, wide(call, "gamma")?)?;
    Ok(vec![b.cast(y, dtype)?, scale])
}

/// The norm, the reciprocal deviation and the sum. bf16 normalises the unrounded sum, f16 the rounded one.
pub(super) fn add_rms_norm(call: &Call<'_>) -> Imported {
    let b = call.b;
    let dtype = b.dtype(call.tensor("x1")?);
    let sum = b.add(wide(call, "x1")?, wide(call, "x2")?)?;
    let stored = b.cast(sum, dtype)?;
    let z = if dtype == DType::F16 { b.cast(stored, DType::F32)? } else { sum };
    let scale = rstd(call, z)?;
    let normal = convert(b, b.cast(b.mul(z, scale)?, dtype)?, DType::F32)?;
    let y = b.cast(b.mul(normal, wide(call, "gamma")?)?, dtype)?;
    Ok(vec![y, scale, stored])
}

/// A parameter of one element, or one per channel along `axis`, shaped to broadcast.
fn channel(call: &Call<'_>, name: &str, axis: usize, rank: usize) -> One {
    let x = wide(call, name)?;
    let extent = call.b.ty(x).elements();
    if extent.as_const() == Some(1) {
        return Ok(call.b.reshape(x, Vec::new())?);
    }
    let mut shape = vec![Dim::constant(1); rank];
    shape[axis] = extent;
    Ok(call.b.reshape(x, shape)?)
}

/// Scaled, offset, rounded to int8; the offset is added before rounding.
pub(super) fn quantize(call: &Call<'_>) -> Imported {
    let b = call.b;
    if call.out()?.dtype != DType::I8 {
        return Err("codes other than int8".into());
    }
    let x = wide(call, "self")?;
    let rank = b.ty(x).rank();
    let axis = call.axis("axis", rank)?;
    let f = if call.bool("div_mode")? { ScalarFn::Div } else { ScalarFn::Mul };
    let mut y = b.map(f, &[x, channel(call, "scales", axis, rank)?])?;
    if !call.is_none("zero_points")? {
        y = b.add(y, channel(call, "zero_points", axis, rank)?)?;
    }
    Ok(vec![int8_codes(call, y)?])
}

/// Codes by the factor `127 / absmax`, and the reciprocal of that factor as scale; a row of zeros has codes 0.
pub(super) fn dynamic_quant(call: &Call<'_>) -> Imported {
    let b = call.b;
    if !call.is_none("group_index")? || call.word("quant_mode")? != "pertoken" || !call.is_none("dst_type")? {
        return Err("a mode other than int8 per token".into());
    }
    let mut x = wide(call, "input")?;
    if !call.is_none("smooth_scales")? {
        x = b.mul(x, wide(call, "smooth_scales")?)?;
    }
    let zero = f32(call, 0.0)?;
    let axis = last_axis(call, x)?;
    let largest = b.map(ScalarFn::Max, &[absmax(call, x, vec![axis])?, zero])?;
    let factor = b.div(f32(call, 127.0)?, largest)?;
    let empty = b.map(ScalarFn::Eq, &[largest, zero])?;
    let scaled = b.map(ScalarFn::Select, &[empty, zero, b.mul(x, factor)?])?;
    let scale = b.div(f32(call, 1.0)?, factor)?;
    let mut rows = b.ty(scale).shape;
    rows.remove(axis);
    Ok(vec![int8_codes(call, scaled)?, b.reshape(scale, rows)?])
}

/// The two halves of an axis.
fn split(call: &Call<'_>, x: Value, axis: usize) -> Result<[Value; 2], Refusal> {
    let extent = call.b.ty(x).shape[axis].clone();
    let half = extent.exact_div(&Dim::constant(2)).ok_or("an odd axis")?;
    Ok([cut(call, x, axis, [Dim::constant(0), half.clone()], 1)?, cut(call, x, axis, [half, extent], 1)?])
}

/// `silu(first) · second` in f32, rounded once.
pub(super) fn swiglu(call: &Call<'_>) -> Imported {
    let b = call.b;
    let (x, dtype) = (wide(call, "self")?, b.dtype(call.tensor("self")?));
    let [gate, up] = split(call, x, call.axis("dim", b.ty(x).rank())?)?;
    let e = b.map(ScalarFn::Exp, &[b.map(ScalarFn::Neg, &[gate])?])?;
    let act = b.div(gate, b.add(f32(call, 1.0)?, e)?)?;
    Ok(vec![b.cast(b.mul(act, up)?, dtype)?])
}

/// `x·r1 + rotate(x)·r2` in f32, rounded once.
fn rotated(call: &Call<'_>, x: Value, cos: &str, sin: &str) -> One {
    if call.word("rotary_mode")? != "half" {
        return Err("interleaved pairs".into());
    }
    let b = call.b;
    let wide_x = convert(b, x, DType::F32)?;
    let axis = last_axis(call, x)?;
    let [low, high] = split(call, wide_x, axis)?;
    let partner = b.cat(&[b.map(ScalarFn::Neg, &[high])?, low], axis)?;
    let y = b.add(b.mul(wide_x, wide(call, cos)?)?, b.mul(partner, wide(call, sin)?)?)?;
    Ok(b.cast(y, b.dtype(x))?)
}

pub(super) fn rotary_mul(call: &Call<'_>) -> Imported {
    if !call.is_none("rotate")? {
        return Err("a rotation matrix".into());
    }
    Ok(vec![rotated(call, call.tensor("self")?, "r1", "r2")?])
}

pub(super) fn apply_rotary_pos_emb(call: &Call<'_>) -> Imported {
    ["query", "key"].into_iter().map(|name| rotated(call, call.tensor(name)?, "cos", "sin")).collect()
}
