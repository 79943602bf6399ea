//! Conversions between dtypes, exact to the bit.
//!
//! Widening is exact. Narrowing takes the target's instruction where it is the same function and an integer sequence
//! elsewhere. What would need two roundings (f64 to a 16-bit float) is refused, not approximated.

use fusewright_abi::DType;
use fusewright_graph::Rounding;
use inkwell::values::{FloatValue, IntValue};
use inkwell::{FloatPredicate, IntPredicate};

use super::arch::Arch;
use super::code::{Built, Code, Value};
use crate::backend::cuda::EmitError;

/// A conversion.
#[derive(Clone, Copy)]
pub(super) struct Cast {
    pub from: DType,
    pub to: DType,
    pub round: Rounding,
    pub saturate: bool,
}

/// Layout of a narrow float whose sign is its top bit.
struct Format {
    bits: u32,
    mantissa: u32,
    bias: i64,
    /// Largest finite code.
    max: i64,
    /// What overflow gives without saturation: infinity, or NaN where there is none.
    overflow: i64,
    nan: i64,
}

fn format(dtype: DType) -> Option<Format> {
    let f = |bits, mantissa, bias, max, overflow, nan| Some(Format { bits, mantissa, bias, max, overflow, nan });
    match dtype {
        DType::BF16 => f(16, 7, 127, 0x7f7f, 0x7f80, 0x7fc0),
        DType::F16 => f(16, 10, 15, 0x7bff, 0x7c00, 0x7e00),
        DType::F8E4M3 => f(8, 3, 7, 0x7e, 0x7f, 0x7f),
        DType::F8E5M2 => f(8, 2, 15, 0x7b, 0x7c, 0x7f),
        DType::F4E2M1 => f(4, 1, 1, 7, 7, 7),
        _ => None,
    }
}

/// Emits a conversion of one element.
pub(super) fn cast<'c>(code: &Code<'c>, arch: Arch, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    let Cast { from, to, .. } = cast;
    if from == to && !(cast.saturate && from.is_float()) {
        return Ok(x);
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => float_to_float(code, arch, x, cast),
        (true, false) => float_to_int(code, x, cast),
        (false, true) => int_to_float(code, arch, x.into_int_value(), cast),
        (false, false) => int_to_int(code, x.into_int_value(), cast).map(Into::into),
    }
}

fn refuse<T>(cast: Cast, why: &str) -> Built<T> {
    let Cast { from, to, round, saturate } = cast;
    let saturate = if saturate { ", saturating" } else { "" };
    Err(EmitError::unsupported(format!("cast {from} to {to} ({}{saturate}): {why}", round.name())))
}

fn float_to_float<'c>(code: &Code<'c>, arch: Arch, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    match (cast.from, cast.to) {
        (DType::F64, DType::F32) if cast.round == Rounding::NearestEven && !cast.saturate => {
            Ok(code.b.build_float_trunc(x.into_float_value(), code.ctx.f32_type(), "")?.into())
        }
        (DType::F64, _) => refuse(cast, "not one instruction, and through f32 it would round twice"),
        (_, DType::F64) if cast.saturate => refuse(cast, "saturation where nothing overflows"),
        (_, DType::F64) => {
            let wide = widen(code, x, cast.from)?;
            Ok(code.b.build_float_ext(wide, code.ctx.f64_type(), "")?.into())
        }
        (_, DType::F32) if cast.saturate => finite(code, widen(code, x, cast.from)?).map(Into::into),
        (_, DType::F32) => widen(code, x, cast.from).map(Into::into),
        _ => {
            let wide = widen(code, x, cast.from)?;
            narrow(code, arch, wide, cast).map(Into::into)
        }
    }
}

/// Infinities as the largest finite value.
fn finite<'c>(code: &Code<'c>, x: FloatValue<'c>) -> Built<FloatValue<'c>> {
    let bits = code.f32_bits(x)?;
    let magnitude = code.b.build_and(bits, code.i32(0x7fff_ffff), "")?;
    let infinite = code.cmp(IntPredicate::EQ, magnitude, code.i32(0x7f80_0000))?;
    // One below the infinity of either sign is the largest finite value.
    let below = code.b.build_int_sub(bits, code.resize(infinite, 32)?, "")?;
    code.bits_f32(below)
}

/// The exact f32 of a narrow float; f32 itself unchanged.
pub(super) fn widen<'c>(code: &Code<'c>, x: Value<'c>, from: DType) -> Built<FloatValue<'c>> {
    match from {
        DType::F32 => Ok(x.into_float_value()),
        DType::BF16 => {
            let word = code.resize(x.into_int_value(), 32)?;
            code.bits_f32(code.b.build_left_shift(word, code.i32(16), "")?)
        }
        DType::F16 => {
            let half = code.bits(x, code.ctx.f16_type())?.into_float_value();
            Ok(code.b.build_float_ext(half, code.ctx.f32_type(), "")?)
        }
        DType::F8E5M2 => {
            let word = code.resize(x.into_int_value(), 16)?;
            let half = code.b.build_left_shift(word, code.int_type(16).const_int(8, false), "")?;
            widen(code, half.into(), DType::F16)
        }
        DType::F8E8M0 => widen_e8m0(code, x.into_int_value()),
        DType::F8E4M3 | DType::F4E2M1 => widen_small(code, x.into_int_value(), from),
        _ => Err(EmitError::unsupported(format!("{from} has no exact f32"))),
    }
}

/// Shifts the code into f32's place and scales by the difference of the biases, which is exact, subnormals included.
fn widen_small<'c>(code: &Code<'c>, x: IntValue<'c>, from: DType) -> Built<FloatValue<'c>> {
    let Some(f) = format(from) else { return Err(EmitError::unsupported(format!("{from} has no exact f32"))) };
    let word = code.resize(x, 32)?;
    let magnitude = code.b.build_and(word, code.i32((1 << (f.bits - 1)) - 1), "")?;
    let placed = code.b.build_left_shift(magnitude, code.i32(i64::from(23 - f.mantissa)), "")?;
    let scale = code.f32(f32::from_bits(((254 - f.bias) as u32) << 23));
    let scaled = code.f32_bits(code.b.build_float_mul(code.bits_f32(placed)?, scale, "")?)?;
    let sign = code.b.build_left_shift(word, code.i32(i64::from(32 - f.bits)), "")?;
    let sign = code.b.build_and(sign, code.i32(i64::from(i32::MIN)), "")?;
    let value = code.b.build_or(scaled, sign, "")?;
    if from == DType::F4E2M1 {
        return code.bits_f32(value);
    }
    let is_nan = code.cmp(IntPredicate::EQ, magnitude, code.i32(f.nan))?;
    let value = code.select(is_nan, code.i32(0x7fc0_0000), value)?;
    code.bits_f32(value.into_int_value())
}

fn widen_e8m0<'c>(code: &Code<'c>, x: IntValue<'c>) -> Built<FloatValue<'c>> {
    let word = code.resize(x, 32)?;
    let normal = code.b.build_left_shift(word, code.i32(23), "")?;
    let is_zero = code.cmp(IntPredicate::EQ, word, code.i32(0))?;
    let is_nan = code.cmp(IntPredicate::EQ, word, code.i32(255))?;
    let value = code.select(is_zero, code.i32(0x0040_0000), normal)?;
    let value = code.select(is_nan, code.i32(0x7fc0_0000), value)?;
    code.bits_f32(value.into_int_value())
}

fn narrow<'c>(code: &Code<'c>, arch: Arch, x: FloatValue<'c>, cast: Cast) -> Built<IntValue<'c>> {
    let nearest = cast.round == Rounding::NearestEven;
    let packed = |name: &str| -> Built<IntValue<'c>> {
        let pair = code.call(name, &[], &[code.f32(0.0).into(), x.into()])?.into_int_value();
        code.resize(pair, 8)
    };
    match cast.to {
        DType::BF16 if nearest && !cast.saturate => {
            let value = code.call("llvm.nvvm.f2bf16.rn", &[], &[x.into()])?;
            Ok(code.bits(value, code.int_type(16))?.into_int_value())
        }
        DType::F16 if nearest && !cast.saturate => {
            let half = code.b.build_float_trunc(x, code.ctx.f16_type(), "")?;
            Ok(code.bits(half, code.int_type(16))?.into_int_value())
        }
        DType::F8E4M3 if nearest && cast.saturate && arch.fp8_convert => packed("llvm.nvvm.ff.to.e4m3x2.rn"),
        DType::F8E5M2 if nearest && cast.saturate && arch.fp8_convert => packed("llvm.nvvm.ff.to.e5m2x2.rn"),
        DType::F8E8M0 => narrow_e8m0(code, x, cast),
        _ => narrow_by_bits(code, x, cast),
    }
}

/// Rounds the magnitude's bits to the format; a carry runs into the exponent as it should.
pub(super) fn narrow_by_bits<'c>(code: &Code<'c>, x: FloatValue<'c>, cast: Cast) -> Built<IntValue<'c>> {
    let Some(f) = format(cast.to) else { return refuse(cast, "no such conversion") };
    let bits = code.f32_bits(x)?;
    let a = code.b.build_and(bits, code.i32(0x7fff_ffff), "")?;
    let negative = code.cmp(IntPredicate::SLT, bits, code.i32(0))?;
    let shift = i64::from(23 - f.mantissa);
    let rounded = code.add(a, increment(code, a, negative, shift, cast.round)?)?;
    let kept = code.b.build_right_shift(rounded, code.i32(shift), false, "")?;
    let normal = code.b.build_int_sub(kept, code.i32((127 - f.bias) << f.mantissa), "")?;
    let mut magnitude = normal;
    if f.bias < 127 {
        let small = code.cmp(IntPredicate::ULT, a, code.i32((128 - f.bias) << 23))?;
        let steps = subnormal_steps(code, a, negative, &f, cast.round)?;
        magnitude = code.select(small, steps, normal)?.into_int_value();
    }
    let over = code.cmp(IntPredicate::SGT, magnitude, code.i32(f.max))?;
    let limit = if cast.saturate { f.max } else { f.overflow };
    let magnitude = code.select(over, code.i32(limit), magnitude)?.into_int_value();
    let sign = code.b.build_right_shift(bits, code.i32(i64::from(32 - f.bits)), false, "")?;
    let sign = code.b.build_and(sign, code.i32(1 << (f.bits - 1)), "")?;
    let value = code.b.build_or(magnitude, sign, "")?;
    let is_nan = code.cmp(IntPredicate::UGT, a, code.i32(0x7f80_0000))?;
    let value = code.select(is_nan, code.i32(f.nan), value)?.into_int_value();
    code.resize(value, f.bits.max(8))
}

/// What to add to a magnitude before its low `shift` bits are cut off.
fn increment<'c>(
    code: &Code<'c>,
    a: IntValue<'c>,
    negative: IntValue<'c>,
    shift: i64,
    round: Rounding,
) -> Built<IntValue<'c>> {
    let (half, mask) = (1 << (shift - 1), (1i64 << shift) - 1);
    let away =
        |up: bool| code.select(negative, code.i32(if up { 0 } else { mask }), code.i32(if up { mask } else { 0 }));
    Ok(match round {
        Rounding::TowardZero => code.i32(0),
        Rounding::HalfAway => code.i32(half),
        Rounding::Up => away(true)?.into_int_value(),
        Rounding::Down => away(false)?.into_int_value(),
        Rounding::NearestEven => {
            let odd = code.b.build_right_shift(a, code.i32(shift), false, "")?;
            let odd = code.b.build_and(odd, code.i32(1), "")?;
            code.add(odd, code.i32(half - 1))?
        }
    })
}

/// The code of a magnitude below the least normal: how many of the least subnormal it is.
fn subnormal_steps<'c>(
    code: &Code<'c>,
    a: IntValue<'c>,
    negative: IntValue<'c>,
    f: &Format,
    round: Rounding,
) -> Built<IntValue<'c>> {
    let scale = code.f32(2f32.powi((f.bias - 1) as i32 + f.mantissa as i32));
    // Directed rounding looks at the signed value; the sign is dropped again below.
    let magnitude = code.b.build_float_mul(code.bits_f32(a)?, scale, "")?;
    let flipped = code.b.build_float_neg(magnitude, "")?;
    let signed = code.select(negative, flipped, magnitude)?.into_float_value();
    let whole = round_to_integral(code, signed, round)?;
    let steps = code.b.build_float_to_signed_int(whole, code.ctx.i32_type(), "")?;
    let flipped = code.b.build_int_neg(steps, "")?;
    Ok(code.select(negative, flipped, steps)?.into_int_value())
}

/// Powers of two: nearest with ties up, except that everything between the two least goes to the larger.
fn narrow_e8m0<'c>(code: &Code<'c>, x: FloatValue<'c>, cast: Cast) -> Built<IntValue<'c>> {
    let a = code.b.build_and(code.f32_bits(x)?, code.i32(0x7fff_ffff), "")?;
    let added = match cast.round {
        Rounding::NearestEven | Rounding::HalfAway => 0x40_0000,
        Rounding::Up => 0x7f_ffff,
        Rounding::TowardZero | Rounding::Down => 0,
    };
    let exponent = code.b.build_right_shift(code.add(a, code.i32(added))?, code.i32(23), false, "")?;
    let least = code.cmp(IntPredicate::ULE, a, code.i32(0x40_0000))?;
    let value = code.select(least, code.i32(0), exponent)?.into_int_value();
    let over = code.cmp(IntPredicate::UGT, value, code.i32(254))?;
    let value = code.select(over, code.i32(if cast.saturate { 254 } else { 255 }), value)?.into_int_value();
    let is_nan = code.cmp(IntPredicate::UGT, a, code.i32(0x7f80_0000))?;
    let value = code.select(is_nan, code.i32(255), value)?.into_int_value();
    code.resize(value, 8)
}

/// Rounds a float to an integral float.
pub(super) fn round_to_integral<'c>(code: &Code<'c>, x: FloatValue<'c>, round: Rounding) -> Built<FloatValue<'c>> {
    let name = match round {
        Rounding::NearestEven => "llvm.roundeven",
        Rounding::TowardZero => "llvm.trunc",
        Rounding::Down => "llvm.floor",
        Rounding::Up => "llvm.ceil",
        Rounding::HalfAway => "llvm.round",
    };
    Ok(code.call(name, &[x.get_type().into()], &[x.into()])?.into_float_value())
}

fn float_to_int<'c>(code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    let x = if cast.from == DType::F64 { x.into_float_value() } else { widen(code, x, cast.from)? };
    let float = x.get_type();
    if cast.to == DType::Bool {
        return Ok(code.fcmp(FloatPredicate::UNE, x, float.const_zero())?.into());
    }
    let whole = round_to_integral(code, x, cast.round)?;
    let bits = cast.to.bits();
    if cast.saturate {
        let name = if cast.to.is_signed_int() { "llvm.fptosi.sat" } else { "llvm.fptoui.sat" };
        let wide = code.int_type(if bits < 8 { 8 } else { bits });
        let value = code.call(name, &[wide.into(), float.into()], &[whole.into()])?.into_int_value();
        return Ok(clamp_nibble(code, value, cast.to)?.into());
    }
    if bits > 32 || cast.from == DType::F64 {
        return refuse(cast, "wrapping needs more than 64 bits");
    }
    // From 2^63 on an f32 is a multiple of 2^40, so its low 32 bits are zero.
    let magnitude = code.call("llvm.fabs", &[float.into()], &[whole.into()])?.into_float_value();
    let fits = code.fcmp(FloatPredicate::OLT, magnitude, float.const_float(2f64.powi(63)))?;
    let word = code.call("llvm.fptosi.sat", &[code.ctx.i64_type().into(), float.into()], &[whole.into()])?;
    let word = code.select(fits, word, code.i64(0))?.into_int_value();
    let word = code.resize(word, bits.max(8))?;
    Ok(mask_nibble(code, word, cast.to)?.into())
}

/// Four-bit integers are carried in the low half of a byte.
fn mask_nibble<'c>(code: &Code<'c>, x: IntValue<'c>, dtype: DType) -> Built<IntValue<'c>> {
    if dtype.bits() != 4 {
        return Ok(x);
    }
    Ok(code.b.build_and(x, code.int_type(8).const_int(15, false), "")?)
}

fn clamp_nibble<'c>(code: &Code<'c>, x: IntValue<'c>, dtype: DType) -> Built<IntValue<'c>> {
    let byte = code.int_type(8);
    let bounded = match dtype {
        DType::I4 => {
            let low = [x.into(), byte.const_int((-8i64) as u64, true).into()];
            let low = code.call("llvm.smax", &[byte.into()], &low)?;
            code.call("llvm.smin", &[byte.into()], &[low, byte.const_int(7, false).into()])?
        }
        DType::U4 => code.call("llvm.umin", &[byte.into()], &[x.into(), byte.const_int(15, false).into()])?,
        _ => return Ok(x),
    };
    mask_nibble(code, bounded.into_int_value(), dtype)
}

fn int_to_float<'c>(code: &Code<'c>, arch: Arch, x: IntValue<'c>, cast: Cast) -> Built<Value<'c>> {
    let wide = int_value(code, x, cast.from)?;
    let exact = cast.from.bits() <= 16 || (cast.to == DType::F64 && cast.from.bits() <= 32);
    let direct = matches!(cast.to, DType::F32 | DType::F64);
    if !exact && (!direct || cast.round != Rounding::NearestEven) {
        return refuse(cast, "not one instruction, and through f32 it would round twice");
    }
    let ty = code.float_type(cast.to);
    let value = if signed(cast.from) {
        code.b.build_signed_int_to_float(wide, ty, "")?
    } else {
        code.b.build_unsigned_int_to_float(wide, ty, "")?
    };
    if direct { Ok(value.into()) } else { narrow(code, arch, value, cast).map(Into::into) }
}

fn signed(dtype: DType) -> bool {
    dtype.is_signed_int()
}

/// An integer or boolean element as an LLVM integer of its own or the next supported width.
fn int_value<'c>(code: &Code<'c>, x: IntValue<'c>, from: DType) -> Built<IntValue<'c>> {
    match from {
        DType::Bool => code.resize(x, 32),
        DType::I4 => {
            let four = code.int_type(8).const_int(4, false);
            let high = code.b.build_left_shift(x, four, "")?;
            Ok(code.b.build_right_shift(high, four, true, "")?)
        }
        _ => Ok(x),
    }
}

fn int_to_int<'c>(code: &Code<'c>, x: IntValue<'c>, cast: Cast) -> Built<IntValue<'c>> {
    let wide = int_value(code, x, cast.from)?;
    if cast.to == DType::Bool {
        return code.cmp(IntPredicate::NE, wide, wide.get_type().const_zero());
    }
    let wide = code.b.build_int_cast_sign_flag(wide, code.ctx.i64_type(), signed(cast.from), "")?;
    let bounded = if cast.saturate { clamp_int(code, wide, cast)? } else { wide };
    mask_nibble(code, code.resize(bounded, cast.to.bits().max(8))?, cast.to)
}

fn clamp_int<'c>(code: &Code<'c>, x: IntValue<'c>, cast: Cast) -> Built<IntValue<'c>> {
    let bits = cast.to.bits();
    let ty = [code.ctx.i64_type().into()];
    let top = if signed(cast.to) { bits - 1 } else { bits };
    let greatest = if top >= 64 { u64::MAX } else { (1u64 << top) - 1 };
    // A 64-bit operand of the other signedness is bounded on its open side first.
    if cast.from == DType::U64 {
        let bound = code.ctx.i64_type().const_int(greatest, false);
        return Ok(code.call("llvm.umin", &ty, &[x.into(), bound.into()])?.into_int_value());
    }
    let least = if signed(cast.to) { i64::MIN >> (64 - bits) } else { 0 };
    let low = code.call("llvm.smax", &ty, &[x.into(), code.i64(least).into()])?;
    let greatest = i64::try_from(greatest).unwrap_or(i64::MAX);
    Ok(code.call("llvm.smin", &ty, &[low, code.i64(greatest).into()])?.into_int_value())
}
