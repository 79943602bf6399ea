//! vLLM's norms with something behind them, and those of its own intermediate form.

use fusewright_abi::DType;

use super::super::aten::layout::cut;
use super::super::aten::promote::convert;
use super::super::call::{Call, Imported, Refusal};
use super::groups::{dynamic_groups, in_groups, least_fp8_scale};
use super::vllm::{fp8_codes, norm, shaped, single};
use super::{One, last_axis, wide};
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{
    Apply, Codes, Composite, Floor, NanCode, Pairs, QuantizeDynamic, RmsNorm, RmsRounding, RmsScale, RopeHalfTable,
};
use crate::prim::Prim;

fn eps(call: &Call<'_>) -> Result<f64, Refusal> {
    Ok(f64::from(call.scalar("epsilon")?.as_f64() as f32))
}

/// The norm is rounded, then quantised.
pub(super) fn static_fp8(call: &Call<'_>) -> Imported {
    let y = norm(call, call.tensor("input")?)?;
    Ok(vec![fp8_codes(call, y, single(call, "scale")?)?])
}

/// The norm of the rounded sum, quantised, and that sum.
pub(super) fn add_static_fp8(call: &Call<'_>) -> Imported {
    let sum = call.b.add(call.tensor("input")?, call.tensor("residual")?)?;
    let y = norm(call, sum)?;
    Ok(vec![fp8_codes(call, y, single(call, "scale")?)?, sum])
}

/// The norm of a row plus, where there is one, a residual, rounded before and after the weight; and the rounded sum. The
/// sum is normalised before it is rounded.
fn rounded_twice(call: &Call<'_>) -> Result<(Value, Option<Value>), Refusal> {
    let (b, input, weight) = (call.b, call.tensor("input")?, call.tensor("weight")?);
    if b.dtype(weight) != b.dtype(input) {
        return Err(call.refused("weight", "another dtype than the rows"));
    }
    let op = Composite::new(RmsNorm::new(eps(call)?, RmsRounding::BeforeWeight));
    if call.is_none("residual")? {
        return Ok((b.composite(op, &[input, weight])?[0], None));
    }
    let sum = b.add(wide(call, "input")?, wide(call, "residual")?)?;
    Ok((b.composite(op, &[sum, weight])?[0], Some(b.cast(sum, b.dtype(input))?)))
}

/// Codes of e4m3 by division, or of int8 by a product with the reciprocal.
pub(super) fn dynamic_per_token(call: &Call<'_>) -> Imported {
    let (y, sum) = rounded_twice(call)?;
    let fp8 = QuantizeDynamic {
        floor_of: Floor::Scale,
        floor: least_fp8_scale(),
        nan: NanCode::High,
        ..QuantizeDynamic::default()
    };
    let op = match call.b.dtype(call.tensor("result")?) {
        DType::F8E4M3 => fp8,
        DType::I8 => QuantizeDynamic {
            codes: Codes::I8,
            bound: 127.0,
            floor: f64::from(f32::EPSILON),
            apply: Apply::Reciprocal,
            nan: NanCode::Skip,
            ..fp8
        },
        _ => return Err(call.refused("result", "codes other than e4m3 and int8")),
    };
    let mut operands = vec![y];
    if !call.is_none("scale_ub")? {
        operands.push(single(call, "scale_ub")?);
    }
    let results = call.b.composite(Composite::new(op), &operands)?;
    let scale = shaped(call, results[1], "scale")?;
    Ok([results[0], scale].into_iter().chain(sum).collect())
}

/// Codes of e4m3 by a product with the reciprocal of a group's scale; `scale_ub` bounds the group's largest magnitude.
pub(super) fn per_block(call: &Call<'_>) -> Imported {
    if call.b.dtype(call.tensor("result")?) != DType::F8E4M3 {
        return Err(call.refused("result", "codes other than e4m3"));
    }
    let (y, sum) = rounded_twice(call)?;
    let op = QuantizeDynamic {
        floor_of: Floor::Scale,
        floor: least_fp8_scale(),
        apply: Apply::Reciprocal,
        nan: NanCode::High,
        ..QuantizeDynamic::default()
    };
    let mut operands = vec![in_groups(call, y)?];
    if !call.is_none("scale_ub")? {
        operands.push(single(call, "scale_ub")?);
    }
    let mut results = dynamic_groups(call, op, &operands, ["result", "scale"])?;
    results.extend(sum);
    Ok(results)
}

/// The norm of vLLM's intermediate form: rounded to the dtype of the weight, multiplied, and rounded to `dtype`. With
/// `variance_size` the mean is of the first lanes only.
fn native(call: &Call<'_>, x: Value, dtype: DType) -> One {
    let b = call.b;
    let scale = RmsScale::new(eps(call)?);
    let weight = call.tensor_or_none("weight")?;
    let y = match call.scalar_or_none("variance_size")? {
        None => {
            let round = if weight.is_some() { RmsRounding::BeforeWeight } else { RmsRounding::Once };
            let operands: Vec<Value> = [x].into_iter().chain(weight).collect();
            b.composite(Composite::new(RmsNorm { scale, round }), &operands)?[0]
        }
        Some(_) => {
            let part = [Dim::constant(0), call.dim("variance_size")?];
            let part = cut(call, x, last_axis(call, x)?, part, 1)?;
            let normal = b.mul(convert(b, x, DType::F32)?, b.composite(Composite::new(scale), &[part])?[0])?;
            match weight {
                Some(weight) => b.mul(b.cast(normal, b.dtype(weight))?, weight)?,
                None => normal,
            }
        }
    };
    Ok(b.cast(y, dtype)?)
}

pub(super) fn native_norm(call: &Call<'_>) -> Imported {
    let x = call.tensor("x")?;
    Ok(vec![native(call, x, call.b.dtype(x))?])
}

/// The norm of the unrounded sum, and the rounded sum.
pub(super) fn native_add_norm(call: &Call<'_>) -> Imported {
    let (b, dtype) = (call.b, call.b.dtype(call.tensor("x")?));
    let sum = b.add(wide(call, "x")?, wide(call, "x_residual")?)?;
    Ok(vec![native(call, sum, dtype)?, b.cast(sum, dtype)?])
}

/// Norm and rotation of the query and key heads of packed rows, in f32 and rounded once; values are left as they are. The
/// norm's factor and the weight are multiplied first.
pub(super) fn qk_norm_rope(call: &Call<'_>) -> Imported {
    let b = call.b;
    let qkv = call.tensor("qkv")?;
    let ty = b.ty(qkv);
    let [tokens, _] = ty.shape.as_slice() else { return Err(call.refused("qkv", "other than two axes")) };
    let width = Dim::constant(call.int("head_dim")?);
    let positions = b.reshape(call.tensor("position_ids")?, vec![tokens.clone()])?;
    let table = b.prim(Prim::Gather { axis: 0 }, &[call.tensor("cos_sin_cache")?, positions])?;
    let table = convert(b, table, DType::F32)?;
    let turned = b.ty(table).shape[1].clone();
    let half = turned.exact_div(&Dim::constant(2)).ok_or_else(|| call.refused("cos_sin_cache", "an odd table"))?;
    let part = |from: Dim, to: Dim| -> One {
        let shape = vec![tokens.clone(), Dim::constant(1), half.clone()];
        Ok(b.reshape(cut(call, table, 1, [from, to], 1)?, shape)?)
    };
    let angles = [part(Dim::constant(0), half.clone())?, part(half.clone(), turned.clone())?];
    let pairs = if call.bool("is_neox")? { Pairs::Neox } else { Pairs::Interleaved };
    let scale = {
        let eps = f64::from(call.scalar("eps")?.as_f64() as f32);
        Composite::new(RmsScale::new(eps))
    };
    let mut start = Dim::constant(0);
    let mut parts = Vec::new();
    for (count, weight) in [("num_heads_q", "q_weight"), ("num_heads_k", "k_weight")] {
        let heads = Dim::constant(call.int(count)?);
        let end = &start + &(&heads * &width);
        let packed = cut(call, qkv, 1, [start, end.clone()], 1)?;
        let x = b.reshape(packed, vec![tokens.clone(), heads, width.clone()])?;
        let factor = b.mul(b.composite(scale.clone(), &[x])?[0], wide(call, weight)?)?;
        let normal = b.mul(convert(b, x, DType::F32)?, factor)?;
        let head = cut(call, normal, 2, [Dim::constant(0), turned.clone()], 1)?;
        let mut y = b.composite(Composite::new(RopeHalfTable { pairs }), &[head, angles[0], angles[1]])?[0];
        if turned != width {
            y = b.cat(&[y, cut(call, normal, 2, [turned.clone(), width.clone()], 1)?], 2)?;
        }
        parts.push(b.reshape(b.cast(y, ty.dtype)?, b.ty(packed).shape)?);
        start = end;
    }
    parts.push(cut(call, qkv, 1, [start, ty.shape[1].clone()], 1)?);
    Ok(vec![b.cat(&parts, 1)?])
}
