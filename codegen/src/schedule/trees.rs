//! Reduction trees. They are chosen from the row length, the target, and whether one reduction of a row waits for another,
//! never from the number of rows or threads, so a row's result is the same bits in every batch.

use std::fmt;

use fusewright_abi::Target;
use fusewright_graph::Dim;

use crate::kernel::{Order, Tree};
use crate::lower::Orders;

/// The rule by which a target picks its reduction trees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Schedule {
    /// Accumulators interleaved over the lanes: what SIMD registers hold.
    Interleaved {
        /// Number of accumulators.
        width: u32,
        /// A search of groups is one instruction.
        searches_groups: bool,
    },
    /// A block of threads, each taking 16-byte vectors of 16-bit lanes with two accumulators.
    Block {
        /// Most threads of a block.
        threads: u32,
    },
}

/// Lanes of a 16-byte vector of 16-bit elements.
const VECTOR: u32 = 8;
/// Most vectors whose values a thread's registers hold.
const MOST_VECTORS: u32 = 8;
/// The same of rows that few threads share.
const MOST_TEAM_VECTORS: u32 = 12;
/// Threads that run in lockstep.
const WARP: u32 = 32;

impl Schedule {
    /// The schedule of a target.
    pub fn of(target: &Target) -> Schedule {
        match target {
            Target::Cpu | Target::CpuLlvm { .. } => Schedule::Interleaved { width: 16, searches_groups: true },
            Target::Cuda { .. } => Schedule::Block { threads: 512 },
            // 64 f32 lanes are one repeat of the vector unit.
            Target::Ascend { .. } | Target::AscendSim { .. } => {
                Schedule::Interleaved { width: 64, searches_groups: false }
            }
        }
    }

    /// The threads of chained reductions: few, since each waits for what all warps have, as long as a row fits their
    /// registers. Fewer than for one reduction by 3 % of a kernel's time.
    fn few_threads(lanes: u32) -> Option<u32> {
        let of = |threads: u32| lanes.is_multiple_of(threads * VECTOR) && lanes / (threads * VECTOR) <= MOST_VECTORS;
        [128, 256].into_iter().find(|&threads| lanes >= 2 * threads * VECTOR && of(threads))
    }

    /// Threads of a row that exchange what they have: two vectors each; or so many that all have equally many vectors of
    /// either half of a row, or of a row at least, if their registers hold these.
    fn team(lanes: u32) -> u32 {
        let most = lanes.div_ceil(2 * VECTOR).next_power_of_two();
        let vectors = lanes / VECTOR;
        let dealt = |parts: u32| 1 << parts.trailing_zeros().min(most.trailing_zeros());
        let halves = vectors.is_multiple_of(2).then_some(vectors / 2);
        let even = halves.into_iter().chain([vectors]).filter(|_| vectors > 0 && lanes.is_multiple_of(VECTOR));
        even.map(dealt).find(|threads| vectors / threads <= MOST_TEAM_VECTORS).unwrap_or(most)
    }

    fn tree(self, lanes: &Dim, least_threads: u32) -> Order {
        Order::Tree(match self {
            Schedule::Interleaved { width, .. } => Tree::interleaved(width),
            Schedule::Block { threads: most } => {
                let threads = match lanes.as_const().and_then(|n| u32::try_from(n).ok()) {
                    // Threads that run in lockstep exchange what they have, one vector each.
                    Some(n) if n <= WARP * VECTOR => Schedule::team(n),
                    // Two vectors a thread keep enough loads in flight without running out of registers.
                    Some(n) => n.div_ceil(2 * VECTOR).next_multiple_of(least_threads).clamp(least_threads, most),
                    None => most,
                };
                Tree { vec: VECTOR, threads, ways: 2 }
            }
        })
    }
}

impl Orders for Schedule {
    fn row(&self, lanes: &Dim) -> Order {
        self.tree(lanes, WARP)
    }

    fn chained(&self, lanes: &Dim) -> Order {
        let few = lanes.as_const().and_then(|n| Schedule::few_threads(u32::try_from(n).ok()?));
        match (self, few) {
            (Schedule::Block { .. }, Some(threads)) => Order::Tree(Tree { vec: VECTOR, threads, ways: 2 }),
            _ => self.row(lanes),
        }
    }

    fn group(&self, size: &Dim) -> Order {
        self.tree(size, 1)
    }

    fn searches_groups(&self) -> bool {
        matches!(self, Schedule::Interleaved { searches_groups: true, .. })
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Interleaved { width, .. } => write!(f, "interleaved({width})"),
            Schedule::Block { threads } => write!(f, "block({threads})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_have_few_threads_where_rows_fit_them() {
        let threads = |n: i64| match (Schedule::Block { threads: 512 }).chained(&Dim::constant(n)) {
            Order::Tree(tree) => tree.threads,
            Order::Relaxed => 0,
        };
        assert_eq!([128, 2048, 2560, 5120, 8192, 16384, 32768].map(threads), [8, 128, 160, 128, 128, 256, 512]);
    }

    #[test]
    fn trees_follow_the_row_length() {
        let threads = |n: i64| match (Schedule::Block { threads: 512 }).row(&Dim::constant(n)) {
            Order::Tree(tree) => tree.threads,
            Order::Relaxed => 0,
        };
        assert_eq!([48, 64, 80, 96, 192].map(threads), [1, 4, 1, 2, 4], "either half is dealt evenly");
        assert_eq!([24, 72, 112, 144, 224].map(threads), [1, 1, 2, 2, 4], "whole rows are");
        assert_eq!([16, 128, 200, 4096, 5120, 8192, 100_000].map(threads), [1, 8, 16, 256, 320, 512, 512]);
    }
}
