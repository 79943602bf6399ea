//! `softmax(x) = e^(x − m) / Σ e^(x − m)` over the last axis, `m` the largest element, in f32, rounded once to the dtype
//! of `x`. A row of −inf alone is NaN.

use fusewright_abi::DType::{self, F32};

use super::{Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::prim::ReduceOp;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// Softmax over the last axis.
#[derive(Clone, Debug)]
pub struct Softmax;

pub(super) const SPEC: OpSpec = OpSpec {
    name: "softmax",
    arity: 1,
    optional: 0,
    parse: |_| Ok(Composite::new(Softmax)),
    variants: || vec![Composite::new(Softmax)],
    operands: |dtype: DType| vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)])],
};

impl CompositeOp for Softmax {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        Attrs::default()
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let x = b.cast(operands[0], F32)?;
        let largest = b.reduce_last(ReduceOp::Max, x)?;
        let powers = b.map(ScalarFn::Exp, &[b.sub(x, largest)?])?;
        let y = b.div(powers, b.reduce_last(ReduceOp::Add, powers)?)?;
        Ok(vec![b.cast(y, b.dtype(operands[0]))?])
    }
}
