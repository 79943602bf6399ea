//! Values that are another one but at one place of an axis: what an update of a row or a lane leaves.
//!
//! A slice of such a value reads one of both. What the update computes of what was at the place before is computed of
//! every place instead, where that costs little: no row then reads what another one writes.

use fusewright_graph::scalar::Accuracy;
use fusewright_graph::{Builder, Dim, Literal, Op, Prim, ScalarFn, TensorType, TypeError, Value};

use super::rewrite::emit;
use crate::rewrites::Form;

/// A value behind reshapes.
pub(super) fn reshaped(b: &Builder, mut value: Value) -> Value {
    while let Some((Op::Prim(Prim::Reshape { .. }), of)) = b.definition(value) {
        value = of[0];
    }
    value
}

/// The axis of a shape along which a condition that broadcasts to it holds at one place alone, and that place.
pub(super) fn only_place(b: &Builder, condition: Value, shape: &[Dim]) -> Option<(usize, Dim)> {
    let (Op::Prim(Prim::Map(ScalarFn::Eq)), operands) = b.definition(condition)? else { return None };
    let &[first, second] = operands.as_slice() else { return None };
    [(first, second), (second, first)]
        .into_iter()
        .find_map(|(counter, at)| Some((counted(b, counter, shape)?, place(b, at)?)))
}

/// The axis of a shape whose places a value counts.
fn counted(b: &Builder, value: Value, shape: &[Dim]) -> Option<usize> {
    let (Op::Prim(Prim::Iota { shape: counted, axis, .. }), _) = b.definition(reshaped(b, value))? else { return None };
    let (extents, extent) = (b.ty(value).shape, &counted[axis]);
    let mut wide = (0..extents.len()).filter(|&i| !is_one(&extents[i]));
    let (Some(at), None) = (wide.next(), wide.next()) else { return None };
    let axis = (at + shape.len()).checked_sub(extents.len())?;
    (extents[at] == *extent && shape[axis] == *extent).then_some(axis)
}

fn place(b: &Builder, value: Value) -> Option<Dim> {
    match b.definition(reshaped(b, value))?.0 {
        Op::Prim(Prim::Literal(Literal::Int(_, n))) => Some(Dim::constant(n)),
        Op::Prim(Prim::SizeOf(dim)) => Some(dim),
        _ => None,
    }
}

pub(super) fn is_one(extent: &Dim) -> bool {
    extent.as_const() == Some(1)
}

/// A slice of what differs from another value at one place along the axis: of one of both, if it holds that place alone
/// or not at all.
pub(super) fn slice(b: &Builder, cut: &Prim, cases: &[Value], ty: &TensorType) -> Result<Option<Form>, TypeError> {
    let (&[condition, there, elsewhere], Prim::Slice { axis, start, end, .. }) = (cases, cut) else { return Ok(None) };
    let Some((_, place)) = only_place(b, condition, &ty.shape).filter(|(along, _)| along == axis) else {
        return Ok(None);
    };
    let distance = |from: &Dim, to: &Dim| (to - from).as_const();
    let behind = distance(end, &place).is_some_and(|n| n >= 0) || distance(&place, start).is_some_and(|n| n > 0);
    let alone = distance(start, &place) == Some(0) && distance(&place, end) == Some(1);
    if !behind && !alone {
        return Ok(None);
    }
    let mut of = if alone { there } else { elsewhere };
    if b.ty(of).shape != ty.shape {
        of = b.prim(Prim::Expand { shape: ty.shape.clone() }, &[of])?;
    }
    Ok(Some(Form::prim(cut.clone(), vec![of])))
}

/// A selection at one place of what is computed of that place of values that are read whole anyway: of the values
/// themselves.
pub(super) fn select(b: &Builder, operands: &[Value]) -> Result<Option<Form>, TypeError> {
    let &[condition, there, elsewhere] = operands else { return Ok(None) };
    let shape = b.ty(elsewhere).shape;
    let Some((axis, place)) = only_place(b, condition, &shape) else { return Ok(None) };
    let (rank, behind) = (b.ty(there).rank(), shape.len() - 1 - axis);
    let kept = rank > behind;
    if rank > shape.len() || (kept && !is_one(&b.ty(there).shape[rank - 1 - behind])) {
        return Ok(None);
    }
    let mut update = Update { axis, behind, place, shape, read: Vec::new(), fuel: FUEL, found: false };
    update.follow(b, elsewhere, FUEL);
    let whole = update.whole(b, there, kept)?.filter(|_| update.found);
    Ok(whole.map(|whole| Form::prim(Prim::Map(ScalarFn::Select), vec![condition, whole, elsewhere])))
}

/// Most functions of an update that are looked at.
const FUEL: usize = 32;

/// What is computed of one place of an axis.
struct Update {
    axis: usize,
    /// How many axes are behind it.
    behind: usize,
    place: Dim,
    shape: Vec<Dim>,
    /// Values of the whole shape that are read whatever the place.
    read: Vec<Value>,
    fuel: usize,
    /// Whether any of them is sliced.
    found: bool,
}

impl Update {
    /// Finds what a value of the whole shape is computed of.
    fn follow(&mut self, b: &Builder, value: Value, depth: usize) {
        if b.ty(value).shape != self.shape || self.read.len() >= FUEL || self.read.contains(&value) {
            return;
        }
        self.read.push(value);
        if let Some((Op::Prim(Prim::Map(_) | Prim::Cast { .. }), operands)) = b.definition(value).filter(|_| depth > 0)
        {
            operands.into_iter().for_each(|operand| self.follow(b, operand, depth - 1));
        }
    }

    /// A value of the place alone as one of every place; `kept` says whether it has the axis, of extent 1. `None` if
    /// that is another computation, or a dear one.
    fn whole(&mut self, b: &Builder, value: Value, kept: bool) -> Result<Option<Value>, TypeError> {
        let Some(fuel) = self.fuel.checked_sub(1) else { return Ok(None) };
        self.fuel = fuel;
        let shape = b.ty(value).shape;
        match b.definition(value) {
            Some((Op::Prim(Prim::Slice { axis, start, step: 1, .. }), of))
                if kept && axis == self.axis && start == self.place && self.read.contains(&of[0]) =>
            {
                self.found = true;
                return Ok(Some(of[0]));
            }
            Some((Op::Prim(Prim::Reshape { .. }), of)) if self.is_other_form(&b.ty(of[0]).shape, &shape, kept) => {
                return self.whole(b, of[0], !kept);
            }
            Some((Op::Prim(prim @ (Prim::Map(_) | Prim::Cast { .. })), operands)) if self.reads_place(b, value) => {
                if matches!(prim, Prim::Map(f) if f.spec().accuracy != Accuracy::Exact) {
                    return Ok(None);
                }
                let mut wholes = Vec::with_capacity(operands.len());
                for operand in operands {
                    // An operand without the axis that others have is the same at every place.
                    let kept = kept && b.ty(operand).rank() > self.behind;
                    let Some(whole) = self.whole(b, operand, kept)? else { return Ok(None) };
                    wholes.push(whole);
                }
                return Ok(Some(emit(b, &Op::Prim(prim), &wholes)?[0]));
            }
            _ => {}
        }
        // Nothing of the place: broadcasting repeats it.
        let at = shape.len().checked_sub(self.behind).filter(|_| !kept);
        match at.filter(|&at| at > 0) {
            None => Ok(Some(value)),
            Some(at) => {
                let shape = [&shape[..at], &[Dim::constant(1)], &shape[at..]].concat();
                Ok(Some(emit(b, &Op::Prim(Prim::Reshape { shape }), &[value])?[0]))
            }
        }
    }

    /// Whether a shape with the axis, of extent 1, is another without it.
    fn is_other_form(&self, from: &[Dim], to: &[Dim], kept: bool) -> bool {
        let (with, without) = if kept { (to, from) } else { (from, to) };
        let Some(at) = with.len().checked_sub(self.behind + 1) else { return false };
        is_one(&with[at]) && [&with[..at], &with[at + 1..]].concat() == without
    }

    /// Whether a value is computed of slices.
    fn reads_place(&self, b: &Builder, value: Value) -> bool {
        let mut stack = vec![value];
        for _ in 0..FUEL {
            let Some(value) = stack.pop() else { return false };
            match b.definition(value) {
                Some((Op::Prim(Prim::Slice { .. }), _)) => return true,
                Some((Op::Prim(Prim::Map(_) | Prim::Cast { .. } | Prim::Reshape { .. }), of)) => stack.extend(of),
                _ => {}
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use fusewright_graph::DType;

    use super::*;
    use crate::passes::tests::{cut, dims, ops};

    /// What `x` is but at one place of its lanes, where `f` says so.
    fn beside(b: &Builder, x: Value, f: ScalarFn, place: i64, there: Value) -> Result<Value, TypeError> {
        let shape = b.ty(x).shape.split_off(2);
        let lane = b.prim(Prim::Iota { dtype: DType::I64, shape, axis: 0 }, &[])?;
        let here = b.map(f, &[lane, b.int(DType::I64, place)?])?;
        b.map(ScalarFn::Select, &[here, there, x])
    }

    #[test]
    fn a_slice_beside_a_place_that_differs_is_one_of_what_is_there() {
        let written = |b: &Builder, x: Value, f: ScalarFn, place: i64| {
            beside(b, b.map(ScalarFn::Neg, &[x])?, f, place, b.map(ScalarFn::Exp, &[x])?)
        };
        let of = |f, place, from, to| ops(move |b, x| cut(b, written(b, x, f, place)?, from, to));
        assert_eq!(of(ScalarFn::Eq, 3, 0, 3), ["neg", "slice"]);
        assert_eq!(of(ScalarFn::Eq, 3, 4, 8), ["neg", "slice"]);
        assert_eq!(of(ScalarFn::Eq, 3, 3, 4), ["exp", "slice"]);
        for (f, place, from, to) in [(ScalarFn::Eq, 3, 2, 4), (ScalarFn::Eq, 3, 3, 5), (ScalarFn::Ge, 3, 3, 4)] {
            assert!(of(f, place, from, to).contains(&"select".to_owned()), "{f:?} {place} in {from}..{to}");
        }
        // Along another axis.
        let rows = ops(|b, x| b.slice(written(b, x, ScalarFn::Eq, 3)?, 1, 0.into(), 1.into()));
        assert!(rows.contains(&"select".to_owned()), "{rows:?}");
    }

    #[test]
    fn what_is_computed_of_a_place_is_computed_of_every_place() {
        let updated = |f: ScalarFn, from: i64, at: i64| {
            ops(move |b, x| {
                let old = b.map(ScalarFn::Neg, &[x])?;
                let part = cut(b, old, from, from + 1)?;
                let flat = b.reshape(part, dims(&[4]))?;
                let rows = b.reshape(cut(b, x, 0, 1)?, dims(&[4]))?;
                let new = b.reshape(b.map(f, &[flat, rows])?, dims(&[4, 1]))?;
                beside(b, old, ScalarFn::Eq, at, new)
            })
        };
        // Lane 0 of `x` is that of every lane still.
        let whole = ["slice", "neg", "mul", "iota", "eq", "select"];
        let sorted = |mut names: Vec<String>| {
            names.retain(|name| name != "literal" && name != "reshape");
            names.sort();
            names
        };
        assert_eq!(sorted(updated(ScalarFn::Mul, 3, 3)), sorted(whole.map(str::to_owned).to_vec()));
        // Of another place, and of a function that costs much.
        for names in [updated(ScalarFn::Mul, 3, 4), updated(ScalarFn::Pow, 3, 3)] {
            assert_eq!(names.iter().filter(|name| *name == "slice").count(), 2, "{names:?}");
        }
    }

    #[test]
    fn what_nothing_else_reads_whole_is_read_at_the_place_alone() {
        let names = ops(|b, x| {
            let other = b.map(ScalarFn::Exp, &[x])?;
            beside(b, b.map(ScalarFn::Neg, &[x])?, ScalarFn::Eq, 3, b.mul(cut(b, other, 3, 4)?, cut(b, other, 3, 4)?)?)
        });
        assert!(names.contains(&"slice".to_owned()), "{names:?}");
    }
}
