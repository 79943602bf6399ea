//! `gemma_rms_norm(x, w) = rms_norm(x, w + 1)`: `x · rms_scale(x) · (w + 1)` in f32, rounded once to the dtype of `x`.

use fusewright_abi::DType::F32;

use super::rms_scale::ROOTS;
use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec, RmsNorm, RmsRounding, RmsScale};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::ty::TensorType;

/// RMS norm whose weight is stored as its distance from one.
#[derive(Clone, Debug)]
pub struct GemmaRmsNorm {
    /// What `x` is multiplied by.
    pub scale: RmsScale,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "gemma_rms_norm",
    arity: 2,
    optional: 0,
    parse: |attrs| Ok(Composite::new(GemmaRmsNorm { scale: RmsScale::parse(attrs, &ROOTS)? })),
    variants: || RmsScale::variants().map(|scale| Composite::new(GemmaRmsNorm { scale })).to_vec(),
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
        self.scale.forms(Attrs::of([("eps", AttrValue::Float(self.scale.eps))]))
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let weight = b.add(b.cast(operands[1], F32)?, b.float(F32, 1.0)?)?;
        let norm = RmsNorm { scale: self.scale, round: RmsRounding::Once };
        b.composite(Composite::new(norm), &[operands[0], weight])
    }
}
