//! Elements chosen by integer tensors.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::layout::{cut, expand_to};
use super::promote::{constant, convert, result_type};
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::infer;
use crate::prim::Prim;
use crate::scalar::ScalarFn;

/// Slices of `x` along `axis` by an index tensor of any rank, whose axes take the place of `axis`.
fn gather(call: &Call<'_>, x: Value, axis: usize, indices: Value) -> Result<Value, Refusal> {
    let (ty, chosen) = (call.b.ty(x), call.b.ty(indices).shape);
    let flat = call.b.reshape(indices, vec![product(&chosen)])?;
    let rows = call.b.prim(Prim::Gather { axis }, &[x, flat])?;
    let shape = ty.shape[..axis].iter().chain(&chosen).chain(&ty.shape[axis + 1..]).cloned();
    Ok(call.b.reshape(rows, shape.collect())?)
}

pub(super) fn embedding(call: &Call<'_>) -> Imported {
    Ok(vec![gather(call, call.tensor("weight")?, 0, call.tensor("indices")?)?])
}

pub(super) fn index_select(call: &Call<'_>) -> Imported {
    let (x, index) = (call.tensor("self")?, call.tensor("index")?);
    let axis = call.axis("dim", call.b.ty(x).rank())?;
    let flat = call.b.reshape(index, vec![product(&call.b.ty(index).shape)])?;
    Ok(vec![gather(call, x, axis, flat)?])
}

/// The extent of an axis as an i64 scalar.
fn extent(call: &Call<'_>, dim: &Dim) -> Result<Value, Refusal> {
    Ok(match dim.as_const() {
        Some(n) => call.b.int(DType::I64, n)?,
        None => call.b.prim(Prim::SizeOf(dim.clone()), &[])?,
    })
}

/// An index tensor as i64, negative indices counted from the end.
fn wrapped(call: &Call<'_>, index: Value, dim: &Dim) -> Result<Value, Refusal> {
    let b = call.b;
    if !b.dtype(index).is_int() {
        return Err("a boolean mask as index".into());
    }
    let index = convert(b, index, DType::I64)?;
    let negative = b.map(ScalarFn::Lt, &[index, constant(b, DType::I64, Scalar::Int(0))?])?;
    let from_end = b.add(index, extent(call, dim)?)?;
    Ok(b.map(ScalarFn::Select, &[negative, from_end, index])?)
}

/// Places along neighbouring axes that are merged into one.
pub(super) struct Places {
    /// The first of the axes.
    pub(super) first: usize,
    /// How many axes are merged.
    pub(super) axes: usize,
    /// Indices into the merged axis, of shape `common`.
    pub(super) flat: Value,
    /// The broadcast of the index tensors.
    pub(super) common: Vec<Dim>,
}

/// What integer tensors choose that index neighbouring axes of a tensor together.
pub(super) fn places(call: &Call<'_>, shape: &[Dim], indices: &[Option<Value>]) -> Result<Places, Refusal> {
    let b = call.b;
    let first = indices.iter().position(Option::is_some).ok_or("no index tensor")?;
    let given: Vec<Value> = indices[first..].iter().copied().flatten().collect();
    let apart = indices[first..].iter().take(given.len()).any(Option::is_none);
    if apart || first + given.len() > shape.len() {
        return Err("index tensors on axes that are apart".into());
    }
    let common = given.iter().map(|&i| b.ty(i).shape).collect::<Vec<_>>();
    let common = infer::broadcast(&common)?;
    let mut flat: Option<Value> = None;
    for (&index, dim) in given.iter().zip(&shape[first..]) {
        let index = wrapped(call, index, dim)?;
        flat = Some(match flat {
            Some(outer) => b.add(b.mul(outer, extent(call, dim)?)?, index)?,
            None => index,
        });
    }
    let flat = expand_to(call, flat.ok_or("no index tensor")?, &common)?;
    Ok(Places { first, axes: given.len(), flat, common })
}

/// Integer tensors that index neighbouring axes together: the axes are merged and indexed by one tensor.
pub(super) fn index(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let shape = b.ty(x).shape;
    let Places { first, axes, flat, .. } = places(call, &shape, &call.optional_tensors("indices")?)?;
    let (before, after) = (&shape[..first], &shape[first + axes..]);
    let merged = before.iter().cloned().chain([product(&shape[first..first + axes])]).chain(after.iter().cloned());
    Ok(vec![gather(call, b.reshape(x, merged.collect())?, first, flat)?])
}

/// First differences along an axis, after joining what is prepended and appended.
pub(super) fn diff(call: &Call<'_>) -> Imported {
    if call.int("n")? != 1 {
        return Err("higher differences".into());
    }
    let b = call.b;
    let x = call.tensor("self")?;
    let axis = call.axis("dim", b.ty(x).rank())?;
    let parts = [call.tensor_or_none("prepend")?, Some(x), call.tensor_or_none("append")?];
    let parts: Vec<Value> = parts.into_iter().flatten().collect();
    let dtype = result_type(call, &parts.iter().copied().map(Operand::Tensor).collect::<Vec<_>>())?;
    let parts: Vec<Value> = parts.iter().map(|&p| convert(b, p, dtype)).collect::<Result<_, _>>()?;
    let line = if parts.len() == 1 { parts[0] } else { b.cat(&parts, axis)? };
    let extent = b.ty(line).shape[axis].clone();
    let one = Dim::constant(1);
    let later = cut(call, line, axis, [one.clone(), extent.clone()], 1)?;
    let earlier = cut(call, line, axis, [Dim::constant(0), &extent - &one], 1)?;
    let f = if dtype == DType::Bool { ScalarFn::Xor } else { ScalarFn::Sub };
    Ok(vec![b.map(f, &[later, earlier])?])
}
