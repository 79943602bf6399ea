//! The rule by which kernels are spread over blocks and threads where no table says otherwise, and what else they could be.

use std::collections::BTreeSet;

use super::budget::Budget;
use super::extents::{Extents, exchanges, gcd};
use super::plan::{Held, Plan, VECTOR, WARP, lanes_are_apart, stored_lanes, trees, values_of, whole_block};
use super::search::ranked_by;
use crate::kernel::{INNER, Inst, InstOp, Kernel, Order, ROW, Segment, Shape};
use crate::schedule::{KernelSchedule, Place, Spread};

/// Threads of a block for rows without reductions where launches fill a device, the best first; the first that deals all
/// lanes evenly is taken, if it has no less than [`TEAMS`], else the first by which few threads lack a vector. Of small blocks
/// so many wait for the kernel before them that it has no room. Launches that do not fill a device have blocks of [`TEAMS`]:
/// more processors have one, and the kernel behind them is let in by what they load (5 to 40 % of a kernel's time).
const FLAT: [u32; 12] = [320, 256, 384, 512, 448, 192, 224, 160, 128, 96, 64, 32];
/// Threads of a block whose rows are those of teams that add up or rearrange their lanes, and of few rows without reductions.
const TEAMS: u32 = 128;
/// Vectors of a row that threads of such blocks may lack, of all that it has.
const FEW_LACKING: f64 = 1.0 / 12.0;
/// Threads of a block of which several rows, or parts of rows, have their own, at most: two blocks fill a processor.
const MOST_SHARED: u32 = 512;
/// Bytes that keep a device busy for no longer than it takes to begin the next launch.
const FEW_BYTES: i64 = 7 << 17;
/// The same where threads do not wait for each other.
const UNCHAINED_BYTES: i64 = 2 << 20;
/// The same where the time is that of loads whose places are loaded.
const CHAINED_BYTES: i64 = 6 << 20;
/// Bytes that fill a device.
const MANY_BYTES: i64 = 11 << 19;
/// Inner rows that a team has one after the other where rows fill a device.
const PASSES: u32 = 2;
/// Most vectors of all those; with more there is enough underway without.
const MOST_AT_ONCE: u32 = 8;
/// Threads of a block whose reductions have no number of their own.
const THREADS: u32 = 256;

/// Lanes of a row for each thread of a block that searches it.
const SEARCHED: i64 = 8;

/// Threads, vectors and passes that are worth measuring.
const MEASURED_THREADS: [u32; 10] = [64, 96, 128, 160, 192, 256, 320, 384, 512, 640];
const MEASURED_VECTORS: [u32; 3] = [1, 2, 4];
const MEASURED_PASSES: [u32; 4] = [1, 2, 3, 4];

/// The schedule of a kernel.
pub(super) fn rule(kernel: &Kernel) -> KernelSchedule {
    if let Some(spread) = of_few_loads(kernel) {
        return KernelSchedule::uniform(spread);
    }
    let by = |threads, unit| -> Option<Plan> { Plan::of(kernel, &registers(threads, unit)).ok() };
    let found = teams(kernel).and_then(|[threads, unit]| by(threads, unit));
    let shared = || units(kernel)?.find_map(|unit| by(near(FLAT[0], unit), unit));
    let block = kernel.segments.iter().find_map(whole_block);
    let candidates = block.map_or_else(|| FLAT.to_vec(), |threads| vec![threads]);
    let dealt = |threads: &u32| by(*threads, *threads);
    let lacking = |plan: &Plan| plan.held.iter().flatten().map(|held| held.lacking(plan.unit)).fold(0.0, f64::max);
    let large = |most: f64| {
        candidates.iter().filter(|threads| **threads >= TEAMS).filter_map(dealt).find(|plan| lacking(plan) <= most)
    };
    let any = || candidates.iter().filter_map(dealt).min_by(|a, b| lacking(a).total_cmp(&lacking(b)));
    let found = found.or_else(|| large(0.0)).or_else(|| large(FEW_LACKING)).or_else(shared).or_else(any);
    let Some(plan) = found else {
        let insts = || kernel.segments.iter().flat_map(|segment| &segment.insts);
        let relaxed = insts().any(|inst| matches!(&inst.op, InstOp::Reduce { order: Order::Relaxed, .. }));
        let searched = insts().any(|inst| inst.op.is_search());
        let stated = trees(kernel).chain(relaxed.then_some(THREADS)).max();
        let threads = match searched {
            true => stated.unwrap_or(WARP).max(searching(kernel)),
            false => stated.unwrap_or(THREADS).max(TEAMS),
        };
        let threads = threads.next_multiple_of(WARP).min(1024);
        let spread = if lanes_are_apart(kernel) { of_loops(kernel, threads) } else { registers(threads, threads) };
        return KernelSchedule::uniform(Spread { place: Place::Loops, ..spread });
    };
    let unit = if plan.unit < plan.threads { plan.unit } else { TEAMS };
    let few = || by(near(TEAMS, unit), unit).filter(|few| lacking(few) <= lacking(&plan));
    let flat = block.is_none() && plan.threads > filled(TEAMS, unit);
    if let (true, Some(few), Some(from)) = (flat, few(), filling_rows(kernel)) {
        let [few, many] = [few, plan].map(|plan| registers(plan.threads, plan.unit));
        return KernelSchedule { first: few, many: Some((from, many)) };
    }
    let release = few_rows(kernel).unwrap_or(0);
    let budget = Budget::of(kernel, &plan);
    let bound = budget.filter(|budget| !budget.crowded).map_or(0, |budget| budget.bound);
    let first = Spread { release, bound, ..registers(plan.threads, plan.unit) };
    let crowded = budget.filter(|budget| budget.crowded).map(|budget| Spread { bound: budget.bound, ..first });
    let crowded = || Some((filling_rows(kernel)?, crowded?));
    KernelSchedule { first, many: many_rows(kernel, &plan).or_else(crowded) }
}

/// The spread of rows that are looped over and whose lanes have nothing to do with each other: units as rows are long, and
/// as many lanes of a thread at once as are underway without many registers.
fn of_loops(kernel: &Kernel, threads: u32) -> Spread {
    let lanes = kernel.segments.iter().map(|segment| stored_lanes(segment).as_const());
    let most = lanes.collect::<Option<Vec<i64>>>().and_then(|lanes| lanes.into_iter().max());
    let most = most.and_then(|most| u32::try_from(most).ok()).unwrap_or(u32::MAX);
    let unit = (1..=threads).find(|unit| threads.is_multiple_of(*unit) && *unit >= most).unwrap_or(threads);
    let longest = kernel.segments.iter().map(|segment| segment.insts.len()).max().unwrap_or(0);
    let at_once = match longest {
        0..=32 => 8,
        33..=96 => 4,
        97..=256 => 2,
        _ => 1,
    };
    Spread { vectors: at_once.min(most / unit).max(1), ..registers(threads, unit) }
}

/// Threads of a block that searches rows: one for each lane where their places are counted. Otherwise all wait for each other
/// each time: no more warps than have lanes enough.
fn searching(kernel: &Kernel) -> u32 {
    let counted =
        kernel.segments.iter().flat_map(|segment| segment.insts.iter().filter_map(|inst| ranked_by(segment, inst)));
    if let Some(lanes) = counted.max() {
        return lanes.max(1);
    }
    let shapes = kernel.segments.iter().flat_map(|segment| &segment.types).map(|ty| &ty.shape);
    let lanes = shapes.map(|shape| if let Shape::Row(lanes) = shape { lanes.as_const() } else { Some(1) });
    let most = lanes.collect::<Option<Vec<i64>>>().and_then(|lanes| lanes.into_iter().max());
    most.and_then(|most| u32::try_from(most / SEARCHED).ok()).map_or(THREADS, |threads| threads.clamp(WARP, THREADS))
}

/// All of one schedule for launches of every size that are worth measuring on a device, the rule's first. Each gives the
/// same bits.
pub fn candidates(kernel: &Kernel) -> Vec<Spread> {
    let KernelSchedule { first, many } = rule(kernel);
    let mut all = vec![first];
    all.extend(many.map(|(_, spread)| spread));
    if first.place == Place::Registers {
        for threads in MEASURED_THREADS {
            for unit in [threads, WARP, WARP / 2, WARP / 4, first.unit].into_iter().filter(|unit| *unit <= threads) {
                for vectors in MEASURED_VECTORS {
                    for passes in MEASURED_PASSES {
                        all.push(Spread { vectors, passes, ..registers(threads, unit) });
                    }
                }
            }
        }
    } else {
        for threads in MEASURED_THREADS {
            for unit in [threads, first.unit] {
                let vectors = [1, 2, 4, 8].into_iter();
                all.extend(vectors.map(|vectors| Spread { place: Place::Loops, vectors, ..registers(threads, unit) }));
            }
        }
    }
    // Rows that are those of teams stay so, and others share blocks by the rule's units only.
    let units = |spread: &Spread| match Plan::of(kernel, &first) {
        Ok(plan) if first.unit < first.threads && plan.held.iter().flatten().all(|held| held.is_team) => {
            spread.unit < spread.threads
        }
        _ => spread.unit == spread.threads || spread.unit == first.unit,
    };
    // Different words may mean the same; releasing is measured by itself.
    let mut plans = BTreeSet::new();
    all.retain(|spread| match Plan::of(kernel, &Spread { release: 0, ..*spread }) {
        Ok(plan) => units(spread) && plans.insert((plan.threads, plan.unit, plan.held, plan.bound, plan.at_once)),
        Err(_) => false,
    });
    all
}

/// The schedule of a kernel whose teams load one row each, of narrow elements, and reduce nothing: two vectors of it, so that
/// enough bytes are underway.
fn of_few_loads(kernel: &Kernel) -> Option<Spread> {
    let [_, unit] = teams(kernel)?;
    let one_load = |segment: &Segment| {
        let loads = segment.insts.iter().filter(|inst| match &inst.op {
            InstOp::Load { param, shape: Shape::Row(_), .. } => !kernel.param(*param).early,
            _ => false,
        });
        let reduces = |inst: &Inst| inst.op.combines_lanes();
        let narrow = |inst: &Inst| inst.results.iter().all(|result| segment.ty(*result).dtype.bits() <= 16);
        let loads: Vec<&Inst> = loads.collect();
        matches!(loads[..], [load] if narrow(load)) && !segment.insts.iter().any(reduces)
    };
    let spread = Spread { vectors: 2, release: few_rows(kernel).unwrap_or(0), ..registers(filled(TEAMS, unit), unit) };
    (kernel.segments.iter().all(one_load) && Plan::of(kernel, &spread).is_ok()).then_some(spread)
}

/// Units of threads that deal the rows of a kernel evenly without exchanging values, the best first.
fn units(kernel: &Kernel) -> Option<impl Iterator<Item = u32>> {
    if kernel.segments.iter().any(exchanges) {
        return None;
    }
    let vectors = kernel.segments.iter().try_fold(0, |all, segment| Some(gcd(all, Extents::of(segment)?.unit)));
    let vectors = u32::try_from(vectors?).ok()? / VECTOR;
    let fits = move |unit: &u32| vectors.is_multiple_of(*unit) && warps_of(*unit) <= MOST_SHARED;
    Some((1..=MOST_SHARED.min(vectors)).rev().filter(fits))
}

/// The fewest threads that are whole warps and whole units.
fn warps_of(unit: u32) -> u32 {
    unit * (WARP >> unit.trailing_zeros().min(WARP.trailing_zeros()))
}

/// Threads of a block, at least so many, that are whole warps and whole units.
fn filled(threads: u32, unit: u32) -> u32 {
    threads.next_multiple_of(warps_of(unit))
}

/// Threads of a block, about so many, that are whole warps and whole units.
fn near(threads: u32, unit: u32) -> u32 {
    let above = filled(threads, unit);
    let below = above.saturating_sub(warps_of(unit));
    if below > 0 && threads.abs_diff(below) < above - threads { below } else { above }
}

fn registers(threads: u32, unit: u32) -> Spread {
    Spread { place: Place::Registers, threads, unit, vectors: 1, passes: 1, release: 0, bound: 0 }
}

/// Up to how many rows of a launch the kernel behind it may begin at once: so few that they do not fill a device, and more
/// where threads do not wait for each other, or the time is that of loads whose places are loaded, which the other can
/// begin meanwhile.
fn few_rows(kernel: &Kernel) -> Option<u64> {
    let chained = kernel.segments.iter().flat_map(|segment| &segment.insts).any(|inst| match &inst.op {
        InstOp::Load { param, index, .. } => kernel.param(*param).early && values_of(index).next().is_some(),
        _ => false,
    });
    let waits = kernel.segments.iter().any(|segment| whole_block(segment).is_some());
    let bytes = match (chained, waits) {
        (true, _) => CHAINED_BYTES,
        (_, true) => FEW_BYTES,
        _ => UNCHAINED_BYTES,
    };
    u64::try_from(bytes / bytes_per_row(kernel)?).ok()
}

/// From how many rows of a launch on another spread is better than a plan, and that spread: teams have several inner rows,
/// for which they read what all of those share once.
fn many_rows(kernel: &Kernel, plan: &Plan) -> Option<(usize, Spread)> {
    let shares = kernel.segments.iter().zip(&plan.held).any(|(segment, held)| {
        let rows = segment.inner.as_const().unwrap_or(0);
        let even = |teams: u32| rows > 0 && rows % (i64::from(teams) * i64::from(PASSES)) == 0;
        let few = |held: &Held| held.is_team && held.vectors * PASSES <= MOST_AT_ONCE;
        held.filter(few).is_some_and(|held| even(held.teams))
            && segment.insts.iter().any(|inst| match &inst.op {
                InstOp::Load { index, shape: Shape::Row(_), .. } => !index.mentions(INNER),
                _ => false,
            })
    });
    let from = filling_rows(kernel)?;
    let spread = Spread { passes: PASSES, ..registers(plan.threads, plan.unit) };
    (shares && Plan::of(kernel, &spread).is_ok()).then_some((from, spread))
}

/// From how many rows on a launch fills a device.
fn filling_rows(kernel: &Kernel) -> Option<usize> {
    usize::try_from(MANY_BYTES / bytes_per_row(kernel)? + 1).ok()
}

/// Bytes that a row moves, without those that all rows share.
fn bytes_per_row(kernel: &Kernel) -> Option<i64> {
    let moved = |segment: &Segment| -> Option<i64> {
        let accesses = segment.insts.iter().filter_map(|inst| match &inst.op {
            InstOp::Load { param, index, .. } if kernel.param(*param).early && !index.mentions(ROW) => None,
            InstOp::Load { param, shape, .. } => Some((*param, shape.elements())),
            InstOp::Store { param, .. } => Some((*param, segment.ty(inst.args[0]).shape.elements())),
            _ => None,
        });
        let bits = accesses
            .map(|(param, elements)| elements.as_const()?.checked_mul(i64::from(kernel.param(param).dtype.bits())));
        bits.sum::<Option<i64>>()?.checked_mul(segment.inner.as_const()?)
    };
    Some((kernel.segments.iter().map(moved).sum::<Option<i64>>()? / 8).max(1))
}

/// Threads of a block and of a unit if each row of a kernel is that of a team, and teams fill units evenly, or the warps of
/// each of several segments but their last.
fn teams(kernel: &Kernel) -> Option<[u32; 2]> {
    let mut threads = FLAT[0];
    let exchanged = kernel.segments.iter().any(exchanges);
    let units = kernel.segments.iter().map(|segment| {
        let extents = Extents::within(kernel, segment)?;
        let team = extents.team().filter(|_| whole_block(segment).is_none())?;
        if extents.summed.is_some() || extents.unit != extents.lanes {
            threads = TEAMS;
        }
        let inner = segment.inner.as_const().unwrap_or(1);
        let fills = |teams: &u32| team * teams <= WARP && inner % i64::from(*teams) == 0;
        let teams = [32, 16, 8, 4, 2, 1].into_iter().find(fills)?;
        Some((team, team * teams, inner))
    });
    let units = units.collect::<Option<Vec<(u32, u32, i64)>>>()?;
    let &(_, unit, _) = units.first()?;
    let unit = match units.iter().all(|(_, other, _)| *other == unit) {
        true if units.len() == 1 || !exchanged => unit,
        // Which segment a unit runs is decided for whole warps if their threads exchange values.
        _ if exchanged => WARP,
        _ => {
            let all = units.iter().fold(1, |all, (team, ..)| all / gcd(all, i64::from(*team)) * i64::from(*team));
            let fits = |(team, _, inner): &(u32, u32, i64)| inner % (all / i64::from(*team)) == 0;
            u32::try_from(all).ok().filter(|all| *all <= MOST_SHARED && units.iter().all(fits))?
        }
    };
    let threads = if threads == TEAMS { filled(threads, unit) } else { near(threads, unit) };
    Some([threads, unit])
}
