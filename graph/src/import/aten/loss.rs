//! Losses: distances of what is computed from what was wanted, of each element, or their mean or sum.
//!
//! Steps round as in the framework's CPU kernels, which most decompositions of 16-bit losses do not: they compute in f32.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::activation::{log_sigmoid_of, select};
use super::distance::distance;
use super::elementwise::{arithmetic, quotient};
use super::promote::{constant, convert, is_reduced, result_type};
use super::reduce::{mean_of_all, summed};
use super::special::{log1p_rounded, xlogy_of};
use crate::graph::Value;
use crate::scalar::ScalarFn;

pub(super) type One = Result<Value, Refusal>;

/// What becomes of the losses of the elements.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Reduction {
    None,
    Mean,
    Sum,
}

pub(super) fn reduction(call: &Call<'_>) -> Result<Reduction, Refusal> {
    match call.int("reduction")? {
        0 => Ok(Reduction::None),
        1 => Ok(Reduction::Mean),
        2 => Ok(Reduction::Sum),
        other => Err(format!("the reduction {other}").into()),
    }
}

/// The sum of all elements.
pub(super) fn total(call: &Call<'_>, x: Value) -> One {
    let axes: Vec<usize> = (0..call.b.ty(x).rank()).collect();
    summed(call, x, &axes)
}

fn reduced(call: &Call<'_>, loss: Value) -> Imported {
    Ok(vec![match reduction(call)? {
        Reduction::None => loss,
        Reduction::Mean => mean_of_all(call, loss)?,
        Reduction::Sum => total(call, loss)?,
    }])
}

pub(super) fn number(v: f64) -> Operand {
    Operand::Scalar(Scalar::Float(v))
}

/// A function of two values in their common dtype.
pub(super) fn of(call: &Call<'_>, f: ScalarFn, a: Value, b: Value) -> One {
    arithmetic(call, f, Operand::Tensor(a), Operand::Tensor(b))
}

/// A value and a number.
fn with(call: &Call<'_>, f: ScalarFn, a: Value, b: f64) -> One {
    arithmetic(call, f, Operand::Tensor(a), number(b))
}

/// A number and a value.
fn from(call: &Call<'_>, f: ScalarFn, a: f64, b: Value) -> One {
    arithmetic(call, f, number(a), Operand::Tensor(b))
}

/// The two operands of a loss in their common dtype.
fn pair(call: &Call<'_>) -> Result<[Value; 2], Refusal> {
    let pair = [call.tensor("self")?, call.tensor("target")?];
    let dtype = result_type(call, &pair.map(Operand::Tensor))?;
    if !dtype.is_float() {
        return Err("a loss of integers".into());
    }
    Ok([convert(call.b, pair[0], dtype)?, convert(call.b, pair[1], dtype)?])
}

pub(super) fn mse(call: &Call<'_>) -> Imported {
    let [x, y] = pair(call)?;
    let gap = call.b.sub(x, y)?;
    reduced(call, call.b.mul(gap, gap)?)
}

pub(super) fn l1(call: &Call<'_>) -> Imported {
    let [x, y] = pair(call)?;
    reduced(call, call.b.map(ScalarFn::Abs, &[call.b.sub(x, y)?])?)
}

/// A loss of the size of the gap, which `near` and `far` of a bound give; in f32 where the dtype is `wide`, else every
/// step rounds to the dtype.
fn bent(
    call: &Call<'_>,
    (bound, wide): (&str, DType),
    loss: impl FnOnce([Value; 3]) -> Result<[Value; 2], Refusal>,
) -> Imported {
    let (b, [x, y]) = (call.b, pair(call)?);
    let dtype = b.dtype(x);
    let work = if dtype == wide { DType::F32 } else { dtype };
    let gap = b.map(ScalarFn::Abs, &[b.sub(convert(b, x, work)?, convert(b, y, work)?)?])?;
    let bound = constant(b, work, call.scalar(bound)?)?;
    let half = constant(b, work, Scalar::Float(0.5))?;
    let [near, far] = loss([gap, bound, half])?;
    let loss = select(b, (ScalarFn::Ge, gap, bound), far, near)?;
    reduced(call, convert(b, loss, dtype)?)
}

/// `gap² / 2β` below β and `gap − β/2` from it on.
pub(super) fn smooth_l1(call: &Call<'_>) -> Imported {
    if call.scalar("beta")?.as_f64() == 0.0 {
        return l1(call);
    }
    let b = call.b;
    bent(call, ("beta", DType::BF16), |[gap, beta, half]| {
        let near = b.div(b.mul(b.mul(half, gap)?, gap)?, beta)?;
        Ok([near, b.sub(gap, b.mul(half, beta)?)?])
    })
}

/// `gap² / 2` below δ and `δ · (gap − δ/2)` from it on.
pub(super) fn huber(call: &Call<'_>) -> Imported {
    let b = call.b;
    bent(call, ("delta", DType::F16), |[gap, delta, half]| {
        let near = b.mul(b.mul(half, gap)?, gap)?;
        Ok([near, b.mul(delta, b.sub(gap, b.mul(half, delta)?)?)?])
    })
}

/// `target · (log target − self)`; of targets that are logarithms `e^target · (target − self)`.
pub(super) fn kl_div(call: &Call<'_>) -> Imported {
    let (x, y) = (call.tensor("self")?, call.tensor("target")?);
    if !call.b.dtype(y).is_float() {
        return Err("a loss of integers".into());
    }
    if call.bool("log_target")? {
        let weight = call.b.map(ScalarFn::Exp, &[y])?;
        return reduced(call, of(call, ScalarFn::Mul, weight, of(call, ScalarFn::Sub, y, x)?)?);
    }
    let own = xlogy_of(call, [Operand::Tensor(y), Operand::Tensor(y)])?;
    reduced(call, of(call, ScalarFn::Sub, own, of(call, ScalarFn::Mul, y, x)?)?)
}

/// What bounds the logarithms of probabilities from below.
const LEAST_LOG: f64 = -100.0;

/// A loss times a weight, if there is one.
fn weighted(call: &Call<'_>, loss: Value) -> One {
    Ok(match call.tensor_or_none("weight")? {
        Some(weight) => of(call, ScalarFn::Mul, loss, weight)?,
        None => loss,
    })
}

/// `(t − 1) · max(log(1 − p), −100) − t · max(log p, −100)`.
pub(super) fn binary_cross_entropy(call: &Call<'_>) -> Imported {
    let (b, [p, t]) = (call.b, pair(call)?);
    let dtype = b.dtype(p);
    let least = constant(b, dtype, Scalar::Float(LEAST_LOG))?;
    let bounded = |log: Value| b.map(ScalarFn::Max, &[log, least]);
    let rest = bounded(log1p_rounded(b, b.map(ScalarFn::Neg, &[p])?)?)?;
    let other = b.mul(b.sub(t, constant(b, dtype, Scalar::Int(1))?)?, rest)?;
    let own = b.mul(t, bounded(b.map(ScalarFn::Log, &[p])?)?)?;
    reduced(call, weighted(call, b.sub(other, own)?)?)
}

/// `(1 − t) · x − ((w − 1) · t + 1) · log σ(x)`.
pub(super) fn binary_cross_entropy_with_logits(call: &Call<'_>) -> Imported {
    let (b, x, t) = (call.b, call.tensor("self")?, call.tensor("target")?);
    let dtype = b.dtype(x);
    if !(dtype == DType::F32 || is_reduced(dtype)) {
        return Err(format!("is not taken apart on {dtype}").into());
    }
    let mut log = convert(b, log_sigmoid_of(b, convert(b, x, DType::F32)?)?, dtype)?;
    if let Some(weight) = call.tensor_or_none("pos_weight")? {
        let more = of(call, ScalarFn::Mul, with(call, ScalarFn::Sub, weight, 1.0)?, t)?;
        log = of(call, ScalarFn::Mul, log, with(call, ScalarFn::Add, more, 1.0)?)?;
    }
    let other = of(call, ScalarFn::Mul, from(call, ScalarFn::Sub, 1.0, t)?, x)?;
    reduced(call, weighted(call, of(call, ScalarFn::Sub, other, log)?)?)
}

/// `x` bounded from below by zero.
fn above_zero(call: &Call<'_>, x: Value) -> One {
    Ok(call.b.map(ScalarFn::Max, &[x, constant(call.b, call.b.dtype(x), Scalar::Int(0))?])?)
}

/// `max(−target · (input1 − input2) + margin, 0)`.
pub(super) fn margin_ranking(call: &Call<'_>) -> Imported {
    let (b, t) = (call.b, call.tensor("target")?);
    let gap = of(call, ScalarFn::Sub, call.tensor("input1")?, call.tensor("input2")?)?;
    let loss = of(call, ScalarFn::Mul, b.map(ScalarFn::Neg, &[t])?, gap)?;
    let loss = with(call, ScalarFn::Add, loss, call.scalar("margin")?.as_f64())?;
    reduced(call, above_zero(call, loss)?)
}

/// One value where the target is not `+1` and another where it is not `−1`, added.
fn unless(call: &Call<'_>, other: Value, own: Value, keep: [(ScalarFn, i64); 2]) -> One {
    let (b, t) = (call.b, call.tensor("target")?);
    let zero = |x: Value| constant(b, b.dtype(x), Scalar::Int(0));
    let chosen = |x: Value, (f, n): (ScalarFn, i64)| -> One {
        Ok(select(b, (f, t, constant(b, b.dtype(t), Scalar::Int(n))?), x, zero(x)?)?)
    };
    of(call, ScalarFn::Add, chosen(other, keep[0])?, chosen(own, keep[1])?)
}

/// The operand where the target is 1, `max(margin − operand, 0)` where it is −1.
pub(super) fn hinge_embedding(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let far = above_zero(call, from(call, ScalarFn::Sub, call.scalar("margin")?.as_f64(), x)?)?;
    reduced(call, unless(call, far, x, [(ScalarFn::Ne, 1), (ScalarFn::Ne, -1)])?)
}

/// `1 − cos` where the target is 1, `max(cos − margin, 0)` where it is −1.
pub(super) fn cosine_embedding(call: &Call<'_>) -> Imported {
    let (b, x, y) = (call.b, call.tensor("input1")?, call.tensor("input2")?);
    let last = b.ty(x).rank().checked_sub(1).ok_or("tensors without axes")?;
    if b.ty(y).rank() != last + 1 {
        return Err("vectors of tensors of two ranks".into());
    }
    let dot = |x: Value, y: Value| summed(call, of(call, ScalarFn::Mul, x, y)?, &[last]);
    let square = |x: Value| with(call, ScalarFn::Add, dot(x, x)?, 1e-12);
    let size = b.map(ScalarFn::Sqrt, &[of(call, ScalarFn::Mul, square(x)?, square(y)?)?])?;
    let cos = quotient(call, Operand::Tensor(dot(x, y)?), Operand::Tensor(size))?;
    let near = from(call, ScalarFn::Sub, 1.0, cos)?;
    let far = above_zero(call, with(call, ScalarFn::Sub, cos, call.scalar("margin")?.as_f64())?)?;
    reduced(call, unless(call, near, far, [(ScalarFn::Eq, 1), (ScalarFn::Eq, -1)])?)
}

/// `max(margin + d(anchor, positive) − d(anchor, negative), 0)`; with `swap` the negative may be nearer to the positive.
pub(super) fn triplet_margin(call: &Call<'_>) -> Imported {
    let (anchor, positive) = (call.tensor("anchor")?, call.tensor("positive")?);
    let (negative, power) = (call.tensor("negative")?, call.scalar("p")?.as_f64());
    let length = |x: Value, y: Value| -> One {
        let kept = distance(call, [x, y], power, call.scalar("eps")?)?;
        let last = call.b.ty(kept).rank() - 1;
        Ok(call.b.reshape(kept, call.b.ty(kept).shape[..last].to_vec())?)
    };
    let mut far = length(anchor, negative)?;
    if call.bool("swap")? {
        far = of(call, ScalarFn::Min, far, length(positive, negative)?)?;
    }
    let near = from(call, ScalarFn::Add, call.scalar("margin")?.as_f64(), length(anchor, positive)?)?;
    reduced(call, above_zero(call, of(call, ScalarFn::Sub, near, far)?)?)
}

/// `log(1 + e^(−target · x))`.
pub(super) fn soft_margin(call: &Call<'_>) -> Imported {
    let (b, [x, t]) = (call.b, pair(call)?);
    let power = b.mul(b.map(ScalarFn::Neg, &[x])?, t)?;
    reduced(call, log1p_rounded(b, b.map(ScalarFn::Exp, &[power])?)?)
}

/// `e^x − target · x` of logarithms, else `x − target · log(x + eps)`.
pub(super) fn poisson_nll(call: &Call<'_>) -> Imported {
    let (b, x, t) = (call.b, call.tensor("input")?, call.tensor("target")?);
    if call.bool("full")? || !b.dtype(x).is_float() {
        return Err("the terms of Stirling's formula, or a loss of integers".into());
    }
    if call.bool("log_input")? {
        let product = of(call, ScalarFn::Mul, t, x)?;
        return reduced(call, of(call, ScalarFn::Sub, b.map(ScalarFn::Exp, &[x])?, product)?);
    }
    let log = b.map(ScalarFn::Log, &[with(call, ScalarFn::Add, x, call.scalar("eps")?.as_f64())?])?;
    reduced(call, of(call, ScalarFn::Sub, x, of(call, ScalarFn::Mul, t, log)?)?)
}
