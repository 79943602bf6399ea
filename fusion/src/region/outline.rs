//! Outlining: a set of nodes as a graph of its own.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::{Builder, Def, Graph, InputKind, NodeId, Op, Prim, TypeError, Value};

use super::free::Flow;

/// What of the graph is in an outline, and what crosses its border.
pub(super) struct Border {
    pub nodes: Vec<NodeId>,
    pub inputs: Vec<Value>,
    pub outputs: Vec<Value>,
    /// The most layout ops behind one result.
    pub behind: usize,
}

/// An outlined set of nodes.
pub(super) struct Outline {
    pub body: Graph,
    pub nodes: Vec<NodeId>,
    pub inputs: Vec<Value>,
    pub outputs: Vec<Value>,
}

/// Which layout ops behind the results of a region are part of it.
#[derive(Clone, Copy)]
pub(super) struct Behind<'a> {
    /// The nodes of all regions.
    pub fused: &'a BTreeSet<NodeId>,
    /// How many, behind one result, at most.
    pub most: usize,
}

impl Border {
    /// The border of computing nodes with the free ones they read. Layout ops through which alone a value is read by
    /// single nodes are inside, as many as are wanted, so that the value is stored as it is read.
    pub fn of(flow: &Flow<'_>, members: &BTreeSet<NodeId>, behind: Option<Behind<'_>>) -> Border {
        let given = flow.restored_outside(members).collect();
        let mut nodes = with_free_operands(flow, members, &given);
        let mut outputs = Vec::new();
        let mut longest = 0;
        for &id in members {
            for &result in &flow.graph.node(id).results {
                if !flow.leaves(result, members) {
                    continue;
                }
                let restoring = flow.restoring(id);
                let mut value = restoring.last().map_or(result, |&last| flow.graph.node(last).results[0]);
                nodes.extend(restoring);
                let mut taken = 0;
                while let Some(Behind { fused, .. }) = behind.filter(|behind| taken < behind.most)
                    && let Some(next) = layout_after(flow, value, members, fused)
                {
                    nodes.insert(next);
                    value = flow.graph.node(next).results[0];
                    taken += 1;
                }
                longest = longest.max(taken);
                outputs.push(value);
            }
        }
        Border { behind: longest, ..Border::around(flow, &nodes, outputs) }
    }

    /// The border of nodes with given outputs. Readers come behind what they read.
    fn around(flow: &Flow<'_>, nodes: &BTreeSet<NodeId>, outputs: Vec<Value>) -> Border {
        let mut seen: BTreeSet<Value> = BTreeSet::new();
        let mut inputs = Vec::new();
        for &operand in nodes.iter().flat_map(|&id| &flow.graph.node(id).operands) {
            if flow.def(operand).is_none_or(|def| !nodes.contains(&def)) && seen.insert(operand) {
                inputs.push(operand);
            }
        }
        Border { nodes: nodes.iter().copied().collect(), inputs, outputs, behind: 0 }
    }
}

impl Outline {
    /// Outlines nodes with the free ones they read, down to the values that are given.
    pub fn onto(flow: &Flow<'_>, members: &BTreeSet<NodeId>, given: &BTreeSet<Value>) -> Result<Outline, TypeError> {
        let nodes = with_free_operands(flow, members, given);
        let results = members.iter().flat_map(|&id| flow.graph.node(id).results.iter().copied());
        let outputs = results.filter(|&r| flow.leaves(r, members)).collect();
        Outline::within(flow, &Border::around(flow, &nodes, outputs))
    }

    /// Outlines one node without any other: its operands are the inputs, whatever computes them.
    pub fn bare(flow: &Flow<'_>, id: NodeId) -> Result<Outline, TypeError> {
        let outputs = flow.graph.node(id).results.iter().copied().filter(|&r| flow.leaves(r, &BTreeSet::from([id])));
        Outline::within(flow, &Border::around(flow, &BTreeSet::from([id]), outputs.collect()))
    }

    /// What a border encloses.
    pub fn within(flow: &Flow<'_>, border: &Border) -> Result<Outline, TypeError> {
        let Border { nodes, inputs, outputs, .. } = border;
        let graph = flow.graph;
        let b = Builder::new("region");
        declare_symbols(graph, &b, nodes);
        let mut map: BTreeMap<Value, Value> = BTreeMap::new();
        let mut read = 0;
        for &id in nodes {
            let node = graph.node(id);
            let mut operands = Vec::with_capacity(node.operands.len());
            for &operand in &node.operands {
                operands.push(*map.entry(operand).or_insert_with(|| {
                    read += 1;
                    b.add_input(&format!("x{}", read - 1), graph.ty(operand).clone(), kind(graph, operand))
                }));
            }
            b.set_origin(node.origin.clone());
            let results = b.op(node.op.clone(), &operands)?;
            map.extend(node.results.iter().copied().zip(results));
        }
        for output in outputs {
            b.output(map[output]);
        }
        Ok(Outline { body: b.finish(), nodes: nodes.clone(), inputs: inputs.clone(), outputs: outputs.clone() })
    }
}

/// Members and the free nodes that they read, down to the values that are given.
fn with_free_operands(flow: &Flow<'_>, members: &BTreeSet<NodeId>, given: &BTreeSet<Value>) -> BTreeSet<NodeId> {
    let mut nodes = members.clone();
    let mut stack: Vec<NodeId> = members.iter().copied().collect();
    while let Some(id) = stack.pop() {
        for &operand in &flow.graph.node(id).operands {
            if let Some(def) = flow.def(operand).filter(|&def| flow.is_free(def) && !given.contains(&operand))
                && nodes.insert(def)
            {
                stack.push(def);
            }
        }
    }
    nodes
}

/// The layout op through which alone a value is read, if its result is stored as well as the value.
fn layout_after(flow: &Flow<'_>, value: Value, members: &BTreeSet<NodeId>, fused: &BTreeSet<NodeId>) -> Option<NodeId> {
    let leads_out = |user: &&NodeId| match flow.is_free(**user) {
        true => flow.graph.node(**user).results.iter().any(|&r| flow.leaves(r, members)),
        false => !members.contains(*user),
    };
    let mut outside = flow.users(value).iter().filter(leads_out);
    let (Some(&user), None) = (outside.next(), outside.next()) else { return None };
    let node = flow.graph.node(user);
    if flow.graph.is_output(value) || !flow.is_free(user) || node.operands.len() != 1 {
        return None;
    }
    // Other regions take the value and apply the layout op to their own copy.
    let result = *node.results.first()?;
    let inside = flow.readers(result).iter().any(|reader| fused.contains(reader));
    let rank = flow.graph.ty(value).rank();
    let stored_well = match &node.op {
        Op::Prim(Prim::Reshape { .. } | Prim::Slice { .. }) => true,
        Op::Prim(Prim::Permute { perm }) => perm.last().copied() == rank.checked_sub(1),
        _ => false,
    };
    (stored_well && !inside).then_some(user)
}

/// Whether an input of a region is fixed with the model, which a buffer that the graph updates is not; its bytes stay
/// with the graph.
fn kind(graph: &Graph, value: Value) -> InputKind {
    let Def::Input(i) = graph.def(value) else { return InputKind::User };
    let input = &graph.inputs()[i];
    let updated = || graph.outputs().iter().any(|output| output.updates.as_ref() == Some(&input.name));
    match input.kind {
        InputKind::Weight(_) if !updated() => InputKind::Weight(None),
        InputKind::Settled => InputKind::Settled,
        _ => InputKind::User,
    }
}

fn declare_symbols(graph: &Graph, b: &Builder, nodes: &[NodeId]) {
    let mut names = BTreeSet::new();
    for &id in nodes {
        let node = graph.node(id);
        for value in node.operands.iter().chain(&node.results) {
            graph.ty(*value).shape.iter().for_each(|extent| extent.collect_symbols(&mut names));
        }
    }
    for symbol in graph.symbols().iter().filter(|s| names.contains(&s.name)) {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
}
