//! The passes, and the order in which they run.
//!
//! Each pass is one file. A pass keeps every rounding: its result computes the same bits.

mod cse;
mod dce;
mod layout;
mod matmul;
mod noop;

use crate::pass::Pass;

/// Every pass, in the order of a run.
pub const PIPELINE: &[&Pass] = &[&noop::PASS, &matmul::PASS, &cse::PASS, &dce::PASS];

pub use cse::merge as cse;
pub use dce::prune as dce;
