//! The passes, and the order in which they run.
//!
//! Each pass is one file. A pass keeps every rounding: its result computes the same bits. Only `relax`, which
//! does nothing unless asked for, does not.

mod alongside;
mod at_place;
pub(crate) mod bounds;
mod cse;
mod dce;
mod extremes;
mod fold;
pub(crate) mod layout;
mod matmul;
mod narrow;
pub(crate) mod patterns;
pub(crate) mod places;
pub mod raise;
mod regroup;
mod rewrite;
mod statistic;
#[cfg(test)]
mod tests;
mod turned;

use crate::pass::{Order, Pass};

/// Every pass, in the order of a run. Where two may not be swapped, [`ORDER`] says why.
pub const PIPELINE: &[&Pass] = &[
    &matmul::PASS,
    &fold::PASS,
    &rewrite::PASS,
    &cse::PASS,
    &raise::PASS,
    &patterns::PASS,
    &narrow::PASS,
    &rewrite::RELAX,
    &dce::PASS,
];

/// The passes of `O1`: one spelling for equal things.
pub const O1: &[&Pass] =
    &[&matmul::PASS, &fold::PASS, &rewrite::PASS, &cse::PASS, &patterns::PASS, &rewrite::RELAX, &dce::PASS];

/// The passes of `O3`: what recognition leaves is normalised again.
pub const O3: &[&Pass] = &[
    &matmul::PASS,
    &fold::PASS,
    &rewrite::PASS,
    &cse::PASS,
    &raise::PASS,
    &patterns::PASS,
    &fold::PASS,
    &rewrite::PASS,
    &cse::PASS,
    &narrow::PASS,
    &rewrite::RELAX,
    &dce::PASS,
];

/// The name of the pass that ends every pipeline: nothing may read what later stages would have to skip.
pub const LAST: &str = dce::PASS.name;

/// What may not be swapped.
pub const ORDER: &[Order] = &[
    Order {
        first: "matmul",
        then: "rewrite",
        every: false,
        why: "rewriting drops reshapes that broadcasting implies, by which flattened products are known",
    },
    Order {
        first: "fold",
        then: "rewrite",
        every: false,
        why: "rules know constants by their values, which folding computes",
    },
    Order { first: "rewrite", then: "cse", every: false, why: "nodes are equal once they are spelled alike" },
    Order {
        first: "rewrite",
        then: "raise",
        every: false,
        why: "patterns of composites are in the spelling that rewriting leaves",
    },
    Order { first: "cse", then: "raise", every: false, why: "a pattern that reads one value twice needs it to be one" },
    Order {
        first: "raise",
        then: "patterns",
        every: true,
        why: "patterns of users are written over composites, which recognition finds in every spelling",
    },
    Order { first: "raise", then: "narrow", every: true, why: WHOLE },
    Order { first: "patterns", then: "narrow", every: true, why: WHOLE },
    Order { first: "patterns", then: "relax", every: true, why: RELAXED },
    Order { first: "raise", then: "relax", every: true, why: "what relaxed mode leaves is no composite any more" },
    Order { first: "matmul", then: "relax", every: true, why: RELAXED },
    Order { first: "fold", then: "relax", every: true, why: RELAXED },
    Order { first: "rewrite", then: "relax", every: true, why: RELAXED },
    Order { first: "cse", then: "relax", every: true, why: RELAXED },
    Order { first: "narrow", then: "relax", every: true, why: RELAXED },
];

const WHOLE: &str = "what is recognised stands on one side of a slice as a whole";

const RELAXED: &str =
    "relaxed mode reports what it dropped by the values that it leaves, which no later pass may renumber";

pub(crate) use cse::Met;
pub use cse::merge as cse;
pub use dce::prune as dce;
pub(crate) use rewrite::emit as simplest;
