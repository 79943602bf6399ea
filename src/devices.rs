//! Which targets this build compiles for, and which run on this machine.

use fusewright_abi::Target;
use fusewright_runtime::ascend::Npu;
use fusewright_runtime::cuda::Gpu;
use fusewright_runtime::{RuntimeError, device_for};

use crate::ascend::{Maker, ToolkitChoice};
use crate::compiler::Compiler;
use crate::npu;
use crate::store::CacheChoice;

/// A target and what it can do here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// The target, as on the command line.
    pub target: String,
    /// Whether kernels can be compiled for it.
    pub compiles: bool,
    /// Whether kernels can run here.
    pub runs: bool,
    /// The backend in use, or what is missing.
    pub detail: String,
}

/// Every kind of target.
pub fn list() -> Vec<Device> {
    let names = ["cpu", "cpu-llvm", "cuda", "ascend", "ascend-sim"];
    names.iter().filter_map(|name| name.parse::<Target>().ok()).map(|target| device(&target)).collect()
}

fn device(target: &Target) -> Device {
    let found = match target {
        Target::Ascend { .. } => npu::open(target, &CacheChoice::Off).map(|npu| described(&npu)),
        // It is built when it is first asked for more.
        Target::AscendSim { .. } => npu::simulator(target)
            .map_err(|reason| RuntimeError::Unavailable { target: target.to_string(), reason })
            .map(|said| format!("; {said}")),
        Target::Cuda { .. } => device_for(target).map(|_| gpus(target)),
        _ => device_for(target).map(|_| String::new()),
    };
    let (runs, missing) = match found {
        Ok(said) => (true, said),
        Err(RuntimeError::Unavailable { reason, .. }) => (false, format!("; {reason}")),
        Err(error) => (false, format!("; {error}")),
    };
    match Compiler::new(target) {
        Ok(compiler) => {
            let detail = format!("{}{missing}{}", compiler.backend().fingerprint(), toolkit(target));
            Device { target: target.to_string(), compiles: true, runs, detail }
        }
        Err(error) => Device { target: target.to_string(), compiles: false, runs: false, detail: error.to_string() },
    }
}

/// What compiles kernels for an NPU ahead of their loading.
fn toolkit(target: &Target) -> String {
    if !matches!(target, Target::Ascend { .. }) {
        return String::new();
    }
    match Maker::find(&ToolkitChoice::Environment) {
        Ok(Some(maker)) => format!("; compiled by {}", maker.words()),
        Ok(None) => "; no CANN toolkit compiles it here".to_owned(),
        Err(error) => format!("; {error}"),
    }
}

/// The GPUs of this process, by their numbers.
fn gpus(target: &Target) -> String {
    let names = (0..Gpu::count()).map(|ordinal| match Gpu::at(target, ordinal) {
        Ok(gpu) => format!("; {ordinal}: {}", gpu.name()),
        Err(error) => format!("; {ordinal}: {error}"),
    });
    names.collect()
}

/// What an NPU says of itself.
fn described(npu: &Npu) -> String {
    let simulated = if npu.is_simulated() { format!(", {}", npu::SIMULATED) } else { String::new() };
    format!("; {} with {} vector cores through {}{simulated}", npu.name(), npu.cores(), npu.library().display())
}
