//! `rope_neox(x, cos, sin) = x · cos + rotate_half(x) · sin` with `rotate_half([a | b]) = [−b | a]` over the last axis.
//!
//! Every product and the sum round to the dtype of `x`, as in the Hugging Face models; `cos` and `sin` have the full
//! width of a head and broadcast over the other axes.

use fusewright_abi::DType;

use super::{Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// Rotary position embedding, halves paired.
#[derive(Clone, Debug)]
pub struct RopeNeox;

pub(super) const SPEC: OpSpec = OpSpec {
    name: "rope_neox",
    arity: 3,
    parse: |_| Ok(Composite::new(RopeNeox)),
    variants: || vec![Composite::new(RopeNeox)],
    operands: |dtype: DType| {
        let (s, lanes) = (Dim::symbol("s"), Dim::constant(64));
        let table = TensorType::new(dtype, [s.clone(), lanes.clone()]);
        vec![TensorType::new(dtype, [Dim::constant(4), s, lanes]), table.clone(), table]
    },
};

impl CompositeOp for RopeNeox {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        Attrs::default()
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let (x, cos, sin) = (operands[0], operands[1], operands[2]);
        let ty = b.ty(x);
        let refuse = |message: &str| TypeError { op: SPEC.name.to_owned(), message: format!("{message}: {ty}") };
        let (axis, lanes) = ty.shape.iter().enumerate().next_back().ok_or_else(|| refuse("no axis"))?;
        let half = lanes.exact_div(&Dim::constant(2)).ok_or_else(|| refuse("odd last axis"))?;
        let low = b.slice(x, axis, Dim::constant(0), half.clone())?;
        let high = b.slice(x, axis, half, lanes.clone())?;
        let rotated = b.cat(&[b.map(ScalarFn::Neg, &[high])?, low], axis)?;
        Ok(vec![b.add(b.mul(x, cos)?, b.mul(rotated, sin)?)?])
    }
}
