//! `quantize_static(x, scale) → q`: a scale given from outside, one or one per lane, in f32.
//!
//! `q = f8e4m3(clamp(y, ±bound))`, the same in e5m2, or `q = i8(clamp(round(y), −bound − 1, bound))`, or in i4, packed, where `y` is `x / scale`, `x · scale`
//! for a scale that is the inverse already, or `x · (1 / scale)`, which differs from the quotient in the last bit.

use fusewright_abi::DType::{self, F8E4M3, F8E5M2, F32, I4, I8, U8};

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::prim::{Prim, Rounding};
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// How a scale is applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Apply {
    /// `x / scale`.
    Divide,
    /// `x · scale`.
    Multiply,
    /// `x · (1 / scale)`.
    Reciprocal,
    /// `x · (bound / absmax)`: not by the scale; dynamic quantisers only.
    Factor,
}

/// The codes of a quantiser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codes {
    /// Floats of 8 bits, e4m3fn.
    F8E4M3,
    /// Floats of 8 bits, e5m2.
    F8E5M2,
    /// Integers of 8 bits.
    I8,
    /// Integers of 4 bits, two in a byte, the even lane in the low bits.
    I4,
}

/// What becomes of NaN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NanCode {
    /// It makes a scale of NaN; its code is NaN, or 0 as an integer.
    Propagate,
    /// Its code is NaN, or 0 as an integer; a scale is made without it.
    Skip,
    /// Its code is the upper bound; a scale is made without it.
    High,
    /// Its code is the lower bound; a scale is made without it.
    Low,
}

pub(super) const APPLY: [(&str, Apply); 3] =
    [("divide", Apply::Divide), ("multiply", Apply::Multiply), ("reciprocal", Apply::Reciprocal)];
pub(super) const APPLY_DYNAMIC: [(&str, Apply); 3] =
    [("divide", Apply::Divide), ("reciprocal", Apply::Reciprocal), ("factor", Apply::Factor)];
pub(super) const CODES: [(&str, Codes); 4] =
    [("f8e4m3", Codes::F8E4M3), ("f8e5m2", Codes::F8E5M2), ("i8", Codes::I8), ("i4", Codes::I4)];
pub(super) const NANS: [(&str, NanCode); 4] =
    [("propagate", NanCode::Propagate), ("skip", NanCode::Skip), ("high", NanCode::High), ("low", NanCode::Low)];
/// Without a scale to make, nothing is skipped.
const STATIC_NANS: [(&str, NanCode); 3] =
    [("propagate", NanCode::Propagate), ("high", NanCode::High), ("low", NanCode::Low)];

/// Attributes of `quantize_static`.
#[derive(Clone, Debug)]
pub struct QuantizeStatic {
    /// What is made.
    pub codes: Codes,
    /// How the scale is applied: not as [`Apply::Factor`].
    pub apply: Apply,
    /// Largest code; an f32 value.
    pub bound: f64,
    /// What becomes of NaN.
    pub nan: NanCode,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "quantize_static",
    arity: 2,
    optional: 0,
    parse: |attrs| {
        Ok(Composite::new(QuantizeStatic {
            codes: attrs.word("codes", &CODES)?,
            apply: attrs.word("apply", &APPLY)?,
            bound: attrs.float("bound")?,
            nan: attrs.word_or_first("nan", &STATIC_NANS)?,
        }))
    },
    variants: || {
        let of = |codes, bound, nan| APPLY.map(|(_, apply)| QuantizeStatic { codes, apply, bound, nan });
        let fp8 = [
            of(Codes::F8E4M3, 448.0, NanCode::Propagate),
            of(Codes::F8E4M3, 448.0, NanCode::High),
            of(Codes::F8E5M2, 57344.0, NanCode::Propagate),
        ];
        let fp8 = fp8.concat();
        let whole = [of(Codes::I8, 127.0, NanCode::Propagate), of(Codes::I4, 7.0, NanCode::Propagate)].concat();
        fp8.into_iter().chain(whole).map(Composite::new).collect()
    },
    operands: |dtype| {
        vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)]), TensorType::scalar(DType::F32)]
    },
};

impl CompositeOp for QuantizeStatic {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        let apply = APPLY.iter().find(|(_, a)| *a == self.apply).map_or("", |(word, _)| word);
        let codes = CODES.iter().find(|(_, c)| *c == self.codes).map_or("", |(word, _)| word);
        Attrs::of([
            ("codes", AttrValue::Word(codes)),
            ("apply", AttrValue::Word(apply)),
            ("bound", AttrValue::Float(self.bound)),
        ])
        .and("nan", &STATIC_NANS, &self.nan)
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let (x, scale) = (b.cast(operands[0], F32)?, b.cast(operands[1], F32)?);
        let scaled = self.apply.scaled(b, x, scale)?;
        fits(b, SPEC.name, scaled, (x, scale))?;
        let high = b.attr("bound", F32, self.bound)?;
        Ok(vec![codes(b, self.codes, self.nan, scaled, (high, self.bound))?])
    }
}

impl Apply {
    /// `x` under a scale; a factor is a scale that is the inverse already.
    pub(super) fn scaled(self, b: &Builder, x: Value, scale: Value) -> Result<Value, TypeError> {
        match self {
            Apply::Divide => b.div(x, scale),
            Apply::Multiply | Apply::Factor => b.mul(x, scale),
            Apply::Reciprocal => b.mul(x, b.div(b.float(F32, 1.0)?, scale)?),
        }
    }
}

/// Refuses a parameter that makes more of `x` than it is.
pub(super) fn fits(b: &Builder, op: &str, y: Value, (x, with): (Value, Value)) -> Result<(), TypeError> {
    let (ty, with) = (b.ty(x), b.ty(with));
    if b.ty(y).shape == ty.shape {
        return Ok(());
    }
    Err(TypeError { op: op.to_owned(), message: format!("{with} scales more than {ty}") })
}

/// The codes of scaled values within a bound, which is at hand as a value and as a number.
pub(super) fn codes(
    b: &Builder,
    codes: Codes,
    nan: NanCode,
    scaled: Value,
    (high, bound): (Value, f64),
) -> Result<Value, TypeError> {
    let (least, whole) = match codes {
        Codes::F8E4M3 | Codes::F8E5M2 => (-bound, scaled),
        Codes::I8 | Codes::I4 => (-bound - 1.0, b.map(ScalarFn::RoundEven, &[scaled])?),
    };
    let low = b.float(F32, least)?;
    let clamped = match nan {
        NanCode::Propagate | NanCode::Skip => b.clamp(whole, low, high)?,
        NanCode::High => b.map(ScalarFn::MaxNum, &[b.map(ScalarFn::MinNum, &[whole, high])?, low])?,
        NanCode::Low => b.map(ScalarFn::MinNum, &[b.map(ScalarFn::MaxNum, &[whole, low])?, high])?,
    };
    // Every whole number in between is a code; this is how PyTorch converts.
    let whole_to = |to| b.prim(Prim::Cast { to, round: Rounding::TowardZero, saturate: false }, &[clamped]);
    match codes {
        Codes::F8E4M3 => b.cast_saturating(clamped, F8E4M3),
        Codes::F8E5M2 => b.cast_saturating(clamped, F8E5M2),
        Codes::I8 => whole_to(I8),
        Codes::I4 => b.prim(Prim::Pack { ways: 2, to: U8 }, &[whole_to(I4)?]),
    }
}
