//! Kernels made ahead of time: bundles on disk, and archives for build scripts.
//!
//! A bundle is a folder of one artifact per kernel and a `manifest.json` that says how to call each; Ascend C comes with the
//! project that builds and launches it (`project.rs`). A build script
//! goes one step further: its objects are archived and linked, and a generated module offers each kernel as a safe
//! function. Neither needs a compiler when it runs.

mod bindings;
mod bundle;
#[cfg(feature = "ascend")]
mod npu;
mod place;
#[cfg(feature = "ascend")]
mod project;
mod script;

pub use bundle::{Bundle, BundleCall, BundleEntry, BundleFile, BundleHeader, BundleRefusal, write_bundle};
#[cfg(feature = "ascend")]
pub use npu::NpuScript;
pub use script::BuildScript;
