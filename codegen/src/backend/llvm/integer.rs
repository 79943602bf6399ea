//! Conversions to integers and between them. Four-bit integers are carried in the low half of a byte.

use fusewright_abi::DType;
use fusewright_graph::num::int_range;
use inkwell::{FloatPredicate, IntPredicate};

use super::cast::{Cast, non_zero, round_to_integral, widen};
use super::code::Code;
use super::ops::{bits, element};
use super::round::wrapped;
use super::{Built, Value};

pub(super) fn float_to_int<'c>(code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    let x = widen(code, x, cast.from)?;
    if cast.to == DType::Bool {
        return non_zero(code, x);
    }
    let whole = round_to_integral(code, x, cast.round)?;
    let width = cast.to.bits().max(8);
    if cast.saturate {
        let value = saturated(code, whole, width, cast.to.is_signed_int())?;
        return clamp_nibble(code, value, cast.to);
    }
    let word = if cast.bounded && width <= 32 {
        saturated(code, whole, 32, true)?
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

/// An integral float as an integer of so many bits, the nearest of them beyond their range; NaN gives 0.
fn saturated<'c>(code: &Code<'c>, whole: Value<'c>, width: u32, signed: bool) -> Built<Value<'c>> {
    let name = if signed { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
    let to = super::ops::widened(code.int_type(width).into(), super::ops::lanes(whole));
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
