//! Kernels made ahead of time: bundles on disk, and archives for build scripts.
//!
//! A bundle is a folder of one artifact per kernel and a `manifest.json` that says how to call each. A build script
//! goes one step further: its objects are archived and linked, and a generated module offers each kernel as a safe
//! function. Neither needs a compiler when it runs.

mod bindings;
mod bundle;
mod place;
mod script;

pub use bundle::{Bundle, BundleEntry, BundleHeader, BundleRefusal, write_bundle};
pub use script::BuildScript;
