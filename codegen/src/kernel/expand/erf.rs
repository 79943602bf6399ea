//! `erf` in `f32`: at most 1.5 ulp. An odd polynomial up to 0.9277, `1 − exp(p(|x|))` above. `erfc` in `f32`: at most
//! 3 ulp. `exp(−x²) · p(q) / (1 + 2x)` with `q = (x − 2) / (x + 2)`, the square and both quotients as sums of two values.
//! `erfinv` in `f32`: at most 3 ulp, 3.5 where products and sums round each. `x` times a polynomial in `l = −log(1 − x²)`.

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

/// `(1 + 2x) · exp(x²) · erfc(x) − 1` as a polynomial in `(x − 2) / (x + 2)`.
const COMPLEMENT: [f32; 10] = [
    -4.010_054_7e-4,
    -1.230_659_4e-3,
    1.313_602_1e-3,
    8.632_28e-3,
    -8.059_774e-3,
    -5.420_445_3e-2,
    1.640_553_2e-1,
    -1.660_314e-1,
    -9.276_398e-2,
    2.769_784e-1,
];

/// `erfinv(x) / x` as a polynomial in `l`, up to [`MIDDLE`].
const INVERSE_NEAR: [f32; 10] = [
    -8.791_798e-9,
    2.210_484_7e-7,
    -1.976_633_7e-6,
    3.984_134_8e-6,
    4.456_248e-5,
    -1.274_767_1e-4,
    -2.334_301_4e-3,
    1.154_865_7e-2,
    2.320_138_2e-1,
    8.862_269e-1,
];

/// The same above it, as a polynomial in `l − 9`.
const INVERSE_FAR: [f32; 10] = [
    -3.929_222_6e-11,
    1.033_046e-9,
    -1.114_749_6e-8,
    5.839_342e-8,
    1.379_478_1e-7,
    -9.591_684e-6,
    2.075_913e-4,
    -4.374_829_6e-3,
    1.669_46e-1,
    2.832_976_8,
];

/// The border of both.
const MIDDLE: f32 = 5.0;

impl Emit<'_> {
    pub(super) fn erf(&mut self, x: Val) -> Val {
        let square = self.mul(x, x);
        let p = self.poly_rounded(square, &NEAR);
        let near = self.mul_add(p, x, x);
        // Beyond 4 the result is ±1.
        let (t, most) = (self.abs(x), self.c(4.0));
        let above = self.lt(most, t);
        let t = self.select(above, most, t);
        let p = self.poly_rounded(t, &FAR);
        let minus = self.neg(t);
        let log = self.mul_add(p, t, minus);
        let rest = self.map(ScalarFn::Exp, &[log]);
        let one = self.c(1.0);
        let far = self.sub(one, rest);
        let far = self.signed_as(far, x);
        let border = self.c(0.927_734_4);
        let is_far = self.lt(border, t);
        self.select(is_far, far, near)
    }

    pub(super) fn erfc(&mut self, x: Val) -> Val {
        let (one, two, zero) = (self.c(1.0), self.c(2.0), self.c(0.0));
        // From here on the result is 0.
        let (a, most) = (self.abs(x), self.c(10.0625));
        let above = self.lt(most, a);
        let a = self.select(above, most, a);
        let q = self.complement_argument(a);
        let p = self.poly(q, &COMPLEMENT);
        // (1 + p) / (1 + 2a), and once more its remainder
        let divisor = self.fma(two, a, one);
        let inverse = self.div(one, divisor);
        let quotient = self.fma(p, inverse, inverse);
        let (minus, half) = (self.neg(a), self.c(0.5));
        let rest = self.fma(quotient, minus, half);
        let over = self.sub(p, quotient);
        let rest = self.fma(rest, two, over);
        let quotient = self.fma(rest, inverse, quotient);
        let square = self.mul(a, a);
        let tail = self.fma(minus, a, square);
        let square = self.neg(square);
        let power = self.exp_with_tail(square, tail);
        let y = self.mul(quotient, power);
        let mirrored = self.sub(two, y);
        let negative = self.lt(x, zero);
        self.select(negative, mirrored, y)
    }

    pub(super) fn erfinv(&mut self, x: Val) -> Val {
        let (one, infinity, a) = (self.c(1.0), self.c(f32::INFINITY), self.abs(x));
        // The difference is exact where it is small.
        let (below, above) = (self.sub(one, a), self.add(one, a));
        let rest = self.mul(below, above);
        let log = self.map(ScalarFn::Log, &[rest]);
        let l = self.neg(log);
        let near = self.poly_rounded(l, &INVERSE_NEAR);
        let (nine, middle) = (self.c(9.0), self.c(MIDDLE));
        let beyond = self.sub(l, nine);
        let far = self.poly_rounded(beyond, &INVERSE_FAR);
        let is_far = self.lt(middle, l);
        let ratio = self.select(is_far, far, near);
        let is_end = self.eq(a, one);
        let ratio = self.select(is_end, infinity, ratio);
        self.mul(ratio, x)
    }

    /// `(a − 2) / (a + 2)` to the last place: `1 − 4 / (a + 2)` and its remainder.
    fn complement_argument(&mut self, a: Val) -> Val {
        let (one, two, four) = (self.c(1.0), self.c(2.0), self.c(-4.0));
        let sum = self.add(a, two);
        let inverse = self.div(one, sum);
        let q = self.fma(four, inverse, one);
        let (next, minus_two, minus) = (self.add(q, one), self.c(-2.0), self.neg(a));
        let rest = self.fma(next, minus_two, a);
        let rest = self.fma(minus, q, rest);
        self.fma(inverse, rest, q)
    }
}
