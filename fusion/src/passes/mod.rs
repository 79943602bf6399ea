//! The passes, and the order in which they run.
//!
//! Each pass is one file. A pass keeps every rounding: its result computes the same bits. Only `relax`, which
//! does nothing unless asked for, does not.

mod cse;
mod dce;
pub(crate) mod layout;
mod matmul;
pub mod raise;
mod rewrite;

use crate::pass::Pass;

/// Every pass, in the order of a run. Products come first: later passes drop reshapes that broadcasting implies, by which
/// flattened products are known. Rewriting comes before merging, so that equal nodes are spelled alike, and both before
/// recognition, whose patterns are in that spelling. What relaxed mode changes comes after recognition. Last goes what
/// nothing reads.
pub const PIPELINE: &[&Pass] = &[&matmul::PASS, &rewrite::PASS, &cse::PASS, &raise::PASS, &rewrite::RELAX, &dce::PASS];

pub use cse::merge as cse;
pub use dce::prune as dce;
