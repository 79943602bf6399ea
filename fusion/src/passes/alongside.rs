//! Writes of the same places into parts of the lanes of a tensor's rows, which are one write of whole rows: a latent and
//! a rotated key side by side, or the keys and the values of a head.

use fusewright_graph::dim::product;
use fusewright_graph::{Builder, Dim, Op, Prim, TypeError, Value};

use super::at_place::reshaped;
use super::simplest;
use crate::rewrites::Form;

/// A slice of a tensor, each of whose rows is written where `places` say.
struct Strip {
    whole: Value,
    start: Dim,
    end: Dim,
    places: Value,
    rows: Value,
    /// How many rows there are.
    count: Dim,
}

impl Strip {
    fn of(b: &Builder, axis: usize, value: Value) -> Option<Strip> {
        let (Op::Prim(Prim::Scatter { axis: 0 }), write) = b.definition(reshaped(b, value))? else { return None };
        let &[into, places, rows] = write.as_slice() else { return None };
        match b.definition(reshaped(b, into))? {
            (Op::Prim(Prim::Slice { axis: along, start, end, step: 1 }), of) if along == axis => {
                Some(Strip { whole: of[0], start, end, places, rows, count: b.ty(into).shape[0].clone() })
            }
            _ => None,
        }
    }
}

/// All strips of a tensor of that shape along an axis in their order, each with its rows of the same places.
pub(super) fn joined(b: &Builder, axis: usize, shape: &[Dim], operands: &[Value]) -> Result<Option<Form>, TypeError> {
    let strips: Option<Vec<Strip>> = operands.iter().map(|value| Strip::of(b, axis, *value)).collect();
    let Some(strips) = strips else { return Ok(None) };
    let Some(Strip { whole, places, count, .. }) = strips.first() else { return Ok(None) };
    let first = Dim::constant(0);
    let ends = [&first].into_iter().chain(strips.iter().map(|strip| &strip.end));
    let begins = strips.iter().map(|strip| &strip.start).chain([&shape[axis]]);
    let alike = |strip: &Strip| (&strip.whole, &strip.places, &strip.count) == (whole, places, count);
    let outer = (0..=axis).find(|&outer| product(&shape[..outer]) == *count);
    let Some(outer) = outer.filter(|_| begins.eq(ends) && strips.iter().all(alike) && b.ty(*whole).shape == shape)
    else {
        return Ok(None);
    };
    let row = |extent: &Dim| {
        let mut row = shape[outer..].to_vec();
        row[axis - outer] = extent.clone();
        row
    };
    let shaped = |value: Value, count: &Dim, extent: &Dim| -> Result<Value, TypeError> {
        let shape = [count.clone()].into_iter().chain(row(extent)).collect();
        Ok(simplest(b, &Op::Prim(Prim::Reshape { shape }), &[value])?[0])
    };
    let rows: Result<Vec<Value>, TypeError> = strips
        .iter()
        .map(|strip| shaped(strip.rows, &b.ty(strip.rows).shape[0], &(&strip.end - &strip.start)))
        .collect();
    let rows = simplest(b, &Op::Prim(Prim::Cat { axis: axis - outer + 1 }), &rows?)?[0];
    let into = shaped(*whole, count, &shape[axis])?;
    let written = b.prim(Prim::Scatter { axis: 0 }, &[into, *places, rows])?;
    Ok(Some(Form::prim(Prim::Reshape { shape: shape.to_vec() }, vec![written])))
}

#[cfg(test)]
mod tests {
    use super::super::places::tests::{count, rewritten};

    /// Writes of both parts of an axis of three, of which the second takes the places `second`.
    fn strips(second: &str) -> String {
        format!(
            "graph @g(s: 1..; %c: f32[4, 3, 2, 5], %k: f32[s, 1, 2, 5], %v: f32[s, 2, 2, 5], %i: i64[s]) {{
               %one = literal i64 1
               %next = add %i, %one
               %a = slice %c {{axis = 1, start = 0, end = 1}}
               %b = slice %c {{axis = 1, start = 1, end = 3}}
               %w = scatter %a, %i, %k {{axis = 0}}
               %z = scatter %b, {second}, %v {{axis = 0}}
               %d = cat %w, %z {{axis = 1}}
               return %d updates %c
             }}"
        )
    }

    #[test]
    fn rows_of_the_same_places_are_written_side_by_side() {
        let extents: [&[usize]; 3] = [&[4, 3, 2, 5], &[3, 1, 2, 5], &[3, 2, 2, 5]];
        let out = rewritten(&strips("%i"), &extents, &[3, -1, 0]);
        assert_eq!((count(&out, "scatter"), count(&out, "slice")), (1, 0), "{out}");
        let out = rewritten(&strips("%next"), &extents, &[2, -1, 0]);
        assert_eq!(count(&out, "scatter"), 2, "{out}");
    }
}
