//! Copies of a tensor in which a part is replaced: what in-place writes become without their effect.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Scalar, wrap_axis};
use super::super::steps;
use super::index::{Places, places};
use super::layout::{expand_to, picked, slice_range};
use super::promote::{constant, convert};
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::prim::Prim;
use crate::scalar::ScalarFn;

/// A value in the dtype and shape of `self`.
fn like_self(call: &Call<'_>, value: Value) -> Imported {
    let ty = call.b.ty(call.tensor("self")?);
    Ok(vec![expand_to(call, convert(call.b, value, ty.dtype)?, &ty.shape)?])
}

pub(super) fn copy(call: &Call<'_>) -> Imported {
    like_self(call, call.tensor("src")?)
}

pub(super) fn zero(call: &Call<'_>) -> Imported {
    let dtype = call.b.dtype(call.tensor("self")?);
    like_self(call, constant(call.b, dtype, Scalar::Int(0))?)
}

pub(super) fn fill_scalar(call: &Call<'_>) -> Imported {
    let dtype = call.b.dtype(call.tensor("self")?);
    like_self(call, constant(call.b, dtype, call.scalar("value")?)?)
}

pub(super) fn fill_tensor(call: &Call<'_>) -> Imported {
    like_self(call, call.tensor("value")?)
}

/// `self` with what `step` takes out of it replaced by `src`.
fn replaced(call: &Call<'_>, step: Prim) -> Imported {
    let x = call.tensor("self")?;
    let part = crate::infer::infer(&step, &[&call.b.ty(x)])?;
    let src = convert(call.b, call.tensor("src")?, part[0].dtype)?;
    let src = if call.b.ty(src).rank() < part[0].rank() { call.b.reshape(src, part[0].shape.clone())? } else { src };
    let src = expand_to(call, src, &part[0].shape)?;
    Ok(vec![steps::write_back(call.b, x, &[step], src)?])
}

pub(super) fn slice_scatter(call: &Call<'_>) -> Imported {
    let shape = call.b.ty(call.tensor("self")?).shape;
    let axis = call.axis("dim", shape.len())?;
    let [start, end] = slice_range(call, &shape[axis])?;
    replaced(call, Prim::Slice { axis, start, end, step: call.int("step")? })
}

pub(super) fn select_scatter(call: &Call<'_>) -> Imported {
    let shape = call.b.ty(call.tensor("self")?).shape;
    let axis = call.axis("dim", shape.len())?;
    let start = picked(call, &shape[axis])?;
    let end = &start + &Dim::constant(1);
    replaced(call, Prim::Slice { axis, start, end, step: 1 })
}

/// Elements at integer places, or where a mask is set; of equal places the last wins.
pub(super) fn index_put(call: &Call<'_>) -> Imported {
    if call.bool("accumulate")? {
        return Err("a sum into a tensor".into());
    }
    let (b, x) = (call.b, call.tensor("self")?);
    let ty = b.ty(x);
    let values = convert(b, call.tensor("values")?, ty.dtype)?;
    let indices = call.optional_tensors("indices")?;
    let masks = indices.iter().flatten().filter(|&&i| b.dtype(i) == DType::Bool).count();
    if masks > 0 {
        return masked(call, x, &indices, values);
    }
    let Places { first, flat, common, axes } = places(call, &ty.shape, &indices)?;
    let (before, after) = (&ty.shape[..first], &ty.shape[first + axes..]);
    let around = |middle: &[Dim]| before.iter().chain(middle).chain(after).cloned().collect::<Vec<Dim>>();
    let updates = expand_to(call, values, &around(&common))?;
    let updates = b.reshape(updates, around(&[product(&common)]))?;
    let merged = b.reshape(x, around(&[product(&ty.shape[first..first + axes])]))?;
    let flat = b.reshape(flat, vec![product(&common)])?;
    let scattered = b.prim(Prim::Scatter { axis: first }, &[merged, flat, updates])?;
    Ok(vec![b.reshape(scattered, ty.shape)?])
}

/// One value wherever a mask over the leading axes is set.
fn masked(call: &Call<'_>, x: Value, indices: &[Option<Value>], values: Value) -> Imported {
    let (b, ty) = (call.b, call.b.ty(x));
    let &[Some(mask)] = indices else { return Err("a mask beside other indices".into()) };
    if b.ty(values).elements().as_const() != Some(1) {
        return Err("several values where a mask is set".into());
    }
    let mut shape = b.ty(mask).shape;
    if shape.len() > ty.rank() {
        return Err("a mask of more axes than the tensor".into());
    }
    shape.resize(ty.rank(), Dim::constant(1));
    let (mask, value) = (b.reshape(mask, shape)?, b.reshape(values, Vec::new())?);
    Ok(vec![b.map(ScalarFn::Select, &[mask, value, x])?])
}

/// Slices along an axis at the places of an index tensor.
pub(super) fn index_copy(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let axis = wrap_axis(call.int("dim")?, b.ty(x).rank())?;
    let index = call.tensor("index")?;
    let flat = b.reshape(index, vec![b.ty(index).elements()])?;
    Ok(vec![b.prim(Prim::Scatter { axis }, &[x, flat, call.tensor("source")?])?])
}
