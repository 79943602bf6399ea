//! The order of execution of a divided graph.

use std::collections::BTreeSet;

use fusewright_graph::NodeId;

use super::free::Flow;
use super::{FusedRegion, Partition, Step};

/// Regions and single nodes in an order in which each comes after what it reads; free nodes only where a single node
/// or the graph's outputs read them.
pub(super) fn steps(flow: &Flow<'_>, partition: &Partition) -> Vec<Step> {
    let graph = flow.graph;
    let mut done = vec![false; graph.value_count()];
    for input in graph.inputs() {
        done[input.value.0 as usize] = true;
    }
    let mut waiting: Vec<Step> = (0..partition.regions.len()).map(Step::Region).collect();
    waiting.extend((0..partition.lone.len()).map(Step::Lone));
    waiting.extend(library_and_free(flow, partition).into_iter().map(Step::Node));
    let first = |step: &Step| match (step, partition.kernel(*step)) {
        // Free nodes in front of a lone op are its own copies; it keeps the place of the op.
        (Step::Lone(_), Some(op)) => op.nodes.last().copied(),
        (_, Some(region)) => region.nodes.first().copied(),
        (Step::Node(id), None) => Some(*id),
        (_, None) => None,
    };
    waiting.sort_by_key(first);
    let mut steps = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let before = steps.len();
        waiting.retain(|step| {
            let (reads, makes) = match (partition.kernel(*step), step) {
                (Some(region), _) => (&region.inputs, &region.outputs),
                (None, Step::Node(id)) => (&graph.node(*id).operands, &graph.node(*id).results),
                (None, _) => return false,
            };
            let ready = reads.iter().all(|v| done[v.0 as usize]);
            if ready {
                makes.iter().for_each(|v| done[v.0 as usize] = true);
                steps.push(*step);
            }
            !ready
        });
        assert!(steps.len() > before, "convex regions have an order");
    }
    steps
}

/// The nodes that need no kernel: those of libraries, and free ones that something reads as they are.
fn library_and_free(flow: &Flow<'_>, partition: &Partition) -> Vec<NodeId> {
    let graph = flow.graph;
    let stored: BTreeSet<_> = partition.kernels().flat_map(|r| r.outputs.iter().copied()).collect();
    let mut wanted: BTreeSet<_> = graph.outputs().iter().map(|o| o.value).collect();
    wanted.extend(partition.kernels().flat_map(|r| r.inputs.iter().copied()));
    // Free nodes in front of an op are its own copies; others may read them too.
    let computed = |op: &FusedRegion| {
        op.nodes.iter().copied().filter(|&id| !flow.is_free(id)).chain(op.nodes.last().copied()).collect::<Vec<_>>()
    };
    let lone: BTreeSet<NodeId> = partition.lone.iter().flat_map(computed).collect();
    let unfused: BTreeSet<NodeId> = partition.unfused.iter().map(|u| u.node).collect();
    let mut nodes = Vec::new();
    for id in graph.node_ids().rev() {
        let node = graph.node(id);
        let read = node.results.iter().any(|r| wanted.contains(r) && !stored.contains(r));
        let single = unfused.contains(&id) && !flow.is_free(id) || flow.is_free(id) && read;
        if single && !lone.contains(&id) {
            wanted.extend(&node.operands);
            nodes.push(id);
        }
    }
    nodes
}
