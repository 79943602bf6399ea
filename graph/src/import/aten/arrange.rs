//! Ops that put elements elsewhere, or repeat or drop some: reversed, rolled and padded axes, windows, diagonals.
//!
//! What is no slice is a gather along one axis by a computed index.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar, wrap_axis};
use super::index::{extent, gather};
use super::layout::{cut, expand_to, iota, permuted};
use super::promote::{constant, convert, result_type};
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// The tensor with an axis read backwards.
pub(super) fn reversed(call: &Call<'_>, x: Value, axis: usize) -> One {
    let b = call.b;
    let dim = b.ty(x).shape.get(axis).cloned().ok_or("an axis that does not exist")?;
    let last = b.sub(extent(call, &dim)?, b.int(DType::I64, 1)?)?;
    gather(call, x, axis, b.sub(last, iota(call, &dim, 0, 1)?)?)
}

pub(super) fn flip(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let axes = call.axes("dims", call.b.ty(x).rank())?;
    Ok(vec![axes.into_iter().try_fold(x, |x, axis| reversed(call, x, axis))?])
}

/// The second axis read backwards.
pub(super) fn fliplr(call: &Call<'_>) -> Imported {
    Ok(vec![reversed(call, call.tensor("self")?, 1)?])
}

/// The first axis read backwards.
pub(super) fn flipud(call: &Call<'_>) -> Imported {
    Ok(vec![reversed(call, call.tensor("self")?, 0)?])
}

/// An axis whose elements move on by `shift`, those at the end to the front.
pub(super) fn rolled(call: &Call<'_>, x: Value, axis: usize, shift: &Dim) -> One {
    let b = call.b;
    let dim = b.ty(x).shape.get(axis).cloned().ok_or("an axis that does not exist")?;
    match (dim.as_const(), shift.as_const()) {
        (Some(0), _) => Ok(x),
        (Some(n), Some(shift)) => {
            let from = Dim::constant(n - shift.rem_euclid(n));
            let head = cut(call, x, axis, [from.clone(), dim], 1)?;
            if from.as_const() == Some(n) {
                return Ok(x);
            }
            Ok(b.cat(&[head, cut(call, x, axis, [Dim::constant(0), from], 1)?], axis)?)
        }
        _ => {
            let n = extent(call, &dim)?;
            let at = b.sub(iota(call, &dim, 0, 1)?, extent(call, shift)?)?;
            let rest = b.map(ScalarFn::Rem, &[at, n])?;
            let below = b.map(ScalarFn::Lt, &[rest, b.int(DType::I64, 0)?])?;
            gather(call, x, axis, b.map(ScalarFn::Select, &[below, b.add(rest, n)?, rest])?)
        }
    }
}

pub(super) fn roll(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let (shifts, axes, shape) = (call.dims("shifts")?, call.ints("dims")?, b.ty(x).shape);
    if axes.is_empty() {
        let [shift] = shifts.as_slice() else { return Err("several shifts of one line".into()) };
        let flat = b.reshape(x, vec![b.ty(x).elements()])?;
        return Ok(vec![b.reshape(rolled(call, flat, 0, shift)?, shape)?]);
    }
    if axes.len() != shifts.len() {
        return Err("as many shifts as axes are wanted".into());
    }
    let moves = shifts.iter().zip(axes);
    Ok(vec![moves.into_iter().try_fold(x, |x, (shift, axis)| rolled(call, x, wrap_axis(axis, shape.len())?, shift))?])
}

/// The plane of two axes turned by quarters from the first towards the second.
pub(super) fn rot90(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let rank = call.b.ty(x).rank();
    let turned = call.ints("dims")?.into_iter().map(|axis| wrap_axis(axis, rank)).collect::<Result<Vec<_>, _>>()?;
    let &[from, to] = turned.as_slice() else { return Err("a plane of two axes is wanted".into()) };
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(from, to);
    match call.int("k")?.rem_euclid(4) {
        0 => Ok(vec![x]),
        1 => permuted(call, reversed(call, x, to)?, perm),
        2 => Ok(vec![reversed(call, reversed(call, x, from)?, to)?]),
        _ => permuted(call, reversed(call, x, from)?, perm),
    }
}

/// How elements outside an axis are made up.
#[derive(Clone, Copy, PartialEq)]
enum Border {
    Constant(Scalar),
    Reflect,
    Replicate,
    Circular,
}

/// An axis with elements added before and behind it; negative numbers drop elements.
fn padded(call: &Call<'_>, x: Value, axis: usize, [before, behind]: [&Dim; 2], border: Border) -> One {
    let b = call.b;
    let ty = b.ty(x);
    let dim = ty.shape[axis].clone();
    let (zero, one) = (Dim::constant(0), Dim::constant(1));
    if let Border::Constant(value) = border {
        let dropped = |d: &Dim| if call.names.never_negative(&(&zero - d)) { &zero - d } else { zero.clone() };
        let end = &dim - &dropped(behind);
        let kept = cut(call, x, axis, [dropped(before), end], 1)?;
        let fill = |extent: &Dim| -> Result<Option<Value>, Refusal> {
            if call.names.never_negative(&(&zero - extent)) {
                return Ok(None);
            }
            if !call.names.never_negative(extent) && !call.names.takes_for_granted(extent) {
                return Err(format!("a padding of {extent}, of which the sign is not known").into());
            }
            let mut shape = ty.shape.clone();
            shape[axis] = extent.clone();
            expand_to(call, constant(b, ty.dtype, value)?, &shape).map(Some)
        };
        let parts: Vec<Value> = [fill(before)?, Some(kept), fill(behind)?].into_iter().flatten().collect();
        return if parts.len() == 1 { Ok(parts[0]) } else { Ok(b.cat(&parts, axis)?) };
    }
    let size = &(before + &dim) + behind;
    let (n, first) = (extent(call, &dim)?, extent(call, before)?);
    let last = extent(call, &(&dim - &one))?;
    let at = b.sub(iota(call, &size, 0, 1)?, first)?;
    let index = match border {
        Border::Reflect => {
            let inside = b.map(ScalarFn::Abs, &[at])?;
            let back = b.map(ScalarFn::Abs, &[b.sub(last, inside)?])?;
            b.sub(last, back)?
        }
        Border::Replicate => b.clamp(at, b.int(DType::I64, 0)?, last)?,
        _ => b.map(ScalarFn::Rem, &[b.add(at, n)?, n])?,
    };
    gather(call, x, axis, index)
}

/// An axis with as many equal elements before and behind it.
pub(super) fn padded_by(call: &Call<'_>, x: Value, axis: usize, pads: [i64; 2], value: Scalar) -> One {
    if pads == [0, 0] {
        return Ok(x);
    }
    let [before, behind] = pads.map(Dim::constant);
    padded(call, x, axis, [&before, &behind], Border::Constant(value))
}

/// The padding behind an axis, written so that the padded extent has the form that the file states for it.
fn as_stated(call: &Call<'_>, x: Value, axis: usize, [before, behind]: [&Dim; 2]) -> Result<Dim, Refusal> {
    let total = call.out()?.shape.get(axis).cloned().ok_or("a result of another rank")?;
    let filled = &call.b.ty(x).shape[axis] + before;
    let same = call.names.same_extent(&(&filled + behind), &total);
    Ok(if same { &total - &filled } else { behind.clone() })
}

/// Pairs of paddings, those of the last axis first.
fn pad_axes(call: &Call<'_>, pads: &[Dim], border: Border) -> Imported {
    let mut x = call.tensor("self")?;
    let rank = call.b.ty(x).rank();
    if !pads.len().is_multiple_of(2) || pads.len() / 2 > rank {
        return Err(format!("{} paddings of {rank} axes", pads.len()).into());
    }
    for (i, pair) in pads.chunks_exact(2).enumerate() {
        if pair.iter().all(|p| p.as_const() == Some(0)) {
            continue;
        }
        let axis = rank - 1 - i;
        let behind = as_stated(call, x, axis, [&pair[0], &pair[1]])?;
        x = padded(call, x, axis, [&pair[0], &behind], border)?;
    }
    Ok(vec![x])
}

pub(super) fn pad(call: &Call<'_>) -> Imported {
    let border = match call.word("mode")? {
        "constant" => Border::Constant(call.scalar_or_none("value")?.unwrap_or(Scalar::Int(0))),
        "reflect" => Border::Reflect,
        "replicate" => Border::Replicate,
        "circular" => Border::Circular,
        other => return Err(format!("the padding `{other}`").into()),
    };
    pad_axes(call, &call.dims("pad")?, border)
}

pub(super) fn constant_pad(call: &Call<'_>) -> Imported {
    pad_axes(call, &call.dims("pad")?, Border::Constant(call.scalar("value")?))
}

pub(super) fn reflection_pad(call: &Call<'_>) -> Imported {
    pad_axes(call, &call.dims("padding")?, Border::Reflect)
}

pub(super) fn replication_pad(call: &Call<'_>) -> Imported {
    pad_axes(call, &call.dims("padding")?, Border::Replicate)
}

/// Windows of `size` elements along an axis, side by side, on a new last axis: the axis is split. `None` if it is not known
/// how many there are.
fn side_by_side(call: &Call<'_>, x: Value, axis: usize, size: i64) -> Result<Option<Value>, Refusal> {
    let (b, size) = (call.b, Dim::constant(size));
    let mut shape = b.ty(x).shape;
    let whole = shape[axis].as_const().zip(size.as_const()).map(|(n, size)| Dim::constant(n / size));
    let Some(places) = whole.or_else(|| shape[axis].exact_div(&size)) else { return Ok(None) };
    let x = cut(call, x, axis, [Dim::constant(0), &places * &size], 1)?;
    let rank = shape.len();
    shape[axis] = places;
    shape.insert(axis + 1, size);
    let mut perm: Vec<usize> = (0..rank + 1).collect();
    let moved = perm.remove(axis + 1);
    perm.push(moved);
    Ok(Some(permuted(call, b.reshape(x, shape)?, perm)?[0]))
}

/// Windows of `size` elements along an axis, a `step` apart, on a new last axis.
pub(super) fn windows(call: &Call<'_>, x: Value, axis: usize, [size, step, gap]: [i64; 3]) -> One {
    let b = call.b;
    let shape = b.ty(x).shape;
    let dim = shape.get(axis).ok_or("an axis that does not exist")?;
    if size < 1 || step < 1 || gap < 1 {
        return Err("windows of no size, or no step apart".into());
    }
    if step == size
        && gap == 1
        && let Some(x) = side_by_side(call, x, axis, size)?
    {
        return Ok(x);
    }
    let reach = Dim::constant((size - 1).checked_mul(gap).and_then(|r| r.checked_add(1)).ok_or("windows too large")?);
    let places = &Dim::function(crate::dim::DimFn::FloorDiv, &(dim - &reach), &Dim::constant(step)) + &Dim::constant(1);
    let scaled = |counter: Value, by: i64| -> One {
        if by == 1 { Ok(counter) } else { Ok(b.mul(counter, b.int(DType::I64, by)?)?) }
    };
    let start = scaled(iota(call, &places, 0, 2)?, step)?;
    let inner = scaled(iota(call, &Dim::constant(size), 1, 2)?, gap)?;
    let taken = gather(call, x, axis, b.add(start, inner)?)?;
    let mut perm: Vec<usize> = (0..shape.len() + 1).collect();
    let moved = perm.remove(axis + 1);
    perm.push(moved);
    Ok(permuted(call, taken, perm)?[0])
}

pub(super) fn unfold(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let axis = call.axis("dimension", call.b.ty(x).rank())?;
    Ok(vec![windows(call, x, axis, [call.int("size")?, call.int("step")?, 1])?])
}

/// Axes moved from `source` to `destination`; the others keep their order.
pub(super) fn movedim(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let rank = call.b.ty(x).rank();
    let wrapped = |name: &str| -> Result<Vec<usize>, Refusal> {
        call.ints(name)?.into_iter().map(|axis| wrap_axis(axis, rank)).collect()
    };
    let (from, to) = (wrapped("source")?, wrapped("destination")?);
    let mut perm: Vec<Option<usize>> = vec![None; rank];
    for (&from, &to) in from.iter().zip(&to) {
        perm[to] = Some(from);
    }
    let mut others = (0..rank).filter(|axis| !from.contains(axis));
    let perm: Option<Vec<usize>> = perm.into_iter().map(|axis| axis.or_else(|| others.next())).collect();
    if from.len() != to.len() || others.next().is_some() {
        return Err("as many distinct sources as destinations are wanted".into());
    }
    permuted(call, x, perm.ok_or("as many distinct sources as destinations are wanted")?)
}

pub(super) fn swapaxes(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let rank = call.b.ty(x).rank();
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(call.axis("axis0", rank)?, call.axis("axis1", rank)?);
    permuted(call, x, perm)
}

/// The last two axes exchanged.
pub(super) fn last_axes(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let rank = call.b.ty(x).rank();
    if rank < 2 {
        return Err("fewer than two axes".into());
    }
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 2, rank - 1);
    permuted(call, x, perm)
}

/// Each tensor along its own axis, the others repeat it.
pub(super) fn meshgrid(call: &Call<'_>) -> Imported {
    let tensors = call.tensors("tensors")?;
    let swapped = match call.row.parameter("indexing") {
        Some(_) => call.word("indexing")? == "xy" && tensors.len() > 1,
        None => false,
    };
    let axis_of = |i: usize| if swapped && i < 2 { 1 - i } else { i };
    let stretched = |(i, &x): (usize, &Value)| -> One {
        let mut shape = vec![Dim::constant(1); tensors.len()];
        shape[axis_of(i)] = call.b.ty(x).elements();
        expand_to(call, call.b.reshape(x, shape)?, &call.out()?.shape)
    };
    tensors.iter().enumerate().map(stretched).collect()
}

/// All rows of one element of each tensor, those of the last tensor first.
pub(super) fn cartesian_prod(call: &Call<'_>) -> Imported {
    let b = call.b;
    let lines = call.tensors("tensors")?;
    let [_, _, ..] = lines.as_slice() else { return Ok(lines) };
    let shape: Vec<Dim> = lines.iter().map(|&x| b.ty(x).elements()).collect();
    let column = |(axis, &x): (usize, &Value)| -> One {
        let mut own = vec![Dim::constant(1); shape.len()];
        own[axis] = shape[axis].clone();
        let spread = expand_to(call, b.reshape(x, own)?, &shape)?;
        Ok(b.reshape(spread, vec![product(&shape), Dim::constant(1)])?)
    };
    let columns = lines.iter().enumerate().map(column).collect::<Result<Vec<_>, _>>()?;
    Ok(vec![b.cat(&columns, 1)?])
}

/// Matrices along the diagonal of one, which is zero elsewhere; lines are matrices of one row.
pub(super) fn block_diag(call: &Call<'_>) -> Imported {
    let b = call.b;
    let blocks = call.tensors("tensors")?;
    let dtype = result_type(call, &blocks.iter().copied().map(Operand::Tensor).collect::<Vec<_>>())?;
    let block = |&x: &Value| -> One { Ok(convert(b, b.reshape(x, at_least(2, b.ty(x).shape))?, dtype)?) };
    let blocks = blocks.iter().map(block).collect::<Result<Vec<_>, _>>()?;
    if blocks.iter().any(|&x| b.ty(x).rank() != 2) {
        return Err("blocks that are no matrices".into());
    }
    let width = blocks.iter().fold(Dim::constant(0), |sum, &x| &sum + &b.ty(x).shape[1]);
    let mut before = Dim::constant(0);
    let mut rows = Vec::with_capacity(blocks.len());
    for x in blocks {
        let shape = b.ty(x).shape;
        let behind = &(&width - &before) - &shape[1];
        let zeros = |count: &Dim| -> Result<Option<Value>, Refusal> {
            let none = count.as_const() == Some(0);
            let fill = || expand_to(call, constant(b, dtype, Scalar::Int(0))?, &[shape[0].clone(), count.clone()]);
            if none { Ok(None) } else { fill().map(Some) }
        };
        let parts: Vec<Value> = [zeros(&before)?, Some(x), zeros(&behind)?].into_iter().flatten().collect();
        rows.push(if parts.len() == 1 { x } else { b.cat(&parts, 1)? });
        before = &before + &shape[1];
    }
    if rows.len() == 1 { Ok(rows) } else { Ok(vec![b.cat(&rows, 0)?]) }
}

/// Tensors joined along an axis after `shaped` gave each the axes that it lacks.
fn stacked(call: &Call<'_>, axis: usize, shaped: impl Fn(Vec<Dim>) -> Vec<Dim>) -> Imported {
    let parts = call.tensors("tensors")?;
    let dtype = result_type(call, &parts.iter().copied().map(Operand::Tensor).collect::<Vec<_>>())?;
    let part = |&x: &Value| -> One { Ok(convert(call.b, call.b.reshape(x, shaped(call.b.ty(x).shape))?, dtype)?) };
    let parts: Vec<Value> = parts.iter().map(part).collect::<Result<_, _>>()?;
    if parts.len() == 1 { Ok(parts) } else { Ok(vec![call.b.cat(&parts, axis)?]) }
}

/// A shape with as many axes as `rank` by axes of extent one in front.
fn at_least(rank: usize, mut shape: Vec<Dim>) -> Vec<Dim> {
    while shape.len() < rank {
        shape.insert(0, Dim::constant(1));
    }
    shape
}

/// Tensors side by side: lines end to end, others along their second axis.
pub(super) fn hstack(call: &Call<'_>) -> Imported {
    let first = call.tensors("tensors")?.first().map_or(0, |&x| call.b.ty(x).rank());
    stacked(call, usize::from(first > 1), |shape| at_least(1, shape))
}

/// Tensors one below the other, lines as rows.
pub(super) fn vstack(call: &Call<'_>) -> Imported {
    stacked(call, 0, |shape| at_least(2, shape))
}

/// Tensors one behind the other along a third axis.
pub(super) fn dstack(call: &Call<'_>) -> Imported {
    stacked(call, 2, |shape| {
        let mut shape = at_least(2, shape);
        if shape.len() == 2 {
            shape.push(Dim::constant(1));
        }
        shape
    })
}

/// Tensors side by side, lines as columns.
pub(super) fn column_stack(call: &Call<'_>) -> Imported {
    stacked(call, 1, |shape| if shape.len() < 2 { vec![product(&shape), Dim::constant(1)] } else { shape })
}
