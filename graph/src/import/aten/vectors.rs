//! Sums along curves, and products of vectors that are no products of matrices.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::arrange::rolled;
use super::elementwise::{arithmetic, quotient};
use super::layout::{cut, pick};
use super::prefixes::cumulated;
use super::promote::{constant, convert, is_reduced, result_type};
use super::reduce::summed;
use crate::dim::Dim;
use crate::graph::Value;
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// The vector that stands upright on two others, of three elements along an axis; the framework's kernels contract the
/// first product of f32 with the difference.
fn upright(call: &Call<'_>, axis: usize, [x, y]: [Value; 2]) -> Imported {
    let (b, three) = (call.b, Dim::constant(3));
    if [x, y].iter().any(|&v| b.ty(v).shape.get(axis) != Some(&three)) {
        return Err("vectors of other than three elements".into());
    }
    let dtype = result_type(call, &[Operand::Tensor(x), Operand::Tensor(y)])?;
    let (x, y) = (convert(b, x, dtype)?, convert(b, y, dtype)?);
    let next = |v: Value, by: i64| rolled(call, v, axis, &Dim::constant(-by));
    let taken = b.mul(next(x, 2)?, next(y, 1)?)?;
    let (left, right) = (next(x, 1)?, next(y, 2)?);
    if matches!(dtype, DType::F32 | DType::F64) {
        return Ok(vec![b.map(ScalarFn::Fma, &[left, right, b.map(ScalarFn::Neg, &[taken])?])?]);
    }
    Ok(vec![b.sub(b.mul(left, right)?, taken)?])
}

pub(super) fn linalg_cross(call: &Call<'_>) -> Imported {
    let pair = [call.tensor("self")?, call.tensor("other")?];
    let rank = call.b.ty(pair[0]).rank();
    if call.b.ty(pair[1]).rank() != rank {
        return Err("vectors of tensors of two ranks".into());
    }
    upright(call, call.axis("dim", rank)?, pair)
}

/// Along the first axis of three elements if none is given.
pub(super) fn cross(call: &Call<'_>) -> Imported {
    if !call.is_none("dim")? {
        return linalg_cross(call);
    }
    let pair = [call.tensor("self")?, call.tensor("other")?];
    let axis = call.b.ty(pair[0]).shape.iter().position(|dim| dim.as_const() == Some(3));
    upright(call, axis.ok_or("vectors of other than three elements")?, pair)
}

/// `beta · self + alpha · (vec1ᵢ · vec2ⱼ)`; 16 bits round every step, `alpha · vec1ᵢ` the first.
pub(super) fn addr(call: &Call<'_>) -> Imported {
    let b = call.b;
    let (x, column, row) = (call.tensor("self")?, call.tensor("vec1")?, call.tensor("vec2")?);
    let dtype = result_type(call, &[x, column, row].map(Operand::Tensor))?;
    if !dtype.is_float() {
        return Err("an outer product of integers".into());
    }
    let (beta, alpha) = (call.scalar("beta")?, call.scalar("alpha")?);
    let column = b.reshape(convert(b, column, dtype)?, vec![b.ty(column).elements(), Dim::constant(1)])?;
    let row = convert(b, row, dtype)?;
    let times = |x: Value, factor: Scalar| -> One {
        if factor.as_f64() == 1.0 { Ok(x) } else { Ok(b.mul(x, constant(b, dtype, factor)?)?) }
    };
    let y = if is_reduced(dtype) { b.mul(times(column, alpha)?, row)? } else { times(b.mul(column, row)?, alpha)? };
    // What is multiplied by zero is not read, NaN or not.
    if beta.as_f64() == 0.0 {
        return Ok(vec![y]);
    }
    Ok(vec![b.add(times(convert(b, x, dtype)?, beta)?, y)?])
}

/// The sums of neighbours along an axis.
fn neighbours(call: &Call<'_>, y: Value, axis: usize, f: ScalarFn) -> One {
    let (extent, one) = (call.b.ty(y).shape[axis].clone(), Dim::constant(1));
    let later = cut(call, y, axis, [one.clone(), extent.clone()], 1)?;
    let earlier = cut(call, y, axis, [Dim::constant(0), &extent - &one], 1)?;
    arithmetic(call, f, Operand::Tensor(later), Operand::Tensor(earlier))
}

/// A tensor of fewer axes than another along which it lies: as a line on one of its axes, else on the last ones.
fn laid(call: &Call<'_>, x: Value, rank: usize, axis: usize) -> One {
    let mut shape = call.b.ty(x).shape;
    if shape.len() == 1 {
        let extent = std::mem::replace(&mut shape, vec![Dim::constant(1); rank]).remove(0);
        shape[axis] = extent;
    }
    while shape.len() < rank {
        shape.insert(0, Dim::constant(1));
    }
    Ok(call.b.reshape(x, shape)?)
}

fn number(v: f64) -> Operand {
    Operand::Scalar(Scalar::Float(v))
}

/// The area under a curve of which the points lie `dx` apart: all values less half of the outermost, times `dx`.
pub(super) fn trapezoid(call: &Call<'_>) -> Imported {
    let y = call.tensor("y")?;
    let axis = call.axis("dim", call.b.ty(y).rank())?;
    let last = &call.b.ty(y).shape[axis] - &Dim::constant(1);
    let ends = [pick(call, y, axis, Dim::constant(0))?, pick(call, y, axis, last)?];
    let ends = arithmetic(call, ScalarFn::Add, Operand::Tensor(ends[0]), Operand::Tensor(ends[1]))?;
    let half = arithmetic(call, ScalarFn::Mul, Operand::Tensor(ends), number(0.5))?;
    let all = Operand::Tensor(summed(call, y, &[axis])?);
    let area = arithmetic(call, ScalarFn::Sub, all, Operand::Tensor(half))?;
    Ok(vec![arithmetic(call, ScalarFn::Mul, Operand::Tensor(area), Operand::Scalar(call.scalar("dx")?))?])
}

/// The distances of the points of a curve and the sums of its neighbouring values, and the axis that it runs along.
fn strips(call: &Call<'_>) -> Result<([Operand; 2], usize), Refusal> {
    let (y, x) = (call.tensor("y")?, call.tensor("x")?);
    let rank = call.b.ty(y).rank();
    let axis = call.axis("dim", rank)?;
    let x = laid(call, x, rank, axis)?;
    if call.b.ty(x).rank() > rank {
        return Err("points of more axes than values".into());
    }
    let (gaps, sums) = (neighbours(call, x, axis, ScalarFn::Sub)?, neighbours(call, y, axis, ScalarFn::Add)?);
    Ok(([Operand::Tensor(gaps), Operand::Tensor(sums)], axis))
}

/// The area under a curve through given points.
pub(super) fn trapezoid_between(call: &Call<'_>) -> Imported {
    let ([gaps, sums], axis) = strips(call)?;
    let areas = arithmetic(call, ScalarFn::Mul, sums, gaps)?;
    Ok(vec![quotient(call, Operand::Tensor(summed(call, areas, &[axis])?), number(2.0))?])
}

/// Areas up to every point of a curve, of points that lie `dx` apart.
pub(super) fn cumulative_trapezoid(call: &Call<'_>) -> Imported {
    let y = call.tensor("y")?;
    let axis = call.axis("dim", call.b.ty(y).rank())?;
    let sums = neighbours(call, y, axis, ScalarFn::Add)?;
    let half = number(call.scalar("dx")?.as_f64() / 2.0);
    let areas = arithmetic(call, ScalarFn::Mul, Operand::Tensor(sums), half)?;
    cumulated(call, areas)
}

/// Areas up to every point of a curve through given points.
pub(super) fn cumulative_trapezoid_between(call: &Call<'_>) -> Imported {
    let ([gaps, sums], _) = strips(call)?;
    let half = quotient(call, gaps, number(2.0))?;
    let areas = arithmetic(call, ScalarFn::Mul, Operand::Tensor(half), sums)?;
    cumulated(call, areas)
}
