//! Schedules: what a target decides about a kernel, as data.
//!
//! Today that is the reduction trees. They are chosen from the row length and the target alone, never from the number
//! of rows or threads, so a row's result is the same bits in every batch.

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
    },
    /// A block of threads, each taking 16-byte vectors of 16-bit lanes with two accumulators.
    Block {
        /// Most threads of a block.
        threads: u32,
    },
}

/// Lanes of a 16-byte vector of 16-bit elements.
const VECTOR: u32 = 8;
/// Threads that run in lockstep.
const WARP: u32 = 32;

impl Schedule {
    /// The schedule of a target.
    pub fn of(target: &Target) -> Schedule {
        match target {
            Target::Cpu | Target::CpuLlvm { .. } => Schedule::Interleaved { width: 16 },
            Target::Cuda { .. } => Schedule::Block { threads: 512 },
            // 64 f32 lanes are one repeat of the vector unit.
            Target::Ascend { .. } | Target::AscendSim { .. } => Schedule::Interleaved { width: 64 },
        }
    }

    fn tree(self, lanes: &Dim, least_threads: u32) -> Order {
        Order::Tree(match self {
            Schedule::Interleaved { width } => Tree::interleaved(width),
            Schedule::Block { threads: most } => {
                let threads = match lanes.as_const().and_then(|n| u32::try_from(n).ok()) {
                    // Threads that run in lockstep exchange what they have, one vector each.
                    Some(n) if n <= WARP * VECTOR => n.div_ceil(2 * VECTOR).next_power_of_two(),
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

    fn group(&self, size: &Dim) -> Order {
        self.tree(size, 1)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Interleaved { width } => write!(f, "interleaved({width})"),
            Schedule::Block { threads } => write!(f, "block({threads})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_follow_the_row_length() {
        let threads = |n: i64| match (Schedule::Block { threads: 512 }).row(&Dim::constant(n)) {
            Order::Tree(tree) => tree.threads,
            Order::Relaxed => 0,
        };
        assert_eq!([16, 128, 200, 4096, 5120, 8192, 100_000].map(threads), [2, 16, 32, 256, 320, 512, 512]);
    }
}
