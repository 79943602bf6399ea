//! `layer_norm(x[, w[, b]]) = (x − m) · rsqrt(mean((x − m)², last axis) + eps) · w + b`, `m` the mean over the last axis,
//! in f32, rounded once to the dtype of `x`; `root` says how the root is made and applied, `moments` in which precision
//! mean and variance are.

use fusewright_abi::DType::{F32, F64};

use super::rms_scale::ROOTS;
use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec, Root};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::ty::TensorType;

/// In which precision the mean and the variance of `layer_norm` are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moments {
    /// In f32.
    Narrow,
    /// The variance about a mean of its own in f64, rounded to f32 (`x.var(correction=0)` on CPUs).
    WideVariance,
    /// Both in f64, each rounded to f32 (`torch.var_mean` on CPUs).
    Wide,
}

const MOMENTS: [(&str, Moments); 3] =
    [("narrow", Moments::Narrow), ("wide_variance", Moments::WideVariance), ("wide", Moments::Wide)];

/// Layer norm, with weight and bias or without.
#[derive(Clone, Debug)]
pub struct LayerNorm {
    /// Added to the variance, inside the root; an f32 value.
    pub eps: f64,
    /// How the root is made and applied.
    pub root: Root,
    /// In which precision mean and variance are.
    pub moments: Moments,
}

impl LayerNorm {
    /// `x − m` in f32, and the variance in f32.
    fn centred(&self, b: &Builder, x: Value) -> Result<(Value, Value), TypeError> {
        let (x, wide) = (b.cast(x, F32)?, x);
        if self.moments == Moments::Narrow {
            let centred = b.sub(x, b.mean_last(x)?)?;
            return Ok((centred, b.mean_last(b.mul(centred, centred)?)?));
        }
        let wide = b.cast(wide, F64)?;
        let mean = b.mean_last(wide)?;
        let distance = b.sub(wide, mean)?;
        let variance = b.cast(b.mean_last(b.mul(distance, distance)?)?, F32)?;
        let mean = if self.moments == Moments::Wide { b.cast(mean, F32)? } else { b.mean_last(x)? };
        Ok((b.sub(x, mean)?, variance))
    }
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "layer_norm",
    arity: 1,
    optional: 2,
    parse: |attrs| {
        let (root, moments) = (attrs.word_or_first("root", &ROOTS)?, attrs.word_or_first("moments", &MOMENTS)?);
        Ok(Composite::new(LayerNorm { eps: attrs.float("eps")?, root, moments }))
    },
    variants: || {
        let of =
            |(_, moments)| ROOTS.map(|(_, root)| Composite::new(LayerNorm { eps: f64::from(1e-5f32), root, moments }));
        MOMENTS.map(of).concat()
    },
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
        Attrs::of([("eps", AttrValue::Float(self.eps))]).and("root", &ROOTS, &self.root).and(
            "moments",
            &MOMENTS,
            &self.moments,
        )
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let (centred, variance) = self.centred(b, operands[0])?;
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
