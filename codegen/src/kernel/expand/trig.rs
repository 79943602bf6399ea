//! `sin` and `cos` in `f32`: at most 1.6 ulp for every finite argument; NaN of infinities.
//!
//! The multiple of π/2 is taken off in `f32` with π/2 in three parts (below 2¹⁸), else in `f64` from the bits of 2/π that
//! matter to the exponent, so that no bit of the argument is lost; then a polynomial on ±π/4.

use fusewright_graph::{DType, ScalarFn};

use super::emit::Emit;
use crate::kernel::Val;

/// π/2 in parts of 24 bits.
const HALF_PI: [f32; 3] = [std::f32::consts::FRAC_PI_2, -4.371_139e-8, -1.715_124_5e-15];
/// `2^26j · 2/π` modulo 4, in parts of 28 bits.
const TURNS: [[f64; 4]; 4] = [
    [0.636_619_761_586_189_3, 1.078_139_205_690_220_6e-08, 1.615_379_780_392_580_4e-17, 7.696_704_847_356_705e-26],
    [1.723_526_969_552_04, 4.809_353_304_491_282e-09, 1.904_295_894_460_968_7e-17, 6.289_447_096_292_396e-26],
    [1.322_750_225_663_185_1, 1.245_382_219_572_377_4e-08, 4.585_413_976_654_982e-17, 1.750_053_189_864_057_5e-25],
    [1.835_761_860_013_008_1, 3.077_219_201_674_808e-09, 3.949_998_376_676_423_5e-17, 4.868_080_675_790_285_5e-26],
];
/// Exponent of the step from one row of [`TURNS`] to the next, and of the first argument that takes the second row.
const STEP: i32 = 26;
const FIRST: i32 = 50;
/// From here on the multiple of π/2 may have more bits than fit beside the fraction.
const NEAR: f32 = 262_144.0;

impl Emit<'_> {
    pub(super) fn sin(&mut self, x: Val) -> Val {
        let y = self.turn(x, 0);
        // The reduction loses the sign of zero.
        let zero = self.c(0.0);
        let is_zero = self.eq(x, zero);
        self.select(is_zero, x, y)
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

    /// For large arguments: quarter turns modulo 4, part by part. Products of 24 and 28 bits and their remainders are
    /// exact in `f64`.
    fn reduce_far(&mut self, x: Val) -> (Val, Val) {
        let size = self.abs(x);
        let mut scale = self.d(1.0);
        let mut parts = TURNS[0].map(|part| self.d(part));
        for (j, row) in (0..).zip(TURNS).skip(1) {
            let border = self.c(2f32.powi(FIRST + STEP * (j - 1)));
            let below = self.lt(size, border);
            let next = self.d(2f64.powi(-STEP * j));
            scale = self.select(below, scale, next);
            for (part, value) in parts.iter_mut().zip(row) {
                let value = self.d(value);
                *part = self.select(below, *part, value);
            }
        }
        let wide = self.cast(x, DType::F64);
        let y = self.mul(wide, scale);
        let (first, first_n) = self.quarter_turns(y, parts[0]);
        let (second, second_n) = self.quarter_turns(y, parts[1]);
        let turn = self.add(first, second);
        let rest = self.mul(y, parts[3]);
        let rest = self.fma(y, parts[2], rest);
        let turn = self.add(turn, rest);
        let turn_n = self.raw(ScalarFn::RoundEven, &[turn]);
        let (turn, half_pi) = (self.sub(turn, turn_n), self.d(std::f64::consts::FRAC_PI_2));
        let r = self.mul(turn, half_pi);
        let n = self.add(first_n, second_n);
        let n = self.add(n, turn_n);
        let (n, round) = (self.cast(n, DType::F32), self.c(12_582_912.0));
        let n = self.add(n, round);
        (self.cast(r, DType::F32), self.bits(n))
    }

    /// `y · part` modulo 4, as a fraction and the nearest integer.
    fn quarter_turns(&mut self, y: Val, part: Val) -> (Val, Val) {
        let (quarter, four) = (self.d(0.25), self.d(-4.0));
        let product = self.mul(y, part);
        let turns = self.mul(product, quarter);
        let turns = self.raw(ScalarFn::RoundEven, &[turns]);
        let left = self.fma(turns, four, product);
        let n = self.raw(ScalarFn::RoundEven, &[left]);
        (self.sub(left, n), n)
    }
}
