//! `rms_norm(x, w) = x · rsqrt(mean(x², last axis) + eps) · w`, in f32, rounded where `round` says.
//!
//! The variants are those of the numerics tables: frameworks disagree on where the result is rounded to the dtype of
//! `x`, and the difference is visible in bf16.

use fusewright_abi::DType::{self, F32};

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// Where `rms_norm` rounds to the dtype of `x`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RmsRounding {
    /// Once, after the weight (`F.rms_norm`, CUDA kernels).
    Once,
    /// Before the weight; the product with the weight is in the dtype of `x` (Hugging Face models).
    BeforeWeight,
}

const ROUNDINGS: [(&str, RmsRounding); 2] = [("once", RmsRounding::Once), ("before_weight", RmsRounding::BeforeWeight)];

/// Attributes of `rms_norm`.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// Added to the mean of squares, inside the root; an f32 value.
    pub eps: f64,
    /// Where the result is rounded.
    pub round: RmsRounding,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "rms_norm",
    arity: 2,
    parse: |attrs| Ok(Composite::new(RmsNorm { eps: attrs.float("eps")?, round: attrs.word("round", &ROUNDINGS)? })),
    variants: || ROUNDINGS.map(|(_, round)| Composite::new(RmsNorm { eps: f64::from(1e-6f32), round })).to_vec(),
    operands: |dtype| {
        let lanes = Dim::constant(64);
        vec![TensorType::new(dtype, [Dim::symbol("s"), lanes.clone()]), TensorType::new(dtype, [lanes])]
    },
};

impl CompositeOp for RmsNorm {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        let round = ROUNDINGS.iter().find(|(_, r)| *r == self.round).map_or("", |(word, _)| word);
        Attrs::of([("eps", AttrValue::Float(self.eps)), ("round", AttrValue::Word(round))])
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let (x, w) = (operands[0], operands[1]);
        let dtype: DType = b.dtype(x);
        let x32 = b.cast(x, F32)?;
        let mean = b.mean_last(b.mul(x32, x32)?)?;
        let scale = b.map(ScalarFn::Rsqrt, &[b.add(mean, b.attr("eps", F32, self.eps)?)?])?;
        let normal = b.mul(x32, scale)?;
        let y = match self.round {
            RmsRounding::Once => b.cast(b.mul(normal, b.cast(w, F32)?)?, dtype)?,
            RmsRounding::BeforeWeight => b.mul(b.cast(normal, dtype)?, w)?,
        };
        Ok(vec![y])
    }
}
