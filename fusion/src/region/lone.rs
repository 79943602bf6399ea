//! Ops that share no kernel with others, and may have one of their own.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::{NodeId, Op, Prim, Value};

use super::free::Flow;
use super::grow::{is_constant, is_layout};
use super::outline::Outline;
use super::{FusedRegion, Kind, Partition, Space, expand};

/// The ops of a divided graph that need a kernel of their own, in order, with the nodes that join it. Layout ops and
/// constants need none, and neither does what a library computes. A free function that is read from memory needs one,
/// though regions have their own.
pub(super) fn lone(
    flow: &Flow<'_>,
    partition: &Partition,
    epilogues: &BTreeMap<NodeId, BTreeSet<NodeId>>,
) -> Vec<FusedRegion> {
    let graph = flow.graph;
    let mut wanted: BTreeSet<_> = graph.outputs().iter().map(|o| o.value).collect();
    wanted.extend(partition.regions.iter().flat_map(|r| r.inputs.iter().copied()));
    let stored: BTreeSet<_> = partition.regions.iter().flat_map(|r| r.outputs.iter().copied()).collect();
    let unfused: BTreeSet<NodeId> = partition.unfused.iter().map(|u| u.node).collect();
    let mut lone = Vec::new();
    // A free node of a region is the region's own copy; others may read it too.
    for id in graph.node_ids().rev().filter(|&id| unfused.contains(&id) || flow.is_free(id)) {
        let node = graph.node(id);
        if flow.is_free(id) && !node.results.iter().any(|r| wanted.contains(r) && !stored.contains(r)) {
            continue;
        }
        match (!needs_no_kernel(&node.op)).then(|| alone(flow, id, epilogues.get(&id), &stored)).flatten() {
            Some(op) => {
                wanted.extend(&op.inputs);
                lone.push(op);
            }
            None => wanted.extend(&node.operands),
        }
    }
    lone.reverse();
    lone
}

/// Whether an op is computed without a kernel: a view, a constant, or what is left to a library or to the reference.
pub fn needs_no_kernel(op: &Op) -> bool {
    let elsewhere = matches!(
        op,
        Op::Prim(
            Prim::MatMul { .. }
                | Prim::GroupedMatMul { .. }
                | Prim::Sdpa(_)
                | Prim::Opaque { .. }
                | Prim::AllReduce(_)
                | Prim::Scatter { .. }
                | Prim::ScatterReduce { .. }
        )
    );
    elsewhere || is_layout(op) || is_constant(op)
}

/// A node as a region, with what joins it, and with the free nodes that it reads where the whole is a row program.
fn alone(
    flow: &Flow<'_>,
    id: NodeId,
    joining: Option<&BTreeSet<NodeId>>,
    stored: &BTreeSet<Value>,
) -> Option<FusedRegion> {
    let mut members = BTreeSet::from([id]);
    members.extend(joining.into_iter().flatten());
    // A region may have stored the result of a layout op, and not its operand.
    let fits = |o: &Outline| joining.is_some() || expand(&o.body).is_ok_and(|body| Space::of(&body).is_ok());
    let onto = |given: &BTreeSet<Value>| Outline::onto(flow, &members, given).ok().filter(&fits);
    // What places are chosen in lies in memory; the places may be computed.
    let chosen_in = |given: &BTreeSet<Value>| {
        let node = flow.graph.node(id);
        let data = matches!(node.op, Op::Prim(Prim::Gather { .. })).then(|| node.operands[0])?;
        onto(&given.iter().copied().chain([data]).collect())
    };
    let outline = onto(stored).or_else(|| chosen_in(stored)).or_else(|| Outline::bare(flow, id).ok())?;
    let Outline { body, nodes, inputs, outputs, .. } = outline;
    let name = flow.graph.node(id).op.name().to_owned();
    let read = !outputs.is_empty();
    read.then_some(FusedRegion {
        name,
        kind: Kind::Op,
        nodes,
        inputs,
        outputs,
        body,
        segments: false,
        ends: Vec::new(),
    })
}
