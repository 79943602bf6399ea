//! How a kernel is spread over blocks and threads.

use fusewright_graph::Dim;

use super::code::WIDEST;
use super::vectors::{Held, held, whole_block};
use crate::backend::Grid;
use crate::kernel::{InstOp, Kernel, Order, Segment, Shape};

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
        Grid { threads: self.threads, blocks_per_row, alignment }
    }
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
