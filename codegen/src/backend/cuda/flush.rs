//! What flushes subnormal values to zeros of their sign, `select(|x| < 2⁻¹²⁶, x·0, x)`, in one instruction: a product with one
//! that flushes. It is not merged with the product before it, which would decide before it rounds what is subnormal.

use fusewright_graph::ScalarFn;
use inkwell::values::IntValue;

use super::rows::Rows;
use crate::backend::llvm::{Built, Value};
use crate::kernel::{Inst, InstOp, Val};

impl<'c> Rows<'_, 'c> {
    /// What an instruction that flushes yields at a lane. The reciprocal of what is flushed, flushed, is one instruction as
    /// well, whose boundary is the same: no reciprocal rounds up to the least normal number.
    pub fn flushed(&mut self, inst: &Inst, lane: IntValue<'c>) -> Built<Option<Value<'c>>> {
        let Some(of) = self.flushes(inst) else { return Ok(None) };
        let segment = self.segment;
        let defining = &segment.insts[self.defining[of.0 as usize]];
        if self.flushes(defining).is_some() {
            return self.element(of, lane).map(Some);
        }
        let code = self.code;
        if let (InstOp::Map(ScalarFn::Div), &[one, by]) = (&defining.op, defining.args.as_slice())
            && self.ranges.constant(one) == Some(1.0)
            && let Some(whole) = self.flushes(&segment.insts[self.defining[by.0 as usize]])
        {
            let x = self.element(whole, lane)?;
            return code.call("llvm.nvvm.rcp.rn.ftz.f", &[], &[x]).map(Some);
        }
        let x = self.element(of, lane)?;
        code.call("llvm.nvvm.mul.rn.ftz.f", &[], &[x, code.float(x, 1.0)]).map(Some)
    }

    /// What an instruction flushes, if nothing sees which NaN it makes of one: a selection moves NaNs as they are.
    fn flushes(&self, inst: &Inst) -> Option<Val> {
        let (InstOp::Map(ScalarFn::Select), &[tiny, zero, x]) = (&inst.op, inst.args.as_slice()) else { return None };
        let insts = &self.segment.insts;
        let map = |value: Val, f: ScalarFn| match &insts[self.defining[value.0 as usize]] {
            Inst { op: InstOp::Map(of), args, .. } if *of == f => Some(args.as_slice()),
            _ => None,
        };
        let constant = |value: Val, of: f32| self.ranges.constant(value) == Some(f64::from(of));
        let &[magnitude, least] = map(tiny, ScalarFn::Lt)? else { return None };
        let of_x = *map(magnitude, ScalarFn::Abs)? == [x] && constant(least, f32::MIN_POSITIVE);
        let &[product, by] = map(zero, ScalarFn::Mul)? else { return None };
        let to_zero = product == x && constant(by, 0.0) && self.ranges.constant(by).is_some_and(f64::is_sign_positive);
        let computed = computes(&insts[self.defining[x.0 as usize]].op);
        let mut users = insts.iter().filter(|user| user.args.contains(&inst.results[0]));
        (of_x && to_zero && (computed || users.all(|user| computes(&user.op)))).then_some(x)
    }
}

/// Whether an operation makes a NaN anew.
fn computes(op: &InstOp) -> bool {
    matches!(op, InstOp::Map(ScalarFn::Add | ScalarFn::Sub | ScalarFn::Mul | ScalarFn::Div))
}

#[cfg(test)]
mod tests {
    /// The instruction, and what it stands for.
    #[test]
    fn a_flush_keeps_signs_and_the_least_normal_number() {
        let flushed = |x: f32| if x.is_subnormal() { 0.0f32.copysign(x) } else { x };
        let stated = |x: f32| if x.abs() < f32::MIN_POSITIVE { x * 0.0 } else { x };
        let boundary = f32::MIN_POSITIVE.to_bits();
        let magnitudes = (0..0x7f80).map(|high| high << 16).chain(boundary - 0x1000..boundary + 0x1000);
        for x in magnitudes.chain([1, 0x7f80_0000]).flat_map(|bits| [bits, bits | 1 << 31]).map(f32::from_bits) {
            assert_eq!(flushed(x).to_bits(), stated(x).to_bits(), "{x:e}");
        }
    }

    /// Whether a reciprocal is subnormal is the same before and after it is rounded, as instructions differ in that.
    #[test]
    fn no_reciprocal_rounds_up_to_the_least_normal_number() {
        let least = f64::from(f32::MIN_POSITIVE);
        let boundary = (1.0 / f32::MIN_POSITIVE).to_bits();
        for x in (boundary - 0x1000..boundary + 0x1000).map(f32::from_bits) {
            assert_eq!(1.0 / f64::from(x) < least, 1.0 / x < f32::MIN_POSITIVE, "{x:e}");
        }
    }
}
