//! `relu_squared(x) = max(x, 0)²`, rounded once to the dtype of `x`.

use super::{Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// `max(x, 0)²`.
#[derive(Clone, Debug)]
pub struct ReluSquared;

pub(super) const SPEC: OpSpec = OpSpec {
    name: "relu_squared",
    arity: 1,
    optional: 0,
    parse: |_| Ok(Composite::new(ReluSquared)),
    variants: || vec![Composite::new(ReluSquared)],
    operands: |dtype| vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)])],
};

impl CompositeOp for ReluSquared {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        Attrs::default()
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let x = operands[0];
        let positive = b.map(ScalarFn::Max, &[x, b.float(b.dtype(x), 0.0)?])?;
        Ok(vec![b.mul(positive, positive)?])
    }
}
