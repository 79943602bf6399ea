//! `quantize_affine(x, scale, offset) → q`: int8 codes with a zero point, scale and offset given from outside.
//!
//! `y` is `x / scale`, `x · scale` or `x · (1 / scale)` in f32. An offset `before_rounding` is added to it in f32, then
//! the sum is rounded; one `after_rounding` is an integer that is added to the rounded `y` in i64. Codes are clamped to
//! `−bound − 1` and `bound`; NaN counts as 0 where it is rounded first, and gives the code 0 otherwise.

use fusewright_abi::DType::{F32, I8, I32, I64};

use super::quantize_static::{APPLY, codes, fits};
use super::{Apply, AttrValue, Attrs, Codes, Composite, CompositeOp, NanCode, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// Where the zero point is added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offset {
    /// To the scaled value.
    BeforeRounding,
    /// To the rounded one, as integers.
    AfterRounding,
}

const OFFSETS: [(&str, Offset); 2] =
    [("before_rounding", Offset::BeforeRounding), ("after_rounding", Offset::AfterRounding)];

/// Attributes of `quantize_affine`.
#[derive(Clone, Debug)]
pub struct QuantizeAffine {
    /// How the scale is applied: not as [`Apply::Factor`].
    pub apply: Apply,
    /// Where the zero point is added.
    pub offset: Offset,
    /// Largest code; an f32 value.
    pub bound: f64,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "quantize_affine",
    arity: 3,
    optional: 0,
    parse: |attrs| {
        Ok(Composite::new(QuantizeAffine {
            apply: attrs.word("apply", &APPLY)?,
            offset: attrs.word("offset", &OFFSETS)?,
            bound: attrs.float("bound")?,
        }))
    },
    variants: || {
        let of = |offset| APPLY.map(|(_, apply)| Composite::new(QuantizeAffine { apply, offset, bound: 127.0 }));
        [of(Offset::BeforeRounding), of(Offset::AfterRounding)].concat()
    },
    operands: |dtype| {
        let lanes = Dim::constant(64);
        let channel = TensorType::new(F32, [lanes.clone()]);
        vec![TensorType::new(dtype, [Dim::symbol("s"), lanes]), channel.clone(), channel]
    },
};

impl CompositeOp for QuantizeAffine {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        let apply = APPLY.iter().find(|(_, a)| *a == self.apply).map_or("", |(word, _)| word);
        let offset = OFFSETS.iter().find(|(_, o)| *o == self.offset).map_or("", |(word, _)| word);
        Attrs::of([
            ("apply", AttrValue::Word(apply)),
            ("offset", AttrValue::Word(offset)),
            ("bound", AttrValue::Float(self.bound)),
        ])
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let (x, scale) = (b.cast(operands[0], F32)?, b.cast(operands[1], F32)?);
        let scaled = self.apply.scaled(b, x, scale)?;
        fits(b, SPEC.name, scaled, (x, scale))?;
        let q = match self.offset {
            Offset::BeforeRounding => {
                let high = b.attr("bound", F32, self.bound)?;
                let moved = b.add(scaled, b.cast(operands[2], F32)?)?;
                codes(b, Codes::I8, NanCode::Propagate, moved, (high, self.bound))?
            }
            Offset::AfterRounding => {
                let whole = b.cast(b.cast(b.map(ScalarFn::RoundEven, &[scaled])?, I32)?, I64)?;
                let moved = b.add(whole, b.cast(operands[2], I64)?)?;
                let bound = self.bound as i64;
                b.cast(b.clamp(moved, b.int(I64, -bound - 1)?, b.int(I64, bound)?)?, I8)?
            }
        };
        fits(b, SPEC.name, q, (x, operands[2]))?;
        Ok(vec![q])
    }
}
