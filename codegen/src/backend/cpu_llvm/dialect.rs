//! Conversions as CPUs do them best: half precision has instructions, everything shorter is arithmetic that no subnormal
//! operand slows down.

use fusewright_abi::DType;
use fusewright_graph::Rounding;
use inkwell::values::InstructionOpcode;
use inkwell::{FloatPredicate, IntPredicate};

use super::machine::Host;
use crate::backend::llvm::cast::Cast;
use crate::backend::llvm::code::Code;
use crate::backend::llvm::narrow::{Format, format};
use crate::backend::llvm::{Built, Dialect, Value};

const MAGNITUDE: i64 = 0x7fff_ffff;
const INFINITY: i64 = 0x7f80_0000;
/// The greatest f32 that rounds to a number of e4m3: 464.
const BEYOND_E4M3: i64 = 0x43e8_0000;

impl Dialect for Host {
    fn divide<'c>(&self, code: &Code<'c>, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        code.op(InstructionOpcode::FDiv, a, b)
    }

    fn sqrt<'c>(&self, code: &Code<'c>, x: Value<'c>) -> Built<Value<'c>> {
        code.same("llvm.sqrt", &[x])
    }

    /// Of single lanes LLVM 22 gives the NaN on x86 where it knows that the other operand is none: it is not to know.
    fn extreme_number<'c>(&self, code: &Code<'c>, name: &str, x: &[Value<'c>]) -> Built<Value<'c>> {
        if x[0].is_vector_value() {
            return code.same(name, x);
        }
        let fenced = x.iter().map(|&v| code.same("llvm.arithmetic.fence", &[v])).collect::<Built<Vec<_>>>()?;
        code.same(name, &fenced)
    }

    fn division_traps(&self) -> bool {
        true
    }

    fn widen<'c>(&self, code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Option<Value<'c>>> {
        match (cast.from, format(cast.from)) {
            (DType::BF16, _) | (_, None) => Ok(None),
            (DType::F16 | DType::F8E5M2, _) if self.half => Ok(None),
            (DType::F8E4M3, _) if self.half => widen_e4m3(code, x).map(Some),
            (_, Some(f)) => decode(code, x, &f).map(Some),
        }
    }

    fn narrow<'c>(&self, code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Option<Value<'c>>> {
        if cast.to == DType::BF16 && cast.short && !cast.saturate {
            return code.extend(code.shr(code.bits_of(x)?, 16)?, 16, false).map(Some);
        }
        if cast.round != Rounding::NearestEven {
            return Ok(None);
        }
        match (cast.to, format(cast.to)) {
            (DType::BF16, _) if !cast.saturate => narrow_bf16(code, x, cast.short_nan).map(Some),
            (DType::BF16, _) | (_, None) => Ok(None),
            (DType::F16, _) if self.half && !cast.saturate => Ok(None),
            (_, Some(f)) => encode(code, x, &f, cast.saturate).map(Some),
        }
    }
}

/// The least exponent field of an f32 that is a normal number of the format.
fn least_normal(f: &Format) -> i64 {
    128 - f.bias
}

/// Whether the format has infinities.
fn has_infinity(f: &Format) -> bool {
    f.overflow == f.max + 1 && f.overflow != f.nan
}

fn narrow_bf16<'c>(code: &Code<'c>, x: Value<'c>, short_nan: bool) -> Built<Value<'c>> {
    let bits = code.bits_of(x)?;
    // Whether the last place is odd, as a mask: a test and a choice of constants, where shifts compete for one port.
    let odd = code.icmp_const(IntPredicate::NE, code.masked(bits, 1 << 16)?, 0)?;
    let sum = code.iadd(bits, code.select(odd, code.int(bits, 0x8000), code.int(bits, 0x7fff))?)?;
    let rounded = code.extend(code.shr(sum, 16)?, 16, false)?;
    if short_nan {
        // The sum cannot carry out of such a NaN.
        return Ok(rounded);
    }
    let is_nan = code.fcmp(FloatPredicate::UNO, x, x)?;
    code.select(is_nan, code.int(rounded, 0x7fc0), rounded)
}

/// Through half precision, whose exponent has one bit more: exact, subnormals included.
fn widen_e4m3<'c>(code: &Code<'c>, x: Value<'c>) -> Built<Value<'c>> {
    let word = code.extend(x, 16, false)?;
    let magnitude = code.masked(word, 0x7f)?;
    let sign = code.shl(code.masked(word, 0x80)?, 8)?;
    let half = code.or(code.shl(magnitude, 7)?, sign)?;
    let wide = code.float_width(code.bits(half, code.ctx.f16_type())?, code.ctx.f32_type())?;
    let value = code.fmul(wide, code.float(wide, 256.0))?;
    let is_nan = code.icmp_const(IntPredicate::EQ, magnitude, 0x7f)?;
    let nan = code.float_of(code.int(value, 0x7fc0_0000))?;
    code.select(is_nan, nan, value)
}

/// The f32 of a short float. A subnormal is its code times the least quantum, which is exact.
fn decode<'c>(code: &Code<'c>, x: Value<'c>, f: &Format) -> Built<Value<'c>> {
    let word = code.extend(x, 32, false)?;
    let sign_bit = 1i64 << (f.bits - 1);
    let mantissa = i64::from(f.mantissa);
    let magnitude = code.masked(word, sign_bit - 1)?;
    let sign = code.shl(code.masked(word, sign_bit)?, i64::from(32 - f.bits))?;
    let aligned = code.shl(magnitude, 23 - mantissa)?;
    let normal = code.plus(aligned, (least_normal(f) - 1) << 23)?;
    let steps = code.int_to_float(magnitude, true, code.ctx.f32_type())?;
    let quantum = f32::from_bits(((least_normal(f) - mantissa) << 23) as u32);
    let tiny = code.bits_of(code.fmul(steps, code.float(steps, f64::from(quantum)))?)?;
    let is_tiny = code.icmp_const(IntPredicate::SLT, magnitude, 1 << mantissa)?;
    let mut bits = code.select(is_tiny, tiny, normal)?;
    if has_infinity(f) {
        let special = code.plus(aligned, (255 << 23) - (f.overflow << (23 - mantissa)))?;
        let is_special = code.icmp_const(IntPredicate::SGE, magnitude, f.overflow)?;
        bits = code.select(is_special, special, bits)?;
    } else if f.nan > f.max {
        let is_nan = code.icmp_const(IntPredicate::EQ, magnitude, f.nan)?;
        bits = code.select(is_nan, code.int(bits, 0x7fc0_0000), bits)?;
    }
    code.float_of(code.or(bits, sign)?)
}

/// Adding a power of two whose last place is the format's quantum makes the addition round; what the sum's mantissa then
/// holds is the number of quanta. It starts from what turns the exponent above it, moved to its place, into that of the
/// code: bits beyond the code's do not matter.
fn encode<'c>(code: &Code<'c>, x: Value<'c>, f: &Format, saturate: bool) -> Built<Value<'c>> {
    let mantissa = i64::from(f.mantissa);
    let bits = code.bits_of(x)?;
    let magnitude = code.masked(bits, MAGNITUDE)?;
    let limit = code.int(bits, i64::from(limit(f, saturate).to_bits()));
    let clamped = code.same("llvm.smin", &[magnitude, limit])?;
    let exponent = code.masked(clamped, INFINITY)?;
    let exponent = code.same("llvm.smax", &[exponent, code.int(bits, least_normal(f) << 23)])?;
    let first = -((23 - mantissa + least_normal(f)) << mantissa) & ((1 << f.bits) - 1);
    let shifter = code.plus(exponent, ((23 - mantissa) << 23) + first)?;
    let sum = code.bits_of(code.op(InstructionOpcode::FAdd, code.float_of(clamped)?, code.float_of(shifter)?)?)?;
    let biased = code.iadd(sum, code.shr(sum, 23 - mantissa)?)?;
    let (sign, width) = (1 << (f.bits - 1), f.bits.max(8));
    // The code of a magnitude has no sign, and of bits beyond it only those that are stored have to be clear.
    let magnitude_code = code.masked(biased, if f.bits < 8 { sign - 1 } else { !sign })?;
    let sign = code.masked(code.shr(bits, i64::from(32 - f.bits))?, sign)?;
    let signed = code.or(magnitude_code, sign)?;
    // Without an infinity, what rounds beyond the range is NaN, which has no sign.
    let last = if has_infinity(f) || saturate || f.nan == f.max { INFINITY } else { BEYOND_E4M3 };
    let is_nan = code.icmp_const(IntPredicate::SGT, magnitude, last)?;
    let value = code.select(is_nan, code.int(signed, f.nan), signed)?;
    code.extend(value, width, false)
}

/// The largest number of a format, or the least magnitude that stands for "beyond" it.
fn limit(f: &Format, saturate: bool) -> f32 {
    let mantissa = i64::from(f.mantissa);
    let value = |code: i64| f32::from_bits(((code + ((127 - f.bias) << mantissa)) << (23 - mantissa)) as u32);
    value(if saturate { f.max } else { f.overflow })
}
