//! Variances, deviations and vector norms.
//!
//! Narrow floats are summed in f32 and rounded once, at the end; variances of f32 in f64.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal, Scalar};
use super::layout::iota;
use super::promote::{DEFAULT_FLOAT, constant, convert, is_reduced};
use super::reduce::{axes, count, finish, over};
use crate::dim::Dim;
use crate::graph::Value;
use crate::prim::ReduceOp;
use crate::scalar::ScalarFn;

/// Variance and mean along the axes of a call, which stay, in the dtype they are computed in.
struct Moments {
    variance: Value,
    mean: Value,
    axes: Vec<usize>,
}

/// How much the divisor of a variance is less than the count.
fn correction(call: &Call<'_>) -> Result<f64, Refusal> {
    if call.row.parameter("unbiased").is_some() {
        return Ok(f64::from(u8::from(call.bool("unbiased")?)));
    }
    Ok(call.scalar_or_none("correction")?.map_or(1.0, Scalar::as_f64))
}

fn moments(call: &Call<'_>) -> Result<Moments, Refusal> {
    let (b, x) = (call.b, call.tensor("self")?);
    let dtype = b.dtype(x);
    if !dtype.is_float() {
        return Err("the variance of integers".into());
    }
    // As the framework does on a CPU: so a deviation of f32 is rounded once, whatever the number of elements.
    let x = convert(b, x, if is_reduced(dtype) { DType::F32 } else { DType::F64 })?;
    let (work, axes) = (b.dtype(x), axes(call, b.ty(x).rank())?);
    let n = count(call, x, &axes, work)?;
    let mean = b.div(over(call, ReduceOp::Add, x, &axes)?, n)?;
    let centred = b.sub(x, mean)?;
    let correction = correction(call)?;
    let divisor = if correction == 0.0 {
        n
    } else {
        let zero = constant(b, work, Scalar::Int(0))?;
        let taken = constant(b, work, Scalar::Float(correction))?;
        b.map(ScalarFn::Max, &[b.sub(n, taken)?, zero])?
    };
    let variance = b.div(over(call, ReduceOp::Add, b.mul(centred, centred)?, &axes)?, divisor)?;
    Ok(Moments { variance, mean, axes })
}

/// Values along the axes of a call in its dtype, without the axes unless the call keeps them.
fn finished(call: &Call<'_>, values: &[Value], axes: &[usize]) -> Imported {
    let dtype = call.out()?.dtype;
    values.iter().map(|&v| finish(call, convert(call.b, v, dtype)?, axes)).collect()
}

pub(super) fn var(call: &Call<'_>) -> Imported {
    let m = moments(call)?;
    finished(call, &[m.variance], &m.axes)
}

pub(super) fn std(call: &Call<'_>) -> Imported {
    let m = moments(call)?;
    finished(call, &[call.b.map(ScalarFn::Sqrt, &[m.variance])?], &m.axes)
}

pub(super) fn var_mean(call: &Call<'_>) -> Imported {
    let m = moments(call)?;
    finished(call, &[m.variance, m.mean], &m.axes)
}

pub(super) fn std_mean(call: &Call<'_>) -> Imported {
    let m = moments(call)?;
    finished(call, &[call.b.map(ScalarFn::Sqrt, &[m.variance])?, m.mean], &m.axes)
}

/// The norm of the power that `name` says, 2 where it is `None`.
fn powered(call: &Call<'_>, name: &str) -> Imported {
    let power = call.scalar_or_none(name)?.map_or(2.0, Scalar::as_f64);
    let (b, x) = (call.b, call.tensor("self")?);
    let natural = if b.dtype(x).is_float() { b.dtype(x) } else { DEFAULT_FLOAT };
    let asked = if call.row.parameter("dtype").is_some() { call.dtype_or_none("dtype")? } else { None };
    let x = convert(b, x, asked.unwrap_or(natural))?;
    let axes = axes(call, b.ty(x).rank())?;
    finished(call, &[norm_of(call, x, power, &axes)?], &axes)
}

/// The norm along axes, which stay, in the dtype that it is computed in.
pub(super) fn norm_of(call: &Call<'_>, x: Value, power: f64, axes: &[usize]) -> Result<Value, Refusal> {
    let b = call.b;
    let x = convert(b, x, if is_reduced(b.dtype(x)) { DType::F32 } else { b.dtype(x) })?;
    let work = b.dtype(x);
    let float = |v: f64| constant(b, work, Scalar::Float(v));
    let size = b.map(ScalarFn::Abs, &[x])?;
    let sum = |terms: Value| over(call, ReduceOp::Add, terms, axes);
    if power == 2.0 {
        Ok(b.map(ScalarFn::Sqrt, &[sum(b.mul(x, x)?)?])?)
    } else if power == 1.0 {
        sum(size)
    } else if power == 0.0 {
        sum(convert(b, b.map(ScalarFn::Ne, &[x, float(0.0)?])?, work)?)
    } else if power == f64::INFINITY {
        over(call, ReduceOp::Max, size, axes)
    } else if power == f64::NEG_INFINITY {
        over(call, ReduceOp::Min, size, axes)
    } else {
        let terms = b.map(ScalarFn::Pow, &[size, float(power)?])?;
        Ok(b.map(ScalarFn::Pow, &[sum(terms)?, float(power.recip())?])?)
    }
}

pub(super) fn vector_norm(call: &Call<'_>) -> Imported {
    powered(call, "ord")
}

pub(super) fn norm(call: &Call<'_>) -> Imported {
    powered(call, "p")
}

/// The norm of all elements of matrices.
pub(super) fn matrix_norm(call: &Call<'_>) -> Imported {
    match call.word("ord")? {
        "fro" => {}
        other => return Err(format!("the norm `{other}`").into()),
    }
    let (b, x) = (call.b, call.tensor("self")?);
    let asked = call.dtype_or_none("dtype")?.unwrap_or(b.dtype(x));
    square_root(call, convert(b, x, asked)?)
}

pub(super) fn frobenius_norm(call: &Call<'_>) -> Imported {
    square_root(call, call.tensor("self")?)
}

/// The root of the sum of squares along the axes of a call.
fn square_root(call: &Call<'_>, x: Value) -> Imported {
    if !call.b.dtype(x).is_float() {
        return Err("a norm of integers".into());
    }
    let axes = axes(call, call.b.ty(x).rank())?;
    finished(call, &[norm_of(call, x, 2.0, &axes)?], &axes)
}

/// The norm of vectors; with an order and two axes it would be one of matrices.
pub(super) fn linalg_norm(call: &Call<'_>) -> Imported {
    let rank = call.b.ty(call.tensor("self")?).rank();
    if !call.is_none("ord")? && axes(call, rank)?.len() != 1 {
        return Err("the norm of matrices".into());
    }
    powered(call, "ord")
}

/// The logarithm of the sum of exponentials, every step rounded to the dtype as in the framework.
pub(super) fn logsumexp(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let x = if b.dtype(x).is_float() { x } else { convert(b, x, DEFAULT_FLOAT)? };
    let axes = axes(call, b.ty(x).rank())?;
    finished(call, &[log_sum_exp(call, x, &axes)?], &axes)
}

/// The same along axes that stay.
pub(super) fn log_sum_exp(call: &Call<'_>, x: Value, axes: &[usize]) -> Result<Value, Refusal> {
    let b = call.b;
    let dtype = b.dtype(x);
    let top = over(call, ReduceOp::Max, x, axes)?;
    let (zero, infinity) = (constant(b, dtype, Scalar::Int(0))?, constant(b, dtype, Scalar::Float(f64::INFINITY))?);
    let infinite = b.map(ScalarFn::Eq, &[b.map(ScalarFn::Abs, &[top])?, infinity])?;
    let top = b.map(ScalarFn::Select, &[infinite, zero, top])?;
    let terms = b.map(ScalarFn::Exp, &[b.sub(x, top)?])?;
    let wide = convert(b, terms, if is_reduced(dtype) { DType::F32 } else { dtype })?;
    let sum = convert(b, over(call, ReduceOp::Add, wide, axes)?, dtype)?;
    Ok(b.add(b.map(ScalarFn::Log, &[sum])?, top)?)
}

/// How many elements lie in each of `bins` equal parts of `min..=max`; those outside, and NaN, in none.
pub(super) fn histc(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let (low, high, bins) = (call.scalar("min")?, call.scalar("max")?, call.int("bins")?);
    let dtype = b.dtype(x);
    let of_integers = dtype.is_int();
    // Bounds are of the dtype.
    let [low, high] = [low, high].map(|bound| if of_integers { bound.as_f64().trunc() } else { bound.as_f64() });
    if !(dtype == DType::F32 || of_integers) || low >= high || bins < 1 {
        return Err(format!("bins of {dtype}, or between bounds that depend on data").into());
    }
    let line = b.reshape(x, vec![Dim::constant(1), b.ty(x).elements()])?;
    // Integers are counted on GPUs only, which compute their places in 64 bits.
    let work = if of_integers { DType::I64 } else { dtype };
    let line = convert(b, line, work)?;
    let number = |v: f64| constant(b, work, if of_integers { Scalar::Int(v as i64) } else { Scalar::Float(v) });
    let (first, last) = (number(low)?, number(high)?);
    let (from_first, range, all) = (b.sub(line, first)?, b.sub(last, first)?, number(bins as f64)?);
    let place = match of_integers {
        true => b.div(b.mul(from_first, all)?, range)?,
        false => b.map(ScalarFn::Trunc, &[b.mul(b.div(from_first, range)?, all)?])?,
    };
    // The upper bound belongs to the last part.
    let place = b.map(ScalarFn::Min, &[place, number((bins - 1) as f64)?])?;
    let counter = convert(b, iota(call, &Dim::constant(bins), 0, 2)?, work)?;
    let inside = [b.map(ScalarFn::Ge, &[line, first])?, b.map(ScalarFn::Le, &[line, last])?];
    let hit = b.map(ScalarFn::And, &[b.map(ScalarFn::Eq, &[place, counter])?, b.map(ScalarFn::And, &inside)?])?;
    let counts = over(call, ReduceOp::Add, convert(b, hit, dtype)?, &[1])?;
    Ok(vec![b.reshape(counts, vec![Dim::constant(bins)])?])
}
