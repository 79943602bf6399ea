//! `rms_scale(x) = 1 / √(mean(x², last axis) + eps)` in f32: what an RMS norm multiplies by. Kernels that return it
//! beside the norm are both ops on one operand.
//!
//! `mean` and `root` say how it is computed: kernels differ in the last bit.

use fusewright_abi::DType::{self, F32};

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::prim::{Prim, ReduceOp};
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// How the mean of squares is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mean {
    /// `Σ x² / n`.
    Quotient,
    /// `Σ (x² · (1/n))`.
    Parts,
}

/// How the reciprocal root is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// As one function.
    Rsqrt,
    /// `1 / √v`, rounded twice.
    Inverse,
    /// Not at all: norms divide by `√v`.
    Divide,
}

const MEANS: [(&str, Mean); 2] = [("quotient", Mean::Quotient), ("parts", Mean::Parts)];
const FACTORS: [(&str, Root); 2] = [("rsqrt", Root::Rsqrt), ("inverse", Root::Inverse)];
pub(super) const ROOTS: [(&str, Root); 3] =
    [("rsqrt", Root::Rsqrt), ("inverse", Root::Inverse), ("divide", Root::Divide)];

impl Root {
    /// The reciprocal root of an f32 value.
    fn reciprocal(self, b: &Builder, v: Value) -> Result<Value, TypeError> {
        match self {
            Root::Rsqrt => b.map(ScalarFn::Rsqrt, &[v]),
            Root::Inverse | Root::Divide => b.div(b.float(F32, 1.0)?, b.map(ScalarFn::Sqrt, &[v])?),
        }
    }

    /// An f32 value over the root of another.
    pub(super) fn normal(self, b: &Builder, x: Value, v: Value) -> Result<Value, TypeError> {
        match self {
            Root::Divide => b.div(x, b.map(ScalarFn::Sqrt, &[v])?),
            Root::Rsqrt | Root::Inverse => b.mul(x, self.reciprocal(b, v)?),
        }
    }
}

/// Attributes of `rms_scale`, where the root is a factor, and of norms.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RmsScale {
    /// Added to the mean of squares, inside the root; an f32 value.
    pub eps: f64,
    /// How the mean is made.
    pub mean: Mean,
    /// How the root is made.
    pub root: Root,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "rms_scale",
    arity: 1,
    optional: 0,
    parse: |attrs| Ok(Composite::new(RmsScale::parse(attrs, &FACTORS)?)),
    variants: || RmsScale::variants().into_iter().filter(|s| s.root != Root::Divide).map(Composite::new).collect(),
    operands: |dtype: DType| vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)])],
};

impl RmsScale {
    /// The mean as a quotient and the root as one function.
    pub fn new(eps: f64) -> Self {
        RmsScale { eps, mean: Mean::Quotient, root: Root::Rsqrt }
    }

    pub(super) fn parse(attrs: &Attrs, roots: &[(&str, Root)]) -> Result<Self, String> {
        let (mean, root) = (attrs.word_or_first("mean", &MEANS)?, attrs.word_or_first("root", roots)?);
        Ok(RmsScale { eps: attrs.float("eps")?, mean, root })
    }

    /// The forms that graphs and kernels hold.
    pub(super) fn variants() -> [Self; 4] {
        let plain = RmsScale::new(f64::from(1e-6f32));
        let [inverse, divide] = [Root::Inverse, Root::Divide].map(|root| RmsScale { root, ..plain });
        [plain, inverse, RmsScale { mean: Mean::Parts, ..inverse }, divide]
    }

    /// The attributes behind the others of an op.
    pub(super) fn forms(&self, attrs: Attrs) -> Attrs {
        attrs.and("mean", &MEANS, &self.mean).and("root", &ROOTS, &self.root)
    }

    /// The mean of squares of an f32 value, and `eps`.
    fn mean_square(&self, b: &Builder, x: Value) -> Result<Value, TypeError> {
        let square = b.mul(x, x)?;
        let mean = match self.mean {
            Mean::Quotient => b.mean_last(square)?,
            Mean::Parts => b.reduce_last(ReduceOp::Add, b.mul(square, share(b, x)?)?)?,
        };
        b.add(mean, b.attr("eps", F32, self.eps)?)
    }

    /// An f32 value over its root mean square.
    pub(super) fn normal(&self, b: &Builder, x: Value) -> Result<Value, TypeError> {
        self.root.normal(b, x, self.mean_square(b, x)?)
    }
}

/// `1/n` in f32 for the `n` lanes of a value.
fn share(b: &Builder, x: Value) -> Result<Value, TypeError> {
    let lanes = b.ty(x).shape.last().cloned().unwrap_or_else(|| Dim::constant(1));
    match lanes.as_const() {
        Some(n) => b.float(F32, f64::from(1.0 / n as f32)),
        None => b.div(b.float(F32, 1.0)?, b.cast(b.prim(Prim::SizeOf(lanes), &[])?, F32)?),
    }
}

impl CompositeOp for RmsScale {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        self.forms(Attrs::of([("eps", AttrValue::Float(self.eps))]))
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        Ok(vec![self.root.reciprocal(b, self.mean_square(b, b.cast(operands[0], F32)?)?)?])
    }
}
