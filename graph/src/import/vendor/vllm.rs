//! vLLM's CUDA kernels: f32 inside, rounded where the kernel stores.

use fusewright_abi::DType;

use super::super::aten::layout::cut;
use super::super::aten::promote::convert;
use super::super::call::{Call, Imported, Refusal};
use super::groups::{Bounds, dynamic_groups, fp8_groups, in_groups, least_fp8_scale};
use super::{One, absmax, f32, last_axis, wide};
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{
    Apply, Codes, Composite, Floor, NanCode, Offset, QuantizeAffine, QuantizeAsymmetric, QuantizeDynamic,
    QuantizeStatic, RmsNorm, RmsRounding,
};
use crate::prim::{Prim, Sdpa};
use crate::scalar::ScalarFn;

/// `x · rstd · w` in f32, rounded once.
pub(super) fn norm(call: &Call<'_>, x: Value) -> One {
    let eps = f64::from(call.scalar("epsilon")?.as_f64() as f32);
    let op = Composite::new(RmsNorm::new(eps, RmsRounding::Once));
    Ok(call.b.composite(op, &[x, call.tensor("weight")?])?[0])
}

pub(super) fn rms_norm(call: &Call<'_>) -> Imported {
    Ok(vec![norm(call, call.tensor("input")?)?])
}

/// The norm of the rounded sum, and that sum.
pub(super) fn fused_add_rms_norm(call: &Call<'_>) -> Imported {
    let sum = call.b.add(call.tensor("input")?, call.tensor("residual")?)?;
    Ok(vec![norm(call, sum)?, sum])
}

/// First and second half of the last axis of a value that an argument has or leads to.
pub(super) fn halves(call: &Call<'_>, x: Value, argument: &str) -> Result<[Value; 2], Refusal> {
    let axis = last_axis(call, x)?;
    let extent = call.b.ty(x).shape[axis].clone();
    let half = extent.exact_div(&Dim::constant(2)).ok_or_else(|| call.refused(argument, "an odd last axis"))?;
    let zero = Dim::constant(0);
    Ok([cut(call, x, axis, [zero, half.clone()], 1)?, cut(call, x, axis, [half, extent], 1)?])
}

/// A scale of one element as a 0-d f32 tensor.
pub(super) fn single(call: &Call<'_>, name: &str) -> One {
    let scale = wide(call, name)?;
    if call.b.ty(scale).elements().as_const() != Some(1) {
        return Err(call.refused(name, "not one element"));
    }
    Ok(call.b.reshape(scale, Vec::new())?)
}

/// A value in the shape of the argument it overwrites.
pub(super) fn shaped(call: &Call<'_>, x: Value, argument: &str) -> One {
    let b = call.b;
    let written = |_| call.refused(argument, &format!("the op writes {}", b.ty(x)));
    b.reshape(x, b.ty(call.tensor(argument)?).shape).map_err(written)
}

/// e4m3 codes by the reciprocal of a scale; NaN gives the upper bound.
pub(super) fn fp8_codes(call: &Call<'_>, x: Value, scale: Value) -> One {
    let (apply, nan) = (Apply::Reciprocal, NanCode::High);
    let op = QuantizeStatic { codes: Codes::F8E4M3, apply, bound: 448.0, nan };
    Ok(call.b.composite(Composite::new(op), &[x, scale])?[0])
}

pub(super) fn static_fp8(call: &Call<'_>) -> Imported {
    if !call.is_none("group_shape")? {
        return Err(call.refused("group_shape", "a scale per group"));
    }
    Ok(vec![fp8_codes(call, call.tensor("input")?, single(call, "scale")?)?])
}

/// The scale takes a reduction across rows, which is no part of a row's quantiser.
pub(super) fn tensor_fp8(call: &Call<'_>) -> Imported {
    let x = call.tensor("input")?;
    let largest = absmax(call, wide(call, "input")?, (0..=last_axis(call, x)?).collect())?;
    let largest = call.b.map(ScalarFn::Max, &[largest, f32(call, 0.0)?])?;
    let scale = call.b.div(largest, f32(call, 448.0)?)?;
    Ok(vec![fp8_codes(call, x, scale)?, shaped(call, scale, "scale")?])
}

/// Codes and scale, the scale in the shape of the argument that it overwrites.
fn dynamic(call: &Call<'_>, op: QuantizeDynamic, operands: &[Value]) -> Imported {
    let results = call.b.composite(Composite::new(op), operands)?;
    Ok(vec![results[0], shaped(call, results[1], "scale")?])
}

pub(super) fn token_fp8(call: &Call<'_>) -> Imported {
    let mut operands = vec![call.tensor("input")?];
    if !call.is_none("scale_ub")? {
        operands.push(single(call, "scale_ub")?);
    }
    let floor = least_fp8_scale();
    let op = QuantizeDynamic { floor_of: Floor::Scale, floor, nan: NanCode::High, ..QuantizeDynamic::default() };
    dynamic(call, op, &operands)
}

/// One scale per group of the last axis, applied as a product with its reciprocal; NaN gives the lower bound.
pub(super) fn group_fp8(call: &Call<'_>) -> Imported {
    let op =
        fp8_groups(call, Apply::Reciprocal, call.bool("scale_ue8m0")?, Bounds { low: "fp8_min", high: "fp8_max" })?;
    dynamic_groups(call, op, &[in_groups(call, call.tensor("input")?)?], ["output_q", "output_s"])
}

/// A zero point is an integer that is added after rounding, to a product with the reciprocal.
pub(super) fn static_int8(call: &Call<'_>) -> Imported {
    let (x, scale, bound) = (call.tensor("input")?, single(call, "scale")?, 127.0);
    if !call.is_none("azp")? {
        let azp = call.tensor("azp")?;
        let azp = call.b.reshape(azp, Vec::new()).map_err(|_| call.refused("azp", "not one element"))?;
        let op = QuantizeAffine { apply: Apply::Reciprocal, offset: Offset::AfterRounding, bound };
        return Ok(call.b.composite(Composite::new(op), &[x, scale, azp])?);
    }
    let op = QuantizeStatic { codes: Codes::I8, apply: Apply::Divide, bound, nan: NanCode::Propagate };
    Ok(call.b.composite(Composite::new(op), &[x, scale])?)
}

/// With a zero point the codes cover the range of a row. Else the factor is a division of its own, not the reciprocal of
/// the scale; a row of zeros has the factor 0.
pub(super) fn token_int8(call: &Call<'_>) -> Imported {
    if !call.is_none("azp")? {
        let op = Composite::new(QuantizeAsymmetric);
        let results = call.b.composite(op, &[call.tensor("input")?])?;
        return Ok(vec![results[0], shaped(call, results[1], "scale")?, shaped(call, results[2], "azp")?]);
    }
    let (apply, nan) = (Apply::Factor, NanCode::Skip);
    let op = QuantizeDynamic { codes: Codes::I8, bound: 127.0, apply, nan, ..QuantizeDynamic::default() };
    dynamic(call, op, &[call.tensor("input")?])
}

/// `a_scales · (b_scales · (a · b)) (+ bias)` in f32, rounded once.
pub(super) fn scaled_mm(call: &Call<'_>) -> Imported {
    let b = call.b;
    let (left, right) = (call.tensor("a")?, call.tensor("b")?);
    let product = b.prim(Prim::MatMul { transpose_b: false, out: DType::F32 }, &[left, right])?;
    let mut y = b.mul(wide(call, "a_scales")?, b.mul(wide(call, "b_scales")?, product)?)?;
    if !call.is_none("bias")? {
        y = b.add(y, wide(call, "bias")?)?;
    }
    Ok(vec![b.cast(y, b.dtype(call.tensor("out")?))?])
}

/// Causal attention of one sequence on `[tokens, heads · width]`; key heads are grouped. The width of a head is what the
/// layer's name ends in, after a colon.
pub(super) fn unified_attention(call: &Call<'_>) -> Imported {
    Ok(vec![attention(call, None, call.out()?.shape.clone())?])
}

/// The same into an argument. With a scale it is e4m3 codes of the f32 result, which is not rounded in between.
pub(super) fn unified_attention_with_output(call: &Call<'_>) -> Imported {
    if !call.is_none("output_block_scale")? {
        return Err(call.refused("output_block_scale", "a scale per block"));
    }
    let shape = call.b.ty(call.tensor("output")?).shape;
    if call.is_none("output_scale")? {
        return Ok(vec![attention(call, None, shape)?]);
    }
    let wide = attention(call, Some(DType::F32), shape)?;
    Ok(vec![fp8_codes(call, wide, single(call, "output_scale")?)?])
}

/// Causal attention in the dtype of the query or a wider one.
fn attention(call: &Call<'_>, dtype: Option<DType>, shape: Vec<Dim>) -> One {
    let b = call.b;
    let width = call.word("layer_name")?.rsplit_once(':').and_then(|(_, width)| width.parse::<i64>().ok());
    let width =
        width.filter(|&w| w > 0).ok_or_else(|| call.refused("layer_name", "it does not end in the width of a head"))?;
    let width_dim = Dim::constant(width);
    let query = b.ty(call.tensor("query")?);
    let tokens = query.shape.first().ok_or_else(|| call.refused("query", "a 0-d operand"))?;
    let heads = |name: &str| -> One {
        let x = call.tensor(name)?;
        let x = dtype.map_or(Ok(x), |to| convert(b, x, to))?;
        let count = b.ty(x).elements().exact_div(tokens).and_then(|n| n.exact_div(&width_dim));
        let shape =
            vec![tokens.clone(), count.ok_or_else(|| call.refused(name, "heads of another width"))?, width_dim.clone()];
        let by_head = b.prim(Prim::Permute { perm: vec![1, 0, 2] }, &[b.reshape(x, shape)?])?;
        let mut shape = b.ty(by_head).shape;
        shape.insert(0, Dim::constant(1));
        Ok(b.reshape(by_head, shape)?)
    };
    let sdpa = Sdpa { causal: true, wide: true, scale_bits: (1.0 / (width as f64).sqrt()).to_bits() };
    let y = b.prim(Prim::Sdpa(sdpa), &[heads("query")?, heads("key")?, heads("value")?])?;
    let by_token = b.prim(Prim::Permute { perm: vec![0, 2, 1, 3] }, &[y])?;
    Ok(b.reshape(by_token, shape)?)
}
