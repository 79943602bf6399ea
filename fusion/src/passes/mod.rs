//! The passes, and the order in which they run.
//!
//! Each pass is one file. A pass keeps every rounding: its result computes the same bits.

mod cse;
mod dce;
mod layout;
mod matmul;
mod noop;
pub mod raise;

use crate::pass::Pass;

/// Every pass, in the order of a run. Products come first: later passes drop reshapes that broadcasting implies, by which
/// flattened products are known.
pub const PIPELINE: &[&Pass] = &[&matmul::PASS, &noop::PASS, &cse::PASS, &raise::PASS, &dce::PASS];

pub use cse::merge as cse;
pub use dce::prune as dce;
