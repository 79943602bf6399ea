//! `x / (1 + exp(-x))` of a bf16, rounded to bf16, in two approximate instructions and four others.
//!
//! Of the 65,536 operands none gives another bf16 than exact functions do. The errors that are documented of the two
//! instructions, 2⁻²² and one ulp, prove it of all but three and those below 2⁻¹²⁵, where the sigmoid is a half and its
//! product a tie (`tests`); of these the instructions were measured, on devices of compute capability 9.0.

use fusewright_graph::ScalarFn;
use inkwell::values::IntValue;

use super::rows::Rows;
use crate::backend::llvm::{Built, Value};
use crate::kernel::expand::forms;
use crate::kernel::{Inst, InstOp};

/// `-log2(e)`.
const MINUS_LOG2E: f64 = -std::f32::consts::LOG2_E as f64;
/// What the divisor is made smaller by, lest its reciprocal be below the normal numbers.
const SMALLER: f64 = 1.0 / 16.0;

impl<'c> Rows<'_, 'c> {
    /// The lane of a division that is this, and of no other; kernels have exponentials nowhere else.
    pub fn narrow_silu(&mut self, inst: &Inst, lane: IntValue<'c>) -> Built<Option<Value<'c>>> {
        if !matches!(inst.op, InstOp::Map(ScalarFn::Div)) || forms::silu(self.segment, self.defining, inst).is_none() {
            return Ok(None);
        }
        let x = self.element(inst.args[0], lane)?;
        let code = self.code;
        let (log2e, smaller) = (code.float(x, MINUS_LOG2E), code.float(x, SMALLER));
        let power = code.call("llvm.nvvm.ex2.approx.ftz", &[code.ctx.f32_type().into()], &[mul(self, x, log2e)?])?;
        let divisor = code.call("llvm.fma", &[code.ctx.f32_type().into()], &[power, smaller, smaller])?;
        let quotient = code.call("llvm.nvvm.rcp.approx.ftz.f", &[], &[divisor])?;
        // Exact: no bf16 has bits so far down.
        let x = mul(self, x, smaller)?;
        mul(self, x, quotient).map(Some)
    }
}

fn mul<'c>(rows: &Rows<'_, 'c>, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
    Ok(rows.code.b.build_float_mul(a.into_float_value(), b.into_float_value(), "")?.into())
}

#[cfg(test)]
mod tests {
    use fusewright_graph::{DType, Rounding, num};

    use super::{MINUS_LOG2E, SMALLER};

    /// Both ends of what the instructions may give, and what exact functions give.
    fn ends(x: f32) -> (f32, f32, f32) {
        let exact = x / (1.0 + (-f64::from(x)).exp() as f32);
        let exponent = x * MINUS_LOG2E as f32;
        let of = |error: f64| {
            let power = (f64::from(exponent).exp2() * (1.0 + error * 2f64.powi(-22))) as f32;
            let divisor = power.mul_add(SMALLER as f32, SMALLER as f32);
            let reciprocal = (1.0 / f64::from(divisor) * (1.0 - error * 2f64.powi(-23))) as f32;
            x * SMALLER as f32 * reciprocal
        };
        (of(-1.0), of(1.0), exact)
    }

    #[test]
    fn the_errors_of_the_instructions_change_no_bf16() {
        let narrow = |x: f32| num::round_to(DType::BF16, f64::from(x), Rounding::NearestEven, false);
        let mut undecided = Vec::new();
        for bits in 0..=u16::MAX {
            let x = f32::from_bits(u32::from(bits) << 16);
            let (low, high, exact) = ends(x);
            if exact.is_nan() {
                assert!(low.is_nan() && high.is_nan());
            } else if narrow(low) != narrow(exact) || narrow(high) != narrow(exact) {
                undecided.push(x);
            }
        }
        // Half of the first is between two bf16, which errors of either sign decide; three others come close to that.
        let measured = |x: &f32| x.abs() < 2f32.powi(-125) || [0.007_812_5, 5.9375, -0.003_906_25].contains(x);
        assert!(undecided.iter().all(measured), "{undecided:?}");
        assert!(undecided.len() < 256, "{}", undecided.len());
    }
}
