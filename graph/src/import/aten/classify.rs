//! Tests for infinities and what is no number, and replacements of them.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::layout::expand_to;
use super::promote::{DEFAULT_FLOAT, constant, operand_as, result_type};
use crate::graph::Value;
use crate::num;
use crate::scalar::ScalarFn;

/// A tensor of one truth value in the shape of the result.
fn throughout(call: &Call<'_>, truth: bool) -> Imported {
    let value = call.b.int(DType::Bool, i64::from(truth))?;
    Ok(vec![expand_to(call, value, &call.out()?.shape)?])
}

/// `f(x or |x|, bound)`; `otherwise` for integers.
fn against(call: &Call<'_>, f: ScalarFn, size: bool, bound: f64, otherwise: bool) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    if !b.dtype(x).is_float() {
        return throughout(call, otherwise);
    }
    let bound = constant(b, b.dtype(x), Scalar::Float(bound))?;
    let x = if size { b.map(ScalarFn::Abs, &[x])? } else { x };
    Ok(vec![b.map(f, &[x, bound])?])
}

pub(super) fn isinf(call: &Call<'_>) -> Imported {
    against(call, ScalarFn::Eq, true, f64::INFINITY, false)
}

pub(super) fn isposinf(call: &Call<'_>) -> Imported {
    against(call, ScalarFn::Eq, false, f64::INFINITY, false)
}

pub(super) fn isneginf(call: &Call<'_>) -> Imported {
    against(call, ScalarFn::Eq, false, f64::NEG_INFINITY, false)
}

pub(super) fn isfinite(call: &Call<'_>) -> Imported {
    against(call, ScalarFn::Lt, true, f64::INFINITY, true)
}

/// No tensor here has an imaginary part.
pub(super) fn isreal(call: &Call<'_>) -> Imported {
    throughout(call, true)
}

/// Whether the sign is minus, of −0 and of NaN too.
pub(super) fn signbit(call: &Call<'_>) -> Imported {
    negative(call, call.tensor("self")?)
}

/// The size of the first operand with the sign of the second.
pub(super) fn copysign(call: &Call<'_>) -> Imported {
    let (b, x, of) = (call.b, call.operand("self")?, call.operand("other")?);
    let dtype = result_type(call, &[x, of])?;
    let dtype = if dtype.is_float() { dtype } else { DEFAULT_FLOAT };
    let size = b.map(ScalarFn::Abs, &[operand_as(b, x, dtype)?])?;
    let minus = negative(call, operand_as(b, of, dtype)?)?[0];
    Ok(vec![b.map(ScalarFn::Select, &[minus, b.map(ScalarFn::Neg, &[size])?, size])?])
}

/// Whether the sign of a value is minus.
fn negative(call: &Call<'_>, x: Value) -> Imported {
    let b = call.b;
    let bits = match b.dtype(x) {
        dtype if dtype.is_signed_int() => x,
        dtype if !dtype.is_float() => return throughout(call, false),
        DType::F16 | DType::BF16 => b.bitcast(x, DType::I16)?,
        DType::F32 => b.bitcast(x, DType::I32)?,
        DType::F64 => b.bitcast(x, DType::I64)?,
        other => return Err(format!("the sign of {other}").into()),
    };
    let zero = constant(b, b.dtype(bits), Scalar::Int(0))?;
    Ok(vec![b.map(ScalarFn::Lt, &[bits, zero])?])
}

/// NaN and infinities replaced by numbers, by default zero and the ends of the dtype.
pub(super) fn nan_to_num(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let dtype = b.dtype(x);
    if !dtype.is_float() {
        return Ok(vec![x]);
    }
    let number = |name: &str, natural: f64| -> Result<Value, Refusal> {
        let value = call.scalar_or_none(name)?.unwrap_or(Scalar::Float(natural));
        Ok(constant(b, dtype, value)?)
    };
    let infinity = |v: f64| constant(b, dtype, Scalar::Float(v));
    let top = num::max_finite(dtype);
    let mut y = b.map(ScalarFn::Select, &[b.map(ScalarFn::Ne, &[x, x])?, number("nan", 0.0)?, x])?;
    for (from, to) in [(f64::INFINITY, number("posinf", top)?), (f64::NEG_INFINITY, number("neginf", -top)?)] {
        y = b.map(ScalarFn::Select, &[b.map(ScalarFn::Eq, &[x, infinity(from)?])?, to, y])?;
    }
    Ok(vec![y])
}

/// The larger or smaller operand; a NaN counts only beside another.
fn without_nan(call: &Call<'_>, f: ScalarFn) -> Imported {
    let (x, y) = (Operand::Tensor(call.tensor("self")?), Operand::Tensor(call.tensor("other")?));
    let dtype = result_type(call, &[x, y])?;
    if dtype == DType::Bool {
        return Err("a number function of booleans".into());
    }
    Ok(vec![call.b.map(f, &[operand_as(call.b, x, dtype)?, operand_as(call.b, y, dtype)?])?])
}

pub(super) fn fmax(call: &Call<'_>) -> Imported {
    without_nan(call, ScalarFn::MaxNum)
}

pub(super) fn fmin(call: &Call<'_>) -> Imported {
    without_nan(call, ScalarFn::MinNum)
}
