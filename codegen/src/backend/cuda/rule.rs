//! The rule by which kernels are spread over blocks and threads where no table says otherwise, and what else they could be.

use std::collections::BTreeSet;

use super::budget::Budget;
use super::plan::{Extents, Plan, WARP, trees, values_of, whole_block};
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
/// Bytes that keep a device busy for no longer than it takes to begin the next launch.
const FEW_BYTES: i64 = 1 << 20;
/// Bytes that fill a device.
const MANY_BYTES: i64 = 5 << 20;
/// Inner rows that a team has one after the other where rows fill a device.
const PASSES: u32 = 2;
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
    let block = kernel.segments.iter().find_map(whole_block);
    let candidates = block.map_or_else(|| FLAT.to_vec(), |threads| vec![threads]);
    let dealt = |threads: &u32| by(*threads, *threads);
    let lacking = |plan: &Plan| plan.held.iter().flatten().map(|held| held.lacking(plan.unit)).fold(0.0, f64::max);
    let large = |most: f64| {
        candidates.iter().filter(|threads| **threads >= TEAMS).filter_map(dealt).find(|plan| lacking(plan) <= most)
    };
    let any = || candidates.iter().filter_map(dealt).min_by(|a, b| lacking(a).total_cmp(&lacking(b)));
    let found = found.or_else(|| large(0.0)).or_else(|| large(FEW_LACKING)).or_else(any);
    let Some(plan) = found else {
        let insts = || kernel.segments.iter().flat_map(|segment| &segment.insts);
        let relaxed = insts().any(|inst| matches!(&inst.op, InstOp::Reduce { order: Order::Relaxed, .. }));
        let searched = insts().any(|inst| matches!(inst.op, InstOp::ArgReduce(_) | InstOp::TopK(_)));
        let stated = trees(kernel).chain(relaxed.then_some(THREADS)).max();
        let threads = match searched {
            true => stated.unwrap_or(WARP).max(searching(kernel)),
            false => stated.unwrap_or(THREADS).max(TEAMS),
        };
        let threads = threads.next_multiple_of(WARP).min(1024);
        return KernelSchedule::uniform(Spread { place: Place::Loops, ..registers(threads, threads) });
    };
    let unit = if plan.unit < plan.threads { plan.unit } else { TEAMS };
    let few = || by(TEAMS, unit).filter(|few| lacking(few) <= lacking(&plan));
    let flat = block.is_none() && plan.threads > TEAMS;
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

/// Threads of a block that searches rows, which all wait for each other each time: no more warps than have lanes enough.
fn searching(kernel: &Kernel) -> u32 {
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
        let units = |threads: u32| [threads, WARP, WARP / 2, WARP / 4].into_iter().filter(move |unit| *unit <= threads);
        for threads in MEASURED_THREADS {
            for unit in units(threads) {
                for vectors in MEASURED_VECTORS {
                    for passes in MEASURED_PASSES {
                        all.push(Spread { vectors, passes, ..registers(threads, unit) });
                    }
                }
            }
        }
    } else {
        all.extend(MEASURED_THREADS.map(|threads| Spread { place: Place::Loops, ..registers(threads, threads) }));
    }
    // Different words may mean the same; releasing is measured by itself.
    let mut plans = BTreeSet::new();
    all.retain(|spread| match Plan::of(kernel, &Spread { release: 0, ..*spread }) {
        Ok(plan) => plans.insert((plan.threads, plan.unit, plan.held, plan.bound)),
        Err(_) => false,
    });
    let teams = all.first().is_some_and(|first| first.unit < first.threads);
    all.retain(|spread| !teams || spread.unit < spread.threads);
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
        let reduces = |inst: &Inst| matches!(inst.op, InstOp::Reduce { .. } | InstOp::ArgReduce(_) | InstOp::TopK(_));
        let narrow = |inst: &Inst| inst.results.iter().all(|result| segment.ty(*result).dtype.bits() <= 16);
        let loads: Vec<&Inst> = loads.collect();
        matches!(loads[..], [load] if narrow(load)) && !segment.insts.iter().any(reduces)
    };
    let spread = Spread { vectors: 2, release: few_rows(kernel).unwrap_or(0), ..registers(TEAMS, unit) };
    (kernel.segments.iter().all(one_load) && Plan::of(kernel, &spread).is_ok()).then_some(spread)
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
        (true, _) => MANY_BYTES,
        (_, true) => FEW_BYTES,
        _ => 2 * FEW_BYTES,
    };
    u64::try_from(bytes / bytes_per_row(kernel)?).ok()
}

/// From how many rows of a launch on another spread is better than a plan, and that spread: teams have several inner rows,
/// for which they read what all of those share once.
fn many_rows(kernel: &Kernel, plan: &Plan) -> Option<(usize, Spread)> {
    let shares = kernel.segments.iter().zip(&plan.held).any(|(segment, held)| {
        let rows = segment.inner.as_const().unwrap_or(0);
        let even = |teams: u32| rows > 0 && rows % (i64::from(teams) * i64::from(PASSES)) == 0;
        held.is_some_and(|held| held.is_team && even(held.teams))
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
