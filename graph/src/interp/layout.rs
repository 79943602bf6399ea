//! Layout and indexing, the same for every kind of element.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use super::domain::{ArrayOf, DataOf, Domain};
use super::walk::{broadcast_strides, dense_strides, reserve, strided};
use crate::DType;
use crate::interp::fault::Fault;
use crate::tensor::{Array, Data};

/// The elements of a strided view of an array.
fn view<F: Copy, I: Copy>(
    x: &Array<F, I>,
    shape: &[usize],
    strides: &[usize],
    offset: usize,
) -> Result<Data<F, I>, Fault> {
    Ok(match x.data() {
        Data::Float(v) => Data::Float(strided(v, shape, strides, offset)?),
        Data::Int(v) => Data::Int(strided(v, shape, strides, offset)?),
    })
}

/// Result axis `i` is operand axis `perm[i]`.
pub(super) fn permute<F: Copy, I: Copy>(x: &Array<F, I>, perm: &[usize]) -> Result<Data<F, I>, Fault> {
    let strides = dense_strides(x.shape());
    let shape: Vec<usize> = perm.iter().map(|&axis| x.shape()[axis]).collect();
    view(x, &shape, &perm.iter().map(|&axis| strides[axis]).collect::<Vec<_>>(), 0)
}

/// The last two axes exchanged.
pub(super) fn transpose_last<F: Copy, I: Copy>(x: &Array<F, I>) -> Result<Data<F, I>, Fault> {
    let rank = x.shape().len();
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank - 1, rank - 2);
    permute(x, &perm)
}

/// Broadcast to `shape`.
pub(super) fn expand<F: Copy, I: Copy>(x: &Array<F, I>, shape: &[usize]) -> Result<Data<F, I>, Fault> {
    view(x, shape, &broadcast_strides(x.shape(), shape)?, 0)
}

/// Elements `start, start + step, …` below `end` along an axis.
pub(super) fn slice<F: Copy, I: Copy>(
    x: &Array<F, I>,
    axis: usize,
    (start, end): (i64, i64),
    step: i64,
) -> Result<Data<F, I>, Fault> {
    let extent = x.shape()[axis];
    let bound = |v: i64| usize::try_from(v).ok().filter(|&v| v <= extent);
    let (Some(first), Some(last), Ok(step)) = (bound(start), bound(end), usize::try_from(step)) else {
        return Err(format!("[{start}..{end}] of extent {extent}").into());
    };
    if first > last || step == 0 {
        return Err(format!("[{start}..{end}] by {step}").into());
    }
    let (mut shape, mut strides) = (x.shape().to_vec(), dense_strides(x.shape()));
    let offset = first * strides[axis];
    shape[axis] = (last - first).div_ceil(step);
    strides[axis] = strides[axis].saturating_mul(step);
    view(x, &shape, &strides, offset)
}

/// Extents before, at and after an axis: the array is that many blocks of that many slices of that many elements.
pub(super) fn around(shape: &[usize], axis: usize) -> (usize, usize, usize) {
    (shape[..axis].iter().product(), shape[axis], shape[axis + 1..].iter().product())
}

/// Operands joined along an axis.
pub(super) fn cat<F: Copy, I: Copy>(parts: &[&Array<F, I>], axis: usize) -> Result<Data<F, I>, Fault> {
    let total = parts.iter().map(|part| part.len()).sum();
    let outer = parts.first().map_or(0, |part| around(part.shape(), axis).0);
    let chunk = |part: &Array<F, I>| part.len().checked_div(outer).unwrap_or(0);
    if parts.iter().all(|part| part.floats().is_some()) {
        let mut out = reserve(total)?;
        for block in 0..outer {
            for part in parts {
                out.extend_from_slice(&part.floats().unwrap_or(&[])[block * chunk(part)..][..chunk(part)]);
            }
        }
        return Ok(Data::Float(out));
    }
    let mut out = reserve(total)?;
    for block in 0..outer {
        for part in parts {
            let values = part.ints().ok_or("operands of different classes")?;
            out.extend_from_slice(&values[block * chunk(part)..][..chunk(part)]);
        }
    }
    Ok(Data::Int(out))
}

/// The index along an axis.
pub(super) fn iota(shape: &[usize], axis: usize) -> Result<Vec<i64>, Fault> {
    let (outer, extent, inner) = around(shape, axis);
    let mut out = reserve(outer * extent * inner)?;
    for _ in 0..outer {
        (0..extent).for_each(|i| out.extend(std::iter::repeat_n(i as i64, inner)));
    }
    Ok(out)
}

/// Elements as rows: the data, the number of rows and their length.
type Rows<'a, F, I> = (Cow<'a, Data<F, I>>, usize, usize);

/// Elements as rows over `axes`.
pub(super) fn rows<'a, F: Copy, I: Copy>(x: &'a Array<F, I>, axes: &[usize]) -> Result<Rows<'a, F, I>, Fault> {
    let rank = x.shape().len();
    let (count, length) = (0..rank).fold((1usize, 1usize), |(count, length), axis| {
        let extent = x.shape()[axis];
        if axes.contains(&axis) { (count, length * extent) } else { (count * extent, length) }
    });
    let trailing = axes.iter().rev().zip((0..rank).rev()).all(|(&axis, last)| axis == last);
    if trailing {
        return Ok((Cow::Borrowed(x.data()), count, length));
    }
    let perm: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).chain(axes.iter().copied()).collect();
    Ok((Cow::Owned(permute(x, &perm)?), count, length))
}

/// Slices along an axis chosen by indices, the nearest for one outside the axis. An index that may have several values
/// gives what any of them may give.
pub(super) fn gather<D: Domain>(
    domain: &D,
    x: &ArrayOf<D>,
    indices: &ArrayOf<D>,
    axis: usize,
) -> Result<DataOf<D>, Fault> {
    let (outer, extent, inner) = around(x.shape(), axis);
    let mut chosen = ranges(domain, indices)?;
    if let (0, Some((low, high))) = (extent, chosen.first()) {
        return Err(format!("index {low}..={high} on an axis without places").into());
    }
    let last = extent as i64 - 1;
    chosen.iter_mut().for_each(|(low, high)| (*low, *high) = ((*low).clamp(0, last), (*high).clamp(0, last)));
    Ok(match x.data() {
        Data::Float(v) => Data::Float(pick(v, (outer, extent, inner), &chosen, |a, b| domain.join_floats(a, b))?),
        Data::Int(v) => Data::Int(pick(v, (outer, extent, inner), &chosen, |a, b| domain.join_ints(x.dtype(), a, b))?),
    })
}

/// The places of an axis among the values that an index may have.
pub(super) fn inside(low: i64, high: i64, extent: usize) -> RangeInclusive<i64> {
    low.max(0)..=high.min(extent as i64 - 1)
}

pub(super) fn ranges<D: Domain>(domain: &D, indices: &ArrayOf<D>) -> Result<Vec<(i64, i64)>, Fault> {
    let unsigned = indices.dtype() == DType::U64;
    let indices = indices.ints().ok_or("indices are not integers")?;
    // The upper half of unsigned numbers is kept as negative ones, and is behind the end of every axis.
    let of = |(low, high): (i64, i64)| match (unsigned && low < 0, high < 0) {
        (true, true) => (i64::MAX, i64::MAX),
        (true, false) => (0, i64::MAX),
        (false, _) => (low, high),
    };
    Ok(indices.iter().map(|&v| of(domain.range(v))).collect())
}

fn pick<T: Copy>(
    data: &[T],
    (outer, extent, inner): (usize, usize, usize),
    chosen: &[(i64, i64)],
    join: impl Fn(T, T) -> T,
) -> Result<Vec<T>, Fault> {
    let mut out = reserve(outer * chosen.len() * inner)?;
    for block in 0..outer {
        for &(low, high) in chosen {
            let row = |i: i64| &data[(block * extent + i as usize) * inner..][..inner];
            let start = out.len();
            out.extend_from_slice(row(low));
            for other in low + 1..=high {
                out[start..].iter_mut().zip(row(other)).for_each(|(slot, &value)| *slot = join(*slot, value));
            }
        }
    }
    Ok(out)
}

/// `x` with slices along an axis replaced; an index outside the axis is skipped. One that may have several values leaves
/// each of them either way.
pub(super) fn scatter<D: Domain>(
    domain: &D,
    x: &ArrayOf<D>,
    indices: &ArrayOf<D>,
    updates: &ArrayOf<D>,
    axis: usize,
) -> Result<DataOf<D>, Fault> {
    let blocks = around(x.shape(), axis);
    let chosen = ranges(domain, indices)?;
    match (x.data().clone(), updates.data()) {
        (Data::Float(mut out), Data::Float(new)) => {
            put(&mut out, new, blocks, &chosen, |a, b| domain.join_floats(a, b));
            Ok(Data::Float(out))
        }
        (Data::Int(mut out), Data::Int(new)) => {
            put(&mut out, new, blocks, &chosen, |a, b| domain.join_ints(x.dtype(), a, b));
            Ok(Data::Int(out))
        }
        _ => Err("operands of different classes".into()),
    }
}

fn put<T: Copy>(
    out: &mut [T],
    new: &[T],
    (outer, extent, inner): (usize, usize, usize),
    chosen: &[(i64, i64)],
    join: impl Fn(T, T) -> T,
) {
    for block in 0..outer {
        for (row, &(low, high)) in chosen.iter().enumerate() {
            let update = &new[(block * chosen.len() + row) * inner..][..inner];
            for target in inside(low, high, extent) {
                let slots = &mut out[(block * extent + target as usize) * inner..][..inner];
                for (slot, &value) in slots.iter_mut().zip(update) {
                    *slot = if low == high { value } else { join(*slot, value) };
                }
            }
        }
    }
}
