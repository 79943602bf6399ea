//! Prefixes of lines combined: cumulative sums and products.
//!
//! Each prefix of a short line is one masked reduction: exact on integers, free in order on floats. That is work of the
//! square of its length, so longer lines are taken in blocks: a prefix is that of its block, and all blocks before.

use super::super::call::{Call, Imported, Refusal};
use super::layout::{expand_to, iota, permuted};
use super::promote::convert;
use super::reduce::{over, terms};
use crate::dim::Dim;
use crate::graph::Value;
use crate::prim::{NanRule, Prim, ReduceOp};
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// Lines up to this long are no blocks.
const SHORT: i64 = 256;
/// Blocks up to so many are not taken in blocks again. What each of them is a sum of is computed, not read.
const FEW: i64 = 64;
/// Elements of a block.
const BLOCK: i64 = 16;

/// Whether the element that a prefix belongs to is part of it.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Within,
    Behind,
}

pub(super) fn cumsum(call: &Call<'_>) -> Imported {
    along(call, ReduceOp::Add, call.tensor("self")?)
}

pub(super) fn cumprod(call: &Call<'_>) -> Imported {
    along(call, ReduceOp::Mul, call.tensor("self")?)
}

/// Sums of all prefixes along the axis of a call.
pub(super) fn cumulated(call: &Call<'_>, x: Value) -> Imported {
    along(call, ReduceOp::Add, x)
}

/// How many of a line of numbers 0 and 1 are 1, up to and with each.
pub(super) fn counted(call: &Call<'_>, line: Value) -> One {
    of_lines(call, ReduceOp::Add, line, End::Within, SHORT)
}

/// All prefixes along the axis of a call combined.
fn along(call: &Call<'_>, op: ReduceOp, x: Value) -> Imported {
    let (x, to) = terms(call, x)?;
    let rank = call.b.ty(x).rank();
    if rank == 0 {
        return Ok(vec![convert(call.b, x, to)?]);
    }
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(call.axis("dim", rank)?, rank - 1);
    let lines = permuted(call, x, perm.clone())?[0];
    let combined = permuted(call, of_lines(call, op, lines, End::Within, SHORT)?, perm)?[0];
    Ok(vec![convert(call.b, combined, to)?])
}

/// All prefixes along the last axis, taken in blocks if it is longer than `short`.
fn of_lines(call: &Call<'_>, op: ReduceOp, lines: Value, end: End, short: i64) -> One {
    let (b, ty) = (call.b, call.b.ty(lines));
    let Some((extent, before)) = ty.shape.split_last() else { return Ok(lines) };
    if extent.as_const().is_some_and(|n| n <= short) {
        return masked(call, op, lines, end);
    }
    let block = Dim::constant(BLOCK);
    let blocks = extent.ceil_div(&block);
    let filling = &(&blocks * &block) - extent;
    let with = |tail: &[&Dim]| before.iter().chain(tail.iter().copied()).cloned().collect::<Vec<Dim>>();
    let mut filled = lines;
    if filling != Dim::constant(0) {
        let neutral = b.prim(Prim::Literal(op.start(ty.dtype)), &[])?;
        filled = b.cat(&[lines, expand_to(call, neutral, &with(&[&filling]))?], ty.rank() - 1)?;
    }
    let parts = b.reshape(filled, with(&[&blocks, &block]))?;
    let whole = b.reshape(over(call, op, parts, &[ty.rank()])?, with(&[&blocks]))?;
    // Of a line whose length is not known, the blocks are no blocks again.
    let earlier = match blocks.as_const() {
        Some(_) => of_lines(call, op, whole, End::Behind, FEW)?,
        None => masked(call, op, whole, End::Behind)?,
    };
    let earlier = b.reshape(earlier, with(&[&blocks, &Dim::constant(1)]))?;
    let combined = b.map(op.step(NanRule::Propagate), &[earlier, masked(call, op, parts, end)?])?;
    let combined = b.reshape(combined, with(&[&(&blocks * &block)]))?;
    Ok(b.slice(combined, ty.rank() - 1, Dim::constant(0), extent.clone())?)
}

/// All prefixes along the last axis, each as one reduction of the line.
fn masked(call: &Call<'_>, op: ReduceOp, lines: Value, end: End) -> One {
    let (b, ty) = (call.b, call.b.ty(lines));
    let Some((extent, before)) = ty.shape.split_last() else { return Ok(lines) };
    let rank = ty.rank();
    let row = [before, &[Dim::constant(1), extent.clone()]].concat();
    let terms = b.reshape(lines, row)?;
    let (i, j) = (iota(call, extent, rank - 1, rank + 1)?, iota(call, extent, rank, rank + 1)?);
    let inside = b.map(if end == End::Within { ScalarFn::Le } else { ScalarFn::Lt }, &[j, i])?;
    let neutral = b.prim(Prim::Literal(op.start(ty.dtype)), &[])?;
    let combined = over(call, op, b.map(ScalarFn::Select, &[inside, terms, neutral])?, &[rank])?;
    Ok(b.reshape(combined, ty.shape)?)
}
