//! Rows that do not come from memory: attention, whose result a kernel may take as it is computed, and collectives,
//! whose ranks a kernel may read from their own memory.
//!
//! [`SourceKind::of`] says which ops these are. They are no row programs: a region grows without them, and takes one of
//! them in where nothing else reads its result and the limits say that kernels have such rows. Otherwise the op is a step
//! of its own, with its reason. [`Rows`] is the row program of a region that took one in.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::axes::AxisId;
use fusewright_graph::{Builder, Graph, InputKind, NodeId, Op, Prim, TypeError, Value};

use super::free::Flow;
use super::outline::Outline;
use super::{Limits, Refusal, Space, expand};

/// Where rows come from that are not in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SourceKind {
    /// What another op in the same kernel has just computed.
    Producer,
    /// The memory of all ranks of a group.
    Peer,
}

/// Attention in frameworks' own ops, which may stay opaque: their results are computed head by head.
const ATTENTION: [&str; 7] = [
    "sglang.unified_attention_with_output",
    "vllm.unified_ascend_attention_with_output",
    "vllm.unified_attention",
    "vllm.unified_attention_with_output",
    "vllm.unified_mla_attention",
    "vllm.unified_mla_attention_with_output",
    "npu.npu_fused_infer_attention_score",
];

impl SourceKind {
    /// Every kind, in declaration order.
    pub const ALL: [SourceKind; 2] = [SourceKind::Producer, SourceKind::Peer];

    /// What the result of an op may be to the rows that read it.
    pub fn of(op: &Op) -> Option<SourceKind> {
        match op {
            Op::Prim(Prim::Sdpa(_)) => Some(SourceKind::Producer),
            Op::Prim(Prim::Opaque { target, results, .. }) => {
                (results.len() == 1 && ATTENTION.contains(&target.as_str())).then_some(SourceKind::Producer)
            }
            Op::Prim(Prim::AllReduce(_)) => Some(SourceKind::Peer),
            _ => None,
        }
    }

    /// Name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            SourceKind::Producer => "producer",
            SourceKind::Peer => "peer",
        }
    }

    /// Why the op is a step of its own where kernels have no such rows.
    const fn refusal(self) -> Refusal {
        match self {
            SourceKind::Producer => Refusal::ProducerSource,
            SourceKind::Peer => Refusal::PeerSource,
        }
    }
}

/// The op whose result the rows of a region read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionSource {
    /// What its result is to the rows.
    pub kind: SourceKind,
    /// The op.
    pub node: NodeId,
    /// Why it is a step of its own; none where it is part of the region.
    pub refusal: Option<Refusal>,
}

/// The ops that may be sources of a set of nodes with the given outline, in order, each with what keeps it out. At most
/// one is kept out by nothing.
pub(super) fn sources(
    flow: &Flow<'_>,
    members: &BTreeSet<NodeId>,
    outline: &Outline,
    segments: bool,
    limits: &Limits,
) -> Vec<RegionSource> {
    let read: BTreeSet<NodeId> = members.iter().flat_map(|&id| flow.sources(id)).copied().collect();
    let outside = read.into_iter().filter(|id| !members.contains(id));
    let kinds = outside.filter_map(|node| Some((node, SourceKind::of(&flow.graph.node(node).op)?)));
    let mut found: Vec<RegionSource> = Vec::new();
    let mut taken = false;
    for (node, kind) in kinds.collect::<Vec<_>>().into_iter().rev() {
        let mut refusal = illegal(flow, members, outline, segments, node);
        if refusal.is_none() && !limits.sources.contains(&kind) {
            refusal = Some(kind.refusal());
        }
        if refusal.is_none() && std::mem::replace(&mut taken, true) {
            refusal = Some(Refusal::SourceTaken);
        }
        found.push(RegionSource { kind, node, refusal });
    }
    found.reverse();
    found
}

/// Why no kernel of any target can take an op in with the rows that read it.
fn illegal(
    flow: &Flow<'_>,
    members: &BTreeSet<NodeId>,
    outline: &Outline,
    segments: bool,
    source: NodeId,
) -> Option<Refusal> {
    let node = flow.graph.node(source);
    let result = *node.results.first()?;
    if flow.leaves(result, members) {
        return Some(Refusal::SharedSource);
    }
    match &node.op {
        Op::Prim(Prim::AllReduce(all)) => all.ranks.is_none().then_some(Refusal::UnknownRanks),
        // The last axis of attention is what one head gives for one query; without an axis of heads they are not known.
        Op::Prim(Prim::Sdpa(_)) => spans(outline, segments, result, 1).then_some(Refusal::SourceTiles),
        _ => {
            let head = usize::from(flow.graph.ty(result).rank() > 2);
            spans(outline, segments, result, head).then_some(Refusal::SourceTiles)
        }
    }
}

/// Whether a reduction combines elements of a result that are not computed together: those that differ elsewhere than in
/// so many last axes.
fn spans(outline: &Outline, segments: bool, result: Value, together: usize) -> bool {
    let Some(input) = outline.inputs.iter().position(|&value| value == result) else { return true };
    let Ok(body) = expand(&outline.body) else { return true };
    let Ok(Space { axes, form: None, .. }) = Space::find(&body, segments) else { return true };
    let mut dims = axes.dims(body.inputs()[input].value);
    dims.truncate(dims.len().saturating_sub(together));
    let others: Vec<AxisId> = dims.concat();
    axes.reduced().any(|(_, over)| over.iter().any(|axis| others.contains(axis)))
}

/// A body of primitives without its source: the row program that reads it.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The row program; the result of the source is its last input.
    pub body: Graph,
    /// The source.
    pub source: Prim,
}

impl Rows {
    /// The row program of a body of primitives; `None` if all its rows come from memory.
    ///
    /// # Errors
    /// None for a body of a verified graph.
    pub fn of(body: &Graph) -> Result<Option<Rows>, TypeError> {
        let source = body.node_ids().find_map(|id| match &body.node(id).op {
            op @ Op::Prim(prim) => SourceKind::of(op).map(|_| (id, prim.clone())),
            Op::Composite(_) => None,
        });
        source.map(|(id, source)| Ok(Rows { body: without(body, id)?, source })).transpose()
    }
}

/// A body that reads the result of a node as its last input. Inputs that only the node reads are gone.
fn without(body: &Graph, source: NodeId) -> Result<Graph, TypeError> {
    let b = Builder::new(body.name());
    for symbol in body.symbols() {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
    let users = body.users();
    let mut map: BTreeMap<Value, Value> = BTreeMap::new();
    for input in body.inputs() {
        let others = users[input.value.0 as usize].iter().any(|&id| id != source) || body.is_output(input.value);
        if others {
            map.insert(input.value, b.add_input(&input.name, body.ty(input.value).clone(), input.kind.clone()));
        }
    }
    for &result in &body.node(source).results {
        let mut name = body.node(source).op.name().to_owned();
        while body.inputs().iter().any(|input| input.name == name) {
            name.push('_');
        }
        map.insert(result, b.add_input(&name, body.ty(result).clone(), InputKind::User));
    }
    for id in body.node_ids().filter(|&id| id != source) {
        let node = body.node(id);
        b.set_origin(node.origin.clone());
        let operands: Vec<Value> = node.operands.iter().map(|v| map[v]).collect();
        let results = b.op(node.op.clone(), &operands)?;
        map.extend(node.results.iter().copied().zip(results));
    }
    for output in body.outputs() {
        let kept = |name: &&String| body.inputs().iter().any(|i| i.name == **name && map.contains_key(&i.value));
        b.add_output(map[&output.value], output.updates.as_ref().filter(kept).cloned());
    }
    Ok(b.finish())
}
