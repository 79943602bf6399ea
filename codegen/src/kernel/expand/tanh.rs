//! `tanh` in `f32`: at most 2.7 ulp. `e / (e + 2)` for `e = exp(2|x|) − 1`, which is as accurate near zero as elsewhere:
//! the power of two is added to a polynomial that has no constant. From about one half on `1 − 2 / (e + 2)`, which is at
//! most 1.5 ulp: sums with 1 often follow, and leave nothing but what is wrong. NPUs have `exp`, and a polynomial near zero: at
//! most 2 ulp where that instruction is exact.

use fusewright_graph::ScalarFn;

use super::Column;
use super::emit::Emit;
use super::exp::{LN2, POLY, ROUND};
use crate::kernel::Val;

/// From here on the result is above one half.
const FAR: f32 = 0.55;
/// From here on it is ±1.
const MOST: f32 = 20.0;

/// `(tanh(x) / x − 1) / x²` as a polynomial in `x²` up to [`FAR`], of relative error 4e-9 of `tanh`.
const NEAR: [f32; 5] = [-6.268_796_5e-3, 2.106_771_4e-2, -5.385_128_8e-2, 1.333_257_6e-1, -3.333_331_6e-1];

impl Emit<'_> {
    pub(super) fn tanh(&mut self, x: Val) -> Val {
        if self.column.is_native(ScalarFn::Exp) {
            return self.tanh_by_exp(x);
        }
        let (a, most) = (self.abs(x), self.c(MOST));
        let a = if self.column == Column::Cuda {
            self.raw(ScalarFn::Min, &[a, most])
        } else {
            let above = self.lt(most, a);
            self.select(above, most, a)
        };
        let (far, zero, minus) = (self.c(FAR), self.c(0.0), self.c(-2.0));
        let is_far = self.lt(far, a);
        // All is of half of the argument: constants take the factor.
        let (log2e, round) = (self.c(2.0 * std::f32::consts::LOG2_E), self.c(ROUND));
        let t = self.fma(a, log2e, round);
        let n = self.sub(t, round);
        let (high, low) = (self.c(-LN2.0 / 2.0), self.c(-LN2.1 / 2.0));
        let r = self.fma(n, high, a);
        let r = self.fma(n, low, r);
        let mut coefficients = POLY;
        coefficients.iter_mut().rev().zip([4.0, 8.0, 16.0, 32.0, 64.0]).for_each(|(c, by)| *c *= by);
        let p = self.poly(r, &coefficients);
        let (p, twice) = (self.mul(p, r), self.add(r, r));
        let p = self.fma(p, r, twice);
        let (one, two) = (self.c(1.0), self.c(2.0));
        let n = self.bits(t);
        let power = self.power_of_two(n, 0);
        let rest = self.sub(power, one);
        let e = self.fma(power, p, rest);
        let over = self.add(e, two);
        let (above, start) = (self.select(is_far, minus, e), self.select(is_far, one, zero));
        let quotient = self.quotient_beside_one(above, over);
        let y = self.add(start, quotient);
        self.copysign(y, x)
    }

    /// By an instruction for the exponential, which has no more digits near zero than elsewhere.
    fn tanh_by_exp(&mut self, x: Val) -> Val {
        let (a, most, one, two) = (self.abs(x), self.c(MOST), self.c(1.0), self.c(2.0));
        let square = self.mul(a, a);
        let p = self.poly_rounded(square, &NEAR);
        let p = self.mul_add(p, square, one);
        let near = self.mul(x, p);
        let above = self.lt(most, a);
        let cut = self.select(above, most, a);
        let twice = self.add(cut, cut);
        let power = self.raw(ScalarFn::Exp, &[twice]);
        let over = self.add(power, one);
        let rest = self.div(two, over);
        let far = self.sub(one, rest);
        let far = self.signed_as(far, x);
        let border = self.c(FAR);
        let is_far = self.lt(border, a);
        self.select(is_far, far, near)
    }

    /// A quotient by what is from 2 on. GPUs have reciprocals of such in a few steps.
    fn quotient_beside_one(&mut self, x: Val, by: Val) -> Val {
        if self.column != Column::Cuda {
            return self.div(x, by);
        }
        let (one, by) = (self.c(1.0), self.known_within(by, (2.0, 2.0 * (2.0 * MOST).exp())));
        let reciprocal = self.div(one, by);
        self.mul(x, reciprocal)
    }
}
