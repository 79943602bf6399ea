//! How a kernel is spread over blocks and threads, as a schedule says. Reductions keep the trees that Kernel IR states; a
//! schedule that cannot is refused.

use std::collections::BTreeSet;

use fusewright_graph::dim::DimFn;
use fusewright_graph::{Dim, ReduceOp};

use super::budget;
use super::code::WIDEST;
use super::extents::{Extents, exchanges, is_free};
use super::hazard;
use super::held::stated_bytes;
use crate::backend::{Blocks, Grid};
use crate::kernel::{InstOp, Kernel, Order, Over, Segment, Shape, Tree, Val};
use crate::schedule::{KernelSchedule, Place, Spread};

/// Neighbouring lanes of a thread.
pub(super) const VECTOR: u32 = 8;
/// Most vectors of a thread; more do not fit its registers.
const MOST_VECTORS: u32 = 8;
/// Most of a thread of a team, whose blocks need no more than few threads.
const MOST_TEAM_VECTORS: u32 = 12;
/// Threads that exchange values in registers.
pub(super) const WARP: u32 = 32;

/// Bytes of the largest element.
const ELEMENT: u32 = 8;
/// Registers of a thread at most, and of a block.
const REGISTERS: [u32; 2] = [255, 65536];
/// Registers of a thread for what is no lane of its row.
const FEW_REGISTERS: u32 = 32;
/// More of them for each further row that it has at the same time: two addresses.
const OF_A_PASS: u32 = 4;
/// Threads of a block at most.
const MOST_THREADS: u32 = 1024;

/// The threads of a block, and which segments have their rows in registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// Threads of a block.
    pub threads: u32,
    /// Threads of a unit: neighbours that run one segment for inner rows of one outer row. A block, unless units of several
    /// outer rows share a block: where threads exchange values, all rows are those of teams and a unit is at most a warp.
    pub unit: u32,
    /// Up to how many rows of a launch the kernel behind it may begin at once.
    pub release: u64,
    /// Most registers of a thread; the assembler decides where it is 0.
    pub bound: u32,
    /// Lanes that a thread has at once of rows that are looped over and whose lanes have nothing to do with each other: units
    /// share the lanes of a row. Of other rows that are looped over a unit has all lanes.
    pub at_once: Option<u32>,
    /// By segment.
    pub held: Vec<Option<Held>>,
}

impl Plan {
    /// The plan of a spread.
    ///
    /// # Errors
    /// In words, why the rows of the kernel cannot be spread like this.
    pub fn of(kernel: &Kernel, spread: &Spread) -> Result<Plan, String> {
        let &Spread { place, threads, unit, vectors, passes, release, bound } = spread;
        if threads == 0 || !threads.is_multiple_of(WARP) || threads > MOST_THREADS {
            return Err(format!("{threads} threads: a block has a multiple of {WARP}, at most {MOST_THREADS}"));
        }
        if threads * bound > budget::ALL {
            return Err(format!("{threads} threads of {bound} registers: a processor has {}", budget::ALL));
        }
        let (shared, exchanges) = (unit < threads, kernel.segments.iter().any(exchanges));
        let apart = lanes_are_apart(kernel);
        let fits = |unit: u32| match place {
            Place::Registers => !exchanges || (unit.is_power_of_two() && unit <= WARP),
            Place::Loops => apart,
        };
        let shares = |unit: u32| threads.is_multiple_of(unit) && fits(unit);
        if unit == 0 || unit > threads || (shared && !shares(unit)) {
            return Err(format!(
                "unit {unit}: it is the block or a part of it; where threads exchange values, in registers alone, and a power \
                 of two of at most {WARP}"
            ));
        }
        let held = vec![None; kernel.segments.len()];
        if place == Place::Loops {
            let few = trees(kernel).max().unwrap_or(0).min(MOST_THREADS) > threads;
            let at_once = apart.then_some(vectors);
            return match (few, at_once.unwrap_or(1) == vectors && vectors > 0 && passes == 1 && release == 0) {
                (true, _) => Err(format!("{threads} threads are fewer than a reduction tree has")),
                (_, false) => {
                    Err("rows that are looped over have 1 pass and release 0, and 1 vector if their lanes depend on \
                                   each other"
                        .to_owned())
                }
                _ => Ok(Plan { threads, unit, release, bound, at_once, held }),
            };
        }
        if !kernel.segments.iter().any(has_rows) {
            return Err("nothing has lanes that registers could hold".to_owned());
        }
        let mut plan = Plan { threads, unit, release, bound, at_once: None, held };
        let mut has_passes = passes == 1;
        for (segment, own) in kernel.segments.iter().zip(&mut plan.held) {
            let place = || format!("segment `{}`", segment.name);
            let held = held_by(kernel, segment, unit, vectors);
            let mut held = held.ok_or_else(|| format!("{}: {unit} threads do not deal its lanes", place()))?;
            let inner = segment.inner.as_const().unwrap_or(1);
            // A warp of one of several segments may have teams without rows.
            let (alone, fills) = (kernel.segments.len() == 1, inner % i64::from(held.teams) == 0);
            let whole = match exchanges {
                true => held.is_team && if alone { fills } else { unit == WARP },
                false => held.uneven.is_none() && fills,
            };
            if shared && !whole {
                return Err(format!("{}: its rows do not fill units of {unit} threads evenly", place()));
            }
            let rows = i64::from(held.teams) * i64::from(passes);
            if held.is_team && segment.inner.as_const().is_some_and(|inner| inner % rows == 0) {
                held.passes = passes;
                has_passes = true;
            }
            // Of each lane a thread has one value at a time, of 32 bits.
            let beside = FEW_REGISTERS.saturating_add((held.passes - 1).saturating_mul(OF_A_PASS));
            let lanes = held.vectors.saturating_mul(held.passes).saturating_mul(VECTOR);
            let registers = lanes.saturating_add(beside);
            if registers > REGISTERS[0].min(REGISTERS[1] / threads) {
                return Err(format!("{}: more than {registers} registers of {threads} threads", place()));
            }
            *own = Some(held);
        }
        if !has_passes {
            return Err(format!("{passes} passes: no segment has inner rows for them"));
        }
        Ok(plan)
    }

    /// Units of an outer row.
    pub fn units_per_row(&self, kernel: &Kernel) -> Dim {
        let units = kernel.segments.iter().zip(&self.held).map(|(segment, &held)| self.units(segment, held));
        units.fold(Dim::constant(0), |sum, units| &sum + &units)
    }

    /// Units of a segment per outer row.
    pub fn units(&self, segment: &Segment, held: Option<Held>) -> Dim {
        held.map_or_else(|| &segment.inner * &self.parts(segment, held), |held| held.units(&segment.inner))
    }

    /// Units that share an inner row of a segment.
    pub fn parts(&self, segment: &Segment, held: Option<Held>) -> Dim {
        match (held, self.at_once) {
            (Some(held), _) => Dim::constant(i64::from(held.parts)),
            (None, Some(at_once)) => {
                stored_lanes(segment).ceil_div(&Dim::constant(i64::from(at_once) * i64::from(self.unit)))
            }
            (None, None) => Dim::constant(1),
        }
    }

    /// Units that share a block.
    pub fn shares(&self) -> u32 {
        self.threads / self.unit
    }

    /// Bytes of shared memory that launches state.
    fn stated(&self, kernel: &Kernel) -> Dim {
        let looped = kernel.segments.iter().zip(&self.held).filter(|(_, held)| held.is_none());
        let shared = looped.map(|(segment, _)| stated_bytes(kernel, segment));
        shared.fold(Dim::constant(0), |most, bytes| most_of(&most, &bytes))
    }
}

/// The plans of a kernel by the rows of launches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plans {
    /// Of all launches, or of those with fewer rows than `many`.
    pub first: Plan,
    /// From how many rows of a launch on another one is better.
    pub many: Option<(usize, Plan)>,
}

impl Plans {
    /// The plans of a schedule.
    ///
    /// # Errors
    /// As [`Plan::of`].
    pub fn of(kernel: &Kernel, schedule: &KernelSchedule) -> Result<Plans, String> {
        let many = schedule.many.as_ref().map(|(from, spread)| Ok::<_, String>((*from, Plan::of(kernel, spread)?)));
        Ok(Plans { first: Plan::of(kernel, &schedule.first)?, many: many.transpose()? })
    }

    /// How the kernel is launched.
    pub fn launch(&self, kernel: &Kernel) -> Grid {
        let plans = || [Some(&self.first), self.many.as_ref().map(|(_, plan)| plan)].into_iter().flatten();
        let moves_vectors = plans().flat_map(|plan| &plan.held).any(Option::is_some);
        let alignment = if moves_vectors { WIDEST } else { ELEMENT };
        let shared = plans().map(|plan| plan.stated(kernel)).fold(Dim::constant(0), |most, own| most_of(&most, &own));
        let blocks =
            |plan: &Plan| Blocks { threads: plan.threads, per_row: plan.units_per_row(kernel), shares: plan.shares() };
        let many = self.many.as_ref().map(|(from, plan)| (*from, blocks(plan)));
        Grid { blocks: blocks(&self.first), many, dependent: false, shared, alignment, tables: 0 }
    }
}

fn most_of(a: &Dim, b: &Dim) -> Dim {
    Dim::function(DimFn::Max, a, b)
}

/// Threads of the reductions of a kernel, where they have a number of their own.
pub(super) fn trees(kernel: &Kernel) -> impl Iterator<Item = u32> {
    kernel.segments.iter().flat_map(|s| &s.insts).filter_map(|inst| match &inst.op {
        InstOp::Reduce { order: Order::Tree(tree), .. } => Some(tree.threads),
        _ => None,
    })
}

/// Lanes of the longest row that a segment stores, at least one.
pub(super) fn stored_lanes(segment: &Segment) -> Dim {
    let stored = segment.insts.iter().filter(|inst| matches!(inst.op, InstOp::Store { .. }));
    let lanes = stored.map(|store| segment.ty(store.args[0]).shape.elements());
    lanes.fold(Dim::constant(1), |most, lanes| most_of(&most, &lanes))
}

/// Whether every thread can compute lanes of rows for itself: none gives values to others, or writes what others read.
pub(super) fn lanes_are_apart(kernel: &Kernel) -> bool {
    let apart = |segment: &Segment| {
        let hazards = hazard::find(kernel, segment);
        !exchanges(segment) && hazards.staged.is_empty() && !hazards.scalars
    };
    kernel.segments.iter().all(apart)
}

/// Whether a segment has rows of lanes.
pub(super) fn has_rows(segment: &Segment) -> bool {
    segment.types.iter().any(|ty| matches!(ty.shape, Shape::Row(_)))
}

/// How the rows of a segment lie in the registers of blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Held {
    /// Vectors of each thread.
    pub vectors: u32,
    /// Blocks that share an inner row.
    pub parts: u32,
    /// Inner rows of a unit at once.
    pub teams: u32,
    /// Whether a row is that of a team of neighbouring threads of a warp, which exchange values in registers.
    pub is_team: bool,
    /// Inner rows that a team has one after the other.
    pub passes: u32,
    /// Vectors of a row, where they are not dealt evenly: some threads have fewer than others.
    pub uneven: Option<u32>,
}

impl Held {
    /// Vectors that threads lack, of all of a row.
    pub fn lacking(&self, unit: u32) -> f64 {
        let dealt = self.vectors * self.parts * self.row_threads(unit);
        self.uneven.map_or(0.0, |all| f64::from(dealt - all) / f64::from(all))
    }

    /// Whether all threads have a vector of a number, of rows that no other block shares.
    pub fn has_all(&self, vector: u32, unit: u32) -> bool {
        let whole = self.parts == 1;
        self.uneven.is_none_or(|all| whole && (vector + 1) * self.row_threads(unit) <= all)
    }

    /// Threads of a unit that share a row.
    pub fn row_threads(&self, unit: u32) -> u32 {
        unit / self.teams
    }

    /// Units of so many inner rows; the last may have fewer than the others.
    pub fn units(&self, inner: &Dim) -> Dim {
        let rows = Dim::constant(i64::from(self.teams) * i64::from(self.passes));
        (inner * &Dim::constant(i64::from(self.parts))).ceil_div(&rows)
    }
}

/// Threads of a block that reductions of a segment over whole rows ask for, unless a row is that of a team.
pub(super) fn whole_block(segment: &Segment) -> Option<u32> {
    let team = Extents::of(segment).and_then(|extents| extents.team());
    segment.insts.iter().find_map(|inst| match &inst.op {
        InstOp::Reduce { op, over: Over::Row, order: Order::Tree(tree), .. } => {
            let fits = team.is_some_and(|team| is_free(*op) || team == tree.threads);
            (!fits).then_some(tree.threads)
        }
        _ => None,
    })
}

/// How a segment is computed by units of so many threads with its rows in registers, if it can be; with at most so many
/// vectors of a thread where nothing else decides them.
fn held_by(kernel: &Kernel, segment: &Segment, threads: u32, vectors: u32) -> Option<Held> {
    let extents = Extents::within(kernel, segment)?;
    let row_team = extents.team_of(vectors).filter(|&team| whole_block(segment).is_none() && team <= threads);
    let row_threads = row_team.unwrap_or(threads);
    let unit = i64::from(row_threads.checked_mul(VECTOR)?);
    let mut whole_row = false;
    for inst in &segment.insts {
        match &inst.op {
            InstOp::Literal(_)
            | InstOp::Index(_)
            | InstOp::Iota(_)
            | InstOp::Load { .. }
            | InstOp::Store { .. }
            | InstOp::Map(_)
            | InstOp::Cast { .. }
            | InstOp::Bitcast(_)
            | InstOp::Broadcast(_)
            | InstOp::Slice { .. }
            | InstOp::Cat => {}
            InstOp::Pack { ways, .. } if VECTOR.is_multiple_of(*ways) => {}
            InstOp::Reduce { op, over: Over::Row, order, .. } => {
                whole_row = true;
                let whole = segment.ty(inst.args[0]).shape.elements().as_const() == Some(extents.lanes);
                if !whole || !is_dealt(*op, *order, row_threads) {
                    return None;
                }
            }
            InstOp::Reduce { op, over: Over::Group(size), order, .. } => {
                let team = team(size)?;
                if extents.unit != extents.lanes || !is_dealt(*op, *order, team) || !row_threads.is_multiple_of(team) {
                    return None;
                }
            }
            _ => return None,
        }
    }
    if !hazard::find(kernel, segment).staged.is_empty() {
        return None;
    }
    if extents.unit != extents.lanes {
        // Each thread has the same lanes of all parts of a row.
        whole_row = true;
        if extents.unit % unit != 0 {
            return None;
        }
    }
    if extents.lanes % unit != 0 {
        let grouped = segment.insts.iter().all(|inst| match &inst.op {
            InstOp::Reduce { over: Over::Group(size), .. } => {
                size.as_const().is_some_and(|size| extents.lanes % size == 0)
            }
            _ => true,
        });
        let fits = grouped && row_team.is_none() && extents.unit == extents.lanes;
        return if fits { uneven(&extents, row_threads, whole_row) } else { None };
    }
    let count = u32::try_from(extents.lanes / unit).ok()?;
    if row_team.is_some() {
        let (teams, known) = (threads / row_threads, segment.inner.as_const().is_some());
        let fits = threads.is_multiple_of(row_threads) && count <= MOST_TEAM_VECTORS && (known || teams == 1);
        return fits.then_some(Held { vectors: count, parts: 1, teams, is_team: true, passes: 1, uneven: None });
    }
    match whole_row {
        true => (count <= MOST_VECTORS).then_some(Held {
            vectors: count,
            parts: 1,
            teams: 1,
            is_team: false,
            passes: 1,
            uneven: None,
        }),
        false => {
            let vectors = (1..=vectors.min(MOST_VECTORS).min(count)).rev().find(|each| count.is_multiple_of(*each))?;
            Some(Held { vectors, parts: count / vectors, teams: 1, is_team: false, passes: 1, uneven: None })
        }
    }
}

/// How rows lie in registers of which not all threads have equally many vectors: a whole row, of which each has one, or
/// parts of a row.
fn uneven(extents: &Extents, threads: u32, whole_row: bool) -> Option<Held> {
    let lanes = u32::try_from(extents.lanes).ok()?;
    let all = lanes / VECTOR;
    if !lanes.is_multiple_of(VECTOR) || all < threads {
        return None;
    }
    let count = all.div_ceil(threads);
    let held = Held { vectors: 1, parts: 1, teams: 1, is_team: false, passes: 1, uneven: Some(all) };
    match whole_row {
        true => (count <= MOST_VECTORS).then_some(Held { vectors: count, ..held }),
        false => Some(Held { parts: count, ..held }),
    }
}

/// Whether a reduction combines lanes as so many threads have them: of extremes every order gives the same.
fn is_dealt(op: ReduceOp, order: Order, threads: u32) -> bool {
    let dealt = Tree { vec: VECTOR, threads, ways: 2 };
    is_free(op) || tree(order, threads) == dealt
}

/// The tree of an order, where a free one is the one that registers have.
fn tree(order: Order, threads: u32) -> Tree {
    match order {
        Order::Tree(tree) => tree,
        Order::Relaxed => Tree { vec: VECTOR, threads, ways: 2 },
    }
}

/// The values that an index is made of.
pub(super) fn values_of(index: &Dim) -> impl Iterator<Item = Val> {
    let mut names = BTreeSet::new();
    index.collect_symbols(&mut names);
    names.into_iter().filter_map(|name| Val::from_symbol(&name))
}

/// Threads that have a group of lanes, one vector each.
pub(super) fn team(size: &Dim) -> Option<u32> {
    let vectors = size.exact_div(&Dim::constant(i64::from(VECTOR)))?.as_const()?;
    u32::try_from(vectors).ok().filter(|team| team.is_power_of_two() && *team <= WARP)
}
