//! `rms_norm(x[, w]) = x · rms_scale(x) · w`, in f32, rounded where `round` says.
//!
//! The variants are those of the numerics tables: frameworks disagree on where the result is rounded, and the
//! difference is visible in bf16. Without a weight there is one rounding, to the dtype of `x`.

use fusewright_abi::DType::F32;

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec, RmsScale};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::ty::TensorType;

/// Where `rms_norm` rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RmsRounding {
    /// Once, after the weight, to the dtype of `x` (`F.rms_norm`, CUDA kernels).
    Once,
    /// Before the weight, to the dtype of the weight, in which the product is (Hugging Face models). A sum in f32 that
    /// is normalised before it is rounded gives a result in the dtype of the weight (Ascend kernels).
    BeforeWeight,
}

const ROUNDINGS: [(&str, RmsRounding); 2] = [("once", RmsRounding::Once), ("before_weight", RmsRounding::BeforeWeight)];

/// Attributes of `rms_norm`.
#[derive(Clone, Debug)]
pub struct RmsNorm {
    /// What `x` is multiplied by.
    pub scale: RmsScale,
    /// Where the result is rounded.
    pub round: RmsRounding,
}

impl RmsNorm {
    /// The norm with `eps` in the mean of squares, as PyTorch computes it.
    pub fn new(eps: f64, round: RmsRounding) -> Self {
        RmsNorm { scale: RmsScale::new(eps), round }
    }
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "rms_norm",
    arity: 1,
    optional: 1,
    parse: |attrs| {
        let round = attrs.word("round", &ROUNDINGS)?;
        Ok(Composite::new(RmsNorm { scale: RmsScale::parse(attrs)?, round }))
    },
    variants: || {
        let of = |scale| ROUNDINGS.map(|(_, round)| Composite::new(RmsNorm { scale, round }));
        RmsScale::variants().into_iter().flat_map(of).collect()
    },
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
        self.scale.forms(Attrs::of([("eps", AttrValue::Float(self.scale.eps)), ("round", AttrValue::Word(round))]))
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let (x, dtype) = (b.cast(operands[0], F32)?, b.dtype(operands[0]));
        let normal = b.mul(x, self.scale.of(b, x)?)?;
        let y = match (operands.get(1), self.round) {
            (None, _) => b.cast(normal, dtype)?,
            (Some(&w), RmsRounding::Once) => b.cast(b.mul(normal, b.cast(w, F32)?)?, dtype)?,
            (Some(&w), RmsRounding::BeforeWeight) => b.mul(b.cast(normal, b.dtype(w))?, w)?,
        };
        Ok(vec![y])
    }
}
