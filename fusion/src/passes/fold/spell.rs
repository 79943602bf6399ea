//! Constants that are not the same everywhere, written with few nodes, and gathers at places that are known.

use std::collections::BTreeMap;

use fusewright_graph::tensor::Tensor;
use fusewright_graph::{Builder, DType, Dim, Literal, Op, Prim, ScalarFn, TypeError, Value};

use super::value::{Known, element};

/// Most runs of equal elements, or of neighbouring places, that something is written with.
const RUNS: usize = 4;

/// A node that computes a constant, written without what it was computed from, if that takes few nodes. Functions of
/// indices stay, since they are how such constants are written.
pub(super) fn constant(b: &Builder, op: &Op, tensor: &Tensor) -> Result<Option<Value>, TypeError> {
    let written = match op {
        Op::Prim(prim) => matches!(
            prim,
            Prim::Map(_)
                | Prim::Cast { .. }
                | Prim::Iota { .. }
                | Prim::Reshape { .. }
                | Prim::Expand { .. }
                | Prim::Cat { .. }
        ),
        Op::Composite(_) => false,
    };
    let Some((axis, elements)) = along_one_axis(tensor).filter(|_| !written) else { return Ok(None) };
    let shape: Vec<Dim> = tensor.shape().iter().map(|&extent| Dim::constant(extent as i64)).collect();
    if let Some((first, step)) = arithmetic(&elements) {
        let dtype = tensor.dtype();
        let mut value = b.prim(Prim::Iota { dtype, shape, axis }, &[])?;
        if step != 1 {
            value = b.mul(value, b.int(dtype, step)?)?;
        }
        return if first == 0 { Ok(Some(value)) } else { b.add(value, b.int(dtype, first)?).map(Some) };
    }
    let runs = runs(&elements, |a, b| a == b);
    if runs.len() > RUNS {
        return Ok(None);
    }
    let lane = b.prim(Prim::Iota { dtype: DType::I32, shape, axis }, &[])?;
    let literal = |at: usize| b.prim(Prim::Literal(elements[at]), &[]);
    let mut runs = runs.into_iter().rev();
    let Some((last, _)) = runs.next() else { return Ok(None) };
    let mut value = None;
    for (start, end) in runs {
        let before = b.map(ScalarFn::Lt, &[lane, b.int(DType::I32, end as i64)?])?;
        let (own, behind) = (literal(start)?, value.map_or_else(|| literal(last), Ok)?);
        value = Some(b.map(ScalarFn::Select, &[before, own, behind])?);
    }
    Ok(value)
}

/// The axis along which a tensor changes, and its elements there, if it changes along one alone.
fn along_one_axis(tensor: &Tensor) -> Option<(usize, Vec<Literal>)> {
    let shape = tensor.shape();
    (0..shape.len()).filter(|&axis| shape[axis] > 1).find_map(|axis| {
        let stride: usize = shape[axis + 1..].iter().product();
        let at = |i: usize| i / stride % shape[axis];
        let alike = (0..tensor.len()).all(|i| tensor.code(i) == tensor.code(at(i) * stride));
        let elements = || (0..shape[axis]).map(|i| element(tensor, i * stride)).collect::<Option<Vec<Literal>>>();
        alike.then(elements).flatten().map(|elements| (axis, elements))
    })
}

/// The first number and the distance of numbers that are equally far apart.
fn arithmetic(elements: &[Literal]) -> Option<(i64, i64)> {
    let number = |literal: &Literal| match literal {
        Literal::Int(dtype, v) if *dtype != DType::Bool => Some(*v),
        _ => None,
    };
    let numbers = elements.iter().map(number).collect::<Option<Vec<i64>>>()?;
    let (first, step) = (*numbers.first()?, numbers.get(1)?.checked_sub(numbers[0])?);
    let alike = numbers.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step));
    (alike && step != 0).then_some((first, step))
}

/// Where runs of elements begin and end, each like the one before it.
fn runs<T>(elements: &[T], alike: impl Fn(&T, &T) -> bool) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for i in 0..elements.len() {
        match runs.last_mut() {
            Some((_, end)) if alike(&elements[i - 1], &elements[i]) => *end = i + 1,
            _ => runs.push((i, i + 1)),
        }
    }
    runs
}

/// A gather at known places, as slices.
pub(super) fn gathered(
    b: &Builder,
    op: &Op,
    operands: &[Value],
    known: &BTreeMap<Value, Known>,
) -> Result<Option<Value>, TypeError> {
    let (Op::Prim(Prim::Gather { axis }), &[x, places]) = (op, operands) else { return Ok(None) };
    let Some(places) = known.get(&places).and_then(|known| numbers(known, &b.ty(places).shape)) else {
        return Ok(None);
    };
    let inside = |n: &i64| places.iter().all(|at| (0..*n).contains(at));
    let Some(extent) = b.ty(x).shape[*axis].as_const().filter(inside) else { return Ok(None) };
    let cut = |from: i64, last: i64, step: i64| {
        // Every n-th to the end of the axis is written with that end.
        let (start, end) = (Dim::constant(from), Dim::constant(extent.min(last + step)));
        b.prim(Prim::Slice { axis: *axis, start, end, step }, &[x])
    };
    if let &[first, second, ..] = places.as_slice()
        && second > first
        && places.windows(2).all(|pair| pair[1] - pair[0] == second - first)
    {
        return cut(first, places[places.len() - 1], second - first).map(Some);
    }
    let runs = runs(&places, |a, b| a + 1 == *b);
    if let Some((count, each, times)) = repeated(&places) {
        let part = if count == extent { x } else { cut(places[0], places[0] + count - 1, 1)? };
        return spread(b, part, *axis, [times, count, each]).map(Some);
    }
    if runs.is_empty() || runs.len() > RUNS {
        return Ok(None);
    }
    let parts = runs.into_iter().map(|(start, end)| cut(places[start], places[end - 1], 1));
    let parts = parts.collect::<Result<Vec<Value>, TypeError>>()?;
    if let &[part] = parts.as_slice() { Ok(Some(part)) } else { b.cat(&parts, *axis).map(Some) }
}

/// How many neighbouring places come how often each, one after the other, and how often all of them: 0 0 1 1 0 0 1 1
/// are two, twice each, two times.
fn repeated(places: &[i64]) -> Option<(i64, i64, i64)> {
    let each = places.iter().take_while(|&&at| at == places[0]).count();
    let rises = |pair: &[i64]| pair[1] == pair[0] + 1;
    let heads: Vec<i64> = places.iter().copied().step_by(each.max(1)).collect();
    let count = 1 + heads.windows(2).take_while(|pair| rises(pair)).count();
    let expected = |i: usize| places[0] + (i / each % count) as i64;
    let whole = each > 0 && places.len().is_multiple_of(each * count);
    let found = whole && (0..places.len()).all(|i| places[i] == expected(i));
    let number = |n: usize| i64::try_from(n).ok();
    let (count, each, times) = (number(count)?, number(each)?, number(places.len() / (each * count).max(1))?);
    (found && each * times > 1).then_some((count, each, times))
}

/// A value with its elements along an axis so often in all, and each of them so often one after the other.
fn spread(b: &Builder, x: Value, axis: usize, [times, count, each]: [i64; 3]) -> Result<Value, TypeError> {
    let shape = b.ty(x).shape;
    let with = |middle: &[i64]| {
        let middle = middle.iter().map(|&n| Dim::constant(n));
        shape[..axis].iter().cloned().chain(middle).chain(shape[axis + 1..].iter().cloned()).collect::<Vec<Dim>>()
    };
    let apart = b.reshape(x, with(&[1, count, 1]))?;
    let wide = b.prim(Prim::Expand { shape: with(&[times, count, each]) }, &[apart])?;
    b.reshape(wide, with(&[times * count * each]))
}

/// The numbers that a constant of one axis holds.
fn numbers(known: &Known, shape: &[Dim]) -> Option<Vec<i64>> {
    match known {
        Known::Tensor(tensor) => tensor.ints().map(<[i64]>::to_vec),
        Known::Same(Literal::Int(_, number)) => {
            let count = shape.first()?.as_const().filter(|&n| n <= RUNS as i64)?;
            Some(vec![*number; usize::try_from(count).ok()?])
        }
        Known::Same(Literal::Float(..)) => None,
    }
}
