//! Functions that are short exact sequences of others. `rsqrt` is `1 / sqrt(x)`: two roundings, within 1.5 ulp; the
//! others give the table's value to the bit.

use fusewright_graph::{DType, ScalarFn};

use super::emit::Emit;
use crate::kernel::Val;

impl Emit<'_> {
    pub(super) fn recip(&mut self, x: Val) -> Val {
        let one = self.like(x, 1.0);
        self.div(one, x)
    }

    pub(super) fn rsqrt(&mut self, x: Val) -> Val {
        let root = self.raw(ScalarFn::Sqrt, &[x]);
        self.recip(root)
    }

    /// `maxnum` or `minnum` from the function that propagates NaN.
    pub(super) fn maxnum(&mut self, propagating: ScalarFn, a: Val, b: Val) -> Val {
        let both = self.raw(propagating, &[a, b]);
        if !self.dtype(a).is_float() {
            return both;
        }
        let (a_is_nan, b_is_nan) = (self.ne(a, a), self.ne(b, b));
        let number = self.select(b_is_nan, a, both);
        self.select(a_is_nan, b, number)
    }

    /// `(a | b) & ~(a & b)`.
    pub(super) fn xor(&mut self, a: Val, b: Val) -> Val {
        let (any, both) = (self.or(a, b), self.and(a, b));
        let not_both = self.raw(ScalarFn::Not, &[both]);
        self.and(any, not_both)
    }

    /// Adding all mantissa bits carries into the exponent exactly if one of them is set.
    pub(super) fn ue8m0_ceil(&mut self, x: Val) -> Val {
        let (magnitude, least) = (self.abs(x), self.c(1e-10));
        let bounded = self.map(ScalarFn::MaxNum, &[magnitude, least]);
        let bits = self.bits(bounded);
        let (mantissa, exponent) = (self.i(0x7f_ffff), self.i(0x7f80_0000));
        let carried = self.add(bits, mantissa);
        let power = self.and(carried, exponent);
        self.float(power)
    }

    /// `a - (a / b) · b`, and 0 where the division has no value of its own: `b` is 0 or −1.
    pub(super) fn rem_int(&mut self, a: Val, b: Val) -> Val {
        let quotient = self.div(a, b);
        let product = self.mul(quotient, b);
        let rest = self.sub(a, product);
        let zero = self.like_int(b, 0);
        let mut none = self.eq(b, zero);
        if self.dtype(b).is_signed_int() {
            let minus_one = self.like_int(b, -1);
            let unit = self.eq(b, minus_one);
            none = self.or(none, unit);
        }
        self.select(none, zero, rest)
    }

    /// Whether an `f32` has its sign bit set.
    pub(super) fn is_negative(&mut self, x: Val) -> Val {
        debug_assert_eq!(self.dtype(x), DType::F32);
        let (bits, zero) = (self.bits(x), self.i(0));
        self.lt(bits, zero)
    }
}
