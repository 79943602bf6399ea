//! From fused regions to device code: Kernel IR, schedules, lowering, and the backends.
//!
//! Everything here is pure: the same region and target give the same bytes. Backends see Kernel IR only.

pub mod backend;
pub mod kernel;
pub mod lower;
pub mod schedule;
