//! How a view is cut out of its buffer: layout ops that can be done again on new contents, and undone.

use fusewright_abi::DType;

use super::call::Refusal;
use crate::builder::{Builder, Built};
use crate::dim::Dim;
use crate::graph::{Op, Value};
use crate::prim::Prim;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// One step from a buffer to a view of it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// An op that only moves elements, or reads their bits as another dtype.
    Op(Prim),
    /// The elements at these places, an i64 line, of the buffer as a line, in a shape.
    Places { at: Value, shape: Vec<Dim>, distinct: bool },
}

impl Step {
    /// What the step takes out of a buffer.
    fn take(&self, b: &Builder, buffer: Value) -> Result<Value, Refusal> {
        Ok(match self {
            // Whose bits a NaN has depends on what made the buffer.
            Step::Op(Prim::Bitcast { to, .. }) => b.bitcast(buffer, *to)?,
            Step::Op(prim) => b.prim(prim.clone(), &[buffer])?,
            Step::Places { at, shape, .. } => {
                let taken = b.prim(Prim::Gather { axis: 0 }, &[line(b, buffer)?, *at])?;
                b.reshape(taken, shape.clone())?
            }
        })
    }
}

/// A value as one axis.
fn line(b: &Builder, x: Value) -> Built {
    b.reshape(x, vec![b.ty(x).elements()])
}

/// The layout ops that lead from one value to another, or `None` where something else lies between them.
pub(super) fn between(b: &Builder, from: Value, to: Value) -> Option<Vec<Step>> {
    let (mut steps, mut at) = (Vec::new(), to);
    while at != from {
        match b.definition(at)? {
            (
                Op::Prim(
                    step @ (Prim::Reshape { .. }
                    | Prim::Permute { .. }
                    | Prim::Slice { .. }
                    | Prim::Expand { .. }
                    | Prim::Bitcast { .. }),
                ),
                operands,
            ) => {
                steps.push(Step::Op(step));
                at = operands[0];
            }
            _ => return None,
        }
    }
    steps.reverse();
    Some(steps)
}

/// The view of other contents of the buffer.
pub(super) fn apply(b: &Builder, buffer: Value, steps: &[Step]) -> Result<Value, Refusal> {
    steps.iter().try_fold(buffer, |x, step| step.take(b, x))
}

/// The buffer after its view was overwritten by `contents`.
///
/// # Errors
/// A view in which one element of the buffer stands at several places.
pub(super) fn write_back(b: &Builder, buffer: Value, steps: &[Step], contents: Value) -> Result<Value, Refusal> {
    let Some((step, rest)) = steps.split_first() else { return Ok(contents) };
    if rest.is_empty() {
        return undo(b, buffer, step, contents);
    }
    let part = step.take(b, buffer)?;
    undo(b, buffer, step, write_back(b, part, rest, contents)?)
}

/// `buffer` with what `step` takes out of it replaced by `part`.
fn undo(b: &Builder, buffer: Value, step: &Step, part: Value) -> Result<Value, Refusal> {
    let whole = b.ty(buffer);
    let several = || Err("one element of the buffer stands at several places of the view".into());
    let step = match step {
        Step::Op(step) => step,
        Step::Places { distinct: false, .. } => return several(),
        Step::Places { at, .. } => {
            let written = b.prim(Prim::Scatter { axis: 0 }, &[line(b, buffer)?, *at, line(b, part)?])?;
            return Ok(b.reshape(written, whole.shape)?);
        }
    };
    match step {
        Prim::Bitcast { .. } => Ok(b.bitcast(part, whole.dtype)?),
        Prim::Permute { perm } => {
            let mut inverse = vec![0; perm.len()];
            perm.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
            Ok(b.prim(Prim::Permute { perm: inverse }, &[part])?)
        }
        Prim::Slice { axis, start, step: 1, .. } if is_one(&b.ty(part), *axis) && !is_one(&whole, *axis) => {
            chosen(b, buffer, part, *axis, start)
        }
        Prim::Slice { axis, start, end, step: 1 } => {
            let extent = &whole.shape[*axis];
            let mut parts = Vec::with_capacity(3);
            if start.as_const() != Some(0) {
                parts.push(b.slice(buffer, *axis, Dim::constant(0), start.clone())?);
            }
            parts.push(part);
            if end != extent {
                parts.push(b.slice(buffer, *axis, end.clone(), extent.clone())?);
            }
            if parts.len() == 1 { Ok(part) } else { Ok(b.cat(&parts, *axis)?) }
        }
        Prim::Slice { axis, start, step, .. } if *axis + 1 == whole.rank() => {
            match known(b, &whole, part, start, *step) {
                Some(lanes) => every_nth(b, buffer, part, lanes),
                None => scattered(b, buffer, part, *axis, (start, *step)),
            }
        }
        Prim::Slice { axis, start, step, .. } => scattered(b, buffer, part, *axis, (start, *step)),
        Prim::Expand { .. } if b.ty(part).elements() != whole.elements() => several(),
        _ => Ok(b.reshape(part, whole.shape)?),
    }
}

pub(super) fn number(b: &Builder, n: &Dim) -> Built {
    match n.as_const() {
        Some(n) => b.int(DType::I64, n),
        None => b.prim(Prim::SizeOf(n.clone()), &[]),
    }
}

fn is_one(ty: &TensorType, axis: usize) -> bool {
    ty.shape[axis].as_const() == Some(1)
}

/// A buffer in which what stands at one place of an axis is a part: a selection by places, as core graphs spell it. It
/// is a row program along any axis, where a concatenation cuts lanes.
fn chosen(b: &Builder, buffer: Value, part: Value, axis: usize, place: &Dim) -> Result<Value, Refusal> {
    let ty = b.ty(buffer);
    let behind = ty.rank() - axis - 1;
    let shape = [&[ty.shape[axis].clone()][..], &vec![Dim::constant(1); behind]].concat();
    let counted = b.prim(Prim::Iota { dtype: DType::I64, shape: shape[..1].to_vec(), axis: 0 }, &[])?;
    let here = b.map(ScalarFn::Eq, &[b.reshape(counted, shape)?, number(b, place)?])?;
    Ok(b.map(ScalarFn::Select, &[here, part, buffer])?)
}

/// Lanes `first + i·step` for `i < count` of a buffer of so many lanes.
#[derive(Clone, Copy)]
struct EveryNth {
    lanes: i64,
    count: i64,
    first: i64,
    step: i64,
}

/// The lanes that a part replaces, where all numbers are known and some are replaced.
fn known(b: &Builder, whole: &TensorType, part: Value, start: &Dim, step: i64) -> Option<EveryNth> {
    let lanes = whole.shape.last()?.as_const()?;
    let count = b.ty(part).shape.last()?.as_const().filter(|&n| n > 0)?;
    Some(EveryNth { lanes, count, first: start.as_const()?, step })
}

/// A buffer in which these lanes are those of a part, as a selection by lanes, which is a row program where a scatter
/// along lanes is none.
fn every_nth(b: &Builder, buffer: Value, part: Value, replaced: EveryNth) -> Result<Value, Refusal> {
    if replaced.step == PAIR && replaced.lanes == replaced.count * PAIR && is_made_of_lanes(b, buffer) {
        return paired(b, buffer, part, replaced.first);
    }
    let spread = match same_lanes(b, buffer, part, replaced) {
        Some(value) => value,
        None => spread(b, buffer, part, replaced)?,
    };
    let EveryNth { lanes, count, first, step } = replaced;
    let number = |n: i64| b.int(DType::I32, n);
    let lane = b.prim(Prim::Iota { dtype: DType::I32, shape: vec![Dim::constant(lanes)], axis: 0 }, &[])?;
    let turn = b.map(ScalarFn::Eq, &[b.map(ScalarFn::Rem, &[lane, number(step)?])?, number(first % step)?])?;
    let behind = b.map(ScalarFn::Ge, &[lane, number(first)?])?;
    let before = b.map(ScalarFn::Lt, &[lane, number(first + (count - 1) * step + 1)?])?;
    let chosen = b.map(ScalarFn::And, &[b.map(ScalarFn::And, &[turn, behind])?, before])?;
    Ok(b.map(ScalarFn::Select, &[chosen, spread, buffer])?)
}

/// Lanes of a pair.
const PAIR: i64 = 2;

/// Whether a buffer is one number everywhere, as new ones are, or has lanes that were joined.
fn is_made_of_lanes(b: &Builder, buffer: Value) -> bool {
    let made_by = |value: Value, wanted: fn(&Prim) -> bool| match b.definition(value) {
        Some((Op::Prim(prim), operands)) if wanted(&prim) => operands.first().copied().or(Some(value)),
        _ => None,
    };
    let fill = made_by(buffer, |prim| matches!(prim, Prim::Expand { .. }));
    let joined = made_by(buffer, |prim| matches!(prim, Prim::Reshape { .. }));
    fill.is_some_and(|of| made_by(of, |prim| matches!(prim, Prim::Literal(_))).is_some())
        || joined.is_some_and(|of| made_by(of, |prim| matches!(prim, Prim::Cat { .. })).is_some())
}

/// A buffer in which one lane of each pair is that of a part, as the two lanes joined: where both are written, nothing
/// reads the buffer any more.
fn paired(b: &Builder, buffer: Value, part: Value, first: i64) -> Result<Value, Refusal> {
    let whole = b.ty(buffer).shape;
    let last = whole.len();
    let lane = |x: Value| {
        let mut shape = b.ty(x).shape;
        shape.push(Dim::constant(1));
        b.reshape(x, shape)
    };
    let mut pairs = b.ty(part).shape;
    pairs.push(Dim::constant(PAIR));
    let other = b.slice(b.reshape(buffer, pairs)?, last, Dim::constant(1 - first), Dim::constant(PAIR - first))?;
    let new = lane(part)?;
    let joined = b.cat(&if first == 0 { [new, other] } else { [other, new] }, last)?;
    Ok(b.reshape(joined, whole)?)
}

/// The value of a buffer's type of which a part is the same lanes as those that it replaces.
fn same_lanes(b: &Builder, buffer: Value, part: Value, replaced: EveryNth) -> Option<Value> {
    let (Op::Prim(Prim::Slice { axis, start, step, .. }), operands) = b.definition(part)? else { return None };
    let alike = axis + 1 == b.ty(part).rank() && start.as_const() == Some(replaced.first) && step == replaced.step;
    (alike && b.ty(operands[0]) == b.ty(buffer)).then(|| operands[0])
}

/// A part with each of its lanes repeated, so that they stand where those of the buffer are to be replaced.
fn spread(b: &Builder, buffer: Value, part: Value, replaced: EveryNth) -> Result<Value, Refusal> {
    let EveryNth { lanes, count, first, step } = replaced;
    let last = b.ty(part).rank() - 1;
    let cut = |x, from: i64, to: i64| b.slice(x, last, Dim::constant(from), Dim::constant(to));
    let repeated = |x: Value, times: i64| {
        let mut shape = b.ty(x).shape;
        let lanes = std::mem::replace(&mut shape[last], Dim::constant(1));
        shape.insert(last, lanes.clone());
        let single = b.reshape(x, shape.clone())?;
        shape[last + 1] = Dim::constant(times);
        let spread = b.prim(Prim::Expand { shape: shape.clone() }, &[single])?;
        shape.truncate(last);
        shape.push(&lanes * &Dim::constant(times));
        b.reshape(spread, shape)
    };
    // Lane `first + i·step` stands where lane i is repeated, behind whole steps.
    let begin = first / step * step;
    let behind = lanes - begin - count * step;
    let mut parts = Vec::with_capacity(3);
    if begin > 0 {
        parts.push(cut(buffer, 0, begin)?);
    }
    if behind >= 0 {
        parts.push(repeated(part, step)?);
    } else {
        // The last lane is repeated as often as there is room.
        if count > 1 {
            parts.push(repeated(cut(part, 0, count - 1)?, step)?);
        }
        parts.push(repeated(cut(part, count - 1, count)?, step + behind)?);
    }
    if behind > 0 {
        parts.push(cut(buffer, lanes - behind, lanes)?);
    }
    if parts.len() == 1 { Ok(parts[0]) } else { Ok(b.cat(&parts, last)?) }
}

/// A buffer in which every `step`-th element of an axis from `start` on is that of a part.
fn scattered(
    b: &Builder,
    buffer: Value,
    part: Value,
    axis: usize,
    (start, step): (&Dim, i64),
) -> Result<Value, Refusal> {
    let shape = vec![b.ty(part).shape[axis].clone()];
    let count = b.prim(Prim::Iota { dtype: DType::I64, shape, axis: 0 }, &[])?;
    let first = number(b, start)?;
    let places = b.add(b.mul(count, b.int(DType::I64, step)?)?, first)?;
    Ok(b.prim(Prim::Scatter { axis }, &[buffer, places, part])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::{Symbols, run};
    use crate::tensor::Tensor;

    /// `new` into every `step`-th lane from `first` on of rows of `lanes` lanes, as a graph without scatters.
    fn written(lanes: i64, first: i64, step: i64, same: bool) -> (Vec<f64>, Vec<f64>) {
        let b = Builder::new("g");
        let row = |n: i64| TensorType::new(DType::F32, [2.into(), n.into()]);
        let buffer = b.input("x", row(lanes));
        let cut = Prim::Slice { axis: 1, start: first.into(), end: lanes.into(), step };
        let taken = (first..lanes).step_by(step as usize);
        let count = taken.clone().count();
        let given = b.input("y", row(if same { lanes } else { count as i64 }));
        let part = if same { b.prim(cut.clone(), &[given]).expect("types") } else { given };
        b.output(write_back(&b, buffer, &[Step::Op(cut)], part).expect("it is written"));
        let graph = b.finish();
        assert!(!graph.nodes().iter().any(|n| matches!(n.op, Op::Prim(Prim::Scatter { .. }))));
        let numbers = |from: f64, n: usize| (0..2 * n).map(|i| from + i as f64).collect::<Vec<f64>>();
        let (lanes, width) = (lanes as usize, if same { lanes as usize } else { count });
        let (old, new) = (numbers(0.0, lanes), numbers(100.0, width));
        let tensor = |v: &[f64]| Tensor::from_f64(DType::F32, &[2, v.len() / 2], v.to_vec()).expect("fits");
        let results = run(&graph, &[tensor(&old), tensor(&new)], &Symbols::new()).expect("runs");
        let mut expected = old;
        for row in 0..2 {
            for (i, lane) in taken.clone().enumerate() {
                expected[row * lanes + lane as usize] = new[row * width + if same { lane as usize } else { i }];
            }
        }
        (results[0].floats().expect("floats").to_vec(), expected)
    }

    #[test]
    fn what_stands_at_one_place_is_replaced_by_a_selection() {
        for axis in 0..3 {
            let b = Builder::new("g");
            let extents = [3usize, 4, 5];
            let ty = |axis| {
                let one = |i: usize| if Some(i) == axis { 1 } else { extents[i] as i64 };
                TensorType::new(DType::F32, (0..3).map(|i| one(i).into()))
            };
            let (buffer, part) = (b.input("x", ty(None)), b.input("y", ty(Some(axis))));
            let cut = Step::Op(Prim::Slice { axis, start: 2.into(), end: 3.into(), step: 1 });
            let written = write_back(&b, buffer, std::slice::from_ref(&cut), part).expect("it is written");
            b.output(written);
            b.output(apply(&b, written, &[cut]).expect("it is cut out"));
            let graph = b.finish();
            assert!(!graph.nodes().iter().any(|n| matches!(n.op, Op::Prim(Prim::Cat { .. } | Prim::Scatter { .. }))));
            let old: Vec<f64> = (0..60).map(f64::from).collect();
            let new: Vec<f64> = (100..100 + 60 / extents[axis] as i32).map(f64::from).collect();
            let mut shape = extents;
            shape[axis] = 1;
            let tensor = |shape: &[usize], v: &[f64]| Tensor::from_f64(DType::F32, shape, v.to_vec()).expect("fits");
            let given = [tensor(&extents, &old), tensor(&shape, &new)];
            let results = run(&graph, &given, &Symbols::new()).expect("runs");
            let inner: usize = extents[axis + 1..].iter().product();
            let kept = |i: &usize| i / inner % extents[axis] != 2;
            let all = results[0].floats().expect("floats").to_vec();
            assert!((0..60).filter(kept).all(|i| all[i] == old[i]), "axis {axis}: {all:?}");
            assert_eq!(results[1].floats().expect("floats").to_vec(), new, "axis {axis}");
        }
    }

    #[test]
    fn lanes_written_in_turn_are_joined() {
        let b = Builder::new("g");
        let row = |n: i64| TensorType::new(DType::F32, [2.into(), n.into()]);
        let parts = [b.input("x", row(3)), b.input("y", row(3))];
        let zero = b.float(DType::F32, 0.0).expect("a literal");
        let mut buffer = b.prim(Prim::Expand { shape: row(6).shape }, &[zero]).expect("types");
        for (first, part) in parts.into_iter().enumerate() {
            let cut = Prim::Slice { axis: 1, start: (first as i64).into(), end: 6.into(), step: 2 };
            buffer = write_back(&b, buffer, &[Step::Op(cut)], part).expect("it is written");
        }
        b.output(buffer);
        let graph = b.finish();
        assert!(!graph.nodes().iter().any(|n| n.op.name() == "select"), "{graph}");
        let tensor = |v: [f64; 6]| Tensor::from_f64(DType::F32, &[2, 3], v.to_vec()).expect("fits");
        let inputs = [tensor([1.0, 3.0, 5.0, 7.0, 9.0, 11.0]), tensor([2.0, 4.0, 6.0, 8.0, 10.0, 12.0])];
        let results = run(&graph, &inputs, &Symbols::new()).expect("runs");
        let counted: Vec<f64> = (1..=12).map(f64::from).collect();
        assert_eq!(results[0].floats().expect("floats"), counted);
    }

    #[test]
    fn every_nth_lane_is_replaced_by_a_selection() {
        for (lanes, step) in [(6, 2), (7, 3), (32, 3), (5, 4)] {
            for (first, same) in (0..lanes).flat_map(|first| [(first, false), (first, true)]) {
                let (found, expected) = written(lanes, first, step, same);
                assert_eq!(found, expected, "{lanes} lanes, every {step} from {first}, {same}");
            }
        }
    }
}
