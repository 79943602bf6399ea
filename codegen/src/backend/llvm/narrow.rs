//! `f32` to floats of at most 16 bits.

use fusewright_abi::DType;
use fusewright_graph::Rounding;
use inkwell::IntPredicate;
use inkwell::values::InstructionOpcode;

use super::cast::{Cast, refuse, round_to_integral};
use super::code::Code;
use super::{Built, Value};

/// Layout of a narrow float whose sign is its top bit.
pub(in crate::backend) struct Format {
    pub bits: u32,
    pub mantissa: u32,
    pub bias: i64,
    /// Largest finite code.
    pub max: i64,
    /// What overflow gives without saturation: infinity, or NaN where there is none.
    pub overflow: i64,
    pub nan: i64,
}

impl Format {
    /// The bits of an `f32` that is as great as a normal code.
    pub fn widened(&self, code: i64) -> i64 {
        (code + ((127 - self.bias) << self.mantissa)) << (23 - self.mantissa)
    }
}

pub(in crate::backend) fn format(dtype: DType) -> Option<Format> {
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

pub(super) fn narrow<'c>(code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    if let Some(narrow) = code.dialect.narrow(code, x, cast)? {
        return Ok(narrow);
    }
    match cast.to {
        DType::F16 if cast.round == Rounding::NearestEven && !cast.saturate => {
            let half = code.float_width(x, code.ctx.f16_type())?;
            code.bits_of(half)
        }
        DType::F8E8M0 => narrow_e8m0(code, x, cast),
        DType::F8E4M3 | DType::F8E5M2 | DType::F4E2M1 if cast.round == Rounding::NearestEven && cast.saturate => {
            narrow_by_sum(code, x, cast)
        }
        _ => narrow_by_bits(code, x, cast),
    }
}

/// Rounds to nearest by a sum: the bound as integers, above which NaNs are as well.
fn narrow_by_sum<'c>(code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    let Some(f) = format(cast.to) else { return refuse(cast, "no such conversion") };
    let bits = code.bits_of(x)?;
    let a = code.masked(bits, 0x7fff_ffff)?;
    let bounded = code.same("llvm.umin", &[a, code.int(a, f.widened(f.max))])?;
    let normal = code.same("llvm.umax", &[bounded, code.int(a, f.widened(1 << f.mantissa))])?;
    let value = rounded_by_sum(code, &f, code.float_of(bounded)?, normal, bits)?;
    let is_nan = code.icmp_const(IntPredicate::UGT, a, 0x7f80_0000)?;
    let value = code.select(is_nan, code.int(value, f.nan), value)?;
    code.extend(value, f.bits.max(8), false)
}

/// The code of a magnitude that is at most the greatest, with the sign of `bits`: a sum with the power of two whose last bit
/// is worth as much as that of the format beside the magnitude rounds, and the low bits of the sum count those. They start
/// from what turns the exponent above them, moved to its place, into that of the code. `normal` are the bits of the
/// magnitude, or of the least normal one.
pub(in crate::backend) fn rounded_by_sum<'c>(
    code: &Code<'c>,
    f: &Format,
    magnitude: Value<'c>,
    normal: Value<'c>,
    bits: Value<'c>,
) -> Built<Value<'c>> {
    let places = i64::from(23 - f.mantissa);
    let mask = (1 << (f.bits - 1)) - 1;
    let first = -((places + 128 - f.bias) << f.mantissa) & mask;
    let power = code.masked(normal, 0x7f80_0000)?;
    let unit = code.float_of(code.plus(power, (places << 23) + first)?)?;
    let sum = code.bits_of(code.op(InstructionOpcode::FAdd, magnitude, unit)?)?;
    let count = code.masked(code.iadd(sum, code.shr(sum, places)?)?, mask)?;
    let sign = code.masked(code.shr(bits, i64::from(32 - f.bits))?, 1 << (f.bits - 1))?;
    code.or(count, sign)
}

/// Rounds the magnitude's bits to the format; a carry runs into the exponent as it should.
pub(in crate::backend) fn narrow_by_bits<'c>(code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    let Some(f) = format(cast.to) else { return refuse(cast, "no such conversion") };
    let bits = code.bits_of(x)?;
    let a = code.masked(bits, 0x7fff_ffff)?;
    let negative = code.icmp_const(IntPredicate::SLT, bits, 0)?;
    let shift = i64::from(23 - f.mantissa);
    let rounded = code.iadd(a, increment(code, a, negative, shift, cast.round)?)?;
    let kept = code.shr(rounded, shift)?;
    let normal = code.isub(kept, code.int(kept, (127 - f.bias) << f.mantissa))?;
    let mut magnitude = normal;
    if f.bias < 127 {
        let small = code.icmp_const(IntPredicate::ULT, a, (128 - f.bias) << 23)?;
        let steps = subnormal_steps(code, a, negative, &f, cast.round)?;
        magnitude = code.select(small, steps, normal)?;
    }
    let over = code.icmp_const(IntPredicate::SGT, magnitude, f.max)?;
    let limit = if cast.saturate { f.max } else { f.overflow };
    let magnitude = code.select(over, code.int(magnitude, limit), magnitude)?;
    let sign = code.shr(bits, i64::from(32 - f.bits))?;
    let sign = code.masked(sign, 1 << (f.bits - 1))?;
    let value = code.or(magnitude, sign)?;
    let mut is_nan = code.icmp_const(IntPredicate::UGT, a, 0x7f80_0000)?;
    if f.overflow == f.nan && f.nan > f.max && !cast.saturate {
        // What overflows to a NaN has no sign, as a NaN has none.
        is_nan = code.or(is_nan, over)?;
    }
    let value = code.select(is_nan, code.int(value, f.nan), value)?;
    code.extend(value, f.bits.max(8), false)
}

/// What to add to a magnitude before its low `shift` bits are cut off.
fn increment<'c>(code: &Code<'c>, a: Value<'c>, negative: Value<'c>, shift: i64, round: Rounding) -> Built<Value<'c>> {
    let (half, mask) = (1 << (shift - 1), (1i64 << shift) - 1);
    let away = |up: bool| {
        let (below, above) = if up { (0, mask) } else { (mask, 0) };
        code.select(negative, code.int(a, below), code.int(a, above))
    };
    match round {
        Rounding::TowardZero => Ok(code.int(a, 0)),
        Rounding::HalfAway => Ok(code.int(a, half)),
        Rounding::Up => away(true),
        Rounding::Down => away(false),
        Rounding::NearestEven => {
            let odd = code.masked(code.shr(a, shift)?, 1)?;
            code.plus(odd, half - 1)
        }
    }
}

/// The code of a magnitude below the least normal: how many of the least subnormal it is.
fn subnormal_steps<'c>(
    code: &Code<'c>,
    a: Value<'c>,
    negative: Value<'c>,
    f: &Format,
    round: Rounding,
) -> Built<Value<'c>> {
    let a = code.float_of(a)?;
    let scale = code.float(a, 2f64.powi((f.bias - 1) as i32 + f.mantissa as i32));
    // Directed rounding looks at the signed value; the sign is dropped again below.
    let magnitude = code.fmul(a, scale)?;
    let flipped = code.fneg(magnitude)?;
    let signed = code.select(negative, flipped, magnitude)?;
    let whole = round_to_integral(code, signed, round)?;
    let steps = code.float_to_i32(whole)?;
    let flipped = code.ineg(steps)?;
    code.select(negative, flipped, steps)
}

/// Powers of two: nearest with ties up, except that everything between the two least goes to the larger.
fn narrow_e8m0<'c>(code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Value<'c>> {
    let a = code.masked(code.bits_of(x)?, 0x7fff_ffff)?;
    let added = match cast.round {
        Rounding::NearestEven | Rounding::HalfAway => 0x40_0000,
        Rounding::Up => 0x7f_ffff,
        Rounding::TowardZero | Rounding::Down => 0,
    };
    let exponent = code.shr(code.plus(a, added)?, 23)?;
    let least = code.icmp_const(IntPredicate::ULE, a, 0x40_0000)?;
    let value = code.select(least, code.int(a, 0), exponent)?;
    let over = code.icmp_const(IntPredicate::UGT, value, 254)?;
    let value = code.select(over, code.int(a, if cast.saturate { 254 } else { 255 }), value)?;
    let is_nan = code.icmp_const(IntPredicate::UGT, a, 0x7f80_0000)?;
    let value = code.select(is_nan, code.int(a, 255), value)?;
    code.extend(value, 8, false)
}
