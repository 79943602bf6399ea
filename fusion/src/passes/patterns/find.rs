//! Matches of one pattern in a whole graph.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::text::RuleOp;
use fusewright_graph::{Def, Graph, NodeId, TensorType, Value};

use super::{order, roots};
use crate::rewrites::{Found, Instance, Plan, Search, UserPattern, Watch, op_name};

/// A place where the pattern stands.
#[derive(Debug)]
pub(super) struct Match {
    /// Nodes of the left side, constants left out.
    pub nodes: BTreeSet<NodeId>,
    /// Values of the parameters.
    pub operands: Vec<Value>,
    /// Values that are replaced.
    pub yields: Vec<Value>,
    /// The first node that yields one.
    pub place: NodeId,
    /// The right side.
    pub plan: Plan,
}

impl Match {
    /// The nodes that yield.
    pub fn yielding(&self, graph: &Graph) -> BTreeSet<NodeId> {
        self.yields.iter().filter_map(|&v| definition(graph, v)).collect()
    }

    /// Whether operands stand before everything that is replaced.
    fn in_order(&self, graph: &Graph) -> bool {
        self.operands.iter().all(|&v| definition(graph, v).is_none_or(|id| id < self.place))
    }
}

pub(super) fn definition(graph: &Graph, value: Value) -> Option<NodeId> {
    match graph.def(value) {
        Def::Node(id, _) => Some(id),
        Def::Input(_) => None,
    }
}

/// Looks for a pattern in a graph.
pub(super) struct Finder<'g> {
    graph: &'g Graph,
    pattern: &'g UserPattern,
    watch: Option<&'g dyn Watch>,
    pub users: Vec<Vec<NodeId>>,
    by_name: BTreeMap<&'g str, Vec<NodeId>>,
}

impl<'g> Finder<'g> {
    pub fn new(graph: &'g Graph, pattern: &'g UserPattern, watch: Option<&'g dyn Watch>) -> Self {
        let mut by_name: BTreeMap<&str, Vec<NodeId>> = BTreeMap::new();
        for id in graph.node_ids() {
            by_name.entry(graph.node(id).op.name()).or_default().push(id);
        }
        Finder { graph, pattern, watch, users: graph.users(), by_name }
    }

    /// The nodes of the graph with the op of the node of the pattern that computes a name.
    pub fn candidates(&self, name: &str) -> Vec<NodeId> {
        let node = self.pattern.rewrite.lhs.nodes.iter().find(|n| n.results.iter().any(|r| r == name));
        node.and_then(|n| self.by_name.get(op_name(&n.op))).cloned().unwrap_or_default()
    }

    /// Every match; two share no node.
    pub fn all(&self) -> Vec<Match> {
        let roots = roots(&self.pattern.rewrite.lhs);
        let mut found: Vec<Match> = Vec::new();
        let mut taken: BTreeSet<NodeId> = BTreeSet::new();
        for id in self.candidates(roots[0]) {
            if let Some(matched) = self.rooted(&roots, &[id], &taken) {
                taken.extend(&matched.nodes);
                found.push(matched);
            }
        }
        // Each match has a place, but two together may wait for each other.
        let mut disordered = found.iter().filter(|m| !m.in_order(self.graph)).count();
        while disordered > 1 && order::of(self.graph, &found).is_none() {
            let last = found.iter().rposition(|m| !m.in_order(self.graph)).expect("one is left");
            found.remove(last);
            disordered -= 1;
        }
        if order::of(self.graph, &found).is_none() {
            found.retain(|m| m.in_order(self.graph));
        }
        found
    }

    /// The match whose first roots are these nodes.
    fn rooted(&self, roots: &[&'g str], nodes: &[NodeId], taken: &BTreeSet<NodeId>) -> Option<Match> {
        let wanted =
            roots.iter().zip(nodes).map(|(name, id)| (*name, self.graph.node(*id).results[0])).collect::<Vec<_>>();
        let mut search = Search::new(self.graph, &self.pattern.rewrite, self.watch);
        if let (Some(watch), Some((name, value))) = (self.watch, wanted.first()) {
            watch.begin(name, *value);
        }
        if nodes.len() == roots.len() {
            let mut made = None;
            search.values(wanted, &mut |state| {
                made = self.accepted(state, nodes, taken);
                made.is_some()
            });
            return made;
        }
        search.values(wanted, &mut |_| true)?;
        self.candidates(roots[nodes.len()]).into_iter().filter(|id| !nodes.contains(id)).find_map(|id| {
            let nodes = [nodes, &[id]].concat();
            self.rooted(roots, &nodes, taken)
        })
    }

    fn miss(&self, state: &Instance<'_>, at: Value, expected: impl Into<String>, found: impl Into<String>) {
        if let Some(watch) = self.watch {
            let (expected, found) = (expected.into(), found.into());
            watch.miss(state.matched, true, at, &|| (expected.clone(), found.clone()));
        }
    }

    /// What is made of a complete match of the left side, if it may be replaced.
    fn accepted(&self, state: &Instance<'g>, roots: &[NodeId], taken: &BTreeSet<NodeId>) -> Option<Match> {
        let (graph, lhs) = (self.graph, &self.pattern.rewrite.lhs);
        let root = graph.node(roots[0]).results[0];
        let seen = Found::new(graph, &state.values, &state.attrs);
        if let Some(guard) = self.pattern.guards.iter().find(|guard| !guard.holds(&seen)) {
            self.miss(state, root, format!("`{guard}`"), guard.seen(&seen));
            return None;
        }
        let computing = lhs.nodes.iter().filter(|n| !matches!(n.op, RuleOp::Constant(_)));
        let values = computing.flat_map(|n| &n.results).map(|name| (name, state.values[name.as_str()]));
        let values: Vec<(&String, Value)> = values.collect();
        let nodes: BTreeSet<NodeId> = values.iter().filter_map(|(_, v)| definition(graph, *v)).collect();
        if !nodes.is_disjoint(taken) {
            return None;
        }
        for (name, value) in values.iter().filter(|(name, _)| !lhs.yields.contains(name)) {
            if graph.is_output(*value) {
                self.miss(
                    state,
                    *value,
                    format!("no reader of `{name}` outside, or `yield {name}`"),
                    "an output of the graph",
                );
                return None;
            }
            if let Some(reader) = self.users[value.0 as usize].iter().find(|id| !nodes.contains(id)) {
                let reader = graph.node(*reader);
                let found = format!("`{}` that reads it too", reader.op.name());
                let at = reader.results.first().copied().unwrap_or(*value);
                self.miss(state, at, format!("no reader of `{name}` outside, or `yield {name}`"), found);
                return None;
            }
        }
        self.planned(state, root, nodes)
    }

    fn planned(&self, state: &Instance<'g>, root: Value, nodes: BTreeSet<NodeId>) -> Option<Match> {
        let (graph, rewrite) = (self.graph, &self.pattern.rewrite);
        // Nodes of both sides are made anew, since everything that matched goes away.
        let names: BTreeSet<&str> = rewrite.lhs.params.iter().map(|p| p.name.as_str()).collect();
        let mut bound = state.clone();
        bound.values.retain(|name, _| names.contains(name));
        let yields: Vec<Value> = rewrite.lhs.yields.iter().map(|name| state.values[name.as_str()]).collect();
        let types: Vec<TensorType> = yields.iter().map(|&v| graph.ty(v).clone()).collect();
        let print = |types: &[TensorType]| types.iter().map(TensorType::to_string).collect::<Vec<_>>().join(", ");
        let Some(plan) = Plan::of(graph, rewrite, &bound) else {
            self.miss(state, root, "operands that fit the right side", "operands that do not");
            return None;
        };
        if plan.types(graph) != types {
            let made = print(&plan.types(graph));
            self.miss(state, root, format!("a replacement of {}", print(&types)), made);
            return None;
        }
        let place = yields.iter().filter_map(|&v| definition(graph, v)).min()?;
        let matched = Match { nodes, operands: bound.values.values().copied().collect(), yields, place, plan };
        if !matched.in_order(graph) && order::of(graph, [&matched]).is_none() {
            self.miss(state, root, "operands that do not depend on what is yielded", "an operand that does");
            return None;
        }
        Some(matched)
    }
}
