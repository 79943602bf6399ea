//! The filetest runner. Each command is a file here and an entry of [`COMMANDS`].

mod emit;
mod file;
mod fuse;
mod interp;
mod lower;
mod passes;
mod patterns;
mod print;
mod report;
mod verify;

pub use file::{Case, TestFile};

/// Every command.
pub const COMMANDS: &[Command] = &[
    emit::COMMAND,
    fuse::COMMAND,
    interp::COMMAND,
    lower::COMMAND,
    passes::COMMAND,
    patterns::COMMAND,
    print::COMMAND,
    verify::COMMAND,
];

/// A command of a `test` line.
pub struct Command {
    /// Its first word.
    pub name: &'static str,
    /// Whether its output has to be expected somehow, by `; check:` lines or as a whole.
    pub has_output: bool,
    /// Runs it on a case with the other words of the line.
    pub run: fn(&Case, &[String]) -> Outcome,
}

/// What a command prints, or the errors that it reports.
pub type Outcome = Result<String, Vec<LineError>>;

/// An error on a line.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LineError {
    /// Line of the case, from 1.
    pub line: usize,
    /// Message, one line.
    pub message: String,
}

impl LineError {
    /// An error on a line; of a longer message the first line counts.
    pub fn new(line: usize, message: impl AsRef<str>) -> Self {
        LineError { line, message: message.as_ref().lines().next().unwrap_or_default().to_owned() }
    }
}
