//! Scaled dot-product attention.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal};
use super::layout::expand_to;
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::infer;
use crate::prim::{Prim, Sdpa};

/// Attention without dropout; the default scale is 1/√d. Axes before the heads are one batch axis; the mask broadcasts.
pub(super) fn sdpa(call: &Call<'_>) -> Imported {
    if call.scalar("dropout_p")?.as_f64() != 0.0 {
        return Err("dropout".into());
    }
    let b = call.b;
    let [q, k, v] = spread(call)?;
    let (qt, kt) = (b.ty(q), b.ty(k));
    let scale = match call.scalar_or_none("scale")? {
        Some(scale) => scale.as_f64(),
        None => default_scale(&qt.shape)?,
    };
    let sdpa = Sdpa { causal: call.bool("is_causal")?, wide: false, scale_bits: scale.to_bits() };
    let mut operands = vec![batched(call, q)?, batched(call, k)?, batched(call, v)?];
    if !call.is_none("attn_mask")? {
        if sdpa.causal {
            return Err("a mask beside the causal one".into());
        }
        let mask = call.tensor("attn_mask")?;
        let dtype = b.dtype(mask);
        if dtype != DType::Bool && dtype != qt.dtype && dtype != DType::F32 {
            return Err(format!("a mask of {dtype}").into());
        }
        let rows = qt.rank() - 1;
        let scores: Vec<Dim> = qt.shape[..rows].iter().chain([&kt.shape[rows - 1]]).cloned().collect();
        operands.push(if qt.rank() == 4 { mask } else { batched(call, expand_to(call, mask, &scores)?)? });
    }
    let y = b.prim(Prim::Sdpa(sdpa), &operands)?;
    let shape = qt.shape[..qt.rank() - 1].iter().chain(b.ty(v).shape.last()).cloned().collect();
    Ok(vec![b.reshape(y, shape)?])
}

/// Query, key and value of one rank with equal axes before the heads; key and value heads stretch to those of the query
/// unless they are grouped.
fn spread(call: &Call<'_>) -> Result<[Value; 3], Refusal> {
    let (q, k, v) = (call.tensor("query")?, call.tensor("key")?, call.tensor("value")?);
    let shapes = [q, k, v].map(|x| call.b.ty(x).shape);
    let rank = shapes[0].len();
    if rank < 3 || shapes.iter().any(|s| s.len() != rank) {
        return Err("operands of fewer than three axes, or of different ranks".into());
    }
    // Grouped heads are repeated by the op itself.
    let kept = if call.bool("enable_gqa")? { 1 } else { 0 };
    let shared = shapes.iter().map(|s| s[..rank - 2 - kept].to_vec()).collect::<Vec<_>>();
    let batch = infer::broadcast(&shared)?;
    let widen = |x: Value, shape: &[Dim]| {
        let to: Vec<Dim> = batch.iter().chain(&shape[rank - 2 - kept..]).cloned().collect();
        expand_to(call, x, &to)
    };
    Ok([widen(q, &shapes[0])?, widen(k, &shapes[1])?, widen(v, &shapes[2])?])
}

/// The tensor with one batch axis before the axis of heads.
fn batched(call: &Call<'_>, x: Value) -> Result<Value, Refusal> {
    let shape = call.b.ty(x).shape;
    let (batch, rest) = shape.split_at(shape.len() - 3);
    let shape = [product(batch)].into_iter().chain(rest.iter().cloned()).collect();
    Ok(call.b.reshape(x, shape)?)
}

fn default_scale(query: &[Dim]) -> Result<f64, Refusal> {
    let width = query.last().and_then(Dim::as_const).filter(|&d| d > 0);
    Ok(1.0 / (width.ok_or("an unknown head width")? as f64).sqrt())
}
