//! Conversions between element types, exact to the bit, for one lane and for vectors alike.
//!
//! Held in a register, an element is: `f32` as itself; bf16 as its code in the upper half of an `i32` lane, that is, as
//! the bits of its f32 value; shorter floats as their code in the low bits; integers up to 32 bits sign- or
//! zero-extended in an `i32` lane; 64-bit ones as themselves; booleans as masks.

use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::Value;
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F32X4, F64, I8, I32, I32X4, I64, Type};
use fusewright_abi::DType;
use fusewright_graph::Rounding;

use super::code::Code;
use crate::backend::host::facts::Known;

/// The register type of one element.
pub(super) const fn register(dtype: DType) -> Type {
    match dtype {
        DType::F32 => F32,
        DType::F64 => F64,
        DType::I64 | DType::U64 => I64,
        DType::Bool => I8,
        _ => I32,
    }
}

/// A short float format: a sign above `exponent` and `mantissa` bits.
#[derive(Clone, Copy)]
pub(super) struct Short {
    pub bits: u32,
    pub mantissa: u32,
    /// Biased f32 exponent of the least normal number.
    pub least_normal: u32,
    pub max_finite: f32,
    /// The least power of two, or for e4m3 and e2m1 the value, whose encoding stands for "beyond the range".
    pub beyond: f32,
    pub nan: u32,
    pub ieee: bool,
}

const fn short(dtype: DType) -> Option<Short> {
    Some(match dtype {
        DType::F16 => Short {
            bits: 16,
            mantissa: 10,
            least_normal: 113,
            max_finite: 65504.0,
            beyond: 65536.0,
            nan: 0x7e00,
            ieee: true,
        },
        DType::F8E5M2 => Short {
            bits: 8,
            mantissa: 2,
            least_normal: 113,
            max_finite: 57344.0,
            beyond: 65536.0,
            nan: 0x7f,
            ieee: true,
        },
        DType::F8E4M3 => {
            Short { bits: 8, mantissa: 3, least_normal: 121, max_finite: 448.0, beyond: 480.0, nan: 0x7f, ieee: false }
        }
        DType::F4E2M1 => {
            Short { bits: 4, mantissa: 1, least_normal: 127, max_finite: 6.0, beyond: 6.0, nan: 7, ieee: false }
        }
        _ => return None,
    })
}

pub(super) const MAGNITUDE: u32 = 0x7fff_ffff;
pub(super) const INFINITY: i64 = 0x7f80_0000;
/// The greatest f32 that rounds to a number of e4m3: 464.
const BEYOND_E4M3: i64 = 0x43e8_0000;

/// Why a conversion is not taken.
pub(super) type Refusal = String;

impl Code<'_> {
    /// `v` of dtype `from` converted to `to`.
    pub fn cast(
        &mut self,
        v: Value,
        from: DType,
        to: DType,
        round: Rounding,
        saturate: bool,
    ) -> Result<Value, Refusal> {
        self.cast_known(v, from, to, (round, saturate), Known::default())
    }

    /// As [`Self::cast`], with what is known of `v`.
    pub fn cast_known(
        &mut self,
        v: Value,
        from: DType,
        to: DType,
        (round, saturate): (Rounding, bool),
        known: Known,
    ) -> Result<Value, Refusal> {
        if (from, to, saturate) == (DType::F32, DType::BF16, false) && known.short {
            return Ok(self.bits_of(v));
        }
        if (from, to, round, saturate) == (DType::F32, DType::BF16, Rounding::NearestEven, false) && known.short_nan {
            let bits = self.bits_of(v);
            return Ok(self.round_to_bf16(bits));
        }
        if from == to && !(saturate && from.is_float()) {
            return Ok(v);
        }
        if from == DType::F64 || to == DType::F64 {
            return self.cast_f64(v, from, to, round, saturate);
        }
        match (from.is_float(), to.is_float()) {
            (true, true) => {
                let wide = self.widened(v, from);
                self.narrowed(wide, to, round, saturate)
            }
            (true, false) => {
                let wide = self.widened(v, from);
                if known.small && !saturate && to.is_int() && to.bits() <= 32 {
                    return Ok(self.small_to_int(wide, to, round, known));
                }
                if known.bounded && !saturate && to.is_int() && to.bits() <= 32 {
                    let whole = self.float_to_int(wide, DType::I32, round, true)?;
                    return Ok(self.wrap_int(whole, to));
                }
                self.float_to_int(wide, to, round, saturate)
            }
            (false, true) => self.int_to_float(v, from, to, round, saturate),
            (false, false) => Ok(self.int_to_int(v, from, to, saturate)),
        }
    }

    /// Conversions of `f64`, one lane at a time.
    fn cast_f64(
        &mut self,
        v: Value,
        from: DType,
        to: DType,
        round: Rounding,
        saturate: bool,
    ) -> Result<Value, Refusal> {
        let nearest = round == Rounding::NearestEven;
        match (from, to) {
            (_, DType::F64) if from.is_float() => {
                let v = if from == DType::F64 {
                    v
                } else {
                    let wide = self.widened(v, from);
                    self.b.ins().fpromote(F64, wide)
                };
                // Infinities saturate too.
                Ok(if saturate { self.clamped(v, f64::MAX) } else { v })
            }
            (_, DType::F64) if nearest => {
                let v = if from == DType::Bool { self.mask_to_one(v) } else { v };
                let signed = from.is_signed_int() || from.bits() < 32;
                Ok(if signed { self.b.ins().fcvt_from_sint(F64, v) } else { self.b.ins().fcvt_from_uint(F64, v) })
            }
            (_, DType::F32) if nearest => {
                let near = self.b.ins().fdemote(F32, v);
                self.narrowed(near, to, round, saturate)
            }
            (_, _) if to.is_float() && (nearest || short(to).is_some()) => {
                let odd = self.demote_to_odd(v);
                self.narrowed(odd, to, round, saturate)
            }
            (_, _) if !to.is_float() && (saturate || to == DType::Bool) => self.float_to_int(v, to, round, saturate),
            _ => Err(format!("no conversion from {from} to {to} of that rounding")),
        }
    }

    /// `f64` to `f32` rounded to odd, so that rounding to a shorter format afterwards is right.
    pub(super) fn demote_to_odd(&mut self, v: Value) -> Value {
        let near = self.b.ins().fdemote(F32, v);
        let back = self.b.ins().fpromote(F64, near);
        let (size, was) = (self.b.ins().fabs(back), self.b.ins().fabs(v));
        let beyond = self.fcmp(FloatCC::GreaterThan, size, was);
        let bits = self.bits_of(near);
        let below = self.add(bits, -1);
        let truncated = self.select(beyond, below, bits);
        let one = self.int(bits, 1);
        let odd = self.or(truncated, one);
        let inexact = self.fcmp(FloatCC::OrderedNotEqual, back, v);
        let chosen = self.select(inexact, odd, bits);
        self.float_of(chosen)
    }

    /// The exact f32 value of a float element of at most 32 bits; NaN stays NaN.
    pub fn widened(&mut self, v: Value, from: DType) -> Value {
        match from {
            DType::F32 => v,
            DType::BF16 => self.float_of(v),
            DType::F8E8M0 => self.decode_e8m0(v),
            _ => match short(from) {
                Some(format) => self.decode_short(v, format),
                None => v,
            },
        }
    }

    fn decode_e8m0(&mut self, code: Value) -> Value {
        let power = self.shl(code, 23);
        // 2⁻¹²⁷ is subnormal in f32; the code 255 is NaN, not infinity.
        let least = self.int(code, 0x0040_0000);
        let nan = self.int(code, 0x7fc0_0000);
        let zero = self.icmp_const(IntCC::Equal, code, 0);
        let all = self.icmp_const(IntCC::Equal, code, 255);
        let finite = self.select(zero, least, power);
        let bits = self.select(all, nan, finite);
        self.float_of(bits)
    }

    fn decode_short(&mut self, code: Value, f: Short) -> Value {
        // The upper half of an f16 is an e5m2.
        if self.halves && f.ieee {
            let half = if f.bits == 8 { self.shl(code, 8) } else { code };
            let widen = |code: &mut Self, v| code.widen_halves(v);
            return if self.is_vector(half) { self.widen_halves(half) } else { self.by_four(half, widen) };
        }
        let sign_bit = 1u32 << (f.bits - 1);
        let magnitude = self.and(code, sign_bit - 1);
        let signed = self.and(code, sign_bit);
        let sign = self.shl(signed, 32 - f.bits);
        let aligned = self.shl(magnitude, 23 - f.mantissa);
        let normal = self.add(aligned, i64::from(f.least_normal - 1) << 23);
        // A subnormal is its code times the least quantum, which is exact.
        let steps = if self.is_vector(code) {
            self.b.ins().fcvt_from_sint(F32X4, magnitude)
        } else {
            self.b.ins().fcvt_from_sint(F32, magnitude)
        };
        let quantum = self.float(steps, f32::from_bits((f.least_normal - f.mantissa) << 23));
        let tiny = self.b.ins().fmul(steps, quantum);
        let tiny = self.bits_of(tiny);
        let is_tiny = self.icmp_const(IntCC::SignedLessThan, magnitude, 1 << f.mantissa);
        let mut bits = self.select(is_tiny, tiny, normal);
        if f.ieee {
            let infinity = i64::from((sign_bit - 1) >> f.mantissa << f.mantissa);
            let special = self.add(aligned, (255 << 23) - (infinity << (23 - f.mantissa)));
            let is_special = self.icmp_const(IntCC::SignedGreaterThanOrEqual, magnitude, infinity);
            bits = self.select(is_special, special, bits);
        } else if f.bits == 8 {
            let nan = self.int(code, 0x7fc0_0000);
            let is_nan = self.icmp_const(IntCC::Equal, magnitude, i64::from(sign_bit - 1));
            bits = self.select(is_nan, nan, bits);
        }
        let bits = self.or(bits, sign);
        self.float_of(bits)
    }

    /// An f32 value rounded to a float element of at most 32 bits.
    fn narrowed(&mut self, v: Value, to: DType, round: Rounding, saturate: bool) -> Result<Value, Refusal> {
        if to == DType::F32 {
            return Ok(if saturate { self.clamped(v, f32::MAX.into()) } else { v });
        }
        if to == DType::F8E8M0 {
            return self.encode_e8m0(v, round, saturate);
        }
        Ok(match (short(to), round) {
            (Some(format), Rounding::NearestEven) => self.encode_short(v, format, saturate),
            (Some(format), _) => self.encode_directed(v, format, round, saturate),
            (None, Rounding::NearestEven) => self.encode_bf16(v, saturate),
            (None, _) => self.encode_bf16_directed(v, round, saturate),
        })
    }

    /// A value between a bound and its negative; NaN stays NaN.
    fn clamped(&mut self, v: Value, bound: f64) -> Value {
        let is_wide = self.ty(v) == F64;
        let [high, low] = [bound, -bound].map(|bound| match is_wide {
            true => self.b.ins().f64const(bound),
            false => self.float(v, bound as f32),
        });
        let v = self.min_or_second(high, v);
        self.max_or_second(low, v)
    }

    fn encode_bf16(&mut self, v: Value, saturate: bool) -> Value {
        let bits = self.bits_of(v);
        let source = if saturate {
            // The largest bf16; what lies beyond rounds to it.
            let sign = self.and(bits, !MAGNITUDE);
            let magnitude = self.and(bits, MAGNITUDE);
            let most = self.int(bits, 0x7f7f_0000);
            let clamped = self.b.ins().smin(magnitude, most);
            self.or(clamped, sign)
        } else {
            bits
        };
        let code = self.round_to_bf16(source);
        let is_nan = self.fcmp(FloatCC::Unordered, v, v);
        let nan = self.int(bits, 0x7fc0_0000);
        self.select(is_nan, nan, code)
    }

    /// Right for numbers, and for NaNs whose low half is clear: those the sum cannot carry out of.
    fn round_to_bf16(&mut self, bits: Value) -> Value {
        let shifted = self.shl(bits, 15);
        let odd = self.shr(shifted, 31);
        let half = self.add(bits, 0x7fff);
        let rounded = self.b.ins().iadd(half, odd);
        self.and(rounded, 0xffff_0000)
    }

    /// The bits of an f32, its magnitude, the magnitude bounded by the largest that a short float holds, and the exponent field of that,
    /// at least that of the format's subnormals.
    pub(super) fn short_range(&mut self, v: Value, f: Short, saturate: bool) -> [Value; 4] {
        let bits = self.bits_of(v);
        let magnitude = self.and(bits, MAGNITUDE);
        let limit = if saturate { f.max_finite } else { f.beyond };
        let limit = self.int(bits, i64::from(limit.to_bits()));
        let clamped = self.b.ins().smin(magnitude, limit);
        let exponent = self.and(clamped, 0x7f80_0000);
        let least = self.int(bits, i64::from(f.least_normal) << 23);
        let exponent = self.b.ins().smax(exponent, least);
        [bits, magnitude, clamped, exponent]
    }

    /// Adding a power of two whose last place is the format's quantum makes the addition round; what the sum's
    /// mantissa then holds is the number of quanta. It starts from what turns the exponent above it, moved to its place,
    /// into that of the code.
    fn encode_short(&mut self, v: Value, f: Short, saturate: bool) -> Value {
        if self.halves && f.ieee && f.bits == 16 {
            let v = if saturate { self.clamped(v, f.max_finite.into()) } else { v };
            let narrow = |code: &mut Self, v| code.narrow_to_halves(v);
            return if self.is_vector(v) { self.narrow_to_halves(v) } else { self.by_four(v, narrow) };
        }
        let [bits, magnitude, clamped, exponent] = self.short_range(v, f, saturate);
        let places = i64::from(23 - f.mantissa);
        let first = -((places + i64::from(f.least_normal)) << f.mantissa) & ((1 << f.bits) - 1);
        let shifter = self.add(exponent, (places << 23) + first);
        let (x, y) = (self.float_of(clamped), self.float_of(shifter));
        let sum = self.b.ins().fadd(x, y);
        let sum = self.bits_of(sum);
        let field = self.shr(sum, 23 - f.mantissa);
        let biased = self.b.ins().iadd(sum, field);
        let code = self.and(biased, (1 << (f.bits - 1)) - 1);
        let sign = self.shr(bits, 32 - f.bits);
        let sign = self.and(sign, 1 << (f.bits - 1));
        if !f.ieee && f.bits == 8 && self.is_vector(bits) {
            return self.code_or_nan(v, magnitude, code, sign, saturate);
        }
        let code = self.or(code, sign);
        // Without an infinity, what rounds beyond the range is NaN, which has no sign.
        let last = if f.ieee || saturate || f.bits < 8 { INFINITY } else { BEYOND_E4M3 };
        let is_nan = self.icmp_const(IntCC::SignedGreaterThan, magnitude, last);
        let nan = self.int(bits, i64::from(f.nan));
        self.select(is_nan, nan, code)
    }

    /// The code of e4m3 with its sign; NaN, which has none, is the code after the greatest number's. A magnitude was
    /// bounded by that number if it saturates, else by the next, whose code is NaN's.
    fn code_or_nan(&mut self, v: Value, magnitude: Value, code: Value, sign: Value, saturate: bool) -> Value {
        let (code, is_nan) = if saturate {
            let is_nan = self.fcmp(FloatCC::Unordered, v, v);
            (self.b.ins().isub(code, is_nan), is_nan)
        } else {
            (code, self.icmp_const(IntCC::SignedGreaterThan, magnitude, BEYOND_E4M3))
        };
        let sign = self.b.ins().band_not(sign, is_nan);
        self.or(code, sign)
    }

    fn encode_e8m0(&mut self, v: Value, round: Rounding, saturate: bool) -> Result<Value, Refusal> {
        let bits = self.bits_of(v);
        let magnitude = self.and(bits, MAGNITUDE);
        // Below the least normal f32 the only power is 2⁻¹²⁷ = 0x400000, and 2⁻¹²⁶ is next.
        let (normal, subnormal) = match round {
            Rounding::NearestEven | Rounding::HalfAway => (0x0040_0000, 0x003f_ffff),
            Rounding::Up => (0x007f_ffff, 0x003f_ffff),
            Rounding::TowardZero | Rounding::Down => (0, 0),
        };
        let is_tiny = self.icmp_const(IntCC::SignedLessThan, magnitude, 0x0080_0000);
        let (tiny, large) = (self.int(bits, subnormal), self.int(bits, normal));
        let up = self.select(is_tiny, tiny, large);
        let sum = self.b.ins().iadd(magnitude, up);
        let code = self.shr(sum, 23);
        let top = self.int(bits, if saturate { 254 } else { 255 });
        let code = self.b.ins().umin(code, top);
        let is_nan = self.icmp_const(IntCC::SignedGreaterThan, magnitude, INFINITY);
        let nan = self.int(bits, 255);
        Ok(self.select(is_nan, nan, code))
    }

    /// An f32 rounded to an integral f32.
    pub fn round_integral(&mut self, v: Value, round: Rounding) -> Value {
        match round {
            Rounding::NearestEven => self.b.ins().nearest(v),
            Rounding::TowardZero => self.b.ins().trunc(v),
            Rounding::Down => self.b.ins().floor(v),
            Rounding::Up => self.b.ins().ceil(v),
            Rounding::HalfAway => {
                let whole = self.b.ins().trunc(v);
                let rest = self.b.ins().fsub(v, whole);
                let rest = self.b.ins().fabs(rest);
                let up = self.float(v, 1.0);
                let down = self.float(v, -1.0);
                let zero = self.float(v, 0.0);
                let negative = self.fcmp(FloatCC::LessThan, v, zero);
                let one = self.select(negative, down, up);
                let away = self.b.ins().fadd(whole, one);
                let half = self.float(v, 0.5);
                let is_away = self.fcmp(FloatCC::GreaterThanOrEqual, rest, half);
                self.select(is_away, away, whole)
            }
        }
    }

    fn float_to_int(&mut self, v: Value, to: DType, round: Rounding, saturate: bool) -> Result<Value, Refusal> {
        if to == DType::Bool {
            let zero = self.float(v, 0.0);
            return Ok(self.fcmp(FloatCC::NotEqual, v, zero));
        }
        let whole = self.round_integral(v, round);
        if !saturate {
            return self.wrap_float(whole, to);
        }
        let (least, greatest) = fusewright_graph::num::int_range(to);
        if to.bits() < 32 {
            // Both bounds are exact in f32, and NaN passes through to the conversion, which makes it 0.
            let (high, low) = (self.float(v, greatest as f32), self.float(v, least as f32));
            let below = self.min_or_second(high, whole);
            let inside = self.max_or_second(low, below);
            let ty = if self.is_vector(v) { I32X4 } else { I32 };
            return Ok(self.b.ins().fcvt_to_sint_sat(ty, inside));
        }
        let vector = self.is_vector(v);
        let ty = if vector { I32X4 } else { register(to) };
        Ok(if to.is_signed_int() {
            self.b.ins().fcvt_to_sint_sat(ty, whole)
        } else {
            self.b.ins().fcvt_to_uint_sat(ty, whole)
        })
    }

    /// Wraps modulo 2^bits. One lane only: the value may need 64 bits and more.
    fn wrap_float(&mut self, whole: Value, to: DType) -> Result<Value, Refusal> {
        if self.is_vector(whole) {
            return Err("a wrapping conversion in vectors".to_owned());
        }
        // |whole| = mantissa · 2^shift; what is shifted out above bit 63 is what wrapping drops.
        let bits = self.bits_of(whole);
        let bits = self.b.ins().uextend(I64, bits);
        let field = self.shr(bits, 23);
        let field = self.b.ins().band_imm_u(field, 255);
        let mantissa = self.b.ins().band_imm_u(bits, 0x7f_ffff);
        let mantissa = self.b.ins().bor_imm_u(mantissa, 0x80_0000);
        let left = self.add(field, -150);
        let right = self.b.ins().ineg(left);
        let zero = self.i64(0);
        let up = self.b.ins().ishl(mantissa, left);
        let far = self.icmp_const(IntCC::SignedGreaterThan, left, 63);
        let up = self.b.ins().select(far, zero, up);
        let down = self.b.ins().ushr(mantissa, right);
        let small = self.icmp_const(IntCC::SignedGreaterThan, right, 63);
        let down = self.b.ins().select(small, zero, down);
        let is_left = self.icmp_const(IntCC::SignedGreaterThan, left, 0);
        let magnitude = self.b.ins().select(is_left, up, down);
        let negated = self.b.ins().ineg(magnitude);
        let sign = self.shr(bits, 31);
        let is_negative = self.icmp_const(IntCC::NotEqual, sign, 0);
        let value = self.b.ins().select(is_negative, negated, magnitude);
        let special = self.icmp_const(IntCC::Equal, field, 255);
        let value = self.b.ins().select(special, zero, value);
        Ok(self.int_to_int(value, DType::I64, to, false))
    }

    fn int_to_float(
        &mut self,
        v: Value,
        from: DType,
        to: DType,
        round: Rounding,
        saturate: bool,
    ) -> Result<Value, Refusal> {
        let v = if from == DType::Bool { self.mask_to_one(v) } else { v };
        // At most 24 bits are exact in f32, so only the second step rounds.
        let exact = from.bits() < 32;
        if !exact && to != DType::F32 {
            let folded = self.folded_int(v, from);
            return self.narrowed(folded, to, round, saturate);
        }
        if !exact && round != Rounding::NearestEven {
            return Err(format!("no conversion from {from} to {to} of that rounding"));
        }
        let ty = if self.is_vector(v) { F32X4 } else { F32 };
        let wide = if from.is_signed_int() || exact {
            self.b.ins().fcvt_from_sint(ty, v)
        } else {
            self.b.ins().fcvt_from_uint(ty, v)
        };
        self.narrowed(wide, to, round, saturate)
    }

    fn int_to_int(&mut self, v: Value, from: DType, to: DType, saturate: bool) -> Value {
        if to == DType::Bool {
            return self.one_to_mask(v);
        }
        let v = if from == DType::Bool { self.mask_to_one(v) } else { v };
        let wide_source = self.ty(v) == I64;
        let wide = match (wide_source, register(to) == I64) {
            (false, true) if from.is_signed_int() => self.b.ins().sextend(I64, v),
            (false, true) => self.b.ins().uextend(I64, v),
            _ => v,
        };
        let fitted = if saturate { self.saturate_int(wide, from, to) } else { wide };
        if wide_source && register(to) == I32 {
            let low = self.b.ins().ireduce(I32, fitted);
            return self.wrap_int(low, to);
        }
        self.wrap_int(fitted, to)
    }

    fn saturate_int(&mut self, v: Value, from: DType, to: DType) -> Value {
        let (least, greatest) = fusewright_graph::num::int_range(to);
        let (from_least, from_greatest) = fusewright_graph::num::int_range(from);
        let unsigned = !from.is_signed_int();
        let mut v = v;
        if greatest < from_greatest {
            let most = self.int(v, greatest as i64);
            v = if unsigned { self.b.ins().umin(v, most) } else { self.b.ins().smin(v, most) };
        }
        if least > from_least {
            let most = self.int(v, least as i64);
            v = self.b.ins().smax(v, most);
        }
        v
    }

    /// The low bits of an `i32` or `i64`, extended as the dtype is held.
    pub fn wrap_int(&mut self, v: Value, to: DType) -> Value {
        let width = if self.ty(v) == I64 { 64 } else { 32 };
        if to.bits() >= width {
            return v;
        }
        let unused = width - to.bits();
        if to.is_signed_int() {
            let up = self.shl(v, unused);
            return self.sar(up, unused);
        }
        self.and(v, (1u32 << to.bits()) - 1)
    }
}
