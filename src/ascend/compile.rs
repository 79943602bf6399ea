//! The vendor's compiler behind the backend that writes Ascend C.
//!
//! It stands around the backend that writes Ascend C, as a [`Backend`] with one more stage, so that keys, the cache on disk
//! and dumps know of it.

use std::sync::Arc;

use fusewright_abi::{Payload, PayloadKind, Target};
use fusewright_codegen::backend::{Backend, BackendError, Grid, Stage};
use fusewright_codegen::kernel::Kernel;
use fusewright_fusion::region::SourceKind;

use super::maker::{Maker, ToolFailure};

/// The backend that writes Ascend C, and the vendor's compiler behind it.
pub(crate) struct Built {
    inner: Arc<dyn Backend>,
    maker: Maker,
}

impl Built {
    pub fn new(inner: Arc<dyn Backend>, maker: Maker) -> Built {
        Built { inner, maker }
    }

    fn object(&self, kernel: &Kernel, target: &Target, source: &[u8]) -> Result<Vec<u8>, BackendError> {
        let backend = self.inner.name();
        let wrong = |reason: String| BackendError::Target { backend, target: target.clone(), reason };
        let arch = npu_arch(target).ok_or_else(|| wrong("this compiler is for `ascend`".to_owned()))?;
        let made = self.maker.object(arch, &kernel.name, source, self.inner.headers());
        made.map_err(|failure| match failure {
            ToolFailure::Tool { .. } | ToolFailure::RunTime(_) => {
                BackendError::Tool { backend, kernel: kernel.name.clone(), message: failure.to_string() }
            }
            ToolFailure::Route(_) | ToolFailure::System(_) | ToolFailure::Late(_) => wrong(failure.to_string()),
        })
    }
}

impl Backend for Built {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn fingerprint(&self) -> String {
        format!("{}, {}", self.inner.fingerprint(), self.maker.fingerprint())
    }

    fn payload_kind(&self) -> PayloadKind {
        PayloadKind::AscendObject
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        self.inner.headers()
    }

    fn sources(&self) -> &'static [SourceKind] {
        self.inner.sources()
    }

    fn grid(&self, kernel: &Kernel, target: &Target) -> Grid {
        self.inner.grid(kernel, target)
    }

    fn emit(&self, kernel: &Kernel, target: &Target) -> Result<Vec<Stage>, BackendError> {
        let mut stages = self.inner.emit(kernel, target)?;
        let source = stages.last().map_or(&[][..], |stage| &stage.bytes);
        let code = self.object(kernel, target, source)?;
        stages.push(Stage { extension: PayloadKind::AscendObject.extension(), bytes: code });
        Ok(stages)
    }

    fn resume(&self, kernel: &Kernel, target: &Target, stage: Stage) -> Result<Vec<Stage>, BackendError> {
        let mut stages = self.inner.resume(kernel, target, stage)?;
        let source = stages.last().map_or(&[][..], |stage| &stage.bytes);
        let code = self.object(kernel, target, source)?;
        stages.push(Stage { extension: PayloadKind::AscendObject.extension(), bytes: code });
        Ok(stages)
    }

    fn payload(&self, kernel: &Kernel, target: &Target) -> Result<Payload, BackendError> {
        let source = self.inner.payload(kernel, target)?;
        Ok(Payload { kind: PayloadKind::AscendObject, bytes: self.object(kernel, target, &source.bytes)? })
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
