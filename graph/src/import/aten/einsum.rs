//! Sums over named axes of one or two tensors.

use std::collections::BTreeMap;

use super::super::call::{Call, Imported, Refusal};
use super::layout::permuted;
use super::matmul;
use super::promote::{convert, is_reduced};
use super::reduce::over;
use crate::dim::{Dim, product};
use crate::graph::Value;
use crate::prim::ReduceOp;
use fusewright_abi::DType;

/// Axes by name.
type Labels = Vec<char>;

/// The axes of an operand that `...` stands for.
fn unnamed_axes(part: &str, rank: usize) -> Result<usize, Refusal> {
    let named = part.replacen("...", "", 1).chars().count();
    match rank.checked_sub(named) {
        Some(n) if n == 0 || part.contains("...") => Ok(n),
        _ => Err("other axes than the equation names".into()),
    }
}

/// The labels of one tensor; `...` stands for axes with these numbers, whose labels sort before all others.
fn labels(part: &str, unnamed: std::ops::Range<usize>) -> Result<Labels, Refusal> {
    let number = |n: usize| u8::try_from(n).ok().filter(|&n| n < b'A').map(char::from);
    let dots: Option<String> = unnamed.map(number).collect();
    let dots = dots.ok_or("more axes without names than there are labels")?;
    let named = part.replacen("...", "", 1);
    if !named.chars().all(|c| c.is_ascii_alphabetic()) {
        return Err(format!("the axes `{part}`").into());
    }
    Ok(part.replacen("...", &dots, 1).chars().collect())
}

/// The labels of every operand, of these ranks, and of the result.
fn parsed(equation: &str, ranks: &[usize]) -> Result<(Vec<Labels>, Labels), Refusal> {
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = text.split_once("->").map_or((text.as_str(), None), |(l, r)| (l, Some(r)));
    let parts: Vec<&str> = left.split(',').collect();
    if parts.len() != ranks.len() {
        return Err("other operands than the equation names".into());
    }
    let unnamed =
        parts.iter().zip(ranks).map(|(part, &rank)| unnamed_axes(part, rank)).collect::<Result<Vec<_>, _>>()?;
    let most = unnamed.iter().copied().max().unwrap_or(0);
    // Axes without names are the last of as many as the operand with the most of them has.
    let operands = parts.iter().zip(&unnamed).map(|(part, &n)| labels(part, most - n..most));
    let operands = operands.collect::<Result<Vec<Labels>, Refusal>>()?;
    let result = match right {
        Some(result) => labels(result, 0..most)?,
        None => {
            let mut counts: BTreeMap<char, usize> = BTreeMap::new();
            operands.iter().flatten().for_each(|&label| *counts.entry(label).or_default() += 1);
            // Sorted as the framework does: axes without names, capitals, small letters.
            let free = |label: char, n: usize| n == 1 || !label.is_ascii_alphabetic();
            counts.into_iter().filter(|&(label, n)| free(label, n)).map(|(label, _)| label).collect()
        }
    };
    let repeats = |labels: &Labels| labels.iter().enumerate().any(|(i, l)| labels[..i].contains(l));
    if operands.iter().any(repeats) || repeats(&result) {
        return Err("one name for several axes of a tensor".into());
    }
    if result.iter().any(|l| !operands.iter().any(|o| o.contains(l))) {
        return Err("a result axis that no operand has".into());
    }
    Ok((operands, result))
}

/// The axes of `x`, named `labels`, in the order of `wanted`, which are all of them.
fn ordered(call: &Call<'_>, x: Value, labels: &Labels, wanted: &Labels) -> Result<Value, Refusal> {
    let place = |label: &char| labels.iter().position(|l| l == label);
    let perm: Option<Vec<usize>> = wanted.iter().map(place).collect();
    let perm = perm.filter(|p| p.len() == labels.len()).ok_or("axes that only one operand has, and not the result")?;
    Ok(permuted(call, x, perm)?[0])
}

pub(super) fn einsum(call: &Call<'_>) -> Imported {
    let tensors = call.tensors("tensors")?;
    let ranks: Vec<usize> = tensors.iter().map(|&x| call.b.ty(x).rank()).collect();
    let (labels, result) = parsed(call.word("equation")?, &ranks)?;
    match (labels.as_slice(), tensors.as_slice()) {
        ([axes], &[x]) => one(call, x, axes, &result),
        ([left, right], &[x, y]) => two(call, [x, y], [left, right], &result),
        _ => Err("more than two operands".into()),
    }
}

fn one(call: &Call<'_>, x: Value, axes: &Labels, result: &Labels) -> Imported {
    let b = call.b;
    let summed: Vec<usize> = (0..axes.len()).filter(|&i| !result.contains(&axes[i])).collect();
    let dtype = b.dtype(x);
    if !summed.is_empty() && !dtype.is_float() {
        return Err("a sum of integers".into());
    }
    let wide = if summed.is_empty() || !is_reduced(dtype) { x } else { convert(b, x, DType::F32)? };
    let sum = convert(b, over(call, ReduceOp::Add, wide, &summed)?, dtype)?;
    let left: Labels = axes.iter().copied().filter(|l| result.contains(l)).collect();
    let shape = b.ty(x).shape.into_iter().zip(axes).filter(|(_, l)| result.contains(l)).map(|(d, _)| d);
    let sum = b.reshape(sum, shape.collect())?;
    Ok(vec![ordered(call, sum, &left, result)?])
}

fn two(call: &Call<'_>, [x, y]: [Value; 2], [left, right]: [&Labels; 2], result: &Labels) -> Imported {
    let b = call.b;
    let pick = |from: &Labels, keep: &dyn Fn(&char) -> bool| -> Labels { from.iter().copied().filter(keep).collect() };
    let batch = pick(result, &|l| left.contains(l) && right.contains(l));
    let summed = pick(left, &|l| right.contains(l) && !result.contains(l));
    let rows = pick(result, &|l| left.contains(l) && !right.contains(l));
    let columns = pick(result, &|l| right.contains(l) && !left.contains(l));
    let of = |parts: [&Labels; 3]| -> Labels { parts.into_iter().flatten().copied().collect() };
    let x = ordered(call, x, left, &of([&batch, &rows, &summed]))?;
    let y = ordered(call, y, right, &of([&batch, &summed, &columns]))?;
    let (xs, ys) = (b.ty(x).shape, b.ty(y).shape);
    let (m, k) = (batch.len() + rows.len(), batch.len() + summed.len());
    let one = Dim::constant(1);
    let matrix =
        |middle: Dim, last: Dim| -> Vec<Dim> { xs[..batch.len()].iter().cloned().chain([middle, last]).collect() };
    let shape: Vec<Dim> = xs[..m].iter().chain(&ys[k..]).cloned().collect();
    let product = if summed.is_empty() {
        let (x, y) = (b.reshape(x, matrix(product(&xs[batch.len()..m]), one.clone()))?, y);
        b.mul(x, b.reshape(y, matrix(one, product(&ys[k..])))?)?
    } else {
        let x = b.reshape(x, matrix(product(&xs[batch.len()..m]), product(&xs[m..])))?;
        let y = b.reshape(y, matrix(product(&ys[batch.len()..k]), product(&ys[k..])))?;
        matmul::product(call, x, y, false, None)?[0]
    };
    Ok(vec![ordered(call, b.reshape(product, shape)?, &of([&batch, &rows, &columns]), result)?])
}
