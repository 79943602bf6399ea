//! `quantize_dynamic(x[, upper]) → (q, scale)`: one scale per slice of the last axis, from its largest magnitude, in f32.
//!
//! `absmax` is the largest magnitude, no larger than `upper` where that is given; `floor_of` says how a small one is
//! kept from making a scale of zero. `scale` is `absmax / bound`, `1 / (bound / absmax)`, `bound / absmax` or the next
//! power of two, and `apply` says how it meets `x`: as divisor, as reciprocal, or not at all, as the quotient
//! `bound / absmax`, which is 0 for an `absmax` of 0. Codes are those of [`quantize_static`](super::QuantizeStatic). Unless `nan` is `propagate`,
//! NaN counts for nothing in `absmax`. A group quantiser is this op on a tensor whose last axis is the group.

use fusewright_abi::DType::{self, F32};

use super::quantize_static::{APPLY_DYNAMIC, CODES, NANS, codes};
use super::{Apply, AttrValue, Attrs, Codes, Composite, CompositeOp, NanCode, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::prim::{NanRule, Prim, ReduceOp};
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// What the floor bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Floor {
    /// Nothing: there is none.
    None,
    /// The scale: `max(scale, floor)`, before it becomes a power of two.
    Scale,
    /// The largest magnitude: `max(absmax, floor)`.
    AbsMax,
    /// A magnitude of zero only, which it replaces.
    Zero,
}

/// What a scale made from the data is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DynamicScale {
    /// `absmax / bound`.
    Quotient,
    /// `1 / (bound / absmax)`, rounded twice.
    Inverse,
    /// The least power of two that is no less than the quotient.
    PowerOfTwo,
    /// `bound / absmax`: what `x` is multiplied by, not its inverse.
    Factor,
}

const FLOORS: [(&str, Floor); 4] =
    [("none", Floor::None), ("scale", Floor::Scale), ("absmax", Floor::AbsMax), ("zero", Floor::Zero)];
const SCALES: [(&str, DynamicScale); 4] = [
    ("quotient", DynamicScale::Quotient),
    ("inverse", DynamicScale::Inverse),
    ("power_of_two", DynamicScale::PowerOfTwo),
    ("factor", DynamicScale::Factor),
];

/// Attributes of `quantize_dynamic`.
#[derive(Clone, Copy, Debug)]
pub struct QuantizeDynamic {
    /// What is made.
    pub codes: Codes,
    /// Largest code magnitude; an f32 value.
    pub bound: f64,
    /// What the floor bounds.
    pub floor_of: Floor,
    /// Least scale or magnitude, or what stands for a magnitude of zero; an f32 value.
    pub floor: f64,
    /// What the scale is.
    pub scale: DynamicScale,
    /// How it is applied.
    pub apply: Apply,
    /// What becomes of NaN.
    pub nan: NanCode,
}

impl Default for QuantizeDynamic {
    /// e4m3 codes within ±448 by division, without a floor.
    fn default() -> Self {
        QuantizeDynamic {
            codes: Codes::F8E4M3,
            bound: 448.0,
            floor_of: Floor::None,
            floor: 0.0,
            scale: DynamicScale::Quotient,
            apply: Apply::Divide,
            nan: NanCode::Propagate,
        }
    }
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "quantize_dynamic",
    arity: 1,
    optional: 1,
    parse: |attrs| {
        let floor_of = attrs.word_or_first("floor_of", &FLOORS)?;
        Ok(Composite::new(QuantizeDynamic {
            codes: attrs.word_or_first("codes", &CODES)?,
            bound: attrs.float("bound")?,
            floor_of,
            floor: if floor_of == Floor::None { 0.0 } else { attrs.float("floor")? },
            scale: attrs.word_or_first("scale", &SCALES)?,
            apply: attrs.word_or_first("apply", &APPLY_DYNAMIC)?,
            nan: attrs.word_or_first("nan", &NANS)?,
        }))
    },
    variants,
    operands: |dtype: DType| {
        vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)]), TensorType::scalar(F32)]
    },
};

/// The quantisers of PyTorch graphs, then those of vLLM's and Ascend's kernels.
fn variants() -> Vec<Composite> {
    let fp8 = QuantizeDynamic { floor: f64::from(1e-10f32), ..QuantizeDynamic::default() };
    let int8 = QuantizeDynamic { codes: Codes::I8, bound: 127.0, ..fp8 };
    let (scale, inverse, power) = (DynamicScale::Quotient, DynamicScale::Inverse, DynamicScale::PowerOfTwo);
    let mut all = Vec::new();
    for base in [fp8, int8] {
        for floor_of in [Floor::None, Floor::Scale, Floor::AbsMax, Floor::Zero] {
            let by = |apply| QuantizeDynamic { floor_of, apply, ..base };
            all.extend([by(Apply::Divide), by(Apply::Reciprocal)]);
        }
    }
    let e5m2 = QuantizeDynamic { codes: Codes::F8E5M2, bound: 57344.0, ..fp8 };
    all.extend([Apply::Divide, Apply::Reciprocal].map(|apply| QuantizeDynamic {
        floor_of: Floor::Scale,
        apply,
        ..e5m2
    }));
    all.extend([
        QuantizeDynamic { floor_of: Floor::AbsMax, scale: power, ..fp8 },
        QuantizeDynamic { floor_of: Floor::Scale, nan: NanCode::High, ..fp8 },
        QuantizeDynamic { floor_of: Floor::AbsMax, apply: Apply::Reciprocal, nan: NanCode::Low, ..fp8 },
        QuantizeDynamic { floor_of: Floor::AbsMax, apply: Apply::Reciprocal, nan: NanCode::Low, scale: power, ..fp8 },
        QuantizeDynamic { apply: Apply::Factor, scale, ..int8 },
        QuantizeDynamic { apply: Apply::Factor, nan: NanCode::Skip, ..int8 },
        QuantizeDynamic { apply: Apply::Factor, nan: NanCode::Skip, scale: inverse, ..int8 },
        QuantizeDynamic { apply: Apply::Factor, nan: NanCode::Skip, scale: DynamicScale::Factor, ..int8 },
        QuantizeDynamic { floor_of: Floor::Scale, apply: Apply::Reciprocal, nan: NanCode::High, ..fp8 },
        QuantizeDynamic { floor_of: Floor::Scale, apply: Apply::Reciprocal, nan: NanCode::Skip, ..int8 },
        QuantizeDynamic {
            codes: Codes::I4,
            bound: 7.0,
            apply: Apply::Factor,
            nan: NanCode::Skip,
            scale: inverse,
            ..int8
        },
    ]);
    all.into_iter().map(Composite::new).collect()
}

impl CompositeOp for QuantizeDynamic {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        let attrs = Attrs::default().and("codes", &CODES, &self.codes);
        let mut attrs = attrs.join(Attrs::of([("bound", AttrValue::Float(self.bound))]));
        if self.floor_of != Floor::None {
            attrs = attrs.join(Attrs::of([("floor", AttrValue::Float(self.floor))]));
        }
        attrs
            .and("floor_of", &FLOORS, &self.floor_of)
            .and("scale", &SCALES, &self.scale)
            .and("apply", &APPLY_DYNAMIC, &self.apply)
            .and("nan", &NANS, &self.nan)
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let x = b.cast(operands[0], F32)?;
        let bound = b.attr("bound", F32, self.bound)?;
        let largest = self.largest(b, x, operands.get(1).copied())?;
        let by_factor = matches!(self.scale, DynamicScale::Inverse | DynamicScale::Factor);
        let factor = (by_factor || self.apply == Apply::Factor).then(|| b.div(bound, largest)).transpose()?;
        let mut scale = match (factor, self.scale) {
            (Some(factor), DynamicScale::Inverse) => b.div(b.float(F32, 1.0)?, factor)?,
            (Some(factor), DynamicScale::Factor) => factor,
            _ => b.div(largest, bound)?,
        };
        if self.floor_of == Floor::Scale {
            scale = b.map(ScalarFn::Max, &[scale, b.attr("floor", F32, self.floor)?])?;
        }
        if self.scale == DynamicScale::PowerOfTwo {
            scale = b.map(ScalarFn::Ue8m0Ceil, &[scale])?;
        }
        let scaled = match (self.apply, factor) {
            (Apply::Factor, Some(factor)) => {
                let zero = b.float(F32, 0.0)?;
                let empty = b.map(ScalarFn::Eq, &[largest, zero])?;
                b.mul(x, b.map(ScalarFn::Select, &[empty, zero, factor])?)?
            }
            (by, _) => by.scaled(b, x, scale)?,
        };
        if b.ty(scaled).shape != b.ty(x).shape {
            let message = format!("{} bounds more than {}", b.ty(operands[1]), b.ty(x));
            return Err(TypeError { op: SPEC.name.to_owned(), message });
        }
        Ok(vec![codes(b, self.codes, self.nan, scaled, (bound, self.bound))?, scale])
    }
}

impl QuantizeDynamic {
    /// The largest magnitude of a slice, as the scale is made from it.
    fn largest(&self, b: &Builder, x: Value, upper: Option<Value>) -> Result<Value, TypeError> {
        let axis = b.ty(x).rank().saturating_sub(1);
        let ignored = self.nan != NanCode::Propagate;
        let nan = if ignored { NanRule::Ignore } else { NanRule::Propagate };
        let magnitude = b.map(ScalarFn::Abs, &[x])?;
        let mut largest = b.prim(Prim::Reduce { op: ReduceOp::Max, axes: vec![axis], nan }, &[magnitude])?;
        if ignored {
            largest = b.map(ScalarFn::Max, &[largest, b.float(F32, 0.0)?])?;
        }
        if let Some(upper) = upper {
            largest = b.map(ScalarFn::Min, &[largest, upper])?;
        }
        Ok(match self.floor_of {
            Floor::AbsMax => b.map(ScalarFn::Max, &[largest, b.attr("floor", F32, self.floor)?])?,
            Floor::Zero => {
                let empty = b.map(ScalarFn::Eq, &[largest, b.float(F32, 0.0)?])?;
                b.map(ScalarFn::Select, &[empty, b.attr("floor", F32, self.floor)?, largest])?
            }
            Floor::None | Floor::Scale => largest,
        })
    }
}
