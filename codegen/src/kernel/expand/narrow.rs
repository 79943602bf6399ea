//! Maps and orderings of floats narrower than 32 bits.
//!
//! `f32` has more than twice the mantissa of each of them, so a sum, product, quotient or root that is rounded to
//! `f32` first rounds to the same narrow value; comparisons, roundings to integers and sign changes are exact anyway.

use fusewright_graph::scalar::Yields;
use fusewright_graph::{DType, Rounding, ScalarFn};

use super::Column;
use super::emit::Emit;
use crate::kernel::{InstOp, Val};

impl Emit<'_> {
    pub(super) fn narrow(&mut self, f: ScalarFn, args: &[Val]) -> Val {
        let dtype = self.dtype(args[0]);
        if f == ScalarFn::Fma {
            return self.narrow_fma(dtype, args);
        }
        let wide: Vec<Val> = args.iter().map(|&v| self.cast(v, DType::F32)).collect();
        let result = self.map(f, &wide);
        match f.spec().yields {
            Yields::Bool => result,
            Yields::Operand => self.cast(result, dtype),
        }
    }

    /// A max or min reduction, `arg_reduce` or `top_k`, on `f32` if its operand is narrower: the order of values is the
    /// same there. (`f8e8m0` stays: it has no value below all others to start from.)
    pub(super) fn ordering(&mut self, op: &InstOp, args: &[Val]) -> Vec<Val> {
        let dtype = self.dtype(args[0]);
        let searched = |emit: &mut Self, x: Val| {
            let mut operands = vec![x];
            operands.extend(args.get(1));
            if matches!(op, InstOp::TopK { .. })
                && operands.len() == 1
                && emit.column == Column::Cpu
                && emit.dtype(x) == DType::F32
            {
                operands.push(emit.order_key(x));
            }
            emit.inst(op.clone(), &operands)
        };
        if !dtype.is_float() || dtype.bits() >= 32 || dtype == DType::F8E8M0 {
            return searched(self, args[0]);
        }
        let wide = self.cast(args[0], DType::F32);
        let mut results = searched(self, wide);
        if let Some(first) = results.first_mut() {
            // Without lanes the result is infinite, or the largest value of a dtype without infinities.
            let saturate = matches!(dtype, DType::F8E4M3 | DType::F4E2M1);
            let cast = InstOp::Cast { to: dtype, round: Rounding::NearestEven, saturate };
            *first = self.inst(cast, &[*first]).first().copied().unwrap_or(Val(0));
        }
        results
    }

    /// The product is exact in `f64`. The sum is rounded to odd: where it is inexact and its last bit is 0, it moves to
    /// the neighbour on the side of the error, so that the cast alone decides the rounding.
    fn narrow_fma(&mut self, dtype: DType, args: &[Val]) -> Val {
        let wide: Vec<Val> = args.iter().map(|&v| self.cast(v, DType::F64)).collect();
        let product = self.mul(wide[0], wide[1]);
        let sum = self.add(product, wide[2]);
        let part = self.sub(sum, product);
        let kept = self.sub(sum, part);
        let (a, b) = (self.sub(product, kept), self.sub(wide[2], part));
        let error = self.add(a, b);
        let (bits, zero) = (self.bitcast(sum, DType::I64), self.d(0.0));
        let (one, none) = (self.like_int(bits, 1), self.like_int(bits, 0));
        let last = self.and(bits, one);
        let even = self.eq(last, none);
        // Neither holds for an infinite or NaN sum, whose error is NaN.
        let (up, down) = (self.lt(zero, error), self.lt(error, zero));
        let (positive, negative) = (self.lt(zero, sum), self.lt(sum, zero));
        let (away_up, away_down) = (self.and(up, positive), self.and(down, negative));
        let (toward_up, toward_down) = (self.and(up, negative), self.and(down, positive));
        let (away, toward) = (self.or(away_up, away_down), self.or(toward_up, toward_down));
        let (away, toward) = (self.and(away, even), self.and(toward, even));
        let (next, previous) = (self.add(bits, one), self.sub(bits, one));
        let odd = self.select(toward, previous, bits);
        let odd = self.select(away, next, odd);
        let odd = self.bitcast(odd, DType::F64);
        self.cast(odd, dtype)
    }
}
