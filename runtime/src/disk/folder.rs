//! The folder of a cache: private to one user, and so are its files.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

/// Makes a folder that only this user can enter, or checks that nobody else can write into the one there.
///
/// # Errors
/// Why the folder cannot be used, as what follows its name in a sentence.
pub fn private(folder: &Path) -> Result<(), String> {
    make(folder).map_err(|e| format!("cannot be made: {e}"))?;
    let found = fs::metadata(folder).map_err(|e| format!("cannot be looked at: {e}"))?;
    if !found.is_dir() {
        return Err("is no folder".to_owned());
    }
    own(&found)
}

/// The whole of a file that only this user can have written.
///
/// # Errors
/// Why it is not to be read, as what follows its name in a sentence; `None` for a file that is not there.
pub(super) fn read(path: &Path, most: u64) -> Result<Option<(File, Vec<u8>)>, String> {
    let mut file = match open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(format!("cannot be opened: {e}")),
    };
    // Of what was opened, so that nothing can take its place in between.
    let found = file.metadata().map_err(|e| format!("cannot be looked at: {e}"))?;
    if !found.is_file() {
        return Err("is no file".to_owned());
    }
    own(&found)?;
    if found.len() > most {
        return Err(format!("has {} bytes, an entry at most {most}", found.len()));
    }
    let mut bytes = Vec::with_capacity(found.len() as usize);
    let read = io::Read::read_to_end(&mut io::Read::take(&mut file, most), &mut bytes);
    read.map_err(|e| format!("cannot be read: {e}"))?;
    Ok(Some((file, bytes)))
}

#[cfg(unix)]
fn make(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Neither through a link, nor waiting for the other end of a pipe.
#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// A file that is new and that nobody else can read.
#[cfg(unix)]
pub(super) fn create(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(unix)]
fn own(found: &Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(format!("belongs to user {owner}, this is user {user}"));
    }
    if found.mode() & 0o022 != 0 {
        return Err(format!("may be written by others (mode {:o})", found.mode() & 0o7777));
    }
    Ok(())
}

#[cfg(not(unix))]
fn make(_: &Path) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system does not say whose files are"))
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(not(unix))]
pub(super) fn create(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)
}

#[cfg(not(unix))]
fn own(_: &Metadata) -> Result<(), String> {
    Err("is on a system that does not say whose files are".to_owned())
}
