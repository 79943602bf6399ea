//! `quantize_int8(x) → (q, scale)`: one scale per slice of the last axis, `absmax / bound`, without a floor, then
//! `q = i8(clamp(round(x / scale), −bound − 1, bound))`, all in f32. A slice of zeros has the scale 0 and codes of NaN.

use fusewright_abi::DType::F32;

use super::quantize_static::{Codes, codes};
use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::prim::ReduceOp;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// Attributes of `quantize_int8`.
#[derive(Clone, Debug)]
pub struct QuantizeInt8 {
    /// Largest code; an f32 value.
    pub bound: f64,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "quantize_int8",
    arity: 1,
    parse: |attrs| Ok(Composite::new(QuantizeInt8 { bound: attrs.float("bound")? })),
    variants: || vec![Composite::new(QuantizeInt8 { bound: 127.0 })],
    operands: |dtype| vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)])],
};

impl CompositeOp for QuantizeInt8 {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        Attrs::of([("bound", AttrValue::Float(self.bound))])
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let x = b.cast(operands[0], F32)?;
        let largest = b.reduce_last(ReduceOp::Max, b.map(ScalarFn::Abs, &[x])?)?;
        let bound = b.attr("bound", F32, self.bound)?;
        let scale = b.div(largest, bound)?;
        Ok(vec![codes(b, Codes::I8, b.div(x, scale)?, bound, self.bound)?, scale])
    }
}
