//! Reductions, scans and searches along axes.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal, Scalar};
use super::layout::{iota, permuted};
use super::promote::{constant, convert, is_reduced};
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::prim::{NanRule, Prim, ReduceOp};
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// The axes of `dim`: all of them where it is left out, `None` or empty.
fn axes(call: &Call<'_>, rank: usize) -> Result<Vec<usize>, Refusal> {
    let listed = call.row.parameter("dim").is_some() && !call.is_none("dim")?;
    let axes = if listed { call.axes("dim", rank)? } else { Vec::new() };
    Ok(if axes.is_empty() { (0..rank).collect() } else { axes })
}

fn keeps(call: &Call<'_>) -> Result<bool, Refusal> {
    if call.row.parameter("keepdim").is_some() { call.bool("keepdim") } else { Ok(false) }
}

/// Reduction over axes that stay with extent 1.
pub(in crate::import) fn over(call: &Call<'_>, op: ReduceOp, x: Value, axes: &[usize]) -> One {
    if axes.is_empty() {
        return Ok(x);
    }
    Ok(call.b.prim(Prim::Reduce { op, axes: axes.to_vec(), nan: NanRule::Propagate }, &[x])?)
}

/// Drops axes of extent 1 unless the call keeps them.
fn finish(call: &Call<'_>, x: Value, axes: &[usize]) -> One {
    if keeps(call)? {
        return Ok(x);
    }
    let shape = call.b.ty(x).shape.into_iter().enumerate();
    Ok(call.b.reshape(x, shape.filter(|(i, _)| !axes.contains(i)).map(|(_, d)| d).collect())?)
}

/// Number of elements along axes, as a constant or a computed scalar.
pub(in crate::import) fn count(call: &Call<'_>, x: Value, axes: &[usize], dtype: DType) -> One {
    let shape = call.b.ty(x).shape;
    let extent = product(axes.iter().map(|&axis| &shape[axis]));
    Ok(match extent.as_const() {
        Some(n) => constant(call.b, dtype, Scalar::Int(n))?,
        None => convert(call.b, call.b.prim(Prim::SizeOf(extent), &[])?, dtype)?,
    })
}

/// The sum divided by the count, both in f32 for narrow floats.
pub(super) fn mean(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let to = call.dtype_or_none("dtype")?.unwrap_or(call.b.dtype(x));
    if !to.is_float() {
        return Err("the mean of integers".into());
    }
    let work = if is_reduced(to) { DType::F32 } else { to };
    let x = convert(call.b, x, work)?;
    let axes = axes(call, call.b.ty(x).rank())?;
    let n = count(call, x, &axes, work)?;
    let y = call.b.div(over(call, ReduceOp::Add, x, &axes)?, n)?;
    Ok(vec![finish(call, convert(call.b, y, to)?, &axes)?])
}

pub(super) fn sum(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let from = call.b.dtype(x);
    let natural = if from.is_float() { from } else { DType::I64 };
    let to = call.dtype_or_none("dtype")?.unwrap_or(natural);
    let work = if is_reduced(to) { DType::F32 } else { to };
    let x = convert(call.b, x, work)?;
    let axes = axes(call, call.b.ty(x).rank())?;
    let y = over(call, ReduceOp::Add, x, &axes)?;
    Ok(vec![finish(call, convert(call.b, y, to)?, &axes)?])
}

fn extreme(call: &Call<'_>, op: ReduceOp) -> Imported {
    let x = call.tensor("self")?;
    let axes = axes(call, call.b.ty(x).rank())?;
    Ok(vec![finish(call, over(call, op, x, &axes)?, &axes)?])
}

pub(super) fn amax(call: &Call<'_>) -> Imported {
    extreme(call, ReduceOp::Max)
}

pub(super) fn amin(call: &Call<'_>) -> Imported {
    extreme(call, ReduceOp::Min)
}

/// The extreme along one axis and its index.
fn extreme_dim(call: &Call<'_>, op: ReduceOp) -> Imported {
    let x = call.tensor("self")?;
    let axis = call.axis("dim", call.b.ty(x).rank())?;
    let value = over(call, op, x, &[axis])?;
    let index = call.b.prim(Prim::ArgReduce { op, axis }, &[x])?;
    Ok(vec![finish(call, value, &[axis])?, finish(call, index, &[axis])?])
}

pub(super) fn max_dim(call: &Call<'_>) -> Imported {
    extreme_dim(call, ReduceOp::Max)
}

pub(super) fn min_dim(call: &Call<'_>) -> Imported {
    extreme_dim(call, ReduceOp::Min)
}

fn arg_extreme(call: &Call<'_>, op: ReduceOp) -> Imported {
    let x = call.tensor("self")?;
    let axis = call.axis("dim", call.b.ty(x).rank())?;
    Ok(vec![finish(call, call.b.prim(Prim::ArgReduce { op, axis }, &[x])?, &[axis])?])
}

pub(super) fn argmax(call: &Call<'_>) -> Imported {
    arg_extreme(call, ReduceOp::Max)
}

pub(super) fn argmin(call: &Call<'_>) -> Imported {
    arg_extreme(call, ReduceOp::Min)
}

fn truth(call: &Call<'_>, op: ReduceOp) -> Imported {
    let x = convert(call.b, call.tensor("self")?, DType::Bool)?;
    let axes = axes(call, call.b.ty(x).rank())?;
    Ok(vec![finish(call, over(call, op, x, &axes)?, &axes)?])
}

pub(super) fn any(call: &Call<'_>) -> Imported {
    truth(call, ReduceOp::Max)
}

pub(super) fn all(call: &Call<'_>) -> Imported {
    truth(call, ReduceOp::Min)
}

pub(super) fn topk(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let rank = call.b.ty(x).rank();
    if !call.bool("largest")? || call.axis("dim", rank)? + 1 != rank {
        return Err("the smallest, or along another axis than the last".into());
    }
    Ok(call.b.op(crate::graph::Op::Prim(Prim::TopK { k: call.dim("k")? }), &[x])?)
}

/// Sums of all prefixes, each as one masked reduction: exact on integers, free in order on floats.
pub(super) fn cumsum(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let from = call.b.dtype(x);
    let natural = if from.is_float() { from } else { DType::I64 };
    let to = call.dtype_or_none("dtype")?.unwrap_or(natural);
    let work = if is_reduced(to) { DType::F32 } else { to };
    let ty = call.b.ty(x);
    let axis = call.axis("dim", ty.rank())?;
    let mut perm: Vec<usize> = (0..ty.rank()).collect();
    perm.swap(axis, ty.rank() - 1);
    let x = permuted(call, convert(call.b, x, work)?, perm.clone())?[0];
    let mut shape = call.b.ty(x).shape;
    let extent = ty.shape[axis].clone();
    let rank = shape.len();
    shape.insert(rank - 1, Dim::constant(1));
    let terms = call.b.reshape(x, shape)?;
    let (i, j) = (iota(call, &extent, rank - 1, rank + 1)?, iota(call, &extent, rank, rank + 1)?);
    let inside = call.b.map(ScalarFn::Le, &[j, i])?;
    let zero = constant(call.b, work, Scalar::Int(0))?;
    let sums = over(call, ReduceOp::Add, call.b.map(ScalarFn::Select, &[inside, terms, zero])?, &[rank])?;
    let mut shape = call.b.ty(sums).shape;
    shape.pop();
    let y = convert(call.b, call.b.reshape(sums, shape)?, to)?;
    permuted(call, y, perm)
}
