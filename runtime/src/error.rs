//! Errors of loading and launching.

use std::fmt;

/// What went wrong at run time.
#[derive(Debug)]
#[non_exhaustive]
pub enum RuntimeError {
    /// No driver or device for the target.
    Unavailable {
        /// The target.
        target: String,
        /// What is missing.
        reason: String,
    },
    /// The artifact is not for this device.
    Artifact {
        /// Name of the kernel.
        kernel: String,
        /// What does not fit.
        reason: String,
    },
    /// Memory for code cannot be mapped.
    Code {
        /// Name of the kernel.
        kernel: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The arguments of a launch do not fit the kernel.
    Arguments {
        /// Name of the kernel.
        kernel: String,
        /// Which argument, and what does not fit.
        reason: String,
    },
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuntimeError::Unavailable { target, reason } => write!(f, "target `{target}`: {reason}"),
            RuntimeError::Artifact { kernel, reason } => write!(f, "kernel `{kernel}`: {reason}"),
            RuntimeError::Code { kernel, source } => write!(f, "kernel `{kernel}`: no memory for code: {source}"),
            RuntimeError::Arguments { kernel, reason } => write!(f, "launch of `{kernel}`: {reason}"),
        }
    }
}

impl std::error::Error for RuntimeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RuntimeError::Code { source, .. } => Some(source),
            _ => None,
        }
    }
}
