//! The order of execution of a divided graph.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::{NodeId, Value};

use super::free::Flow;
use super::{FusedRegion, Partition, Step};

/// Regions and single nodes in an order in which each comes after what it reads, and what overwrites an input after what
/// reads that where it can; free nodes only where a single node or the graph's outputs read them.
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
    let operands = |step: &Step| match (partition.kernel(*step), step) {
        (Some(region), _) => (&region.inputs, &region.outputs),
        (None, Step::Node(id)) => (&graph.node(*id).operands, &graph.node(*id).results),
        (None, _) => unreachable!("a region has a kernel"),
    };
    let mut readers: BTreeMap<Value, usize> = BTreeMap::new();
    for step in &waiting {
        let read: BTreeSet<Value> = operands(step).0.iter().copied().collect();
        read.into_iter().for_each(|value| *readers.entry(value).or_default() += 1);
    }
    let overwritten = overwritten(flow);
    let mut steps = Vec::with_capacity(waiting.len());
    let mut patient = true;
    while !waiting.is_empty() {
        let before = steps.len();
        waiting.retain(|step| {
            let (reads, makes) = operands(step);
            let read_elsewhere =
                |input: &Value| readers.get(input).is_some_and(|n| *n > usize::from(reads.contains(input)));
            let waits = patient && makes.iter().filter_map(|made| overwritten.get(made)).any(read_elsewhere);
            let runs = !waits && reads.iter().all(|v| done[v.0 as usize]);
            if runs {
                makes.iter().for_each(|v| done[v.0 as usize] = true);
                let read: BTreeSet<Value> = reads.iter().copied().collect();
                for value in read {
                    readers.entry(value).and_modify(|n| *n -= 1);
                }
                steps.push(*step);
                patient = true;
            }
            !runs
        });
        // Who reads the input may wait for what overwrites it.
        assert!(steps.len() > before || patient, "convex regions have an order");
        patient = steps.len() > before;
    }
    steps
}

/// The inputs that values overwrite, by those values.
fn overwritten(flow: &Flow<'_>) -> BTreeMap<Value, Value> {
    let input = |name: &String| flow.graph.inputs().iter().find(|input| input.name == *name).map(|input| input.value);
    let outputs = flow.graph.outputs().iter();
    outputs.filter_map(|output| Some((output.value, input(output.updates.as_ref()?)?))).collect()
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
