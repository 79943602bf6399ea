//! Images of more or fewer places: channels laid out as places and back, and repeated places.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal, Scalar};
use super::index::indexed;
use super::layout::{expand_to, iota, permuted};
use super::promote::{constant, convert};
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::scalar::ScalarFn;

/// The last three axes of a tensor and those before them.
fn image(call: &Call<'_>, x: Value) -> Result<(Vec<Dim>, [Dim; 3]), Refusal> {
    let mut shape = call.b.ty(x).shape;
    let at = shape.len().checked_sub(3).ok_or("fewer than three axes")?;
    let last: [Dim; 3] = shape.split_off(at).try_into().map_err(|_| "fewer than three axes")?;
    Ok((shape, last))
}

/// A tensor in other axes, permuted behind the leading ones and in the shape of the result.
fn laid_out(call: &Call<'_>, x: Value, lead: Vec<Dim>, inner: Vec<Dim>, order: &[usize]) -> Imported {
    let n = lead.len();
    let perm = (0..n).chain(order.iter().map(|axis| n + axis)).collect();
    let split = call.b.reshape(x, lead.into_iter().chain(inner).collect())?;
    let moved = permuted(call, split, perm)?[0];
    Ok(vec![call.b.reshape(moved, call.out()?.shape.clone())?])
}

/// The extents of the parts of an axis that is split by a factor.
fn parts(whole: &Dim, factor: i64) -> Result<[Dim; 2], Refusal> {
    let factor = Dim::constant(factor);
    let rest = whole.exact_div(&factor).ok_or_else(|| format!("parts of {factor} of an axis of {whole}"))?;
    Ok([rest, factor])
}

/// A positive factor among the arguments.
fn factor(call: &Call<'_>, name: &str) -> Result<i64, Refusal> {
    match call.int(name)? {
        n @ 1.. => Ok(n),
        n => Err(format!("a factor of {n}").into()),
    }
}

/// Channels in groups of `r · r` as `r` rows by `r` columns of each place.
pub(super) fn pixel_shuffle(call: &Call<'_>) -> Imported {
    let (x, r) = (call.tensor("self")?, factor(call, "upscale_factor")?);
    let (lead, [channels, rows, columns]) = image(call, x)?;
    let [outer, _] = parts(&channels, r.checked_mul(r).ok_or("a factor too large")?)?;
    let r = Dim::constant(r);
    laid_out(call, x, lead, vec![outer, r.clone(), r, rows, columns], &[0, 3, 1, 4, 2])
}

/// Squares of `r` by `r` places as channels.
pub(super) fn pixel_unshuffle(call: &Call<'_>) -> Imported {
    let (x, r) = (call.tensor("self")?, factor(call, "downscale_factor")?);
    let (lead, [channels, rows, columns]) = image(call, x)?;
    let ([rows, r0], [columns, r1]) = (parts(&rows, r)?, parts(&columns, r)?);
    laid_out(call, x, lead, vec![channels, rows, r0, columns, r1], &[0, 2, 4, 1, 3])
}

/// Channels of groups side by side: the first of every group, then the second of every group.
pub(super) fn channel_shuffle(call: &Call<'_>) -> Imported {
    let (x, groups) = (call.tensor("self")?, factor(call, "groups")?);
    let mut shape = call.b.ty(x).shape;
    if shape.len() < 3 {
        return Err("fewer than three axes".into());
    }
    let [inner, outer] = parts(&shape.remove(1), groups)?;
    let lead = vec![shape.remove(0)];
    laid_out(call, x, lead, vec![outer, inner, product(&shape)], &[1, 0, 2])
}

/// An axis with every place several times.
fn repeated(call: &Call<'_>, x: Value, axis: usize, times: i64) -> Result<Value, Refusal> {
    let (mut narrow, mut wide, mut merged) = (call.b.ty(x).shape, call.b.ty(x).shape, call.b.ty(x).shape);
    narrow.insert(axis + 1, Dim::constant(1));
    wide.insert(axis + 1, Dim::constant(times));
    merged[axis] = &merged[axis] * &Dim::constant(times);
    let spread = expand_to(call, call.b.reshape(x, narrow)?, &wide)?;
    Ok(call.b.reshape(spread, merged)?)
}

/// The places of an axis of known extent that `to` places come from: `⌊(i + shift) · scale⌋`, in f32 as in the framework.
fn nearest(call: &Call<'_>, from: &Dim, to: &Dim, [shift, scale]: [f32; 2]) -> Result<Value, Refusal> {
    let b = call.b;
    let float = |v: f32| constant(b, DType::F32, Scalar::Float(v.into()));
    let mut at = convert(b, iota(call, to, 0, 1)?, DType::F32)?;
    if shift != 0.0 {
        at = b.add(at, float(shift)?)?;
    }
    let at = convert(b, b.mul(at, float(scale)?)?, DType::I64)?;
    let last = from.as_const().ok_or("places between those of an axis of unknown extent")? - 1;
    Ok(b.map(ScalarFn::Min, &[at, b.int(DType::I64, last)?])?)
}

/// The axes behind the second one with the extents of the result, by the nearest place.
fn upsample(call: &Call<'_>, shift: f32) -> Imported {
    let mut x = call.tensor("input")?;
    let (from, to) = (call.b.ty(x).shape, call.out()?.shape.clone());
    let factors = call.floats_or_none("scale_factors")?;
    let mut places: Vec<Option<Value>> = vec![None; from.len()];
    for axis in 2..from.len().min(to.len()) {
        let (before, after) = (&from[axis], &to[axis]);
        let given = factors.as_ref().and_then(|f| f.get(axis - 2)).copied().filter(|&f| f > 0.0);
        let times = after.exact_div(before).and_then(|times| times.as_const());
        if let Some(times) = times.filter(|&times| given.is_none_or(|f| f == times as f64)) {
            x = if times == 1 { x } else { repeated(call, x, axis, times)? };
            continue;
        }
        let scale = match (given, before.as_const(), after.as_const()) {
            (Some(factor), ..) => (1.0 / factor) as f32,
            (None, Some(before), Some(after)) if after > 0 => before as f32 / after as f32,
            _ => return Err("a scale that depends on a size".into()),
        };
        let mut along = vec![Dim::constant(1); from.len() - axis];
        along[0] = after.clone();
        places[axis] = Some(call.b.reshape(nearest(call, before, after, [shift, scale])?, along)?);
    }
    let Some(last) = places.iter().rposition(Option::is_some) else { return Ok(vec![x]) };
    let first = places.iter().position(Option::is_some).unwrap_or(last);
    places.truncate(last + 1);
    for axis in first..last {
        if places[axis].is_none() {
            places[axis] = Some(iota(call, &to[axis], 0, from.len() - axis)?);
        }
    }
    // All have the axes behind the last one that is indexed, which goes on as it is.
    for place in places.iter_mut().flatten() {
        let mut shape = call.b.ty(*place).shape;
        shape.truncate(shape.len() - (from.len() - 1 - last));
        *place = call.b.reshape(*place, shape)?;
    }
    indexed(call, x, places)
}

pub(super) fn upsample_nearest(call: &Call<'_>) -> Imported {
    upsample(call, 0.0)
}

/// The same, of the middle of each place.
pub(super) fn upsample_nearest_exact(call: &Call<'_>) -> Imported {
    upsample(call, 0.5)
}
