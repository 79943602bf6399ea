//! Correctly rounded quotients, reciprocals and roots of operands that are known to lie in the normal range: the sequences
//! that the instructions of the architecture consist of there, without what they have for all other operands. A kernel's
//! rows wait for few of these, one after the other; calls of the general forms are most of what that takes.

use fusewright_abi::DType;
use fusewright_graph::{NanRule, ReduceOp, ScalarFn};
use inkwell::FloatPredicate;
use inkwell::values::IntValue;

use super::rows::Rows;
use crate::backend::llvm::{Built, Value};
use crate::kernel::{Inst, InstOp, Val};

/// Reciprocals of what is at most that are normal, with all bits of the remainders on the way.
const MOST: f64 = (1u128 << 120) as f64;
/// `1.5 · 2²³`, whose neighbours are one apart.
const ROUND: f64 = 12_582_912.0;
/// Greatest constant divisor whose reciprocal is used.
const MOST_DIVISOR: f64 = (1u64 << 60) as f64;
/// Greatest relative error of a reciprocal with which one correction of a quotient is enough: two halves of an ulp.
const ONE_CORRECTION: f64 = 1.0 / (1u64 << 25) as f64;

impl<'c> Rows<'_, 'c> {
    /// The result of a division or root at a lane, if its operands lie where a short sequence is exact.
    pub fn in_range(&mut self, inst: &Inst, lane: IntValue<'c>) -> Built<Option<Value<'c>>> {
        let InstOp::Map(f) = inst.op else { return Ok(None) };
        match (f, inst.args.as_slice()) {
            (ScalarFn::Div, &[x, by]) => match (self.ranges.constant(x), self.ranges.constant(by)) {
                (_, Some(constant)) => {
                    let exact = (constant as f32).to_bits() & 0x7f_ffff == 0 && (1.0..MOST).contains(&constant);
                    let x_is_positive = self.ranges.get(x).least >= 0.0;
                    let fits = self.ranges.is_far_from_zero(x) || self.ranges.hides_what_is_tiny(inst.results[0]);
                    if exact {
                        let x = self.element(x, lane)?;
                        self.multiplied(x, 1.0 / constant).map(Some)
                    } else if x_is_positive && fits && (1.0..MOST_DIVISOR).contains(&constant) {
                        let x = self.element(x, lane)?;
                        self.quotient_by(x, constant as f32).map(Some)
                    } else {
                        Ok(None)
                    }
                }
                (Some(1.0), None) if self.ranges.is_far_from_zero(by) && self.ranges.get(by).most <= MOST => {
                    let x = self.element(by, lane)?;
                    self.reciprocal(x).map(Some)
                }
                _ => Ok(None),
            },
            (ScalarFn::Sqrt, &[x]) if self.ranges.is_far_from_zero(x) => {
                let x = self.element(x, lane)?;
                self.root(x).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// A code of 8 bits of what was rounded and bounded, at a lane: added to a number whose last bit is worth one, bounded
    /// values are rounded, and the code is the low byte. A NaN is code 0, as it is in conversions.
    pub fn byte_code(&mut self, inst: &Inst, lane: IntValue<'c>) -> Built<Option<Value<'c>>> {
        let InstOp::Cast { to: to @ (DType::I8 | DType::U8), .. } = inst.op else { return Ok(None) };
        let Some((x, [low, high])) = self.rounded_within(inst.args[0]) else { return Ok(None) };
        if low < -f64::from(1 << 20) || high >= f64::from(1 << to.bits()) {
            return Ok(None);
        }
        let within = self.scaled_to(x).is_some_and(|most| most <= high && -most >= low);
        let x = self.element(x, lane)?;
        let code = self.code;
        let ty = [code.ctx.f32_type().into()];
        let bounded = if within {
            x
        } else {
            let bounded = code.call("llvm.maximum", &ty, &[x, code.float(x, low)])?;
            code.call("llvm.minimum", &ty, &[bounded, code.float(x, high)])?
        };
        let sum = code.b.build_float_add(bounded.into_float_value(), code.float(x, ROUND).into_float_value(), "")?;
        let bits = code.bits(sum, code.ctx.i32_type())?;
        let nan: Value<'c> = code.i32(i64::from((ROUND as f32).to_bits()) + (1 << to.bits())).into();
        let bits = code.call("llvm.umin", &[code.ctx.i32_type().into()], &[bits, nan])?;
        Ok(Some(code.resize(bits.into_int_value(), to.bits())?.into()))
    }

    /// The integer that a product rounds to at most, if its factor scales the greatest magnitude of its row or group to
    /// that: `x · (1 / s)` with `s` at least that magnitude by the integer, each rounded once, is no half above it.
    fn scaled_to(&self, product: Val) -> Option<f64> {
        let inst = |value: Val| &self.segment.insts[self.defining[value.0 as usize]];
        let map = |value: Val, f: ScalarFn| match inst(value).op {
            InstOp::Map(of) if of == f => Some(inst(value).args.as_slice()),
            _ => None,
        };
        let &[x, factor] = map(product, ScalarFn::Mul)? else { return None };
        let &[one, scale] = map(factor, ScalarFn::Div)? else { return None };
        // Of a scale below the normal numbers the errors are not small.
        let &[quotient, floor] = map(scale, ScalarFn::Max)? else { return None };
        self.ranges.constant(floor).filter(|_| self.ranges.is_far_from_zero(floor))?;
        let &[greatest, most] = map(quotient, ScalarFn::Div)? else { return None };
        let reduce = inst(greatest);
        let magnitudes = *reduce.args.first()?;
        let is_greatest = matches!(reduce.op, InstOp::Reduce { op: ReduceOp::Max, nan: NanRule::Propagate, .. });
        let most = self.ranges.constant(most)?;
        let small = (1.0..=f64::from(1 << 16)).contains(&most) && most.fract() == 0.0;
        let fits = is_greatest && small && self.ranges.constant(one) == Some(1.0);
        (fits && *map(magnitudes, ScalarFn::Abs)? == [x]).then_some(most)
    }

    /// What is rounded to the nearest integer and then bounded by two integers, and the bounds.
    fn rounded_within(&self, value: Val) -> Option<(Val, [f64; 2])> {
        let map = |value: Val| {
            let inst = &self.segment.insts[self.defining[value.0 as usize]];
            match inst.op {
                InstOp::Map(f) if self.segment.ty(value).dtype == DType::F32 => Some((f, inst.args.as_slice())),
                _ => None,
            }
        };
        let bounded = |value: Val, by: ScalarFn| match map(value)? {
            (f, &[a, b]) if f == by => match (self.ranges.constant(a), self.ranges.constant(b)) {
                (_, Some(bound)) => Some((a, bound)),
                (Some(bound), None) => Some((b, bound)),
                _ => None,
            },
            _ => None,
        };
        let (inner, low, high) = match bounded(value, ScalarFn::Min) {
            Some((inner, high)) => bounded(inner, ScalarFn::Max).map(|(inner, low)| (inner, low, high))?,
            None => {
                let (inner, low) = bounded(value, ScalarFn::Max)?;
                bounded(inner, ScalarFn::Min).map(|(inner, high)| (inner, low, high))?
            }
        };
        let (ScalarFn::RoundEven, &[x]) = map(inner)? else { return None };
        (low <= high && low.fract() == 0.0 && high.fract() == 0.0).then_some((x, [low, high]))
    }

    pub fn multiplied(&self, x: Value<'c>, by: f64) -> Built<Value<'c>> {
        Ok(self.code.b.build_float_mul(x.into_float_value(), self.code.float(x, by).into_float_value(), "")?.into())
    }

    /// `a · b + c`, rounded once.
    pub fn fma(&self, a: Value<'c>, b: Value<'c>, c: Value<'c>) -> Built<Value<'c>> {
        self.code.call("llvm.fma", &[a.get_type()], &[a, b, c])
    }

    pub fn negative(&self, x: Value<'c>) -> Built<Value<'c>> {
        Ok(self.code.b.build_float_neg(x.into_float_value(), "")?.into())
    }

    /// `found`, unless `x` is infinite, of which remainders are NaN.
    fn unless_infinite(&self, x: Value<'c>, infinite: Value<'c>, found: Value<'c>) -> Built<Value<'c>> {
        let infinity = self.code.float(x, f64::INFINITY).into_float_value();
        let is = self.code.b.build_float_compare(FloatPredicate::OEQ, x.into_float_value(), infinity, "")?;
        self.code.select(is, infinite, found)
    }

    /// A quotient by a constant: a product with the rounded reciprocal, then corrected by what remains, which is exact.
    fn quotient_by(&self, x: Value<'c>, divisor: f32) -> Built<Value<'c>> {
        let (reciprocal, corrections) = quotient_of(divisor);
        let constant = |value: f32| self.code.float(x, f64::from(value));
        let first = self.multiplied(x, f64::from(reciprocal))?;
        let mut quotient = first;
        for _ in 0..corrections {
            let rest = self.fma(quotient, constant(-divisor), x)?;
            quotient = self.fma(rest, constant(reciprocal), quotient)?;
        }
        self.unless_infinite(x, first, quotient)
    }

    /// One Newton step from the approximate instruction: of what is neither great nor small.
    pub fn newton_reciprocal(&self, x: Value<'c>) -> Built<Value<'c>> {
        let start = self.code.call("llvm.nvvm.rcp.approx.ftz.f", &[], &[x])?;
        let rest = self.fma(self.negative(x)?, start, self.code.float(x, 1.0))?;
        self.fma(start, rest, start)
    }

    /// The same of an infinity as well.
    fn reciprocal(&self, x: Value<'c>) -> Built<Value<'c>> {
        let found = self.newton_reciprocal(x)?;
        self.unless_infinite(x, self.code.float(x, 0.0), found)
    }

    /// One step from the approximate reciprocal root.
    fn root(&self, x: Value<'c>) -> Built<Value<'c>> {
        let start = self.code.call("llvm.nvvm.rsqrt.approx.ftz.f", &[], &[x])?;
        let root = self.code.b.build_float_mul(x.into_float_value(), start.into_float_value(), "")?.into();
        let half = self.multiplied(start, 0.5)?;
        let rest = self.fma(self.negative(root)?, root, x)?;
        let found = self.fma(rest, half, root)?;
        self.unless_infinite(x, x, found)
    }
}

/// The rounded reciprocal of a divisor, and how many corrections a product with it needs to be the rounded quotient.
fn quotient_of(divisor: f32) -> (f32, u32) {
    let reciprocal = (1.0 / f64::from(divisor)) as f32;
    let error = (f64::from(reciprocal) * f64::from(divisor) - 1.0).abs();
    (reciprocal, if error <= ONE_CORRECTION { 1 } else { 2 })
}

#[cfg(test)]
mod tests {
    use super::quotient_of;
    use crate::backend::cuda::range::Ranges;
    use crate::backend::cuda::rows::defining;
    use crate::kernel::{Kernel, Val};

    #[test]
    fn corrected_products_are_rounded_quotients() {
        for divisor in [3.0f32, 7.0, 127.0, 448.0, 4097.0, 5120.0, 12_288.0, 16_777_215.0, 1.999_999_9] {
            let (reciprocal, corrections) = quotient_of(divisor);
            // Mantissas far apart, and those at both ends.
            let far = (0..1u32 << 23).step_by(61);
            for mantissa in far.chain(0..512).chain((1 << 23) - 512..1 << 23) {
                let x = f32::from_bits(0x3f80_0000 | mantissa);
                let mut quotient = x * reciprocal;
                for _ in 0..corrections {
                    quotient = quotient.mul_add(-divisor, x).mul_add(reciprocal, quotient);
                }
                assert_eq!(quotient, x / divisor, "{x} / {divisor}");
            }
        }
    }

    #[test]
    fn bounds_follow_from_what_values_are() {
        let text = "kernel @k(s = extent(x, 0)) rows s {
            param %x: f32[s, 64] in
            param %y: f32[s] out
            segment @rows inner 1 {
              %0 = load x[lane + row*64] : row<f32, 64>
              %1 = mul %0, %0
              %2 = reduce add %1 over row nan propagate order tree(8, 4, 2)
              %3 = literal f32 64.0
              %4 = div %2, %3
              %5 = literal f32 0.5
              %6 = add %4, %5
              %7 = sqrt %6
              %8 = add %0, %5
              store y[row], %7
            }
          }";
        let kernel: Kernel = text.parse().expect("the text is right");
        let defining = defining(&kernel.segments[0]);
        let ranges = Ranges::of(&kernel.segments[0], &defining);
        let least = |value: u32| ranges.get(Val(value)).least;
        assert_eq!([least(0), least(8)], [f64::NEG_INFINITY; 2]);
        assert_eq!([least(1), least(2), least(4), least(6)], [0.0, 0.0, 0.0, 0.5]);
        assert!(ranges.is_far_from_zero(Val(6)) && ranges.is_far_from_zero(Val(7)));
        assert!(!ranges.is_far_from_zero(Val(2)));
        // The sum is divided and then added to a half; the elements are used otherwise.
        assert!(ranges.hides_what_is_tiny(Val(2)) && !ranges.hides_what_is_tiny(Val(0)));
    }
}
