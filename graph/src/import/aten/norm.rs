//! Softmax and norms, as one op in the file and spelled out in the graph.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal, Scalar};
use super::promote::{DEFAULT_FLOAT, constant, convert, is_reduced};
use super::reduce::{count, over};
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::ops::{Composite, RmsNorm, RmsRounding};
use crate::prim::ReduceOp;
use crate::scalar::ScalarFn;

/// The operand in the dtype the op computes in, the axis, and the dtype of the result.
fn prepare(call: &Call<'_>) -> Result<(Value, usize, DType), Refusal> {
    let x = call.tensor("self")?;
    let from = call.b.dtype(x);
    let to = if call.row.parameter("half_to_float").is_some() {
        if call.bool("half_to_float")? { DType::F32 } else { from }
    } else {
        call.dtype_or_none("dtype")?.unwrap_or(if from.is_float() { from } else { DEFAULT_FLOAT })
    };
    let x = if from.is_float() { x } else { convert(call.b, x, to)? };
    let work = if is_reduced(to) { DType::F32 } else { to };
    Ok((convert(call.b, x, work)?, call.axis("dim", call.b.ty(x).rank())?, to))
}

/// `x − max(x)` and the exponentials' sum.
fn shifted(call: &Call<'_>, x: Value, axis: usize) -> Result<(Value, Value, Value), Refusal> {
    let shift = call.b.sub(x, over(call, ReduceOp::Max, x, &[axis])?)?;
    let e = call.b.map(ScalarFn::Exp, &[shift])?;
    Ok((shift, e, over(call, ReduceOp::Add, e, &[axis])?))
}

pub(super) fn softmax(call: &Call<'_>) -> Imported {
    let (x, axis, to) = prepare(call)?;
    let (_, e, sum) = shifted(call, x, axis)?;
    Ok(vec![convert(call.b, call.b.div(e, sum)?, to)?])
}

/// Rows that are −inf throughout give zeros.
pub(super) fn safe_softmax(call: &Call<'_>) -> Imported {
    let (x, axis, to) = prepare(call)?;
    let low = constant(call.b, call.b.dtype(x), Scalar::Float(f64::NEG_INFINITY))?;
    let masked = call.b.map(ScalarFn::Eq, &[x, low])?;
    let all = over(call, ReduceOp::Min, masked, &[axis])?;
    let (_, e, sum) = shifted(call, x, axis)?;
    let zero = constant(call.b, call.b.dtype(x), Scalar::Int(0))?;
    let y = call.b.map(ScalarFn::Select, &[all, zero, call.b.div(e, sum)?])?;
    Ok(vec![convert(call.b, y, to)?])
}

pub(super) fn log_softmax(call: &Call<'_>) -> Imported {
    let (x, axis, to) = prepare(call)?;
    Ok(vec![convert(call.b, log_softmax_of(call, x, axis)?, to)?])
}

/// `x − max(x) − log Σ exp(x − max(x))` along an axis.
pub(super) fn log_softmax_of(call: &Call<'_>, x: Value, axis: usize) -> Result<Value, Refusal> {
    let (shift, _, sum) = shifted(call, x, axis)?;
    Ok(call.b.sub(shift, call.b.map(ScalarFn::Log, &[sum])?)?)
}

/// The axes that a norm runs over: as many of the last as the normalised shape has.
fn norm_axes(call: &Call<'_>, x: Value) -> Result<Vec<usize>, Refusal> {
    let (rank, inner) = (call.b.ty(x).rank(), call.dims("normalized_shape")?.len());
    if inner == 0 || inner > rank {
        return Err(format!("{inner} normalised axes of {rank}").into());
    }
    Ok((rank - inner..rank).collect())
}

/// A float operand in f32; f64 stays.
fn widened(call: &Call<'_>, x: Value) -> Result<Value, Refusal> {
    let dtype = call.b.dtype(x);
    Ok(if is_reduced(dtype) { convert(call.b, x, DType::F32)? } else { x })
}

pub(super) fn rms_norm(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("input")?);
    let (axes, dtype) = (norm_axes(call, x)?, b.dtype(x));
    let weight = call.tensor_or_none("weight")?;
    let eps = match call.scalar_or_none("eps")? {
        Some(eps) => eps.as_f64(),
        None if dtype == DType::F64 => f64::EPSILON,
        None => f64::from(f32::EPSILON),
    };
    let eps = if dtype == DType::F64 { eps } else { f64::from(eps as f32) };
    if axes.len() == 1 && (is_reduced(dtype) || dtype == DType::F32) {
        let operands: Vec<Value> = [Some(x), weight].into_iter().flatten().collect();
        return Ok(b.composite(Composite::new(RmsNorm::new(eps, RmsRounding::Once)), &operands)?);
    }
    let wide = widened(call, x)?;
    let work = b.dtype(wide);
    let n = count(call, wide, &axes, work)?;
    let mean = b.div(over(call, ReduceOp::Add, b.mul(wide, wide)?, &axes)?, n)?;
    let scale = b.map(ScalarFn::Rsqrt, &[b.add(mean, b.float(work, eps)?)?])?;
    let mut y = b.mul(wide, scale)?;
    if let Some(w) = weight {
        y = b.mul(y, convert(b, w, work)?)?;
    }
    Ok(vec![convert(b, y, dtype)?])
}

/// The norm; with three results also the mean and the reciprocal deviation.
pub(super) fn layer_norm(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("input")?);
    let axes = norm_axes(call, x)?;
    let wide = widened(call, x)?;
    let work = b.dtype(wide);
    let n = count(call, wide, &axes, work)?;
    let mean = b.div(over(call, ReduceOp::Add, wide, &axes)?, n)?;
    let centred = b.sub(wide, mean)?;
    let variance = b.div(over(call, ReduceOp::Add, b.mul(centred, centred)?, &axes)?, n)?;
    let eps = constant(b, work, call.scalar("eps")?)?;
    let scale = b.map(ScalarFn::Rsqrt, &[b.add(variance, eps)?])?;
    let mut y = b.mul(centred, scale)?;
    if let Some(w) = call.tensor_or_none("weight")? {
        y = b.mul(y, convert(b, w, work)?)?;
    }
    if let Some(bias) = call.tensor_or_none("bias")? {
        y = b.add(y, convert(b, bias, work)?)?;
    }
    let values = [y, mean, scale].into_iter().zip(call.results);
    Ok(values.map(|(value, stated)| convert(b, value, stated.dtype)).collect::<Result<_, _>>()?)
}

/// The norm of groups of channels, the second axis; with three results also the mean and the reciprocal deviation.
pub(super) fn group_norm(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("input")?);
    let native = call.row.parameter("num_groups").is_none();
    let groups = Dim::constant(call.int(if native { "group" } else { "num_groups" })?);
    let ty = b.ty(x);
    let [batch, channels, inner @ ..] = ty.shape.as_slice() else { return Err("fewer than two axes".into()) };
    let one = Dim::constant(1);
    let per_group = match (channels.as_const(), groups.as_const()) {
        (Some(c), Some(g)) if g > 0 && c % g == 0 => Dim::constant(c / g),
        _ => return Err(format!("{groups} groups of {channels} channels").into()),
    };
    let wide = widened(call, x)?;
    let work = b.dtype(wide);
    let grouped = b.reshape(wide, vec![batch.clone(), groups.clone(), &per_group * &product(inner)])?;
    let n = count(call, grouped, &[2], work)?;
    let mean = b.div(over(call, ReduceOp::Add, grouped, &[2])?, n)?;
    let centred = b.sub(grouped, mean)?;
    let variance = b.div(over(call, ReduceOp::Add, b.mul(centred, centred)?, &[2])?, n)?;
    let eps = constant(b, work, call.scalar("eps")?)?;
    let scale = b.map(ScalarFn::Rsqrt, &[b.add(variance, eps)?])?;
    let mut y = b.reshape(b.mul(centred, scale)?, ty.shape.clone())?;
    let channel: Vec<Dim> = [channels.clone()].into_iter().chain(inner.iter().map(|_| one.clone())).collect();
    for (name, f) in [("weight", ScalarFn::Mul), ("bias", ScalarFn::Add)] {
        if let Some(p) = call.tensor_or_none(name)? {
            y = b.map(f, &[y, convert(b, b.reshape(p, channel.clone())?, work)?])?;
        }
    }
    let flat = |v: Value| b.reshape(v, vec![batch.clone(), groups.clone()]);
    let values = [y, flat(mean)?, flat(scale)?].into_iter().zip(call.results);
    Ok(values.map(|(value, stated)| convert(b, value, stated.dtype)).collect::<Result<_, _>>()?)
}

/// The norm of every channel of every instance, by its own statistics.
pub(super) fn instance_norm(call: &Call<'_>) -> Imported {
    if !call.bool("use_input_stats")? || !call.is_none("running_mean")? || !call.is_none("running_var")? {
        return Err("running statistics".into());
    }
    let rank = call.b.ty(call.tensor("input")?).rank();
    Ok(channel_norm(call, (2..rank).collect())?[..1].to_vec())
}

/// The norm of channels, the second axis, by the statistics of the batch, and these.
pub(super) fn batch_norm(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("input")?);
    let one = Dim::constant(1);
    let axes: Vec<usize> =
        b.ty(x).shape.iter().enumerate().filter(|&(i, d)| i > 1 || i == 0 && *d != one).map(|(i, _)| i).collect();
    if !call.bool("training")? {
        return Err("running statistics".into());
    }
    channel_norm(call, axes)
}

/// As the framework does on a CPU: mean and reciprocal deviation have the dtype of the weight, and the variance too
/// where that is bf16; each channel is then one multiply and add, contracted.
fn channel_norm(call: &Call<'_>, axes: Vec<usize>) -> Imported {
    let (b, x) = (call.b, call.tensor("input")?);
    let (ty, weight) = (b.ty(x), call.tensor_or_none("weight")?);
    let [_, channels, inner @ ..] = ty.shape.as_slice() else { return Err("fewer than two axes".into()) };
    let stored = weight.map_or(ty.dtype, |w| b.dtype(w));
    let wide = widened(call, x)?;
    let work = b.dtype(wide);
    let n = count(call, wide, &axes, work)?;
    let mean = b.div(over(call, ReduceOp::Add, wide, &axes)?, n)?;
    let centred = b.sub(wide, mean)?;
    let squares = over(call, ReduceOp::Add, b.mul(centred, centred)?, &axes)?;
    let variance = if stored == DType::BF16 {
        b.div(convert(b, squares, stored)?, convert(b, n, stored)?)?
    } else {
        b.div(squares, n)?
    };
    let eps = constant(b, work, call.scalar("eps")?)?;
    let scale = b.map(ScalarFn::Rsqrt, &[b.add(convert(b, variance, work)?, eps)?])?;
    let (mean, scale) = (convert(b, mean, stored)?, convert(b, scale, stored)?);
    let along =
        || -> Vec<Dim> { [channels.clone()].into_iter().chain(inner.iter().map(|_| Dim::constant(1))).collect() };
    let parameter = |p: Value| convert(b, b.reshape(p, along())?, work);
    let factor = convert(b, scale, work)?;
    let factor = weight.map_or(Ok(factor), |w| b.mul(factor, parameter(w)?))?;
    let (minus, zero) = (b.map(ScalarFn::Neg, &[convert(b, mean, work)?])?, constant(b, work, Scalar::Int(0))?);
    let bias = call.tensor_or_none("bias")?.map_or(Ok(zero), parameter)?;
    let offset = b.map(ScalarFn::Fma, &[minus, factor, bias])?;
    let y = convert(b, b.map(ScalarFn::Fma, &[wide, factor, offset])?, ty.dtype)?;
    let flat = |v: Value| b.reshape(v, vec![channels.clone()]);
    Ok(if call.results.len() == 1 { vec![y] } else { vec![y, flat(mean)?, flat(scale)?] })
}

/// The RMS norm and the reciprocal root.
pub(super) fn fused_rms_norm(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("input")?);
    let axes = norm_axes(call, x)?;
    let wide = widened(call, x)?;
    let work = b.dtype(wide);
    let eps = match call.scalar_or_none("eps")? {
        Some(eps) => eps.as_f64(),
        None if work == DType::F64 => f64::EPSILON,
        None => f64::from(f32::EPSILON),
    };
    let n = count(call, wide, &axes, work)?;
    let mean = b.div(over(call, ReduceOp::Add, b.mul(wide, wide)?, &axes)?, n)?;
    let scale = b.map(ScalarFn::Rsqrt, &[b.add(mean, constant(b, work, Scalar::Float(eps))?)?])?;
    let mut values = rms_norm(call)?;
    values.push(convert(b, scale, call.results.get(1).ok_or("has no second result")?.dtype)?);
    Ok(values)
}
