//! Quotients of the lanes of a row by one number: its reciprocal is computed once, and products with it are corrected by
//! what remains. Where a quotient is only rounded to bf16 they need not be, unless one lies where its rounding might differ:
//! then those of its vector are.
//! Lanes for which this might not be exact are divided as any others.

use fusewright_abi::DType;
use fusewright_graph::{Rounding, ScalarFn};
use inkwell::values::{FloatValue, IntValue};
use inkwell::{FloatPredicate, IntPredicate};

use super::rows::{Known, Rows};
use crate::backend::llvm::map::map;
use crate::backend::llvm::{Built, Value};
use crate::kernel::{Inst, InstOp, Shape};

/// Divisors lie between this power of two and its reciprocal, or lanes are divided as any others.
const EXPONENT: i32 = 60;
/// As do lanes that are not zero: so are quotients normal, and remainders exact.
const LEAST: f32 = 1.0 / (1u64 << EXPONENT) as f32;

/// Distance from the middle between two bf16, in bits of an f32, within which a rough quotient does not decide. It is
/// at most two off: half of one by the rounded product, and one and a bit by the reciprocal.
const NEAR: i64 = 4;

impl<'c> Rows<'_, 'c> {
    /// A lane of a quotient of a row by a number for all lanes of a vector, with its neighbours.
    pub fn row_quotient(&mut self, inst: &Inst, vector: usize, place: usize) -> Built<Option<Value<'c>>> {
        let &[x, by] = inst.args.as_slice() else { return Ok(None) };
        let one_for_all = matches!(self.segment.ty(by).shape, Shape::Scalar | Shape::Group { .. });
        let of_lanes = matches!(self.segment.ty(x).shape, Shape::Row(_)) && self.segment.ty(x).dtype == DType::F32;
        if !one_for_all || !of_lanes || self.ranges.constant(by).is_some() {
            return Ok(None);
        }
        let lanes = self.own(vector).to_vec();
        let shape = self.segment.ty(x).shape.clone();
        let by = self.operand(by, &shape, lanes[0])?;
        let xs = lanes.iter().map(|&lane| self.element(x, lane)).collect::<Built<Vec<_>>>()?;
        let reciprocal = self.reciprocal_for_all(by)?;
        let users = self.users_of_quotient(inst);
        let ordinary = self.is_ordinary(by)?;
        let found = if users == Users::RoundToBf16 {
            let rough = xs.iter().map(|&x| self.product(x, reciprocal)).collect::<Built<Vec<_>>>()?;
            let fine = self.code.b.build_and(ordinary, self.none_near_a_tie(&rough)?, "")?;
            // A warp in eight has a lane near a tie, and its block waits for it.
            self.branch(fine, |_| Ok(rough), |rows| rows.corrected_all(&xs, (by, reciprocal, ordinary), Users::Any))?
        } else {
            self.corrected_all(&xs, (by, reciprocal, ordinary), users)?
        };
        for (&lane, &element) in lanes.iter().zip(&found) {
            self.known_scope().insert(Known::Element(inst.results[0], lane), element);
        }
        Ok(found.get(place).copied())
    }

    /// The reciprocal of a divisor, once for all vectors.
    fn reciprocal_for_all(&mut self, by: Value<'c>) -> Built<Value<'c>> {
        let key = Known::Reciprocal(by.into_float_value());
        if let Some(known) = self.known(&key) {
            return Ok(known);
        }
        let found = self.newton_reciprocal(by)?;
        self.known_scope().insert(key, found);
        Ok(found)
    }

    /// Quotients that are corrected once, or where those may not be exact, divided as any others.
    fn corrected_all(
        &mut self,
        xs: &[Value<'c>],
        (by, reciprocal, ordinary): (Value<'c>, Value<'c>, IntValue<'c>),
        users: Users,
    ) -> Built<Vec<Value<'c>>> {
        let quotients = xs.iter().map(|&x| self.corrected(x, by, reciprocal)).collect::<Built<Vec<_>>>()?;
        let fine = match users {
            Users::HideWhatIsTiny => self.all_finite(&quotients)?,
            _ => self.code.b.build_and(self.all_finite(&quotients)?, self.none_tiny(xs)?, "")?,
        };
        let exact = self.code.b.build_and(ordinary, fine, "")?;
        let divided =
            |rows: &mut Self| xs.iter().map(|&x| map(rows.code, ScalarFn::Div, DType::F32, &[x, by])).collect();
        self.branch(exact, |_| Ok(quotients), divided)
    }

    /// A product with the reciprocal, at most two bits off the quotient.
    fn product(&self, x: Value<'c>, reciprocal: Value<'c>) -> Built<Value<'c>> {
        Ok(self.code.b.build_float_mul(x.into_float_value(), reciprocal.into_float_value(), "")?.into())
    }

    /// The same corrected once: the steps that the assembler makes of a division whose operands are neither great nor
    /// small.
    fn corrected(&self, x: Value<'c>, by: Value<'c>, reciprocal: Value<'c>) -> Built<Value<'c>> {
        let first = self.product(x, reciprocal)?;
        // By what is too much, of which a zero is one without a sign: by a divisor above zero, a negative zero stays one.
        let excess = self.fma(first, by, self.negative(x)?)?;
        self.fma(excess, self.negative(reciprocal)?, first)
    }

    /// Whether a divisor is above zero, and neither great nor small.
    fn is_ordinary(&self, by: Value<'c>) -> Built<IntValue<'c>> {
        let bound = |x: f32| self.code.float(by, f64::from(x)).into_float_value();
        let compare =
            |predicate, b: FloatValue<'c>| self.code.b.build_float_compare(predicate, by.into_float_value(), b, "");
        let low = compare(FloatPredicate::OGE, bound(LEAST))?;
        let high = compare(FloatPredicate::OLE, bound(LEAST.recip()))?;
        Ok(self.code.b.build_and(low, high, "")?)
    }

    /// Whether all are finite: a sum of their products with zero is zero.
    fn all_finite(&self, values: &[Value<'c>]) -> Built<IntValue<'c>> {
        let Some(&any) = values.first() else { return Ok(self.code.ctx.bool_type().const_all_ones()) };
        let zero = self.code.float(any, 0.0);
        let sum = values.iter().try_fold(zero, |sum, &value| self.fma(value, zero, sum))?;
        Ok(self.code.b.build_float_compare(FloatPredicate::OEQ, sum.into_float_value(), zero.into_float_value(), "")?)
    }

    /// Whether none but zeros are small: twice their bits less one, of which a zero is the greatest.
    fn none_tiny(&self, values: &[Value<'c>]) -> Built<IntValue<'c>> {
        let least = self.least_shifted(values, 1, -1)?;
        self.code.cmp(IntPredicate::UGE, least, self.code.i32(2 * i64::from(LEAST.to_bits()) - 1))
    }

    /// Whether no value has in its low half what is near to the middle between two bf16.
    fn none_near_a_tie(&self, values: &[Value<'c>]) -> Built<IntValue<'c>> {
        let most = NEAR - 0x8000;
        let least = match self.frame.arch.packed && values.len().is_multiple_of(2) {
            true => self.least_low_half(values, most)?,
            false => self.least_shifted(values, 16, most << 16)?,
        };
        self.code.cmp(IntPredicate::UGE, least, self.code.i32((2 * NEAR + 2) << 16))
    }

    /// The least of the low halves of f32, without a sign, after they were added to: in the high half, above any bits. Two
    /// of them are in one instruction.
    fn least_low_half(&self, values: &[Value<'c>], more: i64) -> Built<IntValue<'c>> {
        let code = self.code;
        let half = code.int_type(16);
        let mut least = code.splat_const(half.const_all_ones().into(), 2);
        for pair in values.chunks(2) {
            let mut halves = half.vec_type(2).get_undef();
            for (i, &value) in pair.iter().enumerate() {
                let low = code.resize(code.bits_of(value)?.into_int_value(), 16)?;
                halves = code.b.build_insert_element(halves, low, code.i32(i as i64), "")?;
            }
            least = code.same("llvm.umin", &[least, code.plus(halves.into(), more)?])?;
        }
        let both = code.b.build_bit_cast(least, code.ctx.i32_type(), "")?;
        Ok(code.same("llvm.umin", &[both, code.shl(both, 16)?])?.into_int_value())
    }

    /// The least of the bits of f32, without a sign, after they were moved up and added to.
    fn least_shifted(&self, values: &[Value<'c>], places: i64, more: i64) -> Built<IntValue<'c>> {
        let code = self.code;
        let mut least: Value<'c> = code.ctx.i32_type().const_all_ones().into();
        for &value in values {
            least = code.same("llvm.umin", &[least, code.plus(code.shl(code.bits_of(value)?, places)?, more)?])?;
        }
        Ok(least.into_int_value())
    }

    fn users_of_quotient(&self, inst: &Inst) -> Users {
        let users = || self.segment.insts.iter().filter(|user| user.args.contains(&inst.results[0]));
        let only = |fits: fn(&InstOp) -> bool| users().next().is_some() && users().all(|user| fits(&user.op));
        if only(|op| matches!(op, InstOp::Cast { to: DType::BF16, round: Rounding::NearestEven, saturate: false })) {
            Users::RoundToBf16
        } else if only(|op| matches!(op, InstOp::Cast { to: DType::F8E4M3 | DType::F8E5M2, .. })) {
            Users::HideWhatIsTiny
        } else {
            Users::Any
        }
    }
}

/// What a quotient is used for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Users {
    /// It is only rounded to bf16.
    RoundToBf16,
    /// It is only converted to codes of 8 bits, in which what is tiny is zero.
    HideWhatIsTiny,
    Any,
}
