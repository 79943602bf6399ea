//! Writes at chosen places one after the other into one input: keys and values of a cache that holds both.
//!
//! Rows of a kernel write in any order, so that one kernel holds several such writes only where no place of one is a
//! place of another: they go into parts of the input that do not overlap.

use std::collections::BTreeMap;

use fusewright_graph::{Builder, Def, Graph, InputKind, NodeId, Op, Prim, TensorType, TypeError, Value};

use super::RowForm;
use super::form::Piece;
use super::packed::returning;
use super::stored::{is_chain, unwrapped};
use crate::stretch::Places;

/// A body of primitives in which every write reads the input as it was; `None` if none follows another, or places are
/// not known to lie apart.
pub(super) fn chained(body: &Graph) -> Option<RowForm> {
    let writes: Vec<NodeId> = body.node_ids().filter(|&id| is_write(body, id)).collect();
    if writes.len() < 2 {
        return None;
    }
    let users = body.users();
    let mut links: Vec<(NodeId, NodeId)> = Vec::new();
    for id in writes {
        let base = body.node(id).operands[0];
        let (_, Some(before)) = unwrapped(body, base) else { continue };
        if is_write(body, before) {
            is_chain(body, &users, body.node(before).results[0], base).then_some(())?;
            links.push((id, before));
        }
    }
    let before = |id: NodeId| links.iter().find(|(link, _)| *link == id).map(|(_, before)| *before);
    let chain = |id: NodeId| std::iter::successors(Some(id), |&id| before(id));
    let apart = |(id, _): &(NodeId, NodeId)| chain(*id).skip(1).all(|earlier| lie_apart(body, *id, earlier));
    if links.is_empty() || !links.iter().all(apart) {
        return None;
    }
    let mut stores = Vec::new();
    for (output, of) in body.outputs().iter().enumerate() {
        stores.push(Store { output, write: None });
        if let (_, Some(last)) = unwrapped(body, of.value) {
            stores.extend(chain(last).skip(1).map(|earlier| Store { output, write: Some(earlier) }));
        }
    }
    parallel(body, &links, &stores)
}

/// What is stored into an output: its value, or that of a write before the last one.
struct Store {
    output: usize,
    write: Option<NodeId>,
}

/// The body with an input of its own for every write that follows another.
fn parallel(body: &Graph, links: &[(NodeId, NodeId)], stores: &[Store]) -> Option<RowForm> {
    let position = |id: NodeId| body.inputs().iter().position(|input| input.value == root(body, id));
    let bases = links.iter().map(|&(id, _)| Some((id, position(id)?))).collect::<Option<Vec<(NodeId, usize)>>>()?;
    let mut inputs: Vec<usize> = (0..body.inputs().len()).collect();
    let mut map: BTreeMap<Value, Value> = BTreeMap::new();
    let mut laid_out: BTreeMap<(usize, NodeId), Value> = BTreeMap::new();
    let rebuilt = body.rebuild(|b, id, node, operands| {
        let mut operands = operands.to_vec();
        if let Some(&(_, at)) = bases.iter().find(|(of, _)| *of == id) {
            let base = with_another(b, body, at, body.ty(body.inputs()[at].value), &mut inputs);
            operands[0] = seen(body, node.operands[0], base, b)?;
        }
        let results = b.op(node.op.clone(), &operands)?;
        map.extend(node.results.iter().copied().zip(results.iter().copied()));
        for &Store { output, write } in stores {
            // As the last write is seen by the output, which comes behind it.
            let last = || unwrapped(body, body.outputs()[output].value).1 == Some(id);
            if let Some(earlier) = write.filter(|_| last()) {
                let whole = map.get(&body.node(earlier).results[0]).copied();
                let alike = whole.map(|whole| b.reshape(whole, body.ty(node.results[0]).shape.clone())).transpose()?;
                let output_value = body.outputs()[output].value;
                if let Some(alike) = alike {
                    laid_out.insert((output, earlier), relabelled(body, output_value, node.results[0], alike, b)?);
                }
            }
        }
        Ok::<_, TypeError>(results)
    });
    let rebuilt = rebuilt.ok()?;
    map.extend(body.inputs().iter().zip(rebuilt.inputs()).map(|(old, new)| (old.value, new.value)));
    let value = |store: &Store| match store.write {
        Some(write) => laid_out.get(&(store.output, write)).copied(),
        None => map.get(&body.outputs()[store.output].value).copied(),
    };
    let values = stores.iter().map(value).collect::<Option<Vec<Value>>>()?;
    let piece = |&Store { output, .. }: &Store| Piece::whole(output, &body.ty(body.outputs()[output].value).shape);
    Some(RowForm { body: returning(&rebuilt, &values)?, inputs, pieces: stores.iter().map(piece).collect() })
}

/// Another input, of such a type, that stands for the input of a body at a position, beside those that `inputs` lists.
pub(super) fn with_another(b: &Builder, body: &Graph, at: usize, ty: &TensorType, inputs: &mut Vec<usize>) -> Value {
    let mut name = format!("{}_{}", body.inputs()[at].name, inputs.len());
    while body.inputs().iter().any(|input| input.name == name) {
        name.push('_');
    }
    inputs.push(at);
    b.add_input(&name, ty.clone(), InputKind::User)
}

/// What a value is of `base` in place of the input that it is written into, without the writes.
fn seen(body: &Graph, value: Value, base: Value, b: &Builder) -> Result<Value, TypeError> {
    let Def::Node(id, _) = body.def(value) else { return Ok(base) };
    let node = body.node(id);
    let of = seen(body, node.operands[0], base, b)?;
    if is_write(body, id) { Ok(of) } else { Ok(b.op(node.op.clone(), &[of])?[0]) }
}

/// The reshapes and permutations that lead from one value to another, of a value in place of the first.
fn relabelled(body: &Graph, to: Value, from: Value, value: Value, b: &Builder) -> Result<Value, TypeError> {
    let Def::Node(id, _) = body.def(to) else { return Ok(value) };
    if to == from {
        return Ok(value);
    }
    let node = body.node(id);
    let of = relabelled(body, node.operands[0], from, value, b)?;
    Ok(b.op(node.op.clone(), &[of])?[0])
}

/// Whether a node writes at chosen places.
pub(super) fn is_write(body: &Graph, id: NodeId) -> bool {
    matches!(body.node(id).op, Op::Prim(Prim::Scatter { .. }))
}

/// What the first of the writes that lead to one writes into.
fn root(body: &Graph, mut id: NodeId) -> Value {
    loop {
        match unwrapped(body, body.node(id).operands[0]) {
            (_, Some(before)) if is_write(body, before) => id = before,
            (value, _) => return value,
        }
    }
}

/// Whether no place of one write is a place of one before it, which it sees through reshapes and other writes alone.
fn lie_apart(body: &Graph, later: NodeId, earlier: NodeId) -> bool {
    let axis = |id: NodeId| match body.node(id).op {
        Op::Prim(Prim::Scatter { axis: 0 }) => body.ty(body.node(id).operands[0]).shape.first(),
        _ => None,
    };
    let alike = axis(later).is_some() && axis(later) == axis(earlier) && follows(body, later, earlier);
    let places = |id: NodeId| Places::of(body, body.node(id).operands[1]);
    alike && places(later).are_apart(&places(earlier))
}

/// Whether a write sees what another one wrote through reshapes and other writes alone.
fn follows(body: &Graph, later: NodeId, earlier: NodeId) -> bool {
    let mut value = body.node(later).operands[0];
    while let Def::Node(at, _) = body.def(value) {
        if at == earlier {
            return true;
        }
        if !matches!(body.node(at).op, Op::Prim(Prim::Reshape { .. } | Prim::Scatter { .. })) {
            return false;
        }
        value = body.node(at).operands[0];
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::Space;

    /// Whether two writes after one another, at places `p` and `q`, are one row program.
    #[track_caller]
    fn joins(p: &str, q: &str) -> bool {
        let text = format!(
            "graph @g(s: 1..64, b: 1..8; %x: f32[s, 8], %y: f32[s, 8], %c: f32[64*b, 8], %i: i64[s], %j: i64[s]) {{
               %zero = literal i64 0
               %one = literal i64 1
               %two = literal i64 2
               %three = literal i64 3
               %four = literal i64 4
               %n = size_of {{dim = 4*b}}
               %none = literal i64 -1
               %least = ge %i, %zero
               %below = lt %i, %four
               %sized = lt %i, %n
               %in = and %least, %below
               %fits = and %sized, %least
               {p}
               {q}
               %a = scatter %c, %p, %x {{axis = 0}}
               %w = scatter %a, %q, %y {{axis = 0}}
               return %w updates %c
             }}"
        );
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        let found = Space::find(&graph, true);
        found.is_ok_and(|space| space.form.is_some_and(|form| form.pieces.len() == 2))
    }

    #[test]
    fn places_lie_apart_where_their_stretches_do() {
        let first = "%p = select %in, %i, %none";
        assert!(joins(first, "%m = add %four, %i\n %q = select %in, %m, %none"));
        assert!(joins("%m = add %i, %four\n %p = select %in, %m, %none", "%q = select %in, %i, %none"));
        assert!(!joins(first, "%m = add %three, %i\n %q = select %in, %m, %none"), "place 3 is of both");
        assert!(!joins(first, "%m = add %four, %j\n %q = select %in, %m, %none"), "`j` is not bounded");
        assert!(!joins(first, "%m = add %four, %i\n %q = select %below, %m, %none"), "not bounded from below");
        assert!(!joins(first, "%m = add %four, %i\n %q = select %in, %m, %zero"), "others are at 0");
        assert!(!joins("%p = add %i, %zero", "%q = add %i, %four"), "not bounded");
        // Extents that are symbols.
        let sized = "%p = select %fits, %i, %none";
        assert!(joins(sized, "%m = add %n, %i\n %q = select %fits, %m, %none"));
        assert!(!joins(sized, "%m = add %four, %i\n %q = select %fits, %m, %none"));
    }

    #[test]
    fn stretches_of_one_period_lie_apart_within_it() {
        let of = |name: &str, length: &str, period: &str, begin: &str| {
            format!(
                "%d{name} = div %i, %{length}\n %r{name} = rem %i, %{length}\n %e{name} = mul %d{name}, %{period}\n \
                 %f{name} = add %e{name}, %r{name}\n %m{name} = add %f{name}, %{begin}\n \
                 %{name} = select %in, %m{name}, %none"
            )
        };
        assert!(joins(&of("p", "two", "four", "zero"), &of("q", "two", "four", "two")));
        assert!(joins(&of("p", "one", "three", "two"), &of("q", "two", "three", "zero")));
        assert!(!joins(&of("p", "two", "four", "one"), &of("q", "two", "four", "two")), "place 2 is of both");
        assert!(!joins(&of("p", "two", "four", "zero"), &of("q", "two", "three", "two")), "they end behind a period");
        assert!(!joins(&of("p", "one", "two", "zero"), &of("q", "one", "four", "one")), "other periods");
        assert!(!joins(&of("p", "two", "four", "zero"), "%m = add %four, %i\n %q = select %in, %m, %none"));
    }
}
