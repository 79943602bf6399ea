//! `quantize_dynamic(x) → (q, scale)`: one scale per slice of the last axis, from its largest magnitude.
//!
//! `scale = max(absmax / bound, floor)` or `max(absmax, floor) / bound`, then `q = to(clamp(x / scale, ±bound))`, all
//! in f32. A group quantiser is this op on a tensor whose last axis is the group.

use fusewright_abi::DType::{self, F8E4M3, F32};

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::prim::ReduceOp;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// Whether the floor bounds the scale or the largest magnitude.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Floor {
    /// `max(absmax / bound, floor)`.
    Scale,
    /// `max(absmax, floor) / bound`.
    AbsMax,
}

const FLOORS: [(&str, Floor); 2] = [("scale", Floor::Scale), ("absmax", Floor::AbsMax)];

/// Attributes of `quantize_dynamic`.
#[derive(Clone, Debug)]
pub struct QuantizeDynamic {
    /// Largest code magnitude; an f32 value.
    pub bound: f64,
    /// Least scale or magnitude; an f32 value.
    pub floor: f64,
    /// What the floor bounds.
    pub floor_of: Floor,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "quantize_dynamic",
    arity: 1,
    parse: |attrs| {
        Ok(Composite::new(QuantizeDynamic {
            bound: attrs.float("bound")?,
            floor: attrs.float("floor")?,
            floor_of: attrs.word("floor_of", &FLOORS)?,
        }))
    },
    variants: || {
        let floor = f64::from(1e-10f32);
        FLOORS.map(|(_, floor_of)| Composite::new(QuantizeDynamic { bound: 448.0, floor, floor_of })).to_vec()
    },
    operands: |dtype: DType| vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)])],
};

impl CompositeOp for QuantizeDynamic {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        let floor_of = FLOORS.iter().find(|(_, f)| *f == self.floor_of).map_or("", |(word, _)| word);
        Attrs::of([
            ("bound", AttrValue::Float(self.bound)),
            ("floor", AttrValue::Float(self.floor)),
            ("floor_of", AttrValue::Word(floor_of)),
        ])
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let x = b.cast(operands[0], F32)?;
        let largest = b.reduce_last(ReduceOp::Max, b.map(ScalarFn::Abs, &[x])?)?;
        let floor = b.attr("floor", F32, self.floor)?;
        let bound = b.attr("bound", F32, self.bound)?;
        let scale = match self.floor_of {
            Floor::Scale => b.map(ScalarFn::Max, &[b.div(largest, bound)?, floor])?,
            Floor::AbsMax => b.div(b.map(ScalarFn::Max, &[largest, floor])?, bound)?,
        };
        let low = b.float(F32, -self.bound)?;
        let high = b.float(F32, self.bound)?;
        let code = b.cast_saturating(b.clamp(b.div(x, scale)?, low, high)?, F8E4M3)?;
        Ok(vec![code, scale])
    }
}
