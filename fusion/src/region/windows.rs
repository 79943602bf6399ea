//! Writes at chosen places into parts of an input, which are put back beside the parts that stay: the latent of a cache
//! whose rows hold a rotated key as well, or the keys of one whose rows hold values too.
//!
//! Joined again, the parts would be the whole input copied. Each is stored where it lies in the input instead, as a piece
//! of it, and what stays is not stored at all. Parts do not overlap, so that their writes are in no order.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::axes::contiguous_strides;
use fusewright_graph::{Def, Dim, Graph, NodeId, Op, Prim, TypeError, Value};

use super::RowForm;
use super::chained::{is_write, with_another};
use super::form::Piece;
use super::free::Flow;
use super::packed::{restrided, returning};
use super::stored::relabels;

/// Where the elements of a value lie in an input.
#[derive(PartialEq, Eq)]
struct Window {
    /// The position of the input.
    input: usize,
    offset: Dim,
    /// Of extents other than 1.
    strides: Vec<Dim>,
}

/// The row program of a body whose outputs are stored in those pieces, some of which are written at chosen places;
/// `None` if what is written was not cut out of an input, at its place in the output, if other parts change as well, or
/// if the input is read.
pub(super) fn windowed(body: &Graph, pieces: &[(Value, Piece)]) -> Option<RowForm> {
    let users = body.users();
    let written = pieces.iter().filter(|(value, _)| is_written(body, *value)).map(|(_, piece)| piece.output);
    let written: BTreeSet<usize> = written.collect();
    let (mut roots, mut bases, mut kept) = (BTreeMap::new(), Vec::new(), Vec::new());
    for part in pieces {
        let (value, piece) = part;
        let whole = body.outputs()[piece.output].value;
        if *value == whole || !written.contains(&piece.output) {
            kept.push(part);
            continue;
        }
        let window = Window::of(body, *value)?;
        let input = *roots.entry(piece.output).or_insert(window.input);
        let place = Window { input, offset: piece.offset.clone(), strides: wide(body, *value, &piece.strides) };
        if window != place || body.ty(body.inputs()[input].value) != body.ty(whole) {
            return None;
        }
        if let Some(base) = base(body, *value) {
            let alone = matches!(body.def(base), Def::Node(..)) && users[base.0 as usize].len() == 1;
            (alone && !body.is_output(base)).then_some(())?;
            bases.push((base, input));
            kept.push(part);
        }
    }
    let form = rebased(body, &bases, &kept)?;
    let users = form.body.users();
    let is_read = |root: &usize| !users[form.body.inputs()[*root].value.0 as usize].is_empty();
    // An input is written into for one output alone: another write into it would read it.
    let one_each = roots.values().collect::<BTreeSet<_>>().len() == roots.len();
    (one_each && !roots.values().any(is_read)).then_some(form)
}

/// The body with an input of its own for each base, which lies in the input at a position.
fn rebased(body: &Graph, bases: &[(Value, usize)], kept: &[&(Value, Piece)]) -> Option<RowForm> {
    let mut inputs: Vec<usize> = (0..body.inputs().len()).collect();
    let mut map: BTreeMap<Value, Value> = BTreeMap::new();
    let rebuilt = body.rebuild(|b, _, node, operands| {
        let results = match bases.iter().find(|(base, _)| node.results.contains(base)) {
            Some((base, at)) => vec![with_another(b, body, *at, body.ty(*base), &mut inputs)],
            None => b.op(node.op.clone(), operands)?,
        };
        map.extend(node.results.iter().copied().zip(results.iter().copied()));
        Ok::<_, TypeError>(results)
    });
    let rebuilt = rebuilt.ok()?;
    map.extend(body.inputs().iter().zip(rebuilt.inputs()).map(|(old, new)| (old.value, new.value)));
    let values = kept.iter().map(|(value, _)| map.get(value).copied()).collect::<Option<Vec<Value>>>()?;
    let pieces = kept.iter().map(|(_, piece)| piece.clone()).collect();
    Some(RowForm { body: returning(&rebuilt, &values)?, inputs, pieces })
}

/// Whether a value was written at chosen places.
pub(super) fn is_written(body: &Graph, value: Value) -> bool {
    base(body, value).is_some()
}

/// What a value was before writes at chosen places, if it was written so.
fn base(body: &Graph, mut value: Value) -> Option<Value> {
    let mut written = false;
    while let Def::Node(id, _) = body.def(value)
        && (relabels(&body.node(id).op) || is_write(body, id))
    {
        written |= is_write(body, id);
        value = body.node(id).operands[0];
    }
    written.then_some(value)
}

/// The strides of a value, without those of extents of 1.
fn wide(body: &Graph, value: Value, strides: &[Dim]) -> Vec<Dim> {
    let extents = body.ty(value).shape.iter();
    extents.zip(strides).filter(|(extent, _)| extent.as_const() != Some(1)).map(|(_, stride)| stride.clone()).collect()
}

impl Window {
    /// Where a value lies that is cut out of an input, before and behind writes at chosen places.
    fn of(body: &Graph, value: Value) -> Option<Window> {
        let (mut way, mut at): (Vec<NodeId>, Value) = (Vec::new(), value);
        let input = loop {
            match body.def(at) {
                Def::Input(input) => break input,
                Def::Node(id, _) => {
                    way.push(id);
                    at = *body.node(id).operands.first()?;
                }
            }
        };
        let mut offset = Dim::constant(0);
        let mut strides = contiguous_strides(&body.ty(at).shape);
        for id in way.into_iter().rev() {
            let node = body.node(id);
            match &node.op {
                Op::Prim(Prim::Scatter { .. }) => {}
                Op::Prim(Prim::Slice { axis, start, step, .. }) => {
                    offset = &offset + &(start * &strides[*axis]);
                    strides[*axis] = &strides[*axis] * &Dim::constant(*step);
                }
                Op::Prim(Prim::Reshape { shape }) => {
                    strides = restrided(&body.ty(node.operands[0]).shape, &strides, shape)?;
                }
                Op::Prim(Prim::Permute { perm }) => strides = perm.iter().map(|&i| strides[i].clone()).collect(),
                _ => return None,
            }
        }
        Some(Window { input, offset, strides: wide(body, value, &strides) })
    }
}

/// The concatenations that a write leads to, with all writes into their parts: they are one row program where one of
/// them alone is none.
pub(super) fn assembled(flow: &Flow<'_>, write: NodeId) -> BTreeSet<NodeId> {
    let graph = flow.graph;
    let (mut value, mut root) = (graph.node(write).results[0], None);
    while let &[user] = flow.users(value)
        && !graph.is_output(value)
    {
        match &graph.node(user).op {
            Op::Prim(Prim::Cat { .. }) => root = Some(user),
            op if relabels(op) => {}
            _ => break,
        }
        value = graph.node(user).results[0];
    }
    let (mut found, mut stack) = (BTreeSet::new(), Vec::from_iter(root));
    while let Some(id) = stack.pop() {
        let node = graph.node(id);
        match &node.op {
            Op::Prim(Prim::Cat { .. }) => stack.extend(node.operands.iter().filter_map(|&part| flow.def(part))),
            op if relabels(op) => {
                stack.extend(flow.def(node.operands[0]));
                continue;
            }
            _ if flow.writes(id) => {}
            _ => continue,
        }
        found.insert(id);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Space;

    /// The pieces that are stored of a body, or why it is no row program.
    fn stored(lines: &str, returned: &str) -> Result<Vec<Piece>, crate::region::Refusal> {
        let text = format!(
            "graph @g(s: 1..64; %x: f32[s, 3], %y: f32[s, 5], %c: f32[2, 16, 12], %e: f32[2, 16, 12], %i: i64[s], %j: i64[s]) {{
               {lines}
               return {returned}
             }}"
        );
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        Space::find(&graph, true).map(|space| space.form.map(|form| form.pieces).unwrap_or_default())
    }

    const LAYER: &str = "%a = slice %c {axis = 0, start = 1, end = 2}
       %b = slice %a {axis = 2, start = 2, end = 5}
       %p = reshape %b {shape = [16, 3]}
       %w = scatter %p, %i, %x {axis = 0}
       %v = reshape %w {shape = [1, 16, 3]}
       %d = slice %a {axis = 2, start = 0, end = 2}
       %h = slice %a {axis = 2, start = 5, end = 12}
       %k = cat %d, %v, %h {axis = 2}
       %f = slice %c {axis = 0, start = 0, end = 1}
       %o = cat %f, %k {axis = 0}";

    #[test]
    fn a_part_is_stored_where_it_lies() {
        let pieces = stored(LAYER, "%o updates %c").expect("is a row program");
        let dims = |numbers: &[i64]| numbers.iter().map(|&n| Dim::constant(n)).collect::<Vec<_>>();
        let offset = Dim::constant(16 * 12 + 2);
        assert_eq!(pieces, [Piece { output: 0, offset, strides: dims(&[192, 12, 1]) }]);
    }

    #[test]
    fn what_is_no_part_of_one_input_in_its_place_is_refused() {
        let apart = |from: &str, to: &str| stored(&LAYER.replacen(from, to, 1), "%o updates %c").is_err();
        assert!(apart("%f = slice %c", "%f = slice %e"), "another input beside");
        assert!(apart("start = 0, end = 2}", "start = 5, end = 7}"), "another part beside");
        assert!(apart("%b = slice %a {axis = 2, start = 2, end = 5}", "%b = slice %a {axis = 2, start = 3, end = 6}"));
        assert!(stored(LAYER, "%o updates %c, %w").is_err(), "the part is returned as well");
        let read = format!("{LAYER}\n %g = gather %c, %i {{axis = 1}}");
        assert!(stored(&read, "%o updates %c, %g").is_err(), "the input is read");
    }

    #[test]
    fn two_outputs_do_not_write_into_one_input() {
        let part = |n: i64, start: i64| {
            format!(
                "%a{n} = slice %c {{axis = 2, start = 0, end = {start}}}
                 %b{n} = slice %c {{axis = 2, start = {start}, end = {end}}}
                 %d{n} = slice %c {{axis = 2, start = {end}, end = 12}}
                 %p{n} = reshape %b{n} {{shape = [32, 3]}}
                 %w{n} = scatter %p{n}, %i, %x {{axis = 0}}
                 %v{n} = reshape %w{n} {{shape = [2, 16, 3]}}
                 %o{n} = cat %a{n}, %v{n}, %d{n} {{axis = 2}}",
                end = start + 3
            )
        };
        let both = format!("{}\n{}", part(1, 2), part(2, 7));
        assert!(stored(&both, "%o1").is_ok());
        assert!(stored(&both, "%o1, %o2").is_err());
    }
}
