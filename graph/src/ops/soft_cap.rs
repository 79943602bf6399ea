//! `soft_cap(x) = tanh(x / cap) · cap`: logits held within ±`cap`. Each of the three functions rounds to the dtype of `x`,
//! and so does `cap`.

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::num;
use crate::prim::Rounding;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// `tanh(x / cap) · cap`.
#[derive(Clone, Debug)]
pub struct SoftCap {
    /// The bound; an f32 value.
    pub cap: f64,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "soft_cap",
    arity: 1,
    optional: 0,
    parse: |attrs| Ok(Composite::new(SoftCap { cap: attrs.float("cap")? })),
    variants: || vec![Composite::new(SoftCap { cap: 30.0 })],
    operands: |dtype| vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)])],
};

impl CompositeOp for SoftCap {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        Attrs::of([("cap", AttrValue::Float(self.cap))])
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let (x, dtype) = (operands[0], b.dtype(operands[0]));
        let cap = b.attr("cap", dtype, num::round_to(dtype, self.cap, Rounding::NearestEven, false))?;
        let bent = b.map(ScalarFn::Tanh, &[b.div(x, cap)?])?;
        Ok(vec![b.mul(bent, cap)?])
    }
}
