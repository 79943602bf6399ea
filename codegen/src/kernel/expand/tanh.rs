//! `tanh` in `f32`: at most 2.7 ulp. `e / (e + 2)` for `e = exp(2|x|) − 1`, which is as accurate near zero as elsewhere:
//! the power of two is added to a polynomial that has no constant. From about one half on `1 − 2 / (e + 2)`, which is at
//! most 1.5 ulp: sums with 1 often follow, and leave nothing but what is wrong.

use fusewright_graph::ScalarFn;

use super::Column;
use super::emit::Emit;
use super::exp::{LN2, POLY, ROUND};
use crate::kernel::Val;

/// From here on the result is above one half.
const FAR: f32 = 0.55;
/// From here on it is ±1.
const MOST: f32 = 20.0;

impl Emit<'_> {
    pub(super) fn tanh(&mut self, x: Val) -> Val {
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
