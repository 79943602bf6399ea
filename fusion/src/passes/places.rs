//! Writes at chosen places into parts of a tensor, which are writes into the tensor: what joins the parts again would
//! copy it whole. Caches that hold keys and values in one tensor are written so.

use fusewright_graph::{Builder, DType, Dim, Op, Prim, ScalarFn, TypeError, Value, dim};

use super::at_place::{only_place, reshaped};
use super::{alongside, simplest, turned};
use crate::rewrites::Form;
use crate::stretch::{Places, Stretch};

/// What a primitive is by the equations of this file, if one applies.
pub(crate) fn rule(b: &Builder, prim: &Prim, operands: &[Value]) -> Result<Option<Form>, TypeError> {
    match (prim, operands) {
        (Prim::Cat { axis }, parts) => joined(b, *axis, parts),
        (Prim::Map(ScalarFn::Select), &[here, part, whole]) => replaced(b, here, part, whole),
        _ => Ok(None),
    }
}

/// Whether a value is what a write at chosen places left of a part of a tensor. Whoever reads it reads the tensor behind
/// the write, so that nothing but what puts the part back needs it.
pub(super) fn is_part(b: &Builder, mut value: Value) -> bool {
    let mut written = false;
    while let Some((Op::Prim(prim), operands)) = b.definition(value) {
        match prim {
            Prim::Scatter { .. } => written = true,
            Prim::Slice { .. } => return written,
            Prim::Reshape { .. } | Prim::Permute { .. } => {}
            _ => return false,
        }
        value = operands[0];
    }
    false
}

/// Rows written at chosen places, seen through reshapes.
pub(super) struct Write {
    /// Places along the first axis of what is written into.
    pub places: Value,
    pub rows: Value,
}

/// A part of a tensor: the same stretch of elements in every period, and what is written into it, first things first.
/// Elements are counted in order, so that reshapes do not matter.
pub(super) struct Part {
    /// The tensor behind reshapes.
    whole: Value,
    period: Dim,
    begin: Dim,
    end: Dim,
    writes: Vec<Write>,
}

impl Part {
    /// What lies between two places of an axis of a tensor that has this shape behind reshapes.
    pub fn along(whole: Value, shape: &[Dim], axis: usize, (start, end): (&Dim, &Dim), writes: Vec<Write>) -> Part {
        let inner = dim::product(&shape[axis + 1..]);
        Part { whole, period: &shape[axis] * &inner, begin: start * &inner, end: end * &inner, writes }
    }

    /// The parts of a value with so many `periods`: what is joined outermost comes apart again.
    fn all(b: &Builder, periods: &Dim, value: Value) -> Option<Vec<Part>> {
        if let Some((Op::Prim(Prim::Cat { axis }), operands)) = b.definition(reshaped(b, value))
            && dim::product(&b.ty(operands[0]).shape[..axis]) == *periods
        {
            let parts: Option<Vec<Vec<Part>>> = operands.iter().map(|v| Part::all(b, periods, *v)).collect();
            return parts.map(|parts| parts.into_iter().flatten().collect());
        }
        Part::of(b, periods, value).map(|part| vec![part])
    }

    /// The part as one of what its tensor is itself cut out of.
    fn rooted(mut self, b: &Builder, periods: &Dim) -> Part {
        while let Some((Op::Prim(Prim::Slice { axis, start, step: 1, .. }), operands)) = b.definition(self.whole) {
            let shape = b.ty(operands[0]).shape;
            if dim::product(&shape[..axis]) != *periods {
                break;
            }
            let inner = dim::product(&shape[axis + 1..]);
            let before = &start * &inner;
            (self.begin, self.end) = (&self.begin + &before, &self.end + &before);
            (self.whole, self.period) = (reshaped(b, operands[0]), &shape[axis] * &inner);
        }
        self
    }

    /// A value with so many `periods` as a part: a slice, or writes into one.
    fn of(b: &Builder, periods: &Dim, value: Value) -> Option<Part> {
        let (mut at, mut writes) = (reshaped(b, value), Vec::new());
        loop {
            let (op, operands) = b.definition(at)?;
            match op {
                Op::Prim(Prim::Slice { axis, start, end, step: 1 }) => {
                    let shape = b.ty(operands[0]).shape;
                    writes.reverse();
                    let whole = reshaped(b, operands[0]);
                    let alike = dim::product(&shape[..axis]) == *periods;
                    return alike.then(|| Part::along(whole, &shape, axis, (&start, &end), writes));
                }
                Op::Prim(Prim::Scatter { axis: 0 }) => {
                    writes.push(Write { places: operands[1], rows: operands[2] });
                    at = reshaped(b, operands[0]);
                }
                _ => return None,
            }
        }
    }

    /// Whether the part is the same in what writes left of its tensor.
    fn is_kept_by(&self, b: &Builder, periods: &Dim, mut written: Value) -> bool {
        while !is_same(b, written, self.whole) {
            let Some((Op::Prim(Prim::Scatter { axis: 0 }), operands)) = b.definition(written) else { return false };
            let row = dim::product(&b.ty(operands[2]).shape[1..]);
            let rows = |n: &Dim| n.exact_div(&row);
            let ((Some(begin), Some(end)), Some(period)) = ((rows(&self.begin), rows(&self.end)), rows(&self.period))
            else {
                return false;
            };
            let period = (periods.as_const() != Some(1)).then_some(period);
            if !Places::of(b, operands[1]).avoid(&Stretch { period, begin, end }) {
                return false;
            }
            written = reshaped(b, operands[0]);
        }
        true
    }
}

/// All parts of a tensor in their order, some of them written into: the tensor with those writes.
fn joined(b: &Builder, axis: usize, operands: &[Value]) -> Result<Option<Form>, TypeError> {
    let mut shape = b.ty(operands[0]).shape;
    shape[axis] = operands.iter().fold(Dim::constant(0), |n, &v| &n + &b.ty(v).shape[axis]);
    let periods = dim::product(&shape[..axis]);
    let parts: Option<Vec<Vec<Part>>> = operands.iter().map(|&value| Part::all(b, &periods, value)).collect();
    let Some(parts) = parts else { return turned::joined(b, axis, &shape, operands) };
    let mut parts: Vec<Part> = parts.into_iter().flatten().collect();
    let mut result = assembled(b, &periods, &parts)?;
    if result.is_none() {
        parts = parts.into_iter().map(|part| part.rooted(b, &periods)).collect();
        result = assembled(b, &periods, &parts)?;
    }
    match result {
        Some(result) => Ok(Some(Form::prim(Prim::Reshape { shape }, vec![result]))),
        None => alongside::joined(b, axis, &shape, operands),
    }
}

/// A tensor with what is written into its parts, in any shape; `None` if these are not all of it in their order, or
/// nothing is written.
pub(super) fn assembled(b: &Builder, periods: &Dim, parts: &[Part]) -> Result<Option<Value>, TypeError> {
    let Some(period) = parts.first().map(|part| &part.period) else { return Ok(None) };
    let begins = parts.iter().map(|part| &part.begin).chain([period]);
    let first = Dim::constant(0);
    let ends = [&first].into_iter().chain(parts.iter().map(|part| &part.end));
    let complete = parts.iter().all(|part| part.period == *period) && begins.eq(ends);
    // Parts of rows are places of shorter rows only where they are as long as each other.
    let length = |part: &Part| &part.end - &part.begin;
    let inside =
        |part: &Part| part.writes.iter().any(|write| dim::product(&b.ty(write.rows).shape[1..]) == length(part));
    let alike = parts.iter().all(|part| length(part) == length(&parts[0]));
    if periods.as_const() != Some(1) && !alike && parts.iter().any(inside) {
        return Ok(None);
    }
    let changed = |part: &Part| !part.writes.is_empty() || !is_same(b, part.whole, parts[0].whole);
    if !complete || !parts.iter().any(changed) {
        return Ok(None);
    }
    // Some parts may have been taken before others were written into.
    let has_all = |whole: &Value| parts.iter().all(|part| part.is_kept_by(b, periods, *whole));
    let Some(mut result) = parts.iter().map(|part| part.whole).find(has_all) else { return Ok(None) };
    for part in parts {
        for write in &part.writes {
            let Some(written) = written(b, periods, part, write, result)? else { return Ok(None) };
            result = written;
        }
    }
    Ok(Some(result))
}

/// Whether two values are one, or one permutation of one.
fn is_same(b: &Builder, one: Value, other: Value) -> bool {
    let permuted = |value| match b.definition(value) {
        Some((Op::Prim(Prim::Permute { perm }), of)) => Some((perm, of)),
        _ => None,
    };
    one == other || permuted(one).is_some_and(|one| permuted(other) == Some(one))
}

/// `whole` after a write into a part; `None` if the part is no number of rows.
fn written(b: &Builder, periods: &Dim, part: &Part, write: &Write, whole: Value) -> Result<Option<Value>, TypeError> {
    let row = b.ty(write.rows).shape.split_off(1);
    let elements = dim::product(&row);
    let rows = |n: &Dim| n.exact_div(&elements);
    let (Some(period), Some(begin), Some(length)) =
        (rows(&part.period), rows(&part.begin), rows(&(&part.end - &part.begin)))
    else {
        return Ok(None);
    };
    let number = |n: &Dim| match n.as_const() {
        Some(n) => b.int(DType::I64, n),
        None => b.prim(Prim::SizeOf(n.clone()), &[]),
    };
    let mut place = write.places;
    if b.dtype(place) != DType::I64 {
        place = b.cast(place, DType::I64)?;
    }
    let behind = b.map(ScalarFn::Ge, &[place, b.int(DType::I64, 0)?])?;
    let before = b.map(ScalarFn::Lt, &[place, number(&(periods * &length))?])?;
    let inside = b.map(ScalarFn::And, &[behind, before])?;
    let mut moved = place;
    if periods.as_const() != Some(1) {
        // Every stretch of the part has one of the whole's period.
        let stretch = b.map(ScalarFn::Div, &[place, number(&length)?])?;
        let rest = b.map(ScalarFn::Rem, &[place, number(&length)?])?;
        moved = b.add(b.mul(stretch, number(&period)?)?, rest)?;
    }
    if begin.as_const() != Some(0) {
        moved = b.add(moved, number(&begin)?)?;
    }
    // A place outside of the part is none of the whole.
    let place = b.map(ScalarFn::Select, &[inside, moved, b.int(DType::I64, -1)?])?;
    let rows = [periods * &period].into_iter().chain(row).collect::<Vec<_>>();
    let view = if b.ty(whole).shape == rows { whole } else { b.reshape(reshaped(b, whole), rows)? };
    b.prim(Prim::Scatter { axis: 0 }, &[view, place, write.rows]).map(Some)
}

/// Whether a value is what writes left, seen in any layout.
fn is_written(b: &Builder, mut value: Value) -> bool {
    while let Some((Op::Prim(prim), operands)) = b.definition(value) {
        match prim {
            Prim::Scatter { .. } => return true,
            Prim::Reshape { .. } | Prim::Permute { .. } => value = operands[0],
            Prim::Cat { .. } => return operands.iter().any(|part| is_written(b, *part)),
            _ => return false,
        }
    }
    false
}

/// A tensor in which one place of an axis is another value that writes computed: its parts, joined.
fn replaced(b: &Builder, here: Value, part: Value, whole: Value) -> Result<Option<Form>, TypeError> {
    let (ty, shape) = (b.ty(part), b.ty(whole).shape);
    if !is_written(b, part) {
        return Ok(None);
    }
    let Some((axis, at)) = only_place(b, here, &shape).and_then(|(axis, at)| Some((axis, at.as_const()?))) else {
        return Ok(None);
    };
    let mut thin = shape.clone();
    thin[axis] = Dim::constant(1);
    // Leading extents of 1 are left to broadcasting.
    let added = thin.iter().take_while(|extent| extent.as_const() == Some(1)).count();
    let is_thin = thin.len().checked_sub(ty.rank()).is_some_and(|n| n <= added && ty.shape == thin[n..]);
    if !is_thin || !shape[axis].as_const().is_some_and(|extent| (0..extent).contains(&at)) {
        return Ok(None);
    }
    let cut = |start: Dim, end: Dim| -> Result<Value, TypeError> {
        Ok(simplest(b, &Op::Prim(Prim::Slice { axis, start, end, step: 1 }), &[whole])?[0])
    };
    let part = if ty.shape == thin { part } else { b.reshape(part, thin)? };
    let mut parts = vec![part];
    if at > 0 {
        parts.insert(0, cut(Dim::constant(0), Dim::constant(at))?);
    }
    if shape[axis] != Dim::constant(at + 1) {
        parts.push(cut(Dim::constant(at + 1), shape[axis].clone())?);
    }
    Ok(Some(Form::prim(Prim::Cat { axis }, parts)))
}

#[cfg(test)]
pub(super) mod tests {
    use fusewright_graph::interp::{Symbols, run};
    use fusewright_graph::{Graph, Tensor};

    use super::*;
    use crate::pass::{Cx, PassManager};

    /// The graph after all passes, which computes the same from these places.
    #[track_caller]
    pub fn rewritten(text: &str, extents: &[&[usize]], places: &[i64]) -> Graph {
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let (out, _) = PassManager::default().run(&graph, &mut Cx::default(), &mut []).expect("runs");
        let mut inputs: Vec<Tensor> = extents
            .iter()
            .enumerate()
            .map(|(i, extents)| {
                let values = (0..extents.iter().product::<usize>()).map(|n| (n + 1000 * i) as f64).collect();
                Tensor::from_f64(DType::F32, extents, values).expect("fits")
            })
            .collect();
        inputs.push(Tensor::from_i64(DType::I64, &[places.len()], places.to_vec()).expect("fits"));
        let [want, got] = [&graph, &out].map(|g| run(g, &inputs, &Symbols::new()).expect("runs"));
        assert_eq!(want, got, "{out}");
        out
    }

    pub fn count(graph: &Graph, name: &str) -> usize {
        graph.nodes().iter().filter(|node| node.op.name() == name).count()
    }

    #[test]
    fn writes_into_parts_that_are_joined_again_are_writes_into_the_whole() {
        let outermost = "graph @g(s: 1..; %c: f32[2, 4, 3, 5], %k: f32[s, 5], %v: f32[s, 5], %i: i64[s]) {
           %a = slice %c {axis = 0, start = 0, end = 1}
           %b = slice %c {axis = 0, start = 1, end = 2}
           %p = reshape %a {shape = [12, 5]}
           %q = reshape %b {shape = [12, 5]}
           %w = scatter %p, %i, %k {axis = 0}
           %z = scatter %q, %i, %v {axis = 0}
           %x = reshape %w {shape = [1, 4, 3, 5]}
           %y = reshape %z {shape = [1, 4, 3, 5]}
           %d = cat %x, %y {axis = 0}
           return %d updates %c
         }";
        let out = rewritten(outermost, &[&[2, 4, 3, 5], &[3, 5], &[3, 5]], &[11, 0, 7]);
        assert_eq!((count(&out, "scatter"), count(&out, "cat"), count(&out, "slice")), (2, 0, 0), "{out}");
        // The part lies within every block; only one is written, and what is before and behind it stays.
        let inner = "graph @g(s: 1..; %c: f32[4, 5, 3, 2, 5], %k: f32[s, 2, 5], %i: i64[s]) {
           %a = slice %c {axis = 1, start = 0, end = 1}
           %b = slice %c {axis = 1, start = 1, end = 3}
           %e = slice %c {axis = 1, start = 3, end = 5}
           %q = reshape %b {shape = [24, 2, 5]}
           %z = scatter %q, %i, %k {axis = 0}
           %y = reshape %z {shape = [4, 2, 3, 2, 5]}
           %d = cat %a, %y, %e {axis = 1}
           return %d updates %c
         }";
        let out = rewritten(inner, &[&[4, 5, 3, 2, 5], &[4, 2, 5]], &[23, 0, 7, 6]);
        assert_eq!((count(&out, "scatter"), count(&out, "cat"), count(&out, "slice")), (1, 0, 0), "{out}");
    }

    #[test]
    fn a_selection_of_one_place_of_an_axis_is_such_a_join() {
        let text = |shape: &str, number: &str| {
            format!(
                "graph @g(s: 1..; %c: f32[4, 2, 3, 5], %k: f32[s, 5], %i: i64[s]) {{
                   %a = slice %c {{axis = 1, start = 1, end = 2}}
                   %p = reshape %a {{shape = [12, 5]}}
                   %w = scatter %p, %i, %k {{axis = 0}}
                   %x = reshape %w {{shape = [4, 1, 3, 5]}}
                   %n = iota {{type = i64[2], axis = 0}}
                   %l = reshape %n {{shape = {shape}}}
                   %o = literal i64 {number}
                   %h = eq %l, %o
                   %d = select %h, %x, %c
                   return %d updates %c
                 }}"
            )
        };
        let out = rewritten(&text("[2, 1, 1]", "1"), &[&[4, 2, 3, 5], &[3, 5]], &[11, 0, 7]);
        assert_eq!((count(&out, "scatter"), count(&out, "select"), count(&out, "cat")), (1, 1, 0), "{out}");
        // The part goes elsewhere than where it was taken.
        let out = rewritten(&text("[2, 1, 1]", "0"), &[&[4, 2, 3, 5], &[3, 5]], &[11, 0, 7]);
        assert_eq!((count(&out, "scatter"), count(&out, "cat")), (1, 1), "{out}");
    }

    /// A write into each of two parts, of which the second is cut out of `from`, in blocks.
    fn one_after_the_other(from: &str, first: i64, second: i64) -> String {
        format!(
            "graph @g(s: 1..; %c: f32[2, 4, 3, 5], %k: f32[s, 5], %v: f32[s, 5], %i: i64[s]) {{
               %n = iota {{type = i64[2], axis = 0}}
               %l = reshape %n {{shape = [2, 1, 1, 1]}}
               %f = literal i64 {first}
               %o = literal i64 {second}
               %h = eq %l, %f
               %e = eq %l, %o
               %a = slice %c {{axis = 0, start = {first}, end = {}}}
               %p = reshape %a {{shape = [12, 5]}}
               %w = scatter %p, %i, %k {{axis = 0}}
               %x = reshape %w {{shape = [4, 3, 5]}}
               %d = select %h, %x, %c
               %b = slice %{from} {{axis = 0, start = {second}, end = {}}}
               %q = reshape %b {{shape = [12, 5]}}
               %z = scatter %q, %i, %v {{axis = 0}}
               %y = reshape %z {{shape = [1, 4, 3, 5]}}
               %r = select %e, %y, %d
               return %r updates %c
             }}",
            first + 1,
            second + 1
        )
    }

    #[test]
    fn parts_are_written_one_after_the_other() {
        let extents: [&[usize]; 3] = [&[2, 4, 3, 5], &[3, 5], &[3, 5]];
        for (from, first, second) in [("c", 0, 1), ("d", 0, 1), ("c", 1, 0), ("d", 1, 0), ("d", 0, 0)] {
            let out = rewritten(&one_after_the_other(from, first, second), &extents, &[11, -1, 7]);
            let left = (count(&out, "scatter"), count(&out, "cat"), count(&out, "slice"));
            assert_eq!(left, (2, 0, 0), "{from} {first} {second}\n{out}");
        }
        // What was written first is lost.
        let out = rewritten(&one_after_the_other("c", 0, 0), &extents, &[11, -1, 7]);
        assert_eq!(count(&out, "cat"), 1, "{out}");
    }

    #[test]
    fn parts_of_a_part_are_parts_of_the_whole() {
        let text = "graph @g(s: 1..; %c: f32[3, 2, 4, 5], %k: f32[s, 5], %v: f32[s, 5], %i: i64[s]) {
           %n = iota {type = i64[3], axis = 0}
           %l = reshape %n {shape = [3, 1, 1, 1]}
           %one = literal i64 1
           %h = eq %l, %one
           %a = slice %c {axis = 0, start = 1, end = 2}
           %b = slice %a {axis = 1, start = 0, end = 1}
           %e = slice %a {axis = 1, start = 1, end = 2}
           %p = reshape %b {shape = [4, 5]}
           %w = scatter %p, %i, %k {axis = 0}
           %x = reshape %w {shape = [1, 1, 4, 5]}
           %j = cat %x, %e {axis = 1}
           %d = select %h, %j, %c
           %f = slice %d {axis = 0, start = 1, end = 2}
           %o = slice %f {axis = 1, start = 0, end = 1}
           %q = slice %f {axis = 1, start = 1, end = 2}
           %r = reshape %q {shape = [4, 5]}
           %z = scatter %r, %i, %v {axis = 0}
           %y = reshape %z {shape = [1, 1, 4, 5]}
           %u = cat %o, %y {axis = 1}
           %t = select %h, %u, %d
           return %t updates %c
         }";
        let out = rewritten(text, &[&[3, 2, 4, 5], &[3, 5], &[3, 5]], &[3, -1, 0]);
        assert_eq!((count(&out, "scatter"), count(&out, "cat"), count(&out, "slice")), (2, 0, 0), "{out}");
    }

    #[test]
    fn parts_of_other_tensors_or_in_another_order_stay() {
        let text = |first: &str, second: &str| {
            format!(
                "graph @g(s: 1..; %c: f32[2, 4, 5], %e: f32[2, 4, 5], %k: f32[s, 5], %i: i64[s]) {{
                   %a = slice %{first} {{axis = 0, start = 0, end = 1}}
                   %b = slice %{second} {{axis = 0, start = 1, end = 2}}
                   %p = reshape %a {{shape = [4, 5]}}
                   %w = scatter %p, %i, %k {{axis = 0}}
                   %x = reshape %w {{shape = [1, 4, 5]}}
                   %d = cat %x, %b {{axis = 0}}
                   %f = cat %b, %x {{axis = 0}}
                   return %d, %f
                 }}"
            )
        };
        let extents: [&[usize]; 3] = [&[2, 4, 5], &[2, 4, 5], &[2, 5]];
        assert_eq!(count(&rewritten(&text("c", "e"), &extents, &[3, 0]), "cat"), 2);
        assert_eq!(count(&rewritten(&text("c", "c"), &extents, &[3, 0]), "cat"), 1);
    }
}
