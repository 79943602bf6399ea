//! Writes at chosen places into parts of a tensor, which are writes into the tensor: what joins the parts again would
//! copy it whole. Caches that hold keys and values in one tensor are written so.

use fusewright_graph::{Builder, DType, Dim, Op, Prim, ScalarFn, TypeError, Value, dim};

use super::at_place::{only_place, reshaped};
use crate::rewrites::Form;

/// What a primitive is by the equations of this file, if one applies.
pub(crate) fn rule(b: &Builder, prim: &Prim, operands: &[Value]) -> Result<Option<Form>, TypeError> {
    match (prim, operands) {
        (Prim::Cat { axis }, parts) => joined(b, *axis, parts),
        (Prim::Map(ScalarFn::Select), &[here, part, whole]) => replaced(b, here, part, whole),
        _ => Ok(None),
    }
}

/// Rows written at chosen places, seen through reshapes.
struct Write {
    /// Places along the first axis of what is written into.
    places: Value,
    rows: Value,
}

/// A part of a tensor along an axis, and what is written into it, first things first.
struct Part {
    whole: Value,
    start: Dim,
    end: Dim,
    writes: Vec<Write>,
}

impl Part {
    /// A value as a part along `axis`: a slice, or writes into one.
    fn of(b: &Builder, axis: usize, value: Value) -> Option<Part> {
        let (mut at, mut writes) = (value, Vec::new());
        loop {
            let (op, operands) = b.definition(if writes.is_empty() { at } else { reshaped(b, at) })?;
            match op {
                Op::Prim(Prim::Slice { axis: along, start, end, step: 1 }) if along == axis => {
                    let whole = operands[0];
                    let alike = b.ty(whole).rank() == b.ty(value).rank() && &end - &start == b.ty(value).shape[axis];
                    writes.reverse();
                    return alike.then_some(Part { whole, start, end, writes });
                }
                Op::Prim(Prim::Scatter { axis: 0 }) => {
                    writes.push(Write { places: operands[1], rows: operands[2] });
                    at = operands[0];
                }
                Op::Prim(Prim::Reshape { .. }) => at = reshaped(b, at),
                _ => return None,
            }
        }
    }
}

/// All parts of a tensor in their order, some of them written into: the tensor with those writes.
fn joined(b: &Builder, axis: usize, operands: &[Value]) -> Result<Option<Form>, TypeError> {
    let parts: Option<Vec<Part>> = operands.iter().map(|&value| Part::of(b, axis, value)).collect();
    let Some(parts) = parts else { return Ok(None) };
    let whole = parts[0].whole;
    let shape = b.ty(whole).shape;
    let starts = parts.iter().map(|part| part.start.clone()).chain([shape[axis].clone()]);
    let ends = [Dim::constant(0)].into_iter().chain(parts.iter().map(|part| part.end.clone()));
    let complete = parts.iter().all(|part| part.whole == whole) && starts.eq(ends);
    if !complete || parts.iter().all(|part| part.writes.is_empty()) {
        return Ok(None);
    }
    let mut result = whole;
    for part in &parts {
        for write in &part.writes {
            let Some(written) = written(b, axis, &shape, part, write, result)? else { return Ok(None) };
            result = written;
        }
    }
    Ok(Some(Form::prim(Prim::Reshape { shape }, vec![result])))
}

/// `whole`, of any shape with the elements of `shape`, after a write into a part; `None` if rows are no part of its axes.
fn written(
    b: &Builder,
    axis: usize,
    shape: &[Dim],
    part: &Part,
    write: &Write,
    whole: Value,
) -> Result<Option<Value>, TypeError> {
    let row = b.ty(write.rows).shape.split_off(1);
    let elements = dim::product(&row);
    let Some(last) = (axis..shape.len()).find(|&last| dim::product(&shape[last + 1..]) == elements) else {
        return Ok(None);
    };
    let (outer, inner) = (dim::product(&shape[..axis]), dim::product(&shape[axis + 1..=last]));
    let length = &(&part.end - &part.start) * &inner;
    let (begin, period) = (&part.start * &inner, &shape[axis] * &inner);
    let number = |n: &Dim| match n.as_const() {
        Some(n) => b.int(DType::I64, n),
        None => b.prim(Prim::SizeOf(n.clone()), &[]),
    };
    let mut place = write.places;
    if b.dtype(place) != DType::I64 {
        place = b.cast(place, DType::I64)?;
    }
    let behind = b.map(ScalarFn::Ge, &[place, b.int(DType::I64, 0)?])?;
    let before = b.map(ScalarFn::Lt, &[place, number(&(&outer * &length))?])?;
    let inside = b.map(ScalarFn::And, &[behind, before])?;
    let mut moved = place;
    if outer.as_const() != Some(1) {
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
    let rows = [&outer * &period].into_iter().chain(row).collect::<Vec<_>>();
    let view = if b.ty(whole).shape == rows { whole } else { b.reshape(reshaped(b, whole), rows)? };
    b.prim(Prim::Scatter { axis: 0 }, &[view, place, write.rows]).map(Some)
}

/// A tensor in which one place of an axis is another value that writes computed: its parts, joined.
fn replaced(b: &Builder, here: Value, part: Value, whole: Value) -> Result<Option<Form>, TypeError> {
    let (ty, shape) = (b.ty(part), b.ty(whole).shape);
    if !matches!(b.definition(reshaped(b, part)), Some((Op::Prim(Prim::Scatter { .. }), _))) {
        return Ok(None);
    }
    let Some((axis, at)) = only_place(b, here, &shape).and_then(|(axis, at)| Some((axis, at.as_const()?))) else {
        return Ok(None);
    };
    let mut thin = shape.clone();
    thin[axis] = Dim::constant(1);
    if ty.shape != thin || !shape[axis].as_const().is_some_and(|extent| (0..extent).contains(&at)) {
        return Ok(None);
    }
    let cut = |from: Dim, to: Dim| b.slice(whole, axis, from, to);
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
mod tests {
    use fusewright_graph::interp::{Symbols, run};
    use fusewright_graph::{Graph, Tensor};

    use super::*;
    use crate::pass::{Cx, PassManager};

    /// The graph after all passes, which computes the same from these places.
    #[track_caller]
    fn rewritten(text: &str, extents: &[&[usize]], places: &[i64]) -> Graph {
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

    fn count(graph: &Graph, name: &str) -> usize {
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
