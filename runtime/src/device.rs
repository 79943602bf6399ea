//! What every driver offers.

use std::fmt::Debug;
use std::sync::Arc;

use fusewright_abi::{KernelArtifact, PayloadKind, Target};

use crate::{Arg, RuntimeError, ascend, cuda};

/// A device that runs kernels of one target.
pub trait Device: Debug + Send + Sync {
    /// What it runs.
    fn target(&self) -> Target;

    /// Whether it loads code of that kind for its target.
    fn takes(&self, kind: PayloadKind) -> bool;

    /// Loads a kernel.
    ///
    /// # Errors
    /// An artifact of another target, ABI or payload; memory that cannot be had.
    fn load(&self, artifact: &KernelArtifact) -> Result<Arc<dyn Module>, RuntimeError>;
}

/// A loaded kernel. Its code is freed when the last handle is dropped.
pub trait Module: Debug + Send + Sync {
    /// Computes rows `0..rows` of the kernel on up to `threads` threads, fewer where there is too little to do for so many;
    /// results do not depend on how rows are split.
    /// Buffers come in the order of the artifact's parameters, integers in the order of its dims.
    ///
    /// # Errors
    /// Arguments of a wrong number or direction, or buffers shorter than the shapes that `dims` imply.
    fn launch(&self, args: &mut [Arg<'_>], dims: &[i64], rows: usize, threads: usize) -> Result<(), RuntimeError>;

    /// Makes the best code there is of the kernel now, where launches would wait for it until they have done more work.
    fn promote(&self) {}

    /// The same kernel for launches on memory of the device, where the device has its own.
    fn on_device(&self) -> Option<cuda::Kernel> {
        None
    }

    /// As [`Module::on_device`], on memory of an Ascend NPU.
    fn on_npu(&self) -> Option<ascend::Kernel> {
        None
    }
}
