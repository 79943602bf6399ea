//! `gemma_rms_norm(x, w) = x · rsqrt(mean(x², last axis) + eps) · (w + 1)`, in f32, rounded once to the dtype of `x`.

use fusewright_abi::DType::F32;

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// RMS norm whose weight is stored as its distance from one.
#[derive(Clone, Debug)]
pub struct GemmaRmsNorm {
    /// Added to the mean of squares, inside the root; an f32 value.
    pub eps: f64,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "gemma_rms_norm",
    arity: 2,
    optional: 0,
    parse: |attrs| Ok(Composite::new(GemmaRmsNorm { eps: attrs.float("eps")? })),
    variants: || vec![Composite::new(GemmaRmsNorm { eps: f64::from(1e-6f32) })],
    operands: |dtype| {
        let lanes = Dim::constant(64);
        vec![TensorType::new(dtype, [Dim::symbol("s"), lanes.clone()]), TensorType::new(dtype, [lanes])]
    },
};

impl CompositeOp for GemmaRmsNorm {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        Attrs::of([("eps", AttrValue::Float(self.eps))])
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let x = b.cast(operands[0], F32)?;
        let mean = b.mean_last(b.mul(x, x)?)?;
        let scale = b.map(ScalarFn::Rsqrt, &[b.add(mean, b.attr("eps", F32, self.eps)?)?])?;
        let weight = b.add(b.cast(operands[1], F32)?, b.float(F32, 1.0)?)?;
        Ok(vec![b.cast(b.mul(b.mul(x, scale)?, weight)?, b.dtype(operands[0]))?])
    }
}
