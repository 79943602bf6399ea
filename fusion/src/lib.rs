//! From a graph as imported to fused regions: the pass manager with its passes, the growth of regions by dataflow
//! legality, the names that queries give to regions, their content keys and what `explain` prints.
//!
//! Passes rebuild graphs and never change what they compute, to the bit, unless relaxed mode is asked for. Regions are outlined, not replaced: each keeps
//! its unfused body. This crate looks at no device, reads no clock and does no I/O.

pub mod explain;
pub mod key;
pub mod pass;
pub mod passes;
pub mod patterns;
pub mod region;
pub mod rewrites;
pub mod stretch;
pub mod vendor;

#[cfg(test)]
mod samples;

pub use explain::{Explanation, explain};
pub use key::{body_key, region_key};
pub use pass::{Cx, Diagnostic, Observer, Outcome, Pass, PassManager, PassReport, Pipeline};
pub use region::{FusedRegion, Limits, Partition, Refusal, Step, partition};
