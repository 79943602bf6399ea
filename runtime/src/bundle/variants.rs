//! Which of a kernel's variants this machine runs best.

use fusewright_abi::Target;

use super::{Bundle, BundleError, Entry};
use crate::cuda::{Gpu, newness};

impl Bundle {
    /// The index of the best variant of a kernel for a device of this machine: `cpu`, `cuda` for the first GPU or `cuda:N` for
    /// another. `name` is the kernel's without what tells a level of processors.
    ///
    /// Code for a level comes first, the highest that the processor has, since only that is compared with it: code of `cpu`
    /// and of `cpu-llvm` is for processors of the kind that compiled it. Of GPU code, the newest that runs.
    ///
    /// # Errors
    /// No such kernel, or none for a device that is here.
    pub fn choose(&self, name: &str, device: &str) -> Result<usize, BundleError> {
        let named = || self.kernels.iter().enumerate().filter(|(_, entry)| entry.base_name() == name);
        let (family, ordinal) = device.split_once(':').unwrap_or((device, "0"));
        let chosen = match (family, ordinal.parse()) {
            ("cpu", Ok(0)) => {
                named().filter_map(|(i, entry)| Some((processor(&entry.target)?, i))).max().map(|(_, i)| i)
            }
            ("cuda", Ok(ordinal)) => {
                named().filter_map(|(i, entry)| Some((gpu(&entry.target, ordinal)?, i))).max().map(|(_, i)| i)
            }
            _ => None,
        };
        chosen.ok_or_else(|| BundleError::NoVariant {
            name: name.to_owned(),
            family: device.to_owned(),
            targets: named().map(|(_, entry)| entry.target.to_string()).collect(),
        })
    }
}

impl Entry {
    /// Its name without what tells the level of processors that it is for.
    pub fn base_name(&self) -> &str {
        self.name.strip_suffix(&self.target.symbol_suffix()).unwrap_or(&self.name)
    }
}

/// How much a variant for CPUs is preferred, if this processor runs it.
fn processor(target: &Target) -> Option<impl Ord + use<>> {
    match target {
        Target::CpuLlvm { level: Some(level) } => level.is_supported().then_some((2, Some(*level))),
        Target::CpuLlvm { level: None } => Some((1, None)),
        Target::Cpu => Some((0, None)),
        _ => None,
    }
}

/// How much a variant for NVIDIA GPUs is preferred, if the device of a number runs it.
fn gpu(target: &Target, ordinal: usize) -> Option<impl Ord + use<>> {
    match target {
        Target::Cuda { arch } => Gpu::at(target, ordinal).is_ok().then(|| newness(arch)),
        _ => None,
    }
}
