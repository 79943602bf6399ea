//! Targets for Ascend NPUs from graphs to files and results: projects, the vendor's compiler by stand-ins, the host model.

mod npu;
mod project;
mod toolkit;
