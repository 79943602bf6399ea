//! Ascend's fused quantisers: what they quantise is not rounded before, where the ops one by one would round it.

use fusewright_abi::DType;

use super::super::aten::layout::expand_to;
use super::super::aten::promote::convert;
use super::super::call::{Call, Imported, Refusal};
use super::ascend::{channel, per_token, rounded_norm, scale, split};
use super::vllm::single;
use super::{One, f32, last_axis, wide};
use crate::graph::Value;
use crate::ops::{
    Apply, Codes, Composite, DynamicScale, NanCode, Offset, QuantizeAffine, QuantizeStatic, RmsNorm, RmsRounding, Silu,
    SiluForm,
};
use crate::prim::{NanRule, Prim, ReduceOp, Rounding};
use crate::scalar::ScalarFn;

/// Int8 codes under a scale and an optional offset, both given and shaped to broadcast.
pub(super) fn static_codes(call: &Call<'_>, x: Value, apply: Apply, (scale, offset): (Value, Option<Value>)) -> One {
    let bound = 127.0;
    Ok(match offset {
        None => {
            let op = QuantizeStatic { codes: Codes::I8, apply, bound, nan: NanCode::Propagate };
            call.b.composite(Composite::new(op), &[x, scale])?[0]
        }
        Some(offset) => {
            let op = QuantizeAffine { apply, offset: Offset::BeforeRounding, bound };
            call.b.composite(Composite::new(op), &[x, scale, offset])?[0]
        }
    })
}

/// Int8 codes of `x` times an optional smoothing factor, and one number per token that `of` says.
pub(super) fn dynamic_codes(
    call: &Call<'_>,
    x: Value,
    smooth: Option<&str>,
    of: DynamicScale,
) -> Result<[Value; 2], Refusal> {
    let b = call.b;
    let x = match smooth {
        Some(name) => b.mul(convert(b, x, DType::F32)?, wide(call, name)?)?,
        None => x,
    };
    let results = b.composite(Composite::new(per_token(of)), &[x])?;
    let mut rows = b.ty(results[1]).shape;
    rows.pop();
    Ok([results[0], b.reshape(results[1], rows)?])
}

/// What an op leaves unwritten: zeros of the type that the file states.
pub(super) fn unwritten(call: &Call<'_>, result: usize) -> One {
    let ty = call.results.get(result).ok_or("fewer results than the op has")?;
    let zero = if ty.dtype.is_float() { call.b.float(ty.dtype, 0.0)? } else { call.b.int(ty.dtype, 0)? };
    expand_to(call, zero, &ty.shape)
}

/// Refuses arguments that change more than is known.
pub(super) fn absent(call: &Call<'_>, names: &[(&str, &str)]) -> Result<(), Refusal> {
    match names.iter().find(|(name, _)| !matches!(call.is_none(name), Ok(true))) {
        Some((name, what)) => Err(format!("`{name}`: {what}").into()),
        None => Ok(()),
    }
}

/// The normalised sum that is quantised, and the rounded sum: the sum is normalised unrounded, or as it is stored, and
/// its product with the weight is not rounded.
fn normalised(call: &Call<'_>, unrounded: bool) -> Result<[Value; 2], Refusal> {
    let b = call.b;
    let (dtype, scale) = (b.dtype(call.tensor("x1")?), scale(call)?);
    let sum = b.add(wide(call, "x1")?, wide(call, "x2")?)?;
    let stored = b.cast(sum, dtype)?;
    let z = if unrounded { sum } else { convert(b, stored, DType::F32)? };
    let op = RmsNorm { scale, round: RmsRounding::Once };
    Ok([b.composite(Composite::new(op), &[z, call.tensor("gamma")?])?[0], stored])
}

/// Codes by one scale per channel or by two, and the sum. bf16 quantises the unrounded norm of the unrounded sum, or
/// with a bias of the rounded one; f16 rounds the sum, the norm and its product with the weight.
pub(super) fn add_rms_norm_quant(call: &Call<'_>) -> Imported {
    absent(call, &[("dst_type", "codes other than int8")])?;
    let b = call.b;
    let (dtype, biased) = (b.dtype(call.tensor("x1")?), !call.is_none("beta")?);
    let [mut y, sum] = if dtype == DType::BF16 {
        normalised(call, !biased)?
    } else {
        absent(call, &[("beta", "where it is rounded in f16 is not known")])?;
        let sum = b.add(call.tensor("x1")?, call.tensor("x2")?)?;
        [rounded_norm(call, sum, dtype)?, sum]
    };
    if biased {
        y = b.add(y, wide(call, "beta")?)?;
    }
    let rank = b.ty(y).rank();
    let axis = call.axis("axis", rank)?;
    let apply = if call.bool("div_mode")? { Apply::Divide } else { Apply::Multiply };
    let codes = |scales: &str, zeros: &str| -> One {
        let offset = if call.is_none(zeros)? { None } else { Some(channel(call, zeros, axis, rank)?) };
        static_codes(call, y, apply, (channel(call, scales, axis, rank)?, offset))
    };
    let first = codes("scales1", "zero_points1")?;
    let second = if call.is_none("scales2")? { unwritten(call, 1)? } else { codes("scales2", "zero_points2")? };
    Ok(vec![first, second, sum])
}

/// Codes by a scale per token, or two with smoothing factors of their own, the sum and the scales. f16 is added in f32 too.
pub(super) fn add_rms_norm_dynamic_quant(call: &Call<'_>) -> Imported {
    let unknown = [
        ("beta", "where it is rounded is not known"),
        ("y_dtype", "codes other than int8"),
        ("output_mask", "what it leaves unwritten is not known"),
    ];
    absent(call, &unknown)?;
    let [y, sum] = normalised(call, true)?;
    let smooth = |name| -> Result<Option<&str>, Refusal> { Ok((!call.is_none(name)?).then_some(name)) };
    let first = dynamic_codes(call, y, smooth("smooth_scale1")?, DynamicScale::Inverse)?;
    let second = match smooth("smooth_scale2")? {
        None => [unwritten(call, 1)?, unwritten(call, 4)?],
        name => dynamic_codes(call, y, name, DynamicScale::Inverse)?,
    };
    Ok(vec![first[0], second[0], sum, first[1], second[1]])
}

/// Codes of `silu(A) · B` in f32, where `A` is the second half unless `activate_left`: under a scale and an offset that
/// are given, or by `127 / absmax` of a token, which is then the second result.
pub(super) fn swiglu_quant(call: &Call<'_>) -> Imported {
    absent(call, &[("group_index", "groups of tokens"), ("dst_type", "codes other than int8")])?;
    let b = call.b;
    let x = wide(call, "x")?;
    let rank = b.ty(x).rank();
    let last = rank.checked_sub(1).ok_or_else(|| call.refused("x", "a 0-d operand"))?;
    let [left, right] = split(call, ("x", x), last)?;
    let (gate, up) = if call.bool("activate_left")? { (left, right) } else { (right, left) };
    let act = b.composite(Composite::new(Silu { form: SiluForm::Quotient }), &[gate])?[0];
    let y = b.mul(act, up)?;
    let smooth = !call.is_none("smooth_scales")?;
    match call.int("quant_mode")? {
        0 if smooth => {
            let offset = if call.is_none("offsets")? { None } else { Some(channel(call, "offsets", last, rank)?) };
            let scale = channel(call, "smooth_scales", last, rank)?;
            Ok(vec![static_codes(call, y, Apply::Multiply, (scale, offset))?, unwritten(call, 1)?])
        }
        1 => Ok(dynamic_codes(call, y, smooth.then_some("smooth_scales"), DynamicScale::Factor)?.to_vec()),
        0 => Err(call.refused("quant_mode", "no `smooth_scales`")),
        _ => Err(call.refused("quant_mode", "a mode that is not known")),
    }
}

/// vLLM's quantiser on Ascend: by the reciprocal that is given beside the scale, offset before it is rounded.
pub(super) fn quantize(call: &Call<'_>) -> Imported {
    let rank = call.b.ty(call.tensor("x")?).rank();
    let last = rank.checked_sub(1).ok_or_else(|| call.refused("x", "a 0-d operand"))?;
    let offset = if call.is_none("offset")? { None } else { Some(channel(call, "offset", last, rank)?) };
    let factor = channel(call, "scale_reciprocal", last, rank)?;
    Ok(vec![static_codes(call, call.tensor("x")?, Apply::Multiply, (factor, offset))?])
}

/// The largest or smallest number of a row; NaN is skipped.
fn extreme(call: &Call<'_>, x: Value, op: ReduceOp) -> One {
    let axes = vec![last_axis(call, x)?];
    Ok(call.b.prim(Prim::Reduce { op, axes, nan: NanRule::Ignore }, &[x])?)
}

/// The nearest whole number, within the codes; NaN is 0.
fn whole(call: &Call<'_>, x: Value) -> One {
    let b = call.b;
    let clamped = b.clamp(b.map(ScalarFn::RoundEven, &[x])?, f32(call, -128.0)?, f32(call, 127.0)?)?;
    Ok(b.prim(Prim::Cast { to: DType::I8, round: Rounding::TowardZero, saturate: false }, &[clamped])?)
}

/// Codes that cover the range of a row, its scale `(max − min) / 255`, which is at least 1e-12, and the offset
/// `127 − max / scale`, which is not rounded and is added before the codes are.
pub(super) fn dynamic_quant_asymmetric(call: &Call<'_>) -> Imported {
    absent(call, &[("group_index", "groups of tokens")])?;
    if call.word("quant_mode")? != "pertoken" {
        return Err(format!("`quant_mode`: {}", call.word("quant_mode")?).into());
    }
    if call.out()?.dtype != DType::I8 {
        return Err(format!("`dst_type`: codes in {}", call.out()?.dtype).into());
    }
    let b = call.b;
    let mut x = wide(call, "input")?;
    if !call.is_none("smooth_scales")? {
        x = b.mul(x, wide(call, "smooth_scales")?)?;
    }
    let (most, least) = (extreme(call, x, ReduceOp::Max)?, extreme(call, x, ReduceOp::Min)?);
    let span = b.div(b.sub(most, least)?, f32(call, 255.0)?)?;
    let scale = b.map(ScalarFn::MaxNum, &[span, f32(call, 1e-12)?])?;
    let offset = b.sub(f32(call, 127.0)?, b.div(most, scale)?)?;
    let back = b.div(f32(call, 1.0)?, scale)?;
    let codes = whole(call, b.add(b.mul(x, back)?, offset)?)?;
    let mut rows = b.ty(scale).shape;
    rows.pop();
    Ok(vec![codes, b.reshape(scale, rows.clone())?, b.reshape(offset, rows)?])
}

/// The norm, its bias and the codes in f32, but for one rounding to f16 before the codes: `f16(y · (1/scale) + offset)`.
pub(super) fn rms_norm_quant(call: &Call<'_>) -> Imported {
    if call.out()?.dtype != DType::I8 {
        return Err(format!("`dst_dtype`: codes in {}", call.out()?.dtype).into());
    }
    let b = call.b;
    let op = RmsNorm { scale: scale(call)?, round: RmsRounding::Once };
    let mut y = b.composite(Composite::new(op), &[wide(call, "x")?, call.tensor("gamma")?])?[0];
    if !call.is_none("beta")? {
        y = b.add(y, wide(call, "beta")?)?;
    }
    let factor = b.div(f32(call, 1.0)?, single(call, "scale")?)?;
    let moved = b.add(b.mul(y, factor)?, single(call, "offset")?)?;
    let half = b.cast(moved, DType::F16)?;
    Ok(vec![whole(call, convert(b, half, DType::F32)?)?])
}
