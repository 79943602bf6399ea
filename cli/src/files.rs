//! Files that a command reads and writes: none is written that another option reads or writes.

use std::path::{Path, PathBuf};

use fusewright::Error;

use crate::args::Common;

/// The files of a command line, each with the option that names it.
#[derive(Default)]
pub struct Files<'a> {
    read: Vec<(&'static str, &'a Path)>,
    written: Vec<(&'static str, &'a Path)>,
}

impl<'a> Files<'a> {
    /// The files that every command reads.
    pub fn of(common: &'a Common) -> Files<'a> {
        Files::default()
            .reads("--pipeline", &common.pipeline)
            .reads("--patterns", &common.patterns)
            .reads("--schedules", &common.schedules)
    }

    /// The same with files that are read.
    pub fn reads(mut self, option: &'static str, files: impl IntoIterator<Item = &'a PathBuf>) -> Files<'a> {
        self.read.extend(files.into_iter().map(|file| (option, file.as_path())));
        self
    }

    /// The same with files that are written.
    pub fn writes(mut self, option: &'static str, files: impl IntoIterator<Item = &'a PathBuf>) -> Files<'a> {
        self.written.extend(files.into_iter().map(|file| (option, file.as_path())));
        self
    }

    /// Checks that nothing is overwritten that another option names.
    ///
    /// # Errors
    /// A file that is written, and is read or written by another option too.
    pub fn check(&self) -> Result<(), Error> {
        for (i, (option, file)) in self.written.iter().enumerate() {
            let others = self.written[..i].iter().chain(&self.read);
            if let Some((other, _)) = others.into_iter().find(|(_, other)| is_same(file, other)) {
                let message = format!("{}: {option} would overwrite the file of {other}", file.display());
                return Err(Error::Input(message));
            }
        }
        Ok(())
    }
}

/// Says that two paths lead to one file, which need not be there yet. A device, like `/dev/null`, is no file.
fn is_same(a: &Path, b: &Path) -> bool {
    let is_device = |path: &Path| path.exists() && !path.is_file();
    !is_device(a) && !is_device(b) && whole(a).is_some_and(|path| Some(path) == whole(b))
}

/// A path without links, and from the root. None of a folder that is not there, in which nothing can be written.
fn whole(path: &Path) -> Option<PathBuf> {
    if let Ok(path) = path.canonicalize() {
        return Some(path);
    }
    let path = std::path::absolute(path).ok()?;
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}
