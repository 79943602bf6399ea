//! Row values that are stored for later loops instead of being computed again.
//!
//! A loop that computes a value of the row writes it to stack memory, and loops after it load it; the value's own dtype
//! is kept, so bits do not change. What is the same for all inner rows (a row of a table, the sines of a position) is
//! computed once before them. Between the loops over one group only that group's lanes are kept. A value that a load or
//! two give again is computed again, and so is one that does not fit. What has no constant length is kept in code for
//! rows that are not longer than [`SHORT`].

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::Dim;

use super::Forms;
use super::cost::{MOST_BYTES, STORE_AND_LOAD, Values, keeps_lanes};
use super::plan::{self, Grouped, Job, MOST_PIECES, Pass, Plan, sink_value};
use super::stash::Stored;
use super::walk::Walk;
use crate::kernel::{Inst, InstOp, Segment, Shape, Val};

/// Most lanes of a row whose length is no constant, where values of it are kept.
pub(in crate::backend) const SHORT: i64 = 4096;

/// How long a value is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::backend) enum Reach {
    /// For all inner rows of a row.
    Row,
    /// From loop to loop of an inner row.
    InnerRow,
    /// Between the loops over one group.
    Group,
}

/// A value that is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::backend) struct Kept {
    pub value: Val,
    pub bytes: i64,
    pub reach: Reach,
}

impl Kept {
    /// One line for people.
    pub fn describe(&self, segment: &Segment) -> String {
        let reach = match self.reach {
            Reach::Row => "all inner rows",
            Reach::InnerRow => "the row",
            Reach::Group => "the group",
        };
        let ty = segment.ty(self.value);
        let short = if self.reach == Reach::InnerRow && ty.shape.elements().as_const().is_none() {
            format!(", if that has at most {SHORT} lanes")
        } else {
            String::new()
        };
        let name = &segment.name;
        format!("segment `{name}` keeps %{} ({}) for {reach}{short}, {} bytes", self.value.0, ty.dtype, self.bytes)
    }
}

/// Chooses what is kept, and adds to the plan the jobs that store it. Of the loads that stores overwrite
/// (`overwritten`), those are saved that fit. `short` says that no row is longer than [`SHORT`].
pub(super) fn choose(
    segment: &Segment,
    found: &Stored,
    plan: &mut Plan,
    forms: &dyn Forms,
    overwritten: &[Val],
    short: bool,
) {
    let mut keeper = Keeper { segment, forms, found, kept: BTreeMap::new(), bytes: 0, short, lengths: BTreeSet::new() };
    keeper.shared(plan);
    plan.kept = keeper.kept.iter().map(|(&value, &bytes)| Kept { value, bytes, reach: Reach::Row }).collect();
    let saving = keeper.save(plan, overwritten);
    let places = keeper.rows(plan);
    for (value, (phase, pass)) in places.into_iter().rev() {
        keeper.place(&mut plan.phases[phase], pass, value);
        plan.kept.push(Kept { value, bytes: keeper.kept[&value], reach: Reach::InnerRow });
    }
    if let Some(first) = plan.phases.first_mut() {
        first.splice(0..0, saving);
    }
    for pass in plan.outer.iter_mut().chain(&mut plan.phases).flatten() {
        if let Pass::Grouped(grouped) = pass {
            keeper.group(grouped, &mut plan.kept);
        }
    }
    plan.lengths = keeper.lengths.union(&found.lengths).cloned().collect();
}

struct Keeper<'k> {
    segment: &'k Segment,
    forms: &'k dyn Forms,
    found: &'k Stored,
    kept: BTreeMap<Val, i64>,
    bytes: i64,
    short: bool,
    /// Those that are taken to be short.
    lengths: BTreeSet<Dim>,
}

/// The values that a loop computes, and whether each is computed at the lanes of the loop.
type Seen = BTreeMap<Val, bool>;

impl<'k> Keeper<'k> {
    fn values(&self) -> Values<'_> {
        Values { segment: self.segment, definitions: &self.found.definitions }
    }

    fn inst(&self, v: Val) -> &'k Inst {
        &self.segment.insts[self.found.definitions[v.0 as usize]]
    }

    /// Whether the loop that computes a value stores it anyway.
    fn is_found(&self, v: Val) -> bool {
        matches!(self.inst(v).op, InstOp::TopK { .. }) || self.found.stashed[self.found.definitions[v.0 as usize]]
    }

    /// Keeps what inner rows share, and plans the loops before them that compute it.
    fn shared(&mut self, plan: &mut Plan) {
        let stages = plan::stages(self.segment, &self.found.stashed);
        for (&v, &bytes) in &self.found.shared {
            let phase = self.inst(v).args.iter().map(|a| stages[a.0 as usize]).max().unwrap_or(0);
            plan.outer.resize_with(plan.outer.len().max(phase + 1), Vec::new);
            self.append(&mut plan.outer[phase], v);
            self.bytes += bytes;
            self.kept.insert(v, bytes);
        }
    }

    /// Saves loads of each inner row that wait for nothing, and gives the loops that store them.
    fn save(&mut self, plan: &mut Plan, loads: &[Val]) -> Vec<Pass> {
        let (outer, stages) = (&self.found.outer, plan::stages(self.segment, &self.found.stashed));
        let mut loops = Vec::new();
        for &v in loads.iter().filter(|v| !outer[v.0 as usize] && stages[v.0 as usize] == 0) {
            if self.reserve(v, None) {
                self.append(&mut loops, v);
                plan.kept.push(Kept { value: v, bytes: self.kept[&v], reach: Reach::InnerRow });
                plan.saved.push(v);
            }
        }
        loops
    }

    /// Adds the job that stores a value to a loop of as many lanes, or a loop of its own behind all.
    fn append(&self, phase: &mut Vec<Pass>, value: Val) {
        let (job, length, fits) = self.storing(value);
        let room = phase.iter_mut().find_map(|pass| match pass {
            Pass::Flat { lanes, vector, jobs } if (&*lanes, *vector) == (&length, fits) => {
                (jobs.len() < MOST_PIECES).then_some(jobs)
            }
            _ => None,
        });
        match room {
            Some(jobs) => jobs.push(job),
            None => phase.push(Pass::Flat { lanes: length, vector: fits, jobs: vec![job] }),
        }
    }

    /// Values of the whole row to keep, with the phase and the loop that compute them first, in the order of loops.
    fn rows(&mut self, plan: &Plan) -> Vec<(Val, (usize, usize))> {
        let mut first: BTreeMap<Val, (usize, usize)> = BTreeMap::new();
        let mut places = Vec::new();
        for (phase, passes) in plan.phases.iter().enumerate() {
            for (pass, jobs) in passes.iter().enumerate() {
                let roots = self.roots(jobs);
                let seen = self.search(&roots, &mut |keeper, v| {
                    if !first.contains_key(&v) {
                        return false;
                    }
                    let v = keeper.values().narrowest(v);
                    let found = keeper.worth(v) && first.contains_key(&v) && keeper.reserve(v, None);
                    if found {
                        places.push((v, first[&v]));
                    }
                    found
                });
                for (v, _) in seen.into_iter().filter(|(_, direct)| *direct) {
                    first.entry(v).or_insert((phase, pass));
                }
            }
        }
        places.sort_by_key(|(v, place)| (*place, *v));
        places
    }

    /// What the loops of a pass compute. The reductions of groups are below their stores.
    fn roots(&self, pass: &Pass) -> Vec<Val> {
        let of = |inst: usize| self.segment.insts[inst].args.clone();
        match pass {
            Pass::Flat { jobs, .. } => jobs.iter().flat_map(|j| of(j.inst)).collect(),
            Pass::Grouped(g) => {
                let reduces = g.reduces.iter().flatten().copied();
                let jobs = g.jobs.iter().flat_map(|(_, _, jobs)| jobs).map(|j| j.inst);
                reduces.chain(jobs).flat_map(of).collect()
            }
            Pass::Search(at) => of(*at),
        }
    }

    /// Everything that computing `roots` computes per lane, down to what is kept or `stop` accepts.
    fn search(&mut self, roots: &[Val], stop: &mut dyn FnMut(&mut Self, Val) -> bool) -> Seen {
        let mut seen = Seen::new();
        let mut open: Vec<(Val, bool)> = roots.iter().rev().map(|v| (*v, true)).collect();
        while let Some((v, direct)) = open.pop() {
            let stored = self.kept.contains_key(&v) || self.is_found(v);
            if !self.values().is_row(v) || stored || seen.get(&v).is_some_and(|d| *d || !direct) {
                continue;
            }
            if stop(self, v) {
                continue;
            }
            seen.insert(v, direct);
            let inst = self.inst(v);
            let direct = direct && keeps_lanes(&inst.op);
            open.extend(inst.args.iter().rev().map(|a| (*a, direct)));
        }
        seen
    }

    /// Whether computing a value again costs more than keeping it.
    fn worth(&self, v: Val) -> bool {
        let stored = |v: Val| self.kept.contains_key(&v) || self.is_found(v);
        self.values().cost(v, STORE_AND_LOAD + 1, &stored) > STORE_AND_LOAD
    }

    /// Takes stack memory for a value: of `size` lanes, or of its row.
    fn reserve(&mut self, v: Val, size: Option<i64>) -> bool {
        let Shape::Row(lanes) = &self.segment.ty(v).shape else { return false };
        if self.kept.contains_key(&v) {
            return true;
        }
        let most = size.or(lanes.as_const()).or_else(|| self.short.then_some(SHORT));
        let bytes = most.and_then(|lanes| self.values().bytes(v, lanes));
        let Some(bytes) = bytes.filter(|bytes| self.bytes + bytes <= MOST_BYTES) else { return false };
        let at = self.found.definitions[v.0 as usize];
        let walk = Walk::of(self.segment, self.found, at, None, self.forms);
        if !walk.cuts.is_empty() || (size.is_none() && !walk.groups.is_empty()) {
            return false;
        }
        if size.is_none() && lanes.as_const().is_none() {
            self.lengths.insert(lanes.clone());
        }
        self.bytes += bytes;
        self.kept.insert(v, bytes);
        true
    }

    /// Adds the job that stores a row value to the loop that computes it, or a loop of its own before that.
    fn place(&self, phase: &mut Vec<Pass>, pass: usize, value: Val) {
        let (job, length, fits) = self.storing(value);
        match &mut phase[pass] {
            Pass::Flat { lanes, vector, jobs } if (&*lanes, *vector) == (&length, fits) => jobs.push(job),
            _ => phase.insert(pass, Pass::Flat { lanes: length, vector: fits, jobs: vec![job] }),
        }
    }

    /// The job that stores a value, its number of lanes, and whether chunks of them can be taken.
    fn storing(&self, value: Val) -> (Job, Dim, bool) {
        let at = self.found.definitions[value.0 as usize];
        let fits = Walk::of(self.segment, self.found, at, None, self.forms).vector;
        (Job { inst: at, offset: Dim::constant(0) }, self.segment.ty(value).shape.elements(), fits)
    }

    /// Chooses what the loops over one group keep for each other.
    fn group(&mut self, grouped: &mut Grouped, plan: &mut Vec<Kept>) {
        let Some(size) = grouped.size.as_const() else { return };
        let rows = self.kept.clone();
        let mut first: BTreeMap<Val, usize> = BTreeMap::new();
        let mut loops: Vec<Vec<Val>> = Vec::new();
        for reduces in &grouped.reduces {
            loops.push(reduces.iter().map(|&at| sink_value(self.segment, at)).collect());
        }
        for (_, _, jobs) in &grouped.jobs {
            loops.push(jobs.iter().flat_map(|j| self.segment.insts[j.inst].args.clone()).collect());
        }
        for (at, roots) in loops.iter().enumerate() {
            let mut found = Vec::new();
            let seen = self.search(roots, &mut |keeper, v| {
                if !first.contains_key(&v) {
                    return false;
                }
                let v = keeper.values().narrowest(v);
                let new = !keeper.kept.contains_key(&v);
                let Some(&from) = first.get(&v) else { return false };
                let takes = keeper.worth(v) && keeper.reserve(v, Some(size));
                if takes && new {
                    found.push((from, v));
                }
                takes
            });
            for (from, value) in found {
                grouped.kept.push((from, value));
                plan.push(Kept { value, bytes: self.kept[&value], reach: Reach::Group });
            }
            if at < grouped.reduces.len() {
                seen.into_iter().filter(|(_, direct)| *direct).for_each(|(v, _)| {
                    first.entry(v).or_insert(at);
                });
            }
        }
        self.kept = rows;
    }
}
