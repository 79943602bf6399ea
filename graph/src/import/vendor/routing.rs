//! vLLM's routing: the experts of a token with their weights, and the sum of what they make.

use fusewright_abi::DType;

use super::super::aten::promote::convert;
use super::super::call::{Call, Imported};
use super::vllm::shaped;
use super::{One, f32, last_axis, wide};
use crate::dim::Dim;
use crate::graph::{Op, Value};
use crate::prim::{NanRule, Prim, ReduceOp};
use crate::scalar::ScalarFn;

/// How many experts' rows one kernel adds step by step; of others PyTorch's sum is taken.
const SUMMED_BY_STEPS: [i64; 3] = [2, 3, 4];

fn reduced(call: &Call<'_>, op: ReduceOp, x: Value, axis: usize) -> One {
    Ok(call.b.prim(Prim::Reduce { op, axes: vec![axis], nan: NanRule::Propagate }, &[x])?)
}

/// `e^(x − max)` times the reciprocal of its sum, in f32.
fn softmax(call: &Call<'_>, x: Value) -> One {
    let (b, axis) = (call.b, last_axis(call, x)?);
    let power = b.map(ScalarFn::Exp, &[b.sub(x, reduced(call, ReduceOp::Max, x, axis)?)?])?;
    let inverse = b.div(f32(call, 1.0)?, reduced(call, ReduceOp::Add, power, axis)?)?;
    Ok(b.mul(power, inverse)?)
}

/// Where a choice stands among those of all tokens, one choice after the other: `choice · tokens + token`.
fn places(call: &Call<'_>, tokens: &Dim, k: &Dim) -> One {
    let b = call.b;
    let count = |extent: &Dim, axis: usize| {
        let mut shape = vec![Dim::constant(1); 2];
        shape[axis] = extent.clone();
        b.prim(Prim::Iota { dtype: DType::I64, shape, axis }, &[])
    };
    let rows = b.prim(Prim::SizeOf(tokens.clone()), &[])?;
    Ok(b.add(b.mul(count(k, 1)?, rows)?, count(tokens, 0)?)?)
}

/// The largest of the softmax and their experts; of equal ones the first. Renormalised weights are divided by their sum,
/// where that is more than 0.
pub(super) fn topk_softmax(call: &Call<'_>) -> Imported {
    if !call.is_none("bias")? {
        return Err("`bias`: a correction of the choice".into());
    }
    let b = call.b;
    let shape = b.ty(call.tensor("topk_weights")?).shape;
    let [tokens, k] = shape.as_slice() else { return Err(call.refused("topk_weights", "other than two axes")) };
    let chosen = b.op(Op::Prim(Prim::TopK { k: k.clone() }), &[softmax(call, wide(call, "gating_output")?)?])?;
    let [mut weights, experts] = [chosen[0], chosen[1]];
    if call.bool("renormalize")? {
        let sum = reduced(call, ReduceOp::Add, weights, 1)?;
        let some = b.map(ScalarFn::Gt, &[sum, f32(call, 0.0)?])?;
        weights = b.div(weights, b.map(ScalarFn::Select, &[some, sum, f32(call, 1.0)?])?)?;
    }
    let as_stated = |x: Value, name: &str| -> One { Ok(convert(b, x, b.dtype(call.tensor(name)?))?) };
    let weights = as_stated(weights, "topk_weights")?;
    let experts = as_stated(experts, "topk_indices")?;
    Ok(vec![weights, experts, as_stated(places(call, tokens, k)?, "token_expert_indices")?])
}

/// The sum of the rows of a token's experts: of two to four, every partial sum is rounded; of others the sum is in f32.
pub(super) fn moe_sum(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("input")?);
    let ty = b.ty(x);
    let [tokens, experts, lanes] = ty.shape.as_slice() else {
        return Err(call.refused("input", "other than three axes"));
    };
    let Some(count) = experts.as_const() else { return Err(call.refused("input", "an unknown number of experts")) };
    if !SUMMED_BY_STEPS.contains(&count) {
        let sum = reduced(call, ReduceOp::Add, wide(call, "input")?, 1)?;
        return Ok(vec![shaped(call, b.cast(sum, ty.dtype)?, "output")?]);
    }
    let row = |i: i64| -> One {
        let part = Prim::Slice { axis: 1, start: Dim::constant(i), end: Dim::constant(i + 1), step: 1 };
        Ok(b.reshape(b.prim(part, &[x])?, vec![tokens.clone(), lanes.clone()])?)
    };
    let mut sum = b.add(b.float(ty.dtype, 0.0)?, row(0)?)?;
    for i in 1..count {
        sum = b.add(sum, row(i)?)?;
    }
    Ok(vec![shaped(call, sum, "output")?])
}

/// Logits of tokens that were seen are divided by a penalty where they are positive, and multiplied elsewhere.
pub(super) fn apply_repetition_penalties(call: &Call<'_>) -> Imported {
    let (b, logits) = (call.b, call.tensor("logits")?);
    let dtype = b.dtype(logits);
    let penalty = call.tensor("repetition_penalties")?;
    if b.dtype(penalty) != dtype {
        return Err(call.refused("repetition_penalties", &format!("the logits are {dtype}")));
    }
    let penalty = b.reshape(penalty, vec![b.ty(penalty).elements(), Dim::constant(1)])?;
    let seen = b.map(ScalarFn::Or, &[call.tensor("prompt_mask")?, call.tensor("output_mask")?])?;
    let positive = b.map(ScalarFn::Gt, &[logits, b.float(dtype, 0.0)?])?;
    let changed = [positive, b.div(logits, penalty)?, b.mul(logits, penalty)?];
    Ok(vec![b.map(ScalarFn::Select, &[seen, b.map(ScalarFn::Select, &changed)?, logits])?])
}
