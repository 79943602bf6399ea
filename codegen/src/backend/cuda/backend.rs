//! This emitter as a [`Backend`].

use fusewright_abi::{Payload, PayloadKind, Target};

use super::{EmitError, compile, emit, launch};
use crate::backend::llvm::MEMORY;
use crate::backend::{Backend, BackendError, Grid, Stage};
use crate::kernel::{Kernel, verify};

const NAME: &str = "nvptx";

/// Makes PTX for NVIDIA GPUs.
#[derive(Clone, Copy, Debug, Default)]
pub struct CudaBackend;

impl Backend for CudaBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn fingerprint(&self) -> String {
        format!("llvm 22, emitter {}", env!("CARGO_PKG_VERSION"))
    }

    fn payload_kind(&self) -> PayloadKind {
        PayloadKind::Ptx
    }

    fn grid(&self, kernel: &Kernel, target: &Target) -> Grid {
        let arch = if let Target::Cuda { arch } = target { arch.as_str() } else { "" };
        launch(kernel, arch)
    }

    fn memory(&self) -> usize {
        MEMORY
    }

    fn emit(&self, kernel: &Kernel, target: &Target) -> Result<Vec<Stage>, BackendError> {
        let arch = arch(kernel, target)?;
        let emitted = emit(kernel, arch).map_err(|error| refusal(error, kernel, target))?;
        let stage = |extension, text: String| Stage { extension, bytes: text.into_bytes() };
        Ok(vec![stage("ll", emitted.ll), stage("ptx", emitted.ptx)])
    }

    fn payload(&self, kernel: &Kernel, target: &Target) -> Result<Payload, BackendError> {
        let arch = arch(kernel, target)?;
        // The first stage is printed for people.
        let ptx = compile(kernel, arch, &mut |_| ()).map_err(|error| refusal(error, kernel, target))?;
        Ok(Payload { kind: self.payload_kind(), bytes: ptx.into_bytes() })
    }
}

/// The architecture of a target, for a kernel that is well formed.
fn arch<'t>(kernel: &Kernel, target: &'t Target) -> Result<&'t str, BackendError> {
    let Target::Cuda { arch } = target else {
        return Err(BackendError::target(NAME, target, "this backend compiles for `cuda`"));
    };
    verify(kernel).map_err(|e| BackendError::unsupported(NAME, kernel, "kernel", e.to_string()))?;
    Ok(arch)
}

fn refusal(error: EmitError, kernel: &Kernel, target: &Target) -> BackendError {
    match error {
        EmitError::Unsupported { place, what } => {
            BackendError::unsupported(NAME, kernel, place, format!("no GPU code for {what}"))
        }
        EmitError::UnknownArch(_) => BackendError::target(NAME, target, error.to_string()),
        EmitError::Llvm(message) => BackendError::internal(NAME, kernel, message),
    }
}
