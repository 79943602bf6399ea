//! Conversions between dtypes, exact to the bit, of one element and of vectors of lanes.
//!
//! Widening is exact. Narrowing takes the target's instruction where it is the same function and an integer sequence
//! elsewhere. Where a conversion takes two steps, the first is exact or rounds to odd, so that the second alone decides.

use fusewright_abi::DType;
use fusewright_graph::Rounding;
use inkwell::{FloatPredicate, IntPredicate};

use super::code::Code;
use super::integer::{float_to_int, int_to_int, int_value};
use super::narrow::{format, narrow, narrow_by_bits};
use super::round::{folded_int, to_odd};
use super::{BuildError, Built, Value};

/// A conversion.
#[derive(Clone, Copy)]
pub(in crate::backend) struct Cast {
    pub from: DType,
    pub to: DType,
    pub round: Rounding,
    pub saturate: bool,
    /// The operand is an f32 or bf16 whose low 16 bits are clear if it is a NaN.
    pub short_nan: bool,
    /// The operand is an f32 whose low 16 bits are clear.
    pub short: bool,
    /// The operand is NaN or far inside the range of `i32`.
    pub bounded: bool,
}

impl Cast {
    pub fn new(from: DType, to: DType, round: Rounding, saturate: bool) -> Self {
        Cast { from, to, round, saturate, short_nan: false, short: false, bounded: false }
    }

    /// To the nearest even, beyond the range as the format has it.
    pub fn nearest(from: DType, to: DType) -> Self {
        Cast::new(from, to, Rounding::NearestEven, false)
    }
}

/// Emits a conversion.
pub(in crate::backend) fn cast<'c>(code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    let Cast { from, to, .. } = cast;
    if from == to && !(cast.saturate && from.is_float()) {
        return Ok(x);
    }
    match (from.is_float(), to.is_float()) {
        (true, true) => float_to_float(code, x, cast),
        (true, false) => float_to_int(code, x, cast),
        (false, true) => int_to_float(code, x, cast),
        (false, false) => int_to_int(code, x, cast),
    }
}

pub(super) fn refuse<T>(cast: Cast, why: &str) -> Built<T> {
    let Cast { from, to, round, saturate, .. } = cast;
    let saturate = if saturate { ", saturating" } else { "" };
    Err(BuildError::unsupported(format!("cast {from} to {to} ({}{saturate}): {why}", round.name())))
}

fn float_to_float<'c>(code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    let nearest = cast.round == Rounding::NearestEven;
    let wide = |x| widen(code, x, cast.from);
    let value = match (cast.from, cast.to) {
        (DType::F64, DType::F64) => x,
        (DType::F64, DType::F32) if nearest => code.float_width(x, code.ctx.f32_type())?,
        (DType::F64, DType::F32) => return refuse(cast, "no such rounding"),
        (DType::F64, _) => return narrow(code, to_odd(code, x)?, cast),
        (_, DType::F64) => code.float_width(wide(x)?, code.ctx.f64_type())?,
        (_, DType::F32) => wide(x)?,
        _ => return narrow(code, wide(x)?, cast),
    };
    if cast.saturate { finite(code, value) } else { Ok(value) }
}

/// Infinities as the largest finite value, of an `f32` or `f64`.
fn finite<'c>(code: &Code<'c>, x: Value<'c>) -> Built<Value<'c>> {
    let word = code.bits_of(x)?;
    let (mask, infinity) = match super::ops::bits(x) {
        64 => (i64::MAX, 0x7ff0_0000_0000_0000),
        _ => (0x7fff_ffff, 0x7f80_0000),
    };
    let magnitude = code.masked(word, mask)?;
    let infinite = code.icmp_const(IntPredicate::EQ, magnitude, infinity)?;
    // One below the infinity of either sign is the largest finite value.
    let below = code.isub(word, code.extend(infinite, super::ops::bits(x), false)?)?;
    code.float_of(below)
}

/// The exact f32 of a narrow float; wider floats unchanged.
pub(in crate::backend) fn widen<'c>(code: &Code<'c>, x: Value<'c>, from: DType) -> Built<Value<'c>> {
    if let Some(wide) = code.dialect.widen(code, x, Cast::nearest(from, DType::F32))? {
        return Ok(wide);
    }
    match from {
        DType::F32 | DType::F64 => Ok(x),
        DType::BF16 => code.float_of(code.shl(code.extend(x, 32, false)?, 16)?),
        DType::F16 => {
            let half = code.bits(x, code.ctx.f16_type())?;
            code.float_width(half, code.ctx.f32_type())
        }
        DType::F8E5M2 => {
            let half = code.shl(code.extend(x, 16, false)?, 8)?;
            widen(code, half, DType::F16)
        }
        DType::F8E8M0 => widen_e8m0(code, x),
        DType::F8E4M3 | DType::F4E2M1 => widen_small(code, x, from),
        _ => Err(BuildError::unsupported(format!("{from} has no exact f32"))),
    }
}

/// Shifts the code into f32's place and scales by the difference of the biases, which is exact, subnormals included.
fn widen_small<'c>(code: &Code<'c>, x: Value<'c>, from: DType) -> Built<Value<'c>> {
    let Some(f) = format(from) else { return Err(BuildError::unsupported(format!("{from} has no exact f32"))) };
    let word = code.extend(x, 32, false)?;
    let magnitude = code.masked(word, (1 << (f.bits - 1)) - 1)?;
    let placed = code.float_of(code.shl(magnitude, i64::from(23 - f.mantissa))?)?;
    let scale = code.float(placed, f64::from(f32::from_bits(((254 - f.bias) as u32) << 23)));
    let scaled = code.bits_of(code.fmul(placed, scale)?)?;
    let sign = code.shl(word, i64::from(32 - f.bits))?;
    let sign = code.masked(sign, i64::from(i32::MIN))?;
    let value = code.or(scaled, sign)?;
    if from == DType::F4E2M1 {
        return code.float_of(value);
    }
    let is_nan = code.icmp_const(IntPredicate::EQ, magnitude, f.nan)?;
    let value = code.select(is_nan, code.int(value, 0x7fc0_0000), value)?;
    code.float_of(value)
}

fn widen_e8m0<'c>(code: &Code<'c>, x: Value<'c>) -> Built<Value<'c>> {
    let word = code.extend(x, 32, false)?;
    let normal = code.shl(word, 23)?;
    let is_zero = code.icmp_const(IntPredicate::EQ, word, 0)?;
    let is_nan = code.icmp_const(IntPredicate::EQ, word, 255)?;
    let value = code.select(is_zero, code.int(word, 0x0040_0000), normal)?;
    let value = code.select(is_nan, code.int(word, 0x7fc0_0000), value)?;
    code.float_of(value)
}

fn int_to_float<'c>(code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    let wide = int_value(code, x, cast.from)?;
    let signed = cast.from.is_signed_int();
    let exact = cast.from.bits() <= 16 || (cast.to == DType::F64 && cast.from.bits() <= 32);
    let direct = matches!(cast.to, DType::F32 | DType::F64);
    if !exact && !direct {
        return narrow(code, folded_int(code, wide, signed)?, cast);
    }
    if !exact && cast.round != Rounding::NearestEven {
        return refuse(cast, "no such rounding");
    }
    let ty = if cast.to == DType::F64 { code.ctx.f64_type() } else { code.ctx.f32_type() };
    let value = code.int_to_float(wide, signed, ty)?;
    if direct { Ok(value) } else { narrow(code, value, cast) }
}

/// Rounds a float to an integral float.
pub(in crate::backend) fn round_to_integral<'c>(code: &Code<'c>, x: Value<'c>, round: Rounding) -> Built<Value<'c>> {
    let name = match round {
        Rounding::NearestEven => "llvm.roundeven",
        Rounding::TowardZero => "llvm.trunc",
        Rounding::Down => "llvm.floor",
        Rounding::Up => "llvm.ceil",
        Rounding::HalfAway => "llvm.round",
    };
    code.same(name, &[x])
}

/// Whether a float is not zero.
pub(super) fn non_zero<'c>(code: &Code<'c>, x: Value<'c>) -> Built<Value<'c>> {
    code.fcmp(FloatPredicate::UNE, x, code.float(x, 0.0))
}

/// A constant in the form that values of its dtype are computed in.
pub(in crate::backend) fn literal<'c>(code: &Code<'c>, literal: &fusewright_graph::Literal) -> Built<Value<'c>> {
    use fusewright_graph::Literal;
    let float = |v: f64| code.ctx.f32_type().const_float(v).into();
    match *literal {
        Literal::Float(DType::F64, v) => Ok(code.ctx.f64_type().const_float(v).into()),
        // Through f64 every f32 is exact, NaN aside, which LLVM keeps as a quiet NaN.
        Literal::Float(DType::F32, v) => Ok(float(f64::from(v as f32))),
        Literal::Float(DType::F8E8M0, v) => {
            let code_of = if v.is_nan() { 255 } else { ((v as f32).to_bits() >> 23) & 0xff };
            Ok(code.int_type(8).const_int(u64::from(code_of), false).into())
        }
        Literal::Float(to, v) => narrow_by_bits(code, float(f64::from(v as f32)), Cast::nearest(DType::F32, to)),
        Literal::Int(DType::Bool, v) => Ok(code.bool(v != 0).into()),
        Literal::Int(DType::I4 | DType::U4, v) => Ok(code.int_type(8).const_int((v & 15) as u64, false).into()),
        Literal::Int(dtype, v) => Ok(code.int_type(dtype.bits()).const_int(v as u64, true).into()),
    }
}
