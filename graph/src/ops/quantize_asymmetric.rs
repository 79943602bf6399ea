//! `quantize_asymmetric(x) → (q, scale, zero)`: int8 codes that cover the range of each slice of the last axis, in f32.
//!
//! `scale = (max − min) / 255`, `zero = i32(round(−128 − min / scale))`, and `q = clamp(i32(round(x · (1 / scale))) + zero)`
//! to the range of i8: the zero point is an integer that is added after rounding. Conversions saturate and take NaN to 0;
//! NaN counts for nothing in the range. A slice of equal elements has the scale 0, and what follows from it.

use fusewright_abi::DType::{self, F32, I8, I32, I64};

use super::{Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::prim::{NanRule, Prim, ReduceOp};
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// Distance of the least and the greatest code.
const SPAN: f64 = 255.0;
/// Least and greatest code.
const CODES: [i64; 2] = [-128, 127];

/// Int8 codes with a scale and a zero point per row.
#[derive(Clone, Debug)]
pub struct QuantizeAsymmetric;

pub(super) const SPEC: OpSpec = OpSpec {
    name: "quantize_asymmetric",
    arity: 1,
    optional: 0,
    parse: |_| Ok(Composite::new(QuantizeAsymmetric)),
    variants: || vec![Composite::new(QuantizeAsymmetric)],
    operands: |dtype: DType| vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)])],
};

impl CompositeOp for QuantizeAsymmetric {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        Attrs::default()
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let x = b.cast(operands[0], F32)?;
        let ty = b.ty(x);
        let refuse = || TypeError { op: SPEC.name.to_owned(), message: format!("no axis: {ty}") };
        let axis = ty.rank().checked_sub(1).ok_or_else(refuse)?;
        let extreme = |op| b.prim(Prim::Reduce { op, axes: vec![axis], nan: NanRule::Ignore }, &[x]);
        let (largest, smallest) = (extreme(ReduceOp::Max)?, extreme(ReduceOp::Min)?);
        let [least, greatest] = CODES;
        let scale = b.div(b.sub(largest, smallest)?, b.float(F32, SPAN)?)?;
        let whole = |v| b.cast(b.map(ScalarFn::RoundEven, &[v])?, I32);
        let zero = whole(b.sub(b.float(F32, least as f64)?, b.div(smallest, scale)?)?)?;
        let steps = whole(b.mul(x, b.div(b.float(F32, 1.0)?, scale)?)?)?;
        let moved = b.add(b.cast(steps, I64)?, b.cast(zero, I64)?)?;
        let codes = b.cast(b.clamp(moved, b.int(I64, least)?, b.int(I64, greatest)?)?, I8)?;
        Ok(vec![codes, scale, zero])
    }
}
