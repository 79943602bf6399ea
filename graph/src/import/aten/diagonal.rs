//! Diagonals of matrices, and matrices of diagonals.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal, Scalar, wrap_axis};
use super::arrange::padded_by;
use super::index::{extent, gather};
use super::layout::{cut, expand_to, iota, permuted};
use super::promote::{constant, convert};
use super::reduce::summed;
use crate::dim::Dim;
use crate::graph::Value;
use crate::prim::Prim;
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// The diagonal of two axes, `offset` above the main one, on a new last axis of `length` elements.
fn along(call: &Call<'_>, x: Value, [row, column]: [usize; 2], offset: i64, length: &Dim) -> One {
    let b = call.b;
    let rank = b.ty(x).rank();
    if row == column {
        return Err("the diagonal of one axis".into());
    }
    let mut perm: Vec<usize> = (0..rank).filter(|&axis| axis != row && axis != column).collect();
    perm.extend([row, column]);
    let x = permuted(call, x, perm)?[0];
    let shape = b.ty(x).shape;
    let flat: Vec<Dim> = shape[..rank - 2].iter().cloned().chain([&shape[rank - 2] * &shape[rank - 1]]).collect();
    if let (Some(columns), Some(1..)) = (shape[rank - 1].as_const(), length.as_const()) {
        // A step of the matrix as a line: layout alone, so that what is written to the diagonal is written to the matrix.
        let row = if offset < 0 { Dim::constant(columns) } else { Dim::constant(1) };
        let start = &row * &Dim::constant(offset.checked_abs().ok_or("an offset too large")?);
        let step = columns.checked_add(1).ok_or("a matrix too large")?;
        let behind = &(length - &Dim::constant(1)) * &Dim::constant(step);
        let end = &(&start + &behind) + &Dim::constant(1);
        return cut(call, b.reshape(x, flat)?, rank - 2, [start, end], step);
    }
    let at = places(call, &shape[rank - 1], offset, length)?;
    gather(call, b.reshape(x, flat)?, rank - 2, at)
}

/// The places of a diagonal of so many elements in a matrix of so many columns as a line.
fn places(call: &Call<'_>, columns: &Dim, offset: i64, length: &Dim) -> One {
    let b = call.b;
    let step = extent(call, &(columns + &Dim::constant(1)))?;
    let first = if offset >= 0 {
        b.int(DType::I64, offset)?
    } else {
        b.mul(extent(call, columns)?, b.int(DType::I64, -offset)?)?
    };
    Ok(b.add(b.mul(iota(call, length, 0, 1)?, step)?, first)?)
}

/// The diagonal of a call, as long as the file says.
fn called(call: &Call<'_>, x: Value, axes: [usize; 2], offset: i64) -> Imported {
    let length = call.out()?.shape.last().cloned().ok_or("a result without axes")?;
    Ok(vec![along(call, x, axes, offset, &length)?])
}

pub(super) fn diagonal(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let rank = call.b.ty(x).rank();
    called(call, x, [call.axis("dim1", rank)?, call.axis("dim2", rank)?], call.int("offset")?)
}

pub(super) fn linalg_diagonal(call: &Call<'_>) -> Imported {
    let x = call.tensor("A")?;
    let rank = call.b.ty(x).rank();
    called(call, x, [call.axis("dim1", rank)?, call.axis("dim2", rank)?], call.int("offset")?)
}

/// The sum of the main diagonal.
pub(super) fn trace(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let shape = call.b.ty(x).shape;
    let [rows, columns] = shape.as_slice() else { return Err("other than two axes".into()) };
    let shorter = if call.names.never_negative(&(columns - rows)) {
        rows
    } else if call.names.never_negative(&(rows - columns)) {
        columns
    } else {
        return Err("a matrix of which the shorter side is not known".into());
    };
    let line = along(call, x, [0, 1], 0, shorter)?;
    Ok(vec![summed(call, line, &[0])?])
}

/// Lines of a last axis as diagonals, `offset` above the main one, of two new last axes; zero elsewhere.
fn spread(call: &Call<'_>, x: Value, offset: i64) -> One {
    let b = call.b;
    let mut shape = b.ty(x).shape;
    let rank = shape.len() + 1;
    let first = rank.checked_sub(2).ok_or("a tensor without axes")?;
    shape.insert(first, Dim::constant(1));
    let pads = if offset > 0 { [offset, 0] } else { [0, -offset] };
    let line = padded_by(call, b.reshape(x, shape)?, rank - 1, pads, Scalar::Int(0))?;
    let side = b.ty(line).shape[rank - 1].clone();
    let hit = hits(call, [&side, &side], rank, offset)?;
    let zero = constant(b, b.dtype(x), Scalar::Int(0))?;
    Ok(b.map(ScalarFn::Select, &[hit, line, zero])?)
}

/// Where the column of matrices is `offset` more than the row, on the last two of so many axes.
fn hits(call: &Call<'_>, [rows, columns]: [&Dim; 2], rank: usize, offset: i64) -> One {
    let b = call.b;
    let row = iota(call, rows, rank - 2, rank)?;
    let diagonal = if offset == 0 { row } else { b.add(row, b.int(DType::I64, offset)?)? };
    Ok(b.map(ScalarFn::Eq, &[iota(call, columns, rank - 1, rank)?, diagonal])?)
}

/// A tensor in which the diagonal of two axes is another one.
pub(super) fn diagonal_scatter(call: &Call<'_>) -> Imported {
    let (b, x, offset) = (call.b, call.tensor("self")?, call.int("offset")?);
    let rank = b.ty(x).rank();
    let (row, column) = (call.axis("dim1", rank)?, call.axis("dim2", rank)?);
    if row == column {
        return Err("the diagonal of one axis".into());
    }
    let mut perm: Vec<usize> = (0..rank).filter(|&axis| axis != row && axis != column).collect();
    perm.extend([row, column]);
    let inverse = (0..rank).filter_map(|axis| perm.iter().position(|&from| from == axis)).collect();
    let x = permuted(call, x, perm)?[0];
    let (ty, src) = (b.ty(x), convert(b, call.tensor("src")?, b.dtype(x))?);
    // The diagonal as a row of every matrix, each element above or below its place.
    let mut line = b.ty(src).shape;
    let length = line.pop().ok_or("a diagonal without axes")?;
    line.extend([Dim::constant(1), length.clone()]);
    let before = offset.max(0);
    let behind = &(&ty.shape[rank - 1] - &length) - &Dim::constant(before);
    let Some(behind) = behind.as_const() else {
        let at = places(call, &ty.shape[rank - 1], offset, &length)?;
        let flat = ty.shape[..rank - 2].iter().cloned().chain([&ty.shape[rank - 2] * &ty.shape[rank - 1]]).collect();
        let written = b.prim(Prim::Scatter { axis: rank - 2 }, &[b.reshape(x, flat)?, at, src])?;
        return permuted(call, b.reshape(written, ty.shape)?, inverse);
    };
    let line = padded_by(call, b.reshape(src, line)?, rank - 1, [before, behind], Scalar::Int(0))?;
    let hit = hits(call, [&ty.shape[rank - 2], &ty.shape[rank - 1]], rank, offset)?;
    permuted(call, b.map(ScalarFn::Select, &[hit, line, x])?, inverse)
}

/// A tensor with one number where the places along all axes are equal. The diagonal of a matrix may start again below
/// its last column: it is every element of the matrix as a line that is one more than a row behind the one before.
pub(super) fn fill_diagonal(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let ty = b.ty(x);
    let rank = ty.rank();
    if rank < 2 {
        return Err(call.refused("self", "fewer than two axes"));
    }
    let row = iota(call, &ty.shape[0], 0, rank)?;
    let again = match ty.shape.as_slice() {
        [rows, columns] if call.bool("wrap")? => (!call.names.never_negative(&(columns - rows))).then_some(columns),
        _ => None,
    };
    let hit = if let Some(columns) = again {
        let flat = b.add(b.mul(row, extent(call, columns)?)?, iota(call, columns, 1, rank)?)?;
        let step = extent(call, &(columns + &Dim::constant(1)))?;
        b.map(ScalarFn::Eq, &[b.map(ScalarFn::Rem, &[flat, step])?, b.int(DType::I64, 0)?])?
    } else {
        let equal = |axis| Ok::<_, Refusal>(b.map(ScalarFn::Eq, &[iota(call, &ty.shape[axis], axis, rank)?, row])?);
        (2..rank).try_fold(equal(1)?, |all, axis| Ok::<_, Refusal>(b.map(ScalarFn::And, &[all, equal(axis)?])?))?
    };
    let fill = constant(b, ty.dtype, call.scalar("fill_value")?)?;
    let filled = b.map(ScalarFn::Select, &[hit, fill, x])?;
    Ok(vec![expand_to(call, filled, &ty.shape)?])
}

/// Matrices, on two axes of the result, that have the lines of the last axis as diagonals.
pub(super) fn diag_embed(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let (rank, offset) = (call.b.ty(x).rank() + 1, call.int("offset")?);
    let (mut row, mut column) = (wrap_axis(call.int("dim1")?, rank)?, wrap_axis(call.int("dim2")?, rank)?);
    if row == column {
        return Err("the diagonal of one axis".into());
    }
    let y = spread(call, x, offset)?;
    let mut perm: Vec<usize> = (0..rank - 2).collect();
    let mut last = [rank - 2, rank - 1];
    if row > column {
        std::mem::swap(&mut row, &mut column);
        last.swap(0, 1);
    }
    perm.insert(row, last[0]);
    perm.insert(column, last[1]);
    permuted(call, y, perm)
}

/// The diagonal of a matrix, or the matrix with a line as its diagonal.
pub(super) fn diag(call: &Call<'_>) -> Imported {
    let (x, offset) = (call.tensor("self")?, call.int("diagonal")?);
    match call.b.ty(x).rank() {
        1 => Ok(vec![spread(call, x, offset)?]),
        2 => called(call, x, [0, 1], offset),
        other => Err(format!("{other} axes").into()),
    }
}

/// The matrix with all elements as its diagonal.
pub(super) fn diagflat(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let line = call.b.reshape(x, vec![call.b.ty(x).elements()])?;
    Ok(vec![spread(call, line, call.int("offset")?)?])
}
