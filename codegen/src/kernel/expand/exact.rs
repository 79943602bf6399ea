//! Functions that are short exact sequences of others. `rsqrt` is `1 / sqrt(x)`: two roundings, within 1.5 ulp; the
//! others give the table's value to the bit.

use fusewright_graph::{DType, Literal, ReduceOp, ScalarFn};

use super::emit::Emit;
use crate::kernel::{InstOp, Val};

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

    /// Says whether two numbers may be zeros of both signs, by the instructions that make them.
    pub(super) fn may_be_unlike_zeros(&self, a: Val, b: Val) -> bool {
        let made = [a, b].map(|v| self.definition(v).map(|inst| &inst.op));
        let is_other = |op: &Option<&InstOp>| matches!(op, Some(InstOp::Literal(Literal::Float(_, x))) if *x != 0.0);
        let is_plus = |op: &Option<&InstOp>| match op {
            Some(InstOp::Literal(Literal::Float(_, x))) => x.is_sign_positive(),
            Some(InstOp::Map(f)) => matches!(f, ScalarFn::Abs | ScalarFn::Exp),
            _ => false,
        };
        !made.iter().any(is_other) && !made.iter().all(is_plus)
    }

    /// An extreme of which a zero is that of `-0 < +0`, made of one that gives any of equal numbers. Equal numbers differ in the
    /// sign of zero alone: a maximum has the minus that both have, a minimum that of any.
    pub(super) fn with_zeros_ordered(&mut self, f: ScalarFn, [a, b]: [Val; 2], found: Val) -> Val {
        let (x, y) = (self.bits(a), self.bits(b));
        let most = matches!(f, ScalarFn::Max | ScalarFn::MaxNum);
        let bits = if most { self.and(x, y) } else { self.or(x, y) };
        let zero = self.bitcast(bits, DType::F32);
        let equal = self.raw(ScalarFn::Eq, &[a, b]);
        self.select(equal, zero, found)
    }

    /// The extreme of a row, or of each of its groups, of which a zero is that of `-0 < +0`, made of one that gives any of equal
    /// numbers. A second extreme, of the reciprocals of zeros, tells the sign.
    pub(super) fn extreme_with_zeros_ordered(&mut self, op: &InstOp, extreme: ReduceOp, x: Val, found: Val) -> Val {
        let dtype = self.dtype(found);
        let widened = |emit: &mut Self, v| if dtype == DType::F32 { v } else { emit.cast(v, DType::F32) };
        let (x, wide) = (widened(self, x), widened(self, found));
        let zero = self.c(0.0);
        let beyond = self.c(if extreme == ReduceOp::Max { f32::NEG_INFINITY } else { f32::INFINITY });
        let (infinity, is_zero) = (self.recip(x), self.raw(ScalarFn::Eq, &[x, zero]));
        let infinities = self.select(is_zero, infinity, beyond);
        let infinity = self.one(op.clone(), &[infinities]);
        let (ordered, is_zero) = (self.recip(infinity), self.raw(ScalarFn::Eq, &[wide, zero]));
        let ordered = if dtype == DType::F32 { ordered } else { self.cast(ordered, dtype) };
        self.select(is_zero, ordered, found)
    }

    /// `(a | b) & ~(a & b)`.
    pub(super) fn xor(&mut self, a: Val, b: Val) -> Val {
        let (any, both) = (self.or(a, b), self.and(a, b));
        let not_both = self.raw(ScalarFn::Not, &[both]);
        self.and(any, not_both)
    }

    /// The nearest `i32` to a sum of two: it overflows if its sign is that of neither operand.
    pub(super) fn saturating_add(&mut self, a: Val, b: Val) -> Val {
        let sum = self.add(a, b);
        let (from_a, from_b) = (self.raw(ScalarFn::Xor, &[a, sum]), self.raw(ScalarFn::Xor, &[b, sum]));
        let other = self.and(from_a, from_b);
        let (zero, most) = (self.i(0), self.i(i32::MAX));
        let overflows = self.lt(other, zero);
        let sign = self.shr(a, 31);
        let limit = self.raw(ScalarFn::Xor, &[sign, most]);
        self.select(overflows, limit, sum)
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fusewright_graph::DType;

    use crate::kernel::expand::{Column, expand};
    use crate::kernel::interp::{Buffer, run};
    use crate::kernel::{Kernel, Shape};

    const NUMBERS: [i32; 9] = [i32::MIN, i32::MIN + 1, -129, -1, 0, 1, 127, i32::MAX - 1, i32::MAX];

    #[test]
    fn sums_of_64_bits_between_bounds_are_made_in_32() {
        let n = NUMBERS.len();
        let given = |of: &dyn Fn(usize) -> i32| (0..n * n).flat_map(|i| of(i).to_le_bytes()).collect::<Vec<u8>>();
        let (a, b) = (given(&|i| NUMBERS[i / n]), given(&|i| NUMBERS[i % n]));
        for (first, second) in [("max %s, %l", "min %m, %h"), ("min %h, %s", "max %l, %m")] {
            let text = format!(
                "kernel @k() rows 1 {{ param %x: i32[81] in param %z: i32[81] in param %y: i8[81] out \
                 segment @m inner 1 {{ %a = load x[lane] : row<i32, 81> %b = load z[lane] : row<i32, 81> \
                 %p = cast %a to i64 rne sat %q = cast %b to i64 rne sat %s = add %p, %q \
                 %l = literal i64 -128 %h = literal i64 127 %m = {first} %t = {second} \
                 %c = cast %t to i8 rne sat store y[lane], %c }} }}"
            );
            let kernel: Kernel = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
            let expanded = expand(&kernel, Column::Cpu).expect("expands");
            let wide = |ty: &crate::kernel::Ty| ty.dtype == DType::I64 && matches!(ty.shape, Shape::Row(_));
            assert!(!expanded.segments[0].types.iter().any(wide), "{expanded}");
            let codes = |kernel: &Kernel| {
                let mut buffers = [a.clone(), b.clone(), vec![9; n * n]].map(Buffer::Bytes).to_vec();
                run(kernel, &mut buffers, &BTreeMap::new(), 0..1).expect("runs");
                buffers[2].bytes().to_vec()
            };
            assert_eq!(codes(&expanded), codes(&kernel), "{first}");
        }
    }
}
