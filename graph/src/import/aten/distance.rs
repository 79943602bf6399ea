//! Distances and angles between vectors, and vectors of bounded length.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::activation::select;
use super::elementwise::arithmetic;
use super::promote::{constant, convert, is_reduced};
use super::reduce::{finish, over};
use super::statistics::norm_of;
use crate::graph::Value;
use crate::prim::ReduceOp;
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// The norm of `x − y + eps` along the last axis, which stays; the difference and the sum round to the common dtype.
pub(super) fn distance(call: &Call<'_>, [x, y]: [Value; 2], power: f64, eps: Scalar) -> One {
    let gap = arithmetic(call, ScalarFn::Sub, Operand::Tensor(x), Operand::Tensor(y))?;
    let gap = arithmetic(call, ScalarFn::Add, Operand::Tensor(gap), Operand::Scalar(eps))?;
    let (dtype, last) = (call.b.dtype(gap), call.b.ty(gap).rank().checked_sub(1).ok_or("tensors without axes")?);
    if !dtype.is_float() {
        return Err("a distance of integers".into());
    }
    Ok(convert(call.b, norm_of(call, gap, power, &[last])?, dtype)?)
}

pub(super) fn pairwise_distance(call: &Call<'_>) -> Imported {
    let (pair, power) = ([call.tensor("x1")?, call.tensor("x2")?], call.scalar("p")?.as_f64());
    let length = distance(call, pair, power, call.scalar("eps")?)?;
    let last = call.b.ty(length).rank() - 1;
    Ok(vec![finish(call, length, &[last])?])
}

/// The norm of a difference of all elements.
pub(super) fn dist(call: &Call<'_>) -> Imported {
    let b = call.b;
    let gap =
        arithmetic(call, ScalarFn::Sub, Operand::Tensor(call.tensor("self")?), Operand::Tensor(call.tensor("other")?))?;
    if !b.dtype(gap).is_float() {
        return Err("a distance of integers".into());
    }
    let axes: Vec<usize> = (0..b.ty(gap).rank()).collect();
    let norm = convert(b, norm_of(call, gap, call.scalar("p")?.as_f64(), &axes)?, b.dtype(gap))?;
    Ok(vec![finish(call, norm, &axes)?])
}

/// `Σ (x₁ / max(‖x₁‖, eps)) · (x₂ / max(‖x₂‖, eps))`, every step rounded to the dtype as in the framework.
pub(super) fn cosine_similarity(call: &Call<'_>) -> Imported {
    let (b, x, y) = (call.b, call.tensor("x1")?, call.tensor("x2")?);
    let dtype = b.dtype(x);
    if !dtype.is_float() || b.dtype(y) != dtype || b.ty(x).shape != b.ty(y).shape {
        return Err("the angle between other than floats of one type".into());
    }
    let axis = [call.axis("dim", b.ty(x).rank())?];
    let eps = constant(b, dtype, call.scalar("eps")?)?;
    let unit = |v: Value| -> One {
        let norm = convert(b, norm_of(call, v, 2.0, &axis)?, dtype)?;
        Ok(b.div(v, b.map(ScalarFn::Max, &[norm, eps])?)?)
    };
    let work = if is_reduced(dtype) { DType::F32 } else { dtype };
    let terms = convert(b, b.mul(unit(x)?, unit(y)?)?, work)?;
    let sum = convert(b, over(call, ReduceOp::Add, terms, &axis)?, dtype)?;
    Ok(vec![finish(call, sum, &axis)?])
}

/// What the framework adds to a norm before it divides by it.
const GAP: f64 = 1e-7;

/// Slices along an axis, those of a larger norm than `maxnorm` times `maxnorm / (norm + 10⁻⁷)`, a factor that is rounded
/// to the dtype.
pub(super) fn renorm(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let rank = b.ty(x).rank();
    let axis = call.axis("dim", rank)?;
    let others: Vec<usize> = (0..rank).filter(|&other| other != axis).collect();
    let norm = norm_of(call, x, call.scalar("p")?.as_f64(), &others)?;
    let float = |v: f64| constant(b, b.dtype(norm), Scalar::Float(v));
    let most = constant(b, b.dtype(norm), call.scalar("maxnorm")?)?;
    let smaller = b.div(most, b.add(norm, float(GAP)?)?)?;
    let factor = select(b, (ScalarFn::Gt, norm, most), smaller, float(1.0)?)?;
    Ok(vec![b.mul(x, convert(b, factor, b.dtype(x))?)?])
}
