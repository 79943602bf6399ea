//! A command of the user that says whether a graph is still interesting.

use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};

use fusewright::graph::Graph;
use fusewright::{Error, write_whole};

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
    pub fn fails(&self, graph: &Graph) -> Result<Option<ExitStatus>, Error> {
        write_whole(&self.file, graph.to_string().as_bytes())?;
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("{} \"$0\"", self.command)).arg(&self.file);
        let status = shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let status = status.map_err(|e| Error::Unavailable(format!("`--test {}`: sh: {e}", self.command)))?;
        Ok((!status.success()).then_some(status))
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        // A file in the folder of temporary files that stays does no harm.
        let _ = std::fs::remove_file(&self.file);
    }
}
