//! From the body of a region to a loaded kernel: lower, expand, verify, emit, load.
//!
//! Kernels are named by content: two regions with equal bodies share one kernel, in the compiler's cache and on disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fusewright_abi::{KernelArtifact, Target};
use fusewright_codegen::backend::{self, Backend, BackendError};
use fusewright_codegen::kernel::expand::{Column, expand};
use fusewright_codegen::kernel::{Kernel, verify};
use fusewright_codegen::lower::{LowerError, lower};
use fusewright_codegen::schedule::Schedule;
use fusewright_graph::Graph;

use crate::Error;

/// Why a body has no kernel.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The body has no row program; run it unfused.
    #[error("{0}")]
    Lower(#[from] LowerError),
    /// The target's backend does not take the kernel; run it unfused.
    #[error("{0}")]
    Backend(#[from] BackendError),
    /// A bug of this project.
    #[error("internal error: {0}")]
    Internal(String),
}

impl CompileError {
    /// The error as the facade reports it.
    pub fn into_error(self) -> Error {
        self.into()
    }
}

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Backend(BackendError::Target { .. }) => Error::Unavailable(error.to_string()),
            CompileError::Lower(_) | CompileError::Backend(BackendError::Unsupported { .. }) => {
                Error::Input(error.to_string())
            }
            CompileError::Backend(BackendError::Internal { .. }) | CompileError::Internal(_) => {
                Error::Internal(error.to_string())
            }
        }
    }
}

/// Compiles bodies for one target.
pub struct Compiler {
    target: Target,
    backend: Arc<dyn Backend>,
    schedule: Schedule,
    spent_us: AtomicU64,
    compiled: AtomicU64,
}

impl Compiler {
    /// A compiler for a target.
    ///
    /// # Errors
    /// A target that this build or this machine cannot compile for, by name.
    pub fn new(target: &Target) -> Result<Compiler, Error> {
        let backend = backend::for_target(target).map_err(|e| Error::Unavailable(e.to_string()))?;
        let schedule = Schedule::of(target);
        let (spent_us, compiled) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Compiler { target: target.clone(), backend, schedule, spent_us, compiled })
    }

    /// What is compiled for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// The backend in use.
    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// The Kernel IR of a body: as lowered, and expanded for the target.
    ///
    /// # Errors
    /// A body without a row program.
    pub fn kernel(&self, name: &str, body: &Graph) -> Result<(Kernel, Kernel), CompileError> {
        let kernel = lower(&identifier(name), body, &self.schedule)?;
        verify(&kernel).map_err(|e| CompileError::Internal(format!("lowering `{name}`: {e}")))?;
        let expanded = expand(&kernel, column(&self.target)).map_err(|e| CompileError::Internal(e.to_string()))?;
        verify(&expanded).map_err(|e| CompileError::Internal(format!("expanding `{name}`: {e}")))?;
        Ok((kernel, expanded))
    }

    /// The compiled kernel of a body.
    ///
    /// # Errors
    /// A body without a row program, or one that the backend does not take.
    pub fn artifact(&self, name: &str, body: &Graph) -> Result<KernelArtifact, CompileError> {
        let start = Instant::now();
        let (_, expanded) = self.kernel(name, body)?;
        let artifact = backend::assemble(&expanded, &self.schedule.to_string(), &self.target, &*self.backend)?;
        self.spent_us.fetch_add(start.elapsed().as_micros() as u64, Ordering::Relaxed);
        self.compiled.fetch_add(1, Ordering::Relaxed);
        Ok(artifact)
    }

    /// The kernel of a body as a file for a linker or a driver.
    ///
    /// # Errors
    /// As [`Compiler::artifact`].
    pub fn object(&self, name: &str, body: &Graph) -> Result<KernelArtifact, CompileError> {
        let artifact = self.artifact(name, body)?;
        let (_, expanded) = self.kernel(name, body)?;
        Ok(KernelArtifact { payload: self.backend.file(&expanded, &self.target)?, ..artifact })
    }

    /// Kernels compiled so far and the microseconds that took.
    pub fn spent(&self) -> (u64, u64) {
        (self.compiled.load(Ordering::Relaxed), self.spent_us.load(Ordering::Relaxed))
    }
}

impl std::fmt::Debug for Compiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Compiler({}, {})", self.target, self.backend.name())
    }
}

/// The column of the scalar table that says what a target computes itself.
pub(crate) fn column(target: &Target) -> Column {
    match target {
        Target::Cpu | Target::CpuLlvm => Column::Cpu,
        Target::Cuda { .. } => Column::Cuda,
        Target::Ascend { .. } | Target::AscendSim { .. } => Column::Ascend,
    }
}

/// A C identifier made from a region's name.
fn identifier(name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let text: String = name.chars().map(word).collect();
    if text.starts_with(|c: char| c.is_ascii_digit()) || text.is_empty() { format!("k_{text}") } else { text }
}
