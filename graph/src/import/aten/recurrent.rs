//! One step of recurrent layers: gates of an input and of the state before, every op rounded to the dtype as in the
//! framework.

use super::super::call::{Call, Imported, Refusal};
use super::activation::positive;
use super::layout::cut;
use super::matmul::product;
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::ops::{Composite, Sigmoid};
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// The input and a state, each times its weights.
fn gates(call: &Call<'_>, state: Value) -> Result<[Value; 2], Refusal> {
    let x = call.tensor("input")?;
    let of = |x, weight: &str, bias: &str| -> One {
        Ok(product(call, x, call.tensor(weight)?, true, call.tensor_or_none(bias)?)?[0])
    };
    if call.b.ty(x).rank() != 2 || call.b.ty(state).rank() != 2 {
        return Err("a step without a batch".into());
    }
    Ok([of(x, "w_ih", "b_ih")?, of(state, "w_hh", "b_hh")?])
}

/// So many equal parts of the last axis.
fn parts<const N: usize>(call: &Call<'_>, x: Value) -> Result<[Value; N], Refusal> {
    let last = call.b.ty(x).rank() - 1;
    let extent = call.b.ty(x).shape[last].as_const().filter(|n| n % N as i64 == 0);
    let size = extent.ok_or("gates of unequal extents")? / N as i64;
    let part = |i: usize| {
        let start = i as i64 * size;
        cut(call, x, last, [Dim::constant(start), Dim::constant(start + size)], 1)
    };
    let parts = (0..N).map(part).collect::<Result<Vec<_>, _>>()?;
    parts.try_into().map_err(|_| "gates of unequal extents".into())
}

fn sigmoid(b: &Builder, x: Value) -> One {
    Ok(b.composite(Composite::new(Sigmoid), &[x])?[0])
}

fn tanh(b: &Builder, x: Value) -> Result<Value, TypeError> {
    b.map(ScalarFn::Tanh, &[x])
}

/// `n + z · (h − n)`, where the new gate `n` has the state behind the reset gate.
pub(super) fn gru_cell(call: &Call<'_>) -> Imported {
    let (b, h) = (call.b, call.tensor("hx")?);
    let [of_input, of_state] = gates(call, h)?;
    let [reset, update, new] = parts::<3>(call, of_input)?;
    let [state_reset, state_update, state_new] = parts::<3>(call, of_state)?;
    let reset = sigmoid(b, b.add(state_reset, reset)?)?;
    let update = sigmoid(b, b.add(state_update, update)?)?;
    let new = tanh(b, b.add(new, b.mul(state_new, reset)?)?)?;
    Ok(vec![b.add(b.mul(b.sub(h, new)?, update)?, new)?])
}

/// The output and the cell: `o · tanh(c′)` of `c′ = f · c + i · g`.
pub(super) fn lstm_cell(call: &Call<'_>) -> Imported {
    let b = call.b;
    let &[h, c] = call.tensors("hx")?.as_slice() else { return Err("a state without a cell".into()) };
    let [of_input, of_state] = gates(call, h)?;
    let [input, forget, new, output] = parts::<4>(call, b.add(of_state, of_input)?)?;
    let (input, forget, output) = (sigmoid(b, input)?, sigmoid(b, forget)?, sigmoid(b, output)?);
    let cell = b.add(b.mul(forget, c)?, b.mul(input, tanh(b, new)?)?)?;
    Ok(vec![b.mul(output, tanh(b, cell)?)?, cell])
}

pub(super) fn rnn_tanh_cell(call: &Call<'_>) -> Imported {
    let [of_input, of_state] = gates(call, call.tensor("hx")?)?;
    Ok(vec![tanh(call.b, call.b.add(of_input, of_state)?)?])
}

pub(super) fn rnn_relu_cell(call: &Call<'_>) -> Imported {
    let [of_input, of_state] = gates(call, call.tensor("hx")?)?;
    Ok(vec![positive(call, call.b.add(of_input, of_state)?)?])
}
