//! `rms_norm(x[, w]) = x · rms_scale(x) · w`, or `x / √v · w` for a root that divides, in f32, rounded where `round` says.
//!
//! The variants are those of the numerics tables: frameworks disagree on where the result is rounded, and the
//! difference is visible in bf16. Without a weight there is one rounding, to the dtype of `x`.

use fusewright_abi::DType::F32;

use super::rms_scale::ROOTS;
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
    /// Before the weight, to the dtype of `x`; the product with a weight of another dtype is in f32 (Hugging Face models
    /// whose norms keep f32 weights). With a weight of the same dtype it is [`RmsRounding::BeforeWeight`].
    BeforeOtherWeight,
}

const ROUNDINGS: [(&str, RmsRounding); 3] = [
    ("once", RmsRounding::Once),
    ("before_weight", RmsRounding::BeforeWeight),
    ("before_other_weight", RmsRounding::BeforeOtherWeight),
];

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
        Ok(Composite::new(RmsNorm { scale: RmsScale::parse(attrs, &ROOTS)?, round }))
    },
    variants: || {
        let of = |(i, scale)| {
            // Weights of another dtype than the rows are those of models, which take the plain root.
            let rounds = if i == 0 { &ROUNDINGS[..] } else { &ROUNDINGS[..2] };
            rounds.iter().map(move |&(_, round)| Composite::new(RmsNorm { scale, round }))
        };
        RmsScale::variants().into_iter().enumerate().flat_map(of).collect()
    },
    operands: |dtype| {
        let lanes = Dim::constant(64);
        vec![TensorType::new(dtype, [Dim::symbol("s"), lanes.clone()]), TensorType::new(dtype, [lanes])]
    },
};

/// Whether a weight has rows as `x` has: that is another factor, such as a gate.
fn per_row(x: &TensorType, w: &TensorType) -> bool {
    w.rank() > 1 && w.rank() == x.rank() && w.shape[0] == x.shape[0] && w.shape[0].as_const().is_none()
}

impl CompositeOp for RmsNorm {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        let round = ROUNDINGS.iter().find(|(_, r)| *r == self.round).map_or("", |(word, _)| word);
        self.scale.forms(Attrs::of([("eps", AttrValue::Float(self.scale.eps)), ("round", AttrValue::Word(round))]))
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        if let Some(&w) = operands.get(1)
            && per_row(&b.ty(operands[0]), &b.ty(w))
        {
            let message = format!("a weight for each row: {}", b.ty(w));
            return Err(TypeError { op: SPEC.name.to_owned(), message });
        }
        let (x, dtype) = (b.cast(operands[0], F32)?, b.dtype(operands[0]));
        let normal = self.scale.normal(b, x)?;
        let y = match (operands.get(1), self.round) {
            (None, _) => b.cast(normal, dtype)?,
            (Some(&w), RmsRounding::Once) => b.cast(b.mul(normal, b.cast(w, F32)?)?, dtype)?,
            (Some(&w), RmsRounding::BeforeOtherWeight) if b.dtype(w) != dtype => {
                b.mul(b.cast(b.cast(normal, dtype)?, F32)?, b.cast(w, F32)?)?
            }
            (Some(&w), _) => b.mul(b.cast(normal, b.dtype(w))?, w)?,
        };
        Ok(vec![y])
    }
}
