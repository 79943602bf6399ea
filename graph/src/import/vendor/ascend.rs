//! Ascend's kernels: f32 inside, reciprocal deviations by square root and division.

use fusewright_abi::DType;

use super::super::aten::layout::cut;
use super::super::aten::promote::convert;
use super::super::call::{Call, Imported, Refusal};
use super::ascend_quant::{absent, dynamic_codes, static_codes};
use super::{One, wide};
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{
    Apply, Codes, Composite, DynamicScale, GemmaRmsNorm, Mean, NanCode, QuantizeDynamic, QuantizeStatic, RmsNorm,
    RmsRounding, RmsScale, Root, RopeInterleaved, RopeNeox, Silu, SiluForm,
};
use crate::prim::Prim;

/// `1 / √(Σ z²·(1/n) + eps)`; the factor comes before the sum.
pub(super) fn scale(call: &Call<'_>) -> Result<RmsScale, Refusal> {
    let eps = f64::from(call.scalar("epsilon")?.as_f64() as f32);
    Ok(RmsScale { eps, mean: Mean::Parts, root: Root::Inverse })
}

fn norm(call: &Call<'_>, operands: &[Value], round: RmsRounding) -> One {
    Ok(call.b.composite(Composite::new(RmsNorm { scale: scale(call)?, round }), operands)?[0])
}

/// The reciprocal deviation that the norm of `z` multiplies by.
fn deviation(call: &Call<'_>, z: Value) -> One {
    Ok(call.b.composite(Composite::new(scale(call)?), &[z])?[0])
}

pub(super) fn rms_norm(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    Ok(vec![norm(call, &[x, call.tensor("gamma")?], RmsRounding::Once)?, deviation(call, x)?])
}

/// With the weight as its distance from one. The kernel's source states the formula alone; it is rounded as
/// `npu_rms_norm` is.
pub(super) fn gemma_rms_norm(call: &Call<'_>) -> Imported {
    let (scale, x) = (scale(call)?, call.tensor("self")?);
    let y = call.b.composite(Composite::new(GemmaRmsNorm { scale }), &[x, call.tensor("gamma")?])?[0];
    Ok(vec![y, call.b.composite(Composite::new(scale), &[x])?[0]])
}

/// As `npu_add_rms_norm`; where a bias would be rounded is not known.
pub(super) fn add_rms_norm_bias(call: &Call<'_>) -> Imported {
    if call.is_none("beta")? { add_rms_norm(call) } else { Err("`beta`: where it is rounded is not known".into()) }
}

/// What is normalised, and the sum as it is stored. bf16 normalises the unrounded sum, f16 the rounded one.
fn sums(call: &Call<'_>) -> Result<[Value; 2], Refusal> {
    let b = call.b;
    let (x1, x2) = (call.tensor("x1")?, call.tensor("x2")?);
    let unrounded = b.dtype(x1) == DType::BF16;
    let sum = if unrounded { b.add(wide(call, "x1")?, wide(call, "x2")?)? } else { b.add(x1, x2)? };
    Ok([sum, b.cast(sum, b.dtype(x1))?])
}

/// `z·k` rounded to `dtype`, times the weight in f32 and not rounded.
fn wide_norm(call: &Call<'_>, z: Value, dtype: DType) -> One {
    let b = call.b;
    let normal = norm(call, &[b.cast(z, DType::F32)?], RmsRounding::Once)?;
    let normal = convert(b, b.cast(normal, dtype)?, DType::F32)?;
    Ok(b.mul(normal, wide(call, "gamma")?)?)
}

/// `z·k` rounded to `dtype`, and its product with the weight rounded again. The product with a weight of another dtype
/// is in f32.
pub(super) fn rounded_norm(call: &Call<'_>, z: Value, dtype: DType) -> One {
    let (b, gamma) = (call.b, call.tensor("gamma")?);
    if b.dtype(gamma) == dtype {
        return norm(call, &[z, gamma], RmsRounding::BeforeWeight);
    }
    Ok(b.cast(wide_norm(call, z, dtype)?, dtype)?)
}

/// The norm, the reciprocal deviation and the sum.
pub(super) fn add_rms_norm(call: &Call<'_>) -> Imported {
    let [z, stored] = sums(call)?;
    let y = rounded_norm(call, z, call.b.dtype(stored))?;
    Ok(vec![y, deviation(call, z)?, stored])
}

/// The norm in f32, the same rounded, the reciprocal deviation and the sum.
pub(super) fn add_rms_norm_cast(call: &Call<'_>) -> Imported {
    let b = call.b;
    let [z, stored] = sums(call)?;
    let dtype = b.dtype(stored);
    let y = wide_norm(call, z, dtype)?;
    Ok(vec![y, b.cast(y, dtype)?, deviation(call, z)?, stored])
}

/// A parameter of one element, or one per channel along `axis`, shaped to broadcast.
pub(super) fn channel(call: &Call<'_>, name: &str, axis: usize, rank: usize) -> One {
    let x = wide(call, name)?;
    let extent = call.b.ty(x).elements();
    if extent.as_const() == Some(1) {
        return Ok(call.b.reshape(x, Vec::new())?);
    }
    let mut shape = vec![Dim::constant(1); rank];
    shape[axis] = extent;
    Ok(call.b.reshape(x, shape)?)
}

/// Scaled, offset, rounded to int8; the offset is added before rounding. Codes of four bits are eight to an i32, the
/// first in the lowest bits.
pub(super) fn quantize(call: &Call<'_>) -> Imported {
    let b = call.b;
    let x = call.tensor("self")?;
    let rank = b.ty(x).rank();
    let axis = call.axis("axis", rank)?;
    let apply = if call.bool("div_mode")? { Apply::Divide } else { Apply::Multiply };
    if nibbles(call, x)? {
        if !call.is_none("zero_points")? {
            return Err(call.refused("zero_points", "codes are of four bits"));
        }
        let op = QuantizeStatic { codes: Codes::I4, apply, bound: 7.0, nan: NanCode::Propagate };
        let bytes = b.composite(Composite::new(op), &[x, channel(call, "scales", axis, rank)?])?[0];
        return Ok(vec![b.prim(Prim::Pack { ways: 4, to: DType::I32 }, &[bytes])?]);
    }
    if call.out()?.dtype != DType::I8 {
        return Err(format!("`dtype`: codes in {}", call.out()?.dtype).into());
    }
    let zero = if call.is_none("zero_points")? { None } else { Some(channel(call, "zero_points", axis, rank)?) };
    Ok(vec![static_codes(call, x, apply, (channel(call, "scales", axis, rank)?, zero))?])
}

/// Whether the result that the file states is one of codes of four bits: an i32 for eight lanes.
fn nibbles(call: &Call<'_>, x: Value) -> Result<bool, Refusal> {
    let (stated, shape) = (call.out()?, call.b.ty(x).shape);
    let packed = match (stated.shape.last(), shape.last()) {
        (Some(words), Some(lanes)) => words * &Dim::constant(8) == *lanes,
        _ => false,
    };
    Ok(stated.dtype == DType::I32 && packed)
}

/// Codes by the factor `127 / absmax`, and the reciprocal of that factor as scale; a row of zeros has codes 0.
pub(super) fn dynamic_quant(call: &Call<'_>) -> Imported {
    absent(call, &[("group_index", "groups of tokens"), ("dst_type", "codes other than int8")])?;
    if call.word("quant_mode")? != "pertoken" {
        return Err(format!("`quant_mode`: {}", call.word("quant_mode")?).into());
    }
    let smooth = (!call.is_none("smooth_scales")?).then_some("smooth_scales");
    Ok(dynamic_codes(call, call.tensor("input")?, smooth, DynamicScale::Inverse)?.to_vec())
}

/// Codes by the factor `127 / absmax`, which is 0 for a row of zeros, and a number made of it or of its parts.
pub(super) fn per_token(scale: DynamicScale) -> QuantizeDynamic {
    let (apply, nan) = (Apply::Factor, NanCode::Skip);
    QuantizeDynamic { codes: Codes::I8, bound: 127.0, scale, apply, nan, ..QuantizeDynamic::default() }
}

/// The two halves of an axis of a value that an argument leads to.
pub(super) fn split(call: &Call<'_>, (name, x): (&str, Value), axis: usize) -> Result<[Value; 2], Refusal> {
    let extent = call.b.ty(x).shape[axis].clone();
    let half = extent.exact_div(&Dim::constant(2)).ok_or_else(|| call.refused(name, "an odd axis"))?;
    Ok([cut(call, x, axis, [Dim::constant(0), half.clone()], 1)?, cut(call, x, axis, [half, extent], 1)?])
}

/// `silu(first) · second` in f32, rounded once.
pub(super) fn swiglu(call: &Call<'_>) -> Imported {
    let b = call.b;
    let (x, dtype) = (wide(call, "self")?, b.dtype(call.tensor("self")?));
    let [gate, up] = split(call, ("self", x), call.axis("dim", b.ty(x).rank())?)?;
    let act = b.composite(Composite::new(Silu { form: SiluForm::Quotient }), &[gate])?[0];
    Ok(vec![b.cast(b.mul(act, up)?, dtype)?])
}

/// `x·r1 + rotate(x)·r2` in f32, rounded once.
fn rotated(call: &Call<'_>, x: Value, cos: &str, sin: &str) -> One {
    let op = match call.word("rotary_mode")? {
        "half" => Composite::new(RopeNeox),
        "interleave" => Composite::new(RopeInterleaved),
        _ => return Err(call.refused("rotary_mode", "a rotation that is not known")),
    };
    let b = call.b;
    let y = b.composite(op, &[convert(b, x, DType::F32)?, wide(call, cos)?, wide(call, sin)?])?[0];
    Ok(b.cast(y, b.dtype(x))?)
}

pub(super) fn rotary_mul(call: &Call<'_>) -> Imported {
    if !call.is_none("rotate")? {
        return Err(call.refused("rotate", "a rotation matrix"));
    }
    Ok(vec![rotated(call, call.tensor("self")?, "r1", "r2")?])
}

pub(super) fn apply_rotary_pos_emb(call: &Call<'_>) -> Imported {
    ["query", "key"].into_iter().map(|name| rotated(call, call.tensor(name)?, "cos", "sin")).collect()
}
