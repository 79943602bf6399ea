//! Ascend's quantisers to blocks of 32 lanes with a power of two each, alone and behind a norm.

use fusewright_abi::DType;

use super::super::aten::layout::expand_to;
use super::super::call::{Call, Imported, Refusal};
use super::ascend::scale;
use super::{One, last_axis, wide};
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{Composite, MxCodes, MxLeast, MxNan, MxScale, QuantizeMx, RmsNorm, RmsRounding};

/// Codes and exponents of `x`, in the dtypes and shapes that the file states for two of the results.
fn codes(call: &Call<'_>, x: Value, results: [usize; 2]) -> Result<[Value; 2], Refusal> {
    let b = call.b;
    let stated = |i: usize| call.results.get(i).ok_or("fewer results than the op has");
    if call.word("round_mode")? != "rint" {
        return Err(call.refused("round_mode", "codes that are not the nearest"));
    }
    let codes = match stated(results[0])?.dtype {
        DType::F8E4M3 => MxCodes::E4M3,
        DType::F8E5M2 => MxCodes::E5M2,
        DType::U8 => MxCodes::E2M1,
        other => return Err(format!("`dst_type`: codes in {other}").into()),
    };
    let (scale, least) = match call.int("scale_alg")? {
        0 => (MxScale::Floor, MxLeast::Zero),
        1 if codes != MxCodes::E2M1 => (MxScale::Ceil, MxLeast::Power),
        _ => return Err(call.refused("scale_alg", "a rule of scales that is not known for these codes")),
    };
    let made = b.composite(Composite::new(QuantizeMx { codes, scale, least, nan: MxNan::Block }), &[x])?;
    Ok([made[0], in_pairs(call, made[1], results[1])?])
}

/// Exponents as stated: two blocks are an axis of their own, and an odd last block has a zero beside it.
fn in_pairs(call: &Call<'_>, exponents: Value, result: usize) -> One {
    let b = call.b;
    let stated = call.results.get(result).ok_or("fewer results than the op has")?;
    let (axis, two) = (last_axis(call, exponents)?, Dim::constant(2));
    let mut exponents = b.bitcast(exponents, DType::U8)?;
    let mut shape = b.ty(exponents).shape;
    if shape[axis].exact_div(&two).is_none() {
        let mut one = shape.clone();
        one[axis] = Dim::constant(1);
        let zero = expand_to(call, b.int(DType::U8, 0)?, &one)?;
        exponents = b.cat(&[exponents, zero], axis)?;
        shape = b.ty(exponents).shape;
    }
    let pairs = shape.pop().and_then(|blocks| blocks.exact_div(&two)).ok_or("an unknown number of blocks")?;
    shape.extend([pairs, two]);
    let exponents = b.reshape(exponents, shape)?;
    match stated.dtype {
        DType::U8 => Ok(exponents),
        DType::F8E8M0 => Ok(b.bitcast(exponents, DType::F8E8M0)?),
        other => Err(format!("exponents in {other}").into()),
    }
}

pub(super) fn dynamic_mx_quant(call: &Call<'_>) -> Imported {
    let x = call.tensor("input")?;
    let rank = call.b.ty(x).rank();
    if call.axis("axis", rank)? + 1 != rank {
        return Err(call.refused("axis", "blocks along another axis than the last"));
    }
    if call.int("block_size")? != 32 {
        return Err(call.refused("block_size", "blocks of other than 32 lanes"));
    }
    for name in ["dst_type_max", "max_low_bound"] {
        if !matches!(call.scalar(name), Ok(s) if s.as_f64() == 0.0) {
            return Err(call.refused(name, "a bound of the codes"));
        }
    }
    Ok(codes(call, x, [0, 1])?.to_vec())
}

/// The norm of an f32 value with weight and optional bias in f32, rounded once to `dtype`; and its reciprocal deviation.
fn norm(call: &Call<'_>, x: Value, dtype: DType) -> Result<[Value; 2], Refusal> {
    let (b, scale) = (call.b, scale(call)?);
    let op = Composite::new(RmsNorm { scale, round: RmsRounding::Once });
    let mut y = b.composite(op, &[x, call.tensor("gamma")?])?[0];
    if !call.is_none("beta")? {
        y = b.add(y, wide(call, "beta")?)?;
    }
    Ok([b.cast(y, dtype)?, b.composite(Composite::new(scale), &[x])?[0]])
}

/// Codes, exponents and the reciprocal deviation.
pub(super) fn rms_norm_dynamic_mx_quant(call: &Call<'_>) -> Imported {
    let [y, deviation] = norm(call, wide(call, "x")?, call.b.dtype(call.tensor("x")?))?;
    let [codes, exponents] = codes(call, y, [0, 1])?;
    Ok(vec![codes, exponents, deviation])
}

/// Codes, the sum, exponents and the reciprocal deviation. The sum is normalised unrounded; the norm is rounded before
/// the blocks.
pub(super) fn add_rms_norm_dynamic_mx_quant(call: &Call<'_>) -> Imported {
    let b = call.b;
    let dtype = b.dtype(call.tensor("x1")?);
    let sum = b.add(wide(call, "x1")?, wide(call, "x2")?)?;
    let [y, deviation] = norm(call, sum, dtype)?;
    let [codes, exponents] = codes(call, y, [0, 2])?;
    Ok(vec![codes, b.cast(sum, dtype)?, exponents, deviation])
}
