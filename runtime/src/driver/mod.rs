//! Drivers: one folder or file per kind of device. All `unsafe` of this crate is here.

pub mod ascend;
pub mod cuda;
mod exit;
#[allow(unsafe_code)]
mod few;
pub mod host;
#[allow(unsafe_code)]
pub(crate) mod nvtx;
mod pace;
#[allow(unsafe_code)]
mod pool;
mod signature;
mod size;
#[allow(unsafe_code)]
mod unused;

use std::sync::Arc;

use fusewright_abi::Target;

use crate::{Device, RuntimeError};

pub use exit::remove_at_exit;
pub(crate) use exit::{End, ThreadId, at_end_of_this_thread, at_exit};
pub use pool::{EachTime, Pool, Threads, shared as shared_pool};

/// The device that runs kernels of a target, on the threads of this process.
///
/// # Errors
/// No driver for the target, naming it; an Ascend NPU, which is opened by [`ascend::Npu::open`].
pub fn device_for(target: &Target) -> Result<Arc<dyn Device>, RuntimeError> {
    device_with(target, shared_pool())
}

/// As [`device_for`], with threads that the caller brings. A device of its own has no use for them.
///
/// # Errors
/// As [`device_for`].
pub fn device_with(target: &Target, pool: Arc<dyn Pool>) -> Result<Arc<dyn Device>, RuntimeError> {
    device_at(target, 0, pool)
}

/// As [`device_with`], the device of a number among those of the target's kind, from 0. Of processors there is one.
///
/// # Errors
/// As [`device_for`]; no device of that number.
pub fn device_at(target: &Target, ordinal: usize, pool: Arc<dyn Pool>) -> Result<Arc<dyn Device>, RuntimeError> {
    let unavailable = |reason: String| RuntimeError::Unavailable { target: target.to_string(), reason };
    if let Target::CpuLlvm { level: Some(level) } = target
        && !level.is_supported()
    {
        return Err(unavailable(format!("this processor is not of level `{level}`; kernels can be compiled, not run")));
    }
    if let Target::Cuda { arch } = target {
        return cuda::CudaDevice::new(arch, ordinal).map(|gpu| Arc::new(gpu) as Arc<dyn Device>).map_err(unavailable);
    }
    if ordinal > 0 {
        return Err(unavailable(format!("no device of number {ordinal}, counted from 0: there is one")));
    }
    match host::Host::new(target, pool) {
        Some(host) => Ok(Arc::new(host)),
        None => Err(unavailable("it is opened with the numbers of its chip and the place of its runtime".to_owned())),
    }
}
