//! First steps of conversions in two, which leave the rounding to the second.

use inkwell::values::InstructionOpcode;
use inkwell::{FloatPredicate, IntPredicate};

use super::code::Code;
use super::ops::bits;
use super::{Built, Value};

/// `f64` to `f32` rounded to odd, so that rounding to a shorter format afterwards is right.
pub(super) fn to_odd<'c>(code: &Code<'c>, x: Value<'c>) -> Built<Value<'c>> {
    let near = code.float_width(x, code.ctx.f32_type())?;
    let back = code.float_width(near, code.ctx.f64_type())?;
    let (size, was) = (code.same("llvm.fabs", &[back])?, code.same("llvm.fabs", &[x])?);
    let beyond = code.fcmp(FloatPredicate::OGT, size, was)?;
    let word = code.bits_of(near)?;
    let truncated = code.select(beyond, code.plus(word, -1)?, word)?;
    let odd = code.or(truncated, code.int(word, 1))?;
    let inexact = code.fcmp(FloatPredicate::ONE, back, x)?;
    code.float_of(code.select(inexact, odd, word)?)
}

/// An integer of 32 or 64 bits as an f32 from which every format of at most 12 significant bits rounds as from the
/// integer itself: what does not fit is folded into a bit below all that they keep.
pub(super) fn folded_int<'c>(code: &Code<'c>, v: Value<'c>, signed: bool) -> Built<Value<'c>> {
    let wide = bits(v) == 64;
    let sign = if signed { Some(code.sar(v, if wide { 63 } else { 31 })?) } else { None };
    let apply = |v: Value<'c>| match sign {
        Some(sign) => code.isub(code.xor(v, sign)?, sign),
        None => Ok(v),
    };
    let magnitude = apply(v)?;
    let (kept, lost) = if wide { (53, 11) } else { (24, 8) };
    let large = code.icmp_const(IntPredicate::NE, code.shr(magnitude, kept)?, 0)?;
    let inexact = code.icmp_const(IntPredicate::NE, code.masked(magnitude, (1 << lost) - 1)?, 0)?;
    let sticky = code.select(inexact, code.int(v, 1 << lost), code.int(v, 0))?;
    let folded = code.or(code.masked(magnitude, !((1 << lost) - 1))?, sticky)?;
    let exact = apply(code.select(large, folded, magnitude)?)?;
    if !wide {
        return code.int_to_float(exact, signed, code.ctx.f32_type());
    }
    to_odd(code, code.int_to_float(exact, signed, code.ctx.f64_type())?)
}

/// An integral float modulo 2⁶⁴, as an `i64`; infinities and NaN give 0.
pub(super) fn wrapped<'c>(code: &Code<'c>, whole: Value<'c>) -> Built<Value<'c>> {
    let (mantissa, exponent) = if bits(whole) == 64 { (52, 11) } else { (23, 8) };
    let word = code.extend(code.bits_of(whole)?, 64, false)?;
    let top = (1i64 << exponent) - 1;
    let field = code.masked(code.shr(word, mantissa)?, top)?;
    // |whole| = fraction · 2^left; what is shifted out above bit 63 is what wrapping drops.
    let fraction = code.masked(word, (1 << mantissa) - 1)?;
    let fraction = code.or(fraction, code.int(word, 1 << mantissa))?;
    let left = code.plus(field, -((top >> 1) + mantissa))?;
    let right = code.ineg(left)?;
    let shifted = |op, by: Value<'c>| -> Built<Value<'c>> {
        let inside = code.icmp_const(IntPredicate::ULT, by, 64)?;
        let by = code.select(inside, by, code.int(by, 0))?;
        code.select(inside, code.op(op, fraction, by)?, code.int(fraction, 0))
    };
    let (up, down) = (shifted(InstructionOpcode::Shl, left)?, shifted(InstructionOpcode::LShr, right)?);
    let is_left = code.icmp_const(IntPredicate::SGE, left, 0)?;
    let magnitude = code.select(is_left, up, down)?;
    let sign = code.icmp_const(IntPredicate::NE, code.shr(word, mantissa + exponent)?, 0)?;
    let value = code.select(sign, code.ineg(magnitude)?, magnitude)?;
    let special = code.icmp_const(IntPredicate::EQ, field, top)?;
    code.select(special, code.int(value, 0), value)
}
