//! Gates of a bf16 that are rounded to bf16, in two approximate instructions and a few others: `x / (1 + exp(−x))`,
//! `1 / (1 + exp(−x))`, and `1 + tanh(u)` of `gelu`.
//!
//! Of the 65,536 operands none gives another bf16 than exact functions do. The errors that are documented of the two
//! instructions, 2⁻²² and one ulp, prove it of all but a few and those below 2⁻¹²⁵, where a sigmoid is a half and its
//! product a tie (`tests`); of these the instructions were measured, on devices of compute capability 9.0.

use inkwell::values::IntValue;

use super::rows::Rows;
use crate::backend::llvm::{Built, Value};
use crate::kernel::Inst;
use crate::kernel::expand::gates::{Gate, narrow};

/// `-log2(e)`.
const MINUS_LOG2E: f64 = -std::f32::consts::LOG2_E as f64;
/// What the divisor is made smaller by, lest its reciprocal be below the normal numbers.
const SMALLER: f64 = 1.0 / 16.0;

impl<'c> Rows<'_, 'c> {
    /// The lane of an instruction that is a gate of a bf16; expanded kernels have exponentials and hyperbolic tangents nowhere
    /// else.
    pub fn narrow_gate(&mut self, inst: &Inst, lane: IntValue<'c>) -> Built<Option<Value<'c>>> {
        let Some(found) = narrow(self.segment, self.defining, inst) else { return Ok(None) };
        match found {
            Gate::Sigmoid { over, x, .. } => {
                let x_at = self.element(x, lane)?;
                let quotient = self.reciprocal_beside_one(x_at, MINUS_LOG2E)?;
                // Exact of `x`: no bf16 has bits so far down.
                let over = if over == x { self.multiplied(x_at, SMALLER)? } else { self.code.float(x_at, SMALLER) };
                let (over, quotient) = (over.into_float_value(), quotient.into_float_value());
                Ok(Some(self.code.b.build_float_mul(over, quotient, "")?.into()))
            }
            Gate::OnePlusTanh { u, .. } => {
                let u = self.element(u, lane)?;
                let quotient = self.reciprocal_beside_one(u, 2.0 * MINUS_LOG2E)?;
                let (twice, minus) = (self.code.float(u, 2.0 * SMALLER), self.code.float(u, -1.0));
                let tanh = self.fma(quotient, twice, minus)?.into_float_value();
                let one = self.code.float(u, 1.0).into_float_value();
                Ok(Some(self.code.b.build_float_add(one, tanh, "")?.into()))
            }
        }
    }

    /// `1 / (SMALLER + SMALLER·2^(x·factor))`.
    fn reciprocal_beside_one(&self, x: Value<'c>, factor: f64) -> Built<Value<'c>> {
        let (code, smaller) = (self.code, self.code.float(x, SMALLER));
        let exponent = self.multiplied(x, factor)?;
        let power = code.call("llvm.nvvm.ex2.approx.ftz", &[code.ctx.f32_type().into()], &[exponent])?;
        let divisor = self.fma(power, smaller, smaller)?;
        code.call("llvm.nvvm.rcp.approx.ftz.f", &[], &[divisor])
    }
}

#[cfg(test)]
mod tests {
    use fusewright_graph::{DType, Rounding, num};

    use super::{MINUS_LOG2E, SMALLER};

    /// A function of a bf16 by exact functions, and at both ends of what the instructions may give.
    struct Function {
        name: &'static str,
        exact: fn(f32) -> f32,
        /// By relative errors of the power and of the reciprocal.
        instructions: fn(f32, [f64; 2]) -> f32,
        /// Operands whose result the documented errors do not decide, and which were measured.
        measured: &'static [f32],
    }

    fn exp(x: f32) -> f32 {
        f64::from(x).exp() as f32
    }

    fn tanh(x: f32) -> f32 {
        f64::from(x).tanh() as f32
    }

    fn reciprocal_beside_one(x: f32, factor: f64, [power, reciprocal]: [f64; 2]) -> f32 {
        let power = (f64::from(x * factor as f32).exp2() * (1.0 + power)) as f32;
        let divisor = power.mul_add(SMALLER as f32, SMALLER as f32);
        (1.0 / f64::from(divisor) * (1.0 + reciprocal)) as f32
    }

    fn bent(x: f32) -> f32 {
        (x + x * x * x * 0.044_715) * 0.797_884_6
    }

    fn bent_fast(x: f32) -> f32 {
        (x * 0.797_884_6) * (1.0 + x * 0.044_715 * x)
    }

    fn one_plus_tanh(u: f32, errors: [f64; 2]) -> f32 {
        1.0 + reciprocal_beside_one(u, 2.0 * MINUS_LOG2E, errors).mul_add(2.0 * SMALLER as f32, -1.0)
    }

    const FUNCTIONS: [Function; 5] = [
        Function {
            name: "silu",
            exact: |x| x / (1.0 + exp(-x)),
            instructions: |x, errors| x * SMALLER as f32 * reciprocal_beside_one(x, MINUS_LOG2E, errors),
            measured: &[0.007_812_5, 5.9375, -0.003_906_25],
        },
        Function {
            name: "silu by a product",
            exact: |x| x * (1.0 / (1.0 + exp(-x))),
            instructions: |x, errors| x * (SMALLER as f32 * reciprocal_beside_one(x, MINUS_LOG2E, errors)),
            measured: &[0.007_812_5, 5.9375, -0.003_906_25],
        },
        Function {
            name: "sigmoid",
            exact: |x| 1.0 / (1.0 + exp(-x)),
            instructions: |x, errors| SMALLER as f32 * reciprocal_beside_one(x, MINUS_LOG2E, errors),
            measured: &[0.007_812_5, 0.227_539_06, -0.003_906_25, -0.011_718_75],
        },
        Function {
            name: "gelu",
            exact: |x| x * 0.5 * (1.0 + tanh(bent(x))),
            instructions: |x, errors| x * 0.5 * one_plus_tanh(bent(x), errors),
            measured: &[],
        },
        Function {
            name: "gelu, fast",
            exact: |x| x * 0.5 * (1.0 + tanh(bent_fast(x))),
            instructions: |x, errors| x * 0.5 * one_plus_tanh(bent_fast(x), errors),
            measured: &[],
        },
    ];

    #[test]
    fn the_errors_of_the_instructions_change_no_bf16() {
        let narrow = |x: f32| num::round_to(DType::BF16, f64::from(x), Rounding::NearestEven, false);
        let (power, reciprocal) = (2f64.powi(-22), 2f64.powi(-23));
        for function in FUNCTIONS {
            let mut undecided = Vec::new();
            for bits in 0..=u16::MAX {
                let x = f32::from_bits(u32::from(bits) << 16);
                let exact = (function.exact)(x);
                let ends =
                    [[power, -reciprocal], [-power, reciprocal]].map(|errors| (function.instructions)(x, errors));
                if exact.is_nan() {
                    assert!(ends.iter().all(|end| end.is_nan()), "{} of {x}", function.name);
                } else if ends.iter().any(|end| narrow(*end) != narrow(exact)) {
                    undecided.push(x);
                }
            }
            // Half of the first is between two bf16, which errors of either sign decide.
            let open = undecided.iter().filter(|x| x.abs() >= 2f32.powi(-125));
            let open: Vec<&f32> = open.filter(|x| !function.measured.contains(x)).collect();
            assert!(open.is_empty(), "{}: {} of {}: {open:?}", function.name, open.len(), undecided.len());
            assert!(undecided.len() < 256, "{}: {}", function.name, undecided.len());
        }
    }
}
