//! `exp` and `exp2` in `f32`, Cephes polynomial: at most 1.25 ulp. Overflow gives infinity, underflow is
//! gradual, NaN stays NaN, `exp(0)` is 1.

use super::emit::Emit;
use crate::kernel::Val;

/// `1.5 · 2²³`: adding it rounds to an integer, which then stands in the low bits.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// `(exp(r) − 1 − r) / r²` on `|r| ≤ ln 2 / 2`.
const POLY: [f32; 6] = [1.987_569_1e-4, 1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5];

/// `ln 2` in two parts; the first has few bits, so that its multiples are exact.
pub(super) const LN2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);

impl Emit<'_> {
    pub(super) fn exp(&mut self, x: Val) -> Val {
        self.exp_of(x, None)
    }

    /// `exp(x + tail)` for a tail of less than an ulp of `x`; zero where `x` is beyond ±128.
    pub(super) fn exp_with_tail(&mut self, x: Val, tail: Val) -> Val {
        self.exp_of(x, Some(tail))
    }

    fn exp_of(&mut self, x: Val, tail: Option<Val>) -> Val {
        // Beyond these bounds the result is 0 or infinity.
        let x = self.clamped(x, -105.0, 90.0);
        let (log2e, round) = (self.c(std::f32::consts::LOG2_E), self.c(ROUND));
        let t = self.fma(x, log2e, round);
        let n = self.sub(t, round);
        let (high, low) = (self.c(-LN2.0), self.c(-LN2.1));
        let r = self.fma(n, high, x);
        let r = self.fma(n, low, r);
        let r = tail.map_or(r, |tail| self.add(r, tail));
        self.exp_reduced(r, t)
    }

    pub(super) fn exp2(&mut self, x: Val) -> Val {
        let x = self.clamped(x, -151.0, 130.0);
        let round = self.c(ROUND);
        let t = self.add(x, round);
        let n = self.sub(t, round);
        let (r, ln2) = (self.sub(x, n), self.c(std::f32::consts::LN_2));
        let r = self.mul(r, ln2);
        self.exp_reduced(r, t)
    }

    /// `exp(r) · 2^n`, the integer `n` in the low bits of `t`. The power comes in two factors, so that only the last
    /// product may leave the normal range, and rounds once there. Products, not additions to the exponent, so that a
    /// NaN of any payload stays one.
    fn exp_reduced(&mut self, r: Val, t: Val) -> Val {
        let p = self.poly(r, &POLY);
        let (square, one) = (self.mul(r, r), self.c(1.0));
        let linear = self.add(r, one);
        let p = self.fma(p, square, linear);
        let n = self.bits(t);
        let half = self.shr(n, 1);
        let rest = self.sub(n, half);
        let p = self.scaled(p, half);
        self.scaled(p, rest)
    }

    /// `p · 2^n` for a normal power.
    fn scaled(&mut self, p: Val, n: Val) -> Val {
        let (exponent, bias) = (self.shl(n, 23), self.i(127 << 23));
        let factor = self.add(exponent, bias);
        let factor = self.float(factor);
        self.mul(p, factor)
    }

    /// `x` within bounds; a NaN stays.
    fn clamped(&mut self, x: Val, low: f32, high: f32) -> Val {
        let (low, high) = (self.c(low), self.c(high));
        let below = self.lt(x, low);
        let x = self.select(below, low, x);
        let above = self.lt(high, x);
        self.select(above, high, x)
    }
}
