//! Products of matrices, and attention.

use fusewright_abi::DType;

use super::super::call::{Call, Imported};
use super::layout::expand_to;
use super::promote::{convert, is_reduced};
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer;
use crate::prim::Prim;

/// `a · b (+ bias)`; the bias is added before the one rounding to the dtype of `a`.
fn product(call: &Call<'_>, a: Value, b: Value, transpose_b: bool, bias: Option<Value>) -> Imported {
    let dtype = call.b.dtype(a);
    if !dtype.is_float() {
        return Err("a product of integer matrices".into());
    }
    let work = if bias.is_some() && is_reduced(dtype) { DType::F32 } else { dtype };
    let mut y = call.b.prim(Prim::MatMul { transpose_b, out: work }, &[a, b])?;
    if let Some(bias) = bias {
        y = call.b.add(y, convert(call.b, bias, work)?)?;
    }
    Ok(vec![convert(call.b, y, dtype)?])
}

pub(super) fn mm(call: &Call<'_>) -> Imported {
    product(call, call.tensor("self")?, call.tensor("mat2")?, false, None)
}

pub(super) fn addmm(call: &Call<'_>) -> Imported {
    if call.scalar("beta")?.as_f64() != 1.0 || call.scalar("alpha")?.as_f64() != 1.0 {
        return Err("a scaled sum".into());
    }
    product(call, call.tensor("mat1")?, call.tensor("mat2")?, false, Some(call.tensor("self")?))
}

pub(super) fn linear(call: &Call<'_>) -> Imported {
    let (x, w) = (call.tensor("input")?, call.tensor("weight")?);
    if call.b.ty(x).rank() < 2 || call.b.ty(w).rank() != 2 {
        return Err("a vector operand".into());
    }
    product(call, x, w, true, call.tensor_or_none("bias")?)
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
