//! `sigmoid(x) = 1 / (1 + e^−x)` and `silu(x) = x · sigmoid(x)`, in f32, rounded once to the dtype of `x`.
//!
//! `silu` is written in two forms that differ in the last bit of f32; a decomposed graph says which.

use fusewright_abi::DType::{self, F32};

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// How `silu` is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SiluForm {
    /// `x / (1 + e^−x)`: the op of PyTorch and the CUDA kernels.
    Quotient,
    /// `x · sigmoid(x)`: PyTorch's decomposition.
    Product,
}

const FORMS: [(&str, SiluForm); 2] = [("quotient", SiluForm::Quotient), ("product", SiluForm::Product)];

/// `x · sigmoid(x)`.
#[derive(Clone, Debug)]
pub struct Silu {
    /// How it is written.
    pub form: SiluForm,
}

/// `1 / (1 + e^−x)`.
#[derive(Clone, Debug)]
pub struct Sigmoid;

fn operands(dtype: DType) -> Vec<TensorType> {
    vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)])]
}

pub(super) const SILU: OpSpec = OpSpec {
    name: "silu",
    arity: 1,
    optional: 0,
    parse: |attrs| Ok(Composite::new(Silu { form: attrs.word("form", &FORMS)? })),
    variants: || FORMS.map(|(_, form)| Composite::new(Silu { form })).to_vec(),
    operands,
};

pub(super) const SIGMOID: OpSpec = OpSpec {
    name: "sigmoid",
    arity: 1,
    optional: 0,
    parse: |_| Ok(Composite::new(Sigmoid)),
    variants: || vec![Composite::new(Sigmoid)],
    operands,
};

/// `1 + e^−x` of an f32 value.
fn denominator(b: &Builder, x32: Value) -> Result<Value, TypeError> {
    let e = b.map(ScalarFn::Exp, &[b.map(ScalarFn::Neg, &[x32])?])?;
    b.add(b.float(F32, 1.0)?, e)
}

impl CompositeOp for Silu {
    fn spec(&self) -> &'static OpSpec {
        &SILU
    }

    fn attrs(&self) -> Attrs {
        let form = FORMS.iter().find(|(_, f)| *f == self.form).map_or("", |(word, _)| word);
        Attrs::of([("form", AttrValue::Word(form))])
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let x32 = b.cast(operands[0], F32)?;
        let y = match self.form {
            SiluForm::Quotient => b.div(x32, denominator(b, x32)?)?,
            SiluForm::Product => b.mul(x32, b.composite(Composite::new(Sigmoid), &[x32])?[0])?,
        };
        Ok(vec![b.cast(y, b.dtype(operands[0]))?])
    }
}

impl CompositeOp for Sigmoid {
    fn spec(&self) -> &'static OpSpec {
        &SIGMOID
    }

    fn attrs(&self) -> Attrs {
        Attrs::default()
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let x32 = b.cast(operands[0], F32)?;
        let y = b.div(b.float(F32, 1.0)?, denominator(b, x32)?)?;
        Ok(vec![b.cast(y, b.dtype(operands[0]))?])
    }
}
