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
    /// The device has too little memory for a launch.
    Memory {
        /// Name of the kernel.
        kernel: String,
        /// What the driver said.
        reason: String,
    },
    /// A kernel did what no kernel may. The device does nothing more for this process.
    Fault {
        /// Name of the kernel that was running or was to run next.
        kernel: String,
        /// What the driver said.
        reason: String,
    },
    /// A call of the driver failed.
    Driver {
        /// Name of the kernel.
        kernel: String,
        /// What the driver said.
        reason: String,
    },
    /// Work on a device that is no launch of one kernel failed.
    Device {
        /// What was being done.
        action: &'static str,
        /// Of which kind the failure is.
        failure: DeviceFailure,
        /// What the driver said.
        reason: String,
    },
    /// The arguments of a launch do not fit the kernel.
    Arguments {
        /// Name of the kernel.
        kernel: String,
        /// Which argument, and what does not fit.
        reason: String,
    },
}

/// Kinds of failures of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceFailure {
    /// There is too little memory on the device.
    Memory,
    /// A kernel did what no kernel may. The device does nothing more for this process.
    Fault,
    /// Any other: the driver refused a call, or the call makes no sense.
    Refused,
}

impl fmt::Display for RuntimeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuntimeError::Unavailable { target, reason } => write!(f, "target `{target}`: {reason}"),
            RuntimeError::Artifact { kernel, reason } => write!(f, "kernel `{kernel}`: {reason}"),
            RuntimeError::Code { kernel, source } => write!(f, "kernel `{kernel}`: no memory for code: {source}"),
            RuntimeError::Memory { kernel, reason } => {
                write!(f, "kernel `{kernel}`: too little device memory: {reason}")
            }
            RuntimeError::Fault { kernel, reason } => {
                write!(f, "kernel `{kernel}`: a kernel faulted, and the device is lost to this process: {reason}")
            }
            RuntimeError::Driver { kernel, reason } => write!(f, "kernel `{kernel}`: {reason}"),
            RuntimeError::Device { action, failure, reason } => match failure {
                DeviceFailure::Memory => write!(f, "{action}: too little device memory: {reason}"),
                DeviceFailure::Fault => {
                    write!(f, "{action}: a kernel faulted, and the device is lost to this process: {reason}")
                }
                DeviceFailure::Refused => write!(f, "{action}: {reason}"),
            },
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
