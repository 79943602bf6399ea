//! From an expanded kernel to its code, made now or kept from an earlier process.

use std::sync::Arc;

use fusewright_abi::{ContentKey, KernelArtifact, Payload, Target};
use fusewright_codegen::backend::{self, About, Backend, BackendError, Stage};
use fusewright_codegen::kernel::Kernel;
use fusewright_codegen::schedule::Schedule;
use fusewright_runtime::Counters;
use fusewright_runtime::disk::Label;

use crate::map::is_free;
use crate::store::Store;
use crate::toolchain::{Step, Toolchain};

/// The code generator of one target, and the cache on disk.
#[derive(Clone)]
pub(crate) struct Coder {
    pub target: Target,
    pub toolchain: Toolchain,
    /// The backend that spreads rows by rule, where a table may ask for what some kernels cannot have.
    pub by_rule: Option<Arc<dyn Backend>>,
    pub schedule: Schedule,
    pub store: Arc<Store>,
    /// Counts what was made and what was kept.
    pub counters: Arc<Counters>,
}

impl Coder {
    /// # Errors
    /// A target that this build or this machine cannot compile for.
    pub fn of(target: &Target, store: Arc<Store>, counters: Arc<Counters>) -> Result<Coder, BackendError> {
        let toolchain = Toolchain::new(backend::for_target(target)?, Vec::new());
        Ok(Coder { target: target.clone(), toolchain, by_rule: None, schedule: Schedule::of(target), store, counters })
    }

    /// The same with further steps behind the backend.
    #[must_use]
    pub fn then(self, steps: Vec<Arc<dyn Step>>) -> Coder {
        Coder { toolchain: self.toolchain.then(steps), ..self }
    }

    /// The same without steps that drivers do themselves, if there are such.
    pub fn left_to_drivers(&self) -> Option<Coder> {
        Some(Coder { toolchain: self.toolchain.left_to_drivers()?, ..self.clone() })
    }

    /// The same that spreads rows by rule, if there is a table that may ask for what some kernels cannot have.
    pub fn by_rule(&self) -> Option<Coder> {
        let backend = Arc::clone(self.by_rule.as_ref()?);
        Some(Coder { toolchain: self.toolchain.of(backend), by_rule: None, ..self.clone() })
    }

    /// The backend in use.
    pub fn backend(&self) -> &dyn Backend {
        self.toolchain.backend()
    }

    /// The payload of a kernel.
    ///
    /// # Errors
    /// The backend or a step does not take the kernel.
    pub fn payload(&self, kernel: &Kernel) -> Result<Payload, BackendError> {
        self.toolchain.payload(kernel, &self.target)
    }

    /// The artifact of a kernel, and whether its payload was kept.
    ///
    /// # Errors
    /// What the backend does not take; less memory than its compiler needs.
    pub fn artifact(&self, kernel: &Kernel) -> Result<(KernelArtifact, bool), BackendError> {
        let key = self.key(kernel);
        if let Some(kept) = self.kept_as(key, kernel) {
            return Ok((kept, true));
        }
        let About { name: backend, memory: bytes, .. } = self.backend().about();
        if !is_free(bytes) {
            return Err(BackendError::Memory { backend, kernel: kernel.name.clone(), bytes });
        }
        self.counters.add_compiled();
        let payload = self.payload(kernel)?;
        self.store.save(&key, &self.label(kernel), &payload);
        Ok((backend::pack(kernel, key, &self.target, self.backend(), payload)?, false))
    }

    /// The artifact of a kernel whose code is made of a changed stage. It has a key of its own, and is not kept.
    ///
    /// # Errors
    /// What is wrong with the stage, or has no code at all.
    pub fn resumed(&self, kernel: &Kernel, stage: Stage) -> Result<KernelArtifact, BackendError> {
        let key = backend::resumed_key(self.key(kernel), &stage);
        let stages = self.toolchain.resume(kernel, &self.target, stage)?;
        let bytes = stages.into_iter().next_back().map(|last| last.bytes).unwrap_or_default();
        let payload = Payload { kind: self.toolchain.payload_kind(), bytes };
        self.counters.add_compiled();
        backend::pack(kernel, key, &self.target, self.backend(), payload)
    }

    /// Makes code of kernels together, where the backend does that and it is not kept: then [`Coder::artifact`] is fast.
    pub fn prepare(&self, kernels: &[Kernel]) {
        let kind = self.toolchain.payload_kind();
        let missing = |kernel: &&Kernel| self.store.load(&self.key(kernel), &self.label(kernel), kind).is_none();
        let missing: Vec<&Kernel> = kernels.iter().filter(missing).collect();
        if !missing.is_empty() {
            self.toolchain.prepare(&missing, &self.target);
        }
    }

    /// The artifact of a kernel whose payload is on disk.
    pub fn kept(&self, kernel: &Kernel) -> Option<KernelArtifact> {
        if self.store.is_open() { self.kept_as(self.key(kernel), kernel) } else { None }
    }

    fn key(&self, kernel: &Kernel) -> ContentKey {
        let schedule = self.schedule.to_string();
        backend::kernel_key(kernel, &schedule, &self.target, self.backend(), &self.toolchain.route())
    }

    fn kept_as(&self, key: ContentKey, kernel: &Kernel) -> Option<KernelArtifact> {
        let payload = self.store.load(&key, &self.label(kernel), self.toolchain.payload_kind())?;
        let kept = backend::pack(kernel, key, &self.target, self.backend(), payload).ok()?;
        self.counters.add_kept();
        Some(kept)
    }

    fn label(&self, kernel: &Kernel) -> Label {
        Label { target: self.target.clone(), kernel: kernel.name.clone() }
    }
}
