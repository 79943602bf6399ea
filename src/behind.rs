//! A tool behind a backend: a [`Backend`] with one more stage, so that keys, the cache on disk and dumps know of it.
//!
//! There is one of these for all tools. What the stage does not change is what the backend says; a test reads the trait
//! and fails where a method is not handed on.

use std::sync::Arc;

use fusewright_abi::{DType, Payload, PayloadKind, Target};
use fusewright_codegen::backend::{Backend, BackendError, Grid, Stage};
use fusewright_codegen::kernel::Kernel;
use fusewright_codegen::schedule::{KernelSchedule, Spread};
use fusewright_fusion::region::SourceKind;

/// A tool makes other code of the payload of a backend. It is not pure as backends are: it may look for files and start processes.
pub(crate) trait Tool: Send + Sync {
    /// Names everything of the tool that changes its results.
    fn fingerprint(&self) -> String;

    /// Gives the kind of its results.
    fn payload_kind(&self) -> PayloadKind;

    /// Makes code of a kernel's code.
    ///
    /// # Errors
    /// A target that the tool is not for; what the tool says.
    fn make(&self, of: &Kernel, target: &Target, inner: &dyn Backend, code: &[u8]) -> Result<Vec<u8>, BackendError>;

    /// Says whether its results may be changed outside and loaded.
    fn resumes(&self) -> bool {
        false
    }

    /// Says whether it makes many faster than one by one.
    fn makes_together(&self) -> bool {
        false
    }

    /// Makes many ahead, if it can. A kernel that fails says so when it is made by itself.
    fn make_ready(&self, _kernels: &[&Kernel], _target: &Target, _inner: &dyn Backend) {}
}

/// A backend, and a tool behind it.
pub(crate) struct Behind<T> {
    inner: Arc<dyn Backend>,
    tool: T,
}

impl<T: Tool> Behind<T> {
    pub fn new(inner: Arc<dyn Backend>, tool: T) -> Behind<T> {
        Behind { inner, tool }
    }

    /// The stage behind these.
    fn last(&self, kernel: &Kernel, target: &Target, stages: &[Stage]) -> Result<Stage, BackendError> {
        let code = stages.last().map_or(&[][..], |stage| &stage.bytes);
        let bytes = self.tool.make(kernel, target, &*self.inner, code)?;
        Ok(Stage { extension: self.payload_kind().extension(), bytes })
    }
}

impl<T: Tool> Backend for Behind<T> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn fingerprint(&self) -> String {
        format!("{}, {}", self.inner.fingerprint(), self.tool.fingerprint())
    }

    fn payload_kind(&self) -> PayloadKind {
        self.tool.payload_kind()
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        self.inner.headers()
    }

    fn sources(&self) -> &'static [SourceKind] {
        self.inner.sources()
    }

    fn lacks(&self, dtype: DType, target: &Target) -> Option<String> {
        self.inner.lacks(dtype, target)
    }

    fn grid(&self, kernel: &Kernel, target: &Target) -> Grid {
        self.inner.grid(kernel, target)
    }

    fn schedule(&self, kernel: &Kernel) -> Option<KernelSchedule> {
        self.inner.schedule(kernel)
    }

    fn candidates(&self, kernel: &Kernel) -> Vec<Spread> {
        self.inner.candidates(kernel)
    }

    fn kind(&self, kernel: &Kernel, rows: usize) -> Option<String> {
        self.inner.kind(kernel, rows)
    }

    fn memory(&self) -> usize {
        self.inner.memory()
    }

    fn emit(&self, kernel: &Kernel, target: &Target) -> Result<Vec<Stage>, BackendError> {
        let mut stages = self.inner.emit(kernel, target)?;
        stages.push(self.last(kernel, target, &stages)?);
        Ok(stages)
    }

    fn resume(&self, kernel: &Kernel, target: &Target, stage: Stage) -> Result<Vec<Stage>, BackendError> {
        if self.tool.resumes() && stage.extension == self.payload_kind().extension() {
            return Ok(vec![stage]);
        }
        let mut stages = self.inner.resume(kernel, target, stage)?;
        let (backend, of) = (self.inner.name(), kernel.name.clone());
        // The text is not ours.
        let last = self.last(kernel, target, &stages).map_err(|error| match error {
            BackendError::Internal { message, .. } => BackendError::Stage { backend, kernel: of, message },
            other => other,
        })?;
        stages.push(last);
        Ok(stages)
    }

    fn payload(&self, kernel: &Kernel, target: &Target) -> Result<Payload, BackendError> {
        let code = self.inner.payload(kernel, target)?;
        let bytes = self.tool.make(kernel, target, &*self.inner, &code.bytes)?;
        Ok(Payload { kind: self.payload_kind(), bytes })
    }

    fn compiles_together(&self) -> bool {
        self.tool.makes_together()
    }

    fn prepare(&self, kernels: &[&Kernel], target: &Target) {
        self.tool.make_ready(kernels, target, &*self.inner);
    }

    /// The backend's own file is of code that the tool has not seen.
    fn file(&self, kernel: &Kernel, target: &Target) -> Result<Payload, BackendError> {
        self.payload(kernel, target)
    }
}

#[cfg(test)]
mod tests;
