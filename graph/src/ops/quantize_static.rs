//! `quantize_static(x, scale) → q`: a scale given from outside, in f32.
//!
//! `q = f8e4m3(clamp(y, ±bound))`, or `q = i8(clamp(round(y), −bound − 1, bound))`, where `y` is `x / scale`, `x · scale`
//! for a scale that is the inverse already, or `x · (1 / scale)`, which differs from the quotient in the last bit.

use fusewright_abi::DType::{self, F8E4M3, F32, I8};

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
}

/// The codes of a quantiser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codes {
    /// Floats of 8 bits, e4m3fn.
    F8E4M3,
    /// Integers of 8 bits.
    I8,
}

const APPLY: [(&str, Apply); 3] =
    [("divide", Apply::Divide), ("multiply", Apply::Multiply), ("reciprocal", Apply::Reciprocal)];
const CODES: [(&str, Codes); 2] = [("f8e4m3", Codes::F8E4M3), ("i8", Codes::I8)];

/// Attributes of `quantize_static`.
#[derive(Clone, Debug)]
pub struct QuantizeStatic {
    /// What is made.
    pub codes: Codes,
    /// How the scale is applied.
    pub apply: Apply,
    /// Largest code; an f32 value.
    pub bound: f64,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "quantize_static",
    arity: 2,
    parse: |attrs| {
        Ok(Composite::new(QuantizeStatic {
            codes: attrs.word("codes", &CODES)?,
            apply: attrs.word("apply", &APPLY)?,
            bound: attrs.float("bound")?,
        }))
    },
    variants: || {
        let of = |codes, bound| APPLY.map(|(_, apply)| Composite::new(QuantizeStatic { codes, apply, bound }));
        [of(Codes::F8E4M3, 448.0), of(Codes::I8, 127.0)].concat()
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
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let (x, scale) = (b.cast(operands[0], F32)?, b.cast(operands[1], F32)?);
        let scaled = match self.apply {
            Apply::Divide => b.div(x, scale)?,
            Apply::Multiply => b.mul(x, scale)?,
            Apply::Reciprocal => b.mul(x, b.div(b.float(F32, 1.0)?, scale)?)?,
        };
        let (ty, scale) = (b.ty(x), b.ty(scale));
        if b.ty(scaled).shape != ty.shape {
            return Err(TypeError { op: SPEC.name.to_owned(), message: format!("{scale} scales more than {ty}") });
        }
        let high = b.attr("bound", F32, self.bound)?;
        Ok(vec![codes(b, self.codes, scaled, high, self.bound)?])
    }
}

/// The codes of scaled values; `high` holds `bound`.
pub(super) fn codes(b: &Builder, codes: Codes, scaled: Value, high: Value, bound: f64) -> Result<Value, TypeError> {
    match codes {
        Codes::F8E4M3 => b.cast_saturating(b.clamp(scaled, b.float(F32, -bound)?, high)?, F8E4M3),
        Codes::I8 => {
            let low = b.float(F32, -bound - 1.0)?;
            let whole = b.clamp(b.map(ScalarFn::RoundEven, &[scaled])?, low, high)?;
            // Every whole number in between is a code; this is how PyTorch converts.
            b.prim(Prim::Cast { to: I8, round: Rounding::TowardZero, saturate: false }, &[whole])
        }
    }
}
