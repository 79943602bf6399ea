//! Plans: in which phase and loop of a segment every store and reduction runs.
//!
//! A phase ends where a row reduction has to be known. The sinks of a phase (stores, row reductions) are cut at the
//! borders of concatenations, and pieces of equal length share a loop. A sink that uses values of groups runs group by
//! group.

use std::collections::BTreeSet;

use fusewright_graph::Dim;
use fusewright_graph::dim::DimFn;

use super::abreast::ROWS;
use super::ahead::{self, Ahead};
use super::index::at_least;
use super::keep::{self, Kept};
use super::stash::Stored;
use super::walk::{GroupUse, Walk};
use super::{CHUNK, Forms, Taken, hazard};
use crate::kernel::{InstOp, Kernel, Over, Segment, Shape, Val};

/// Most pieces that share a loop: their operands have to fit the registers. Where all is one chunk there is no loop.
pub(super) const MOST_PIECES: usize = 6;

/// Part of a sink, or of a value that is kept: its lanes from `offset` on.
#[derive(Clone, Debug)]
pub(in crate::backend) struct Job {
    /// The store or reduction; any other instruction's value is kept.
    pub inst: usize,
    pub offset: Dim,
}

/// Sinks that run over the groups of a row.
#[derive(Clone, Debug)]
pub(in crate::backend) struct Grouped {
    pub lanes: Dim,
    pub size: Dim,
    /// Group reductions in the order of their dependence; those of one list share a loop.
    pub reduces: Vec<Vec<usize>>,
    /// Values that a list of reductions, by its number, stores for the loops after it.
    pub kept: Vec<(usize, Val)>,
    /// Stores of group values, and those of them that are stored to be read as a row.
    pub elements: Vec<usize>,
    /// Sinks over lanes: how many lanes of the group one of theirs stands for, whether chunks can be taken, and which.
    pub jobs: Vec<(i64, bool, Vec<Job>)>,
}

/// A loop of a phase.
#[derive(Clone, Debug)]
pub(in crate::backend) enum Pass {
    /// Over that many lanes.
    Flat { lanes: Dim, vector: bool, jobs: Vec<Job> },
    /// Over groups.
    Grouped(Grouped),
    /// The extreme lane of a row, or its largest.
    Search(usize),
}

impl Pass {
    /// The stores and reductions of the pass over lanes.
    pub fn sinks(&self) -> Vec<usize> {
        match self {
            Pass::Flat { jobs, .. } => jobs.iter().map(|j| j.inst).collect(),
            Pass::Grouped(grouped) => grouped.sinks(),
            Pass::Search(at) => vec![*at],
        }
    }
}

impl Grouped {
    /// Gives the stores, reductions and rows that the loop over groups is for.
    pub fn sinks(&self) -> Vec<usize> {
        let jobs = self.jobs.iter().flat_map(|(_, _, jobs)| jobs).map(|j| j.inst);
        self.elements.iter().copied().chain(jobs).collect()
    }
}

/// What runs for a row, in order.
#[derive(Clone, Debug)]
pub(in crate::backend) struct Plan {
    /// Once, before the inner rows: reductions and kept values that are the same for all of them.
    pub outer: Vec<Vec<Pass>>,
    /// For every inner row.
    pub phases: Vec<Vec<Pass>>,
    /// Stores of scalars, after everything else of an inner row.
    pub scalar_stores: Vec<usize>,
    /// Needed scalars that depend on no reduction.
    pub early: Vec<Val>,
    /// Needed scalars that depend on reductions of `outer` only.
    pub reduced: Vec<Val>,
    /// Values that are stored for later loops.
    pub kept: Vec<Kept>,
    /// Loads that the first loop stores, because stores overwrite what they read.
    pub saved: Vec<Val>,
    /// What runs for all inner rows before the rest of them.
    pub ahead: Option<Ahead>,
    /// Lengths of rows that are not constants, at most [`keep::SHORT`] each for what is kept of them.
    pub lengths: Vec<Dim>,
    /// The rows that have loops of their own.
    pub found: Stored,
    /// No row is taken to be longer than [`keep::SHORT`] if this is set.
    pub short: bool,
}

/// How a segment runs.
pub(in crate::backend) struct Plans {
    /// Where all of its [`Plan::lengths`] are as short as they are taken to be, of which there is one at least.
    pub short: Option<Plan>,
    /// Otherwise: no length is taken to be short.
    pub any: Plan,
}

/// The operands of a sink, or a value that is kept.
pub(in crate::backend) fn roots(segment: &Segment, inst: usize) -> &[Val] {
    let at = &segment.insts[inst];
    if is_sink(segment, inst) { &at.args } else { &at.results }
}

/// Whether an instruction consumes lanes: a store or a reduction.
pub(in crate::backend) fn is_sink(segment: &Segment, inst: usize) -> bool {
    let op = &segment.insts[inst].op;
    matches!(op, InstOp::Store { .. }) || op.combines_lanes()
}

/// The value that a job takes lane by lane.
pub(in crate::backend) fn sink_value(segment: &Segment, inst: usize) -> Val {
    let at = &segment.insts[inst];
    if is_sink(segment, inst) { at.args[0] } else { at.results[0] }
}

/// Plans a segment for an emitter with those vector forms.
pub(in crate::backend) fn plans(kernel: &Kernel, segment: &Segment, forms: &dyn Forms) -> Taken<Plans> {
    let keeping = |found: &Stored, overwritten: &[Val], short: bool| {
        let mut plan = bare(kernel, segment, found, forms, short)?;
        keep::choose(segment, found, &mut plan, forms, overwritten, short);
        hazard::check(kernel, segment, found, &plan, forms)?;
        plan.ahead = ahead::choose(kernel, segment, found, &plan);
        Ok(plan)
    };
    let safe_with = |found: &Stored, short| {
        keeping(found, &[], short).or_else(|_| keeping(found, &hazard::overwritten(kernel, segment), short))
    };
    let safe = |short| {
        safe_with(&Stored::of(segment, forms, short), short).or_else(|_| safe_with(&Stored::needed(segment), short))
    };
    // The lengths are compared before any row is at hand.
    let known = |length: &Dim| {
        let mut names = BTreeSet::new();
        length.collect_symbols(&mut names);
        names.iter().all(|name| kernel.dims.iter().any(|dim| dim.name == *name))
    };
    let any = safe(false)?;
    let open = |shape: &Shape| matches!(shape, Shape::Row(lanes) if lanes.as_const().is_none());
    let short = if segment.types.iter().any(|ty| open(&ty.shape)) { safe(true).ok() } else { None };
    let short = short.filter(|plan| !plan.lengths.is_empty() && plan.lengths.iter().all(known));
    Ok(Plans { short, any })
}

/// What runs where nothing is kept.
fn bare(kernel: &Kernel, segment: &Segment, found: &Stored, forms: &dyn Forms, short: bool) -> Taken<Plan> {
    let planner = Planner::new(kernel, segment, found, forms);
    let outer = &found.outer;
    let (mut before, mut phases): (Vec<Vec<Pass>>, Vec<Vec<Pass>>) = (Vec::new(), Vec::new());
    let mut scalar_stores = Vec::new();
    for (at, inst) in segment.insts.iter().enumerate().filter(|(at, _)| planner.live[*at]) {
        let phase = match &inst.op {
            InstOp::Store { .. } if segment.ty(inst.args[0]).shape == Shape::Scalar => {
                scalar_stores.push(at);
                continue;
            }
            _ if found.stashed[at] => planner.stage(at),
            InstOp::Store { .. }
            | InstOp::Reduce { over: Over::Row, .. }
            | InstOp::ArgReduce(_)
            | InstOp::TopK { .. } => planner.phase_of(at),
            _ => continue,
        };
        let once = inst.results.first().is_some_and(|v| outer[v.0 as usize]);
        let phases = if once { &mut before } else { &mut phases };
        phases.resize_with(phases.len().max(phase + 1), Vec::new);
        planner.place(&mut phases[phase], at)?;
    }
    let results = (0..segment.insts.len()).filter(|&at| planner.live[at]).flat_map(|at| &segment.insts[at].results);
    let scalars = results.copied().filter(|v| segment.ty(*v).shape == Shape::Scalar);
    let (early, late): (Vec<Val>, Vec<Val>) = scalars.partition(|v| planner.stages[v.0 as usize] == 0);
    let reduced = late.into_iter().filter(|v| outer[v.0 as usize]).collect();
    // What overwrites comes behind what still loads.
    phases.iter_mut().for_each(|phase| phase.sort_by_key(|pass| planner.overwrites(pass)));
    let (kept, saved, lengths, found) = (Vec::new(), Vec::new(), Vec::new(), found.clone());
    Ok(Plan { outer: before, phases, scalar_stores, early, reduced, kept, saved, ahead: None, lengths, found, short })
}

struct Planner<'k> {
    kernel: &'k Kernel,
    segment: &'k Segment,
    forms: &'k dyn Forms,
    live: Vec<bool>,
    /// The phase at whose start each value can be computed.
    stages: Vec<usize>,
    found: &'k Stored,
}

impl<'k> Planner<'k> {
    fn new(kernel: &'k Kernel, segment: &'k Segment, found: &'k Stored, forms: &'k dyn Forms) -> Self {
        let stages = stages(segment, &found.stashed);
        Planner { kernel, segment, forms, live: live(segment), stages, found }
    }

    fn stage(&self, at: usize) -> usize {
        operands(self.segment, at).map(|v| self.stages[v.0 as usize]).max().unwrap_or(0)
    }

    /// A store that may overwrite what is still to be loaded waits for the last phase.
    fn phase_of(&self, at: usize) -> usize {
        let stage = self.stage(at);
        let InstOp::Store { param, .. } = &self.segment.insts[at].op else { return stage };
        if hazard::overwrites(self.kernel, self.segment, *param) { self.last_stage() } else { stage }
    }

    /// Whether a loop has a store that may overwrite what is still to be loaded.
    fn overwrites(&self, pass: &Pass) -> bool {
        pass.sinks().into_iter().any(|at| match &self.segment.insts[at].op {
            InstOp::Store { param, .. } => hazard::overwrites(self.kernel, self.segment, *param),
            _ => false,
        })
    }

    fn last_stage(&self) -> usize {
        let live = (0..self.segment.insts.len()).filter(|&at| self.live[at]);
        live.filter(|&at| matches!(self.segment.insts[at].op, InstOp::Store { .. }))
            .map(|at| self.stage(at))
            .max()
            .unwrap_or(0)
    }

    fn place(&self, phase: &mut Vec<Pass>, at: usize) -> Taken<()> {
        let segment = self.segment;
        let inst = &segment.insts[at];
        if inst.op.is_search() {
            phase.push(Pass::Search(at));
            return Ok(());
        }
        let taken = if inst.op == InstOp::AsRow { inst.args[0] } else { sink_value(segment, at) };
        if let Shape::Group { lanes, size } = &segment.ty(taken).shape {
            self.grouped(phase, lanes, size, at).elements.push(at);
            return Ok(());
        }
        let lanes = segment.ty(taken).shape.elements();
        let whole = Walk::of(segment, self.found, at, None, self.forms);
        let pieces = match whole.cuts.is_empty() {
            true => Some(vec![(Dim::constant(0), lanes.clone())]),
            false => pieces(&whole.cuts, &lanes),
        };
        let Some(pieces) = pieces else {
            // Borders in no known order: lanes one by one find their operand.
            let job = Job { inst: at, offset: Dim::constant(0) };
            phase.push(Pass::Flat { lanes, vector: false, jobs: vec![job] });
            return Ok(());
        };
        let count = pieces.len();
        let reduction = matches!(inst.op, InstOp::Reduce { .. });
        let pieces = if reduction { pieces.into_iter().flat_map(from_first_accumulator).collect() } else { pieces };
        for (start, end) in pieces {
            let facts = if count == 1 {
                whole.clone()
            } else {
                Walk::of(segment, self.found, at, Some((&start, &end)), self.forms)
            };
            let job = Job { inst: at, offset: start.clone() };
            if count == 1
                && let Some(group) = single_group(&facts.groups, &lanes)
            {
                self.grouped_job(phase, &group, facts.vector && facts.cuts.is_empty(), job);
                continue;
            }
            // A part of a reduction in chunks starts with the first accumulator.
            let aligned = !reduction || start.as_const().is_some_and(|s| s % CHUNK == 0);
            let vector = aligned && facts.vector && facts.cuts.is_empty() && facts.groups.is_empty();
            self.flat(phase, &(&end - &start), vector, job);
        }
        Ok(())
    }

    fn flat(&self, phase: &mut Vec<Pass>, length: &Dim, vector: bool, job: Job) {
        let reduction = |j: &Job| matches!(self.segment.insts[j.inst].op, InstOp::Reduce { .. });
        // The parts of a reduction run one after the other.
        let after = if reduction(&job) && job.offset.as_const() != Some(0) {
            let same = |pass: &Pass| matches!(pass, Pass::Flat { jobs, .. } if jobs.iter().any(|j| j.inst == job.inst));
            phase.iter().rposition(same).map_or(0, |i| i + 1)
        } else {
            0
        };
        for pass in &mut phase[after..] {
            if let Pass::Flat { lanes, vector: v, jobs } = pass
                && (&*lanes, *v) == (length, vector)
                && (jobs.len() < MOST_PIECES || length.as_const() == Some(ROWS))
            {
                return jobs.push(job);
            }
        }
        phase.push(Pass::Flat { lanes: length.clone(), vector, jobs: vec![job] });
    }

    fn grouped<'p>(&self, phase: &'p mut Vec<Pass>, lanes: &Dim, size: &Dim, at: usize) -> &'p mut Grouped {
        let found = phase.iter().position(|pass| match pass {
            Pass::Grouped(g) => (&g.lanes, &g.size) == (lanes, size),
            _ => false,
        });
        let index = found.unwrap_or(phase.len());
        if found.is_none() {
            let (lanes, size) = (lanes.clone(), size.clone());
            phase.push(Pass::Grouped(Grouped {
                lanes,
                size,
                reduces: Vec::new(),
                kept: Vec::new(),
                elements: Vec::new(),
                jobs: Vec::new(),
            }));
        }
        let Pass::Grouped(grouped) = &mut phase[index] else { unreachable!("the pass was found or made above") };
        self.add_reduces(grouped, at);
        grouped
    }

    fn grouped_job(&self, phase: &mut Vec<Pass>, group: &GroupUse, vector: bool, job: Job) {
        // A reduction over a row takes its accumulators along from group to group, lane by lane.
        let reduction = matches!(self.segment.insts[job.inst].op, InstOp::Reduce { .. });
        let vector = vector && !reduction;
        let grouped = self.grouped(phase, &group.lanes, &group.size, job.inst);
        match grouped.jobs.iter_mut().find(|(rate, v, _)| (*rate, *v) == (group.scale, vector)) {
            Some((_, _, jobs)) => jobs.push(job),
            None => grouped.jobs.push((group.scale, vector, vec![job])),
        }
    }

    /// Adds the reductions over these groups that a sink needs.
    fn add_reduces(&self, grouped: &mut Grouped, at: usize) {
        for (depth, reduce) in self.reduces_below(at, &grouped.lanes, &grouped.size) {
            if !grouped.reduces.iter().flatten().any(|&r| r == reduce) {
                grouped.reduces.resize_with(grouped.reduces.len().max(depth + 1), Vec::new);
                grouped.reduces[depth].push(reduce);
            }
        }
    }

    /// Reductions over groups of that kind below a sink, with the longest chain of such reductions below each.
    fn reduces_below(&self, at: usize, lanes: &Dim, size: &Dim) -> Vec<(usize, usize)> {
        let segment = self.segment;
        let mut needed = vec![false; segment.insts.len()];
        needed[at] = true;
        let defined = segment.definitions();
        for i in (0..=at).rev().filter(|&i| i <= at) {
            if needed[i] && (i == at || !self.found.stashed[i]) {
                operands(segment, i).for_each(|v| needed[defined[v.0 as usize]] = true);
            }
        }
        let mut depths = vec![0usize; segment.insts.len()];
        let mut found = Vec::new();
        for i in 0..at {
            let below = operands(segment, i).map(|v| depths[defined[v.0 as usize]]).max().unwrap_or(0);
            depths[i] = below;
            let inst = &segment.insts[i];
            let is_group = matches!(&inst.op, InstOp::Reduce { over: Over::Group(_), .. });
            let wanted = Shape::Group { lanes: lanes.clone(), size: size.clone() };
            if needed[i] && is_group && segment.ty(inst.results[0]).shape == wanted {
                found.push((below, i));
                depths[i] = below + 1;
            }
        }
        found
    }
}

/// The one kind of group that a sink of so many lanes uses, if its lanes go through all of the groups in order: a part of
/// them would end within a group, and the loop over groups would go on behind it.
pub(super) fn single_group(groups: &[GroupUse], lanes: &Dim) -> Option<GroupUse> {
    let first = groups.first()?;
    if lanes * &Dim::constant(first.scale) != first.lanes {
        return None;
    }
    let regular = |g: &GroupUse| {
        let inside = g.offset.as_const().is_some_and(|o| (0..g.scale).contains(&o));
        (&g.lanes, &g.size, g.scale) == (&first.lanes, &first.size, first.scale) && inside
    };
    let fits = first.scale == 1 || first.size.exact_div(&Dim::constant(first.scale)).is_some();
    (groups.iter().all(regular) && fits).then(|| first.clone())
}

/// A piece of a reduction, in two where it begins between accumulators: the second takes chunks from the first one on. Where
/// the piece may be shorter than that, the second has no lanes, and its end is ahead of its start.
fn from_first_accumulator((start, end): (Dim, Dim)) -> Vec<(Dim, Dim)> {
    let Some(before) = start.as_const().map(|s| s % CHUNK).filter(|before| *before > 0) else {
        return vec![(start, end)];
    };
    let border = &start + &Dim::constant(CHUNK - before);
    if at_least(&border, &end) {
        return vec![(start, end)];
    }
    let first = if at_least(&end, &border) { border.clone() } else { Dim::function(DimFn::Min, &border, &end) };
    vec![(start, first), (border, end)]
}

/// The parts of a row between borders, or `None` if their order is not known.
pub(super) fn pieces(cuts: &[Dim], lanes: &Dim) -> Option<Vec<(Dim, Dim)>> {
    let mut sorted: Vec<Dim> = Vec::new();
    for cut in cuts.iter().filter(|c| !at_least(&Dim::constant(0), c) && !at_least(c, lanes)) {
        let at = sorted.iter().position(|s| at_least(s, cut)).unwrap_or(sorted.len());
        if sorted.get(at) == Some(cut) {
            continue;
        }
        if at > 0 && !at_least(cut, &sorted[at - 1]) {
            return None;
        }
        sorted.insert(at, cut.clone());
    }
    if !sorted.iter().all(|cut| at_least(cut, &Dim::constant(0)) && at_least(lanes, cut)) {
        return None;
    }
    sorted.insert(0, Dim::constant(0));
    sorted.push(lanes.clone());
    Some(sorted.windows(2).map(|w| (w[0].clone(), w[1].clone())).collect())
}

/// Operands and gathered index values of an instruction.
pub(in crate::backend) fn operands(segment: &Segment, at: usize) -> impl Iterator<Item = Val> {
    let inst = &segment.insts[at];
    let mut names = std::collections::BTreeSet::new();
    if let Some(index) = inst.op.index() {
        index.collect_symbols(&mut names);
    }
    let gathered: Vec<Val> = names.iter().filter_map(|name| Val::from_symbol(name)).collect();
    inst.args.clone().into_iter().chain(gathered)
}

/// Instructions that a store depends on, stores included.
fn live(segment: &Segment) -> Vec<bool> {
    let defined = segment.definitions();
    let mut live: Vec<bool> = segment.insts.iter().map(|i| matches!(i.op, InstOp::Store { .. })).collect();
    for at in (0..segment.insts.len()).rev() {
        if live[at] {
            operands(segment, at).for_each(|v| live[defined[v.0 as usize]] = true);
        }
    }
    live
}

/// By value, the phase at whose start it can be computed.
pub(super) fn stages(segment: &Segment, stashed: &[bool]) -> Vec<usize> {
    let mut stages = vec![0; segment.types.len()];
    for (at, inst) in segment.insts.iter().enumerate() {
        let below = operands(segment, at).map(|v| stages[v.0 as usize]).max().unwrap_or(0);
        let ends_phase =
            matches!(inst.op, InstOp::Reduce { over: Over::Row, .. }) || inst.op.is_search() || stashed[at];
        for result in &inst.results {
            stages[result.0 as usize] = below + usize::from(ends_phase);
        }
    }
    stages
}
