//! Reductions and searches along axes.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal, Scalar};
use super::arrange::reversed;
use super::layout::permuted;
use super::promote::{constant, convert, is_reduced};
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::prim::{NanRule, Prim, ReduceOp};
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// The axes of `dim`: all of them where it is left out, `None` or empty.
pub(super) fn axes(call: &Call<'_>, rank: usize) -> Result<Vec<usize>, Refusal> {
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
pub(super) fn finish(call: &Call<'_>, x: Value, axes: &[usize]) -> One {
    if keeps(call)? {
        return Ok(x);
    }
    without(call, x, axes)
}

/// Drops axes of extent 1.
fn without(call: &Call<'_>, x: Value, axes: &[usize]) -> One {
    let shape = call.b.ty(x).shape.into_iter().enumerate();
    Ok(call.b.reshape(x, shape.filter(|(i, _)| !axes.contains(i)).map(|(_, d)| d).collect())?)
}

/// The sum along axes that go, in the dtype of its terms: narrow floats are added in f32 and rounded once, integers and
/// truth values in i64.
pub(super) fn summed(call: &Call<'_>, x: Value, axes: &[usize]) -> One {
    let to = if call.b.dtype(x).is_float() { call.b.dtype(x) } else { DType::I64 };
    let work = if is_reduced(to) { DType::F32 } else { to };
    let sum = over(call, ReduceOp::Add, convert(call.b, x, work)?, axes)?;
    without(call, convert(call.b, sum, to)?, axes)
}

/// The mean along axes that stay, added and divided in f32 for narrow floats.
fn mean_over(call: &Call<'_>, x: Value, axes: &[usize]) -> One {
    let to = call.b.dtype(x);
    let x = convert(call.b, x, if is_reduced(to) { DType::F32 } else { to })?;
    let n = count(call, x, axes, call.b.dtype(x))?;
    Ok(convert(call.b, call.b.div(over(call, ReduceOp::Add, x, axes)?, n)?, to)?)
}

/// The mean of all elements.
pub(super) fn mean_of_all(call: &Call<'_>, x: Value) -> One {
    let axes: Vec<usize> = (0..call.b.ty(x).rank()).collect();
    without(call, mean_over(call, x, &axes)?, &axes)
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

/// The mean of all places of each image, where the result has one of each.
pub(super) fn mean_of_places(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let rank = b.ty(x).rank();
    let first = rank.checked_sub(call.dims("output_size")?.len()).ok_or("fewer axes than sizes")?;
    let one = Dim::constant(1);
    if !b.dtype(x).is_float() || call.out()?.shape[first..].iter().any(|dim| *dim != one) {
        return Err("means of parts".into());
    }
    Ok(vec![mean_over(call, x, &(first..rank).collect::<Vec<_>>())?])
}

/// The operand of a sum or product in the dtype that it is computed in, and the dtype of the result.
pub(super) fn terms(call: &Call<'_>, x: Value) -> Result<(Value, DType), Refusal> {
    let from = call.b.dtype(x);
    let natural = if from.is_float() { from } else { DType::I64 };
    let asked = if call.row.parameter("dtype").is_some() { call.dtype_or_none("dtype")? } else { None };
    let to = asked.unwrap_or(natural);
    let work = if is_reduced(to) { DType::F32 } else { to };
    Ok((convert(call.b, x, work)?, to))
}

fn combined(call: &Call<'_>, op: ReduceOp, x: Value) -> Imported {
    let (x, to) = terms(call, x)?;
    let axes = axes(call, call.b.ty(x).rank())?;
    let y = over(call, op, x, &axes)?;
    Ok(vec![finish(call, convert(call.b, y, to)?, &axes)?])
}

pub(super) fn sum(call: &Call<'_>) -> Imported {
    combined(call, ReduceOp::Add, call.tensor("self")?)
}

pub(super) fn prod(call: &Call<'_>) -> Imported {
    combined(call, ReduceOp::Mul, call.tensor("self")?)
}

/// The sum with zero in the place of NaN.
pub(super) fn nansum(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    if !b.dtype(x).is_float() {
        return combined(call, ReduceOp::Add, x);
    }
    let zero = constant(b, b.dtype(x), Scalar::Int(0))?;
    let known = b.map(ScalarFn::Select, &[b.map(ScalarFn::Ne, &[x, x])?, zero, x])?;
    combined(call, ReduceOp::Add, known)
}

/// The rounded sum of what is not NaN, over the count of that in the dtype of the sum.
pub(super) fn nanmean(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    if !call.out()?.dtype.is_float() {
        return Err("the mean of integers".into());
    }
    let known = b.map(ScalarFn::Not, &[b.map(ScalarFn::Ne, &[x, x])?])?;
    let axes = axes(call, b.ty(x).rank())?;
    let known = finish(call, over(call, ReduceOp::Add, convert(b, known, DType::I64)?, &axes)?, &axes)?;
    let total = nansum(call)?[0];
    Ok(vec![b.div(total, convert(b, known, b.dtype(total))?)?])
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

/// The index of the extreme along an axis; without an axis, among all elements.
fn arg_extreme(call: &Call<'_>, op: ReduceOp) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    if call.is_none("dim")? {
        let flat = b.reshape(x, vec![b.ty(x).elements()])?;
        let index = b.prim(Prim::ArgReduce { op, axis: 0 }, &[flat])?;
        return Ok(vec![b.reshape(index, call.out()?.shape.clone())?]);
    }
    let axis = call.axis("dim", b.ty(x).rank())?;
    Ok(vec![finish(call, b.prim(Prim::ArgReduce { op, axis }, &[x])?, &[axis])?])
}

/// Both extremes along an axis; without an axis, of all elements.
pub(super) fn aminmax(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let axes = axes(call, call.b.ty(x).rank())?;
    [ReduceOp::Min, ReduceOp::Max].into_iter().map(|op| finish(call, over(call, op, x, &axes)?, &axes)).collect()
}

/// How many elements are not zero.
pub(super) fn count_nonzero(call: &Call<'_>) -> Imported {
    let x = convert(call.b, convert(call.b, call.tensor("self")?, DType::Bool)?, DType::I64)?;
    let axes = axes(call, call.b.ty(x).rank())?;
    Ok(vec![finish(call, over(call, ReduceOp::Add, x, &axes)?, &axes)?])
}

pub(super) fn argmax(call: &Call<'_>) -> Imported {
    arg_extreme(call, ReduceOp::Max)
}

pub(super) fn argmin(call: &Call<'_>) -> Imported {
    arg_extreme(call, ReduceOp::Min)
}

/// Truth values, which stay bytes where the operand is of unsigned bytes.
fn truth(call: &Call<'_>, op: ReduceOp) -> Imported {
    let x = call.tensor("self")?;
    let to = if call.b.dtype(x) == DType::U8 { DType::U8 } else { DType::Bool };
    let x = convert(call.b, x, DType::Bool)?;
    let axes = axes(call, call.b.ty(x).rank())?;
    let found = convert(call.b, over(call, op, x, &axes)?, to)?;
    Ok(vec![finish(call, found, &axes)?])
}

pub(super) fn any(call: &Call<'_>) -> Imported {
    truth(call, ReduceOp::Max)
}

pub(super) fn all(call: &Call<'_>) -> Imported {
    truth(call, ReduceOp::Min)
}

/// The permutation that swaps an axis with the last, of a tensor that has axes.
fn to_last(call: &Call<'_>, x: Value) -> Result<Vec<usize>, Refusal> {
    let rank = call.b.ty(x).rank();
    let axis = call.axis("dim", rank)?;
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(axis, rank - 1);
    Ok(perm)
}

pub(super) fn topk(call: &Call<'_>) -> Imported {
    if !call.bool("largest")? {
        return Err("the smallest".into());
    }
    let x = call.tensor("self")?;
    let perm = to_last(call, x)?;
    let lines = permuted(call, x, perm.clone())?[0];
    let found = call.b.op(crate::graph::Op::Prim(Prim::TopK { k: call.dim("k")? }), &[lines])?;
    found.into_iter().map(|v| Ok(permuted(call, v, perm.clone())?[0])).collect()
}

/// All elements along an axis in order, and where they were; of equals the first comes first, NaN counts as largest.
pub(super) fn sort(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    sorted(call, x, to_last(call, x)?, call.bool("descending")?)
}

/// All elements along the first axis in order.
pub(super) fn msort(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let mut perm: Vec<usize> = (0..call.b.ty(x).rank()).collect();
    let last = perm.len().checked_sub(1).ok_or("a tensor without axes")?;
    perm.swap(0, last);
    let mut found = sorted(call, x, perm, false)?;
    found.truncate(1);
    Ok(found)
}

/// Elements along the axis that a permutation swaps with the last one.
fn sorted(call: &Call<'_>, x: Value, perm: Vec<usize>, descending: bool) -> Imported {
    let b = call.b;
    let lines = permuted(call, x, perm.clone())?[0];
    let last = perm.len() - 1;
    let extent = b.ty(lines).shape[last].clone();
    let whole = |lines: Value| b.op(crate::graph::Op::Prim(Prim::TopK { k: extent.clone() }), &[lines]);
    let found = if descending {
        whole(lines)?
    } else if b.dtype(lines).is_float() {
        // Of the reversed line, read backwards: so equals keep their order, and NaN stays last.
        let mut found = whole(reversed(call, lines, last)?)?;
        for v in &mut found {
            *v = reversed(call, *v, last)?;
        }
        let end = b.sub(super::index::extent(call, &extent)?, b.int(DType::I64, 1)?)?;
        found[1] = b.sub(end, found[1])?;
        found
    } else {
        // Inverted, integers are in the other order, and none overflows.
        let mut found = whole(b.map(ScalarFn::Not, &[lines])?)?;
        found[0] = b.map(ScalarFn::Not, &[found[0]])?;
        found
    };
    found.into_iter().map(|v| Ok(permuted(call, v, perm.clone())?[0])).collect()
}

pub(super) fn argsort(call: &Call<'_>) -> Imported {
    Ok(sort(call)?.split_off(1))
}
