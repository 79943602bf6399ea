//! Points of the plane in `f32`: `atan2`, at most 3 ulp, by an odd polynomial of the lesser coordinate over the greater;
//! `hypot`, at most 1 ulp, with both coordinates scaled where a square would leave the normal range.

use fusewright_graph::ScalarFn;

use super::emit::Emit;
use crate::kernel::Val;

/// `(atan(t) − t) / t³` as a polynomial in `t²`, for `t` up to 1.
const ARC: [f32; 9] = [
    -1.793_593_9e-3,
    1.091_448_1e-2,
    -3.117_761_4e-2,
    5.795_736e-2,
    -8.403_437e-2,
    1.095_218_1e-1,
    -1.426_424_1e-1,
    1.999_854_9e-1,
    -3.333_33e-1,
];

/// What π/2 and π lack as `f32`.
const HALF_PI_REST: f32 = -4.371_139e-8;
const PI_REST: f32 = -8.742_278e-8;

impl Emit<'_> {
    pub(super) fn atan2(&mut self, y: Val, x: Val) -> Val {
        let (zero, one, infinity) = (self.c(0.0), self.c(1.0), self.c(f32::INFINITY));
        let (width, height) = (self.abs(x), self.abs(y));
        let (more, less) = self.by_size(width, height);
        let ratio = self.div(less, more);
        let (origin, diagonal) = (self.eq(more, zero), self.eq(less, infinity));
        let ratio = self.select(origin, zero, ratio);
        let ratio = self.select(diagonal, one, ratio);
        let square = self.mul(ratio, ratio);
        let p = self.poly(square, &ARC);
        let cube = self.mul(square, ratio);
        let arc = self.fma(p, cube, ratio);
        let steep = self.lt(width, height);
        let rest = self.rest_of(std::f32::consts::FRAC_PI_2, HALF_PI_REST, arc);
        let arc = self.select(steep, rest, arc);
        let behind = self.is_negative(x);
        let rest = self.rest_of(std::f32::consts::PI, PI_REST, arc);
        let arc = self.select(behind, rest, arc);
        self.copysign(arc, y)
    }

    pub(super) fn hypot(&mut self, a: Val, b: Val) -> Val {
        let (a, b) = (self.abs(a), self.abs(b));
        let (more, less) = self.by_size(a, b);
        let powers = [62, -62, 96, -96, 0].map(|n| self.c(2f32.powi(n)));
        let [high, low, up, down, one] = powers;
        let (large, small) = (self.lt(high, more), self.lt(more, low));
        let scale = self.select(small, up, one);
        let scale = self.select(large, down, scale);
        let back = self.select(small, down, one);
        let back = self.select(large, up, back);
        let (more, less) = (self.mul(more, scale), self.mul(less, scale));
        let square = self.mul(less, less);
        let sum = self.fma(more, more, square);
        let root = self.raw(ScalarFn::Sqrt, &[sum]);
        let y = self.mul(root, back);
        let infinity = self.c(f32::INFINITY);
        let (a, b) = (self.eq(a, infinity), self.eq(b, infinity));
        let infinite = self.or(a, b);
        self.select(infinite, infinity, y)
    }

    /// The greater and the lesser; NaN both if either is.
    fn by_size(&mut self, a: Val, b: Val) -> (Val, Val) {
        (self.raw(ScalarFn::Max, &[a, b]), self.raw(ScalarFn::Min, &[a, b]))
    }

    /// An angle in two parts less an arc.
    fn rest_of(&mut self, angle: f32, rest: f32, arc: Val) -> Val {
        let (angle, rest) = (self.c(angle), self.c(rest));
        let arc = self.sub(arc, rest);
        self.sub(angle, arc)
    }
}
