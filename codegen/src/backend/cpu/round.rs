//! Conversions with one rounding that is not that of the hardware: short floats in any direction, and short floats from
//! integers that f32 does not hold.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F32X4, F64, I32, I32X4, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use fusewright_abi::DType;
use fusewright_graph::Rounding;

use super::cast::{INFINITY, MAGNITUDE, Short};
use super::code::Code;
use crate::backend::host::facts::Known;

impl Code<'_> {
    /// An f32 rounded to a short float in any direction. The number of quanta is a product with a power of two, which
    /// is exact, and is then rounded to an integer.
    pub(super) fn encode_directed(&mut self, v: Value, f: Short, round: Rounding, saturate: bool) -> Value {
        let [bits, magnitude, clamped, exponent] = self.short_range(v, f, saturate);
        let top = self.int(bits, i64::from(254 + f.mantissa) << 23);
        let scale = self.b.ins().isub(top, exponent);
        let (x, scale) = (self.float_of(clamped), self.float_of(scale));
        let quanta = self.b.ins().fmul(x, scale);
        let whole = self.integral_magnitude(quanta, bits, round);
        let ty = if self.is_vector(bits) { I32X4 } else { I32 };
        let whole = self.b.ins().fcvt_to_sint_sat(ty, whole);
        let field = self.shr(exponent, 23 - f.mantissa);
        let biased = self.b.ins().iadd(whole, field);
        let code = self.add(biased, -(i64::from(f.least_normal) << f.mantissa));
        let sign = self.shr(bits, 32 - f.bits);
        let sign = self.and(sign, 1 << (f.bits - 1));
        let signed = self.or(code, sign);
        let nan = self.int(bits, i64::from(f.nan));
        let is_nan = self.icmp_const(IntCC::SignedGreaterThan, magnitude, INFINITY);
        let known = self.select(is_nan, nan, signed);
        if f.ieee || f.bits < 8 {
            return known;
        }
        // Without an infinity, what rounds beyond the range is NaN, which has no sign.
        let beyond = self.icmp_const(IntCC::SignedGreaterThanOrEqual, code, i64::from(f.nan));
        self.select(beyond, nan, known)
    }

    /// A magnitude rounded to an integral value as the number that `bits` are would be.
    fn integral_magnitude(&mut self, v: Value, bits: Value, round: Rounding) -> Value {
        let (positive, negative) = match round {
            Rounding::Down => (Rounding::Down, Rounding::Up),
            Rounding::Up => (Rounding::Up, Rounding::Down),
            _ => return self.round_integral(v, round),
        };
        let (positive, negative) = (self.round_integral(v, positive), self.round_integral(v, negative));
        let below = self.icmp_const(IntCC::SignedLessThan, bits, 0);
        self.select(below, negative, positive)
    }

    /// A small f32, or NaN, as an integer: a sum with `1.5 · 2²³` rounds to the nearest and holds it in its low bits.
    pub(super) fn small_to_int(&mut self, v: Value, to: DType, round: Rounding, known: Known) -> Value {
        let whole = match round {
            Rounding::NearestEven => v,
            _ if known.integral => v,
            _ => self.round_integral(v, round),
        };
        let magic = self.float(v, 12_582_912.0);
        let sum = self.b.ins().fadd(whole, magic);
        let bits = self.bits_of(sum);
        if known.short_nan && to.bits() <= 16 {
            return self.wrap_int(bits, to);
        }
        let is_number = self.fcmp(FloatCC::Ordered, v, v);
        if self.is_vector(bits) && to.bits() <= 16 {
            // Of what the integer is added to the low half is clear.
            let numbers = self.b.ins().band(bits, is_number);
            return self.wrap_int(numbers, to);
        }
        let whole = self.add(bits, -0x4b40_0000);
        let zero = self.int(whole, 0);
        let whole = self.select(is_number, whole, zero);
        self.wrap_int(whole, to)
    }

    /// An f32 rounded to bf16 in a direction: adding what is below the last place carries into it.
    pub(super) fn encode_bf16_directed(&mut self, v: Value, round: Rounding, saturate: bool) -> Value {
        let bits = self.bits_of(v);
        let magnitude = self.and(bits, MAGNITUDE);
        let sign = self.and(bits, !MAGNITUDE);
        let bounded = if saturate {
            let most = self.int(bits, 0x7f7f_0000);
            self.b.ins().smin(magnitude, most)
        } else {
            magnitude
        };
        let raised = match round {
            Rounding::TowardZero => bounded,
            Rounding::NearestEven | Rounding::HalfAway => self.add(bounded, 0x8000),
            Rounding::Down | Rounding::Up => {
                let negative = self.sar(bits, 31);
                let outward = if round == Rounding::Down { negative } else { self.b.ins().bnot(negative) };
                let up = self.and(outward, 0xffff);
                self.b.ins().iadd(bounded, up)
            }
        };
        let code = self.and(raised, 0xffff_0000);
        let code = self.or(code, sign);
        let is_nan = self.icmp_const(IntCC::SignedGreaterThan, magnitude, INFINITY);
        let nan = self.int(bits, 0x7fc0_0000);
        self.select(is_nan, nan, code)
    }

    /// An integer of 32 or 64 bits as an f32 from which every format of at most 12 significant bits rounds as from the
    /// integer itself: what does not fit is folded into a bit below all that they keep.
    pub(super) fn folded_int(&mut self, v: Value, from: DType) -> Value {
        let wide = self.ty(v) == I64;
        let signed = from.is_signed_int();
        let sign = signed.then(|| self.sar(v, if wide { 63 } else { 31 }));
        let apply = |code: &mut Self, v: Value| match sign {
            Some(sign) => {
                let flipped = code.b.ins().bxor(v, sign);
                code.b.ins().isub(flipped, sign)
            }
            None => v,
        };
        let magnitude = apply(self, v);
        let (kept, lost) = if wide { (53, 11) } else { (24, 8) };
        let high = self.shr(magnitude, kept);
        let large = self.icmp_const(IntCC::NotEqual, high, 0);
        let low = self.and(magnitude, (1 << lost) - 1);
        let inexact = self.icmp_const(IntCC::NotEqual, low, 0);
        let (one, none) = (self.int(v, 1 << lost), self.int(v, 0));
        let sticky = self.select(inexact, one, none);
        let top = self.and(magnitude, !((1 << lost) - 1));
        let folded = self.or(top, sticky);
        let chosen = self.select(large, folded, magnitude);
        let exact = apply(self, chosen);
        let ty = match (wide, self.is_vector(v)) {
            (true, _) => F64,
            (false, true) => F32X4,
            (false, false) => F32,
        };
        let float =
            if signed { self.b.ins().fcvt_from_sint(ty, exact) } else { self.b.ins().fcvt_from_uint(ty, exact) };
        if wide { self.demote_to_odd(float) } else { float }
    }
}
