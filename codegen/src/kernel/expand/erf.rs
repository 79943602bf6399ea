//! `erf` in `f32`: at most 1.5 ulp. An odd polynomial up to 0.9277, `1 − exp(p(|x|))` above.

use fusewright_graph::ScalarFn;

use super::emit::Emit;
use crate::kernel::Val;

/// `erf(x) / x − 1` as a polynomial in `x²`.
const NEAR: [f32; 6] =
    [-5.967_617e-4, 4.991_194_2e-3, -2.676_813_5e-2, 1.128_199_25e-1, -3.761_253_4e-1, 1.283_791_7e-1];

/// `log(1 − erf(t)) / t + 1` as a polynomial in `t`.
const FAR: [f32; 7] = [
    -1.728_534_7e-5,
    3.831_971_3e-4,
    -3.883_964_4e-3,
    2.425_462_2e-2,
    -1.067_778_8e-1,
    -6.348_468_7e-1,
    -1.287_175_1e-1,
];

impl Emit<'_> {
    pub(super) fn erf(&mut self, x: Val) -> Val {
        let square = self.mul(x, x);
        let p = self.poly(square, &NEAR);
        let near = self.fma(p, x, x);
        // Beyond 4 the result is ±1.
        let (t, most) = (self.abs(x), self.c(4.0));
        let above = self.lt(most, t);
        let t = self.select(above, most, t);
        let p = self.poly(t, &FAR);
        let minus = self.neg(t);
        let log = self.fma(p, t, minus);
        let rest = self.map(ScalarFn::Exp, &[log]);
        let one = self.c(1.0);
        let far = self.sub(one, rest);
        let far = self.copysign(far, x);
        let border = self.c(0.927_734_4);
        let is_far = self.lt(border, t);
        self.select(is_far, far, near)
    }
}
