//! Views and copies: ops that move elements and change none.
//!
//! A reshape is defined by its result shape alone, which the file states; the number of elements is checked.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal};
use super::super::steps::{self, Step};
use super::super::strided::{self, Strided};
use super::place::{place, slice_range};
use super::promote::{convert, result_type};
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::prim::Prim;

pub(super) fn identity(call: &Call<'_>) -> Imported {
    Ok(vec![call.tensor("self")?])
}

pub(super) fn dropout(call: &Call<'_>) -> Imported {
    if call.bool("train")? && call.scalar("p")?.as_f64() != 0.0 {
        return Err("random numbers".into());
    }
    Ok(vec![call.tensor("input")?])
}

pub(super) fn reshape(call: &Call<'_>) -> Imported {
    Ok(vec![call.b.reshape(call.tensor("self")?, call.out()?.shape.clone())?])
}

pub(super) fn expand(call: &Call<'_>) -> Imported {
    Ok(vec![expand_to(call, call.tensor("self")?, &call.out()?.shape)?])
}

/// Tensors in one common shape.
pub(super) fn broadcast_tensors(call: &Call<'_>) -> Imported {
    let pairs = call.tensors("tensors")?.into_iter().zip(call.results);
    pairs.map(|(x, result)| expand_to(call, x, &result.shape)).collect()
}

/// NumPy broadcast; no node if the shape is the same.
pub(in crate::import) fn expand_to(call: &Call<'_>, x: Value, shape: &[Dim]) -> Result<Value, Refusal> {
    if call.b.ty(x).shape == shape {
        return Ok(x);
    }
    Ok(call.b.prim(Prim::Expand { shape: shape.to_vec() }, &[x])?)
}

/// A permutation of the axes; no node if nothing moves.
pub(super) fn permuted(call: &Call<'_>, x: Value, perm: Vec<usize>) -> Imported {
    if perm.iter().copied().eq(0..perm.len()) {
        return Ok(vec![x]);
    }
    Ok(vec![call.b.prim(Prim::Permute { perm }, &[x])?])
}

/// How the view of `self` that extents, strides and a place in its memory describe is cut out of it.
pub(super) fn strided_steps(call: &Call<'_>) -> Result<Vec<Step>, Refusal> {
    let base = call.memory("self")?;
    let offset = call.dim_or_none("storage_offset")?.unwrap_or_else(|| base.offset.clone());
    let view = Strided { shape: call.dims("size")?, strides: call.dims("stride")?, offset };
    let cut = strided::cut(&base, &view, call.names);
    cut.or_else(|refusal| {
        let counted = view.shape.len() == view.strides.len();
        let places = if counted { strided::by_places(call.b, &base, &view, call.names) } else { None };
        places.map(|step| vec![step]).ok_or(refusal)
    })
}

pub(super) fn as_strided(call: &Call<'_>) -> Imported {
    Ok(vec![steps::apply(call.b, call.tensor("self")?, &strided_steps(call)?)?])
}

pub(super) fn permute(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let rank = call.b.ty(x).rank();
    let perm = call.ints("dims")?.into_iter().map(|axis| super::super::call::wrap_axis(axis, rank));
    permuted(call, x, perm.collect::<Result<_, _>>()?)
}

pub(super) fn transpose(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let rank = call.b.ty(x).rank();
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(call.axis("dim0", rank)?, call.axis("dim1", rank)?);
    permuted(call, x, perm)
}

pub(super) fn matrix_transpose(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    if call.b.ty(x).rank() > 2 { Err("more than two axes".into()) } else { reverse_axes(call) }
}

pub(super) fn reverse_axes(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    permuted(call, x, (0..call.b.ty(x).rank()).rev().collect())
}

/// The elements `start..end` by `step` along an axis; no node if that is all of them.
pub(in crate::import) fn cut(
    call: &Call<'_>,
    x: Value,
    axis: usize,
    range: [Dim; 2],
    step: i64,
) -> Result<Value, Refusal> {
    let ty = call.b.ty(x);
    let extent = ty.shape.get(axis).ok_or("an axis that does not exist")?;
    let [start, end] = range;
    if start.as_const() == Some(0) && end == *extent && step == 1 {
        return Ok(x);
    }
    Ok(call.b.prim(Prim::Slice { axis, start, end, step }, &[x])?)
}

pub(super) fn slice(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let ty = call.b.ty(x);
    let axis = call.axis("dim", ty.rank())?;
    let range = slice_range(call, &ty.shape[axis], call.out()?.shape.get(axis))?;
    Ok(vec![cut(call, x, axis, range, call.int("step")?)?])
}

pub(super) fn narrow(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let ty = call.b.ty(x);
    let axis = call.axis("dim", ty.rank())?;
    let start = place(call, &call.dim("start")?, &ty.shape[axis]);
    let end = &start + &call.dim("length")?;
    Ok(vec![cut(call, x, axis, [start, end], 1)?])
}

/// Slice `index` along `axis`, without the axis.
pub(super) fn pick(call: &Call<'_>, x: Value, axis: usize, index: Dim) -> Result<Value, Refusal> {
    let end = &index + &Dim::constant(1);
    let piece = cut(call, x, axis, [index, end], 1)?;
    let mut shape = call.b.ty(piece).shape;
    shape.remove(axis);
    Ok(call.b.reshape(piece, shape)?)
}

pub(super) fn select(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let ty = call.b.ty(x);
    let axis = call.axis("dim", ty.rank())?;
    Ok(vec![pick(call, x, axis, place(call, &call.dim("index")?, &ty.shape[axis]))?])
}

pub(super) fn unbind(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let axis = call.axis("dim", call.b.ty(x).rank())?;
    if call.b.ty(x).shape[axis].as_const() != i64::try_from(call.results.len()).ok() {
        return Err("the number of results is not the extent".into());
    }
    (0..call.results.len() as i64).map(|i| pick(call, x, axis, Dim::constant(i))).collect()
}

/// Consecutive pieces along an axis.
pub(super) fn split(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    split_along(call, x, call.axis("dim", call.b.ty(x).rank())?)
}

/// Consecutive pieces along the second axis, or the only one.
pub(super) fn hsplit(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    split_along(call, x, usize::from(call.b.ty(x).rank() > 1))
}

/// Consecutive pieces along the first axis.
pub(super) fn vsplit(call: &Call<'_>) -> Imported {
    split_along(call, call.tensor("self")?, 0)
}

/// Consecutive pieces along the third axis.
pub(super) fn dsplit(call: &Call<'_>) -> Imported {
    split_along(call, call.tensor("self")?, 2)
}

/// Pieces whose extents are those of the results.
fn split_along(call: &Call<'_>, x: Value, axis: usize) -> Imported {
    let ty = call.b.ty(x);
    let whole = ty.shape.get(axis).ok_or("a tensor of too few axes")?;
    let mut at = Dim::constant(0);
    let mut pieces = Vec::with_capacity(call.results.len());
    for result in call.results {
        let extent = result.shape.get(axis).ok_or("a result of another rank")?;
        let end = &at + extent;
        pieces.push(cut(call, x, axis, [at, end.clone()], 1)?);
        at = end;
    }
    if at == *whole { Ok(pieces) } else { Err(format!("pieces of {at} in all, out of {whole}").into()) }
}

fn joined(call: &Call<'_>, parts: &[Value], axis: usize) -> Imported {
    let operands: Vec<Operand> = parts.iter().copied().map(Operand::Tensor).collect();
    let dtype = result_type(call, &operands)?;
    let parts: Vec<Value> = parts.iter().map(|&x| convert(call.b, x, dtype)).collect::<Result<_, _>>()?;
    match parts.as_slice() {
        [only] => Ok(vec![*only]),
        several => Ok(vec![call.b.cat(several, axis)?]),
    }
}

pub(super) fn cat(call: &Call<'_>) -> Imported {
    let mut parts = call.tensors("tensors")?;
    // An empty tensor of one axis joins with anything.
    let rank = call.out()?.rank();
    parts.retain(|&x| call.b.ty(x).rank() == rank || call.b.ty(x).elements().as_const() != Some(0));
    joined(call, &parts, call.axis("dim", rank)?)
}

pub(super) fn stack(call: &Call<'_>) -> Imported {
    let axis = call.axis("dim", call.out()?.rank())?;
    let mut parts = call.tensors("tensors")?;
    for x in &mut parts {
        let mut shape = call.b.ty(*x).shape;
        if axis > shape.len() {
            return Err("operands of different ranks".into());
        }
        shape.insert(axis, Dim::constant(1));
        *x = call.b.reshape(*x, shape)?;
    }
    joined(call, &parts, axis)
}

pub(super) fn repeat(call: &Call<'_>) -> Imported {
    repeated(call, call.dims("repeats")?)
}

/// As `repeat`, once along axes for which no number is given.
pub(super) fn tile(call: &Call<'_>) -> Imported {
    let mut repeats = call.dims("dims")?;
    while repeats.len() < call.b.ty(call.tensor("self")?).rank() {
        repeats.insert(0, Dim::constant(1));
    }
    repeated(call, repeats)
}

fn repeated(call: &Call<'_>, repeats: Vec<Dim>) -> Imported {
    let x = call.tensor("self")?;
    let mut extents = call.b.ty(x).shape;
    while extents.len() < repeats.len() {
        extents.insert(0, Dim::constant(1));
    }
    if extents.len() != repeats.len() {
        return Err("fewer repeats than axes".into());
    }
    let one = Dim::constant(1);
    let spread = |count: bool| {
        let counts = repeats.iter().map(|r| if count { r.clone() } else { one.clone() });
        counts.zip(extents.iter().cloned()).flat_map(|(r, e)| [r, e]).collect::<Vec<_>>()
    };
    let wide = expand_to(call, call.b.reshape(x, spread(false))?, &spread(true))?;
    let shape = repeats.iter().zip(&extents).map(|(r, e)| r * e).collect();
    Ok(vec![call.b.reshape(wide, shape)?])
}

pub(super) fn repeat_interleave(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let repeats = call.dim("repeats")?;
    let ty = call.b.ty(x);
    let (x, shape, axis) = if call.is_none("dim")? {
        let flat = vec![product(&ty.shape)];
        (call.b.reshape(x, flat.clone())?, flat, 0)
    } else {
        (x, ty.shape.clone(), call.axis("dim", ty.rank())?)
    };
    let (mut narrow, mut wide, mut merged) = (shape.clone(), shape.clone(), shape);
    narrow.insert(axis + 1, Dim::constant(1));
    wide.insert(axis + 1, repeats.clone());
    merged[axis] = &merged[axis] * &repeats;
    let spread = expand_to(call, call.b.reshape(x, narrow)?, &wide)?;
    Ok(vec![call.b.reshape(spread, merged)?])
}

/// The index along an axis as i64, shaped to broadcast against `rank` axes.
pub(super) fn iota(call: &Call<'_>, extent: &Dim, axis: usize, rank: usize) -> Result<Value, Refusal> {
    iota_of(call, DType::I64, extent, axis, rank)
}

/// As [`iota`], of another integer type.
pub(super) fn iota_of(call: &Call<'_>, dtype: DType, extent: &Dim, axis: usize, rank: usize) -> Result<Value, Refusal> {
    let mut shape = vec![Dim::constant(1); rank];
    *shape.get_mut(axis).ok_or("an axis that does not exist")? = extent.clone();
    Ok(call.b.prim(Prim::Iota { dtype, shape, axis }, &[])?)
}
