//! Hyperbolic functions and their kin, written with the functions that there are so that small operands keep their
//! relative accuracy.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::activation::{activation, expm1_of, log1p_of, select, wide};
use super::promote::{constant, convert, is_reduced, operand_as, result_type};
use crate::builder::Builder;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::scalar::ScalarFn;

type Typed = Result<Value, TypeError>;

fn float(b: &Builder, v: f64) -> Typed {
    b.float(DType::F32, f64::from(v as f32))
}

/// `size` with the sign of `x`; `x` where it is zero.
fn signed(b: &Builder, size: Value, x: Value) -> Typed {
    let zero = float(b, 0.0)?;
    let below = select(b, (ScalarFn::Lt, x, zero), b.map(ScalarFn::Neg, &[size])?, size)?;
    select(b, (ScalarFn::Eq, x, zero), x, below)
}

/// `e^x / 2` of an x whose exponential may be beyond all numbers.
fn half_exp(b: &Builder, x: Value) -> Typed {
    let half = float(b, 0.5)?;
    let root = b.map(ScalarFn::Exp, &[b.mul(x, half)?])?;
    b.mul(b.mul(root, half)?, root)
}

pub(super) fn sinh(call: &Call<'_>) -> Imported {
    wide(call, |b, x| {
        let size = b.map(ScalarFn::Abs, &[x])?;
        let t = expm1_of(b, size)?;
        // (e^x − e^−x)/2 with t = e^x − 1
        let small = b.mul(b.add(t, b.div(t, b.add(t, float(b, 1.0)?)?)?)?, float(b, 0.5)?)?;
        let y = select(b, (ScalarFn::Gt, size, float(b, 20.0)?), half_exp(b, size)?, small)?;
        Ok(signed(b, y, x)?)
    })
}

pub(super) fn cosh(call: &Call<'_>) -> Imported {
    wide(call, |b, x| {
        let size = b.map(ScalarFn::Abs, &[x])?;
        let (e, half) = (b.map(ScalarFn::Exp, &[size])?, float(b, 0.5)?);
        let small = b.mul(b.add(e, b.div(float(b, 1.0)?, e)?)?, half)?;
        Ok(select(b, (ScalarFn::Gt, size, float(b, 20.0)?), half_exp(b, size)?, small)?)
    })
}

pub(super) fn tan(call: &Call<'_>) -> Imported {
    wide(call, |b, x| Ok(b.div(b.map(ScalarFn::Sin, &[x])?, b.map(ScalarFn::Cos, &[x])?)?))
}

/// `ln(2x)` of an x whose double may be beyond all numbers.
fn log_double(b: &Builder, x: Value) -> Typed {
    b.add(b.map(ScalarFn::Log, &[x])?, float(b, std::f64::consts::LN_2)?)
}

/// Where one more or less is lost in a square.
const LARGE: f64 = 65536.0;

pub(super) fn asinh(call: &Call<'_>) -> Imported {
    wide(call, |b, x| {
        let (size, one) = (b.map(ScalarFn::Abs, &[x])?, float(b, 1.0)?);
        let square = b.mul(size, size)?;
        let root = b.map(ScalarFn::Sqrt, &[b.add(square, one)?])?;
        let small = log1p_of(b, b.add(size, b.div(square, b.add(root, one)?)?)?)?;
        let y = select(b, (ScalarFn::Gt, size, float(b, LARGE)?), log_double(b, size)?, small)?;
        Ok(signed(b, y, x)?)
    })
}

pub(super) fn acosh(call: &Call<'_>) -> Imported {
    wide(call, |b, x| {
        let t = b.sub(x, float(b, 1.0)?)?;
        let root = b.map(ScalarFn::Sqrt, &[b.add(b.add(t, t)?, b.mul(t, t)?)?])?;
        let small = log1p_of(b, b.add(t, root)?)?;
        let y = select(b, (ScalarFn::Gt, x, float(b, LARGE)?), log_double(b, x)?, small)?;
        // Below one the root may be of a positive number.
        let none = b.map(ScalarFn::Sqrt, &[t])?;
        Ok(select(b, (ScalarFn::Lt, t, float(b, 0.0)?), none, y)?)
    })
}

pub(super) fn atanh(call: &Call<'_>) -> Imported {
    wide(call, |b, x| {
        let size = b.map(ScalarFn::Abs, &[x])?;
        let ratio = b.div(b.add(size, size)?, b.sub(float(b, 1.0)?, size)?)?;
        let y = b.mul(log1p_of(b, ratio)?, float(b, 0.5)?)?;
        Ok(signed(b, y, x)?)
    })
}

pub(super) fn log10(call: &Call<'_>) -> Imported {
    wide(call, |b, x| Ok(b.mul(b.map(ScalarFn::Log2, &[x])?, float(b, std::f64::consts::LOG10_2)?)?))
}

/// `ln(x / (1 − x))`, of operands moved inside `eps` where it is given; every step is rounded to the operand's dtype, as
/// the framework's CPU kernels round it.
pub(super) fn logit(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, activation(call)?);
    let dtype = b.dtype(x);
    let one = constant(b, dtype, Scalar::Int(1))?;
    let x = match call.scalar_or_none("eps")? {
        Some(eps) => {
            let low = constant(b, dtype, eps)?;
            b.clamp(x, low, b.sub(one, low)?)?
        }
        None => x,
    };
    Ok(vec![b.map(ScalarFn::Log, &[b.div(x, b.sub(one, x)?)?])?])
}

/// `ln(e^a + e^b)`.
pub(super) fn logaddexp(call: &Call<'_>) -> Imported {
    let (x, y) = (call.tensor("self")?, call.tensor("other")?);
    let dtype = result_type(call, &[Operand::Tensor(x), Operand::Tensor(y)])?;
    if dtype != DType::F32 && !is_reduced(dtype) {
        return Err(format!("is not taken apart on {dtype}").into());
    }
    let b = call.b;
    let widen =
        |v| -> Result<Value, Refusal> { Ok(convert(b, operand_as(b, Operand::Tensor(v), dtype)?, DType::F32)?) };
    Ok(vec![convert(b, logaddexp_of(b, widen(x)?, widen(y)?)?, dtype)?])
}

/// `ln(e^x + e^y)` in f32.
pub(super) fn logaddexp_of(b: &Builder, x: Value, y: Value) -> Result<Value, Refusal> {
    let top = b.map(ScalarFn::Max, &[x, y])?;
    let gap = b.map(ScalarFn::Neg, &[b.map(ScalarFn::Abs, &[b.sub(x, y)?])?])?;
    let sum = b.add(top, log1p_of(b, b.map(ScalarFn::Exp, &[gap])?)?)?;
    // The gap between equal infinities is no number.
    let size = b.map(ScalarFn::Abs, &[top])?;
    let infinity = constant(b, DType::F32, Scalar::Float(f64::INFINITY))?;
    Ok(select(b, (ScalarFn::Eq, size, infinity), top, sum)?)
}
