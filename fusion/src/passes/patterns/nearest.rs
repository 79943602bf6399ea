//! The place that comes nearest to a pattern which is found nowhere, and the first node that breaks it.

use std::cell::RefCell;

use fusewright_graph::text::{RuleNode, RuleOp};
use fusewright_graph::{Graph, Value};

use super::find::Finder;
use crate::pass::NearMiss;
use crate::rewrites::{Instance, Search, UserPattern, Watch, op_name};

/// Keeps the miss with most nodes; of equals, one where the op at least is right; of equals, the first.
struct Closest<'g> {
    graph: &'g Graph,
    nodes: usize,
    best: RefCell<Option<((usize, bool), NearMiss)>>,
}

impl Watch for Closest<'_> {
    fn miss(&self, matched: usize, close: bool, at: Value, why: &dyn Fn() -> (String, String)) {
        let mut best = self.best.borrow_mut();
        if best.as_ref().is_none_or(|(known, _)| *known < (matched, close)) {
            let (expected, found) = why();
            let named = || format!("`{}`", self.graph.value_name(at).unwrap_or_default());
            let origin = match self.graph.def_node(at) {
                // A graph of text has its own names and no others.
                Some(node) if node.origin.node.is_none() && self.graph.value_name(at).is_some() => named(),
                Some(node) => node.origin.to_string(),
                None => format!("input {}", named()),
            };
            let near = NearMiss { matched, nodes: self.nodes, expected, found, origin: Some(origin) };
            *best = Some(((matched, close), near));
        }
    }
}

/// What came nearest. Every node of the pattern is tried as the last one; where all before it are there, what reads the
/// value breaks the match.
pub(super) fn nearest(graph: &Graph, pattern: &UserPattern) -> NearMiss {
    let lhs = &pattern.rewrite.lhs;
    let computing: Vec<&RuleNode> = lhs.nodes.iter().filter(|n| !matches!(n.op, RuleOp::Constant(_))).collect();
    let closest = Closest { graph, nodes: computing.len(), best: RefCell::new(None) };
    let finder = Finder::new(graph, pattern, Some(&closest));
    finder.all();
    for node in computing.iter().rev() {
        let reader = computing.iter().find(|n| n.operands.iter().any(|o| node.results.contains(o)));
        for id in finder.candidates(&node.results[0]) {
            let value = graph.node(id).results[0];
            let mut search = Search::new(graph, &pattern.rewrite, Some(&closest));
            search.values(vec![(node.results[0].as_str(), value)], &mut |state| {
                if let Some(reader) = reader {
                    forward(&closest, &finder, (node, reader), state);
                }
                false
            });
        }
    }
    closest.best.into_inner().map(|(_, near)| near).unwrap_or_else(|| {
        let names: Vec<String> = computing.iter().map(|n| format!("`{}`", op_name(&n.op))).collect();
        let expected = names.join(", ");
        NearMiss { matched: 0, nodes: computing.len(), expected, found: "no such op in the graph".into(), origin: None }
    })
}

/// All before and with a node is there, so the node that should read it is not.
fn forward(closest: &Closest<'_>, finder: &Finder<'_>, (node, reader): (&RuleNode, &RuleNode), state: &Instance<'_>) {
    let graph = closest.graph;
    let wanted = op_name(&reader.op);
    for name in node.results.iter().filter(|name| reader.operands.contains(name)) {
        let value = state.values[name.as_str()];
        let users: Vec<_> = finder.users[value.0 as usize].iter().map(|id| graph.node(*id)).collect();
        // A reader of the right name says itself what is wrong with it.
        if users.iter().any(|user| user.op.name() == wanted) {
            continue;
        }
        let expected = format!("`{wanted}` that reads `{name}`");
        match users.first() {
            Some(user) => {
                let at = user.results.first().copied().unwrap_or(value);
                closest.miss(state.matched, false, at, &|| (expected.clone(), format!("`{}`", user.op.name())));
            }
            None => {
                closest.miss(state.matched, false, value, &|| (expected.clone(), "an output of the graph".to_owned()))
            }
        }
    }
}
