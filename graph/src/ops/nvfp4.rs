//! `quantize_nvfp4(x, scale) → (codes, block_scales)`: blocks of 16 lanes in e2m1, two codes in a byte, the even lane in
//! the low bits, with one e4m3 scale per block.
//!
//! `block = e4m3(scale · absmax · (1/6))` clamped to ±448, and `codes = e2m1(x · 1/(block · 1/scale))`, all in f32; a
//! block whose scale is zero has codes of zero. The reciprocals and the products that make the scales flush subnormal
//! values to zero, as the GPU's reciprocal does. NaN counts for nothing in `absmax`; as a scale it gives 448.

use fusewright_abi::DType::{self, F4E2M1, F8E4M3, F32, U8};

use super::{Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::prim::{NanRule, Prim, ReduceOp};
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// Lanes of a block.
const BLOCK: i64 = 16;
/// Largest magnitude of e2m1.
const LARGEST: f32 = 6.0;
/// Bound of the block scales.
const BOUND: f64 = 448.0;

/// NVFP4 codes and block scales.
#[derive(Clone, Debug)]
pub struct QuantizeNvfp4;

pub(super) const SPEC: OpSpec = OpSpec {
    name: "quantize_nvfp4",
    arity: 2,
    optional: 0,
    parse: |_| Ok(Composite::new(QuantizeNvfp4)),
    variants: || vec![Composite::new(QuantizeNvfp4)],
    operands: |dtype: DType| {
        vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)]), TensorType::scalar(F32)]
    },
};

/// Subnormal values become zero of their sign.
fn flush(b: &Builder, x: Value) -> Result<Value, TypeError> {
    let tiny = b.map(ScalarFn::Lt, &[b.map(ScalarFn::Abs, &[x])?, b.float(F32, f64::from(f32::MIN_POSITIVE))?])?;
    b.map(ScalarFn::Select, &[tiny, b.mul(x, b.float(F32, 0.0)?)?, x])
}

fn reciprocal(b: &Builder, x: Value) -> Result<Value, TypeError> {
    flush(b, b.div(b.float(F32, 1.0)?, flush(b, x)?)?)
}

impl CompositeOp for QuantizeNvfp4 {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        Attrs::default()
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let (x, scale) = (operands[0], operands[1]);
        let ty = b.ty(x);
        let refuse = |message: &str| TypeError { op: SPEC.name.to_owned(), message: format!("{message}: {ty}") };
        let (axis, lanes) = ty.shape.iter().enumerate().next_back().ok_or_else(|| refuse("no axis"))?;
        let blocks = lanes.exact_div(&Dim::constant(BLOCK)).ok_or_else(|| refuse("lanes that are no whole blocks"))?;
        let mut grouped = ty.shape[..axis].to_vec();
        grouped.push(blocks);
        let flat = grouped.clone();
        grouped.push(Dim::constant(BLOCK));
        let groups = b.cast(b.reshape(x, grouped)?, F32)?;
        let magnitude = b.map(ScalarFn::Abs, &[groups])?;
        let largest = Prim::Reduce { op: ReduceOp::Max, axes: vec![axis + 1], nan: NanRule::Ignore };
        let zero = b.float(F32, 0.0)?;
        let largest = b.map(ScalarFn::Max, &[b.prim(largest, &[magnitude])?, zero])?;
        let share = flush(b, b.mul(largest, b.float(F32, f64::from(1.0 / LARGEST))?)?)?;
        let wanted = flush(b, b.mul(scale, share)?)?;
        let below = b.map(ScalarFn::MinNum, &[wanted, b.float(F32, BOUND)?])?;
        let bounded = b.map(ScalarFn::MaxNum, &[below, b.float(F32, -BOUND)?])?;
        let block = b.cast_saturating(bounded, F8E4M3)?;
        let stored = b.cast(block, F32)?;
        let back = flush(b, b.mul(stored, reciprocal(b, scale)?)?)?;
        let empty = b.map(ScalarFn::Eq, &[stored, zero])?;
        let factor = b.map(ScalarFn::Select, &[empty, zero, reciprocal(b, back)?])?;
        let codes = b.cast_saturating(b.mul(groups, factor)?, F4E2M1)?;
        let packed = b.prim(Prim::Pack { ways: 2, to: U8 }, &[b.reshape(codes, ty.shape.clone())?])?;
        Ok(vec![packed, b.reshape(block, flat)?])
    }
}
