//! Angles and distances of points of the plane, and the inverse functions of the circle as such angles.

use super::super::call::{Call, Imported, Operand, Scalar};
use super::activation::wide;
use super::elementwise::as_float;
use super::promote::{DEFAULT_FLOAT, constant, operand_as, result_type};
use crate::builder::Builder;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::scalar::ScalarFn;

/// A function of two tensors in their common dtype.
fn of_pair(call: &Call<'_>, f: ScalarFn, integers: bool) -> Imported {
    let b = call.b;
    let (x, y) = (Operand::Tensor(call.tensor("self")?), Operand::Tensor(call.tensor("other")?));
    let dtype = match result_type(call, &[x, y])? {
        dtype if dtype.is_float() => dtype,
        _ if integers => DEFAULT_FLOAT,
        dtype => return Err(format!("has no values of {dtype}").into()),
    };
    Ok(vec![b.map(f, &[operand_as(b, x, dtype)?, operand_as(b, y, dtype)?])?])
}

pub(super) fn atan2(call: &Call<'_>) -> Imported {
    of_pair(call, ScalarFn::Atan2, true)
}

pub(super) fn hypot(call: &Call<'_>) -> Imported {
    of_pair(call, ScalarFn::Hypot, false)
}

/// The angle of the point `(1, x)`.
pub(super) fn atan(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, as_float(call)?);
    let one = constant(b, b.dtype(x), Scalar::Int(1))?;
    Ok(vec![b.map(ScalarFn::Atan2, &[x, one])?])
}

/// The other coordinate of the point of the circle: `√((1 − x)(1 + x))`, NaN outside.
fn beside(b: &Builder, x: Value) -> Result<Value, TypeError> {
    let one = constant(b, b.dtype(x), Scalar::Int(1))?;
    b.map(ScalarFn::Sqrt, &[b.mul(b.sub(one, x)?, b.add(one, x)?)?])
}

pub(super) fn asin(call: &Call<'_>) -> Imported {
    wide(call, |b, x| Ok(b.map(ScalarFn::Atan2, &[x, beside(b, x)?])?))
}

pub(super) fn acos(call: &Call<'_>) -> Imported {
    wide(call, |b, x| Ok(b.map(ScalarFn::Atan2, &[beside(b, x)?, x])?))
}
