//! Prefixes of lines combined: cumulative sums, products, extremes and sums of exponentials.
//!
//! Each prefix of a short line is one masked reduction: exact on integers, free in order on floats. That is work of the
//! square of its length, so longer lines are taken in blocks: a prefix is that of its block, and all blocks before.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Refusal};
use super::hyperbolic::logaddexp_of;
use super::index;
use super::layout::{expand_to, iota, iota_of, permuted};
use super::promote::{convert, is_reduced};
use super::reduce::{over, terms};
use super::statistics::log_sum_exp;
use crate::dim::Dim;
use crate::graph::Value;
use crate::prim::{Literal, NanRule, Prim, ReduceOp};
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// Lines up to this long are no blocks.
const SHORT: i64 = 32;
/// Blocks up to so many are not taken in blocks again. What each of them is a sum of is computed, not read.
const FEW: i64 = 32;
/// Elements of a block.
const BLOCK: i64 = 16;

/// Whether the element that a prefix belongs to is part of it.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Within,
    Behind,
}

/// Elements are combined by one of these.
#[derive(Clone, Copy)]
enum Fold {
    By(ReduceOp),
    /// The logarithm of the sum of exponentials, in f32.
    LogSumExp,
}

impl Fold {
    /// Gives the element that leaves all others as they are.
    fn neutral(self, dtype: DType) -> Literal {
        match self {
            Fold::By(op) => op.start(dtype),
            Fold::LogSumExp => ReduceOp::Max.start(dtype),
        }
    }

    /// All elements along an axis, which stays.
    fn all(self, call: &Call<'_>, x: Value, axis: usize) -> One {
        match self {
            Fold::By(op) => over(call, op, x, &[axis]),
            Fold::LogSumExp => log_sum_exp(call, x, &[axis]),
        }
    }

    fn two(self, call: &Call<'_>, x: Value, y: Value) -> One {
        match self {
            Fold::By(op) => Ok(call.b.map(op.step(NanRule::Propagate), &[x, y])?),
            Fold::LogSumExp => logaddexp_of(call.b, x, y),
        }
    }
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
    of_lines(call, Fold::By(ReduceOp::Add), line, End::Within, SHORT)
}

/// All prefixes along the axis of a call combined.
fn along(call: &Call<'_>, op: ReduceOp, x: Value) -> Imported {
    let (x, to) = terms(call, x)?;
    folded(call, Fold::By(op), x, to)
}

fn folded(call: &Call<'_>, fold: Fold, x: Value, to: DType) -> Imported {
    let Some(perm) = to_last(call, x)? else { return Ok(vec![convert(call.b, x, to)?]) };
    let lines = permuted(call, x, perm.clone())?[0];
    let combined = permuted(call, of_lines(call, fold, lines, End::Within, SHORT)?, perm)?[0];
    Ok(vec![convert(call.b, combined, to)?])
}

/// The permutation that swaps the axis of a call with the last, if there are axes.
fn to_last(call: &Call<'_>, x: Value) -> Result<Option<Vec<usize>>, Refusal> {
    let rank = call.b.ty(x).rank();
    if rank == 0 {
        return Ok(None);
    }
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(call.axis("dim", rank)?, rank - 1);
    Ok(Some(perm))
}

/// In f32, and rounded once.
pub(super) fn logcumsumexp(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let dtype = b.dtype(x);
    if dtype != DType::F32 && !is_reduced(dtype) {
        return Err(format!("is not taken apart on {dtype}").into());
    }
    folded(call, Fold::LogSumExp, convert(b, x, DType::F32)?, dtype)
}

pub(super) fn cummax(call: &Call<'_>) -> Imported {
    extremes(call, ReduceOp::Max)
}

pub(super) fn cummin(call: &Call<'_>) -> Imported {
    extremes(call, ReduceOp::Min)
}

/// The extremes of all prefixes, and where each was met last: of equals the last, so that of zeros it has the sign of
/// that, and of NaN, which beats all numbers, the last.
fn extremes(call: &Call<'_>, op: ReduceOp) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let Some(perm) = to_last(call, x)? else { return Ok(vec![x, b.int(DType::I64, 0)?]) };
    let lines = permuted(call, x, perm.clone())?[0];
    let (ty, last) = (b.ty(lines), perm.len() - 1);
    let reached = of_lines(call, Fold::By(op), lines, End::Within, SHORT)?;
    // An element that no earlier one beats; the first of a line is one.
    let mut met = b.map(ScalarFn::Eq, &[lines, reached])?;
    if ty.dtype.is_float() {
        met = b.map(ScalarFn::Or, &[met, b.map(ScalarFn::Ne, &[lines, lines])?])?;
    }
    let here = iota(call, &ty.shape[last], last, ty.rank())?;
    let place = b.map(ScalarFn::Select, &[met, here, b.int(DType::I64, 0)?])?;
    let place = of_lines(call, Fold::By(ReduceOp::Max), place, End::Within, SHORT)?;
    let values = if ty.dtype.is_float() { index::along(call, lines, last, place)?[0] } else { reached };
    [values, place].into_iter().map(|v| Ok(permuted(call, v, perm.clone())?[0])).collect()
}

/// All prefixes along the last axis, taken in blocks if it is longer than `short`.
fn of_lines(call: &Call<'_>, fold: Fold, lines: Value, end: End, short: i64) -> One {
    let (b, ty) = (call.b, call.b.ty(lines));
    let Some((extent, before)) = ty.shape.split_last() else { return Ok(lines) };
    if extent.as_const().is_some_and(|n| n <= short) {
        return masked(call, fold, lines, end);
    }
    let block = Dim::constant(BLOCK);
    let blocks = extent.ceil_div(&block);
    let filling = &(&blocks * &block) - extent;
    let with = |tail: &[&Dim]| before.iter().chain(tail.iter().copied()).cloned().collect::<Vec<Dim>>();
    let mut filled = lines;
    if filling != Dim::constant(0) {
        let neutral = b.prim(Prim::Literal(fold.neutral(ty.dtype)), &[])?;
        filled = b.cat(&[lines, expand_to(call, neutral, &with(&[&filling]))?], ty.rank() - 1)?;
    }
    let parts = b.reshape(filled, with(&[&blocks, &block]))?;
    let whole = b.reshape(fold.all(call, parts, ty.rank())?, with(&[&blocks]))?;
    // Of a line whose length is not known, the blocks are no blocks again.
    let earlier = match blocks.as_const() {
        Some(_) => of_lines(call, fold, whole, End::Behind, FEW)?,
        None => masked(call, fold, whole, End::Behind)?,
    };
    let earlier = b.reshape(earlier, with(&[&blocks, &Dim::constant(1)]))?;
    let combined = fold.two(call, earlier, masked(call, fold, parts, end)?)?;
    let combined = b.reshape(combined, with(&[&(&blocks * &block)]))?;
    Ok(b.slice(combined, ty.rank() - 1, Dim::constant(0), extent.clone())?)
}

/// All prefixes along the last axis, each as one reduction of the line.
fn masked(call: &Call<'_>, fold: Fold, lines: Value, end: End) -> One {
    let (b, ty) = (call.b, call.b.ty(lines));
    let Some((extent, before)) = ty.shape.split_last() else { return Ok(lines) };
    let rank = ty.rank();
    let row = [before, &[Dim::constant(1), extent.clone()]].concat();
    let terms = b.reshape(lines, row)?;
    // Processors compare most of these integers at once.
    let place = |axis| iota_of(call, DType::I32, extent, axis, rank + 1);
    let (i, j) = (place(rank - 1)?, place(rank)?);
    let inside = b.map(if end == End::Within { ScalarFn::Le } else { ScalarFn::Lt }, &[j, i])?;
    let neutral = b.prim(Prim::Literal(fold.neutral(ty.dtype)), &[])?;
    let combined = fold.all(call, b.map(ScalarFn::Select, &[inside, terms, neutral])?, rank)?;
    Ok(b.reshape(combined, ty.shape)?)
}
