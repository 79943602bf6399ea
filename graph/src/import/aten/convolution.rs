//! Convolutions: windows of every axis behind the channels, as one product of matrices per group of channels; where
//! every channel has its own filter, as products and sums.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal, Scalar};
use super::arrange::{padded_by, windows};
use super::layout::{expand_to, permuted};
use super::promote::{convert, is_reduced};
use super::reduce::over;
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::prim::{Prim, ReduceOp};

/// How a convolution runs over its axes: one number per axis.
struct Steps {
    stride: Vec<i64>,
    padding: Vec<[i64; 2]>,
    dilation: Vec<i64>,
}

/// One number per axis; a lone number is for all.
pub(super) fn per_axis(call: &Call<'_>, name: &str, axes: usize) -> Result<Vec<i64>, Refusal> {
    let given = call.ints(name)?;
    match given.as_slice() {
        [one] => Ok(vec![*one; axes]),
        all if all.len() == axes => Ok(given),
        _ => Err(format!("the argument `{name}` is not one number per axis").into()),
    }
}

fn steps(call: &Call<'_>, kernel: &[i64]) -> Result<Steps, Refusal> {
    let axes = kernel.len();
    let (stride, dilation) = (per_axis(call, "stride", axes)?, per_axis(call, "dilation", axes)?);
    let padding = match call.word("padding") {
        Ok("valid") => vec![[0, 0]; axes],
        Ok("same") => {
            let missing = kernel.iter().zip(&dilation).map(|(k, d)| (k - 1) * d);
            missing.map(|all| [all / 2, all - all / 2]).collect()
        }
        _ => per_axis(call, "padding", axes)?.into_iter().map(|p| [p, p]).collect(),
    };
    Ok(Steps { stride, padding, dilation })
}

pub(super) fn convolution(call: &Call<'_>) -> Imported {
    if call.row.parameter("transposed").is_some() && call.bool("transposed")? {
        return Err("a transposed convolution".into());
    }
    let (b, weight) = (call.b, call.tensor("weight")?);
    let (x, filter) = (call.tensor("input")?, b.ty(weight));
    let ty = b.ty(x);
    if ty.rank() != filter.rank() || ty.rank() < 3 || !ty.dtype.is_float() {
        return Err("an input without a batch axis, or of integers".into());
    }
    let axes = ty.rank() - 2;
    let known: Option<Vec<i64>> = filter.shape.iter().map(Dim::as_const).collect();
    let known = known.ok_or("a filter of unknown extents")?;
    let steps = steps(call, &known[2..])?;
    let work = if is_reduced(ty.dtype) { DType::F32 } else { ty.dtype };
    // [batch, channels, out…, kernel…]
    let mut taken = x;
    for (i, &size) in known[2..].iter().enumerate() {
        taken = padded_by(call, taken, 2 + i, steps.padding[i], Scalar::Int(0))?;
        taken = windows(call, taken, 2 + i, [size, steps.stride[i], steps.dilation[i]])?;
    }
    let groups = call.int("groups")?;
    let depthwise = known[1] == 1 && groups == known[0] && ty.shape[1].as_const() == Some(groups);
    let mut y = if depthwise {
        own_filters(call, taken, weight, axes, work)?
    } else {
        grouped(call, taken, weight, groups, axes, work)?
    };
    if let Some(bias) = call.tensor_or_none("bias")? {
        let mut shape = vec![Dim::constant(1); axes + 1];
        shape[0] = filter.shape[0].clone();
        y = b.add(y, convert(b, b.reshape(bias, shape)?, work)?)?;
    }
    Ok(vec![convert(b, y, ty.dtype)?])
}

/// Every channel under its own filter.
fn own_filters(call: &Call<'_>, taken: Value, weight: Value, axes: usize, work: DType) -> Result<Value, Refusal> {
    let b = call.b;
    let filter = b.ty(weight).shape;
    let mut shape = vec![filter[0].clone()];
    shape.extend(vec![Dim::constant(1); axes]);
    shape.extend(filter[2..].iter().cloned());
    let terms = b.mul(convert(b, taken, work)?, convert(b, b.reshape(weight, shape)?, work)?)?;
    let inner: Vec<usize> = (axes + 2..2 * axes + 2).collect();
    let sums = over(call, ReduceOp::Add, terms, &inner)?;
    let shape = b.ty(sums).shape[..axes + 2].to_vec();
    Ok(b.reshape(sums, shape)?)
}

/// Groups of channels, each with its part of the filters.
fn grouped(
    call: &Call<'_>,
    taken: Value,
    weight: Value,
    groups: i64,
    axes: usize,
    work: DType,
) -> Result<Value, Refusal> {
    let b = call.b;
    let (shape, filter) = (b.ty(taken).shape, b.ty(weight).shape);
    let (channels, filters) = (shape[1].as_const(), filter[0].as_const());
    let (Some(channels), Some(filters)) = (channels, filters) else { return Err("channels of unknown number".into()) };
    if groups < 1 || channels % groups != 0 || filters % groups != 0 {
        return Err(format!("{groups} groups of {channels} channels and {filters} filters").into());
    }
    let (places, kernel) = (shape[2..axes + 2].to_vec(), shape[axes + 2..].to_vec());
    let group = Dim::constant(groups);
    let line = &Dim::constant(channels / groups) * &product(&kernel);
    // [batch, group, channel, out…, kernel…] → [batch, group, out, channel · kernel]
    let mut split = vec![shape[0].clone(), group.clone(), Dim::constant(channels / groups)];
    split.extend(shape[2..].iter().cloned());
    let mut perm = vec![0, 1];
    perm.extend(3..axes + 3);
    perm.push(2);
    perm.extend(axes + 3..2 * axes + 3);
    let rows = permuted(call, b.reshape(taken, split)?, perm)?[0];
    let rows = b.reshape(rows, vec![shape[0].clone(), group.clone(), product(&places), line.clone()])?;
    let each = Dim::constant(filters / groups);
    let matrix = b.reshape(weight, vec![group.clone(), each.clone(), line.clone()])?;
    let matrix = expand_to(call, matrix, &[shape[0].clone(), group, each, line])?;
    let y = b.prim(Prim::MatMul { transpose_b: true, out: work }, &[rows, matrix])?;
    let y = permuted(call, y, vec![0, 1, 3, 2])?[0];
    let out = [shape[0].clone(), filter[0].clone()].into_iter().chain(places);
    Ok(b.reshape(y, out.collect())?)
}
