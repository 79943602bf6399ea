//! Cuts between regions that one kernel would be too costly for: where the least is stored between them.
//!
//! Growth takes neighbours until the limit is passed, wherever that is.

use std::collections::BTreeSet;

use fusewright_graph::NodeId;

use super::Refusal;
use super::grow::Growth;

/// At most so many cheaper cuts of two regions are tried.
const TRIES: usize = 16;

impl Growth<'_, '_> {
    /// Moves each such cut to the cheapest place where both sides are kernels.
    pub(super) fn recut(&mut self) {
        let costly = self.edges.iter().filter(|(_, refusal)| **refusal == Refusal::TooCostly);
        for (source, reader) in costly.map(|(edge, _)| *edge).collect::<Vec<_>>() {
            let of = |id: NodeId| self.region[id.0 as usize];
            if let (Some(a), Some(b)) = (of(source), of(reader))
                && a != b
            {
                self.recut_two(a, b);
            }
        }
    }

    fn recut_two(&mut self, a: usize, b: usize) {
        let old = [self.members[a].clone(), self.members[b].clone()];
        let whole: Vec<NodeId> = old[0].union(&old[1]).copied().collect();
        let now = self.stored_between(&old[0], &old[1]);
        let parts = |at: usize| [&whole[..at], &whole[at..]].map(|part| part.iter().copied().collect::<BTreeSet<_>>());
        let mut cuts: Vec<(f64, usize)> = (1..whole.len())
            .map(|at| {
                let [first, rest] = parts(at);
                (self.stored_between(&first, &rest), at)
            })
            .filter(|(cost, _)| *cost < now)
            .collect();
        cuts.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let [first, second] = [a, b].map(|region| self.segments.contains(&region));
        let again = self.again(&old[0], first) + self.again(&old[1], second);
        for (_, at) in cuts.into_iter().take(TRIES) {
            let new = parts(at);
            self.assign([a, b], &old, &new);
            let segments = first || second;
            let hold = new.iter().all(|part| self.is_convex(part) && self.fits(part, segments).is_ok());
            if hold && new.iter().map(|part| self.again(part, segments)).sum::<f64>() <= again {
                if segments {
                    self.segments.extend([a, b]);
                }
                return self.note_cut(&new);
            }
            self.assign([a, b], &new, &old);
        }
    }

    /// Gives two regions other parts of their nodes.
    fn assign(&mut self, regions: [usize; 2], old: &[BTreeSet<NodeId>; 2], new: &[BTreeSet<NodeId>; 2]) {
        for (region, part) in regions.into_iter().zip(new) {
            part.iter().for_each(|id| self.region[id.0 as usize] = Some(region));
            self.members[region].clone_from(part);
        }
        self.spans.replace(&[&old[0], &old[1]], &[&new[0], &new[1]]);
    }

    /// Says of every edge between two parts why it is one.
    fn note_cut(&mut self, [first, rest]: &[BTreeSet<NodeId>; 2]) {
        for &reader in rest {
            for &source in self.flow.sources(reader).iter().filter(|source| first.contains(source)) {
                self.edges.insert((source, reader), Refusal::TooCostly);
            }
        }
    }
}
