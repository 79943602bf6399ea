//! The runtime: loads, caches and launches kernels. It contains no compiler and depends on the artifact types alone.
//!
//! A [`Device`] loads a `KernelArtifact` as a [`Module`]; a module is launched over rows with buffers and integer
//! arguments. Dropping the last handle of a module frees its code.

pub mod bundle;
pub mod capture;
pub mod disk;
pub mod driver;
pub mod trace;

mod arg;
mod background;
mod cache;
mod device;
mod dispatch;
mod error;
#[cfg(all(test, loom))]
mod interleavings;
mod matmul;
mod sync;
mod tier;

pub use arg::Arg;
pub use background::{COMPILE_STACK, settle};
pub use cache::KernelCache;
pub use device::{Device, Module};
pub use dispatch::Variants;
pub use driver::ascend;
pub use driver::cuda;
pub use driver::{EachTime, Pool, Threads, device_at, device_for, device_with, remove_at_exit, shared_pool};
pub use error::{DeviceFailure, RuntimeError};
pub use matmul::{ColumnMajor, MatMul, Matrix, Misfit, Stored};
pub use tier::{CodeCounts, Counters, Make, TierCounts, Tiered};
