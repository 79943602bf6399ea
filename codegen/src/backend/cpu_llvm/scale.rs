//! Products with a power of two in two factors, as expansions of `exp` write them: one instruction where the host has it.
//!
//! An expansion multiplies by `2^h` and `2^(n − h)`, with `h = n >> 1`, so that only the last product may leave the
//! normal range. That is the product with `2^n` rounded once, which is what the instruction computes.

use fusewright_graph::{Literal, ScalarFn};

use super::eval::{CHUNK, Eval};
use crate::backend::llvm::{Built, Value};
use crate::kernel::expand::exp::ROUND;
use crate::kernel::{Inst, InstOp, Val};

/// The bits of an f32 below its exponent.
const FRACTION: i64 = 23;
/// The exponent field of 1.
const ONE: i64 = 127 << FRACTION;
/// Greatest power of which both halves are those of normal numbers.
const MOST: f64 = 252.0;

/// The product `x · 2^n`, the integer `n` in the low bits of `t`.
#[derive(Clone, Copy)]
struct Scaled {
    x: Val,
    t: Val,
}

impl<'k, 'c> Eval<'k, '_, 'c> {
    /// A product in one instruction, if it is the second of those two.
    pub fn scaled_product(
        &mut self,
        inst: &'k Inst,
        value: &mut dyn FnMut(&mut Self, Val) -> Built<Value<'c>>,
    ) -> Built<Option<Value<'c>>> {
        let Some(Scaled { x, t }) = self.scaled_by_halves(inst) else { return Ok(None) };
        let (x, t) = (value(self, x)?, value(self, t)?);
        let code = self.code;
        let n = code.op(inkwell::values::InstructionOpcode::FSub, t, code.float(t, ROUND.into()))?;
        let (every, nearest) = (code.int_type(CHUNK).const_all_ones(), code.i32(4));
        let none = code.float(x, 0.0);
        let name = "llvm.x86.avx512.mask.scalef.ps.512";
        code.call(name, &[], &[x, n, none, every.into(), nearest.into()]).map(Some)
    }

    fn map_of(&self, v: Val, f: ScalarFn) -> Option<&'k [Val]> {
        let inst = self.definition(v).1;
        matches!(inst.op, InstOp::Map(of) if of == f).then_some(inst.args.as_slice())
    }

    fn integer(&self, v: Val) -> Option<i64> {
        match &self.definition(v).1.op {
            InstOp::Literal(Literal::Int(_, n)) => Some(*n),
            _ => None,
        }
    }

    fn float(&self, v: Val) -> Option<f64> {
        match &self.definition(v).1.op {
            InstOp::Literal(Literal::Float(_, x)) => Some(*x),
            _ => None,
        }
    }

    fn bits_of(&self, v: Val) -> Option<Val> {
        let inst = self.definition(v).1;
        matches!(inst.op, InstOp::Bitcast(_)).then(|| inst.args[0])
    }

    /// `n` of a factor `2^n`, whose exponent field is made of it.
    fn power(&self, factor: Val) -> Option<Val> {
        let &[shifted, one] = self.map_of(self.bits_of(factor)?, ScalarFn::Add)? else { return None };
        let &[n, by] = self.map_of(shifted, ScalarFn::Shl)? else { return None };
        (self.integer(one) == Some(ONE) && self.integer(by) == Some(FRACTION)).then_some(n)
    }

    fn scaled_by_halves(&self, inst: &Inst) -> Option<Scaled> {
        let &[product, second] = inst.args.as_slice() else { return None };
        let &[x, first] = self.map_of(product, ScalarFn::Mul)? else { return None };
        let (half, rest) = (self.power(first)?, self.power(second)?);
        let &[n, by] = self.map_of(half, ScalarFn::Shr)? else { return None };
        let halves = self.integer(by) == Some(1) && self.map_of(rest, ScalarFn::Sub)? == [n, half];
        let t = self.bits_of(n)?;
        (halves && self.is_rounded_power(t)).then_some(Scaled { x, t })
    }

    /// Whether an f32 is an integer of at most [`MOST`] beside [`ROUND`], or NaN.
    fn is_rounded_power(&self, t: Val) -> bool {
        let fused = self.map_of(t, ScalarFn::Fma);
        let of = match (fused, self.map_of(t, ScalarFn::Add)) {
            (Some(&[x, by, round]), _) => self.float(by).map(|by| (x, by, round)),
            (_, Some(&[x, round])) => Some((x, 1.0, round)),
            _ => None,
        };
        of.is_some_and(|(x, by, round)| {
            let bound = self.clamped(x).map(|bound| bound * by.abs());
            self.float(round) == Some(f64::from(ROUND)) && bound.is_some_and(|bound| bound <= MOST)
        })
    }

    /// The greatest magnitude of a number that two selections keep within constants.
    fn clamped(&self, x: Val) -> Option<f64> {
        let &[above, high, below] = self.map_of(x, ScalarFn::Select)? else { return None };
        let &[is_low, low, of] = self.map_of(below, ScalarFn::Select)? else { return None };
        let within =
            self.map_of(above, ScalarFn::Lt)? == [high, below] && self.map_of(is_low, ScalarFn::Lt)? == [of, low];
        within.then_some(self.float(low)?.abs().max(self.float(high)?.abs()))
    }
}
