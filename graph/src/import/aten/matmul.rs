//! Products of matrices, and attention.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::layout::expand_to;
use super::promote::{constant, convert, is_reduced, result_type};
use super::reduce::over;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer;
use crate::prim::{Prim, ReduceOp};

/// `a · b (+ bias)`; the bias is added before the one rounding to the dtype of `a`.
pub(super) fn product(call: &Call<'_>, a: Value, b: Value, transpose_b: bool, bias: Option<Value>) -> Imported {
    let dtype = call.b.dtype(a);
    if !dtype.is_float() {
        return Err("a product of integer matrices".into());
    }
    if let Some(sums) = rows_with_rows(call, a, b, transpose_b)? {
        let y = bias.map_or(Ok(sums), |bias| call.b.add(sums, convert(call.b, bias, call.b.dtype(sums))?))?;
        return Ok(vec![convert(call.b, y, dtype)?]);
    }
    let work = if bias.is_some() && is_reduced(dtype) { DType::F32 } else { dtype };
    let mut y = call.b.prim(Prim::MatMul { transpose_b, out: work }, &[a, b])?;
    if let Some(bias) = bias {
        y = call.b.add(y, convert(call.b, bias, work)?)?;
    }
    Ok(vec![convert(call.b, y, dtype)?])
}

/// Products of one row with one column each, which are sums of products, accumulated in f32 for narrow floats as the
/// framework's products are: what reads whole rows needs no library. `None` where an element is one of several of its row.
fn rows_with_rows(call: &Call<'_>, a: Value, b: Value, transpose_b: bool) -> Result<Option<Value>, Refusal> {
    let (left, right) = (call.b.ty(a), call.b.ty(b));
    let one = Dim::constant(1);
    let ([batch @ .., row, inner], [of_b @ .., k, column]) = (&left.shape[..], &right.shape[..]) else {
        return Ok(None);
    };
    let column = if transpose_b { k } else { column };
    if *row != one || *column != one || batch != of_b || left.dtype != right.dtype {
        return Ok(None);
    }
    let work = if is_reduced(left.dtype) { DType::F32 } else { left.dtype };
    let flat: Vec<Dim> = batch.iter().chain([&one, inner]).cloned().collect();
    let b = call.b.reshape(b, flat)?;
    let terms = call.b.mul(convert(call.b, a, work)?, convert(call.b, b, work)?)?;
    Ok(Some(over(call, ReduceOp::Add, terms, &[left.rank() - 1])?))
}

/// The sum of products along an axis.
pub(super) fn vecdot(call: &Call<'_>) -> Imported {
    let (x, y) = (call.tensor("x")?, call.tensor("y")?);
    let dtype = result_type(call, &[Operand::Tensor(x), Operand::Tensor(y)])?;
    if !dtype.is_float() {
        return Err("a product of integer vectors".into());
    }
    let terms = call.b.mul(convert(call.b, x, dtype)?, convert(call.b, y, dtype)?)?;
    let work = if is_reduced(dtype) { DType::F32 } else { dtype };
    let axis = call.axis("dim", call.b.ty(terms).rank())?;
    let sum = convert(call.b, over(call, ReduceOp::Add, convert(call.b, terms, work)?, &[axis])?, dtype)?;
    Ok(vec![call.b.reshape(sum, call.out()?.shape.clone())?])
}

pub(super) fn mm(call: &Call<'_>) -> Imported {
    product(call, call.tensor("self")?, call.tensor("mat2")?, false, None)
}

/// `beta · self + alpha · (a · b)`, rounded once.
fn scaled(call: &Call<'_>, a: &str, b: &str) -> Imported {
    scaled_sum(call, [call.tensor("self")?, call.tensor(a)?, call.tensor(b)?])
}

fn scaled_sum(call: &Call<'_>, [bias, a, b]: [Value; 3]) -> Imported {
    let (beta, alpha) = (call.scalar("beta")?, call.scalar("alpha")?);
    if beta.as_f64() == 1.0 && alpha.as_f64() == 1.0 {
        return product(call, a, b, false, Some(bias));
    }
    let dtype = call.b.dtype(a);
    if !dtype.is_float() {
        return Err("a product of integer matrices".into());
    }
    let work = if is_reduced(dtype) { DType::F32 } else { dtype };
    let times = |x: Value, factor: Scalar| -> Result<Value, Refusal> {
        if factor.as_f64() == 1.0 { Ok(x) } else { Ok(call.b.mul(x, constant(call.b, work, factor)?)?) }
    };
    let y = times(call.b.prim(Prim::MatMul { transpose_b: false, out: work }, &[a, b])?, alpha)?;
    // What is multiplied by zero is not read, NaN or not.
    let sum = if beta.as_f64() == 0.0 { y } else { call.b.add(y, times(convert(call.b, bias, work)?, beta)?)? };
    Ok(vec![convert(call.b, sum, dtype)?])
}

/// Rows in groups, each times the matrix of its group; without groups a batch of products.
pub(super) fn grouped(call: &Call<'_>) -> Imported {
    let (x, w) = (call.tensor("self")?, call.tensor("mat2")?);
    let (rows, matrices) = (call.b.ty(x).rank(), call.b.ty(w).rank());
    let out = call.dtype_or_none("out_dtype")?.unwrap_or(call.b.dtype(x));
    if !call.is_none("bias")? || out != call.b.dtype(x) {
        return Err("a bias, or results of another dtype".into());
    }
    match (call.tensor_or_none("offs")?, rows, matrices) {
        (None, 3, 3) => product(call, x, w, false, None),
        (Some(ends), 2, 3) => Ok(vec![call.b.prim(Prim::GroupedMatMul { out }, &[x, w, ends])?]),
        _ => Err(format!("groups of an operand of {rows} axes by one of {matrices}").into()),
    }
}

/// What Hugging Face's library does where the framework has no product of groups for a dtype; rows of no group are zero.
pub(super) fn grouped_of_transformers(call: &Call<'_>) -> Imported {
    let (x, w, ends) = (call.tensor("input")?, call.tensor("weight")?, call.tensor("offs")?);
    Ok(vec![call.b.prim(Prim::GroupedMatMul { out: call.b.dtype(x) }, &[x, w, ends])?])
}

pub(super) fn addmm(call: &Call<'_>) -> Imported {
    scaled(call, "mat1", "mat2")
}

pub(super) fn baddbmm(call: &Call<'_>) -> Imported {
    scaled(call, "batch1", "batch2")
}

/// A product of which one or both sides are vectors.
fn of_vectors(call: &Call<'_>, a: Value, b: Value) -> Imported {
    let one = Dim::constant(1);
    let (left, right) = (call.b.ty(a).shape, call.b.ty(b).shape);
    let [inner] = right.as_slice() else { return Err("a matrix in place of a vector".into()) };
    let a = if left.len() == 1 { call.b.reshape(a, vec![one.clone(), inner.clone()])? } else { a };
    let b = call.b.reshape(b, vec![inner.clone(), one])?;
    let y = product(call, a, b, false, None)?[0];
    Ok(vec![call.b.reshape(y, left[..left.len() - 1].to_vec())?])
}

pub(super) fn mv(call: &Call<'_>) -> Imported {
    of_vectors(call, call.tensor("self")?, call.tensor("vec")?)
}

/// `beta · self + alpha · (mat · vec)`, rounded once.
pub(super) fn addmv(call: &Call<'_>) -> Imported {
    let b = call.b;
    let (x, vector) = (call.tensor("self")?, call.tensor("vec")?);
    let column = |x: Value| b.reshape(x, vec![b.ty(x).elements(), Dim::constant(1)]);
    let bias = if b.ty(x).rank() == 1 { column(x)? } else { x };
    let y = scaled_sum(call, [bias, call.tensor("mat")?, column(vector)?])?[0];
    Ok(vec![b.reshape(y, call.out()?.shape.clone())?])
}

pub(super) fn dot(call: &Call<'_>) -> Imported {
    of_vectors(call, call.tensor("self")?, call.tensor("tensor")?)
}

pub(super) fn vdot(call: &Call<'_>) -> Imported {
    of_vectors(call, call.tensor("self")?, call.tensor("other")?)
}

/// Every element of one vector times every one of another.
pub(super) fn outer(call: &Call<'_>) -> Imported {
    let (x, y) = (call.tensor("self")?, call.tensor("vec2")?);
    let dtype = result_type(call, &[Operand::Tensor(x), Operand::Tensor(y)])?;
    let (x, y) = (convert(call.b, x, dtype)?, convert(call.b, y, dtype)?);
    let column = vec![call.b.ty(x).elements(), Dim::constant(1)];
    Ok(vec![call.b.mul(call.b.reshape(x, column)?, y)?])
}

pub(super) fn linear(call: &Call<'_>) -> Imported {
    let (x, w) = (call.tensor("input")?, call.tensor("weight")?);
    let (from, rows) = (call.b.ty(x), call.b.ty(w));
    if from.rank() == 0 || rows.rank() != 2 {
        return Err("a vector operand".into());
    }
    if from.rank() > 1 {
        return product(call, x, w, true, call.tensor_or_none("bias")?);
    }
    let x = call.b.reshape(x, vec![Dim::constant(1), from.shape[0].clone()])?;
    let y = product(call, x, w, true, call.tensor_or_none("bias")?)?[0];
    Ok(vec![call.b.reshape(y, vec![rows.shape[0].clone()])?])
}

pub(super) fn matmul(call: &Call<'_>) -> Imported {
    let (mut a, mut b) = (call.tensor("self")?, call.tensor("other")?);
    let (left, right) = (call.b.ty(a), call.b.ty(b));
    let one = Dim::constant(1);
    if left.rank() == 0 || right.rank() == 0 {
        return Err("a 0-d operand".into());
    }
    if left.rank() == 1 {
        a = call.b.reshape(a, vec![one.clone(), left.shape[0].clone()])?;
    }
    if right.rank() == 1 {
        b = call.b.reshape(b, vec![right.shape[0].clone(), one])?;
    }
    let (left, right) = (call.b.ty(a).shape, call.b.ty(b).shape);
    let (batch_a, batch_b) = (left[..left.len() - 2].to_vec(), right[..right.len() - 2].to_vec());
    if !batch_b.is_empty() && batch_a != batch_b {
        let batch = infer::broadcast([&batch_a, &batch_b])?;
        let with = |matrix: &[Dim]| -> Vec<Dim> { batch.iter().chain(matrix).cloned().collect() };
        a = expand_to(call, a, &with(&left[batch_a.len()..]))?;
        b = expand_to(call, b, &with(&right[batch_b.len()..]))?;
    }
    let y = product(call, a, b, false, None)?[0];
    Ok(vec![call.b.reshape(y, call.out()?.shape.clone())?])
}
