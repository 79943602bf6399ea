//! `sin` and `cos` in `f32`: at most 1.6 ulp for every finite argument below 2⁵⁰; NaN of infinities.
//!
//! The multiple of π/2 is taken off in `f32` with π/2 in three parts (below 2¹⁸), else in `f64` with three parts, so
//! that no bit of the argument is lost; then a polynomial on ±π/4.

use fusewright_graph::{DType, ScalarFn};

use super::emit::Emit;
use crate::kernel::Val;

/// π/2 in parts of 24 bits.
const HALF_PI: [f32; 3] = [std::f32::consts::FRAC_PI_2, -4.371_139e-8, -1.715_124_5e-15];
/// π/2 in parts of 53 bits.
const HALF_PI_WIDE: [f64; 3] = [std::f64::consts::FRAC_PI_2, 6.123_233_995_736_766e-17, -1.497_384_904_859_169_8e-33];
const NEAR: f32 = 262_144.0;

impl Emit<'_> {
    pub(super) fn sin(&mut self, x: Val) -> Val {
        self.turn(x, 0)
    }

    pub(super) fn cos(&mut self, x: Val) -> Val {
        self.turn(x, 1)
    }

    /// `sin(x + quarters · π/2)`.
    fn turn(&mut self, x: Val, quarters: i32) -> Val {
        let (near_r, near_n) = self.reduce_near(x);
        let (far_r, far_n) = self.reduce_far(x);
        let (size, border) = (self.abs(x), self.c(NEAR));
        let is_near = self.lt(size, border);
        let r = self.select(is_near, near_r, far_r);
        let n = self.select(is_near, near_n, far_n);
        let quarters = self.i(quarters);
        let n = self.add(n, quarters);
        let square = self.mul(r, r);
        let sine = {
            let p = self.poly(square, &[2.865_679_6e-6, -1.985_599_2e-4, 8.333_386e-3, -1.666_666_7e-1]);
            let cube = self.mul(square, r);
            self.fma(p, cube, r)
        };
        let cosine = {
            let p = self.poly(square, &[2.446_770_7e-5, -1.388_773e-3, 4.166_665_7e-2]);
            let (half, one) = (self.c(-0.5), self.c(1.0));
            let start = self.fma(square, half, one);
            let fourth = self.mul(square, square);
            self.fma(p, fourth, start)
        };
        let (one, zero) = (self.i(1), self.i(0));
        let odd = self.and(n, one);
        let odd = self.ne(odd, zero);
        let y = self.select(odd, cosine, sine);
        // Quarters 2 and 3 turn the sign, which is the second bit of `n` moved to the top.
        let two = self.i(2);
        let flips = self.and(n, two);
        let flips = self.ne(flips, zero);
        let minus = self.neg(y);
        self.select(flips, minus, y)
    }

    fn reduce_near(&mut self, x: Val) -> (Val, Val) {
        let (two_over_pi, round) = (self.c(std::f32::consts::FRAC_2_PI), self.c(12_582_912.0));
        let t = self.fma(x, two_over_pi, round);
        let n = self.sub(t, round);
        let mut r = x;
        for part in HALF_PI {
            let part = self.c(-part);
            r = self.fma(n, part, r);
        }
        (r, self.bits(t))
    }

    fn reduce_far(&mut self, x: Val) -> (Val, Val) {
        let wide = self.cast(x, DType::F64);
        let scale = self.d(std::f64::consts::FRAC_2_PI);
        let turns = self.mul(wide, scale);
        let n = self.raw(ScalarFn::RoundEven, &[turns]);
        let mut r = wide;
        for part in HALF_PI_WIDE {
            let part = self.d(-part);
            r = self.fma(n, part, r);
        }
        // n modulo 4, small enough for the integer in the low bits of an f32.
        let (quarter, four) = (self.d(0.25), self.d(-4.0));
        let turns = self.mul(n, quarter);
        let turns = self.raw(ScalarFn::Floor, &[turns]);
        let n = self.fma(turns, four, n);
        let (n, round) = (self.cast(n, DType::F32), self.c(12_582_912.0));
        let n = self.add(n, round);
        (self.cast(r, DType::F32), self.bits(n))
    }
}
