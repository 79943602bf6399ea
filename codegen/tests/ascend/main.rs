//! Ascend C of kernels: its text, what is refused, what it moves, and what it computes on the host model.
#![cfg(feature = "ascend")]

mod emitted;
mod executed;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/simulated.rs"]
mod simulated;
mod summary;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../support/mod.rs"]
mod support;
