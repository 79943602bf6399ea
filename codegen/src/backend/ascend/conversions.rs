//! Conversions and selections in the forms that vector units have.

use fusewright_abi::DType;
use fusewright_graph::{Literal, Rounding, ScalarFn, num};

use super::prepare::{Made, Rewrite};
use crate::kernel::{InstOp, Val};

impl Rewrite<'_> {
    /// A conversion to integers without the clamp, which saturation is, and without a rounding before it.
    pub fn cast(&mut self, to: DType, round: Rounding, saturate: bool, x: Val) -> Made<Option<Val>> {
        if let Some(value) = self.wide_literal(x).filter(|_| to == DType::F32) {
            return self.builder.one(InstOp::Literal(Literal::Float(DType::F32, value)), &[]).map(Some);
        }
        if self.builder.ty(x).dtype == DType::I64 {
            return self.clamped_sum(to, x);
        }
        if self.builder.ty(x).dtype != DType::F32 || !matches!(to, DType::I8 | DType::U8 | DType::I32 | DType::I16) {
            return Ok(None);
        }
        let (least, most) = match to {
            DType::I8 => (-128.0, 127.0),
            DType::U8 => (0.0, 255.0),
            DType::I16 => (-32768.0, 32767.0),
            _ => (f64::from(i32::MIN), f64::INFINITY),
        };
        let (above, low) = self.without_bound(x, ScalarFn::Max, least);
        let (inside, high) = self.without_bound(above, ScalarFn::Min, most);
        let (inside, low_below) = if low { (inside, true) } else { self.without_bound(inside, ScalarFn::Max, least) };
        let saturate = saturate || (low_below && high);
        let from = if low_below && high { inside } else { x };
        let (from, round) = match self.map(from, ScalarFn::RoundEven) {
            Some(args) => (args[0], Rounding::NearestEven),
            None => (from, round),
        };
        self.builder.one(InstOp::Cast { to, round, saturate }, &[from]).map(Some)
    }

    /// A sum of two i32 as i64 that is cut to the range of i8: vector units have no i64. The upper halves of the operands
    /// are added with what the lower halves carry, which is cut to what still tells the result apart.
    fn clamped_sum(&mut self, to: DType, x: Val) -> Made<Option<Val>> {
        let int = |v: i64| InstOp::Literal(Literal::Int(DType::I32, v));
        let bound = |rewrite: &Self, v: Val, f: ScalarFn, bound: i64| {
            let args = rewrite.map(v, f)?;
            let is = |v: Val| matches!(rewrite.op(v), Some(InstOp::Literal(Literal::Int(_, b))) if *b == bound);
            if is(args[1]) { Some(args[0]) } else { is(args[0]).then_some(args[1]) }
        };
        let (min, max) = (ScalarFn::Min, ScalarFn::Max);
        let inside = bound(self, x, min, 127).and_then(|v| bound(self, v, max, -128));
        let inside = inside.or_else(|| bound(self, x, max, -128).and_then(|v| bound(self, v, min, 127)));
        let Some(&[a, b]) = inside.and_then(|v| self.map(v, ScalarFn::Add)).filter(|_| to == DType::I8) else {
            return Ok(None);
        };
        let narrow = |v: Val| {
            let inst = self.builder.definition(v).filter(|i| matches!(i.op, InstOp::Cast { .. }))?;
            (self.builder.ty(inst.args[0]).dtype == DType::I32).then(|| inst.args[0])
        };
        let (Some(a), Some(b)) = (narrow(a), narrow(b)) else { return Ok(None) };
        let mut literals = Vec::new();
        for v in [16, 0xffff, 1, -2, 127, -128] {
            literals.push(self.builder.one(int(v), &[])?);
        }
        let &[sixteen, low, one, minus_two, most, least] = &literals[..] else { return Ok(None) };
        let mut map = |f: ScalarFn, x: Val, y: Val| self.builder.one(InstOp::Map(f), &[x, y]);
        let lows = (map(ScalarFn::And, a, low)?, map(ScalarFn::And, b, low)?);
        let lows = map(ScalarFn::Add, lows.0, lows.1)?;
        let highs = (map(ScalarFn::Shr, a, sixteen)?, map(ScalarFn::Shr, b, sixteen)?);
        let highs = map(ScalarFn::Add, highs.0, highs.1)?;
        let carry = map(ScalarFn::Shr, lows, sixteen)?;
        let highs = map(ScalarFn::Add, highs, carry)?;
        let highs = map(min, highs, one)?;
        let highs = map(max, highs, minus_two)?;
        let highs = map(ScalarFn::Shl, highs, sixteen)?;
        let lows = map(ScalarFn::And, lows, low)?;
        let sum = map(ScalarFn::Add, highs, lows)?;
        let sum = map(max, sum, least)?;
        let sum = map(min, sum, most)?;
        self.builder.one(InstOp::Cast { to, round: Rounding::NearestEven, saturate: true }, &[sum]).map(Some)
    }

    pub fn is_half(&self, v: Val) -> bool {
        matches!(self.builder.ty(v).dtype, DType::F16 | DType::BF16)
    }

    /// A selection of floats of 16 bits, as the floats of 32 bits that they are: vector units select words.
    pub fn select_wide(&mut self, condition: Val, a: Val, b: Val) -> Made<Val> {
        let to = self.builder.ty(a).dtype;
        let cast = |to| InstOp::Cast { to, round: Rounding::NearestEven, saturate: false };
        let mut wide = Vec::new();
        for v in [a, b] {
            wide.push(self.inst(cast(DType::F32), &[v])?[0]);
        }
        let chosen = self.builder.one(InstOp::Map(ScalarFn::Select), &[condition, wide[0], wide[1]])?;
        self.builder.one(cast(to), &[chosen])
    }

    /// The f32 constant that a constant of 16 bits is.
    fn wide_literal(&self, v: Val) -> Option<f64> {
        let inst = self.builder.definition(v)?;
        let InstOp::Cast { to, round, saturate } = inst.op else { return None };
        let x = self.literal(inst.args[0]).filter(|_| self.is_half(v))?;
        // A graph's own conversion of a constant rounds it.
        Some(num::round_to(to, x, round, saturate))
    }

    /// What a bound is on, if `v` is exactly that bound of something.
    fn without_bound(&self, v: Val, f: ScalarFn, bound: f64) -> (Val, bool) {
        let found = self.map(v, f).and_then(|args| {
            let (a, b) = (args[0], args[1]);
            let is_bound = |v: Val| self.literal(v) == Some(bound);
            if is_bound(b) { Some(a) } else { is_bound(a).then_some(b) }
        });
        found.map_or((v, false), |x| (x, true))
    }
}
