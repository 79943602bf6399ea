//! Ascend's kernels: f32 inside, reciprocal deviations by square root and division.

use fusewright_abi::DType;

use super::super::aten::layout::cut;
use super::super::aten::promote::convert;
use super::super::call::{Call, Imported, Refusal};
use super::ascend_quant::{dynamic_codes, static_codes};
use super::{One, wide};
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{
    Apply, Codes, Composite, DynamicScale, GemmaRmsNorm, Mean, NanCode, QuantizeDynamic, RmsNorm, RmsRounding,
    RmsScale, Root, RopeInterleaved, RopeNeox, Silu, SiluForm,
};

/// `1 / √(Σ z²·(1/n) + eps)`; the factor comes before the sum.
pub(super) fn scale(call: &Call<'_>) -> Result<RmsScale, Refusal> {
    let eps = f64::from(call.scalar("epsilon")?.as_f64() as f32);
    Ok(RmsScale { eps, mean: Mean::Parts, root: Root::Inverse })
}

/// The norm and the reciprocal deviation that it multiplies by.
fn norm(call: &Call<'_>, operands: &[Value], round: RmsRounding) -> Imported {
    let scale = scale(call)?;
    let y = call.b.composite(Composite::new(RmsNorm { scale, round }), operands)?[0];
    Ok(vec![y, call.b.composite(Composite::new(scale), &operands[..1])?[0]])
}

pub(super) fn rms_norm(call: &Call<'_>) -> Imported {
    norm(call, &[call.tensor("self")?, call.tensor("gamma")?], RmsRounding::Once)
}

/// With the weight as its distance from one. The kernel's source states the formula alone; it is rounded as
/// `npu_rms_norm` is.
pub(super) fn gemma_rms_norm(call: &Call<'_>) -> Imported {
    let (scale, x) = (scale(call)?, call.tensor("self")?);
    let y = call.b.composite(Composite::new(GemmaRmsNorm { scale }), &[x, call.tensor("gamma")?])?[0];
    Ok(vec![y, call.b.composite(Composite::new(scale), &[x])?[0]])
}

/// As `npu_add_rms_norm`; there is no bias.
pub(super) fn add_rms_norm_bias(call: &Call<'_>) -> Imported {
    if call.is_none("beta")? { add_rms_norm(call) } else { Err("a bias".into()) }
}

/// The norm, the reciprocal deviation and the sum. bf16 normalises the unrounded sum, f16 the rounded one.
pub(super) fn add_rms_norm(call: &Call<'_>) -> Imported {
    let b = call.b;
    let (x1, x2, gamma) = (call.tensor("x1")?, call.tensor("x2")?, call.tensor("gamma")?);
    let dtype = b.dtype(x1);
    let unrounded = dtype == DType::BF16;
    let sum = if unrounded { b.add(wide(call, "x1")?, wide(call, "x2")?)? } else { b.add(x1, x2)? };
    let stored = b.cast(sum, dtype)?;
    let mut results = if b.dtype(gamma) == dtype {
        norm(call, &[sum, gamma], RmsRounding::BeforeWeight)?
    } else {
        // The product with a weight of another dtype is in f32, and rounded once more.
        let z = b.cast(sum, DType::F32)?;
        let mut parts = norm(call, &[z], RmsRounding::Once)?;
        let normal = convert(b, b.cast(parts[0], dtype)?, DType::F32)?;
        parts[0] = b.cast(b.mul(normal, wide(call, "gamma")?)?, dtype)?;
        parts
    };
    results.push(stored);
    Ok(results)
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

/// Scaled, offset, rounded to int8; the offset is added before rounding.
pub(super) fn quantize(call: &Call<'_>) -> Imported {
    let b = call.b;
    if call.out()?.dtype != DType::I8 {
        return Err("codes other than int8".into());
    }
    let x = call.tensor("self")?;
    let rank = b.ty(x).rank();
    let axis = call.axis("axis", rank)?;
    let apply = if call.bool("div_mode")? { Apply::Divide } else { Apply::Multiply };
    let zero = if call.is_none("zero_points")? { None } else { Some(channel(call, "zero_points", axis, rank)?) };
    Ok(vec![static_codes(call, x, apply, (channel(call, "scales", axis, rank)?, zero))?])
}

/// Codes by the factor `127 / absmax`, and the reciprocal of that factor as scale; a row of zeros has codes 0.
pub(super) fn dynamic_quant(call: &Call<'_>) -> Imported {
    if !call.is_none("group_index")? || call.word("quant_mode")? != "pertoken" || !call.is_none("dst_type")? {
        return Err("a mode other than int8 per token".into());
    }
    let smooth = (!call.is_none("smooth_scales")?).then_some("smooth_scales");
    Ok(dynamic_codes(call, call.tensor("input")?, smooth, DynamicScale::Inverse)?.to_vec())
}

/// Codes by the factor `127 / absmax`, which is 0 for a row of zeros, and a number made of it or of its parts.
pub(super) fn per_token(scale: DynamicScale) -> QuantizeDynamic {
    let (apply, nan) = (Apply::Factor, NanCode::Skip);
    QuantizeDynamic { codes: Codes::I8, bound: 127.0, scale, apply, nan, ..QuantizeDynamic::default() }
}

/// The two halves of an axis.
pub(super) fn split(call: &Call<'_>, x: Value, axis: usize) -> Result<[Value; 2], Refusal> {
    let extent = call.b.ty(x).shape[axis].clone();
    let half = extent.exact_div(&Dim::constant(2)).ok_or("an odd axis")?;
    Ok([cut(call, x, axis, [Dim::constant(0), half.clone()], 1)?, cut(call, x, axis, [half, extent], 1)?])
}

/// `silu(first) · second` in f32, rounded once.
pub(super) fn swiglu(call: &Call<'_>) -> Imported {
    let b = call.b;
    let (x, dtype) = (wide(call, "self")?, b.dtype(call.tensor("self")?));
    let [gate, up] = split(call, x, call.axis("dim", b.ty(x).rank())?)?;
    let act = b.composite(Composite::new(Silu { form: SiluForm::Quotient }), &[gate])?[0];
    Ok(vec![b.cast(b.mul(act, up)?, dtype)?])
}

/// `x·r1 + rotate(x)·r2` in f32, rounded once.
fn rotated(call: &Call<'_>, x: Value, cos: &str, sin: &str) -> One {
    let op = match call.word("rotary_mode")? {
        "half" => Composite::new(RopeNeox),
        "interleave" => Composite::new(RopeInterleaved),
        other => return Err(format!("a rotation of `{other}`").into()),
    };
    let b = call.b;
    let y = b.composite(op, &[convert(b, x, DType::F32)?, wide(call, cos)?, wide(call, sin)?])?[0];
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
