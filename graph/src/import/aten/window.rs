//! Windows of the last axes: their extremes and means, and windows as columns and back.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal, Scalar};
use super::arrange::{padded_by, windows};
use super::convolution::per_axis;
use super::index::extent;
use super::layout::{iota, permuted};
use super::promote::{constant, convert, is_reduced};
use super::reduce::{mean_of_places, over};
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::prim::ReduceOp;
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// How windows lie along an axis.
#[derive(Clone, Copy)]
struct Along {
    /// Elements of a window.
    size: i64,
    /// From one window to the next.
    step: i64,
    /// From one element of a window to the next.
    gap: i64,
    /// Elements that are added on both sides.
    padding: i64,
}

/// How the windows of a call lie along its last axes.
fn windows_of(call: &Call<'_>, axes: usize) -> Result<Vec<Along>, Refusal> {
    let sizes = per_axis(call, "kernel_size", axes)?;
    // Without a step windows lie side by side.
    let steps = if call.ints("stride")?.is_empty() { sizes.clone() } else { per_axis(call, "stride", axes)? };
    let gaps = match call.row.parameter("dilation") {
        Some(_) => per_axis(call, "dilation", axes)?,
        None => vec![1; axes],
    };
    let padding = per_axis(call, "padding", axes)?;
    let along = |i: usize| Along { size: sizes[i], step: steps[i], gap: gaps[i], padding: padding[i] };
    Ok((0..axes).map(along).collect())
}

/// The first of the last axes that windows run over: behind the channels, and a batch if there is one.
fn first_axis(call: &Call<'_>, x: Value, axes: usize) -> Result<usize, Refusal> {
    match call.b.ty(x).rank().checked_sub(axes) {
        Some(first @ (1 | 2)) => Ok(first),
        _ => Err(format!("windows along {axes} axes of a tensor of {}", call.b.ty(x).rank()).into()),
    }
}

/// The windows along axes from `first` on, as new last axes in their order; what is added on both sides is `fill`. Where a
/// call rounds up, the last window of `places` may reach further.
fn taken(call: &Call<'_>, x: Value, first: usize, along: &[Along], fill: Scalar, places: Option<&[Dim]>) -> One {
    let mut taken = x;
    for (i, &Along { size, step, gap, padding }) in along.iter().enumerate() {
        let axis = first + i;
        let behind = match places {
            None => padding,
            Some(places) => {
                let known = call.b.ty(x).shape[axis].as_const().zip(places[i].as_const());
                let (extent, count) = known.ok_or("windows that round up along an axis of unknown extent")?;
                let [size, step, gap, padding, extent, count] =
                    [size, step, gap, padding, extent, count].map(i128::from);
                let behind = (count - 1) * step + (size - 1) * gap + 1 - extent - padding;
                i64::try_from(behind).map_err(|_| "windows too large")?
            }
        };
        taken = padded_by(call, taken, axis, [padding, behind], fill)?;
        taken = windows(call, taken, axis, [size, step, gap])?;
    }
    Ok(taken)
}

/// The last windows of a call that rounds up, by the places of its result.
fn rounded_up(call: &Call<'_>, first: usize) -> Result<Option<Vec<Dim>>, Refusal> {
    let places = call.out()?.shape.get(first..).ok_or("a result of another rank")?;
    Ok(if call.bool("ceil_mode")? { Some(places.to_vec()) } else { None })
}

/// The axes of windows behind so many others.
fn inner(others: usize, axes: usize) -> Vec<usize> {
    (others..others + axes).collect()
}

/// A reduction over the windows, which go.
fn over_windows(call: &Call<'_>, op: ReduceOp, taken: Value, axes: usize) -> One {
    let rank = call.b.ty(taken).rank() - axes;
    let y = over(call, op, taken, &inner(rank, axes))?;
    let shape = call.b.ty(y).shape[..rank].to_vec();
    Ok(call.b.reshape(y, shape)?)
}

/// The largest element of each window, and where in the plane it is if the call says that: the first of equals, the last
/// NaN. What is added on the sides is in no window.
fn largest(call: &Call<'_>, axes: usize) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    if !b.dtype(x).is_float() {
        return Err("windows of integers".into());
    }
    let first = first_axis(call, x, axes)?;
    let (along, places) = (windows_of(call, axes)?, rounded_up(call, first)?);
    let windows = taken(call, x, first, &along, Scalar::Float(f64::NEG_INFINITY), places.as_deref())?;
    let y = over_windows(call, ReduceOp::Max, windows, axes)?;
    if call.results.len() < 2 {
        return Ok(vec![y]);
    }
    let shape = b.ty(x).shape;
    let plane = [&vec![Dim::constant(1); first][..], &shape[first..]].concat();
    let counter = b.reshape(iota(call, &product(&shape[first..]), 0, 1)?, plane)?;
    let numbers = taken(call, counter, first, &along, Scalar::Int(-1), places.as_deref())?;
    let number = |n: i64| b.int(DType::I64, n);
    let keeps = [b.ty(y).shape, vec![Dim::constant(1); axes]].concat();
    let equal = b.map(ScalarFn::Eq, &[windows, b.reshape(y, keeps)?])?;
    let inside = b.map(ScalarFn::Ge, &[numbers, number(0)?])?;
    let hit = b.map(ScalarFn::And, &[equal, inside])?;
    let least = b.map(ScalarFn::Select, &[hit, numbers, number(i64::MAX)?])?;
    let unordered = b.map(ScalarFn::Ne, &[windows, windows])?;
    let last = b.map(ScalarFn::Select, &[unordered, numbers, number(-1)?])?;
    let least = over_windows(call, ReduceOp::Min, least, axes)?;
    let last = over_windows(call, ReduceOp::Max, last, axes)?;
    let is_nan = b.map(ScalarFn::Ne, &[y, y])?;
    Ok(vec![y, b.map(ScalarFn::Select, &[is_nan, last, least])?])
}

pub(super) fn max_pool1d(call: &Call<'_>) -> Imported {
    largest(call, 1)
}

pub(super) fn max_pool2d(call: &Call<'_>) -> Imported {
    largest(call, 2)
}

pub(super) fn max_pool3d(call: &Call<'_>) -> Imported {
    largest(call, 3)
}

/// The sum of each window over its number of elements, added and divided in f32 for narrow floats.
fn mean(call: &Call<'_>, axes: usize) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let dtype = b.dtype(x);
    if !dtype.is_float() {
        return Err("windows of integers".into());
    }
    let first = first_axis(call, x, axes)?;
    let (along, places) = (windows_of(call, axes)?, rounded_up(call, first)?);
    let work = if is_reduced(dtype) { DType::F32 } else { dtype };
    let windows = taken(call, convert(b, x, work)?, first, &along, Scalar::Int(0), places.as_deref())?;
    let sum = over_windows(call, ReduceOp::Add, windows, axes)?;
    let all = along.iter().try_fold(1_i64, |n, along| n.checked_mul(along.size)).ok_or("windows too large")?;
    let given = match call.row.parameter("divisor_override") {
        Some(_) => call.scalar_or_none("divisor_override")?,
        None => None,
    };
    let padded = along.iter().any(|along| along.padding != 0);
    let count = match given {
        Some(divisor) => constant(b, work, divisor)?,
        None if places.is_none() && (!padded || call.bool("count_include_pad")?) => {
            constant(b, work, Scalar::Int(all))?
        }
        None => convert(b, counts(call, x, first, &along)?, work)?,
    };
    Ok(vec![convert(b, b.div(sum, count)?, dtype)?])
}

/// How many elements each window has: those of the tensor, or with what is added on both sides, but nothing beyond.
fn counts(call: &Call<'_>, x: Value, first: usize, along: &[Along]) -> One {
    let (b, out) = (call.b, &call.out()?.shape);
    let with_padding = call.bool("count_include_pad")?;
    let mut count: Option<Value> = None;
    for (i, &Along { size, step, padding, .. }) in along.iter().enumerate() {
        let axis = first + i;
        let number = |n: i64| b.int(DType::I64, n);
        let size_of = extent(call, &b.ty(x).shape[axis])?;
        let start = b.sub(b.mul(iota(call, &out[axis], axis, out.len())?, number(step)?)?, number(padding)?)?;
        let end = b.map(ScalarFn::Min, &[b.add(start, number(size)?)?, b.add(size_of, number(padding)?)?])?;
        let own = if with_padding {
            b.sub(end, start)?
        } else {
            let end = b.map(ScalarFn::Min, &[end, size_of])?;
            b.sub(end, b.map(ScalarFn::Max, &[start, number(0)?])?)?
        };
        count = Some(count.map_or(Ok(own), |others| b.mul(others, own))?);
    }
    count.ok_or_else(|| "windows along no axis".into())
}

pub(super) fn avg_pool1d(call: &Call<'_>) -> Imported {
    mean(call, 1)
}

pub(super) fn avg_pool2d(call: &Call<'_>) -> Imported {
    mean(call, 2)
}

pub(super) fn avg_pool3d(call: &Call<'_>) -> Imported {
    mean(call, 3)
}

/// The means of as many equal parts of the last axes as the result has places: sums that are divided by the extents of a
/// part, one after the other.
pub(super) fn mean_of_parts(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let axes = call.dims("output_size")?.len();
    let first = first_axis(call, x, axes)?;
    let (dtype, shape, places) = (b.dtype(x), b.ty(x).shape, call.out()?.shape.clone());
    let one = Dim::constant(1);
    if !dtype.is_float() || places.len() != shape.len() || places[first..].iter().all(|place| *place == one) {
        return mean_of_places(call);
    }
    let part = |i: usize| shape[i].exact_div(&places[i]).and_then(|part| part.as_const());
    let parts =
        (first..shape.len()).map(part).collect::<Option<Vec<i64>>>().ok_or("means of parts of unequal extents")?;
    let along: Vec<Along> = parts.iter().map(|&n| Along { size: n, step: n, gap: 1, padding: 0 }).collect();
    let work = if is_reduced(dtype) { DType::F32 } else { dtype };
    let windows = taken(call, convert(b, x, work)?, first, &along, Scalar::Int(0), None)?;
    let mut y = over_windows(call, ReduceOp::Add, windows, axes)?;
    for part in parts {
        y = b.div(y, constant(b, work, Scalar::Int(part))?)?;
    }
    Ok(vec![convert(b, y, dtype)?])
}

/// Windows of planes as columns: their channels and elements one below the other, one column for each place.
pub(super) fn im2col(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let first = first_axis(call, x, 2)?;
    let windows = taken(call, x, first, &windows_of(call, 2)?, Scalar::Int(0), None)?;
    let perm = (0..first).chain([first + 2, first + 3, first, first + 1]).collect();
    let columns = permuted(call, windows, perm)?[0];
    Ok(vec![call.b.reshape(columns, call.out()?.shape.clone())?])
}

/// Columns as the windows of planes, side by side.
pub(super) fn col2im(call: &Call<'_>) -> Imported {
    let (b, x, out) = (call.b, call.tensor("self")?, call.out()?.shape.clone());
    let first = out.len().checked_sub(2).filter(|&first| b.ty(x).rank() == first + 1 && first > 0);
    let first = first.ok_or("a result of another rank")?;
    let (mut split, mut places) = (out[..first].to_vec(), Vec::new());
    for (i, Along { size, step, padding, .. }) in windows_of(call, 2)?.into_iter().enumerate() {
        let count = out[first + i].exact_div(&Dim::constant(size));
        let count = count.filter(|_| size == step && padding == 0 && call.ints("dilation").is_ok_and(|d| d == [1; 2]));
        places.push(count.ok_or("windows that overlap, or do not fill the planes")?);
        split.push(Dim::constant(size));
    }
    split.extend(places);
    let perm = (0..first).chain([first + 2, first, first + 3, first + 1]).collect();
    let planes = permuted(call, b.reshape(x, split)?, perm)?[0];
    Ok(vec![b.reshape(planes, out)?])
}
