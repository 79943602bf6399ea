//! Errors of the facade, grouped by whose fault they are.

use std::fmt;
use std::path::PathBuf;

use fusewright_graph::Diagnostic;
use fusewright_graph::interp::InterpError;
use fusewright_graph::tensor::{NoMemory, TensorError};
use fusewright_runtime::{DeviceFailure, RuntimeError};

use crate::knobs;

/// What went wrong.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file or a graph is malformed or unsupported; the message names the thing and its origin.
    #[error("{0}")]
    Input(String),
    /// Inputs of a call do not fit the program or the kernel.
    #[error("{0}")]
    Call(String),
    /// The machine has no memory for a tensor, or for code.
    #[error("{0}")]
    Memory(String),
    /// A target, driver or tool is not available here.
    #[error("{0}")]
    Unavailable(String),
    /// A kernel cannot be loaded or launched.
    #[error("{0}")]
    Device(String),
    /// A bug of this project; please report it.
    #[error("internal error: {0}")]
    Internal(String),
}

/// The same words as for people: `main` and `unwrap` print an error in this form.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// The command line's exit code: 2 for bad input, 3 for what the machine lacks, 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::File { source, .. } if source.kind() == std::io::ErrorKind::OutOfMemory => 3,
            Error::File { .. } | Error::Input(_) | Error::Call(_) => 2,
            Error::Unavailable(_) | Error::Memory(_) => 3,
            Error::Device(_) | Error::Internal(_) => 1,
        }
    }
}

impl Error {
    /// The same error with what it is about before it. What a variable of the environment is to blame for is about that.
    #[must_use]
    pub fn about(self, what: impl std::fmt::Display) -> Self {
        match self {
            Error::Input(message) if knobs::is_blamed(&message) => Error::Input(message),
            Error::Input(message) => Error::Input(format!("{what}: {message}")),
            Error::Call(message) => Error::Call(format!("{what}: {message}")),
            Error::Memory(message) => Error::Memory(format!("{what}: {message}")),
            Error::Device(message) => Error::Device(format!("{what}: {message}")),
            Error::Internal(message) => Error::Internal(format!("{what}: {message}")),
            other => other,
        }
    }

    /// Everything that is wrong with a graph, one per line.
    pub(crate) fn of_diagnostics(diagnostics: &[Diagnostic]) -> Self {
        Error::Input(diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }
}

impl From<fusewright_fusion::Diagnostic> for Error {
    fn from(error: fusewright_fusion::Diagnostic) -> Self {
        Error::Internal(error.to_string())
    }
}

impl From<InterpError> for Error {
    fn from(error: InterpError) -> Self {
        match error {
            InterpError::Memory { .. } => Error::Memory(error.to_string()),
            _ => Error::Call(error.to_string()),
        }
    }
}

impl From<TensorError> for Error {
    fn from(error: TensorError) -> Self {
        match error {
            TensorError::Memory(lack) => lack.into(),
            _ => Error::Call(error.to_string()),
        }
    }
}

impl From<NoMemory> for Error {
    fn from(lack: NoMemory) -> Self {
        Error::Memory(lack.to_string())
    }
}

impl From<RuntimeError> for Error {
    fn from(error: RuntimeError) -> Self {
        match error {
            RuntimeError::Unavailable { .. } => Error::Unavailable(error.to_string()),
            RuntimeError::Code { .. }
            | RuntimeError::Memory { .. }
            | RuntimeError::Device { failure: DeviceFailure::Memory, .. } => Error::Memory(error.to_string()),
            RuntimeError::Arguments { .. } => Error::Call(error.to_string()),
            _ => Error::Device(error.to_string()),
        }
    }
}
