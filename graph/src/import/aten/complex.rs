//! Complex numbers: a tensor of them is a tensor of floats with a last axis of two, the real and the imaginary part.
//!
//! What only moves numbers is imported as for floats, with axes counted without the last (`Call::axis`). Arithmetic takes
//! the parts apart where they were put together, so that of a product of pairs no pair is left. A product is
//! `(a·c − b·d, b·c + a·d)`, every product and sum rounded, as in the framework's vector kernels.

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::layout::{expand_to, permuted};
use super::promote::{constant, operand_as};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::{Op, Value};
use crate::prim::Prim;
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// The real and the imaginary part, which have one shape or broadcast.
type Parts = [Value; 2];

/// Part 0 or 1 of every number, without the last axis.
fn part(b: &Builder, x: Value, which: i64) -> One {
    if let Some(found) = joined_part(b, x, which)? {
        return Ok(found);
    }
    let mut shape = b.ty(x).shape;
    let axis = shape.len().checked_sub(1).ok_or("a tensor without parts")?;
    let cut = b.slice(x, axis, Dim::constant(which), Dim::constant(which + 1))?;
    shape.pop();
    Ok(b.reshape(cut, shape)?)
}

/// The part where the pair was put together, moved as the pair was; `None` if that is not seen.
fn joined_part(b: &Builder, x: Value, which: i64) -> Result<Option<Value>, Refusal> {
    let Some((Op::Prim(prim), operands)) = b.definition(x) else { return Ok(None) };
    let Some(&source) = operands.first() else { return Ok(None) };
    let (shape, from) = (b.ty(x).shape, b.ty(source).shape);
    let last = shape.len() - 1;
    if let Prim::Cat { axis } = prim {
        let single = operands.len() == 2 && operands.iter().all(|&v| b.ty(v).shape[last] == Dim::constant(1));
        if axis != last || !single {
            return Ok(None);
        }
        return Ok(Some(b.reshape(operands[which as usize], shape[..last].to_vec())?));
    }
    if from.last() != shape.last() || shape[last] != Dim::constant(2) {
        return Ok(None);
    }
    let step = match prim {
        Prim::Reshape { mut shape } => {
            shape.pop();
            Prim::Reshape { shape }
        }
        Prim::Expand { mut shape } => {
            shape.pop();
            Prim::Expand { shape }
        }
        Prim::Permute { mut perm } if perm.last() == Some(&last) => {
            perm.pop();
            Prim::Permute { perm }
        }
        Prim::Slice { axis, .. } if axis != last => prim,
        _ => return Ok(None),
    };
    // Only on the way to where the parts were joined are two moves better than one.
    let Some(inner) = joined_part(b, source, which)? else { return Ok(None) };
    Ok(Some(b.prim(step, &[inner])?))
}

/// A tensor of pairs.
fn joined(call: &Call<'_>, [re, im]: Parts) -> Imported {
    let b = call.b;
    let mut shape = call.out()?.shape.clone();
    shape.pop();
    let axis = shape.len();
    let mut column = shape.clone();
    column.push(Dim::constant(1));
    let columns = [re, im].map(|x| -> One { Ok(b.reshape(expand_to(call, x, &shape)?, column.clone())?) });
    let [re, im] = columns;
    Ok(vec![b.cat(&[re?, im?], axis)?])
}

/// The parts of an operand; those of a real one are itself and zero.
fn parts(call: &Call<'_>, name: &str) -> Result<Parts, Refusal> {
    let b = call.b;
    let dtype = call.out()?.dtype;
    let operand = call.operand(name)?;
    if let (Operand::Tensor(x), true) = (operand, call.names.is_complex(call.tensor_name(name)?)) {
        return if b.dtype(x) == dtype {
            Ok([part(b, x, 0)?, part(b, x, 1)?])
        } else {
            Err("complex numbers of different widths".into())
        };
    }
    Ok([operand_as(b, operand, dtype)?, constant(b, dtype, Scalar::Int(0))?])
}

/// A conversion that keeps every number.
pub(super) fn kept(call: &Call<'_>) -> Imported {
    if !call.names.is_complex(call.tensor_name("self")?) {
        return joined(call, parts(call, "self")?);
    }
    let x = call.tensor("self")?;
    let out = call.out()?;
    if call.b.ty(x) == *out { Ok(vec![x]) } else { Err(format!("complex numbers as {out}").into()) }
}

pub(super) fn complex(call: &Call<'_>) -> Imported {
    joined(call, [call.tensor("real")?, call.tensor("imag")?])
}

/// `size · (cos angle, sin angle)`.
pub(super) fn polar(call: &Call<'_>) -> Imported {
    let (b, size, angle) = (call.b, call.tensor("abs")?, call.tensor("angle")?);
    let along = |f| -> One { Ok(b.mul(size, b.map(f, &[angle])?)?) };
    joined(call, [along(ScalarFn::Cos)?, along(ScalarFn::Sin)?])
}

pub(super) fn real(call: &Call<'_>) -> Imported {
    Ok(vec![part(call.b, call.tensor("self")?, 0)?])
}

pub(super) fn imag(call: &Call<'_>) -> Imported {
    Ok(vec![part(call.b, call.tensor("self")?, 1)?])
}

pub(super) fn mul(call: &Call<'_>) -> Imported {
    let b = call.b;
    let ([x, y], [c, d]) = (parts(call, "self")?, parts(call, "other")?);
    let re = b.sub(b.mul(x, c)?, b.mul(y, d)?)?;
    let im = b.add(b.mul(y, c)?, b.mul(x, d)?)?;
    joined(call, [re, im])
}

fn by_parts(call: &Call<'_>, f: ScalarFn) -> Imported {
    if call.scalar("alpha")?.as_f64() != 1.0 {
        return Err("a factor on complex numbers".into());
    }
    let (a, c) = (parts(call, "self")?, parts(call, "other")?);
    let each = |i: usize| call.b.map(f, &[a[i], c[i]]);
    joined(call, [each(0)?, each(1)?])
}

pub(super) fn add(call: &Call<'_>) -> Imported {
    by_parts(call, ScalarFn::Add)
}

pub(super) fn sub(call: &Call<'_>) -> Imported {
    by_parts(call, ScalarFn::Sub)
}

pub(super) fn neg(call: &Call<'_>) -> Imported {
    Ok(vec![call.b.map(ScalarFn::Neg, &[call.tensor("self")?])?])
}

/// The imaginary part with the other sign.
pub(super) fn conj(call: &Call<'_>) -> Imported {
    let [re, im] = parts(call, "self")?;
    joined(call, [re, call.b.map(ScalarFn::Neg, &[im])?])
}

pub(super) fn permute(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    let rank = call.b.ty(x).rank() - 1;
    let axes = call.ints("dims")?.into_iter().map(|axis| super::super::call::wrap_axis(axis, rank));
    let mut perm: Vec<usize> = axes.collect::<Result<_, _>>()?;
    perm.push(rank);
    permuted(call, x, perm)
}
