//! `gelu(x) = x/2 · (1 + bend)` in f32, rounded once to the dtype of `x`; `bend` is `erf(x/√2)`, or
//! `tanh(√(2/π) · (x + 0.044715·x³))`.

use fusewright_abi::DType::{self, F32};

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// How `gelu` approximates the normal distribution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GeluForm {
    /// By the error function: not at all.
    Erf,
    /// By a hyperbolic tangent.
    Tanh,
}

const FORMS: [(&str, GeluForm); 2] = [("none", GeluForm::Erf), ("tanh", GeluForm::Tanh)];

/// `x/2 · (1 + bend)`.
#[derive(Clone, Debug)]
pub struct Gelu {
    /// What bends the line.
    pub approximate: GeluForm,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "gelu",
    arity: 1,
    optional: 0,
    parse: |attrs| Ok(Composite::new(Gelu { approximate: attrs.word("approximate", &FORMS)? })),
    variants: || FORMS.map(|(_, approximate)| Composite::new(Gelu { approximate })).to_vec(),
    operands: |dtype: DType| vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)])],
};

impl CompositeOp for Gelu {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        let form = FORMS.iter().find(|(_, f)| *f == self.approximate).map_or("", |(word, _)| word);
        Attrs::of([("approximate", AttrValue::Word(form))])
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let x = b.cast(operands[0], F32)?;
        let float = |v: f64| b.float(F32, f64::from(v as f32));
        let half = b.mul(x, float(0.5)?)?;
        let bend = match self.approximate {
            GeluForm::Erf => b.map(ScalarFn::Erf, &[b.mul(x, float(std::f64::consts::FRAC_1_SQRT_2)?)?])?,
            GeluForm::Tanh => {
                let cube = b.mul(b.mul(x, x)?, x)?;
                let inner = b.add(x, b.mul(float(0.044_715)?, cube)?)?;
                let beta = std::f64::consts::SQRT_2 * std::f64::consts::FRAC_2_SQRT_PI * 0.5;
                b.map(ScalarFn::Tanh, &[b.mul(float(beta)?, inner)?])?
            }
        };
        let y = b.mul(half, b.add(float(1.0)?, bend)?)?;
        Ok(vec![b.cast(y, b.dtype(operands[0]))?])
    }
}
