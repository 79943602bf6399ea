//! How a kernel is spread over blocks and threads.

use std::collections::BTreeSet;

use fusewright_graph::dim::DimFn;
use fusewright_graph::{Dim, ReduceOp};

use super::code::WIDEST;
use super::hazard;
use super::joined::Joined;
use super::rows::stated_bytes;
use crate::backend::Grid;
use crate::kernel::{INNER, InstOp, Kernel, Order, Over, Segment, Shape, Tree, Val};

/// Neighbouring lanes of a thread.
pub(super) const VECTOR: u32 = 8;
/// Most vectors of a thread; more do not fit its registers.
const MOST_VECTORS: u32 = 8;
/// Threads that exchange values in registers.
pub(super) const WARP: u32 = 32;

/// Threads of a block for rows without reductions, the best first; the first that deals all lanes evenly is taken. Of
/// small blocks so many wait for the kernel before them that it has no room.
const FLAT: [u32; 12] = [320, 256, 384, 512, 448, 192, 224, 160, 128, 96, 64, 32];
/// Threads of a block whose rows are those of teams that add up or rearrange their lanes.
const TEAMS: u32 = 128;
/// Bytes that keep a device busy for no longer than it takes to begin the next launch.
const FEW_BYTES: i64 = 1 << 20;
/// Bytes that fill a device.
const MANY_BYTES: i64 = 5 << 20;
/// Inner rows that a team has one after the other where rows fill a device.
const PASSES: u32 = 2;
/// Bytes of the largest element.
const ELEMENT: u32 = 8;
/// Threads of a block whose reductions have no number of their own.
const THREADS: u32 = 256;

/// The threads of a block, and which segments have their rows in registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// Threads of a block.
    pub threads: u32,
    /// Threads of a unit: neighbours that run one segment for inner rows of one outer row. A block, unless all rows are
    /// those of teams; then at most a warp, and units of several outer rows share a block.
    pub unit: u32,
    /// By segment.
    pub held: Vec<Option<Held>>,
}

impl Plan {
    /// Rows in registers where all segments can have them with one number of threads, else nowhere.
    pub fn of(kernel: &Kernel) -> Plan {
        let trees = || {
            kernel.segments.iter().flat_map(|s| &s.insts).filter_map(|i| match &i.op {
                InstOp::Reduce { order: Order::Tree(tree), .. } => Some(tree.threads),
                InstOp::Reduce { .. } | InstOp::ArgReduce(_) | InstOp::TopK(_) => Some(THREADS),
                _ => None,
            })
        };
        let wide = kernel.segments.iter().any(|s| s.types.iter().any(|ty| matches!(ty.shape, Shape::Row(_))));
        let all = |unit: u32| -> Option<Vec<Option<Held>>> {
            kernel.segments.iter().map(|segment| held(kernel, segment, unit).map(Some)).collect()
        };
        if wide && let Some((threads, unit, held)) = teams(kernel).and_then(|[t, unit]| Some((t, unit, all(unit)?))) {
            return Plan { threads, unit, held };
        }
        let block = kernel.segments.iter().find_map(whole_block);
        let candidates = block.map_or_else(|| FLAT.to_vec(), |threads| vec![threads]);
        if wide && let Some((threads, held)) = candidates.into_iter().find_map(|t| Some((t, all(t)?))) {
            return Plan { threads, unit: threads, held };
        }
        let threads = trees().max().unwrap_or(THREADS).next_multiple_of(32).clamp(128, 1024);
        Plan { threads, unit: threads, held: vec![None; kernel.segments.len()] }
    }

    /// Up to how many rows of a launch the kernel behind it may begin at once: so few that they do not fill a device, and
    /// more where threads do not wait for each other, or the time is that of loads whose places are loaded, which the
    /// other can begin meanwhile.
    pub fn few_rows(&self, kernel: &Kernel) -> Option<i64> {
        let chained = kernel.segments.iter().flat_map(|segment| &segment.insts).any(|inst| match &inst.op {
            InstOp::Load { param, index, .. } => kernel.param(*param).early && values_of(index).next().is_some(),
            _ => false,
        });
        let waits = kernel.segments.iter().any(|segment| whole_block(segment).is_some());
        let bytes = match (chained, waits) {
            (true, _) => MANY_BYTES,
            (_, true) => FEW_BYTES,
            _ => 2 * FEW_BYTES,
        };
        let held = self.held.iter().all(Option::is_some);
        Some(bytes / bytes_per_row(kernel)?).filter(|_| held)
    }

    /// From how many rows of a launch on another plan is better, and that plan: teams have several inner rows, for which
    /// they read what all of those share once.
    pub fn many_rows(&self, kernel: &Kernel) -> Option<(usize, Plan)> {
        let mut found = false;
        let held = kernel.segments.iter().zip(&self.held).map(|(segment, held)| {
            let held = (*held)?;
            let rows = segment.inner.as_const().unwrap_or(0);
            let even = rows > 0 && rows % (i64::from(held.teams) * i64::from(PASSES)) == 0;
            let more = held.is_team && even;
            found |= more
                && segment.insts.iter().any(|inst| match &inst.op {
                    InstOp::Load { index, shape: Shape::Row(_), .. } => !index.mentions(INNER),
                    _ => false,
                });
            Some(Held { passes: if more { PASSES } else { 1 }, ..held })
        });
        let plan = Plan { held: held.collect(), ..self.clone() };
        let from = usize::try_from(MANY_BYTES / bytes_per_row(kernel)? + 1).ok()?;
        found.then_some((from, plan))
    }

    /// How the kernel is launched.
    pub fn launch(&self, kernel: &Kernel) -> Grid {
        let blocks_per_row = self.units_per_row(kernel);
        let many = self.many_rows(kernel).map(|(from, plan)| (from, plan.units_per_row(kernel)));
        let moves_vectors = self.held.iter().any(Option::is_some);
        let alignment = if moves_vectors { WIDEST } else { ELEMENT };
        let looped = kernel.segments.iter().zip(&self.held).filter(|(_, held)| held.is_none());
        let shared = looped.map(|(segment, _)| stated_bytes(kernel, segment));
        let shared = shared.fold(Dim::constant(0), |most, bytes| Dim::function(DimFn::Max, &most, &bytes));
        let shares = self.threads / self.unit;
        Grid { threads: self.threads, blocks_per_row, shares, many, dependent: false, shared, alignment }
    }

    /// Units of an outer row.
    pub fn units_per_row(&self, kernel: &Kernel) -> Dim {
        let units = kernel.segments.iter().zip(&self.held).map(|(segment, &held)| blocks(segment, held));
        units.fold(Dim::constant(0), |sum, units| &sum + &units)
    }
}

/// How the rows of a segment lie in the registers of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
}

impl Held {
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

/// Bytes that a row moves, without those that all rows share.
fn bytes_per_row(kernel: &Kernel) -> Option<i64> {
    let moved = |segment: &Segment| -> Option<i64> {
        let accesses = segment.insts.iter().filter_map(|inst| match &inst.op {
            InstOp::Load { param, shape, .. } => Some((*param, shape.elements())),
            InstOp::Store { param, .. } => Some((*param, segment.ty(inst.args[0]).shape.elements())),
            _ => None,
        });
        let bits = accesses
            .filter(|(param, _)| !kernel.param(*param).early)
            .map(|(param, elements)| elements.as_const()?.checked_mul(i64::from(kernel.param(param).dtype.bits())));
        bits.sum::<Option<i64>>()?.checked_mul(segment.inner.as_const()?)
    };
    Some((kernel.segments.iter().map(moved).sum::<Option<i64>>()? / 8).max(1))
}

/// Threads of a block that reductions of a segment over whole rows ask for, unless a row is that of a team.
fn whole_block(segment: &Segment) -> Option<u32> {
    let team = Extents::of(segment).and_then(|extents| extents.team());
    segment.insts.iter().find_map(|inst| match &inst.op {
        InstOp::Reduce { op, over: Over::Row, order: Order::Tree(tree), .. } => {
            let fits = team.is_some_and(|team| is_free(*op) || team == tree.threads);
            (!fits).then_some(tree.threads)
        }
        _ => None,
    })
}

/// Threads of a block and of a unit if each row of a kernel is that of a team, and teams fill units evenly.
fn teams(kernel: &Kernel) -> Option<[u32; 2]> {
    let mut threads = FLAT[0];
    let units = kernel.segments.iter().map(|segment| {
        let extents = Extents::of(segment)?;
        let team = extents.team().filter(|_| whole_block(segment).is_none())?;
        if extents.summed.is_some() || extents.unit != extents.lanes {
            threads = TEAMS;
        }
        let inner = segment.inner.as_const().unwrap_or(1);
        let mut teams = WARP / team;
        while inner % i64::from(teams) != 0 {
            teams /= 2;
        }
        Some(team * teams)
    });
    let units = units.collect::<Option<Vec<u32>>>()?;
    // Which segment a unit runs is decided for whole warps.
    let unit = *units.first()?;
    let together = units.len() == 1 || units.iter().all(|unit| *unit == WARP);
    together.then_some([threads, unit])
}

/// How a segment is computed by units of so many threads with its rows in registers, if it can be.
fn held(kernel: &Kernel, segment: &Segment, threads: u32) -> Option<Held> {
    let extents = Extents::of(segment)?;
    let row_team = extents.team().filter(|&team| whole_block(segment).is_none() && team <= threads);
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
    let count = u32::try_from(extents.lanes / unit).ok().filter(|_| extents.lanes % unit == 0)?;
    if row_team.is_some() {
        let (teams, known) = (threads / row_threads, segment.inner.as_const().is_some());
        let fits = threads.is_multiple_of(row_threads) && count <= MOST_VECTORS && (known || teams == 1);
        return fits.then_some(Held { vectors: count, parts: 1, teams, is_team: true, passes: 1 });
    }
    match whole_row {
        true => {
            (count <= MOST_VECTORS).then_some(Held { vectors: count, parts: 1, teams: 1, is_team: false, passes: 1 })
        }
        false => Some(Held { vectors: 1, parts: count, teams: 1, is_team: false, passes: 1 }),
    }
}

/// Whether a reduction combines lanes as so many threads have them: of extremes every order gives the same.
fn is_dealt(op: ReduceOp, order: Order, threads: u32) -> bool {
    let dealt = Tree { vec: VECTOR, threads, ways: 2 };
    is_free(op) || tree(order, threads) == dealt
}

/// Whether every order of a reduction gives the same.
fn is_free(op: ReduceOp) -> bool {
    matches!(op, ReduceOp::Max | ReduceOp::Min)
}

/// The lengths of the rows of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Extents {
    /// Lanes of the longest.
    lanes: i64,
    /// What all lengths are multiples of, and all lanes where parts begin.
    unit: i64,
    /// Threads of the tree of a sum of whole rows.
    summed: Option<u32>,
}

impl Extents {
    /// Of a segment whose rows are whole or parts of such, cut at known lanes, or codes of some lanes each.
    fn of(segment: &Segment) -> Option<Extents> {
        let packed: Vec<Val> = segment
            .insts
            .iter()
            .filter(|inst| matches!(inst.op, InstOp::Pack { .. }))
            .flat_map(|inst| inst.results.iter().copied())
            .collect();
        let (mut found, mut grouped): (Option<Extents>, _) = (None, None);
        let mut meet = |lanes: i64, at: i64| {
            let Extents { lanes: most, unit, .. } = found.unwrap_or(Extents { lanes, unit: lanes, summed: None });
            found = Some(Extents { lanes: most.max(lanes), unit: gcd(gcd(unit, lanes), at), summed: None });
        };
        let joined = Joined::of(segment);
        for (i, ty) in segment.types.iter().enumerate() {
            match &ty.shape {
                Shape::Row(_) if joined.is_piece(Val(i as u32)) => {}
                Shape::Row(lanes) if !packed.contains(&Val(i as u32)) => meet(lanes.as_const()?, 0),
                Shape::Group { lanes, size } => {
                    team(size)?;
                    let lanes = lanes.as_const()?;
                    meet(lanes, 0);
                    grouped = Some(lanes);
                }
                _ => {}
            }
        }
        for inst in &segment.insts {
            match &inst.op {
                InstOp::Slice { start, step: 1, .. } => meet(0, start.as_const()?),
                InstOp::Slice { .. } => return None,
                _ => {}
            }
        }
        let summed = segment.insts.iter().find_map(|inst| match &inst.op {
            InstOp::Reduce { op, over: Over::Row, order: Order::Tree(tree), .. } if !is_free(*op) => Some(tree.threads),
            _ => None,
        });
        let found = Extents { summed, ..found? };
        (found.lanes > 0 && grouped.is_none_or(|lanes| lanes == found.lanes)).then_some(found)
    }

    /// Threads that share a row and exchange values in registers: as many as a sum asks for or as there are vectors,
    /// fewer where parts are short; none where rows are too long for that.
    fn team(&self) -> Option<u32> {
        let vectors = u32::try_from(self.lanes).ok()? / VECTOR;
        let whole = self.lanes % i64::from(VECTOR) == 0 && vectors.is_power_of_two() && vectors <= WARP;
        let cut = u32::try_from(self.unit).ok()? / VECTOR;
        whole.then_some(self.summed.unwrap_or(vectors).min(cut.max(1)))
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
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

/// Units of a segment per outer row.
pub(super) fn blocks(segment: &Segment, held: Option<Held>) -> Dim {
    held.map_or_else(|| segment.inner.clone(), |held| held.units(&segment.inner))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plan of a kernel that squares rows and, where `sum` says so, divides them by their sum.
    fn plan(inner: &str, lanes: &str, sum: Option<u32>) -> Plan {
        let reduced = sum.map_or_else(
            || "%4 = neg %2".to_owned(),
            |threads| format!("%3 = reduce add %2 over row nan propagate order tree(8, {threads}, 2)\n%4 = div %2, %3"),
        );
        let text = format!(
            "kernel @k(s = extent(x, 0), n = extent(x, 2)) rows s {{
               param %x: bf16[s, {inner}, {lanes}] in
               param %y: bf16[s, {inner}, {lanes}] out
               segment @rows inner {inner} {{
                 %0 = load x[inner*{lanes} + lane + row*{inner}*{lanes}] : row<bf16, {lanes}>
                 %1 = cast %0 to f32 rne
                 %2 = mul %1, %1
                 {reduced}
                 %5 = cast %4 to bf16 rne
                 store y[inner*{lanes} + lane + row*{inner}*{lanes}], %5
               }}
             }}"
        );
        let text = if sum.is_none() { text.replace("%4", "%3").replace("%5", "%4") } else { text };
        Plan::of(&text.parse::<Kernel>().unwrap_or_else(|e| panic!("{e}\\n{text}")))
    }

    /// A plan of blocks and units of so many threads.
    fn dealt([threads, unit]: [u32; 2], held: Held) -> Plan {
        Plan { threads, unit, held: vec![Some(held)] }
    }

    #[test]
    fn rows_lie_in_registers_where_threads_deal_them_evenly() {
        let block = |vectors, parts| Held { vectors, parts, teams: 1, is_team: false, passes: 1 };
        let team = |vectors, teams| Held { vectors, parts: 1, teams, is_team: true, passes: 1 };
        assert_eq!(plan("1", "5120", Some(320)), dealt([320, 320], block(2, 1)));
        assert_eq!(plan("1", "12288", None), dealt([256, 256], block(1, 6)));
        // Rows of 8 threads, four of them in a warp; without sums, of 16.
        assert_eq!(plan("200", "128", Some(8)), dealt([128, 32], team(2, 4)));
        assert_eq!(plan("200", "128", None), dealt([320, 32], team(1, 2)));
        // One row alone: half of a warp, and others share the block.
        assert_eq!(plan("1", "256", Some(16)), dealt([128, 16], team(2, 1)));
    }

    #[test]
    fn other_rows_are_looped_over() {
        for (inner, lanes, sum) in [
            ("1", "4097", Some(256)),
            ("1", "n", Some(512)),
            ("1", "5120", Some(256)),
            ("1", "65536", Some(512)),
            ("1", "100", None),
        ] {
            assert_eq!(plan(inner, lanes, sum).held, [None], "{inner} × {lanes}");
        }
    }
}
