//! New tensors: constants, counters, triangles.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Scalar};
use super::layout::{expand_to, iota};
use super::promote::{constant, convert, operand_as};
use crate::prim::Prim;
use crate::scalar::ScalarFn;

/// A tensor of the stated result type with one value throughout.
fn filled(call: &Call<'_>, value: Scalar) -> Imported {
    let out = call.out()?;
    let scalar = constant(call.b, out.dtype, value)?;
    Ok(vec![expand_to(call, scalar, &out.shape)?])
}

/// A tensor of the stated result type of a number or a size.
fn filled_by(call: &Call<'_>, argument: &str) -> Imported {
    let out = call.out()?;
    let value = operand_as(call.b, call.operand(argument)?, out.dtype)?;
    Ok(vec![expand_to(call, value, &out.shape)?])
}

pub(super) fn full(call: &Call<'_>) -> Imported {
    filled_by(call, "fill_value")
}

pub(super) fn scalar_tensor(call: &Call<'_>) -> Imported {
    filled_by(call, "s")
}

pub(super) fn zeros(call: &Call<'_>) -> Imported {
    filled(call, Scalar::Int(0))
}

pub(super) fn ones(call: &Call<'_>) -> Imported {
    filled(call, Scalar::Int(1))
}

/// `start + step · index`; the file states how many.
pub(super) fn arange(call: &Call<'_>) -> Imported {
    let or = |name: &str, default: i64| match call.row.parameter(name) {
        Some(_) => call.operand(name),
        None => Ok(Operand::Scalar(Scalar::Int(default))),
    };
    let (start, step) = (or("start", 0)?, or("step", 1)?);
    let out = call.out()?;
    let b = call.b;
    let y = b.prim(Prim::Iota { dtype: DType::I64, shape: out.shape.clone(), axis: 0 }, &[])?;
    let fraction = |v: &Operand| matches!(v, Operand::Scalar(Scalar::Float(_)));
    if fraction(&start) || fraction(&step) {
        if !out.dtype.is_float() {
            return Err("a fractional counter of integers".into());
        }
        // As on a GPU, which contracts; a CPU's vectors may differ in the last place.
        let work = if out.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let float = |v: Operand| operand_as(b, v, work);
        let counted = b.map(ScalarFn::Fma, &[convert(b, y, work)?, float(step)?, float(start)?])?;
        return Ok(vec![convert(b, counted, out.dtype)?]);
    }
    let is = |v: &Operand, number: i64| matches!(v, Operand::Scalar(Scalar::Int(n)) if *n == number);
    let scaled = if is(&step, 1) { y } else { b.mul(y, operand_as(b, step, DType::I64)?)? };
    let counted = if is(&start, 0) { scaled } else { b.add(scaled, operand_as(b, start, DType::I64)?)? };
    Ok(vec![convert(b, counted, out.dtype)?])
}

/// As many numbers as `steps`, evenly from `start` to `end`, counted from the nearer end; contracted as on a GPU.
pub(super) fn linspace(call: &Call<'_>) -> Imported {
    let (b, out) = (call.b, call.out()?);
    let steps = call.int("steps")?;
    if out.dtype != DType::F32 {
        return Err(format!("even steps of {}", out.dtype).into());
    }
    let (start, end) = (call.scalar("start")?.as_f64() as f32, call.scalar("end")?.as_f64() as f32);
    let step = if steps > 1 { (end - start) / (steps - 1) as f32 } else { 0.0 };
    let float = |v: f32| constant(b, DType::F32, Scalar::Float(v.into()));
    let counter = |dtype| b.prim(Prim::Iota { dtype, shape: out.shape.clone(), axis: 0 }, &[]);
    let (step, near) = (float(step)?, counter(DType::I64)?);
    let ahead = b.sub(b.int(DType::I64, steps - 1)?, near)?;
    let low = b.map(ScalarFn::Fma, &[step, convert(b, near, DType::F32)?, float(start)?])?;
    let back = b.map(ScalarFn::Neg, &[step])?;
    let high = b.map(ScalarFn::Fma, &[back, convert(b, ahead, DType::F32)?, float(end)?])?;
    let first = b.map(ScalarFn::Lt, &[near, b.int(DType::I64, steps / 2)?])?;
    Ok(vec![b.map(ScalarFn::Select, &[first, low, high])?])
}

/// One on the diagonal, zero elsewhere.
pub(super) fn eye(call: &Call<'_>) -> Imported {
    let out = call.out()?;
    let [rows, columns] = out.shape.as_slice() else { return Err("a result that is no matrix".into()) };
    let hit = call.b.map(ScalarFn::Eq, &[iota(call, rows, 0, 2)?, iota(call, columns, 1, 2)?])?;
    Ok(vec![convert(call.b, hit, out.dtype)?])
}

/// Elements whose column minus row fulfils `keep` against the diagonal; zero elsewhere.
fn triangle(call: &Call<'_>, keep: ScalarFn) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let ty = b.ty(x);
    let rank = ty.rank();
    if rank < 2 {
        return Err("fewer than two axes".into());
    }
    let row = iota(call, &ty.shape[rank - 2], rank - 2, rank)?;
    let column = iota(call, &ty.shape[rank - 1], rank - 1, rank)?;
    let edge = b.add(row, operand_as(b, call.operand("diagonal")?, DType::I64)?)?;
    let zero = constant(b, ty.dtype, Scalar::Int(0))?;
    Ok(vec![b.map(ScalarFn::Select, &[b.map(keep, &[column, edge])?, x, zero])?])
}

pub(super) fn tril(call: &Call<'_>) -> Imported {
    triangle(call, ScalarFn::Le)
}

pub(super) fn triu(call: &Call<'_>) -> Imported {
    triangle(call, ScalarFn::Ge)
}
