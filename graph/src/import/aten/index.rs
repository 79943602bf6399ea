//! Elements chosen by integer tensors.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::layout::{cut, expand_to, iota, permuted};
use super::promote::{constant, convert, result_type};
use super::reduce::over;
use crate::dim::{Dim, product};
use crate::graph::{Op, Value};
use crate::prim::{Prim, ReduceOp};
use crate::scalar::ScalarFn;

/// How many elements of a row are a few: each is searched among all of the row.
const FEW: i64 = 64;
/// The same where the places are not computed: a search costs no more than to store the row and to read from it.
const FEW_GIVEN: i64 = 4;

/// Slices of `x` along `axis` by an index tensor of any rank, whose axes take the place of `axis`.
pub(super) fn gather(call: &Call<'_>, x: Value, axis: usize, indices: Value) -> Result<Value, Refusal> {
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
pub(super) fn extent(call: &Call<'_>, dim: &Dim) -> Result<Value, Refusal> {
    Ok(match dim.as_const() {
        Some(n) => call.b.int(DType::I64, n)?,
        None => call.b.prim(Prim::SizeOf(dim.clone()), &[])?,
    })
}

/// An index tensor as i64, negative indices counted from the end.
pub(super) fn wrapped(call: &Call<'_>, index: Value, dim: &Dim) -> Result<Value, Refusal> {
    let b = call.b;
    if !b.dtype(index).is_int() {
        return Err("a boolean mask as index".into());
    }
    let index = convert(b, index, DType::I64)?;
    let negative = b.map(ScalarFn::Lt, &[index, constant(b, DType::I64, Scalar::Int(0))?])?;
    let from_end = b.add(index, extent(call, dim)?)?;
    Ok(b.map(ScalarFn::Select, &[negative, from_end, index])?)
}

/// An index tensor that reads, as i64: negative ones counted from the end, and the nearest place for one outside the axis.
fn nearest(call: &Call<'_>, index: Value, dim: &Dim) -> Result<Value, Refusal> {
    let b = call.b;
    let [zero, one] = [0, 1].map(|n| constant(b, DType::I64, Scalar::Int(n)));
    let last = b.sub(extent(call, dim)?, one?)?;
    let above = b.map(ScalarFn::Max, &[wrapped(call, index, dim)?, zero?])?;
    Ok(b.map(ScalarFn::Min, &[above, last])?)
}

/// Places in a merged axis, negative where an index is outside its own axis, since that is no place of another row.
fn inside(call: &Call<'_>, flat: Value, each: &[(Value, &Dim)]) -> Result<Value, Refusal> {
    let b = call.b;
    let mut inside: Option<Value> = None;
    for &(index, dim) in each {
        let behind = b.map(ScalarFn::Ge, &[index, constant(b, DType::I64, Scalar::Int(0))?])?;
        let before = b.map(ScalarFn::Lt, &[index, extent(call, dim)?])?;
        for bound in [behind, before] {
            inside = Some(inside.map_or(Ok(bound), |all| b.map(ScalarFn::And, &[all, bound]))?);
        }
    }
    let inside = inside.ok_or("no index tensor")?;
    Ok(b.map(ScalarFn::Select, &[inside, flat, constant(b, DType::I64, Scalar::Int(-1))?])?)
}

/// An access decides what an index outside its axis does: a read takes the nearest place, a write none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
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

/// Gives the places that integer tensors choose which index neighbouring axes of a tensor together. Along one axis the op
/// itself knows what an index outside does.
pub(super) fn places(
    call: &Call<'_>,
    shape: &[Dim],
    indices: &[Option<Value>],
    access: Access,
) -> Result<Places, Refusal> {
    let b = call.b;
    let first = indices.iter().position(Option::is_some).ok_or("no index tensor")?;
    let given: Vec<Value> = indices[first..].iter().copied().flatten().collect();
    let apart = indices[first..].iter().take(given.len()).any(Option::is_none);
    if apart || first + given.len() > shape.len() {
        return Err("index tensors on axes that are apart".into());
    }
    let (mut flat, mut each) = (None, Vec::with_capacity(given.len()));
    for (&index, dim) in given.iter().zip(&shape[first..]) {
        let merged = given.len() > 1;
        let index =
            if merged && access == Access::Read { nearest(call, index, dim)? } else { wrapped(call, index, dim)? };
        each.push((index, dim));
        flat = Some(match flat {
            Some(outer) => b.add(b.mul(outer, extent(call, dim)?)?, index)?,
            None => index,
        });
    }
    let mut flat = flat.ok_or("no index tensor")?;
    if given.len() > 1 && access == Access::Write {
        flat = inside(call, flat, &each)?;
    }
    let common = b.ty(flat).shape;
    Ok(Places { first, axes: given.len(), flat, common })
}

/// The order of axes in which indexed ones are neighbours: where they are apart they come first, and so do the axes of
/// the result that they stand for. `None` if they are neighbours as they are.
pub(super) fn neighbours(rank: usize, indices: &[Option<Value>]) -> Result<Option<Vec<usize>>, Refusal> {
    if indices.len() > rank {
        return Err("more index tensors than axes".into());
    }
    let given: Vec<usize> = (0..indices.len()).filter(|&i| indices[i].is_some()).collect();
    if given.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
        return Ok(None);
    }
    let others = (0..rank).filter(|axis| !given.contains(axis));
    Ok(Some(given.iter().copied().chain(others).collect()))
}

/// Integer tensors that index neighbouring axes together: the axes are merged and indexed by one tensor.
pub(super) fn index(call: &Call<'_>) -> Imported {
    indexed(call, call.tensor("self")?, call.optional_tensors("indices")?)
}

/// Elements at the places that integer tensors name together.
pub(super) fn indexed(call: &Call<'_>, x: Value, mut indices: Vec<Option<Value>>) -> Imported {
    let b = call.b;
    let x = match neighbours(b.ty(x).rank(), &indices)? {
        Some(perm) => {
            indices.retain(Option::is_some);
            permuted(call, x, perm)?[0]
        }
        None => x,
    };
    let shape = b.ty(x).shape;
    let Places { first, axes, flat, .. } = places(call, &shape, &indices, Access::Read)?;
    let (before, after) = (&shape[..first], &shape[first + axes..]);
    let merged = before.iter().cloned().chain([product(&shape[first..first + axes])]).chain(after.iter().cloned());
    Ok(vec![gather(call, b.reshape(x, merged.collect())?, first, flat)?])
}

/// Places of single elements of a tensor in row-major order: along `axis` as an index tensor says, along the other axes
/// where the index stands. The result is a line.
pub(super) fn single_places(
    call: &Call<'_>,
    shape: &[Dim],
    axis: usize,
    index: Value,
    access: Access,
) -> Result<Value, Refusal> {
    let b = call.b;
    let chosen = b.ty(index).shape;
    if chosen.len() != shape.len() {
        return Err("an index of another rank".into());
    }
    let merged = shape.len() > 1;
    let along = match access {
        Access::Read if merged => nearest(call, index, &shape[axis])?,
        _ => wrapped(call, index, &shape[axis])?,
    };
    let mut at: Option<Value> = None;
    for (i, dim) in shape.iter().enumerate() {
        let here = if i == axis { along } else { iota(call, &chosen[i], i, chosen.len())? };
        at = Some(match at {
            Some(outer) => b.add(b.mul(outer, extent(call, dim)?)?, here)?,
            None => here,
        });
    }
    let mut at = at.ok_or("a tensor without axes")?;
    if merged && access == Access::Write {
        at = inside(call, at, &[(along, &shape[axis])])?;
    }
    let at = expand_to(call, at, &chosen)?;
    Ok(b.reshape(at, vec![product(&chosen)])?)
}

/// The elements of a line or tensor at single places.
fn taken(call: &Call<'_>, x: Value, places: Value, shape: Vec<Dim>) -> Imported {
    let line = call.b.reshape(x, vec![call.b.ty(x).elements()])?;
    let found = call.b.prim(Prim::Gather { axis: 0 }, &[line, places])?;
    Ok(vec![call.b.reshape(found, shape)?])
}

pub(super) fn gather_elements(call: &Call<'_>) -> Imported {
    let (x, index) = (call.tensor("self")?, call.tensor("index")?);
    let rank = call.b.ty(x).rank();
    if rank == 0 {
        return Ok(vec![expand_to(call, x, &call.b.ty(index).shape)?]);
    }
    along(call, x, call.axis("dim", rank)?, index)
}

/// Elements along an axis by an index for each.
pub(super) fn along(call: &Call<'_>, x: Value, axis: usize, index: Value) -> Imported {
    let (shape, chosen) = (call.b.ty(x).shape, call.b.ty(index).shape);
    if let Some(rows) = of_slices(call, &shape, axis, index) {
        return Ok(vec![gather(call, x, axis, wrapped(call, rows, &shape[axis])?)?]);
    }
    if axis + 1 < shape.len() && shape.len() == chosen.len() && is_computed(call, x) {
        let mut perm: Vec<usize> = (0..shape.len()).collect();
        perm.swap(axis, shape.len() - 1);
        let [lines, places] = [permuted(call, x, perm.clone())?[0], permuted(call, index, perm.clone())?[0]];
        if few_of_rows(call, lines, shape.len() - 1, places) {
            return permuted(call, few_taken(call, lines, places)?[0], perm);
        }
    }
    if few_of_rows(call, x, axis, index) {
        return few_taken(call, x, index);
    }
    taken(call, x, single_places(call, &shape, axis, index, Access::Read)?, chosen)
}

/// The places along an axis that an index of single elements chooses everywhere, if it repeats a line of them along all
/// other axes, which it has in full.
pub(super) fn of_slices(call: &Call<'_>, shape: &[Dim], axis: usize, index: Value) -> Option<Value> {
    let chosen = call.b.ty(index).shape;
    let others = |shape: &[Dim]| [&shape[..axis], &shape[axis + 1..]].concat();
    if chosen.len() != shape.len() || shape.len() < 2 || others(&chosen) != others(shape) {
        return None;
    }
    let repeated = match call.b.definition(index)? {
        (Op::Prim(Prim::Expand { .. }), of) => line(call, of[0], chosen.len(), axis),
        _ => None,
    };
    repeated
        .or_else(|| counted(call, index, axis, FUEL))
        .filter(|&line| call.b.ty(line).shape == [chosen[axis].clone()])
}

/// The elements along an axis of a value that has no others, if broadcasting made it one of so many axes.
fn line(call: &Call<'_>, value: Value, rank: usize, axis: usize) -> Option<Value> {
    let shape = call.b.ty(value).shape;
    let missing = rank.checked_sub(shape.len())?;
    let alone = shape.iter().enumerate().all(|(i, d)| i + missing == axis || d.as_const() == Some(1));
    let extent = axis.checked_sub(missing).map_or(Dim::constant(1), |at| shape[at].clone());
    alone.then(|| call.b.reshape(value, vec![extent]).ok()).flatten()
}

/// Most functions of counters that are looked through.
const FUEL: usize = 16;

/// As `line`, of functions of counters and numbers, which are the same in every row wherever they were repeated: places
/// that were brought into range, say.
fn counted(call: &Call<'_>, value: Value, axis: usize, fuel: usize) -> Option<Value> {
    let b = call.b;
    let (shape, fuel) = (b.ty(value).shape, fuel.checked_sub(1)?);
    let (Op::Prim(prim), operands) = b.definition(value)? else { return None };
    match prim {
        Prim::Iota { dtype, shape, axis: along } if along == axis => {
            b.prim(Prim::Iota { dtype, shape: vec![shape[axis].clone()], axis: 0 }, &[]).ok()
        }
        Prim::Literal(_) | Prim::SizeOf(_) => Some(value),
        Prim::Expand { .. } | Prim::Reshape { .. } => {
            let from = b.ty(operands[0]).shape;
            if from.is_empty() {
                return counted(call, operands[0], 0, fuel);
            }
            let behind = |shape: &[Dim], axis: usize| product(&shape[axis + 1..]);
            // A reshape may divide and join what is repeated.
            let kept = (0..from.len()).find(|&i| match &prim {
                Prim::Expand { .. } => i + shape.len() == axis + from.len(),
                _ => from[i] == shape[axis] && behind(&from, i) == behind(&shape, axis),
            })?;
            counted(call, operands[0], kept, fuel)
        }
        Prim::Map(_) | Prim::Cast { .. } => {
            let of = |&operand: &Value| match b.ty(operand).shape.len() {
                0 => counted(call, operand, 0, fuel),
                own => counted(call, operand, (axis + own).checked_sub(shape.len())?, fuel),
            };
            let lines = operands.iter().map(of).collect::<Option<Vec<Value>>>()?;
            b.prim(prim, &lines).ok()
        }
        _ => None,
    }
}

/// Whether a tensor is computed, and an index chooses a few elements of each of its rows: routers and samplers do that.
/// Where the index is no more than an input, these are fewer. Such a choice is a search of the row, which a kernel of rows does beside all else that it does.
pub(super) fn few_of_rows(call: &Call<'_>, x: Value, axis: usize, index: Value) -> bool {
    let (shape, chosen) = (call.b.ty(x).shape, call.b.ty(index).shape);
    let last = axis + 1 == shape.len() && shape.len() == chosen.len();
    let most = if is_computed(call, index) { FEW } else { FEW_GIVEN };
    let few = |n: i64| (1..=most).contains(&n);
    let of_rows = last && shape[..axis] == chosen[..axis] && chosen[axis].as_const().is_some_and(few);
    of_rows && shape[axis].as_const().is_some() && is_computed(call, x)
}

/// Whether a value is more than an input in another layout.
fn is_computed(call: &Call<'_>, mut value: Value) -> bool {
    while let Some((op, operands)) = call.b.definition(value) {
        match op {
            Op::Prim(Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } | Prim::Slice { .. }) => {
                value = operands[0];
            }
            _ => return true,
        }
    }
    false
}

/// Where the places of a row, counted along the first of two new axes for the row's lanes, are those of an index.
pub(super) fn hits(call: &Call<'_>, lanes: &Dim, index: Value, [lane, chosen]: [usize; 2]) -> Result<Value, Refusal> {
    let b = call.b;
    let places = wrapped(call, index, lanes)?;
    let mut shape = b.ty(places).shape;
    let count = shape.pop().ok_or("an index without axes")?;
    let rank = shape.len() + 2;
    shape.resize(rank, Dim::constant(1));
    shape[chosen] = count;
    Ok(b.map(ScalarFn::Eq, &[iota(call, lanes, lane, rank)?, b.reshape(places, shape)?])?)
}

/// The chosen elements of each row: the largest of those in the place that is looked for, which is one.
fn few_taken(call: &Call<'_>, x: Value, index: Value) -> Imported {
    let b = call.b;
    let (ty, chosen) = (b.ty(x), b.ty(index).shape);
    let last = ty.rank() - 1;
    let place = nearest(call, index, &ty.shape[last])?;
    let here = hits(call, &ty.shape[last], place, [last + 1, last])?;
    let mut rows = ty.shape.clone();
    rows.insert(last, Dim::constant(1));
    let least = b.prim(Prim::Literal(ReduceOp::Max.start(ty.dtype)), &[])?;
    let alone = b.map(ScalarFn::Select, &[here, b.reshape(x, rows)?, least])?;
    Ok(vec![b.reshape(over(call, ReduceOp::Max, alone, &[last + 1])?, chosen)?])
}

/// As `gather`, of a tensor and an index that broadcast along the other axes; without an axis, of all elements.
pub(super) fn take_along_dim(call: &Call<'_>) -> Imported {
    let (b, x, index) = (call.b, call.tensor("self")?, call.tensor("indices")?);
    let (shape, chosen) = (b.ty(x).shape, b.ty(index).shape);
    if call.is_none("dim")? {
        let at = wrapped(call, b.reshape(index, vec![product(&chosen)])?, &product(&shape))?;
        return taken(call, x, at, vec![product(&chosen)]);
    }
    let axis = call.axis("dim", shape.len())?;
    if chosen.len() != shape.len() {
        return Err("an index of another rank".into());
    }
    let out = &call.out()?.shape;
    let mut spread = out.clone();
    *spread.get_mut(axis).ok_or("a result of another rank")? = shape[axis].clone();
    let (x, index) = (expand_to(call, x, &spread)?, expand_to(call, index, out)?);
    along(call, x, axis, index)
}

/// Elements of the tensor as a line.
pub(super) fn take(call: &Call<'_>) -> Imported {
    let (b, x, index) = (call.b, call.tensor("self")?, call.tensor("index")?);
    let chosen = b.ty(index).shape;
    let at = wrapped(call, b.reshape(index, vec![product(&chosen)])?, &b.ty(x).elements())?;
    taken(call, x, at, chosen)
}

/// One where the counter of a new last axis is the operand, zero elsewhere.
pub(super) fn one_hot(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let classes = match call.dim("num_classes")? {
        unknown if unknown.as_const().is_some_and(|n| n < 0) => {
            return Err("a number of classes that depends on data".into());
        }
        known => known,
    };
    let mut shape = b.ty(x).shape;
    let rank = shape.len() + 1;
    shape.push(Dim::constant(1));
    let hit = b.map(ScalarFn::Eq, &[b.reshape(x, shape)?, iota(call, &classes, rank - 1, rank)?])?;
    Ok(vec![convert(b, hit, DType::I64)?])
}

/// Differences of neighbours along an axis, `n` times, after joining what is prepended and appended.
pub(super) fn diff(call: &Call<'_>) -> Imported {
    let (b, n) = (call.b, call.int("n")?);
    let x = call.tensor("self")?;
    let axis = call.axis("dim", b.ty(x).rank())?;
    let parts = [call.tensor_or_none("prepend")?, Some(x), call.tensor_or_none("append")?];
    let parts: Vec<Value> = parts.into_iter().flatten().collect();
    let dtype = result_type(call, &parts.iter().copied().map(Operand::Tensor).collect::<Vec<_>>())?;
    let parts: Vec<Value> = parts.iter().map(|&p| convert(b, p, dtype)).collect::<Result<_, _>>()?;
    let mut line = if parts.len() == 1 { parts[0] } else { b.cat(&parts, axis)? };
    if n < 0 || b.ty(line).shape[axis].as_const().is_some_and(|extent| n > extent) {
        return Err(format!("{n} differences in turn").into());
    }
    let f = if dtype == DType::Bool { ScalarFn::Xor } else { ScalarFn::Sub };
    let one = Dim::constant(1);
    for _ in 0..n {
        let extent = b.ty(line).shape[axis].clone();
        let later = cut(call, line, axis, [one.clone(), extent.clone()], 1)?;
        let earlier = cut(call, line, axis, [Dim::constant(0), &extent - &one], 1)?;
        line = b.map(f, &[later, earlier])?;
    }
    Ok(vec![line])
}
