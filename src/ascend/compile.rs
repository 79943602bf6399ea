//! The vendor's compiler behind the backend that writes Ascend C.

use std::sync::Arc;

use fusewright_abi::{PayloadKind, Target};
use fusewright_codegen::backend::{About, BackendError};
use fusewright_codegen::kernel::Kernel;

use super::maker::{Maker, ToolFailure};
use super::toolkit::ToolkitChoice;
use crate::Error;
use crate::toolchain::Step;

/// The step of a target's toolchain, if the target is an NPU and there is a compiler of CANN: a toolkit, or within this process.
///
/// # Errors
/// A toolkit that was asked for by name and is not there.
pub(crate) fn step(target: &Target, choice: &ToolkitChoice) -> Result<Option<Arc<dyn Step>>, Error> {
    if !matches!(target, Target::Ascend { .. }) {
        return Ok(None);
    }
    Ok(Maker::find(choice)?.map(|maker| Arc::new(maker) as Arc<dyn Step>))
}

impl Step for Maker {
    fn fingerprint(&self) -> String {
        self.described()
    }

    fn payload_kind(&self) -> PayloadKind {
        PayloadKind::AscendObject
    }

    fn make(&self, of: &Kernel, target: &Target, about: &About, code: &[u8]) -> Result<Vec<u8>, BackendError> {
        let backend = about.name;
        let wrong = |reason: String| BackendError::Target { backend, target: target.clone(), reason };
        let arch = npu_arch(target).ok_or_else(|| wrong("this compiler is for `ascend`".to_owned()))?;
        let made = self.object(arch, &of.name, code, about.headers);
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
