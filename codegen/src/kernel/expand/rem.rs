//! `rem` in `f32`: exact, by long division in `f64`, 28 bits of the quotient at a time.
//!
//! Every partial remainder has at most 53 bits, so the products and differences are exact; the quotient digit may be
//! one too large, which shows as a negative remainder.

use fusewright_graph::{DType, ScalarFn};

use super::emit::Emit;
use crate::kernel::Val;

/// The quotient of two finite `f32` is below `2^278`.
const STEPS: i32 = 10;
const DIGIT: i32 = 28;

impl Emit<'_> {
    pub(super) fn rem(&mut self, a: Val, b: Val) -> Val {
        let (a_size, b_size) = (self.abs(a), self.abs(b));
        let mut rest = self.cast(a_size, DType::F64);
        let divisor = self.cast(b_size, DType::F64);
        let zero = self.d(0.0);
        for step in (0..STEPS).rev() {
            let scale = self.d(2f64.powi(step * DIGIT));
            let scaled = self.mul(divisor, scale);
            let quotient = self.div(rest, scaled);
            let digit = self.raw(ScalarFn::Trunc, &[quotient]);
            let minus = self.neg(digit);
            let left = self.fma(minus, scaled, rest);
            let negative = self.lt(left, zero);
            let repaired = self.add(left, scaled);
            rest = self.select(negative, repaired, left);
        }
        let rest = self.cast(rest, DType::F32);
        let rest = self.copysign(rest, a);
        // An infinite divisor leaves a finite dividend as it is.
        let infinity = self.c(f32::INFINITY);
        let unbounded = self.eq(b_size, infinity);
        let finite = self.lt(a_size, infinity);
        let whole = self.and(unbounded, finite);
        self.select(whole, a, rest)
    }
}
