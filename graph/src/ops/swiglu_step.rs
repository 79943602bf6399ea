//! `swiglu_step(gate, up) = min(silu(gate), limit) · u`, where `u` is `up` clamped to ±`limit`: the gate is bounded behind
//! its activation. The operands are two tensors or slices of one.
//!
//! `round` says whether every function rounds to the dtype of `gate`, as in models, or the result alone, as in kernels,
//! whose clamps take NaN to a bound; `form` says how `silu` is written.

use fusewright_abi::DType::F32;

use super::clamped_swiglu::{Clamp, pair};
use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec, Silu, SiluForm};
use crate::builder::Builder;
use crate::graph::Value;
use crate::infer::TypeError;

/// What rounds to the dtype of the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepRounding {
    /// Every function.
    Each,
    /// The result.
    Once,
}

const ROUNDINGS: [(&str, StepRounding); 2] = [("each", StepRounding::Each), ("once", StepRounding::Once)];
const FORMS: [(&str, SiluForm); 2] = [("quotient", SiluForm::Quotient), ("product", SiluForm::Product)];

/// Attributes of `swiglu_step`.
#[derive(Clone, Debug)]
pub struct SwigluStep {
    /// The bound of the activation from above, and of `up` from both sides; an f32 value.
    pub limit: f64,
    /// How `silu` is written.
    pub form: SiluForm,
    /// What rounds.
    pub round: StepRounding,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "swiglu_step",
    arity: 2,
    optional: 0,
    parse: |attrs| {
        Ok(Composite::new(SwigluStep {
            limit: attrs.float("limit")?,
            form: attrs.word_or_first("form", &FORMS)?,
            round: attrs.word_or_first("round", &ROUNDINGS)?,
        }))
    },
    variants: || {
        let each = FORMS.map(|(_, form)| SwigluStep { limit: 7.0, form, round: StepRounding::Each });
        let once = SwigluStep { limit: 7.0, form: SiluForm::Quotient, round: StepRounding::Once };
        each.into_iter().chain([once]).map(Composite::new).collect()
    },
    operands: pair,
};

impl CompositeOp for SwigluStep {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        let attrs = Attrs::of([("limit", AttrValue::Float(self.limit))]);
        attrs.and("form", &FORMS, &self.form).and("round", &ROUNDINGS, &self.round)
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let dtype = b.dtype(operands[0]);
        let each = self.round == StepRounding::Each;
        let clamp = Clamp { dtype: if each { dtype } else { F32 }, propagates: each };
        let silu = Composite::new(Silu { form: self.form });
        let act = b.composite(silu, &[b.cast(operands[0], clamp.dtype)?])?[0];
        let act = clamp.apply(b, act, self.limit, false)?;
        let up = clamp.apply(b, b.cast(operands[1], clamp.dtype)?, self.limit, true)?;
        Ok(vec![b.cast(b.mul(act, up)?, dtype)?])
    }
}
