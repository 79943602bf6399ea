//! A command of the user that says whether a graph is still interesting.

use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use fusewright::graph::Graph;
use fusewright::{Error, write_whole};

/// What a shell exits with where a command may not be executed, or is not found.
const CANNOT_RUN: [i32; 2] = [126, 127];

/// A command that is given a file; any exit status but 0 means that the file is interesting.
pub struct Test {
    command: String,
    file: PathBuf,
}

impl Test {
    /// A test by a command of the shell, to which the file's name is appended.
    pub fn new(command: &str) -> Result<Test, Error> {
        if command.trim().is_empty() {
            return Err(Error::Input("`--test` is empty".to_owned()));
        }
        let file = std::env::temp_dir().join(format!("fusewright-reduce-{}.fw", std::process::id()));
        Ok(Test { command: command.to_owned(), file })
    }

    /// How the command fails on a graph, if it does.
    ///
    /// # Errors
    /// A command that cannot be run says nothing about the graph.
    pub fn fails(&self, graph: &Graph) -> Result<Option<ExitStatus>, Error> {
        write_whole(&self.file, graph.to_string().as_bytes())?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{} \"$0\"", self.command)).arg(&self.file);
        let ran = shell.stdin(Stdio::null()).stdout(Stdio::null()).output();
        let ran = ran.map_err(|e| Error::Unavailable(format!("`--test {}`: sh: {e}", self.command)))?;
        if ran.status.code().is_some_and(|code| CANNOT_RUN.contains(&code)) {
            let said = String::from_utf8_lossy(&ran.stderr);
            let said = said.lines().last().map_or_else(String::new, |line| format!(": {line}"));
            return Err(Error::Input(format!("`--test {}` cannot be run ({}){said}", self.command, ran.status)));
        }
        Ok((!ran.status.success()).then_some(ran.status))
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        // A file in the folder of temporary files that stays does no harm.
        let _ = std::fs::remove_file(&self.file);
    }
}
