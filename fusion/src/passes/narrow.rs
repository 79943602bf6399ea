//! Computes only the part of a value that is read.
//!
//! Of a value that nothing but a slice reads, as of the last token's row behind the final norm, the rest need not be
//! computed: the slice of an op along an axis whose elements it computes apart from each other is the op of slices, and
//! that of joined pieces joins slices of them, such as the state of a convolution, which new columns push on. What is
//! computed keeps every bit.

use std::collections::{HashMap, HashSet};

use fusewright_graph::axes::{AxisId, AxisMap};
use fusewright_graph::{Builder, Dim, Graph, Input, NodeId, Op, Prim, TensorType, TypeError, Value, infer};

use super::{dce, layout, rewrite};
use crate::pass::{Cx, Diagnostic, Outcome, Pass, PassResult};
use crate::region::is_layout;

/// The pass.
pub const PASS: Pass = Pass { name: "narrow", required: false, run };

/// Most ops in a row that a slice passes.
const MOST_OPS: usize = 1000;

fn run(graph: &Graph, cx: &mut Cx) -> PassResult {
    let mut narrow = Narrow { graph, once: read_once(graph), new: HashMap::new() };
    let mut changed = 0;
    let rebuilt = graph.rebuild(|b, id, node, operands| {
        let failed = |e| Diagnostic::rebuilt(PASS.name, &node.origin, &e);
        if let Op::Prim(cut @ Prim::Slice { .. }) = &node.op
            && !cx.is_spent()
            && let Some(part) = narrow.part(b, cut, operands[0], 0).map_err(failed)?
        {
            cx.spend();
            changed += 1;
            return Ok(vec![part]);
        }
        let results = b.op(node.op.clone(), operands).map_err(failed)?;
        if let [old] = node.results[..]
            && narrow.once.contains(&old)
        {
            narrow.new.insert(results[0], id);
        }
        Ok(results)
    });
    Ok((rebuilt?, Outcome { changed }))
}

/// The values that are read once, by one operand of what is needed.
fn read_once(graph: &Graph) -> HashSet<Value> {
    let mut reads = vec![0u32; graph.value_count()];
    graph.outputs().iter().for_each(|output| reads[output.value.0 as usize] += 1);
    for node in graph.nodes().iter().rev() {
        if dce::has_effect(&node.op) || node.results.iter().any(|r| reads[r.0 as usize] > 0) {
            node.operands.iter().for_each(|v| reads[v.0 as usize] += 1);
        }
    }
    (0..).map(Value).zip(reads).filter(|(_, reads)| *reads == 1).map(|(value, _)| value).collect()
}

/// The values built so far, which are looked up only, so that the order of a map cannot show.
struct Narrow<'g> {
    graph: &'g Graph,
    once: HashSet<Value>,
    /// Values of the new graph that are read once, and the nodes that they come from.
    new: HashMap<Value, NodeId>,
}

impl Narrow<'_> {
    /// A slice of what nothing else reads, computed from slices, if that computes less.
    fn part(&self, b: &Builder, cut: &Prim, x: Value, depth: usize) -> Result<Option<Value>, TypeError> {
        let Prim::Slice { axis, start, end, step } = cut else { return Ok(None) };
        let Some(&id) = self.new.get(&x).filter(|_| depth < MOST_OPS) else { return Ok(None) };
        let Some((mut op, operands)) = b.definition(x) else { return Ok(None) };
        if let Op::Prim(Prim::Cat { axis: joined }) = &op
            && joined == axis
            && *step == 1
        {
            return of_pieces(b, *axis, [start, end], &operands);
        }
        // Lanes are cut inside of a row program, which then keeps the layout of its rows.
        if axis + 1 == b.ty(x).rank() {
            return Ok(None);
        }
        let types: Vec<TensorType> = operands.iter().map(|&v| b.ty(v)).collect();
        let Some(places) = places(&op, &types, *axis) else { return Ok(None) };
        let mut parts = operands;
        let mut narrower = false;
        for (part, place) in parts.iter_mut().zip(places) {
            let Some(axis) = place else { continue };
            let cut = Prim::Slice { axis, start: start.clone(), end: end.clone(), step: *step };
            *part = match self.part(b, &cut, *part, depth + 1)? {
                Some(computed) => {
                    narrower = true;
                    computed
                }
                None => b.prim(cut, &[*part])?,
            };
        }
        // What only moves elements is read by regions where they lie.
        let copies = is_layout(&op) || matches!(op, Op::Prim(Prim::Cat { .. }));
        if !narrower && copies {
            return Ok(None);
        }
        if let Op::Prim(Prim::Reshape { shape } | Prim::Expand { shape }) = &mut op {
            shape[*axis] = infer(cut, &[&b.ty(x)])?.swap_remove(0).shape.swap_remove(*axis);
        }
        let origin = b.origin();
        b.set_origin(self.graph.node(id).origin.clone());
        let computed = b.op(op, &parts)?.swap_remove(0);
        b.set_origin(origin);
        Ok(Some(computed))
    }
}

/// What goes from a place of the first of joined pieces to one of the last, as slices that are joined.
fn of_pieces(b: &Builder, axis: usize, [start, end]: [&Dim; 2], pieces: &[Value]) -> Result<Option<Value>, TypeError> {
    let borders = layout::borders(b, axis, pieces);
    let last = pieces.len() - 1;
    let from_first = start.as_const() == Some(0) || layout::at_most(start, &borders[1]);
    let to_last = *end == borders[last + 1] || layout::at_most(&borders[last], end);
    if last == 0 || !from_first || !to_last {
        return Ok(None);
    }
    let mut parts = pieces.to_vec();
    let mut cut = |at: usize, start: Dim, end: Dim| {
        let slice = Op::Prim(Prim::Slice { axis, start, end, step: 1 });
        parts[at] = rewrite::emit(b, &slice, &[parts[at]])?.swap_remove(0);
        Ok::<_, TypeError>(())
    };
    cut(0, start.clone(), borders[1].clone())?;
    cut(last, Dim::constant(0), end - &borders[last])?;
    Ok(rewrite::emit(b, &Op::Prim(Prim::Cat { axis }), &parts)?.pop())
}

/// Where each operand has an axis of the one result, if it has: elements along it are computed apart from each other.
fn places(op: &Op, operands: &[TensorType], axis: usize) -> Option<Vec<Option<usize>>> {
    let b = Builder::new("one");
    let inputs: Vec<Value> = operands.iter().map(|ty| b.input("", ty.clone())).collect();
    let [result] = b.op(op.clone(), &inputs).ok()?[..] else { return None };
    b.output(result);
    let body = b.finish().expanded().ok()?;
    let map = AxisMap::of(&body).ok()?;
    let [own] = map.dims(body.outputs()[0].value)[axis][..] else { return None };
    if !apart(&body, &map, own) {
        return None;
    }
    let place = |input: &Input| {
        let dims = map.dims(input.value);
        let mut of = dims.iter().enumerate().filter(|(_, axes)| axes.contains(&own));
        match (of.next(), of.next()) {
            (None, _) => Some(None),
            (Some((at, axes)), None) if axes[..] == [own] => Some(Some(at)),
            _ => None,
        }
    };
    body.inputs().iter().map(place).collect()
}

/// Whether no node of a graph of primitives reads an element along an axis for another one, or counts them.
fn apart(body: &Graph, map: &AxisMap, own: AxisId) -> bool {
    let has = |axes: &[AxisId]| map.resolve(axes).contains(&own);
    let ended = map.reduced().chain(map.taken()).any(|(_, axes)| has(&axes));
    let derived = map.derived().iter().any(|d| has(&[d.axis]) || d.from.iter().any(|axes| has(axes)));
    let extent = map.extent(own);
    !ended
        && !derived
        && body.nodes().iter().all(|node| match &node.op {
            Op::Prim(Prim::Iota { axis, .. }) => !has(&map.dims(node.results[0])[*axis]),
            Op::Prim(Prim::SizeOf(dim)) => dim.as_const().is_some() || extent.as_const().is_some(),
            Op::Prim(
                Prim::Literal(_)
                | Prim::Map(_)
                | Prim::Cast { .. }
                | Prim::Bitcast { .. }
                | Prim::Reduce { .. }
                | Prim::ArgReduce { .. }
                | Prim::TopK { .. }
                | Prim::Reshape { .. }
                | Prim::Permute { .. }
                | Prim::Expand { .. }
                | Prim::Slice { .. }
                | Prim::Cat { .. }
                | Prim::Pack { .. },
            ) => true,
            _ => false,
        })
}
