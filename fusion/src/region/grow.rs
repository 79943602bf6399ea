//! Growth: every computing node starts as a region of its own, and neighbours merge while the result is one row
//! program that no path leaves and re-enters.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::{Def, Graph, NodeId, Op, Prim, Value};

use super::content::{Content, Contents};
use super::free::Flow;
use super::lone::lone;
use super::order::steps;
use super::outline::{Behind, Border, Outline};
use super::overwrite;
use super::space::holds_one;
use super::spans::Spans;
use super::verdicts::Verdicts;
use super::windows::assembled;
use super::{End, FusedRegion, Kind, Limits, Nesting, Partition, Refusal, Space, Step, Unfused, expand, row_program};

/// Divides a graph into regions and single nodes.
pub fn partition(graph: &Graph, limits: &Limits) -> Partition {
    let flow = Flow::of(graph);
    let mut growth = Growth::seed(&flow, limits);
    growth.merge_all();
    growth.loosen();
    growth.merge_all();
    growth.recut();
    growth.finish()
}

pub(super) struct Growth<'a, 'g> {
    pub(super) flow: &'a Flow<'g>,
    pub(super) limits: &'a Limits,
    /// Region of each node.
    pub(super) region: Vec<Option<usize>>,
    pub(super) members: Vec<BTreeSet<NodeId>>,
    /// Regions whose outputs may run over inner rows of their own.
    pub(super) segments: BTreeSet<usize>,
    /// Computing nodes that read each node's results, in order.
    readers: Vec<Vec<NodeId>>,
    /// By node, the last search for a path that came to it.
    seen: Vec<u32>,
    searches: u32,
    refused: BTreeMap<NodeId, Refusal>,
    /// Merges that were refused, by the nodes at their edge.
    pub(super) edges: BTreeMap<(NodeId, NodeId), Refusal>,
    /// Pairs of regions whose union was no row program, with how many nodes each had: regions only grow.
    parted: BTreeMap<(usize, usize), ([usize; 2], Refusal)>,
    contents: Contents<'g>,
    pub(super) verdicts: Verdicts,
    pub(super) spans: Spans,
    pub(super) nesting: Nesting,
}

impl<'a, 'g> Growth<'a, 'g> {
    fn seed(flow: &'a Flow<'g>, limits: &'a Limits) -> Self {
        let graph = flow.graph;
        let count = graph.nodes().len();
        let readers = graph
            .nodes()
            .iter()
            .map(|node| {
                let all: BTreeSet<NodeId> = node.results.iter().flat_map(|&r| flow.readers(r)).copied().collect();
                all.into_iter().collect()
            })
            .collect();
        let mut growth = Growth {
            flow,
            limits,
            region: vec![None; count],
            members: Vec::new(),
            segments: BTreeSet::new(),
            readers,
            seen: vec![0; count],
            searches: 0,
            refused: BTreeMap::new(),
            edges: BTreeMap::new(),
            parted: BTreeMap::new(),
            contents: Contents::default(),
            verdicts: Verdicts::default(),
            spans: Spans::default(),
            nesting: Nesting::Strict,
        };
        growth.plant(graph.node_ids());
        growth.plant_chains();
        growth
    }

    /// Makes each node a region of its own that can be one.
    fn plant(&mut self, nodes: impl Iterator<Item = NodeId>) {
        for id in nodes {
            let alone = BTreeSet::from([id]);
            match self.admits(id).and_then(|()| self.fits(&alone, false)) {
                Ok(_) => {
                    self.refused.remove(&id);
                    self.region[id.0 as usize] = Some(self.members.len());
                    self.members.push(alone);
                }
                Err(refusal) => {
                    self.refused.insert(id, refusal);
                }
            }
        }
    }

    /// Makes writes one region of which the first alone is none: what it leaves lies as the last one leaves it, or as a
    /// part of what is joined behind it. What computes their places says where they are.
    fn plant_chains(&mut self) {
        let refused = self.refused.iter().filter(|(id, r)| **r == Refusal::Scatter && self.flow.writes(**id));
        for first in refused.map(|(id, _)| *id).collect::<Vec<NodeId>>() {
            let chain = std::iter::successors(Some(first), |&write| self.flow.next_write(write)).collect();
            if !self.plant_writes(chain) {
                self.plant_writes(assembled(self.flow, first));
            }
        }
    }

    /// Makes such nodes and what computes the places of writes among them one region, if they can be. Whether they are.
    fn plant_writes(&mut self, nodes: BTreeSet<NodeId>) -> bool {
        let mut joined = nodes.clone();
        for &write in nodes.iter().filter(|&&id| self.flow.writes(id)) {
            joined.extend(self.flow.functions_of(self.flow.graph.node(write).operands[1]));
        }
        let alone = joined.iter().all(|&id| self.region[id.0 as usize].is_none_or(|r| self.members[r].len() == 1));
        if nodes.len() < 2 || !alone || !self.is_convex(&joined) {
            return false;
        }
        // Each write may go to inner rows of its own.
        let Some(segments) = [false, true].into_iter().find(|&segments| self.fits(&joined, segments).is_ok()) else {
            return false;
        };
        if segments {
            self.segments.insert(self.members.len());
        }
        for &id in &joined {
            self.refused.remove(&id);
            if let Some(own) = self.region[id.0 as usize].replace(self.members.len()) {
                self.members[own].clear();
            }
        }
        self.members.push(joined);
        true
    }

    fn merge_all(&mut self) {
        self.merge_neighbours();
        if self.merge_siblings() {
            self.merge_neighbours();
        }
    }

    /// What was refused for how lanes lie is tried again with lanes that nest in any way. Regions that nest strictly come
    /// first: their heads are rows, which more can join.
    fn loosen(&mut self) {
        self.nesting = Nesting::Loose;
        self.verdicts.forget(Refusal::is_of_lanes);
        self.parted.retain(|_, (_, refusal)| !refusal.is_of_lanes());
        let refused: Vec<NodeId> = self.refused.iter().filter(|(_, r)| r.is_of_lanes()).map(|(&id, _)| id).collect();
        self.plant(refused.into_iter());
    }

    /// Whether a node can be part of a row program at all.
    fn admits(&self, id: NodeId) -> Result<(), Refusal> {
        let node = self.flow.graph.node(id);
        if self.flow.is_free(id) {
            return Err(match &node.op {
                op if is_layout(op) => Refusal::LayoutOnly,
                _ if self.flow.is_of_constants(id) => Refusal::Constant,
                _ => Refusal::OneElement,
            });
        }
        match &node.op {
            Op::Composite(_) => Ok(()),
            Op::Prim(prim) => match prim {
                Prim::Map(_) | Prim::Cast { .. } | Prim::Bitcast { .. } | Prim::Reduce { .. } => Ok(()),
                Prim::ArgReduce { .. } | Prim::TopK { .. } | Prim::Cat { .. } => Ok(()),
                Prim::Gather { .. } | Prim::Scatter { .. } | Prim::Pack { .. } => Ok(()),
                Prim::MatMul { .. } | Prim::GroupedMatMul { .. } => Err(Refusal::MatMul),
                Prim::ScatterReduce { .. } => Err(Refusal::ScatterReduce),
                Prim::Sdpa(_) => Err(Refusal::Attention),
                Prim::AllReduce(_) => Err(Refusal::Collective),
                Prim::Opaque { .. } => Err(Refusal::Opaque),
                Prim::Literal(_) | Prim::SizeOf(_) | Prim::Iota { .. } => Err(Refusal::Constant),
                Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } | Prim::Slice { .. } => {
                    Err(Refusal::LayoutOnly)
                }
            },
        }
    }

    pub(super) fn content(&mut self, border: &Border) -> Content {
        self.contents.of(self.flow.graph, &border.nodes, &border.inputs, &border.outputs)
    }

    fn merge_neighbours(&mut self) {
        loop {
            let mut merged = false;
            for id in self.flow.graph.node_ids() {
                // The latest producer first: it is the one that the node continues.
                for &source in self.flow.sources(id).iter().rev() {
                    merged |= self.merge(source, id);
                }
            }
            if !merged {
                return;
            }
        }
    }

    fn merge(&mut self, source: NodeId, reader: NodeId) -> bool {
        let (Some(a), Some(b)) = (self.region[source.0 as usize], self.region[reader.0 as usize]) else { return false };
        if a == b {
            return false;
        }
        let sizes = [self.members[a].len(), self.members[b].len()];
        if let Some(&(_, refusal)) = self.parted.get(&(a, b)).filter(|(then, _)| *then == sizes) {
            self.edges.insert((source, reader), refusal);
            return false;
        }
        let joined: BTreeSet<NodeId> = self.members[a].union(&self.members[b]).copied().collect();
        let mut segments = self.segments.contains(&a) || self.segments.contains(&b);
        if !self.is_convex(&joined) {
            self.edges.insert((source, reader), Refusal::NotConvex);
            return false;
        }
        let mut verdict = self.joins([a, b], &joined, segments);
        // The parts of what is packed have rows of their own, and so have the places that are written to.
        let reads_other_rows =
            matches!(self.flow.graph.node(reader).op, Op::Prim(Prim::Cat { .. } | Prim::Scatter { .. }));
        if verdict.is_err() && !segments && reads_other_rows {
            segments = self.joins([a, b], &joined, true).is_ok();
            verdict = if segments { Ok(()) } else { verdict };
        }
        if let Err(refusal) = verdict {
            self.parted.insert((a, b), (sizes, refusal));
            self.edges.insert((source, reader), refusal);
            return false;
        }
        self.join(a, b, joined);
        if segments {
            self.segments.insert(a);
        }
        true
    }

    fn join(&mut self, a: usize, b: usize, joined: BTreeSet<NodeId>) {
        for member in &self.members[b] {
            self.region[member.0 as usize] = Some(a);
        }
        self.spans.join([&self.members[a], &self.members[b]], &joined);
        self.members[b].clear();
        self.members[a] = joined;
    }

    /// Merges regions of which none needs the other: those that read slices of one value, such as the heads of query and
    /// key, and those that read one value in the same rows. One pass over its rows. Whether any merged.
    fn merge_siblings(&mut self) -> bool {
        let mut merged = false;
        for value in (0..self.flow.graph.value_count() as u32).map(Value) {
            merged |= self.merge_readers(value);
            let readers = self.slice_readers(value);
            let Some((&first, rest)) = readers.split_first() else { continue };
            for &other in rest {
                let joined: BTreeSet<NodeId> = self.members[first].union(&self.members[other]).copied().collect();
                if self.is_convex(&joined) && self.joins([first, other], &joined, true).is_ok() {
                    self.join(first, other, joined);
                    self.segments.insert(first);
                    merged = true;
                }
            }
        }
        merged
    }

    /// Merges regions that read one value in the same rows, each with the next one that it can. Whether any merged.
    fn merge_readers(&mut self, value: Value) -> bool {
        let graph = self.flow.graph;
        let shared = match graph.def(value) {
            Def::Input(i) => graph.inputs()[i].kind.is_given(),
            Def::Node(id, _) => !self.flow.is_free(id),
        };
        let mut regions: Vec<usize> = Vec::new();
        for reader in self.flow.readers(value).iter().filter(|_| shared) {
            let region = self.region[reader.0 as usize];
            regions.extend(region.filter(|r| !regions.contains(r)));
        }
        let Some((&first, rest)) = regions.split_first() else { return false };
        let (mut last, mut merged) = (first, false);
        for &other in rest {
            let joined: BTreeSet<NodeId> = self.members[last].union(&self.members[other]).copied().collect();
            let mut segments = self.segments.contains(&last) || self.segments.contains(&other);
            let border = Border::of(self.flow, &joined, None);
            let few = border.inputs.len() + border.outputs.len() <= self.limits.read;
            let mut fits = few && self.is_convex(&joined) && self.joins([last, other], &joined, segments).is_ok();
            // Heads of one and of the other, and the places that are written to, may have rows of their own.
            if few && !fits && !segments && self.is_convex(&joined) {
                segments = true;
                fits = self.joins([last, other], &joined, true).is_ok();
            }
            if fits && self.varies(value, &joined, segments) {
                self.join(last, other, joined);
                if segments {
                    self.segments.insert(last);
                }
                merged = true;
            } else {
                last = other;
            }
        }
        merged
    }

    /// Whether the rows of a set of nodes read different elements of a value, or of what it is computed of there, as they
    /// do not of what is a weight. Of a single row that is what has a dim of extent 1, in which more rows would lie.
    fn varies(&mut self, value: Value, members: &BTreeSet<NodeId>, segments: bool) -> bool {
        let (flow, nesting, border) = (self.flow, self.nesting, Border::of(self.flow, members, None));
        let content = self.content(&border);
        let mut behind = BTreeSet::from([value]);
        for node in border.nodes.iter().rev().map(|&id| flow.graph.node(id)) {
            if node.results.iter().any(|result| behind.contains(result)) {
                behind.extend(&node.operands);
            }
        }
        let positions = border.inputs.iter().enumerate().filter(|(_, input)| behind.contains(input));
        positions.map(|(position, _)| position).any(|position| {
            let found = || -> Option<bool> {
                let body = expand(&Outline::within(flow, &border).ok()?.body).ok()?;
                let body = row_program(&body, segments, nesting).ok()?.body.unwrap_or(body);
                let space = Space::find(&body, segments).ok()?;
                let input = body.inputs().get(position)?;
                let one_row = space.rows.is_empty() && holds_one(&body, input.value);
                let read_by_row = |value| space.axes.flat(value).iter().any(|axis| space.rows.contains(axis));
                Some(one_row || space.reading(&body, position).any(read_by_row))
            };
            self.verdicts.varies(content.clone(), segments, position, || found().unwrap_or(false))
        })
    }

    /// The regions that read a value through slices alone, in order.
    fn slice_readers(&self, value: Value) -> Vec<usize> {
        let flow = self.flow;
        let mut regions = Vec::new();
        for user in flow.users(value) {
            let node = flow.graph.node(*user);
            if !matches!(node.op, Op::Prim(Prim::Slice { .. })) {
                continue;
            }
            for reader in node.results.iter().flat_map(|&r| flow.readers(r)) {
                let region = self.region[reader.0 as usize];
                regions.extend(region.filter(|r| !regions.contains(r)));
            }
        }
        regions
    }

    /// Whether no path leaves the nodes and comes back, regions taken as one.
    pub(super) fn is_convex(&mut self, joined: &BTreeSet<NodeId>) -> bool {
        let Some(&last) = joined.last() else { return true };
        let horizon = self.spans.horizon(last);
        self.searches += 1;
        let (search, seen) = (self.searches, &mut self.seen);
        let near = |id: NodeId| self.readers[id.0 as usize].iter().copied().take_while(|reader| *reader <= horizon);
        joined.iter().for_each(|id| seen[id.0 as usize] = search);
        let outside = |reader: &NodeId| seen[reader.0 as usize] != search;
        let mut stack: Vec<NodeId> = joined.iter().flat_map(|&id| near(id)).filter(outside).collect();
        while let Some(id) = stack.pop() {
            if std::mem::replace(&mut seen[id.0 as usize], search) == search {
                continue;
            }
            if let Some(region) = self.region[id.0 as usize] {
                stack.extend(self.members[region].iter().filter(|m| **m <= horizon && seen[m.0 as usize] != search));
            }
            for reader in near(id) {
                if joined.contains(&reader) {
                    return false;
                }
                stack.push(reader);
            }
        }
        true
    }

    fn finish(mut self) -> Partition {
        let mut partition = Partition::default();
        let mut covered: BTreeSet<NodeId> = BTreeSet::new();
        let taken = std::mem::take(&mut self.members);
        let mut members: Vec<(BTreeSet<NodeId>, bool)> =
            taken.into_iter().enumerate().map(|(i, set)| (set, self.segments.contains(&i))).collect();
        members.retain(|(set, _)| !set.is_empty());
        members.sort_by_key(|(set, _)| set.first().copied());
        let epilogues = epilogues(self.flow, &self.refused, &mut members);
        let (computing, copying): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|(set, _)| is_computing(self.flow, set));
        self.refused.extend(copying.into_iter().flat_map(|(set, _)| set).map(|id| (id, Refusal::CopyOnly)));
        let fused: BTreeSet<NodeId> = computing.iter().flat_map(|(set, _)| set).copied().collect();
        for (set, segments) in computing {
            match self.region_of(&set, &fused, segments) {
                Ok(region) => {
                    covered.extend(&region.nodes);
                    partition.regions.push(region);
                }
                Err(refusal) => self.refused.extend(set.iter().map(|&id| (id, refusal))),
            }
        }
        part_independent(self.flow.graph, &mut partition.regions);
        let left = self.refused.iter().filter(|(id, _)| !covered.contains(id));
        partition.unfused = left.map(|(&node, &refusal)| Unfused { node, refusal }).collect();
        partition.lone = lone(self.flow, &partition, &epilogues);
        partition.steps = steps(self.flow, &partition);
        list_stored(self.flow, &mut partition);
        overwrite::mark(self.flow.graph, &mut partition);
        partition
    }

    fn region_of(
        &mut self,
        set: &BTreeSet<NodeId>,
        fused: &BTreeSet<NodeId>,
        segments: bool,
    ) -> Result<FusedRegion, Refusal> {
        let mut border = Border::of(self.flow, set, Some(Behind { fused, most: usize::MAX }));
        while border.behind > 0 && self.legal(&border, segments).is_err() {
            let most = border.behind - 1;
            border = Border::of(self.flow, set, (most > 0).then_some(Behind { fused, most }));
        }
        let Outline { body, nodes, inputs, outputs, .. } =
            Outline::within(self.flow, &border).map_err(|_| Refusal::Reshape)?;
        let ends = self.ends(set);
        let name = Kind::Row.name().to_owned();
        Ok(FusedRegion { name, kind: Kind::Row, nodes, inputs, outputs, body, segments, ends })
    }

    fn ends(&self, set: &BTreeSet<NodeId>) -> Vec<End> {
        let mut ends: BTreeMap<NodeId, Refusal> = BTreeMap::new();
        for &id in set {
            let sources = self.flow.sources(id).iter().map(|&source| (source, (source, id)));
            let readers = self.readers[id.0 as usize].iter().map(|&reader| (reader, (id, reader)));
            for (neighbour, edge) in sources.chain(readers).filter(|(n, _)| !set.contains(n)) {
                let refusal = self.edges.get(&edge).or_else(|| self.refused.get(&neighbour)).copied();
                ends.entry(neighbour).or_insert(refusal.unwrap_or(Refusal::NotConvex));
            }
        }
        ends.into_iter().map(|(node, refusal)| End { node, refusal }).collect()
    }
}

/// The nodes that compute of each element of a reduction over rows and of nothing else computed, by that reduction: they
/// join its kernel, and are no region. Of a whole tensor that is one element, and any op joins.
fn epilogues(
    flow: &Flow<'_>,
    refused: &BTreeMap<NodeId, Refusal>,
    members: &mut Vec<(BTreeSet<NodeId>, bool)>,
) -> BTreeMap<NodeId, BTreeSet<NodeId>> {
    let mut epilogues: BTreeMap<NodeId, BTreeSet<NodeId>> = BTreeMap::new();
    members.retain(|(set, _)| {
        let graph = flow.graph;
        let count = |id: NodeId| graph.ty(graph.node(id).results[0]).elements();
        let one = |id: &NodeId| graph.node(*id).results.iter().all(|&r| graph.ty(r).elements().as_const() == Some(1));
        let reduces = |id: NodeId| matches!(graph.node(id).op, Op::Prim(Prim::Reduce { .. }));
        let outside: BTreeSet<NodeId> =
            set.iter().flat_map(|&id| flow.sources(id)).filter(|source| !set.contains(source)).copied().collect();
        let Some(&reduction) = outside.first().filter(|_| outside.len() == 1) else { return true };
        let of_each = |id: &NodeId| {
            let maps = matches!(graph.node(*id).op, Op::Prim(Prim::Map(_) | Prim::Cast { .. }));
            maps && count(*id) == count(reduction)
        };
        let joins = match refused.get(&reduction) {
            Some(Refusal::WholeTensor) => one(&reduction) && set.iter().all(one),
            Some(Refusal::ReductionAxis) => reduces(reduction) && set.iter().all(of_each),
            _ => false,
        };
        if joins {
            epilogues.entry(reduction).or_default().extend(set);
        }
        !joins
    });
    epilogues
}

/// Lists the free nodes that are steps of their own, whether or not regions have them too: what is no view is stored.
fn list_stored(flow: &Flow<'_>, partition: &mut Partition) {
    let mut unfused: BTreeMap<NodeId, Refusal> = partition.unfused.iter().map(|u| (u.node, u.refusal)).collect();
    for &step in &partition.steps {
        let node = match step {
            Step::Node(id) => Some(id),
            Step::Lone(i) => partition.lone[i].nodes.last().copied(),
            Step::Region(_) => None,
        };
        if let Some(id) = node.filter(|&id| flow.is_free(id)) {
            let view = is_layout(&flow.graph.node(id).op);
            match unfused.entry(id) {
                Entry::Vacant(_) if view => {}
                entry => drop(entry.insert_entry(if view { Refusal::LayoutOnly } else { Refusal::InMemory })),
            }
        }
    }
    partition.unfused = unfused.into_iter().map(|(node, refusal)| Unfused { node, refusal }).collect();
}

/// Gives a region that meets no other node a reason: its neighbour in order computes something else.
fn part_independent(graph: &Graph, regions: &mut [FusedRegion]) {
    let first = |r: &FusedRegion| r.nodes.iter().copied().find(|&id| computes_or_copies(graph, id));
    let firsts: Vec<Option<NodeId>> = regions.iter().map(first).collect();
    for (i, region) in regions.iter_mut().enumerate().filter(|(_, r)| r.ends.is_empty()) {
        let next = firsts.get(i + 1).or_else(|| firsts.get(i.checked_sub(1)?)).copied().flatten();
        region.ends.extend(next.map(|node| End { node, refusal: Refusal::Independent }));
    }
}

fn computes_or_copies(graph: &Graph, id: NodeId) -> bool {
    let op = &graph.node(id).op;
    !is_layout(op) && !is_constant(op)
}

/// Whether an op has no operands and a value that the symbols fix.
pub fn is_constant(op: &Op) -> bool {
    matches!(op, Op::Prim(Prim::Literal(_) | Prim::SizeOf(_) | Prim::Iota { .. }))
}

/// Whether an op only rearranges its operand.
pub fn is_layout(op: &Op) -> bool {
    matches!(op, Op::Prim(Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } | Prim::Slice { .. }))
}

/// Whether a set of nodes computes something, or copies what its own one-element functions compute: places, say.
fn is_computing(flow: &Flow<'_>, set: &BTreeSet<NodeId>) -> bool {
    let is_function = |id: &NodeId| matches!(flow.graph.node(*id).op, Op::Prim(Prim::Map(_) | Prim::Cast { .. }));
    set.iter().any(|&id| computes(flow.graph, id)) || Border::of(flow, set, None).nodes.iter().any(is_function)
}

/// Whether a node computes something, rather than copying elements.
fn computes(graph: &Graph, id: NodeId) -> bool {
    !matches!(graph.node(id).op, Op::Prim(Prim::Cat { .. } | Prim::Gather { .. } | Prim::Bitcast { .. }))
}
