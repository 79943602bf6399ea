//! `layer_norm(x[, w[, b]]) = (x − m) · rsqrt(mean((x − m)², last axis) + eps) · w + b`, `m` the mean over the last axis,
//! in f32, rounded once to the dtype of `x`; `root` says how the root is made and applied.

use fusewright_abi::DType::F32;

use super::rms_scale::ROOTS;
use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec, Root};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::ty::TensorType;

/// Layer norm, with weight and bias or without.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// Added to the variance, inside the root; an f32 value.
    pub eps: f64,
    /// How the root is made and applied.
    pub root: Root,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "layer_norm",
    arity: 1,
    optional: 2,
    parse: |attrs| {
        Ok(Composite::new(LayerNorm { eps: attrs.float("eps")?, root: attrs.word_or_first("root", &ROOTS)? }))
    },
    variants: || ROOTS.map(|(_, root)| Composite::new(LayerNorm { eps: f64::from(1e-5f32), root })).to_vec(),
    operands: |dtype| {
        let lanes = Dim::constant(64);
        let row = TensorType::new(dtype, [lanes.clone()]);
        vec![TensorType::new(dtype, [Dim::symbol("s"), lanes]), row.clone(), row]
    },
};

impl CompositeOp for LayerNorm {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        Attrs::of([("eps", AttrValue::Float(self.eps))]).and("root", &ROOTS, &self.root)
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let x = b.cast(operands[0], F32)?;
        let centred = b.sub(x, b.mean_last(x)?)?;
        let variance = b.mean_last(b.mul(centred, centred)?)?;
        let variance = b.add(variance, b.attr("eps", F32, self.eps)?)?;
        let mut y = self.root.normal(b, centred, variance)?;
        if let Some(&weight) = operands.get(1) {
            y = b.mul(y, b.cast(weight, F32)?)?;
        }
        if let Some(&bias) = operands.get(2) {
            y = b.add(y, b.cast(bias, F32)?)?;
        }
        Ok(vec![b.cast(y, b.dtype(operands[0]))?])
    }
}
