//! Units: what one step computes, in an order that respects all dependences.

use std::collections::BTreeSet;

use fusewright_graph::{Def, Graph, NodeId};

use crate::Error;

/// A set of nodes that one step computes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unit {
    /// The nodes in order.
    pub nodes: Vec<NodeId>,
    /// The fused region that they are, if they are one.
    pub region: Option<usize>,
}

/// Orders regions and the nodes outside of them so that each unit comes after the units it reads from; among those
/// that are ready, the one with the earliest node comes first.
///
/// # Errors
/// Regions that depend on each other in a circle, which growth must not make.
pub(crate) fn order(graph: &Graph, regions: &[Vec<NodeId>]) -> Result<Vec<Unit>, Error> {
    let mut unit_of = vec![usize::MAX; graph.nodes().len()];
    let mut units: Vec<Unit> = Vec::new();
    for (i, nodes) in regions.iter().enumerate() {
        nodes.iter().for_each(|n| unit_of[n.0 as usize] = units.len());
        units.push(Unit { nodes: nodes.clone(), region: Some(i) });
    }
    for id in graph.node_ids() {
        if unit_of[id.0 as usize] == usize::MAX {
            unit_of[id.0 as usize] = units.len();
            units.push(Unit { nodes: vec![id], region: None });
        }
    }
    let mut needs: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); units.len()];
    let mut feeds: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); units.len()];
    for id in graph.node_ids() {
        let unit = unit_of[id.0 as usize];
        for &operand in &graph.node(id).operands {
            if let Def::Node(producer, _) = graph.def(operand) {
                let producer = unit_of[producer.0 as usize];
                if producer != unit {
                    needs[unit].insert(producer);
                    feeds[producer].insert(unit);
                }
            }
        }
    }
    let first = |unit: usize| (units[unit].nodes.first().map_or(0, |n| n.0), unit);
    let mut ready: BTreeSet<(u32, usize)> = (0..units.len()).filter(|&u| needs[u].is_empty()).map(first).collect();
    let mut ordered = Vec::with_capacity(units.len());
    while let Some((_, unit)) = ready.pop_first() {
        ordered.push(units[unit].clone());
        for &next in &feeds[unit] {
            needs[next].remove(&unit);
            if needs[next].is_empty() {
                ready.insert(first(next));
            }
        }
    }
    if ordered.len() < units.len() {
        return Err(Error::Internal("fused regions depend on each other in a circle".to_owned()));
    }
    Ok(ordered)
}
