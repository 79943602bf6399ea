//! A toolchain: a backend, and the steps behind it that make other code of what it emits.
//!
//! A backend is pure; a step looks for files and starts processes. Keys, the cache on disk and dumps know of every step.
//! [`found`] is the one place that says which steps there are.

use std::sync::Arc;

use fusewright_abi::{Payload, PayloadKind, Target};
use fusewright_codegen::backend::{About, Backend, BackendError, Route, Stage, Wanted};
use fusewright_codegen::kernel::Kernel;

use crate::{Error, Options, ascend, assembler, npu};

/// A step makes other code of a kernel's code.
pub(crate) trait Step: Send + Sync {
    /// Names everything of the step that changes its results.
    fn fingerprint(&self) -> String;

    /// Gives the kind of its results.
    fn payload_kind(&self) -> PayloadKind;

    /// Makes code of a kernel's code, which came of the named backend with the named headers.
    ///
    /// # Errors
    /// A target that the step is not for; what its tool says.
    fn make(&self, of: &Kernel, target: &Target, about: &About, code: &[u8]) -> Result<Vec<u8>, BackendError>;

    /// Says whether its results may be changed outside and loaded.
    fn resumes(&self) -> bool {
        false
    }

    /// Says whether drivers take what comes into it as well, and do its work themselves.
    fn is_spared_by_drivers(&self) -> bool {
        false
    }

    /// Says whether it makes many faster than one by one.
    fn makes_together(&self) -> bool {
        false
    }

    /// Makes many ahead, if it can, of the code that `code` gives of each. A kernel that fails says so when it is made by itself.
    fn make_ready(&self, _kernels: &[&Kernel], _about: &About, _code: &CodeOf<'_>) {}
}

/// Gives the code that comes into a step, of kernels that have some.
pub(crate) type CodeOf<'a> = dyn Fn(&Kernel) -> Option<Vec<u8>> + Sync + 'a;

/// The steps behind the backend of a target, as options and the machine have them.
///
/// # Errors
/// A tool that was asked for by name and does not work.
pub(crate) fn found(target: &Target, options: &Options) -> Result<Vec<Arc<dyn Step>>, Error> {
    let each =
        [assembler::step(target, options)?, ascend::step(target, &options.toolkit)?, npu::step(target, options)?];
    Ok(each.into_iter().flatten().collect())
}

/// A backend, and the steps behind it.
#[derive(Clone)]
pub(crate) struct Toolchain {
    backend: Arc<dyn Backend>,
    steps: Vec<Arc<dyn Step>>,
}

impl Toolchain {
    pub fn new(backend: Arc<dyn Backend>, steps: Vec<Arc<dyn Step>>) -> Toolchain {
        Toolchain { backend, steps }
    }

    /// The backend alone.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// The same steps behind another backend.
    #[must_use]
    pub fn of(&self, backend: Arc<dyn Backend>) -> Toolchain {
        Toolchain { backend, steps: self.steps.clone() }
    }

    /// The same backend with further steps.
    #[must_use]
    pub fn then(mut self, steps: impl IntoIterator<Item = Arc<dyn Step>>) -> Toolchain {
        self.steps.extend(steps);
        self
    }

    /// The same without steps that drivers do themselves, if there are such.
    pub fn left_to_drivers(&self) -> Option<Toolchain> {
        let steps: Vec<_> = self.steps.iter().filter(|step| !step.is_spared_by_drivers()).cloned().collect();
        (steps.len() < self.steps.len()).then(|| Toolchain { backend: Arc::clone(&self.backend), steps })
    }

    /// Gives what keys know of it.
    pub fn route(&self) -> Route {
        let all = std::iter::once(self.backend.fingerprint()).chain(self.steps.iter().map(|step| step.fingerprint()));
        Route { fingerprint: all.collect::<Vec<_>>().join(", "), payload: self.payload_kind() }
    }

    /// Gives the kind of what it makes.
    pub fn payload_kind(&self) -> PayloadKind {
        self.steps.last().map_or(self.backend.about().payload, |step| step.payload_kind())
    }

    /// Every stage of a kernel, of which the last is the payload.
    ///
    /// # Errors
    /// The backend or a step does not take the kernel.
    pub fn stages(&self, kernel: &Kernel, target: &Target) -> Result<Vec<Stage>, BackendError> {
        self.behind(kernel, target, self.backend.emit(kernel, target, Wanted::Stages)?, 0)
    }

    /// The payload of a kernel, without the cost of stages that only people read.
    ///
    /// # Errors
    /// As [`Toolchain::stages`].
    pub fn payload(&self, kernel: &Kernel, target: &Target) -> Result<Payload, BackendError> {
        let made = self.behind(kernel, target, self.backend.emit(kernel, target, Wanted::Payload)?, 0)?;
        Ok(Payload { kind: self.payload_kind(), bytes: last(made) })
    }

    /// The code as a file that a linker or a driver takes. A backend's own file is of code that no step has seen.
    ///
    /// # Errors
    /// As [`Toolchain::stages`].
    pub fn file(&self, kernel: &Kernel, target: &Target) -> Result<Payload, BackendError> {
        let About { payload, file, .. } = self.backend.about();
        if file == payload || !self.steps.is_empty() {
            return self.payload(kernel, target);
        }
        Ok(Payload { kind: file, bytes: last(self.backend.emit(kernel, target, Wanted::File)?) })
    }

    /// Goes on from a stage that was changed outside: that stage and those behind it, of which the last is the payload.
    ///
    /// # Errors
    /// A form that nothing goes on from; what is wrong with the text.
    pub fn resume(&self, kernel: &Kernel, target: &Target, stage: Stage) -> Result<Vec<Stage>, BackendError> {
        let made_by = |step: &Arc<dyn Step>| step.resumes() && step.payload_kind().extension() == stage.extension;
        let (stages, done) = match self.steps.iter().position(made_by) {
            Some(at) => (vec![stage], at + 1),
            None => (self.backend.resume(kernel, target, stage)?, 0),
        };
        let backend = self.backend.about().name;
        // The text is not ours.
        self.behind(kernel, target, stages, done).map_err(|error| match error {
            BackendError::Internal { kernel, message, .. } => BackendError::Stage { backend, kernel, message },
            other => other,
        })
    }

    /// Says whether [`Toolchain::prepare`] saves time.
    pub fn compiles_together(&self) -> bool {
        self.steps.iter().any(|step| step.makes_together())
    }

    /// Makes ready what [`Toolchain::payload`] gives for each of these kernels, where that takes less time than one by one.
    /// Of a kernel that cannot be made, its payload says why.
    pub fn prepare(&self, kernels: &[&Kernel], target: &Target) {
        let Some(at) = self.steps.iter().position(|step| step.makes_together()) else { return };
        let ahead = Toolchain { backend: Arc::clone(&self.backend), steps: self.steps[..at].to_vec() };
        let code = |kernel: &Kernel| ahead.payload(kernel, target).ok().map(|payload| payload.bytes);
        self.steps[at].make_ready(kernels, &self.backend.about(), &code);
    }

    /// Adds the stages of the steps from `done` on.
    fn behind(
        &self,
        kernel: &Kernel,
        target: &Target,
        mut stages: Vec<Stage>,
        done: usize,
    ) -> Result<Vec<Stage>, BackendError> {
        for step in &self.steps[done..] {
            let code = stages.last().map_or(&[][..], |stage| &stage.bytes);
            let bytes = step.make(kernel, target, &self.backend.about(), code)?;
            stages.push(Stage { extension: step.payload_kind().extension(), bytes });
        }
        Ok(stages)
    }
}

/// The bytes of the last stage.
fn last(stages: Vec<Stage>) -> Vec<u8> {
    stages.into_iter().next_back().map(|stage| stage.bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests;
