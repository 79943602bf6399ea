//! The place that comes nearest to a pattern which is found nowhere, and the first node that breaks it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use fusewright_graph::text::{Rule, RuleNode, RuleOp};
use fusewright_graph::{Graph, Op, Prim, Value};

use super::find::Finder;
use crate::pass::NearMiss;
use crate::rewrites::{Instance, Search, UserPattern, Watch, op_name};

/// How near a place came: nodes that match one after the other, ops of the pattern that stand around it, and whether the
/// op that breaks the match is the right one.
type Nearness = (usize, usize, bool);

/// Keeps the miss that is nearest; of equals the first, and places of the pattern's last node are tried first.
struct Closest<'g> {
    graph: &'g Graph,
    lhs: &'g Rule,
    nodes: usize,
    /// Ops of the pattern that stand around the place where the search began.
    around: Cell<usize>,
    best: RefCell<Option<(Nearness, NearMiss)>>,
}

impl Watch for Closest<'_> {
    fn begin(&self, name: &str, value: Value) {
        self.around.set(around(self.graph, self.lhs, (name, value), &mut BTreeMap::new()));
    }

    fn miss(&self, matched: usize, close: bool, at: Value, why: &dyn Fn() -> (String, String)) {
        let nearness = (matched, self.around.get(), close);
        let mut best = self.best.borrow_mut();
        if best.as_ref().is_none_or(|(known, _)| *known < nearness) {
            let (expected, found) = why();
            let named = || format!("`{}`", self.graph.value_name(at).unwrap_or_default());
            let origin = match self.graph.def_node(at) {
                // A graph of text has its own names and no others.
                Some(node) if node.origin.node.is_none() && self.graph.value_name(at).is_some() => named(),
                Some(node) => node.origin.to_string(),
                None => format!("input {}", named()),
            };
            let near = NearMiss { matched, nodes: self.nodes, expected, found, origin: Some(origin) };
            *best = Some((nearness, near));
        }
    }
}

/// How many ops of what makes a name of the left side stand in what makes a value, whatever else is wrong with them.
fn around<'r>(
    graph: &Graph,
    lhs: &'r Rule,
    (name, value): (&'r str, Value),
    known: &mut BTreeMap<(&'r str, Value), usize>,
) -> usize {
    if let Some(&count) = known.get(&(name, value)) {
        return count;
    }
    let wanted = lhs.nodes.iter().find(|n| n.results.iter().any(|r| r == name));
    let Some((wanted, node)) = wanted.zip(graph.def_node(value)) else { return 0 };
    if matches!(wanted.op, RuleOp::Constant(_)) || op_name(&wanted.op) != node.op.name() {
        return 0;
    }
    let mut sum = |swapped: bool| {
        let mut operands = node.operands.clone();
        if swapped {
            operands.swap(0, 1);
        }
        let pairs = wanted.operands.iter().map(String::as_str).zip(operands);
        pairs.map(|pair| around(graph, lhs, pair, known)).sum::<usize>()
    };
    let commutes = matches!(&node.op, Op::Prim(Prim::Map(f)) if f.spec().commutative);
    let count = 1 + sum(false).max(if commutes { sum(true) } else { 0 });
    known.insert((name, value), count);
    count
}

/// What came nearest. Every node of the pattern is tried as the last one; where all before it are there, what reads the
/// value breaks the match.
pub(super) fn nearest(graph: &Graph, pattern: &UserPattern) -> NearMiss {
    let lhs = &pattern.rewrite.lhs;
    let computing: Vec<&RuleNode> = lhs.nodes.iter().filter(|n| !matches!(n.op, RuleOp::Constant(_))).collect();
    let (around, best) = (Cell::new(0), RefCell::new(None));
    let closest = Closest { graph, lhs, nodes: computing.len(), around, best };
    let finder = Finder::new(graph, pattern, Some(&closest));
    finder.all();
    for node in computing.iter().rev() {
        let reader = computing.iter().find(|n| n.operands.iter().any(|o| node.results.contains(o)));
        for id in finder.candidates(&node.results[0]) {
            let value = graph.node(id).results[0];
            closest.begin(&node.results[0], value);
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
