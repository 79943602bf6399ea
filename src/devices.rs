//! Which targets this build compiles for, and which run on this machine.

use fusewright_abi::Target;
use fusewright_runtime::{RuntimeError, device_for};

use crate::compiler::Compiler;

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
    let (runs, missing) = match device_for(target) {
        Ok(_) => (true, String::new()),
        Err(RuntimeError::Unavailable { reason, .. }) => (false, format!("; {reason}")),
        Err(error) => (false, format!("; {error}")),
    };
    match Compiler::new(target) {
        Ok(compiler) => {
            let detail = format!("{}{missing}", compiler.backend().fingerprint());
            Device { target: target.to_string(), compiles: true, runs, detail }
        }
        Err(error) => Device { target: target.to_string(), compiles: false, runs: false, detail: error.to_string() },
    }
}
