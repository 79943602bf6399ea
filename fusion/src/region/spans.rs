//! Where regions begin and end: a path that left some nodes can come back to them only inside a region that stands on
//! both sides of the last of them, since readers come behind what they read.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::NodeId;

/// First and last node of every region of several nodes.
#[derive(Default)]
pub(super) struct Spans {
    last: BTreeMap<NodeId, NodeId>,
    /// The most that a last node was ever behind its first.
    longest: u32,
}

impl Spans {
    /// Two regions have become one.
    pub fn join(&mut self, parts: [&BTreeSet<NodeId>; 2], joined: &BTreeSet<NodeId>) {
        self.replace(&parts, &[joined]);
    }

    /// Regions have become others of the same nodes.
    pub fn replace(&mut self, old: &[&BTreeSet<NodeId>], new: &[&BTreeSet<NodeId>]) {
        for first in old.iter().filter_map(|nodes| nodes.first()) {
            self.last.remove(first);
        }
        for nodes in new.iter().filter(|nodes| nodes.len() > 1) {
            if let (Some(&first), Some(&last)) = (nodes.first(), nodes.last()) {
                self.last.insert(first, last);
                self.longest = self.longest.max(last.0 - first.0);
            }
        }
    }

    /// The last node from which a path can come back to a node or to those before it.
    pub fn horizon(&self, node: NodeId) -> NodeId {
        let mut horizon = node;
        loop {
            let nearest = NodeId(horizon.0.saturating_sub(self.longest));
            let last = self.last.range(nearest..=horizon).map(|(_, &last)| last).max();
            match last.filter(|last| *last > horizon) {
                Some(further) => horizon = further,
                None => return horizon,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[u32]) -> BTreeSet<NodeId> {
        ids.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn the_horizon_lies_behind_every_region_that_leads_back() {
        let mut spans = Spans::default();
        assert_eq!(spans.horizon(NodeId(5)), NodeId(5));
        spans.join([&set(&[3]), &set(&[8])], &set(&[3, 8]));
        spans.join([&set(&[7]), &set(&[12])], &set(&[7, 12]));
        spans.join([&set(&[13]), &set(&[20])], &set(&[13, 20]));
        assert_eq!(spans.horizon(NodeId(2)), NodeId(2));
        assert_eq!(spans.horizon(NodeId(5)), NodeId(12), "one region leads to the next");
        assert_eq!(spans.horizon(NodeId(12)), NodeId(12));
        spans.join([&set(&[7, 12]), &set(&[13, 20])], &set(&[7, 12, 13, 20]));
        assert_eq!(spans.horizon(NodeId(5)), NodeId(20));
        assert_eq!(spans.horizon(NodeId(14)), NodeId(20));
        spans.join([&set(&[3, 8]), &set(&[0])], &set(&[0, 3, 8]));
        assert_eq!(spans.horizon(NodeId(0)), NodeId(20));
    }
}
