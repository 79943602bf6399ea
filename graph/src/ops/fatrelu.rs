//! `fatrelu(x) = x` where `x` is beyond a threshold, else 0; exact in every dtype.
//!
//! `nan` says what becomes of NaN: PyTorch's `threshold` keeps it and compares in the dtype of `x`; the kernels of vLLM
//! compare in f32 and give 0.

use fusewright_abi::DType::F32;

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::num;
use crate::prim::Rounding;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// What becomes of NaN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FatReluNan {
    /// It stays. The threshold is rounded to the dtype of `x`.
    Propagate,
    /// It is not beyond the threshold, which is an f32.
    Zero,
}

const NANS: [(&str, FatReluNan); 2] = [("propagate", FatReluNan::Propagate), ("zero", FatReluNan::Zero)];

/// `x` beyond a threshold.
#[derive(Clone, Debug)]
pub struct FatRelu {
    /// The largest value that is dropped; an f32 value.
    pub threshold: f64,
    /// What becomes of NaN.
    pub nan: FatReluNan,
}

pub(super) const SPEC: OpSpec = OpSpec {
    name: "fatrelu",
    arity: 1,
    optional: 0,
    parse: |attrs| {
        Ok(Composite::new(FatRelu { threshold: attrs.float("threshold")?, nan: attrs.word_or_first("nan", &NANS)? }))
    },
    variants: || NANS.map(|(_, nan)| Composite::new(FatRelu { threshold: 0.5, nan })).to_vec(),
    operands: |dtype| vec![TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(64)])],
};

impl CompositeOp for FatRelu {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn attrs(&self) -> Attrs {
        Attrs::of([("threshold", AttrValue::Float(self.threshold))]).and("nan", &NANS, &self.nan)
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let (x, dtype) = (operands[0], b.dtype(operands[0]));
        let zero = b.float(dtype, 0.0)?;
        let choice = match self.nan {
            FatReluNan::Propagate => {
                let nearest = num::round_to(dtype, self.threshold, Rounding::NearestEven, false);
                [b.map(ScalarFn::Le, &[x, b.attr("threshold", dtype, nearest)?])?, zero, x]
            }
            FatReluNan::Zero => {
                [b.map(ScalarFn::Gt, &[b.cast(x, F32)?, b.attr("threshold", F32, self.threshold)?])?, x, zero]
            }
        };
        Ok(vec![b.map(ScalarFn::Select, &choice)?])
    }
}
