//! Row values that are stored for later loops instead of being computed again.
//!
//! A loop that computes a value of the row writes it to stack memory, and loops after it load it; the value's own dtype
//! is kept, so bits do not change. Between the loops over one group only that group's lanes are kept. A value that a
//! load or two give again is computed again, and so is one whose length is no constant or does not fit.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_abi::DType;
use fusewright_graph::{Dim, ScalarFn};

use super::plan::{Grouped, Job, Pass, Plan, sink_value};
use super::stash::stashed;
use super::walk::Walk;
use super::{Forms, definitions};
use crate::kernel::{Inst, InstOp, Segment, Shape, Val};

/// Most bytes of stack memory that the values of a segment take.
const MOST_BYTES: i64 = 64 << 10;
/// What storing and loading a value costs, in instructions.
const STORE_AND_LOAD: u32 = 6;

/// A value that is kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::backend) struct Kept {
    pub value: Val,
    pub bytes: i64,
    /// Between the loops over one group, or for the row.
    pub group: bool,
}

impl Kept {
    /// One line for people.
    pub fn describe(&self, segment: &Segment) -> String {
        let reach = if self.group { "group" } else { "row" };
        let ty = segment.ty(self.value);
        format!(
            "segment `{}` keeps %{} ({}) for the {reach}, {} bytes",
            segment.name, self.value.0, ty.dtype, self.bytes
        )
    }
}

/// Chooses what is kept, and adds to the plan the jobs that store it.
pub(in crate::backend) fn choose(segment: &Segment, plan: &mut Plan, forms: &dyn Forms) {
    let mut keeper = Keeper {
        segment,
        forms,
        definitions: definitions(segment),
        stashed: stashed(segment),
        kept: BTreeMap::new(),
        bytes: 0,
    };
    let places = keeper.rows(plan);
    for (value, (phase, pass)) in places.into_iter().rev() {
        keeper.place(&mut plan.phases[phase], pass, value);
    }
    for (value, bytes) in keeper.kept.clone() {
        plan.kept.push(Kept { value, bytes, group: false });
    }
    for pass in plan.phases.iter_mut().flatten() {
        if let Pass::Grouped(grouped) = pass {
            keeper.group(grouped, &mut plan.kept);
        }
    }
}

struct Keeper<'k> {
    segment: &'k Segment,
    forms: &'k dyn Forms,
    definitions: Vec<usize>,
    stashed: Vec<bool>,
    kept: BTreeMap<Val, i64>,
    bytes: i64,
}

/// The values that a loop computes, and whether each is computed at the lanes of the loop.
type Seen = BTreeMap<Val, bool>;

impl<'k> Keeper<'k> {
    fn inst(&self, v: Val) -> &'k Inst {
        &self.segment.insts[self.definitions[v.0 as usize]]
    }

    /// Whether the loop that computes a value stores it anyway.
    fn is_found(&self, v: Val) -> bool {
        matches!(self.inst(v).op, InstOp::TopK(_)) || self.stashed[self.definitions[v.0 as usize]]
    }

    fn is_row(&self, v: Val) -> bool {
        matches!(self.segment.ty(v).shape, Shape::Row(_))
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
                    let v = keeper.narrowest(v);
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
            if !self.is_row(v) || stored || seen.get(&v).is_some_and(|d| *d || !direct) {
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

    /// A value of fewer bytes from which `v` follows at little cost, or `v`.
    fn narrowest(&self, v: Val) -> Val {
        let (mut at, mut best) = (v, v);
        loop {
            let inst = self.inst(at);
            let mut rows = inst.args.iter().filter(|a| self.segment.ty(**a).shape != Shape::Scalar);
            let (Some(&below), None) = (rows.next(), rows.next()) else { return best };
            if weight(self.segment, inst) > 1 || !keeps_lanes(&inst.op) || !self.is_row(below) {
                return best;
            }
            at = below;
            if self.segment.ty(at).dtype.bits() < self.segment.ty(best).dtype.bits() {
                best = at;
            }
        }
    }

    /// Whether computing a value again costs more than keeping it.
    fn worth(&self, v: Val) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![v];
        let mut cost = 0;
        while let Some(v) = open.pop() {
            if self.segment.ty(v).shape == Shape::Scalar || !seen.insert(v) {
                continue;
            }
            if self.kept.contains_key(&v) || self.is_found(v) || !self.is_row(v) {
                cost += 1;
                continue;
            }
            let inst = self.inst(v);
            cost += weight(self.segment, inst);
            if cost > STORE_AND_LOAD {
                return true;
            }
            open.extend(&inst.args);
        }
        false
    }

    /// Takes stack memory for a value: of `size` lanes, or of its row.
    fn reserve(&mut self, v: Val, size: Option<i64>) -> bool {
        let Shape::Row(lanes) = &self.segment.ty(v).shape else { return false };
        if self.kept.contains_key(&v) {
            return true;
        }
        let bits = self.segment.ty(v).dtype.bits();
        let Some(lanes) = size.or(lanes.as_const()).filter(|n| (1..=MOST_BYTES).contains(n)) else { return false };
        // A store of four-bit elements writes two at a time.
        let bytes = lanes * i64::from(bits / 8);
        if bits < 8 || self.bytes + bytes > MOST_BYTES {
            return false;
        }
        let at = self.definitions[v.0 as usize];
        let walk = Walk::of(self.segment, at, None, self.forms);
        if !walk.cuts.is_empty() || (size.is_none() && !walk.groups.is_empty()) {
            return false;
        }
        self.bytes += bytes;
        self.kept.insert(v, bytes);
        true
    }

    /// Adds the job that stores a row value to the loop that computes it, or a loop of its own before that.
    fn place(&self, phase: &mut Vec<Pass>, pass: usize, value: Val) {
        let at = self.definitions[value.0 as usize];
        let fits = Walk::of(self.segment, at, None, self.forms).vector;
        let length = self.segment.ty(value).shape.elements();
        let job = Job { inst: at, offset: Dim::constant(0) };
        match &mut phase[pass] {
            Pass::Flat { lanes, vector, jobs } if (&*lanes, *vector) == (&length, fits) => jobs.push(job),
            _ => phase.insert(pass, Pass::Flat { lanes: length, vector: fits, jobs: vec![job] }),
        }
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
                let v = keeper.narrowest(v);
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
                plan.push(Kept { value, bytes: self.kept[&value], group: true });
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

/// Whether lane `i` of the result takes lane `i` of every operand.
fn keeps_lanes(op: &InstOp) -> bool {
    matches!(op, InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_) | InstOp::Broadcast(_))
}

/// About how many instructions compute four lanes of a value from its operands.
fn weight(segment: &Segment, inst: &Inst) -> u32 {
    let dtype = |v: Option<&Val>| v.map_or(DType::F32, |v| segment.ty(*v).dtype);
    let narrow = |d: DType| d.is_float() && d.bits() < 32 && d != DType::BF16;
    match &inst.op {
        InstOp::Load { .. } if !inst.args.is_empty() => 4,
        InstOp::Load { .. } => 1 + u32::from(dtype(inst.results.first()).bits() < 32),
        InstOp::Cast { to, .. } => match (dtype(inst.args.first()), *to) {
            (DType::BF16, DType::F32) => 0,
            (from, to) if narrow(from) || narrow(to) => 12,
            (DType::F32, DType::BF16) => 7,
            _ => 3,
        },
        InstOp::Map(ScalarFn::Div | ScalarFn::Sqrt) => 4,
        InstOp::Map(_) | InstOp::Cat | InstOp::Zip | InstOp::Iota(_) => 1,
        InstOp::Slice { step, .. } => u32::from(*step != 1),
        InstOp::Pack { .. } => 3,
        _ => 0,
    }
}
