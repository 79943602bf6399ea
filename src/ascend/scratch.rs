//! A folder for the files of one run of a compiler.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that goes when it is dropped, unless it is kept.
pub(crate) struct Scratch {
    folder: PathBuf,
    keep: bool,
}

impl Scratch {
    /// A new folder where the system has such files.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new() -> io::Result<Scratch> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let folder = std::env::temp_dir().join(format!("fusewright-ascend-{}-{number}", std::process::id()));
            match private(&folder) {
                // What another process of this number left.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Scratch { folder, keep: false }),
            }
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Leaves the folder to the end of the process, which removes it unless a signal ends it.
    #[cfg(feature = "ascend")]
    pub fn until_exit(mut self) -> PathBuf {
        self.keep();
        fusewright_runtime::remove_at_exit(self.folder.clone());
        self.folder.clone()
    }

    /// Leaves the folder, so that what was done in it can be repeated.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.keep {
            // What cannot be removed is for the system to clear.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

/// Makes a folder that only its user enters.
fn private(folder: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}
