//! `tanh` in `f32`: at most 2 ulp. An odd polynomial (Cephes) below 0.625, `1 − 2 / (exp(2|x|) + 1)` above.

use fusewright_graph::ScalarFn;

use super::emit::Emit;
use crate::kernel::Val;

/// `(tanh(x) − x) / x³` as a polynomial in `x²`.
const POLY: [f32; 5] = [-5.704_988_7e-3, 2.063_908_8e-2, -5.373_971_5e-2, 1.333_144_2e-1, -3.333_328e-1];

impl Emit<'_> {
    pub(super) fn tanh(&mut self, x: Val) -> Val {
        let square = self.mul(x, x);
        let p = self.poly(square, &POLY);
        let cube = self.mul(square, x);
        let near = self.fma(p, cube, x);
        let a = self.abs(x);
        let (one, two, border) = (self.c(1.0), self.c(2.0), self.c(0.625));
        let double = self.add(a, a);
        let e = self.map(ScalarFn::Exp, &[double]);
        let e = self.add(e, one);
        let quotient = self.div(two, e);
        let far = self.sub(one, quotient);
        let is_far = self.lt(border, a);
        let y = self.select(is_far, far, near);
        // The polynomial loses the sign of zero.
        self.copysign(y, x)
    }
}
