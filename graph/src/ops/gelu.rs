//! `gelu(x) = x/2 · (1 + bend)`; `bend` is `erf(x/√2)`, or approximates it by `tanh(√(2/π) · (x + 0.044715·x³))`.
//!
//! It is computed in f32 and rounded once to the dtype of `x`, or, as models spell it out, rounded at every step.

use fusewright_abi::DType::{self, F32};

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::prim::{Prim, ReduceOp};
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// How `gelu` approximates the normal distribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GeluForm {
    /// By the error function: not at all.
    Erf,
    /// By a hyperbolic tangent.
    Tanh,
    /// By a hyperbolic tangent of `(x·√(2/π)) · (1 + 0.044715·x·x)` (models that call it `gelu_fast`).
    Fast,
}

const FORMS: [(&str, GeluForm); 3] = [("none", GeluForm::Erf), ("tanh", GeluForm::Tanh), ("fast", GeluForm::Fast)];

/// Where `gelu` rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GeluRounding {
    /// Once, at the end.
    Once,
    /// At every step, to the dtype of `x`; `x` is divided by √2.
    Each,
}

const ROUNDINGS: [(&str, GeluRounding); 2] = [("once", GeluRounding::Once), ("each", GeluRounding::Each)];

/// `x/2 · (1 + bend)`.
#[derive(Clone, Debug)]
pub struct Gelu {
    /// What bends the line.
    pub approximate: GeluForm,
    /// Where it is rounded.
    pub round: GeluRounding,
}

impl Gelu {
    /// The function rounded once.
    pub fn new(approximate: GeluForm) -> Self {
        Gelu { approximate, round: GeluRounding::Once }
    }

    /// The function, with a sum of 1 and of what bends the line.
    fn bent(
        &self,
        b: &Builder,
        operand: Value,
        sum: impl FnOnce(&Steps<'_>, Value) -> Result<Value, TypeError>,
    ) -> Result<Vec<Value>, TypeError> {
        let dtype = b.dtype(operand);
        let steps = Steps { b, dtype: if self.round == GeluRounding::Each { dtype } else { F32 } };
        let x = b.cast(operand, steps.dtype)?;
        let half = b.mul(x, b.float(steps.dtype, 0.5)?)?;
        let y = b.mul(half, sum(&steps, steps.bend(self, x)?)?)?;
        Ok(vec![b.cast(y, dtype)?])
    }
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "gelu",
    arity: 1,
    optional: 0,
    parse: |attrs| {
        let (approximate, round) = (attrs.word("approximate", &FORMS)?, attrs.word_or_first("round", &ROUNDINGS)?);
        Ok(Composite::new(Gelu { approximate, round }))
    },
    variants: || {
        let of = |(_, round)| FORMS.map(|(_, approximate)| Composite::new(Gelu { approximate, round }));
        ROUNDINGS.map(of).concat()
    },
    operands: |dtype: DType| vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)])],
};

/// Arithmetic in a dtype. A factor that the dtype need not hold is one of f32, by which products round once.
struct Steps<'b> {
    b: &'b Builder,
    dtype: DType,
}

impl Steps<'_> {
    fn with(&self, f: ScalarFn, x: Value, number: f64) -> Result<Value, TypeError> {
        let y = self.b.map(f, &[self.b.cast(x, F32)?, self.b.float(F32, f64::from(number as f32))?])?;
        self.b.cast(y, self.dtype)
    }

    fn mul(&self, x: Value, number: f64) -> Result<Value, TypeError> {
        self.with(ScalarFn::Mul, x, number)
    }

    /// `1 + x`.
    fn next(&self, x: Value) -> Result<Value, TypeError> {
        self.b.add(self.b.float(self.dtype, 1.0)?, x)
    }

    /// `1 + x` within (n − 1)·2⁻²⁴·Σ|t|, as the sum of n = 4 terms t in any order. Two of them are no part of it: they cancel, and
    /// make that 12 to 15 · 2⁻²⁴ for x of −1 to 1.
    fn next_freely(&self, x: Value) -> Result<Value, TypeError> {
        let (b, shape) = (self.b, self.b.ty(x).shape);
        let column: Vec<Dim> = shape.iter().cloned().chain([Dim::constant(1)]).collect();
        let mut terms = vec![b.reshape(x, column.clone())?];
        for number in [1.0, 1.5, -1.5] {
            terms.push(b.prim(Prim::Expand { shape: column.clone() }, &[b.float(self.dtype, number)?])?);
        }
        let sum = b.reduce_last(ReduceOp::Add, b.cat(&terms, shape.len())?)?;
        b.reshape(sum, shape)
    }

    /// What bends the line at `x`.
    fn bend(&self, gelu: &Gelu, x: Value) -> Result<Value, TypeError> {
        let b = self.b;
        let (cubic, beta) = (0.044_715, std::f64::consts::SQRT_2 * std::f64::consts::FRAC_2_SQRT_PI * 0.5);
        let (f, of) = match (gelu.approximate, gelu.round) {
            (GeluForm::Erf, GeluRounding::Once) => (ScalarFn::Erf, self.mul(x, std::f64::consts::FRAC_1_SQRT_2)?),
            (GeluForm::Erf, GeluRounding::Each) => {
                (ScalarFn::Erf, self.with(ScalarFn::Div, x, std::f64::consts::SQRT_2)?)
            }
            (GeluForm::Tanh, _) => {
                let cube = b.mul(b.mul(x, x)?, x)?;
                (ScalarFn::Tanh, self.mul(b.add(x, self.mul(cube, cubic)?)?, beta)?)
            }
            (GeluForm::Fast, _) => {
                let slope = self.next(b.mul(self.mul(x, cubic)?, x)?)?;
                (ScalarFn::Tanh, b.mul(self.mul(x, beta)?, slope)?)
            }
        };
        b.map(f, &[of])
    }
}

impl CompositeOp for Gelu {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        let form = FORMS.iter().find(|(_, f)| *f == self.approximate).map_or("", |(word, _)| word);
        Attrs::of([("approximate", AttrValue::Word(form))]).and("round", &ROUNDINGS, &self.round)
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        self.bent(b, operands[0], |steps, bend| steps.next(bend))
    }

    /// PyTorch approximates the whole of `1 + erf(x/√2)` on CPUs. It was seen off by 12.4 · 2⁻²⁴ there, for x between 2 and 4 (torch
    /// 2.15, 12 million numbers of f32), which is much where the sum is small.
    fn expand_freely(&self, b: &Builder, operands: &[Value]) -> Option<Result<Vec<Value>, TypeError>> {
        let is_free = self.approximate == GeluForm::Erf && self.round == GeluRounding::Once;
        is_free.then(|| self.bent(b, operands[0], |steps, bend| steps.next_freely(bend)))
    }
}
