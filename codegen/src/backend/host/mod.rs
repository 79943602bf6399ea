//! Plans for host CPUs: what runs in which loop, what is kept between loops, what stores may overwrite.
//!
//! Backends for CPUs share the loops over phases, groups and pieces of concatenations; what they have in vectors differs
//! and is asked of them ([`Forms`]).

pub(in crate::backend) mod abreast;
pub(in crate::backend) mod ahead;
mod apart;
pub(in crate::backend) mod cost;
pub(in crate::backend) mod extremes;
pub(in crate::backend) mod facts;
mod filled;
pub(in crate::backend) mod hazard;
pub(in crate::backend) mod index;
pub(in crate::backend) mod keep;
mod moved;
pub(in crate::backend) mod place;
pub(in crate::backend) mod plan;
pub(in crate::backend) mod rows;
mod shared;
pub(in crate::backend) mod short_run;
pub(in crate::backend) mod stash;
pub(in crate::backend) mod trees;
pub(in crate::backend) mod walk;

use fusewright_abi::DType;
use fusewright_graph::ScalarFn;

use crate::kernel::{Order, Val};

/// Lanes of a chunk, which are the accumulators of a reduction that takes chunks.
const CHUNK: i64 = 16;

/// An emitter says here what it has in vectors of consecutive lanes: everything, unless it says otherwise.
pub(in crate::backend) trait Forms {
    /// The most that four lanes of a loop may cost, in instructions as `cost.rs` counts them: what is more runs out of registers.
    fn most_cost(&self) -> Option<u32> {
        None
    }

    /// A loop that adds up so many lanes takes this many of them one by one.
    fn single_lanes(&self, lanes: i64) -> i64 {
        lanes % 8
    }

    /// So many compares of elements with the best so far are code that is worth it: beyond, vectors run out.
    fn most_compares(&self) -> i64 {
        256
    }

    /// So many instructions of a straight line are code that is worth it: beyond, it no longer fits the nearest caches.
    fn most_insts(&self) -> usize {
        6000
    }

    /// The only row that a value depends on, if a table of its results takes the place of its computation.
    fn looked_up(&self, _v: Val) -> Option<Val> {
        None
    }

    /// Whether elements of 64 bits are lanes.
    fn wide_lanes(&self) -> bool {
        true
    }

    /// Whether a function of operands of that dtype has a vector form.
    fn map(&self, _f: ScalarFn, _dtype: DType) -> bool {
        true
    }

    /// Says whether a conversion has one; `_bounded` says whether the operand is far inside the range of `i32`.
    fn cast(&self, _from: DType, _to: DType, _saturate: bool, _bounded: &dyn Fn() -> bool) -> bool {
        true
    }

    /// Whether the accumulators of a reduction in that order take chunks of lanes.
    fn reduction(&self, _order: Order, _dtype: DType) -> bool {
        true
    }
}

/// Something in a kernel that is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::backend) struct Refused {
    /// Segment and instruction.
    pub place: String,
    /// What, and why.
    pub reason: String,
}

pub(in crate::backend) type Taken<T> = Result<T, Refused>;
