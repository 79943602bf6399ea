//! Values combined with what stands at places of a tensor: sums, products, extremes and means.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal, Scalar};
use super::division::floored;
use super::index::{Access, of_slices, single_places};
use super::layout::{expand_to, iota};
use super::promote::{constant, convert};
use super::reduce::over;
use super::update::corner;
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::prim::{Literal, Prim, ReduceOp};
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// Most work of a slice's elements where each place is a reduction of all slices, which fuses: places times slices.
const FEW_TERMS: i64 = 1024;

/// A call combines values in this way.
#[derive(Clone, Copy)]
pub(super) struct Combine {
    op: ReduceOp,
    /// The old element of a place is a term of the new one if this is set.
    with_old: bool,
}

impl Combine {
    /// A sum with what stood there.
    pub const SUM: Combine = Combine { op: ReduceOp::Add, with_old: true };
}

/// Sums into single elements.
pub(super) fn scatter_add(call: &Call<'_>) -> Imported {
    let target = target(call)?;
    Ok(vec![singly(call, target, call.tensor("src")?, Combine::SUM)?])
}

/// Single elements combined as a word says.
pub(super) fn scatter_reduce(call: &Call<'_>) -> Imported {
    let (b, target) = (call.b, target(call)?);
    let ty = b.ty(target.0);
    let src = convert(b, call.tensor("src")?, ty.dtype)?;
    Ok(vec![named(
        call,
        target.0,
        |x, terms, how| singly(call, (x, target.1), terms.unwrap_or(src), how),
        &b.ty(src).shape,
    )?])
}

/// Slices combined as a word says.
pub(super) fn index_reduce(call: &Call<'_>) -> Imported {
    let (b, (x, axis)) = (call.b, target(call)?);
    let src = convert(b, call.tensor("source")?, b.dtype(x))?;
    let index = flat_index(call)?;
    Ok(vec![named(
        call,
        x,
        |x, terms, how| combined(call, (x, axis), index, terms.unwrap_or(src), how),
        &b.ty(src).shape,
    )?])
}

/// The older spelling: sums and products with what stood there, of a tensor or one number.
pub(super) fn scatter_combined(call: &Call<'_>) -> Imported {
    let (b, target) = (call.b, target(call)?);
    let op = match call.word("reduce")? {
        "add" => ReduceOp::Add,
        "multiply" => ReduceOp::Mul,
        other => return Err(call.refused("reduce", &format!("`{other}`"))),
    };
    let dtype = b.dtype(target.0);
    let src = if call.row.parameter("src").is_some() {
        convert(b, call.tensor("src")?, dtype)?
    } else {
        let shape = b.ty(call.tensor("index")?).shape;
        expand_to(call, constant(b, dtype, call.scalar("value")?)?, &shape)?
    };
    Ok(vec![singly(call, target, src, Combine { op, with_old: true })?])
}

/// Slices along an axis, times a number, added at the places of an index tensor.
pub(super) fn index_add(call: &Call<'_>) -> Imported {
    let (b, (x, axis)) = (call.b, target(call)?);
    let dtype = b.dtype(x);
    let mut src = convert(b, call.tensor("source")?, dtype)?;
    let alpha = call.scalar("alpha")?;
    if alpha.as_f64() != 1.0 {
        src = b.mul(src, constant(b, dtype, alpha)?)?;
    }
    Ok(vec![combined(call, (x, axis), flat_index(call)?, src, Combine::SUM)?])
}

/// Gives the tensor that is written to, and the axis.
fn target(call: &Call<'_>) -> Result<(Value, usize), Refusal> {
    let x = call.tensor("self")?;
    let rank = call.b.ty(x).rank();
    if rank == 0 {
        return Err("a tensor without axes".into());
    }
    Ok((x, call.axis("dim", rank)?))
}

fn flat_index(call: &Call<'_>) -> One {
    let index = call.tensor("index")?;
    Ok(call.b.reshape(index, vec![call.b.ty(index).elements()])?)
}

/// What the word `reduce` of a call says, `by` combining the values or other terms of their shape with a tensor. A mean is
/// the sum over how many terms it has, both rounded to the dtype; integers are divided toward minus infinity.
fn named(call: &Call<'_>, x: Value, by: impl Fn(Value, Option<Value>, Combine) -> One, shape: &[Dim]) -> One {
    let (b, with_old) = (call.b, call.bool("include_self")?);
    let op = match call.word("reduce")? {
        "sum" | "mean" => ReduceOp::Add,
        "prod" => ReduceOp::Mul,
        "amax" => ReduceOp::Max,
        "amin" => ReduceOp::Min,
        other => return Err(call.refused("reduce", &format!("`{other}`"))),
    };
    let y = by(x, None, Combine { op, with_old })?;
    if call.word("reduce")? != "mean" {
        return Ok(y);
    }
    let ty = b.ty(x);
    let number = |n| constant(b, ty.dtype, Scalar::Int(n));
    let one = number(1)?;
    let old = expand_to(call, number(i64::from(with_old))?, &ty.shape)?;
    let count = by(old, Some(expand_to(call, one, shape)?), Combine::SUM)?;
    let count = b.map(ScalarFn::Max, &[count, one])?;
    Ok(if ty.dtype.is_float() { b.div(y, count)? } else { floored(b, y, count)? })
}

/// Elements of a tensor combined along an axis with those of `src` at the places of the call's index, which may cover a
/// part of the other axes.
fn singly(call: &Call<'_>, (x, axis): (Value, usize), src: Value, how: Combine) -> One {
    let (b, index) = (call.b, call.tensor("index")?);
    let (ty, chosen) = (b.ty(x), b.ty(index).shape);
    if chosen.len() != ty.rank() {
        return Err(call.refused("index", "it has not as many axes as the tensor"));
    }
    let src = corner(call, src, &chosen)?;
    if (0..ty.rank()).any(|i| i != axis && chosen[i] != ty.shape[i]) {
        return one_by_one(call, (x, axis), index, src, how);
    }
    combined(call, (x, axis), index, src, how)
}

/// A tensor combined with the slices of `src` along an axis at the places of an index, which is a line, or as large as
/// `src`. No order of terms is promised.
pub(super) fn combined(call: &Call<'_>, (x, axis): (Value, usize), index: Value, src: Value, how: Combine) -> One {
    let (b, ty) = (call.b, call.b.ty(x));
    if ty.dtype == DType::Bool {
        return Err(call.refused("self", "truth values are not combined"));
    }
    let work = product(&[ty.shape[axis].clone(), b.ty(src).shape[axis].clone()]);
    if work.as_const().is_some_and(|terms| terms <= FEW_TERMS) {
        return reduced(call, (x, axis), index, src, how);
    }
    let line = if b.ty(index).rank() == 1 { Some(index) } else { of_slices(call, &ty.shape, axis, index) };
    match line {
        Some(line) => at_places(call, (x, axis), convert(b, line, DType::I64)?, src, how),
        None => one_by_one(call, (x, axis), index, src, how),
    }
}

/// As [`combined`], of an index for each element.
fn one_by_one(call: &Call<'_>, (x, axis): (Value, usize), index: Value, src: Value, how: Combine) -> One {
    let (b, ty) = (call.b, call.b.ty(x));
    let places = single_places(call, &ty.shape, axis, index, Access::Write)?;
    let [flat, terms] = [x, src].map(|v| b.reshape(v, vec![b.ty(v).elements()]));
    let flat = at_places(call, (flat?, 0), places, terms?, how)?;
    Ok(b.reshape(flat, ty.shape)?)
}

/// As [`combined`], by the op for it.
fn at_places(call: &Call<'_>, (x, axis): (Value, usize), places: Value, src: Value, how: Combine) -> One {
    let b = call.b;
    let old = if how.with_old {
        x
    } else {
        let start = b.prim(Prim::Literal(how.op.start(b.dtype(x))), &[])?;
        let start = expand_to(call, start, &b.ty(src).shape)?;
        b.prim(Prim::Scatter { axis }, &[x, places, start])?
    };
    Ok(b.prim(Prim::ScatterReduce { op: how.op, axis }, &[old, places, src])?)
}

/// Gives the number that leaves every other as it is.
fn nothing(op: ReduceOp, dtype: DType) -> Literal {
    match op {
        // −0 too.
        ReduceOp::Add if dtype.is_float() => Literal::Float(dtype, -0.0),
        op => op.start(dtype),
    }
}

/// As [`combined`]: each element is one reduction of all slices, those that are not for it replaced by nothing.
fn reduced(call: &Call<'_>, (x, axis): (Value, usize), index: Value, src: Value, how: Combine) -> One {
    let (b, ty) = (call.b, call.b.ty(x));
    // Places of the tensor along `axis`, what is combined along the new axis behind it.
    let spread = |mut shape: Vec<Dim>, at: usize| {
        shape.insert(at, Dim::constant(1));
        shape
    };
    let mut places = b.ty(index).shape;
    if places.len() != ty.rank() {
        let count = product(&places);
        places = vec![Dim::constant(1); ty.rank()];
        places[axis] = count;
    }
    let line = iota(call, &ty.shape[axis], axis, ty.rank() + 1)?;
    let index = convert(b, b.reshape(index, spread(places, axis))?, DType::I64)?;
    let src = b.reshape(src, spread(b.ty(src).shape, axis))?;
    // Before the terms comes what stood there, chosen and not joined: no tensor has all of both.
    let before = |value: Value, number: i64| -> One {
        let mut ty = b.ty(value);
        ty.shape[axis + 1] = Dim::constant(1);
        let one = b.prim(Prim::Expand { shape: ty.shape }, &[constant(b, ty.dtype, Scalar::Int(number))?])?;
        Ok(b.cat(&[one, value], axis + 1)?)
    };
    let hit = b.map(ScalarFn::Eq, &[before(index, -1)?, line])?;
    let nothing = b.prim(Prim::Literal(nothing(how.op, ty.dtype)), &[])?;
    let mut terms = b.map(ScalarFn::Select, &[hit, before(src, 0)?, nothing])?;
    if how.with_old {
        let count = b.ty(terms).shape[axis + 1].clone();
        let first = b.map(ScalarFn::Eq, &[iota(call, &count, axis + 1, ty.rank() + 1)?, b.int(DType::I64, 0)?])?;
        let old = b.reshape(x, spread(ty.shape.clone(), axis + 1))?;
        terms = b.map(ScalarFn::Select, &[first, old, terms])?;
    }
    let combined = b.reshape(over(call, how.op, terms, &[axis + 1])?, ty.shape.clone())?;
    // A sum starts from +0, which would take the sign of a zero that no place is for.
    let found = over(call, ReduceOp::Max, hit, &[axis + 1])?;
    let mut found_shape = b.ty(found).shape;
    found_shape.remove(axis + 1);
    let found = b.reshape(found, found_shape)?;
    Ok(b.map(ScalarFn::Select, &[found, combined, x])?)
}
