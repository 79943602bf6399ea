//! Recognises decomposed composites, from their own expansions.
//!
//! Every variant of every composite is expanded into a pattern. A pattern is found by its shape alone: which functions
//! of which values, commutative operands in either order, any constants. What is found is then bound: constants that the
//! expansion takes from attributes give the attributes, the composite is expanded again on the actual operands, and the
//! result must equal the found nodes op for op. So a near twin is never raised. Nodes of a match that others read stay.
//! A reshape that ends an expansion is left out of the comparison, since graphs merge it with the next one; slices that
//! begin it may be cut out of more than the operand, for the same reason.

mod cut;
mod equal;
mod pattern;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::ops::Composite;
use fusewright_graph::{Def, Graph, NodeId, Op, Prim, TypeError, Value};

use crate::pass::{Cx, Diagnostic, Outcome, Pass, PassResult};
use crate::passes::rewrite;

use cut::Operand;
#[cfg(test)]
use equal::same_function;
use pattern::{Bound, Pattern, ending_in};

/// The pass.
pub const PASS: Pass = Pass { name: "raise", required: false, run };

/// Composites hold composites: each sweep may complete a larger one.
const SWEEPS: usize = 8;

/// The graph with every recognised composite in place of its expansion; what is left of the expansion is unused.
///
/// # Errors
/// None for a verified graph.
pub fn raise(graph: &Graph) -> PassResult {
    run(graph, &mut Cx::default())
}

fn run(graph: &Graph, cx: &mut Cx) -> PassResult {
    let mut graph = graph.clone();
    let mut changed = 0;
    for _ in 0..SWEEPS {
        let mut found = find(&graph);
        found.retain(|_, _| {
            let kept = !cx.is_spent();
            cx.spend();
            kept
        });
        if found.is_empty() {
            break;
        }
        changed += found.len();
        graph = replace(&graph, found).map_err(|error| Diagnostic {
            pass: PASS.name,
            message: error.to_string(),
            origin: None,
        })?;
        graph = crate::passes::dce(&graph).0;
    }
    Ok((graph, Outcome { changed }))
}

/// A composite found in a graph.
struct Found {
    composite: Composite,
    operands: Vec<Operand>,
    results: Vec<Value>,
}

/// Every match, by the node at which the composite goes in. A value is the result of one match at most.
fn find(graph: &Graph) -> BTreeMap<NodeId, Found> {
    let mut found: BTreeMap<NodeId, Found> = BTreeMap::new();
    let mut taken: BTreeSet<Value> = BTreeSet::new();
    for id in graph.node_ids() {
        let matched = ending_in(graph.node(id).op.name()).iter().find_map(|pattern| recognise(graph, pattern, id));
        let Some((place, matched)) = matched else { continue };
        if found.contains_key(&place) || matched.results.iter().any(|r| taken.contains(r)) {
            continue;
        }
        taken.extend(matched.results.iter().copied());
        found.insert(place, matched);
    }
    found
}

/// The composite that a node is the last of, and the node at which its operands are known and no result is read yet.
fn recognise(graph: &Graph, pattern: &Pattern, root: NodeId) -> Option<(NodeId, Found)> {
    [false, true].into_iter().find_map(|swapped| {
        let bound = pattern.find(graph, root, swapped)?;
        bound_to(graph, pattern, &bound, root)
    })
}

/// The composite on what was found, if its expansion stands there.
fn bound_to(graph: &Graph, pattern: &Pattern, bound: &Bound, root: NodeId) -> Option<(NodeId, Found)> {
    let composite = pattern.composite(bound)?;
    let results = equal::occurrence(graph, &composite, &bound.operands, graph.node(root).results[0])?;
    let place = results.iter().filter_map(|&r| definition(graph, r)).min()?;
    let known = bound.operands.iter().all(|o| definition(graph, o.source()).is_none_or(|id| id < place));
    known.then(|| (place, Found { composite, operands: bound.operands.clone(), results }))
}

fn definition(graph: &Graph, value: Value) -> Option<NodeId> {
    match graph.def(value) {
        Def::Node(id, _) => Some(id),
        Def::Input(_) => None,
    }
}

fn replace(graph: &Graph, mut found: BTreeMap<NodeId, Found>) -> Result<Graph, TypeError> {
    // Values of the old graph in the new one.
    let mut map: BTreeMap<Value, Value> = BTreeMap::new();
    let mut raised: BTreeMap<Value, Value> = BTreeMap::new();
    // Reshapes that follow a composite: one after them is merged.
    let mut reshaped: BTreeSet<Value> = BTreeSet::new();
    graph.rebuild(|b, id, node, operands| {
        map.extend(node.operands.iter().copied().zip(operands.iter().copied()));
        if let Some(found) = found.remove(&id) {
            // Inputs keep their order, so the first values of both graphs are the same.
            let of = |v: Value| map.get(&v).copied().or_else(|| matches!(graph.def(v), Def::Input(_)).then_some(v));
            if let Some(sources) = found.operands.iter().map(|o| of(o.source())).collect::<Option<Vec<Value>>>() {
                let operands = found.operands.iter().zip(sources).map(|(operand, source)| operand.emit(b, source));
                let operands = operands.collect::<Result<Vec<Value>, TypeError>>()?;
                // Of several results the last: all that was found leads to it.
                let last = found.results.iter().filter_map(|&r| definition(graph, r)).max().unwrap_or(id);
                b.set_origin(graph.node(last).origin.clone());
                let results = b.composite(found.composite, &operands)?;
                b.set_origin(node.origin.clone());
                for (old, new) in found.results.into_iter().zip(results) {
                    let value = b.reshape(new, graph.ty(old).shape.clone())?;
                    if value != new {
                        reshaped.insert(value);
                    }
                    raised.insert(old, value);
                }
            }
        }
        let old = &node.results;
        let results = match old.iter().map(|r| raised.get(r).copied()).collect::<Option<Vec<Value>>>() {
            Some(results) => results,
            None if is_reshape(&node.op) && reshaped.contains(&operands[0]) => rewrite::emit(b, &node.op, operands)?,
            None => b.op(node.op.clone(), operands)?,
        };
        map.extend(old.iter().copied().zip(results.iter().copied()));
        Ok(results)
    })
}

fn is_reshape(op: &Op) -> bool {
    matches!(op, Op::Prim(Prim::Reshape { .. }))
}
