//! Huawei's Ascend NPUs, through the runtime of CANN on this machine (`libascendcl.so`), which is looked up when it is first
//! asked for, where the caller says.
//!
//! As any [`Device`] it launches on memory of the host, which is copied to the device and back. Work that stays on the device
//! goes through an [`Npu`]: a [`Kernel`] is prepared for [`DeviceBuffer`]s once and then enqueued on a [`Stream`], by itself
//! or as part of a [`Graph`], which the vendor calls an instance of a model. Kernels are binaries: sources are compiled before,
//! by a toolchain or by [`Rtc`].
//!
//! Nothing of this has run on an NPU: what is tested is what a strict stand-in of the runtime takes.
#![allow(unsafe_code)]

mod api;
mod arguments;
mod binary;
mod buffer;
mod context;
mod facts;
mod host_function;
mod kernel;
mod module;
mod npu;
mod recorder;
mod rtc;
mod stream;

use std::sync::Arc;

use fusewright_abi::{KernelArtifact, PayloadKind, Target};

use self::module::AscendModule;
use crate::{Device, Module, RuntimeError};

pub use buffer::DeviceBuffer;
pub use facts::Chip;
pub use fusewright_acl_sys::{LIBRARY, RTC_LIBRARY, candidates};
pub use host_function::{Compute, HostFunction};
pub use kernel::{DeviceArg, Kernel, Prepared};
pub use npu::Npu;
pub use recorder::GraphRecorder;
pub use rtc::Rtc;
pub use stream::{Event, Graph, Stream};

impl Device for Npu {
    fn target(&self) -> Target {
        Npu::target(self).clone()
    }

    fn takes(&self, kind: PayloadKind) -> bool {
        kind == PayloadKind::AscendObject
    }

    fn load(&self, artifact: &KernelArtifact) -> Result<Arc<dyn Module>, RuntimeError> {
        self.check(artifact)?;
        let cores = self.chip().vector_cores;
        Ok(Arc::new(AscendModule::load(Arc::clone(&self.context), artifact, cores)?))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn chip() -> Chip {
        Chip { soc: "Ascend910B1".to_owned(), architecture: 2201, vector_cores: 48, buffer_bytes: 188_160 }
    }

    #[test]
    fn a_machine_without_a_runtime_says_what_was_looked_for() {
        let files = ["nowhere/libascendcl.so", "elsewhere/libascendcl.so"].map(PathBuf::from);
        let target = "ascend:910b1".parse().expect("a target");
        let said = Npu::open(&target, &files, &chip()).expect_err("there is none").to_string();
        assert!(said.contains("`ascend:910b1`") && said.contains("no Ascend runtime"), "{said}");
        assert!(said.contains("nowhere/libascendcl.so, elsewhere/libascendcl.so"), "{said}");
        let said = Rtc::open(&files).expect_err("there is none");
        assert!(said.contains("no run-time compiler") && said.contains("elsewhere/"), "{said}");
    }

    #[test]
    fn other_targets_are_refused_by_name() {
        let target = "cuda:sm_90".parse().expect("a target");
        let said = Npu::open(&target, &[], &chip()).expect_err("no NPU").to_string();
        assert!(said.contains("`cuda:sm_90`: it is no Ascend NPU"), "{said}");
    }
}
