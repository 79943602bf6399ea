//! `pow` in `f32`: at most 3 ulp, with the special values of C's `pow`.
//!
//! `exp(b · log|a|)` with the logarithm and the product as sums of two values.

use fusewright_graph::ScalarFn;

use super::emit::Emit;
use crate::kernel::Val;

impl Emit<'_> {
    pub(super) fn pow(&mut self, a: Val, b: Val) -> Val {
        let magnitude = self.abs(a);
        let (high, low) = self.log_pair(magnitude);
        let product = self.mul(high, b);
        let minus = self.neg(product);
        let error = self.fma(high, b, minus);
        let tail = self.fma(low, b, error);
        // Where the result is 0 or infinity anyway, the tail is large or NaN.
        let (zero, one, infinity) = (self.c(0.0), self.c(1.0), self.c(f32::INFINITY));
        let (size, most) = (self.abs(product), self.c(128.0));
        let bounded = self.lt(size, most);
        let tail = self.select(bounded, tail, zero);
        let y = self.exp_with_tail(product, tail);
        // A base of 0 or infinity, whichever the sign of the exponent.
        let falls = self.lt(b, zero);
        let (of_zero, of_infinity) = (self.select(falls, infinity, zero), self.select(falls, zero, infinity));
        let (is_zero, is_infinite) = (self.eq(magnitude, zero), self.eq(magnitude, infinity));
        let y = self.select(is_zero, of_zero, y);
        let y = self.select(is_infinite, of_infinity, y);
        let y = self.pow_of_infinity(magnitude, b, y);
        let y = self.pow_sign(a, b, y, is_infinite);
        // NaN, unless the base is 1 or the exponent 0.
        let (a_is_nan, b_is_nan) = (self.ne(a, a), self.ne(b, b));
        let unordered = self.or(a_is_nan, b_is_nan);
        let sum = self.add(a, b);
        let y = self.select(unordered, sum, y);
        let (base_one, no_exponent) = (self.eq(a, one), self.eq(b, zero));
        let trivial = self.or(base_one, no_exponent);
        self.select(trivial, one, y)
    }

    /// The result where the exponent is infinite.
    fn pow_of_infinity(&mut self, magnitude: Val, b: Val, y: Val) -> Val {
        let (zero, one, infinity) = (self.c(0.0), self.c(1.0), self.c(f32::INFINITY));
        let size = self.abs(b);
        let infinite = self.eq(size, infinity);
        let (grows, falls) = (self.lt(one, magnitude), self.lt(b, zero));
        let (of_large, of_small) = (self.select(falls, zero, infinity), self.select(falls, infinity, zero));
        let limit = self.select(grows, of_large, of_small);
        let unit = self.eq(magnitude, one);
        let limit = self.select(unit, one, limit);
        self.select(infinite, limit, y)
    }

    /// Negative bases: NaN for exponents that are no integers, a minus sign for odd ones.
    fn pow_sign(&mut self, a: Val, b: Val, y: Val, is_infinite: Val) -> Val {
        let (zero, half, none) = (self.c(0.0), self.c(0.5), self.c(f32::NAN));
        let whole = self.raw(ScalarFn::Trunc, &[b]);
        let integer = self.eq(whole, b);
        let halved = self.mul(b, half);
        let whole = self.raw(ScalarFn::Trunc, &[halved]);
        let not_even = self.ne(whole, halved);
        let odd = self.and(integer, not_even);
        let sign = self.is_negative(a);
        let flips = self.and(sign, odd);
        let minus = self.neg(y);
        let y_signed = self.select(flips, minus, y);
        let below = self.lt(a, zero);
        let fractional = self.raw(ScalarFn::Not, &[integer]);
        let finite = self.raw(ScalarFn::Not, &[is_infinite]);
        let undefined = self.and(below, fractional);
        let undefined = self.and(undefined, finite);
        self.select(undefined, none, y_signed)
    }
}
