//! Products of more than two matrices or axes, written as products of two.

use super::super::call::{Call, Imported, Operand, Refusal, wrap_axis};
use super::layout::permuted;
use super::matmul::product;
use super::promote::{convert, result_type};
use crate::dim::{self, Dim};
use crate::graph::Value;

type One = Result<Value, Refusal>;

fn times(call: &Call<'_>, a: Value, b: Value) -> One {
    Ok(product(call, a, b, false, None)?[0])
}

/// Matrices multiplied in an order of least work; where sizes that only a call knows decide, from the left.
pub(super) fn chain(call: &Call<'_>, argument: &str) -> Imported {
    let b = call.b;
    let mut factors = call.tensors(argument)?;
    let [first, .., last] = factors.as_slice() else { return Ok(factors) };
    let (line, column) = (b.ty(*first).rank() == 1, b.ty(*last).rank() == 1);
    let one = Dim::constant(1);
    if line {
        factors[0] = b.reshape(factors[0], vec![one.clone(), b.ty(factors[0]).elements()])?;
    }
    if column {
        let at = factors.len() - 1;
        factors[at] = b.reshape(factors[at], vec![b.ty(factors[at]).elements(), one])?;
    }
    if factors.iter().any(|&x| b.ty(x).rank() != 2) {
        return Err("other than matrices".into());
    }
    let y = match order(call, &factors) {
        Some(splits) => split(call, &factors, &splits, [0, factors.len() - 1])?,
        None => factors[1..].iter().try_fold(factors[0], |x, &next| times(call, x, next))?,
    };
    Ok(vec![b.reshape(y, call.out()?.shape.clone())?])
}

pub(super) fn multi_dot(call: &Call<'_>) -> Imported {
    chain(call, "tensors")
}

pub(super) fn chain_matmul(call: &Call<'_>) -> Imported {
    chain(call, "matrices")
}

/// Behind which factor each run of factors is split for the least number of products of numbers; `None` if that depends
/// on sizes of a call. Of equal ones the first is taken, of three factors the one from the left.
fn order(call: &Call<'_>, factors: &[Value]) -> Option<Vec<Vec<usize>>> {
    let mut sizes: Vec<Dim> = factors.iter().map(|&x| call.b.ty(x).shape[0].clone()).collect();
    sizes.push(call.b.ty(*factors.last()?).shape[1].clone());
    let sizes: Vec<i128> = sizes.iter().map(|d| d.as_const().map(i128::from)).collect::<Option<_>>()?;
    let n = factors.len();
    let (mut least, mut splits) = (vec![vec![0_i128; n]; n], vec![vec![0; n]; n]);
    for length in 1..n {
        for from in 0..n - length {
            let to = from + length;
            let cost = |at: usize| {
                let joined = sizes[from].saturating_mul(sizes[at + 1]).saturating_mul(sizes[to + 1]);
                least[from][at].saturating_add(least[at + 1][to]).saturating_add(joined)
            };
            let best = if n == 3 {
                (from..to).rev().min_by_key(|&at| cost(at))
            } else {
                (from..to).min_by_key(|&at| cost(at))
            };
            splits[from][to] = best?;
            least[from][to] = cost(splits[from][to]);
        }
    }
    Some(splits)
}

fn split(call: &Call<'_>, factors: &[Value], splits: &[Vec<usize>], [from, to]: [usize; 2]) -> One {
    if from == to {
        return Ok(factors[from]);
    }
    let at = splits[from][to];
    let left = split(call, factors, splits, [from, at])?;
    times(call, left, split(call, factors, splits, [at + 1, to])?)
}

/// A power of square matrices by repeated squaring, up to the third by one product after the other.
pub(super) fn matrix_power(call: &Call<'_>) -> Imported {
    let (x, mut n) = (call.tensor("self")?, call.int("n")?);
    if n < 1 {
        return Err(format!("the power {n}").into());
    }
    if n == 3 {
        return Ok(vec![times(call, times(call, x, x)?, x)?]);
    }
    let (mut square, mut power) = (x, None);
    loop {
        if n % 2 == 1 {
            power = Some(power.map_or(Ok(square), |power| times(call, power, square))?);
        }
        n /= 2;
        if n == 0 {
            return Ok(vec![power.ok_or("the power 0")?]);
        }
        square = times(call, square, square)?;
    }
}

/// Sums of products over axes of both operands; the others stay, those of the first in front.
fn contracted(call: &Call<'_>, [x, y]: [Value; 2], [of_x, of_y]: [&[usize]; 2]) -> Imported {
    let b = call.b;
    let (left, right) = (b.ty(x).shape, b.ty(y).shape);
    let kept = |rank: usize, gone: &[usize]| (0..rank).filter(|axis| !gone.contains(axis)).collect::<Vec<_>>();
    let (rows, columns) = (kept(left.len(), of_x), kept(right.len(), of_y));
    let extent = |shape: &[Dim], axes: &[usize]| dim::product(axes.iter().map(|&axis| &shape[axis]));
    let x = permuted(call, x, rows.iter().chain(of_x).copied().collect())?[0];
    let x = b.reshape(x, vec![extent(&left, &rows), extent(&left, of_x)])?;
    let y = permuted(call, y, of_y.iter().chain(&columns).copied().collect())?[0];
    let y = b.reshape(y, vec![extent(&right, of_y), extent(&right, &columns)])?;
    Ok(vec![b.reshape(times(call, x, y)?, call.out()?.shape.clone())?])
}

/// Sums of products over the last axes.
pub(super) fn inner(call: &Call<'_>) -> Imported {
    let pair = [call.tensor("self")?, call.tensor("other")?];
    let [left, right] = pair.map(|x| call.b.ty(x).rank());
    let (Some(left), Some(right)) = (left.checked_sub(1), right.checked_sub(1)) else {
        return Err("a 0-d operand".into());
    };
    contracted(call, pair, [&[left], &[right]])
}

pub(super) fn tensordot(call: &Call<'_>) -> Imported {
    let pair = [call.tensor("self")?, call.tensor("other")?];
    let axes = |name: &str, x: Value| -> Result<Vec<usize>, Refusal> {
        call.ints(name)?.into_iter().map(|axis| wrap_axis(axis, call.b.ty(x).rank())).collect()
    };
    let (of_x, of_y) = (axes("dims_self", pair[0])?, axes("dims_other", pair[1])?);
    if of_x.len() != of_y.len() {
        return Err("as many axes of both operands are wanted".into());
    }
    contracted(call, pair, [&of_x, &of_y])
}

/// Every element of one tensor times a whole other one, in its place.
pub(super) fn kron(call: &Call<'_>) -> Imported {
    let (b, pair) = (call.b, [call.tensor("self")?, call.tensor("other")?]);
    let dtype = result_type(call, &pair.map(Operand::Tensor))?;
    let rank = pair.map(|x| b.ty(x).rank()).into_iter().max().unwrap_or(0);
    let spread = |x: Value, behind: bool| -> One {
        let shape = b.ty(x).shape;
        let missing = rank - shape.len();
        let padded = std::iter::repeat_n(Dim::constant(1), missing).chain(shape);
        let one = Dim::constant(1);
        let pairs = padded.flat_map(|d| if behind { [one.clone(), d] } else { [d, one.clone()] });
        Ok(b.reshape(convert(b, x, dtype)?, pairs.collect())?)
    };
    let y = b.mul(spread(pair[0], false)?, spread(pair[1], true)?)?;
    Ok(vec![b.reshape(y, call.out()?.shape.clone())?])
}
