//! The CUDA driver: NVIDIA GPUs, through `libcuda` of the machine, which is looked up when it is first asked for.
//!
//! As any [`Device`] it launches on memory of the host, which is copied to the device and back, one launch after the other,
//! on a stream of our own in the primary context, which other libraries of the process use too.
//!
//! Work that stays on the device goes through a [`Gpu`]: a [`Kernel`] is prepared for [`DeviceBuffer`]s once, which checks
//! what there is to check, and is then enqueued on a [`Stream`], by itself or as part of a [`Graph`]. So are the matrix products of a [`Blas`].
#![allow(unsafe_code)]

mod api;
mod bare;
mod blas;
mod buffer;
mod context;
mod direct;
mod following;
mod freeing;
mod gpu;
mod kernel;
mod launch;
mod loaded;
mod memory;
mod module;
mod recorder;
mod stream;

use std::sync::Arc;

use fusewright_abi::{KernelArtifact, PayloadKind, Target};

use self::context::Context;
use self::module::CudaModule;
use crate::{Device, Module, RuntimeError};

pub use bare::Bare;
pub use blas::{Blas, PreparedMatMul, cublaslt};
pub use buffer::DeviceBuffer;
pub use gpu::{Gpu, Shown, shown};
pub use kernel::{DeviceArg, Kernel, LaunchOptions, Prepared};
pub use recorder::GraphRecorder;
pub use stream::{Event, Graph, Stream};

/// A GPU that launches on memory of the host, for the code of one architecture.
#[derive(Debug)]
pub(super) struct CudaDevice {
    target: Target,
    context: Arc<Context>,
}

impl CudaDevice {
    /// The device of a number, if it runs code of an architecture such as `sm_90`.
    ///
    /// # Errors
    /// No driver, one that is too old, no such device, or one of another kind, in words.
    pub fn new(arch: &str, ordinal: usize) -> Result<CudaDevice, String> {
        let context = Context::at(ordinal)?;
        if runs(arch, context.capability) {
            return Ok(CudaDevice { target: Target::Cuda { arch: arch.to_owned() }, context });
        }
        let (name, (major, minor)) = (&context.name, context.capability);
        Err(format!(
            "cuda:{ordinal}, {name}, is of compute capability {major}.{minor}; kernels can be compiled, not run"
        ))
    }
}

/// Whether code of an architecture runs on a device of a compute capability: plain code on all later devices, that of
/// a family (`f`) on later ones of the same major number, and that of an architecture's own instructions (`a`) on no other.
fn runs(arch: &str, device: (i32, i32)) -> bool {
    let Some(of) = capability(arch) else { return false };
    match arch.chars().last() {
        Some('a') => device == of,
        Some('f') => device.0 == of.0 && device.1 >= of.1,
        _ => device >= of,
    }
}

/// Whether what an assembler made for an architecture runs on a device: on those of the same major number that run the
/// text that it was made of.
fn runs_assembled(arch: &str, device: (i32, i32)) -> bool {
    runs(arch, device) && capability(arch).is_some_and(|of| of.0 == device.0)
}

/// The compute capability that an architecture is named after.
fn capability(arch: &str) -> Option<(i32, i32)> {
    let digits = arch.trim_start_matches("sm_").trim_end_matches(['a', 'f']);
    digits.parse::<i32>().ok().map(|number| (number / 10, number % 10))
}

/// Orders architectures by how new they are; of two for the same devices, the one with more instructions is greater.
pub(crate) fn newness(arch: &str) -> impl Ord + use<> {
    (capability(arch), arch.ends_with(['a', 'f']), arch.ends_with('a'))
}

impl Device for CudaDevice {
    fn target(&self) -> Target {
        self.target.clone()
    }

    fn takes(&self, kind: PayloadKind) -> bool {
        match (kind, &self.target) {
            (PayloadKind::Ptx, _) => true,
            (PayloadKind::Cubin, Target::Cuda { arch }) => runs_assembled(arch, self.context.capability),
            _ => false,
        }
    }

    fn load(&self, artifact: &KernelArtifact) -> Result<Arc<dyn Module>, RuntimeError> {
        if artifact.target != self.target {
            let reason = format!("it is for target `{}`, not `{}`", artifact.target, self.target);
            return Err(RuntimeError::Artifact { kernel: artifact.name.clone(), reason });
        }
        Ok(Arc::new(CudaModule::load(&self.context, artifact)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_runs_on_later_devices_unless_it_is_of_one_kind() {
        let on = |arch, device| runs(arch, device);
        assert!(on("sm_80", (9, 0)) && on("sm_90", (9, 0)) && on("sm_90a", (9, 0)) && on("sm_100f", (10, 3)));
        assert!(!on("sm_90", (8, 9)) && !on("sm_90a", (10, 0)) && !on("sm_100f", (12, 0)) && !on("sm_x", (9, 0)));
    }

    #[test]
    fn what_was_assembled_runs_on_devices_of_its_generation() {
        let on = |arch, device| runs_assembled(arch, device);
        assert!(on("sm_80", (8, 9)) && on("sm_90a", (9, 0)) && on("sm_100", (10, 3)));
        assert!(!on("sm_80", (9, 0)) && !on("sm_89", (8, 6)) && !on("sm_100", (12, 0)) && !on("sm_x", (9, 0)));
    }

    #[test]
    fn a_machine_without_a_driver_says_so() {
        match CudaDevice::new("sm_90", 0) {
            Ok(gpu) => assert_eq!(gpu.target().to_string(), "cuda:sm_90"),
            Err(said) => assert!(said.contains("NVIDIA") || said.contains("compute capability"), "{said}"),
        }
    }
}
