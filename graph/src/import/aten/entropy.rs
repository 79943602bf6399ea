//! The negative logarithm of the probability of a class, and cross entropies.
//!
//! The classes are the second axis, or the only one; here they are taken to the end, where one of each row is searched
//! beside all else that the row is read for.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::elementwise::{arithmetic, quotient};
use super::index::{along, extent, gather};
use super::layout::permuted;
use super::loss::{One, Reduction, number, of, reduction, total};
use super::norm::log_softmax_of;
use super::promote::{constant, convert, is_reduced};
use super::reduce::summed;
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::scalar::ScalarFn;

/// A tensor with its classes on the last axis.
fn classes_last(call: &Call<'_>, x: Value) -> One {
    let rank = call.b.ty(x).rank();
    if rank == 0 {
        return Err("no classes".into());
    }
    let class = usize::from(rank > 1);
    let perm = (0..rank).filter(|&axis| axis != class).chain([class]).collect();
    Ok(permuted(call, x, perm)?[0])
}

/// The classes that are wanted, one of each row, and where they count.
struct Wanted {
    /// Class zero where the row does not count.
    class: Value,
    counts: Value,
}

fn wanted(call: &Call<'_>) -> Result<Wanted, Refusal> {
    let (b, target) = (call.b, call.tensor("target")?);
    if !b.dtype(target).is_int() {
        return Err("classes that are no integers".into());
    }
    let number = |n| constant(b, b.dtype(target), Scalar::Int(n));
    let counts = b.map(ScalarFn::Ne, &[target, number(call.int("ignore_index")?)?])?;
    Ok(Wanted { class: b.map(ScalarFn::Select, &[counts, target, number(0)?])?, counts })
}

/// The element of each row that a class names.
fn chosen(call: &Call<'_>, x: Value, wanted: &Wanted) -> One {
    let (b, rows) = (call.b, call.b.ty(wanted.class).shape);
    let places = rows.iter().cloned().chain([Dim::constant(1)]).collect();
    let found = along(call, x, rows.len(), b.reshape(wanted.class, places)?)?[0];
    Ok(b.reshape(found, rows)?)
}

/// Values of rows, zero where a row does not count.
fn counted(call: &Call<'_>, x: Value, wanted: &Wanted) -> One {
    let zero = constant(call.b, call.b.dtype(x), Scalar::Int(0))?;
    Ok(call.b.map(ScalarFn::Select, &[wanted.counts, x, zero])?)
}

/// The loss of logarithms with their classes on the last axis; the mean is that of the weights.
fn nll_of(call: &Call<'_>, logs: Value, wanted: &Wanted) -> One {
    let (b, dtype) = (call.b, call.b.dtype(logs));
    if b.ty(logs).rank() != b.ty(wanted.class).rank() + 1 {
        return Err("classes of another rank".into());
    }
    let weight = call.tensor_or_none("weight")?;
    let logs = weight.map_or(Ok(logs), |weight| of(call, ScalarFn::Mul, logs, weight))?;
    let loss = counted(call, b.map(ScalarFn::Neg, &[chosen(call, logs, wanted)?])?, wanted)?;
    match reduction(call)? {
        Reduction::None => Ok(loss),
        Reduction::Sum => total(call, loss),
        Reduction::Mean => {
            let sum = Operand::Tensor(total(call, loss)?);
            quotient(call, sum, Operand::Tensor(convert(b, weight_of(call, wanted, weight)?, dtype)?))
        }
    }
}

/// The sum of the weights of the classes that are wanted; without weights, how many rows count.
fn weight_of(call: &Call<'_>, wanted: &Wanted, weight: Option<Value>) -> One {
    match weight {
        Some(weight) => total(call, counted(call, gather(call, weight, 0, wanted.class)?, wanted)?),
        None => total(call, wanted.counts),
    }
}

pub(super) fn nll(call: &Call<'_>) -> Imported {
    let logs = classes_last(call, call.tensor("self")?)?;
    if !call.b.dtype(logs).is_float() {
        return Err("a loss of integers".into());
    }
    Ok(vec![nll_of(call, logs, &wanted(call)?)?])
}

/// The logarithms of the softmax over the classes, which come last.
fn logs(call: &Call<'_>) -> One {
    let (b, x) = (call.b, classes_last(call, call.tensor("self")?)?);
    let dtype = b.dtype(x);
    if !dtype.is_float() {
        return Err("a loss of integers".into());
    }
    let wide = convert(b, x, if is_reduced(dtype) { DType::F32 } else { dtype })?;
    Ok(convert(b, log_softmax_of(call, wide, b.ty(x).rank() - 1)?, dtype)?)
}

pub(super) fn cross_entropy(call: &Call<'_>) -> Imported {
    let smoothing = call.scalar("label_smoothing")?.as_f64();
    let (x, target) = (call.tensor("self")?, call.tensor("target")?);
    let logs = logs(call)?;
    if call.b.ty(x).shape == call.b.ty(target).shape {
        return Ok(vec![of_probabilities(call, logs, smoothing)?]);
    }
    let wanted = wanted(call)?;
    let loss = nll_of(call, logs, &wanted)?;
    Ok(vec![if smoothing > 0.0 { smoothed(call, logs, &wanted, loss, smoothing)? } else { loss }])
}

/// The number of classes.
fn count(call: &Call<'_>, logs: Value) -> Result<f64, Refusal> {
    let shape = call.b.ty(logs).shape;
    let classes = shape.last().and_then(Dim::as_const).ok_or("an unknown number of classes")?;
    Ok(classes as f64)
}

fn scaled(call: &Call<'_>, x: Value, factor: f64) -> One {
    arithmetic(call, ScalarFn::Mul, Operand::Tensor(x), number(factor))
}

/// `(1 − ε) · loss + ε/n · Σ −log`, where the sum is that of all classes.
fn smoothed(call: &Call<'_>, logs: Value, wanted: &Wanted, loss: Value, smoothing: f64) -> One {
    let (b, last) = (call.b, call.b.ty(logs).rank() - 1);
    let weight = call.tensor_or_none("weight")?;
    let terms = weight.map_or(Ok(logs), |weight| of(call, ScalarFn::Mul, logs, weight))?;
    let all = b.map(ScalarFn::Neg, &[summed(call, terms, &[last])?])?;
    let all = counted(call, all, wanted)?;
    let all = match reduction(call)? {
        Reduction::None => all,
        Reduction::Sum => total(call, all)?,
        Reduction::Mean => {
            let counted = weight_of(call, wanted, weight)?;
            quotient(call, Operand::Tensor(total(call, all)?), Operand::Tensor(counted))?
        }
    };
    let share = scaled(call, all, smoothing / count(call, logs)?)?;
    of(call, ScalarFn::Add, scaled(call, loss, 1.0 - smoothing)?, share)
}

/// The loss against a probability of every class.
fn of_probabilities(call: &Call<'_>, logs: Value, smoothing: f64) -> One {
    let (b, last) = (call.b, call.b.ty(logs).rank() - 1);
    let mut target = classes_last(call, call.tensor("target")?)?;
    if smoothing > 0.0 {
        let kept = scaled(call, target, 1.0 - smoothing)?;
        target = arithmetic(call, ScalarFn::Add, Operand::Tensor(kept), number(smoothing / count(call, logs)?))?;
    }
    let mut terms = of(call, ScalarFn::Mul, logs, target)?;
    if let Some(weight) = call.tensor_or_none("weight")? {
        terms = of(call, ScalarFn::Mul, terms, weight)?;
    }
    let negative = |sum: Value| b.map(ScalarFn::Neg, &[sum]);
    Ok(match reduction(call)? {
        Reduction::None => negative(summed(call, terms, &[last])?)?,
        Reduction::Sum => negative(total(call, terms)?)?,
        Reduction::Mean => {
            let shape = b.ty(logs).shape;
            let rows = Operand::Tensor(extent(call, &product(&shape[..last]))?);
            quotient(call, Operand::Tensor(negative(total(call, terms)?)?), rows)?
        }
    })
}
