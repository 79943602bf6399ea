//! Copies of a tensor in which a part is replaced: what in-place writes become without their effect.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal, Scalar, wrap_axis};
use super::super::steps::{self, Step};
use super::combine::{Combine, combined};
use super::index::{Access, Places, few_of_rows, hits, neighbours, of_slices, places, single_places, wrapped};
use super::layout::{cut, expand_to, permuted, strided_steps};
use super::place::{place, slice_range};
use super::prefixes::counted;
use super::promote::{constant, convert, operand_as};
use super::reduce::over;
use crate::dim::{Dim, product};
use crate::graph::{Op, Value};
use crate::prim::{Prim, ReduceOp};
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
    Ok(vec![steps::write_back(call.b, x, &[Step::Op(step)], src)?])
}

pub(super) fn slice_scatter(call: &Call<'_>) -> Imported {
    let shape = call.b.ty(call.tensor("self")?).shape;
    let axis = call.axis("dim", shape.len())?;
    let src = call.b.ty(call.tensor("src")?).shape;
    let written = if src.len() == shape.len() { src.get(axis) } else { None };
    let [start, end] = slice_range(call, &shape[axis], written)?;
    replaced(call, Prim::Slice { axis, start, end, step: call.int("step")? })
}

pub(super) fn select_scatter(call: &Call<'_>) -> Imported {
    let shape = call.b.ty(call.tensor("self")?).shape;
    let axis = call.axis("dim", shape.len())?;
    let start = place(call, &call.dim("index")?, &shape[axis]);
    let end = &start + &Dim::constant(1);
    replaced(call, Prim::Slice { axis, start, end, step: 1 })
}

pub(super) fn as_strided_scatter(call: &Call<'_>) -> Imported {
    let (x, steps) = (call.tensor("self")?, strided_steps(call)?);
    let src = convert(call.b, call.tensor("src")?, call.b.dtype(x))?;
    Ok(vec![steps::write_back(call.b, x, &steps, src)?])
}

/// Elements at integer places, or where a mask is set; of equal places the last wins, unless values are added.
pub(super) fn index_put(call: &Call<'_>) -> Imported {
    let sum = call.bool("accumulate")?;
    let (b, x) = (call.b, call.tensor("self")?);
    let ty = b.ty(x);
    let values = convert(b, call.tensor("values")?, ty.dtype)?;
    let indices = call.optional_tensors("indices")?;
    let masks = indices.iter().flatten().filter(|&&i| b.dtype(i) == DType::Bool).count();
    if masks > 0 {
        return masked(call, x, &indices, (values, sum));
    }
    if let Some(perm) = neighbours(ty.rank(), &indices)? {
        let inverse: Vec<usize> =
            (0..perm.len()).filter_map(|axis| perm.iter().position(|&from| from == axis)).collect();
        let given: Vec<Option<Value>> = indices.into_iter().filter(Option::is_some).collect();
        let written = put(call, permuted(call, x, perm)?[0], &given, (values, sum))?;
        return permuted(call, written, inverse);
    }
    Ok(vec![put(call, x, &indices, (values, sum))?])
}

/// Elements at the places of integer tensors that index neighbouring axes, replaced by values or with these added.
fn put(call: &Call<'_>, x: Value, indices: &[Option<Value>], (values, sum): (Value, bool)) -> Result<Value, Refusal> {
    let (b, ty) = (call.b, call.b.ty(x));
    let Places { first, axes, flat, common } = places(call, &ty.shape, indices, Access::Write)?;
    let (before, after) = (&ty.shape[..first], &ty.shape[first + axes..]);
    let around = |middle: &[Dim]| before.iter().chain(middle).chain(after).cloned().collect::<Vec<Dim>>();
    let updates = expand_to(call, values, &around(&common))?;
    let updates = b.reshape(updates, around(&[product(&common)]))?;
    let merged = b.reshape(x, around(&[product(&ty.shape[first..first + axes])]))?;
    let flat = b.reshape(flat, vec![product(&common)])?;
    let written = if sum {
        combined(call, (merged, first), flat, updates, Combine::SUM)?
    } else {
        b.prim(Prim::Scatter { axis: first }, &[merged, flat, updates])?
    };
    Ok(b.reshape(written, ty.shape)?)
}

/// Values wherever a mask over neighbouring axes is set, the same at each of its places, or these added there.
fn masked(call: &Call<'_>, x: Value, indices: &[Option<Value>], (values, sum): (Value, bool)) -> Imported {
    let (b, ty) = (call.b, call.b.ty(x));
    let mut given = indices.iter().enumerate().filter_map(|(axis, index)| Some((axis, (*index)?)));
    let (Some((first, mask)), None) = (given.next(), given.next()) else {
        return Err(call.refused("indices", "a mask beside other indices"));
    };
    let mut shape = vec![Dim::constant(1); first];
    shape.extend(b.ty(mask).shape);
    let (axes, Some(behind)) = (shape.len() - first, ty.rank().checked_sub(shape.len())) else {
        return Err(call.refused("indices", "a mask of more axes than the tensor"));
    };
    shape.resize(ty.rank(), Dim::constant(1));
    let mut each = b.ty(values).shape;
    if product(&each).as_const() == Some(1) {
        each.clear();
    } else if let Some(places) = each.len().checked_sub(behind + 1) {
        if each[places].as_const() != Some(1) {
            return Err(call.refused("values", "one for each place where a mask is set"));
        }
        each.splice(places..=places, vec![Dim::constant(1); axes]);
    }
    let value = b.reshape(values, each)?;
    let value = if sum { b.add(x, value)? } else { value };
    let written = b.map(ScalarFn::Select, &[b.reshape(mask, shape)?, value, x])?;
    if b.ty(written) == ty {
        Ok(vec![written])
    } else {
        Err(call.refused("values", "they do not fit what is replaced"))
    }
}

/// The elements of `source`, one after the other, wherever a mask is set. A mask that is the same for all elements of a
/// row takes rows: each counts the rows before it that take one.
pub(super) fn masked_scatter(call: &Call<'_>) -> Imported {
    let (b, x, source) = (call.b, call.tensor("self")?, call.tensor("source")?);
    let (ty, mut mask) = (b.ty(x), call.tensor("mask")?);
    while let Some((Op::Prim(Prim::Expand { .. }), of)) = b.definition(mask) {
        mask = of[0];
    }
    let mut extents = b.ty(mask).shape;
    let Some(added) = ty.rank().checked_sub(extents.len()) else {
        return Err(call.refused("mask", "it has more axes than what it chooses from"));
    };
    extents.splice(0..0, vec![Dim::constant(1); added]);
    let alike = extents.iter().rev().take_while(|extent| extent.as_const() == Some(1)).count();
    let (before, row) = ty.shape.split_at(ty.rank() - alike);
    let (rows, lanes) = (product(before), product(row));
    if alike == 0 && ty.rank() > 1 && rows.as_const().is_none() {
        return Err(call.refused("mask", "of single elements, whose number is not known"));
    }
    let Some(stored) = b.ty(source).elements().exact_div(&lanes) else {
        return Err(call.refused("source", "no whole rows of what they replace"));
    };
    extents.truncate(before.len());
    let mask = b.reshape(expand_to(call, b.reshape(mask, extents)?, before)?, vec![rows.clone()])?;
    let taken = counted(call, convert(b, mask, DType::I64)?)?;
    let one = b.int(DType::I64, 1)?;
    let place = b.map(ScalarFn::Max, &[b.sub(taken, one)?, b.int(DType::I64, 0)?])?;
    let source = b.reshape(source, vec![stored, lanes.clone()])?;
    let given = b.prim(Prim::Gather { axis: 0 }, &[source, place])?;
    let old = b.reshape(x, vec![rows.clone(), lanes])?;
    let written = b.map(ScalarFn::Select, &[b.reshape(mask, vec![rows, Dim::constant(1)])?, given, old])?;
    Ok(vec![b.reshape(written, ty.shape)?])
}

/// Slices along an axis at the places of an index tensor.
pub(super) fn index_copy(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let axis = wrap_axis(call.int("dim")?, b.ty(x).rank())?;
    let index = call.tensor("index")?;
    let flat = b.reshape(index, vec![b.ty(index).elements()])?;
    Ok(vec![b.prim(Prim::Scatter { axis }, &[x, flat, call.tensor("source")?])?])
}

/// Single elements replaced along an axis: at each place of the index by the element of `src` there.
fn scattered(call: &Call<'_>, src: impl FnOnce(&[Dim]) -> Result<Value, Refusal>) -> Imported {
    let (b, x, index) = (call.b, call.tensor("self")?, call.tensor("index")?);
    let (ty, chosen) = (b.ty(x), b.ty(index).shape);
    if ty.rank() == 0 {
        return Err("a tensor without axes".into());
    }
    let axis = call.axis("dim", ty.rank())?;
    if let Some(places) = of_slices(call, &ty.shape, axis, index) {
        let at = wrapped(call, places, &ty.shape[axis])?;
        return Ok(vec![b.prim(Prim::Scatter { axis }, &[x, at, convert(b, src(&chosen)?, ty.dtype)?])?]);
    }
    let at = single_places(call, &ty.shape, axis, index, Access::Write)?;
    let updates = b.reshape(convert(b, src(&chosen)?, ty.dtype)?, vec![product(&chosen)])?;
    let line = b.reshape(x, vec![ty.elements()])?;
    let scattered = b.prim(Prim::Scatter { axis: 0 }, &[line, at, updates])?;
    Ok(vec![b.reshape(scattered, ty.shape)?])
}

/// Of equal places one wins; which one does is not specified.
pub(super) fn scatter_src(call: &Call<'_>) -> Imported {
    let (b, x, index) = (call.b, call.tensor("self")?, call.tensor("index")?);
    let (ty, chosen) = (b.ty(x), b.ty(index).shape);
    if ty.rank() > 0 && ty.dtype != DType::Bool {
        let axis = call.axis("dim", ty.rank())?;
        if few_of_rows(call, x, axis, index) {
            let mut few = chosen.clone();
            few.insert(axis, Dim::constant(1));
            let src = b.reshape(convert(b, corner(call, call.tensor("src")?, &chosen)?, ty.dtype)?, few)?;
            let here = hits(call, &ty.shape[axis], index, [axis, axis + 1])?;
            let least = b.prim(Prim::Literal(ReduceOp::Max.start(ty.dtype)), &[])?;
            let alone = b.map(ScalarFn::Select, &[here, src, least])?;
            let largest =
                |v| Ok::<_, Refusal>(b.reshape(over(call, ReduceOp::Max, v, &[axis + 1])?, ty.shape.clone())?);
            return Ok(vec![b.map(ScalarFn::Select, &[largest(here)?, largest(alone)?, x])?]);
        }
    }
    scattered(call, |shape| corner(call, call.tensor("src")?, shape))
}

pub(super) fn scatter_value(call: &Call<'_>) -> Imported {
    let (b, x, index) = (call.b, call.tensor("self")?, call.tensor("index")?);
    let (dtype, shape) = (b.dtype(x), b.ty(x).shape);
    if !shape.is_empty() {
        let axis = call.axis("dim", shape.len())?;
        if few_of_rows(call, x, axis, index) {
            let here = hits(call, &shape[axis], index, [axis, axis + 1])?;
            let any = b.reshape(over(call, ReduceOp::Max, here, &[axis + 1])?, shape)?;
            return Ok(vec![b.map(ScalarFn::Select, &[any, constant(b, dtype, call.scalar("value")?)?, x])?]);
        }
    }
    scattered(call, |shape| expand_to(call, constant(call.b, dtype, call.scalar("value")?)?, shape))
}

/// The first elements along every axis.
pub(super) fn corner(call: &Call<'_>, x: Value, shape: &[Dim]) -> Result<Value, Refusal> {
    if call.b.ty(x).rank() != shape.len() {
        return Err("a source of another rank".into());
    }
    let first = |x, (axis, extent): (usize, &Dim)| cut(call, x, axis, [Dim::constant(0), extent.clone()], 1);
    shape.iter().enumerate().try_fold(x, first)
}

/// One value at the places of an index along an axis.
pub(super) fn index_fill(call: &Call<'_>) -> Imported {
    let (b, x, index) = (call.b, call.tensor("self")?, call.tensor("index")?);
    let ty = b.ty(x);
    let axis = call.axis("dim", ty.rank())?;
    let fill = operand_as(b, call.operand("value")?, ty.dtype)?;
    let index = b.reshape(index, vec![b.ty(index).elements()])?;
    let mut shape = ty.shape.clone();
    shape[axis] = b.ty(index).elements();
    let scattered = b.prim(Prim::Scatter { axis }, &[x, index, expand_to(call, fill, &shape)?])?;
    Ok(vec![scattered])
}
