//! Why a body has no kernel.

use fusewright_codegen::backend::BackendError;
use fusewright_codegen::kernel::InstError;
use fusewright_codegen::lower::LowerError;

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
    /// The target lacks a function of the kernel, and so does the table of expansions; run it unfused.
    #[error("{0}")]
    Expand(#[from] InstError),
    /// A stage cannot be written to the folder that [`crate::knobs::DUMP_DIR`] names.
    #[error("{0}")]
    Dump(Box<Error>),
    /// What is wrong with the folder that [`crate::knobs::OVERRIDE_DIR`] names.
    #[error("{0}")]
    Replaced(Box<Error>),
}

impl CompileError {
    /// Whether the body is to run unfused because nothing takes it.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            CompileError::Lower(_) | CompileError::Expand(_) | CompileError::Backend(BackendError::Unsupported { .. })
        )
    }

    /// The error as the facade reports it.
    pub fn into_error(self) -> Error {
        self.into()
    }
}

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Dump(error) | CompileError::Replaced(error) => *error,
            CompileError::Backend(BackendError::Target { .. } | BackendError::Tool { .. }) => {
                Error::Unavailable(error.to_string())
            }
            CompileError::Backend(BackendError::Memory { .. }) => Error::Memory(error.to_string()),
            CompileError::Lower(_)
            | CompileError::Expand(_)
            | CompileError::Backend(
                BackendError::Unsupported { .. } | BackendError::Schedule { .. } | BackendError::Stage { .. },
            ) => Error::Input(error.to_string()),
            CompileError::Backend(BackendError::Internal { .. } | BackendError::Invalid { .. }) => {
                Error::Internal(error.to_string())
            }
        }
    }
}
