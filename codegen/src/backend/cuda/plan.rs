//! How a kernel is spread over blocks and threads.

use fusewright_graph::Dim;
use fusewright_graph::dim::DimFn;

use super::code::WIDEST;
use super::hazard;
use super::rows::stated_bytes;
use crate::backend::Grid;
use crate::kernel::{InstOp, Kernel, Order, Over, Segment, Shape, Tree, Val};

/// Neighbouring lanes of a thread.
pub(super) const VECTOR: u32 = 8;
/// Most vectors of a thread; more do not fit its registers.
const MOST_VECTORS: u32 = 4;
/// Threads that exchange values in registers.
const WARP: u32 = 32;

/// Threads of a block for rows without reductions, the best first; the first that deals all lanes evenly is taken.
const FLAT: [u32; 12] = [128, 160, 192, 224, 256, 320, 384, 448, 512, 96, 64, 32];
/// Bytes of the largest element.
const ELEMENT: u32 = 8;
/// Threads of a block whose reductions have no number of their own.
const THREADS: u32 = 256;

/// The threads of a block, and which segments have their rows in registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// Threads of a block.
    pub threads: u32,
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
        let block = kernel.segments.iter().find_map(whole_block);
        let candidates = block.map_or_else(|| FLAT.to_vec(), |threads| vec![threads]);
        let all = |threads: u32| -> Option<Vec<Option<Held>>> {
            kernel.segments.iter().map(|segment| held(kernel, segment, threads).map(Some)).collect()
        };
        let wide = kernel.segments.iter().any(|s| s.types.iter().any(|ty| matches!(ty.shape, Shape::Row(_))));
        if wide && let Some((threads, held)) = candidates.into_iter().find_map(|t| Some((t, all(t)?))) {
            return Plan { threads, held };
        }
        let threads = trees().max().unwrap_or(THREADS).next_multiple_of(32).clamp(128, 1024);
        Plan { threads, held: vec![None; kernel.segments.len()] }
    }

    /// How the kernel is launched.
    pub fn launch(&self, kernel: &Kernel) -> Grid {
        let blocks = kernel.segments.iter().zip(&self.held).map(|(segment, &held)| blocks(segment, held));
        let blocks_per_row = blocks.fold(Dim::constant(0), |sum, blocks| &sum + &blocks);
        let moves_vectors = self.held.iter().any(Option::is_some);
        let alignment = if moves_vectors { WIDEST } else { ELEMENT };
        let looped = kernel.segments.iter().zip(&self.held).filter(|(_, held)| held.is_none());
        let shared = looped.map(|(segment, _)| stated_bytes(kernel, segment));
        let shared = shared.fold(Dim::constant(0), |most, bytes| Dim::function(DimFn::Max, &most, &bytes));
        Grid { threads: self.threads, blocks_per_row, shared, alignment, dependent: false }
    }
}

/// How the rows of a segment lie in the registers of blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    /// Vectors of each thread.
    pub vectors: u32,
    /// Blocks that share an inner row.
    pub parts: u32,
    /// Inner rows that share a block: each is of a team of neighbouring threads, which exchange values in registers.
    pub teams: u32,
}

/// Threads of a block that reductions of a segment over whole rows ask for, unless a row is that of a team.
fn whole_block(segment: &Segment) -> Option<u32> {
    let lanes = lanes(segment);
    segment.insts.iter().find_map(|inst| match &inst.op {
        InstOp::Reduce { over: Over::Row, order: Order::Tree(tree), .. } => {
            let team = lanes.is_some_and(|lanes| team(&Dim::constant(lanes)) == Some(tree.threads));
            (!team).then_some(tree.threads)
        }
        _ => None,
    })
}

/// How a segment is computed by blocks of so many threads with its rows in registers, if it can be.
fn held(kernel: &Kernel, segment: &Segment, threads: u32) -> Option<Held> {
    let lanes = lanes(segment)?;
    let row_team = team(&Dim::constant(lanes)).filter(|&team| whole_block(segment).is_none() && team < threads);
    let row_threads = row_team.unwrap_or(threads);
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
            | InstOp::Broadcast(_) => {}
            InstOp::Pack { ways, .. } if VECTOR.is_multiple_of(*ways) => {}
            InstOp::Reduce { over: Over::Row, order, .. } => {
                whole_row = true;
                if tree(*order, row_threads) != (Tree { vec: VECTOR, threads: row_threads, ways: 2 }) {
                    return None;
                }
            }
            InstOp::Reduce { over: Over::Group(size), order, .. } => {
                let team = team(size)?;
                if tree(*order, team) != (Tree { vec: VECTOR, threads: team, ways: 2 })
                    || !row_threads.is_multiple_of(team)
                {
                    return None;
                }
            }
            _ => return None,
        }
    }
    let (block, lanes) = (threads.checked_mul(VECTOR)?, u32::try_from(lanes).ok()?);
    if lanes == 0 || !hazard::find(kernel, segment).staged.is_empty() {
        return None;
    }
    if let Some(team) = row_team {
        let (teams, inner) = (threads / team, segment.inner.as_const()?);
        let even = threads.is_multiple_of(team) && inner % i64::from(teams) == 0;
        return even.then_some(Held { vectors: 1, parts: 1, teams });
    }
    if !lanes.is_multiple_of(block) {
        return None;
    }
    let count = lanes / block;
    match whole_row {
        true => (count <= MOST_VECTORS).then_some(Held { vectors: count, parts: 1, teams: 1 }),
        false => Some(Held { vectors: 1, parts: count, teams: 1 }),
    }
}

impl Held {
    /// Threads that share a row.
    pub fn row_threads(&self, threads: u32) -> u32 {
        threads / self.teams
    }

    /// Blocks of so many inner rows.
    pub fn blocks(&self, inner: &Dim) -> Option<Dim> {
        (inner * &Dim::constant(i64::from(self.parts))).exact_div(&Dim::constant(i64::from(self.teams)))
    }
}

/// The tree of an order, where a free one is the one that registers have.
fn tree(order: Order, threads: u32) -> Tree {
    match order {
        Order::Tree(tree) => tree,
        Order::Relaxed => Tree { vec: VECTOR, threads, ways: 2 },
    }
}

/// Lanes of all rows of a segment, if all have as many, or as many as one code of some lanes each.
fn lanes(segment: &Segment) -> Option<i64> {
    let mut found = None;
    let packed: Vec<Val> = segment
        .insts
        .iter()
        .filter(|inst| matches!(inst.op, InstOp::Pack { .. }))
        .flat_map(|inst| inst.results.iter().copied())
        .collect();
    for (i, ty) in segment.types.iter().enumerate() {
        let lanes = match &ty.shape {
            Shape::Scalar => continue,
            Shape::Row(_) if packed.contains(&Val(i as u32)) => continue,
            Shape::Row(lanes) => lanes,
            Shape::Group { lanes, size } => {
                team(size)?;
                lanes
            }
        };
        let lanes = lanes.as_const()?;
        if found.is_some_and(|found| found != lanes) {
            return None;
        }
        found = Some(lanes);
    }
    found
}

/// Threads that have a group of lanes, one vector each.
pub(super) fn team(size: &Dim) -> Option<u32> {
    let vectors = size.exact_div(&Dim::constant(i64::from(VECTOR)))?.as_const()?;
    u32::try_from(vectors).ok().filter(|team| team.is_power_of_two() && *team <= WARP)
}

/// Blocks of a segment per outer row.
pub(super) fn blocks(segment: &Segment, held: Option<Held>) -> Dim {
    held.and_then(|held| held.blocks(&segment.inner)).unwrap_or_else(|| segment.inner.clone())
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

    fn held(vectors: u32, parts: u32, teams: u32) -> Vec<Option<Held>> {
        vec![Some(Held { vectors, parts, teams })]
    }

    #[test]
    fn rows_lie_in_registers_where_threads_deal_them_evenly() {
        assert_eq!(plan("1", "5120", Some(320)), Plan { threads: 320, held: held(2, 1, 1) });
        assert_eq!(plan("1", "12288", None), Plan { threads: 128, held: held(1, 12, 1) });
        // Rows of 16 threads, eight of them in a block.
        assert_eq!(plan("200", "128", Some(16)), Plan { threads: 128, held: held(1, 1, 8) });
        assert_eq!(plan("200", "128", None), Plan { threads: 128, held: held(1, 1, 8) });
        // One row of a warp.
        assert_eq!(plan("1", "256", Some(32)), Plan { threads: 32, held: held(1, 1, 1) });
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
