//! Free nodes, and what depends on what once they are looked through.
//!
//! A free node costs nothing worth a kernel: a layout op, a constant, a function of one-element inputs or, if it costs
//! little, of a counter, unless it is returned. It belongs to no region in particular; every reader has its own copy.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::scalar::Accuracy;
use fusewright_graph::{Def, Graph, NodeId, Op, Prim, Value};

use super::chained::is_write;
use super::grow::is_layout;
use super::stored::relabels;

/// The graph between its computing nodes.
pub(super) struct Flow<'g> {
    pub graph: &'g Graph,
    free: Vec<bool>,
    users: Vec<Vec<NodeId>>,
    /// Computing nodes that each node reads, through free ones.
    sources: Vec<BTreeSet<NodeId>>,
    /// Computing nodes that read each value, through free ones.
    readers: Vec<BTreeSet<NodeId>>,
    /// Whether a value is returned from the graph, through free nodes or not.
    escapes: Vec<bool>,
    /// What scatters are stored as, and by which: who reads one reads it behind the layout ops that undo its views.
    restored: BTreeMap<Value, NodeId>,
}

impl<'g> Flow<'g> {
    pub fn of(graph: &'g Graph) -> Self {
        let users = graph.users();
        let mut free = vec![false; graph.nodes().len()];
        for id in graph.node_ids() {
            free[id.0 as usize] = is_free(graph, &users, id, &free);
        }
        let mut flow = Flow {
            graph,
            free,
            users,
            sources: vec![BTreeSet::new(); graph.nodes().len()],
            readers: vec![BTreeSet::new(); graph.value_count()],
            escapes: vec![false; graph.value_count()],
            restored: BTreeMap::new(),
        };
        flow.follow();
        let last = |id| flow.restoring(id).last().map(|&last| (graph.node(last).results[0], id));
        flow.restored = graph.node_ids().filter_map(last).collect();
        flow
    }

    pub fn is_free(&self, id: NodeId) -> bool {
        self.free[id.0 as usize]
    }

    /// Whether a free node depends on no input.
    pub fn is_of_constants(&self, id: NodeId) -> bool {
        self.graph.node(id).results.iter().all(|&value| is_of_free(self.graph, value, &self.free, false))
    }

    pub fn users(&self, value: Value) -> &[NodeId] {
        &self.users[value.0 as usize]
    }

    pub fn sources(&self, id: NodeId) -> &BTreeSet<NodeId> {
        &self.sources[id.0 as usize]
    }

    pub fn readers(&self, value: Value) -> &BTreeSet<NodeId> {
        &self.readers[value.0 as usize]
    }

    pub fn escapes(&self, value: Value) -> bool {
        self.escapes[value.0 as usize]
    }

    /// Whether a value is needed by computing nodes outside of a set, or returned.
    pub fn leaves(&self, value: Value, inside: &BTreeSet<NodeId>) -> bool {
        self.escapes(value) || self.readers(value).iter().any(|reader| !inside.contains(reader))
    }

    /// The node that defines a value.
    pub fn def(&self, value: Value) -> Option<NodeId> {
        match self.graph.def(value) {
            Def::Node(id, _) => Some(id),
            Def::Input(_) => None,
        }
    }

    /// What scatters outside of a set are stored as.
    pub fn restored_outside(&self, inside: &BTreeSet<NodeId>) -> impl Iterator<Item = Value> {
        self.restored.iter().filter(|(_, scatter)| !inside.contains(scatter)).map(|(value, _)| *value)
    }

    /// The layout ops behind a scatter that undo those through which it sees what it writes into.
    pub fn restoring(&self, scatter: NodeId) -> Vec<NodeId> {
        let graph = self.graph;
        let relabels = |id: NodeId| relabels(&graph.node(id).op);
        let node = graph.node(scatter);
        let mut undoing = Vec::new();
        if !matches!(node.op, Op::Prim(Prim::Scatter { .. })) {
            return undoing;
        }
        let (mut root, mut views) = (node.operands[0], 0);
        // Writes before it see the same through the same views.
        while let Some(view) = self.def(root).filter(|&id| relabels(id) || self.writes(id)) {
            root = graph.node(view).operands[0];
            views += usize::from(relabels(view));
        }
        let mut value = node.results[0];
        while undoing.len() < views || graph.ty(value) != graph.ty(root) {
            let &[user] = self.users(value) else { break };
            if graph.is_output(value) || !relabels(user) {
                break;
            }
            undoing.push(user);
            value = graph.node(user).results[0];
        }
        undoing
    }

    /// The write that alone reads what a write leaves, through layout ops that keep the order.
    pub fn next_write(&self, write: NodeId) -> Option<NodeId> {
        let mut value = self.graph.node(write).results[0];
        loop {
            let &[user] = self.users(value) else { return None };
            let node = self.graph.node(user);
            match &node.op {
                _ if self.graph.is_output(value) => return None,
                Op::Prim(Prim::Reshape { .. }) => value = node.results[0],
                _ => return (self.writes(user) && node.operands[0] == value).then_some(user),
            }
        }
    }

    /// The functions of single elements, free ones apart, of which a value is one.
    pub fn functions_of(&self, value: Value) -> BTreeSet<NodeId> {
        let (mut found, mut seen, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![value]);
        while let Some(value) = stack.pop() {
            let Some(id) = self.def(value).filter(|&id| seen.insert(id)) else { continue };
            let node = self.graph.node(id);
            let function = matches!(node.op, Op::Prim(Prim::Map(_) | Prim::Cast { .. }));
            found.extend((function && !self.is_free(id)).then_some(id));
            if function || is_layout(&node.op) {
                stack.extend(&node.operands);
            }
        }
        found
    }

    /// Whether a node writes at chosen places.
    pub fn writes(&self, id: NodeId) -> bool {
        is_write(self.graph, id)
    }

    fn follow(&mut self) {
        for id in self.graph.node_ids() {
            let mut sources = BTreeSet::new();
            for &operand in &self.graph.node(id).operands {
                match self.def(operand) {
                    Some(def) if self.is_free(def) => sources.extend(self.sources(def).iter().copied()),
                    Some(def) => {
                        sources.insert(def);
                    }
                    None => {}
                }
            }
            self.sources[id.0 as usize] = sources;
        }
        for output in self.graph.outputs() {
            self.escapes[output.value.0 as usize] = true;
        }
        for id in self.graph.node_ids().rev() {
            let node = self.graph.node(id);
            let (mut readers, mut escapes) = (BTreeSet::from([id]), false);
            if self.is_free(id) {
                readers = node.results.iter().flat_map(|r| self.readers(*r).iter().copied()).collect();
                escapes = node.results.iter().any(|r| self.escapes(*r));
            }
            for operand in &node.operands {
                self.readers[operand.0 as usize].extend(readers.iter().copied());
                self.escapes[operand.0 as usize] |= escapes;
            }
        }
    }
}

fn is_free(graph: &Graph, users: &[Vec<NodeId>], id: NodeId, free: &[bool]) -> bool {
    let node = graph.node(id);
    match &node.op {
        Op::Prim(Prim::Literal(_) | Prim::SizeOf(_) | Prim::Iota { .. }) => true,
        Op::Prim(Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } | Prim::Slice { .. }) => true,
        Op::Prim(Prim::Map(_) | Prim::Cast { .. }) => {
            let one = node.results.iter().all(|&r| graph.ty(r).elements().as_const() == Some(1));
            let is_returned = || node.results.iter().any(|&r| is_returned(graph, users, r));
            let of_free = || node.operands.iter().all(|&v| is_of_free(graph, v, free, one));
            (one || is_cheap_row(graph, id)) && of_free() && !is_returned()
        }
        _ => false,
    }
}

/// Whether a value is an output, as it is or in another layout: it is stored, be it read by others too.
fn is_returned(graph: &Graph, users: &[Vec<NodeId>], value: Value) -> bool {
    let mut stack = vec![value];
    while let Some(value) = stack.pop() {
        if graph.is_output(value) {
            return true;
        }
        let layout = users[value.0 as usize].iter().map(|&user| graph.node(user)).filter(|node| is_layout(&node.op));
        stack.extend(layout.map(|node| node.results[0]));
    }
    false
}

/// Whether a function costs little and has a single axis, as one of a counter has.
fn is_cheap_row(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let cheap = !matches!(node.op, Op::Prim(Prim::Map(f)) if f.spec().accuracy != Accuracy::Exact);
    let wide = graph.ty(node.results[0]).shape.iter().filter(|extent| extent.as_const() != Some(1));
    cheap && wide.count() == 1
}

/// Whether a value depends on free nodes alone, and on inputs if these are allowed.
fn is_of_free(graph: &Graph, value: Value, free: &[bool], inputs: bool) -> bool {
    let mut stack = vec![value];
    let mut seen = BTreeSet::new();
    while let Some(value) = stack.pop() {
        match graph.def(value) {
            Def::Input(_) if !inputs => return false,
            Def::Node(id, _) if seen.insert(id) => {
                if !free[id.0 as usize] {
                    return false;
                }
                stack.extend(&graph.node(id).operands);
            }
            _ => {}
        }
    }
    true
}
