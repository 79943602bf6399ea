//! `log` and `log2` in `f32`: at most 1 ulp each; and `log` as a sum of two `f32` for powers, to 2⁻²⁹.
//!
//! The argument is `2^k · (1 + f)` with `1 + f` between `√½` and `√2`; `log(1 + f)` is a series in `s = f / (2 + f)`.
//! Zero gives −inf, negative numbers NaN; subnormals are scaled first.

use fusewright_graph::DType;

use super::emit::Emit;
use crate::kernel::Val;

const LN2_HIGH: f32 = 6.931_381e-1;
const LN2_LOW: f32 = 9.058_001e-6;
/// `1 / ln 2` in two parts, the first of few bits.
const LOG2E_HIGH: f32 = 1.442_871_1;
const LOG2E_LOW: f32 = -1.760_528_5e-4;

/// Bits of `√½`.
const SQRT_HALF: i32 = 0x3f35_04f3;

/// An argument taken apart.
struct Parts {
    /// The exponent, as `f32`.
    k: Val,
    /// `1 + f`.
    m: Val,
    /// `f`.
    f: Val,
}

impl Emit<'_> {
    pub(super) fn log(&mut self, x: Val) -> Val {
        let Parts { k, f, .. } = self.parts(x);
        let (s, half_square, series) = self.log_series(f);
        let (high, low) = (self.c(LN2_HIGH), self.c(LN2_LOW));
        let sum = self.add(half_square, series);
        let tail = self.mul(k, low);
        let tail = self.fma(s, sum, tail);
        let tail = self.sub(tail, half_square);
        let y = self.add(tail, f);
        let y = self.fma(k, high, y);
        self.log_specials(x, y)
    }

    pub(super) fn log2(&mut self, x: Val) -> Val {
        let Parts { k, f, .. } = self.parts(x);
        let (s, half_square, series) = self.log_series(f);
        let high = self.sub(f, half_square);
        let (bits, mask) = (self.bits(high), self.i(!0xfff));
        let bits = self.and(bits, mask);
        let high = self.float(bits);
        let sum = self.add(half_square, series);
        let low = self.sub(f, high);
        let low = self.sub(low, half_square);
        let low = self.fma(s, sum, low);
        let (log2e_high, log2e_low) = (self.c(LOG2E_HIGH), self.c(LOG2E_LOW));
        let both = self.add(low, high);
        let y = self.mul(both, log2e_low);
        let y = self.fma(low, log2e_high, y);
        // A multiple of few bits and the exponent add up without loss of the small part.
        let main = self.mul(high, log2e_high);
        let total = self.add(k, main);
        let kept = self.sub(total, k);
        let lost = self.sub(main, kept);
        let y = self.add(y, lost);
        let y = self.add(total, y);
        self.log_specials(x, y)
    }

    /// `log x` of a positive finite argument as a sum of two values, the second small.
    pub(super) fn log_pair(&mut self, x: Val) -> (Val, Val) {
        let Parts { k, m, f } = self.parts(x);
        // q = f / (m + 1), with the rounding errors of the divisor and of the quotient in `q_low`.
        let one = self.c(1.0);
        let divisor = self.add(m, one);
        let without = self.sub(divisor, one);
        let divisor_low = self.sub(m, without);
        let q = self.div(f, divisor);
        let minus_q = self.neg(q);
        let rest = self.fma(minus_q, divisor, f);
        let rest = self.fma(minus_q, divisor_low, rest);
        let q_low = self.div(rest, divisor);
        // log m = 2q + 2q³(1/3 + q²/5 + …)
        let square = self.mul(q, q);
        let series = self.poly(square, &[2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0]);
        let cube = self.mul(square, q);
        let (double_q, double_low) = (self.add(q, q), self.add(q_low, q_low));
        let small = self.fma(cube, series, double_low);
        // k·ln 2 in three parts; the first product is exact.
        let (high, middle) = (self.c(0.693_145_75), self.c(1.428_606_8e-6));
        let main = self.mul(k, high);
        let (sum, error) = self.two_sum(main, double_q);
        let product = self.mul(k, middle);
        let minus = self.neg(product);
        let product_error = self.fma(k, middle, minus);
        let (sum, second) = self.two_sum(sum, product);
        let low = self.add(error, second);
        let low = self.add(low, product_error);
        let low = self.add(low, small);
        self.two_sum(sum, low)
    }

    /// A sum and its rounding error.
    fn two_sum(&mut self, a: Val, b: Val) -> (Val, Val) {
        let sum = self.add(a, b);
        let part = self.sub(sum, a);
        let kept = self.sub(sum, part);
        let (a, b) = (self.sub(a, kept), self.sub(b, part));
        (sum, self.add(a, b))
    }

    fn parts(&mut self, x: Val) -> Parts {
        let (least, scale) = (self.c(f32::MIN_POSITIVE), self.c(33_554_432.0));
        let small = self.lt(x, least);
        let scaled = self.mul(x, scale);
        let x = self.select(small, scaled, x);
        let (none, shift) = (self.i(-127), self.i(-127 - 25));
        let bias = self.select(small, shift, none);
        let (bits, offset) = (self.bits(x), self.i(0x3f80_0000 - SQRT_HALF));
        let bits = self.add(bits, offset);
        let k = self.shr(bits, 23);
        let k = self.add(k, bias);
        let k = self.cast(k, DType::F32);
        let (mask, root) = (self.i(0x7f_ffff), self.i(SQRT_HALF));
        let mantissa = self.and(bits, mask);
        let mantissa = self.add(mantissa, root);
        let (m, one) = (self.float(mantissa), self.c(1.0));
        Parts { k, m, f: self.sub(m, one) }
    }

    /// `s = f / (2 + f)`, `f² / 2` and `(log(1 + f) − f + f² / 2) / s − f² / 2`.
    fn log_series(&mut self, f: Val) -> (Val, Val, Val) {
        let (two, half) = (self.c(2.0), self.c(0.5));
        let divisor = self.add(two, f);
        let s = self.div(f, divisor);
        let square = self.mul(s, s);
        let p = self.poly(square, &[0.242_790_79, 0.284_987_87, 0.400_009_72, 0.666_666_6]);
        let series = self.mul(square, p);
        let half = self.mul(f, half);
        (s, self.mul(half, f), series)
    }

    fn log_specials(&mut self, x: Val, y: Val) -> Val {
        let (zero, infinity, none) = (self.c(0.0), self.c(f32::INFINITY), self.c(f32::NAN));
        let minus = self.c(f32::NEG_INFINITY);
        let finite = self.lt(x, infinity);
        let y = self.select(finite, y, x);
        let positive = self.lt(zero, x);
        let is_zero = self.eq(x, zero);
        let other = self.select(is_zero, minus, none);
        self.select(positive, y, other)
    }
}
