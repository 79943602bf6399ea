//! Ascend's quantised product, its gate and the codes of that: `npu_dequant_swiglu_quant`.
//!
//! The op has several kernels, which round differently. This is the one that runs without groups of tokens, in the
//! plain mode of the gate and with parameters in f32; calls of the others are refused.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal};
use super::ascend::{channel, split};
use super::ascend_quant::{absent, static_codes, unwritten};
use super::{One, wide};
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{Apply, Codes, Composite, NanCode, QuantizeDynamic, Silu, SiluForm};

/// `x` in f32: of integers the sum with an integer bias, times the scale of its channel, times that of its token, plus
/// a bias of floats.
fn dequantised(call: &Call<'_>, (rank, last): (usize, usize)) -> One {
    let b = call.b;
    let x = call.tensor("x")?;
    if b.dtype(x) != DType::I32 {
        absent(
            call,
            &[
                ("weight_scale", "rows that are not sums of integers"),
                ("activation_scale", "rows that are not sums of integers"),
                ("bias", "rows that are not sums of integers"),
            ],
        )?;
        return wide(call, "x");
    }
    let bias = call.tensor_or_none("bias")?;
    let whole_bias = bias.filter(|&bias| b.dtype(bias) == DType::I32);
    let sum = match whole_bias {
        Some(bias) => {
            let lanes = b.ty(bias).elements();
            b.add(x, b.reshape(bias, vec![lanes])?)?
        }
        None => x,
    };
    let mut y = b.mul(b.cast(sum, DType::F32)?, channel(call, "weight_scale", last, rank)?)?;
    if !call.is_none("activation_scale")? {
        let mut rows = b.ty(x).shape;
        rows[last] = Dim::constant(1);
        y = b.mul(y, b.reshape(wide(call, "activation_scale")?, rows)?)?;
    }
    if bias.is_some() && whole_bias.is_none() {
        y = b.add(y, channel(call, "bias", last, rank)?)?;
    }
    Ok(y)
}

/// Refuses what another kernel of the op computes.
fn plain(call: &Call<'_>) -> Result<(), Refusal> {
    absent(call, &[("group_index", "groups of tokens"), ("activate_dim", "a gate along another axis")])?;
    for (name, usual, what) in
        [("swiglu_mode", 0, "a clamped gate"), ("round_mode", 0, "codes that are not the nearest")]
    {
        if !call.is_none(name)? && call.int(name)? != usual {
            return Err(format!("`{name}`: {what}").into());
        }
    }
    if call.out()?.dtype != DType::I8 {
        return Err(format!("`dst_type`: codes in {}", call.out()?.dtype).into());
    }
    for name in ["quant_scale", "quant_offset"] {
        if let Some(value) = call.tensor_or_none(name)?
            && call.b.dtype(value) != DType::F32
        {
            return Err(format!("`{name}` in {}: another kernel, which divides elsewhere", call.b.dtype(value)).into());
        }
    }
    Ok(())
}

/// Codes of `silu(A) · B`, where `A` is the second half unless `activate_left`: under a scale and an offset that are
/// given, or by the reciprocal of `absmax / 127`, which is then the second result.
pub(super) fn dequant_swiglu_quant(call: &Call<'_>) -> Imported {
    plain(call)?;
    let b = call.b;
    let rank = b.ty(call.tensor("x")?).rank();
    let last = rank.checked_sub(1).ok_or_else(|| call.refused("x", "a 0-d operand"))?;
    let [left, right] = split(call, ("x", dequantised(call, (rank, last))?), last)?;
    let (gate, up) = if call.bool("activate_left")? { (left, right) } else { (right, left) };
    let act = b.composite(Composite::new(Silu { form: SiluForm::Quotient }), &[gate])?[0];
    let y = b.mul(act, up)?;
    let scaled = !call.is_none("quant_scale")?;
    match call.int("quant_mode")? {
        0 if scaled && !call.is_none("quant_offset")? => {
            let (scale, offset) =
                (channel(call, "quant_scale", last, rank)?, channel(call, "quant_offset", last, rank)?);
            let apply = if b.ty(scale).rank() == 0 { Apply::Reciprocal } else { Apply::Divide };
            Ok(vec![static_codes(call, y, apply, (scale, Some(offset)))?, unwritten(call, 1)?])
        }
        1 => {
            let y = if scaled { b.mul(y, channel(call, "quant_scale", last, rank)?)? } else { y };
            token_codes(call, y)
        }
        0 => Err(call.refused("quant_mode", "no `quant_scale` with a `quant_offset`")),
        _ => Err(call.refused("quant_mode", "a mode that is not known")),
    }
}

/// Codes of a row of zeros are 0, and so is its scale.
fn token_codes(call: &Call<'_>, y: Value) -> Imported {
    let b = call.b;
    let (apply, nan) = (Apply::Reciprocal, NanCode::Skip);
    let op = QuantizeDynamic { codes: Codes::I8, bound: 127.0, apply, nan, ..QuantizeDynamic::default() };
    let results = b.composite(Composite::new(op), &[y])?;
    let mut rows = b.ty(results[1]).shape;
    rows.pop();
    Ok(vec![results[0], b.reshape(results[1], rows)?])
}
