//! Conversions to integers and between them. Four-bit integers are carried in the low half of a byte.

use fusewright_abi::DType;
use fusewright_graph::Rounding;
use fusewright_graph::num::int_range;
use inkwell::values::InstructionOpcode;
use inkwell::{FloatPredicate, IntPredicate};

use super::cast::{Cast, non_zero, round_to_integral, widen};
use super::code::Code;
use super::ops::{bits, element, lanes, widened};
use super::round::wrapped;
use super::{Built, Value};

pub(super) fn float_to_int<'c>(code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    let x = widen(code, x, cast.from)?;
    if cast.to == DType::Bool {
        return non_zero(code, x);
    }
    let width = cast.to.bits().max(8);
    // The conversion itself drops the fraction.
    let whole = match cast.round {
        Rounding::TowardZero if cast.saturate || cast.bounded => x,
        round => round_to_integral(code, x, round)?,
    };
    if cast.saturate {
        let value = saturated(code, whole, width, cast.to.is_signed_int())?;
        return clamp_nibble(code, value, cast.to);
    }
    let word = if cast.bounded && width <= 32 {
        bounded(code, whole)?
    } else if width > 32 || cast.from == DType::F64 {
        wrapped(code, whole)?
    } else {
        // From 2^63 on an f32 is a multiple of 2^40, so its low 32 bits are zero.
        let magnitude = code.same("llvm.fabs", &[whole])?;
        let fits = code.fcmp(FloatPredicate::OLT, magnitude, code.float(whole, 2f64.powi(63)))?;
        let word = saturated(code, whole, 64, true)?;
        code.select(fits, word, code.int(word, 0))?
    };
    mask_nibble(code, code.extend(word, width, false)?, cast.to)
}

/// A float far inside the range of 32 bits, or NaN, which gives 0, without its fraction.
fn bounded<'c>(code: &Code<'c>, x: Value<'c>) -> Built<Value<'c>> {
    if lanes(x) == 1 {
        return saturated(code, x, 32, true);
    }
    let is_number = code.fcmp(FloatPredicate::ORD, x, x)?;
    to_int(code, code.select(is_number, x, code.float(x, 0.0))?, 32, true)
}

/// A float in range as an integer of so many bits.
fn to_int<'c>(code: &Code<'c>, x: Value<'c>, width: u32, signed: bool) -> Built<Value<'c>> {
    let op = if signed { InstructionOpcode::FPToSI } else { InstructionOpcode::FPToUI };
    let to = widened(code.int_type(width).into(), lanes(x));
    Ok(code.b.build_cast(op, x, to, "")?)
}

/// As [`saturated`], for vectors: code generators take the intrinsics for vectors apart into single lanes.
fn saturated_lanes<'c>(code: &Code<'c>, x: Value<'c>, width: u32, signed: bool) -> Built<Value<'c>> {
    let places = if signed { width - 1 } else { width };
    let (least, beyond) = (if signed { -2f64.powi(places as i32) } else { 0.0 }, 2f64.powi(places as i32));
    let above_least = code.fcmp(FloatPredicate::OGT, x, code.float(x, least))?;
    let is_beyond = code.fcmp(FloatPredicate::OGE, x, code.float(x, beyond))?;
    let is_least = code.fcmp(FloatPredicate::OLE, x, code.float(x, least))?;
    let inside = code.and(above_least, code.not(is_beyond)?)?;
    let word = width.max(32);
    let whole = to_int(code, code.select(inside, x, code.float(x, 0.0))?, word, signed)?;
    let whole = code.extend(whole, width, signed)?;
    let (low, high) = match signed {
        true => (-1i64 << (width - 1), ((1u64 << (width - 1)) - 1) as i64),
        false => (0, -1),
    };
    let whole = code.select(is_least, code.int(whole, low), whole)?;
    code.select(is_beyond, code.int(whole, high), whole)
}

/// A float without its fraction as an integer of so many bits, the nearest of them beyond their range; NaN gives 0.
fn saturated<'c>(code: &Code<'c>, whole: Value<'c>, width: u32, signed: bool) -> Built<Value<'c>> {
    if lanes(whole) > 1 {
        return saturated_lanes(code, whole, width, signed);
    }
    let name = if signed { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
    let to = code.int_type(width).into();
    code.call(name, &[to, whole.get_type()], &[whole])
}

/// The low four bits, of a four-bit integer.
pub(in crate::backend) fn mask_nibble<'c>(code: &Code<'c>, x: Value<'c>, dtype: DType) -> Built<Value<'c>> {
    if dtype.bits() == 4 { code.masked(x, 15) } else { Ok(x) }
}

fn clamp_nibble<'c>(code: &Code<'c>, x: Value<'c>, dtype: DType) -> Built<Value<'c>> {
    let bounded = match dtype {
        DType::I4 => {
            let low = code.same("llvm.smax", &[x, code.int(x, -8)])?;
            code.same("llvm.smin", &[low, code.int(x, 7)])?
        }
        DType::U4 => code.same("llvm.umin", &[x, code.int(x, 15)])?,
        _ => return Ok(x),
    };
    mask_nibble(code, bounded, dtype)
}

/// An integer or boolean element as an LLVM integer of its own or the next supported width.
pub(in crate::backend) fn int_value<'c>(code: &Code<'c>, x: Value<'c>, from: DType) -> Built<Value<'c>> {
    match from {
        DType::Bool => code.extend(x, 32, false),
        DType::I4 => code.sar(code.shl(x, 4)?, 4),
        _ => Ok(x),
    }
}

pub(super) fn int_to_int<'c>(code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    let wide = int_value(code, x, cast.from)?;
    if cast.to == DType::Bool {
        return code.icmp_const(IntPredicate::NE, wide, 0);
    }
    debug_assert!(element(wide).is_int_type());
    let wide = code.extend(wide, bits(wide).max(64), cast.from.is_signed_int())?;
    let bounded = if cast.saturate { clamp_int(code, wide, cast)? } else { wide };
    mask_nibble(code, code.extend(bounded, cast.to.bits().max(8), false)?, cast.to)
}

fn clamp_int<'c>(code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    let (least, greatest) = int_range(cast.to);
    // A 64-bit operand of the other signedness is bounded on its open side first.
    if cast.from == DType::U64 {
        return code.same("llvm.umin", &[x, code.int(x, greatest as i64)]);
    }
    let low = code.same("llvm.smax", &[x, code.int(x, least as i64)])?;
    let greatest = i64::try_from(greatest).unwrap_or(i64::MAX);
    code.same("llvm.smin", &[low, code.int(x, greatest)])
}
