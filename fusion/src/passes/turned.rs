//! Writes into parts of a tensor that are seen with their axes in another order, as a cache with heads outside of slots
//! is: the whole is seen so, and the part is a part of that.

use fusewright_graph::{Builder, Dim, Op, Prim, TypeError, Value};

use super::at_place::{is_one, reshaped};
use super::places::{Part, Write, assembled};
use super::simplest;
use crate::rewrites::Form;

/// All parts of a tensor along an axis in their order, some of them written into behind permutations: the tensor with
/// those writes.
pub(super) fn joined(b: &Builder, axis: usize, shape: &[Dim], operands: &[Value]) -> Result<Option<Form>, TypeError> {
    let cuts: Option<Vec<Cut>> = operands.iter().map(|&value| Cut::of(b, axis, shape, value)).collect();
    let Some(cuts) = cuts else { return Ok(None) };
    let mut orders = cuts.iter().filter_map(|cut| cut.order.as_ref());
    let Some(order) = orders.next().filter(|first| orders.all(|other| other == *first)) else { return Ok(None) };
    // What the part has no axis of lies outermost, the sliced axis behind it.
    let mut perm: Vec<usize> = (0..shape.len()).filter(|i| *i != axis && !order.contains(i)).collect();
    perm.extend((!order.contains(&axis)).then_some(axis));
    perm.extend(order);
    if perm.is_sorted() {
        return Ok(None);
    }
    let Some(along) = perm.iter().position(|&i| i == axis) else { return Ok(None) };
    let turned: Vec<Dim> = perm.iter().map(|&i| shape[i].clone()).collect();
    let mut wholes: Vec<(Value, Value)> = Vec::new();
    let mut parts = Vec::with_capacity(cuts.len());
    for cut in cuts {
        let whole = match wholes.iter().find(|(source, _)| *source == cut.source) {
            Some((_, whole)) => *whole,
            None => {
                let whole = simplest(b, &Op::Prim(Prim::Permute { perm: perm.clone() }), &[cut.source])?[0];
                wholes.push((cut.source, reshaped(b, whole)));
                reshaped(b, whole)
            }
        };
        parts.push(Part::along(whole, &turned, along, (&cut.start, &cut.end), cut.writes));
    }
    let periods = fusewright_graph::dim::product(&turned[..along]);
    let Some(result) = assembled(b, &periods, &parts)? else { return Ok(None) };
    let result = simplest(b, &Op::Prim(Prim::Reshape { shape: turned }), &[result])?[0];
    let mut inverse = vec![0; perm.len()];
    perm.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
    Ok(Some(Form::prim(Prim::Permute { perm: inverse }, vec![result])))
}

/// A slice of a tensor, and what is written into it, first things first.
struct Cut {
    source: Value,
    start: Dim,
    end: Dim,
    writes: Vec<Write>,
    /// In which order the writes see the axes, of those that have more than one place.
    order: Option<Vec<usize>>,
}

/// One step from a slice to what is made of it.
enum Step {
    Layout(Prim),
    Write(Write),
}

impl Cut {
    fn of(b: &Builder, axis: usize, shape: &[Dim], value: Value) -> Option<Cut> {
        let (mut at, mut steps) = (value, Vec::new());
        let (source, start, end) = loop {
            let (op, operands) = b.definition(at)?;
            match op {
                Op::Prim(Prim::Slice { axis: along, start, end, step: 1 }) if along == axis => {
                    break (operands[0], start, end);
                }
                Op::Prim(prim @ (Prim::Reshape { .. } | Prim::Permute { .. })) => steps.push(Step::Layout(prim)),
                Op::Prim(Prim::Scatter { axis: 0 }) => {
                    steps.push(Step::Write(Write { places: operands[1], rows: operands[2] }));
                }
                _ => return None,
            }
            at = operands[0];
        };
        (b.ty(source).shape == shape).then_some(())?;
        let part = b.ty(at).shape;
        let mut axes: Vec<Vec<usize>> =
            (0..part.len()).map(|i| if is_one(&part[i]) { vec![] } else { vec![i] }).collect();
        let (mut writes, mut order) = (Vec::new(), None);
        for step in steps.into_iter().rev() {
            match step {
                Step::Layout(prim) => axes = laid_out(&axes, &part, &prim)?,
                Step::Write(write) => {
                    let seen = axes.concat();
                    (*order.get_or_insert_with(|| seen.clone()) == seen).then_some(())?;
                    writes.push(write);
                }
            }
        }
        axes.concat().is_sorted().then_some(Cut { source, start, end, writes, order })
    }
}

/// Which axes of a part are in each dim behind a reshape or a permutation; `None` if one is taken apart.
fn laid_out(axes: &[Vec<usize>], part: &[Dim], prim: &Prim) -> Option<Vec<Vec<usize>>> {
    match prim {
        Prim::Permute { perm } => Some(perm.iter().map(|&from| axes[from].clone()).collect()),
        Prim::Reshape { shape } => {
            let mut left = axes.concat().into_iter();
            let mut made = Vec::with_capacity(shape.len());
            for extent in shape {
                let (mut dim, mut count) = (Vec::new(), Dim::constant(1));
                while count != *extent {
                    let next = left.next()?;
                    count = &count * &part[next];
                    dim.push(next);
                }
                made.push(dim);
            }
            left.next().is_none().then_some(made)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::places::tests::{count, rewritten};

    /// Keys and values of a cache of blocks, of which each part has heads outside of slots.
    fn heads_outside(cache: &str, axis: usize, thin: &str, to: &str) -> String {
        format!(
            "graph @g(s: 1..; %c: f32[{cache}], %k: f32[s, 2, 5], %v: f32[s, 2, 5], %i: i64[s]) {{
               %a = slice %c {{axis = {axis}, start = 0, end = 1}}
               %b = slice %c {{axis = {axis}, start = 1, end = 2}}
               %e = reshape %a {{shape = [4, 2, 3, 5]}}
               %f = reshape %b {{shape = [4, 2, 3, 5]}}
               %h = permute %e {{perm = {to}}}
               %j = permute %f {{perm = {to}}}
               %l = reshape %h {{shape = [12, 2, 5]}}
               %m = reshape %j {{shape = [12, 2, 5]}}
               %n = scatter %l, %i, %k {{axis = 0}}
               %o = scatter %m, %i, %v {{axis = 0}}
               %p = reshape %n {{shape = [4, 3, 2, 5]}}
               %q = reshape %o {{shape = [4, 3, 2, 5]}}
               %r = permute %p {{perm = {to}}}
               %t = permute %q {{perm = {to}}}
               %u = reshape %r {{shape = [{thin}]}}
               %w = reshape %t {{shape = [{thin}]}}
               %d = cat %u, %w {{axis = {axis}}}
               return %d updates %c
             }}"
        )
    }

    #[test]
    fn parts_that_are_seen_in_another_order_are_parts_of_the_whole_seen_so() {
        for (cache, extents, axis, thin) in [
            ("2, 4, 2, 3, 5", [2, 4, 2, 3, 5], 0, "1, 4, 2, 3, 5"),
            ("4, 2, 2, 3, 5", [4, 2, 2, 3, 5], 1, "4, 1, 2, 3, 5"),
            ("4, 2, 2, 3, 5", [4, 2, 2, 3, 5], 2, "4, 2, 1, 3, 5"),
        ] {
            let text = heads_outside(cache, axis, thin, "[0, 2, 1, 3]");
            let out = rewritten(&text, &[&extents, &[3, 2, 5], &[3, 2, 5]], &[11, -1, 7]);
            let left = ["scatter", "cat", "slice", "permute"].map(|name| count(&out, name));
            assert_eq!(left, [2, 0, 0, 2], "{cache} {axis}\n{out}");
        }
    }
}
