//! `clamped_swiglu(gate, up) = act(g) · (u + beta)` with `act(g) = g · σ(alpha · g)`, where `g = min(gate, limit)` and `u`
//! is `up` clamped to ±`limit`: the gate of GPT-OSS, and with `alpha = 1` and `beta = 0` a clamped `silu(gate) · up`.
//!
//! The operands are two tensors, or slices of one: halves in either order, or neighbours. `act` says how the activation is
//! written, and `round` what rounds to the dtype of `gate`.

use fusewright_abi::DType::{self, F32};

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec, Sigmoid, Silu, SiluForm};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::num;
use crate::prim::Rounding;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// How the activation is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwigluAct {
    /// `g · σ(alpha · g)`, three functions that round as the others do.
    Factors,
    /// `g / (1 + e^(−alpha · g))` in f32, one function.
    Quotient,
    /// `g · σ(alpha · g)` in f32, one function.
    Product,
    /// Behind the product with `u + beta`: `((u + beta) · g) / (1 + e^(−alpha · g))`.
    Late,
}

/// What rounds to the dtype of the gate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwigluRounding {
    /// Every function, as in models; a NaN stays NaN.
    Each,
    /// Clamps, activation and result, as in vLLM's CUDA kernel; clamps take NaN to a bound.
    Steps,
    /// The result; clamps take NaN to a bound.
    Once,
}

const ACTS: [(&str, SwigluAct); 4] = [
    ("factors", SwigluAct::Factors),
    ("quotient", SwigluAct::Quotient),
    ("product", SwigluAct::Product),
    ("late", SwigluAct::Late),
];
const ROUNDINGS: [(&str, SwigluRounding); 3] =
    [("each", SwigluRounding::Each), ("steps", SwigluRounding::Steps), ("once", SwigluRounding::Once)];

/// Attributes of `clamped_swiglu`.
#[derive(Clone, Debug)]
pub struct ClampedSwiglu {
    /// The bound of the gate from above, and of `up` from both sides; an f32 value.
    pub limit: f64,
    /// The slope of the sigmoid; an f32 value. One is no factor.
    pub alpha: f64,
    /// What is added to `up`; an f32 value. Where each function rounds, zero is no term.
    pub beta: f64,
    /// How the activation is written.
    pub act: SwigluAct,
    /// What rounds.
    pub round: SwigluRounding,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "clamped_swiglu",
    arity: 2,
    optional: 0,
    parse: |attrs| {
        Ok(Composite::new(ClampedSwiglu {
            limit: attrs.float("limit")?,
            alpha: attrs.float("alpha")?,
            beta: attrs.float("beta")?,
            act: attrs.word_or_first("act", &ACTS)?,
            round: attrs.word_or_first("round", &ROUNDINGS)?,
        }))
    },
    variants,
    operands: pair,
};

/// Gate and up.
pub(super) fn pair(dtype: DType) -> Vec<TensorType> {
    vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)]); 2]
}

/// GPT-OSS as a model, models that clamp a plain gate, then the kernels of vLLM.
fn variants() -> Vec<Composite> {
    use SwigluAct::{Factors, Late, Product, Quotient};
    use SwigluRounding::{Each, Once, Steps};
    let of = |act, round, alpha: f32, beta| ClampedSwiglu { limit: 7.0, alpha: alpha.into(), beta, act, round };
    let all = [
        of(Factors, Each, 1.702, 1.0),
        of(Quotient, Each, 1.0, 0.0),
        of(Product, Each, 1.0, 0.0),
        of(Quotient, Steps, 1.702, 1.0),
        of(Late, Once, 1.702, 1.0),
        of(Factors, Once, 1.702, 1.0),
    ];
    all.map(Composite::new).to_vec()
}

/// How one of the clamps treats NaN, and where its bounds are.
pub(super) struct Clamp {
    /// Dtype of operand and bounds.
    pub dtype: DType,
    /// Whether NaN stays; kernels take it to the upper bound, which comes first there.
    pub propagates: bool,
}

impl Clamp {
    /// `min(x, limit)`, and where `both` is set `max` with its negative.
    pub fn apply(&self, b: &Builder, x: Value, limit: f64, both: bool) -> Result<Value, TypeError> {
        let limit = num::round_to(self.dtype, limit, Rounding::NearestEven, false);
        let high = b.attr("limit", self.dtype, limit)?;
        let [upper, lower] =
            if self.propagates { [ScalarFn::Min, ScalarFn::Max] } else { [ScalarFn::MinNum, ScalarFn::MaxNum] };
        match (both, self.propagates) {
            (false, _) => b.map(upper, &[x, high]),
            (true, true) => b.clamp(x, b.float(self.dtype, -limit)?, high),
            (true, false) => b.map(lower, &[b.map(upper, &[x, high])?, b.float(self.dtype, -limit)?]),
        }
    }
}

impl ClampedSwiglu {
    /// `alpha · g` in f32.
    fn slope(&self, b: &Builder, g: Value) -> Result<Value, TypeError> {
        let g = b.cast(g, F32)?;
        if self.alpha == 1.0 { Ok(g) } else { b.mul(g, b.attr("alpha", F32, self.alpha)?) }
    }

    /// `1 + e^(−alpha · g)` in f32.
    fn denominator(&self, b: &Builder, g: Value) -> Result<Value, TypeError> {
        let e = b.map(ScalarFn::Exp, &[b.map(ScalarFn::Neg, &[self.slope(b, g)?])?])?;
        b.add(b.float(F32, 1.0)?, e)
    }

    /// The activation of `g` in the dtype of `g`.
    fn activation(&self, b: &Builder, g: Value) -> Result<Value, TypeError> {
        let dtype = b.dtype(g);
        let sigmoid = |x| Ok(b.composite(Composite::new(Sigmoid), &[x])?[0]);
        let silu = |form| Ok(b.composite(Composite::new(Silu { form }), &[g])?[0]);
        match self.act {
            SwigluAct::Factors => b.mul(g, sigmoid(b.cast(self.slope(b, g)?, dtype)?)?),
            SwigluAct::Product if self.alpha == 1.0 => silu(SiluForm::Product),
            SwigluAct::Product => b.cast(b.mul(b.cast(g, F32)?, sigmoid(self.slope(b, g)?)?)?, dtype),
            SwigluAct::Quotient if self.alpha == 1.0 => silu(SiluForm::Quotient),
            SwigluAct::Quotient | SwigluAct::Late => b.cast(b.div(b.cast(g, F32)?, self.denominator(b, g)?)?, dtype),
        }
    }
}

impl CompositeOp for ClampedSwiglu {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        let numbers = [("limit", self.limit), ("alpha", self.alpha), ("beta", self.beta)];
        let attrs = Attrs::of(numbers.map(|(name, v)| (name, AttrValue::Float(v))));
        attrs.and("act", &ACTS, &self.act).and("round", &ROUNDINGS, &self.round)
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let dtype = b.dtype(operands[0]);
        let each = self.round == SwigluRounding::Each;
        let clamp = Clamp { dtype: if each { dtype } else { F32 }, propagates: each };
        // Where steps round, what stays in f32 is rounded to the dtype and widened again.
        let stored =
            |x: Value| if self.round == SwigluRounding::Steps { b.cast(b.cast(x, dtype)?, F32) } else { Ok(x) };
        let g = stored(clamp.apply(b, b.cast(operands[0], clamp.dtype)?, self.limit, false)?)?;
        let u = stored(clamp.apply(b, b.cast(operands[1], clamp.dtype)?, self.limit, true)?)?;
        let beta = num::round_to(clamp.dtype, self.beta, Rounding::NearestEven, false);
        let moved = if each && beta == 0.0 { u } else { b.add(u, b.attr("beta", clamp.dtype, beta)?)? };
        let y = if self.act == SwigluAct::Late {
            let product = b.cast(b.mul(moved, g)?, F32)?;
            b.div(product, self.denominator(b, g)?)?
        } else {
            b.mul(stored(self.activation(b, g)?)?, moved)?
        };
        Ok(vec![b.cast(y, dtype)?])
    }
}
