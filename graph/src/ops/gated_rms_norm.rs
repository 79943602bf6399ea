//! `gated_rms_norm(x, gate[, w])`: an RMS norm over the last axis and an activated gate, in f32.
//!
//! `order` says which comes first: `rms_norm(x, w) · act(gate)`, or `rms_norm(x · act(gate), w)`. `round` says whether the
//! norm is rounded to the dtype of the rows before its weight, and with the gate behind it once more before the gate; the
//! result always is. Groups of lanes are this op on a tensor whose last axis is the group.

use fusewright_abi::DType::F32;

use super::rms_scale::ROOTS;
use super::{
    AttrValue, Attrs, Composite, CompositeOp, OpSpec, RmsNorm, RmsRounding, RmsScale, Sigmoid, Silu, SiluForm,
};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::ty::TensorType;

/// What comes first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateOrder {
    /// The norm; its result is gated.
    Norm,
    /// The gate; what is gated is normalised.
    Gate,
}

/// What activates the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GateAct {
    /// `silu` as a quotient.
    Silu,
    /// `silu` as a product.
    SiluProduct,
    /// The sigmoid.
    Sigmoid,
}

const ORDERS: [(&str, GateOrder); 2] = [("norm", GateOrder::Norm), ("gate", GateOrder::Gate)];
const ACTS: [(&str, GateAct); 3] =
    [("silu", GateAct::Silu), ("silu_product", GateAct::SiluProduct), ("sigmoid", GateAct::Sigmoid)];
const ROUNDINGS: [(&str, RmsRounding); 2] = [("once", RmsRounding::Once), ("before_weight", RmsRounding::BeforeWeight)];

/// Attributes of `gated_rms_norm`.
#[derive(Clone, Debug)]
pub struct GatedRmsNorm {
    /// What rows are multiplied by.
    pub scale: RmsScale,
    /// What comes first.
    pub order: GateOrder,
    /// What activates the gate.
    pub act: GateAct,
    /// Where the norm is rounded: once, or before the weight.
    pub round: RmsRounding,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "gated_rms_norm",
    arity: 2,
    optional: 1,
    parse: |attrs| {
        Ok(Composite::new(GatedRmsNorm {
            scale: RmsScale::parse(attrs, &ROOTS)?,
            order: attrs.word_or_first("first", &ORDERS)?,
            act: attrs.word_or_first("act", &ACTS)?,
            round: attrs.word_or_first("round", &ROUNDINGS)?,
        }))
    },
    variants: || {
        let scale = RmsScale::new(f64::from(1e-6f32));
        let of = |order| {
            let act = move |(act, round)| Composite::new(GatedRmsNorm { scale, order, act, round });
            // Kernels round once, models before the weight too.
            let kernels = [GateAct::Silu, GateAct::Sigmoid].map(|a| (a, RmsRounding::Once));
            let models = [GateAct::Silu, GateAct::SiluProduct].map(|a| (a, RmsRounding::BeforeWeight));
            [kernels, models].concat().into_iter().map(act).collect::<Vec<_>>()
        };
        [of(GateOrder::Norm), of(GateOrder::Gate)].concat()
    },
    operands: |dtype| {
        let lanes = Dim::constant(64);
        let rows = TensorType::new(dtype, [Dim::symbol("s"), lanes.clone()]);
        vec![rows.clone(), rows, TensorType::new(dtype, [lanes])]
    },
};

impl GatedRmsNorm {
    /// The activated gate in f32.
    fn gate(&self, b: &Builder, gate: Value) -> Result<Value, TypeError> {
        let op = match self.act {
            GateAct::Silu => Composite::new(Silu { form: SiluForm::Quotient }),
            GateAct::SiluProduct => Composite::new(Silu { form: SiluForm::Product }),
            GateAct::Sigmoid => Composite::new(Sigmoid),
        };
        Ok(b.composite(op, &[b.cast(gate, F32)?])?[0])
    }
}

impl CompositeOp for GatedRmsNorm {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        let attrs = self.scale.forms(Attrs::of([("eps", AttrValue::Float(self.scale.eps))]));
        attrs.and("first", &ORDERS, &self.order).and("act", &ACTS, &self.act).and("round", &ROUNDINGS, &self.round)
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let dtype = b.dtype(operands[0]);
        let gate = self.gate(b, operands[1])?;
        let rows = if (self.order, self.round) == (GateOrder::Norm, RmsRounding::BeforeWeight) { dtype } else { F32 };
        // Without a weight, and where all is f32, the norm has one rounding however that is called.
        let one = operands.get(2).is_none_or(|&w| (rows, b.dtype(w)) == (F32, F32));
        let round = if one { RmsRounding::Once } else { self.round };
        let norm = Composite::new(RmsNorm { scale: self.scale, round });
        let of = |x: Value| Ok(b.composite(norm, &[&[x], &operands[2..]].concat())?[0]);
        let y = match self.order {
            GateOrder::Gate => of(b.mul(b.cast(operands[0], F32)?, gate)?)?,
            GateOrder::Norm if self.round == RmsRounding::Once => b.mul(of(b.cast(operands[0], F32)?)?, gate)?,
            GateOrder::Norm => b.mul(b.cast(of(operands[0])?, F32)?, gate)?,
        };
        Ok(vec![b.cast(y, dtype)?])
    }
}
