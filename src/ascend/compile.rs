//! The vendor's compiler behind the backend that writes Ascend C.

use fusewright_abi::{PayloadKind, Target};
use fusewright_codegen::backend::{Backend, BackendError};
use fusewright_codegen::kernel::Kernel;

use super::maker::{Maker, ToolFailure};
use crate::behind::Tool;

impl Tool for Maker {
    fn fingerprint(&self) -> String {
        self.described()
    }

    fn payload_kind(&self) -> PayloadKind {
        PayloadKind::AscendObject
    }

    fn make(&self, of: &Kernel, target: &Target, inner: &dyn Backend, code: &[u8]) -> Result<Vec<u8>, BackendError> {
        let backend = inner.name();
        let wrong = |reason: String| BackendError::Target { backend, target: target.clone(), reason };
        let arch = npu_arch(target).ok_or_else(|| wrong("this compiler is for `ascend`".to_owned()))?;
        let made = self.object(arch, &of.name, code, inner.headers());
        made.map_err(|failure| match failure {
            ToolFailure::Tool { .. } | ToolFailure::RunTime(_) => {
                BackendError::Tool { backend, kernel: of.name.clone(), message: failure.to_string() }
            }
            ToolFailure::Route(_) | ToolFailure::System(_) | ToolFailure::Late(_) => wrong(failure.to_string()),
        })
    }
}

/// The architecture of a target's chip, as the vendor's tools are told.
#[cfg(feature = "ascend")]
pub(crate) fn npu_arch(target: &Target) -> Option<&'static str> {
    let Target::Ascend { chip } = target else { return None };
    fusewright_codegen::backend::ascend::CHIPS.iter().find(|known| known.name == chip).map(|known| known.arch)
}

/// A build without the backend knows no chip.
#[cfg(not(feature = "ascend"))]
pub(crate) fn npu_arch(_: &Target) -> Option<&'static str> {
    None
}
