//! Writing expansions as formulas: every method adds an instruction. The first error is kept and ends the expansion,
//! so that formulas need not handle it.

use fusewright_graph::{DType, Literal, Rounding, ScalarFn};

use super::Column;
use crate::kernel::infer::InstError;
use crate::kernel::{Inst, InstOp, Segment, SegmentBuilder, Val};

pub(super) struct Emit<'p> {
    builder: SegmentBuilder<'p>,
    pub(super) column: Column,
    error: Option<InstError>,
}

impl<'p> Emit<'p> {
    pub(super) fn new(builder: SegmentBuilder<'p>, column: Column) -> Self {
        Emit { builder, column, error: None }
    }

    /// The results, unless an error is kept.
    pub(super) fn checked(&mut self, results: Vec<Val>) -> Result<Vec<Val>, InstError> {
        self.error.take().map_or(Ok(results), Err)
    }

    pub(super) fn finish(mut self) -> Result<Segment, InstError> {
        self.error.take().map_or_else(|| Ok(self.builder.finish()), Err)
    }

    pub(super) fn dtype(&self, value: Val) -> DType {
        if self.error.is_some() { DType::F32 } else { self.builder.ty(value).dtype }
    }

    /// The instruction that makes a value.
    pub(super) fn definition(&self, value: Val) -> Option<&Inst> {
        self.builder.definition(value).filter(|_| self.error.is_none())
    }

    pub(super) fn inst(&mut self, op: InstOp, args: &[Val]) -> Vec<Val> {
        if self.error.is_none() {
            match self.builder.push(op, args) {
                Ok(results) => return results,
                Err(error) => self.error = Some(error),
            }
        }
        Vec::new()
    }

    /// An instruction of one result.
    pub(super) fn one(&mut self, op: InstOp, args: &[Val]) -> Val {
        self.inst(op, args).first().copied().unwrap_or(Val(0))
    }

    /// Refuses a function; the expansion fails.
    pub(super) fn refuse(&mut self, f: ScalarFn, dtype: DType) -> Val {
        let message = format!("{} has no such function on {dtype}, and it has no expansion", self.column.name());
        self.error.get_or_insert(InstError { op: f.name().to_owned(), message });
        Val(0)
    }

    /// A native function.
    pub(super) fn raw(&mut self, f: ScalarFn, args: &[Val]) -> Val {
        self.one(InstOp::Map(f), args)
    }

    pub(super) fn literal(&mut self, literal: Literal) -> Val {
        self.one(InstOp::Literal(literal), &[])
    }

    /// An `f32` constant.
    pub(super) fn c(&mut self, value: f32) -> Val {
        self.literal(Literal::Float(DType::F32, value.into()))
    }

    /// An `f64` constant.
    pub(super) fn d(&mut self, value: f64) -> Val {
        self.literal(Literal::Float(DType::F64, value))
    }

    /// An `i32` constant.
    pub(super) fn i(&mut self, value: i32) -> Val {
        self.literal(Literal::Int(DType::I32, value.into()))
    }

    /// A float constant of a value's dtype.
    pub(super) fn like(&mut self, value: Val, constant: f64) -> Val {
        let dtype = self.dtype(value);
        self.literal(Literal::Float(dtype, constant))
    }

    /// An integer constant of a value's dtype.
    pub(super) fn like_int(&mut self, value: Val, constant: i64) -> Val {
        let dtype = self.dtype(value);
        self.literal(Literal::Int(dtype, constant))
    }

    pub(super) fn cast(&mut self, value: Val, to: DType) -> Val {
        self.one(InstOp::Cast { to, round: Rounding::NearestEven, saturate: false }, &[value])
    }

    pub(super) fn bitcast(&mut self, value: Val, to: DType) -> Val {
        self.one(InstOp::Bitcast(to), &[value])
    }

    /// The bits of an `f32` as `i32`.
    pub(super) fn bits(&mut self, value: Val) -> Val {
        self.bitcast(value, DType::I32)
    }

    /// The `f32` of an `i32`'s bits.
    pub(super) fn float(&mut self, bits: Val) -> Val {
        self.bitcast(bits, DType::F32)
    }

    pub(super) fn add(&mut self, a: Val, b: Val) -> Val {
        self.raw(ScalarFn::Add, &[a, b])
    }

    pub(super) fn sub(&mut self, a: Val, b: Val) -> Val {
        self.raw(ScalarFn::Sub, &[a, b])
    }

    pub(super) fn mul(&mut self, a: Val, b: Val) -> Val {
        self.raw(ScalarFn::Mul, &[a, b])
    }

    pub(super) fn div(&mut self, a: Val, b: Val) -> Val {
        self.raw(ScalarFn::Div, &[a, b])
    }

    pub(super) fn fma(&mut self, a: Val, b: Val, c: Val) -> Val {
        self.raw(ScalarFn::Fma, &[a, b, c])
    }

    pub(super) fn abs(&mut self, a: Val) -> Val {
        self.raw(ScalarFn::Abs, &[a])
    }

    pub(super) fn neg(&mut self, a: Val) -> Val {
        self.raw(ScalarFn::Neg, &[a])
    }

    pub(super) fn and(&mut self, a: Val, b: Val) -> Val {
        self.raw(ScalarFn::And, &[a, b])
    }

    pub(super) fn or(&mut self, a: Val, b: Val) -> Val {
        self.raw(ScalarFn::Or, &[a, b])
    }

    pub(super) fn lt(&mut self, a: Val, b: Val) -> Val {
        self.raw(ScalarFn::Lt, &[a, b])
    }

    pub(super) fn eq(&mut self, a: Val, b: Val) -> Val {
        self.raw(ScalarFn::Eq, &[a, b])
    }

    pub(super) fn ne(&mut self, a: Val, b: Val) -> Val {
        self.raw(ScalarFn::Ne, &[a, b])
    }

    pub(super) fn select(&mut self, condition: Val, a: Val, b: Val) -> Val {
        self.raw(ScalarFn::Select, &[condition, a, b])
    }

    pub(super) fn shl(&mut self, a: Val, places: i32) -> Val {
        let places = self.i(places);
        self.raw(ScalarFn::Shl, &[a, places])
    }

    pub(super) fn shr(&mut self, a: Val, places: i32) -> Val {
        let places = self.i(places);
        self.raw(ScalarFn::Shr, &[a, places])
    }

    /// A polynomial in `f32` by Horner's rule with `fma`; the coefficient of the highest power first.
    pub(super) fn poly(&mut self, x: Val, coefficients: &[f32]) -> Val {
        let mut sum = self.c(coefficients[0]);
        for &coefficient in &coefficients[1..] {
            let coefficient = self.c(coefficient);
            sum = self.fma(sum, x, coefficient);
        }
        sum
    }

    /// `a * b + c` rounded once or twice: where a target may lack the instruction, and the expansion allows for it.
    pub(super) fn mul_add(&mut self, a: Val, b: Val, c: Val) -> Val {
        if self.column != Column::Ascend {
            return self.fma(a, b, c);
        }
        let product = self.mul(a, b);
        self.add(product, c)
    }

    /// As [`Emit::poly`], by [`Emit::mul_add`].
    pub(super) fn poly_rounded(&mut self, x: Val, coefficients: &[f32]) -> Val {
        let mut sum = self.c(coefficients[0]);
        for &coefficient in &coefficients[1..] {
            let coefficient = self.c(coefficient);
            sum = self.mul_add(sum, x, coefficient);
        }
        sum
    }

    /// A magnitude with the sign of a value that is not zero. NPUs compute bits by halves of words, of copies of constants.
    pub(super) fn signed_as(&mut self, magnitude: Val, sign: Val) -> Val {
        if self.column != Column::Ascend {
            return self.copysign(magnitude, sign);
        }
        let (zero, minus) = (self.c(0.0), self.neg(magnitude));
        let negative = self.lt(sign, zero);
        self.select(negative, minus, magnitude)
    }

    /// The magnitude of one `f32` with the sign of another; their bits move.
    pub(super) fn copysign(&mut self, magnitude: Val, sign: Val) -> Val {
        let (m, s) = (self.bits(magnitude), self.bits(sign));
        let (low, high) = (self.i(i32::MAX), self.i(i32::MIN));
        let (m, s) = (self.and(m, low), self.and(s, high));
        let joined = self.or(m, s);
        self.float(joined)
    }
}
