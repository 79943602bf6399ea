//! From an expanded kernel to its code, made now or kept from an earlier process.

use std::sync::Arc;

use fusewright_abi::{ContentKey, KernelArtifact, Payload, Target};
use fusewright_codegen::backend::{self, Backend, BackendError, Stage};
use fusewright_codegen::kernel::Kernel;
use fusewright_codegen::schedule::Schedule;
use fusewright_runtime::Counters;
use fusewright_runtime::disk::Label;

use crate::ascend::Maker;
use crate::assembler::Assembler;
use crate::behind::Behind;
use crate::map::is_free;
use crate::store::Store;

/// The code generator of one target, and the cache on disk.
#[derive(Clone)]
pub(crate) struct Coder {
    pub target: Target,
    pub backend: Arc<dyn Backend>,
    pub schedule: Schedule,
    pub store: Arc<Store>,
    /// Counts what was made and what was kept.
    pub counters: Arc<Counters>,
}

impl Coder {
    /// # Errors
    /// A target that this build or this machine cannot compile for.
    pub fn of(target: &Target, store: Arc<Store>, counters: Arc<Counters>) -> Result<Coder, BackendError> {
        let backend = backend::for_target(target)?;
        Ok(Coder { target: target.clone(), backend, schedule: Schedule::of(target), store, counters })
    }

    /// The same with an assembler behind the backend.
    #[must_use]
    pub fn assembled_by(self, assembler: Assembler) -> Coder {
        Coder { backend: Arc::new(Behind::new(self.backend, assembler)), ..self }
    }

    /// The same with the vendor's compiler behind the backend.
    #[must_use]
    pub fn built_by(self, maker: Maker) -> Coder {
        Coder { backend: Arc::new(Behind::new(self.backend, maker)), ..self }
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
        let bytes = self.backend.memory();
        if !is_free(bytes) {
            return Err(BackendError::Memory { backend: self.backend.name(), kernel: kernel.name.clone(), bytes });
        }
        self.counters.add_compiled();
        let payload = self.backend.payload(kernel, &self.target)?;
        self.store.save(&key, &self.label(kernel), &payload);
        Ok((backend::pack(kernel, key, &self.target, &*self.backend, payload)?, false))
    }

    /// The artifact of a kernel whose code is made of a changed stage. It has a key of its own, and is not kept.
    ///
    /// # Errors
    /// What is wrong with the stage, or has no code at all.
    pub fn resumed(&self, kernel: &Kernel, stage: Stage) -> Result<KernelArtifact, BackendError> {
        let key = backend::resumed_key(self.key(kernel), &stage);
        let stages = self.backend.resume(kernel, &self.target, stage)?;
        let bytes = stages.into_iter().next_back().map(|last| last.bytes).unwrap_or_default();
        let payload = Payload { kind: self.backend.payload_kind(), bytes };
        self.counters.add_compiled();
        backend::pack(kernel, key, &self.target, &*self.backend, payload)
    }

    /// Makes code of kernels together, where the backend does that and it is not kept: then [`Coder::artifact`] is fast.
    pub fn prepare(&self, kernels: &[Kernel]) {
        let kind = self.backend.payload_kind();
        let missing = |kernel: &&Kernel| self.store.load(&self.key(kernel), &self.label(kernel), kind).is_none();
        let missing: Vec<&Kernel> = kernels.iter().filter(missing).collect();
        if !missing.is_empty() {
            self.backend.prepare(&missing, &self.target);
        }
    }

    /// The artifact of a kernel whose payload is on disk.
    pub fn kept(&self, kernel: &Kernel) -> Option<KernelArtifact> {
        if self.store.is_open() { self.kept_as(self.key(kernel), kernel) } else { None }
    }

    fn key(&self, kernel: &Kernel) -> ContentKey {
        backend::kernel_key(kernel, &self.schedule.to_string(), &self.target, &*self.backend)
    }

    fn kept_as(&self, key: ContentKey, kernel: &Kernel) -> Option<KernelArtifact> {
        let payload = self.store.load(&key, &self.label(kernel), self.backend.payload_kind())?;
        let kept = backend::pack(kernel, key, &self.target, &*self.backend, payload).ok()?;
        self.counters.add_kept();
        Some(kept)
    }

    fn label(&self, kernel: &Kernel) -> Label {
        Label { target: self.target.clone(), kernel: kernel.name.clone() }
    }
}
