//! What can go wrong: files, tools, kernels that are not there, and what the model found.

use std::path::PathBuf;

/// An error of the model or of what ran on it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// There is no C++ compiler under that name.
    #[error("no C++ compiler `{compiler}`: {source}")]
    NoCompiler {
        /// The name.
        compiler: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The compiler was ended before it had done its work.
    #[error("{0}")]
    Ended(std::io::Error),
    /// The compiler refused.
    #[error("{output}\nto repeat: {command}")]
    Compile {
        /// What the compiler printed.
        output: String,
        /// The command, as a shell takes it.
        command: String,
    },
    /// A shared object or a symbol could not be loaded.
    #[error("{path}: {what}")]
    Load {
        /// Which object.
        path: PathBuf,
        /// What the system says.
        what: String,
    },
    /// The launch was not begun.
    #[error("{0}")]
    Launch(String),
    /// What the model found: one line each, with call, values, kernel and core.
    #[error("SIMULATED launch with {count} findings:\n{report}")]
    Findings {
        /// How many.
        count: usize,
        /// One line each.
        report: String,
    },
    /// Bytes of an output that the kernel did not write.
    #[error("SIMULATED launch: `{kernel}` left argument {argument} unwritten in part or in whole")]
    Unwritten {
        /// The kernel.
        kernel: String,
        /// The argument, from 0.
        argument: usize,
    },
}
