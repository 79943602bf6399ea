//! What is asked of the system about memory: files mapped read-only, so that weights are not copied, and whether there is room.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use bytes::Bytes;
use memmap2::{Mmap, MmapMut};

use crate::Error;

/// The bytes of a file, mapped.
///
/// # Errors
/// The file cannot be opened or mapped.
pub fn map_file(path: &Path) -> Result<Bytes, Error> {
    let fail = |source| Error::File { path: path.to_owned(), source };
    let file = File::open(path).map_err(fail)?;
    let metadata = file.metadata().map_err(fail)?;
    if metadata.is_dir() {
        return Err(fail(ErrorKind::IsADirectory.into()));
    }
    if metadata.len() == 0 {
        return Ok(Bytes::new());
    }
    // SAFETY: the mapping is private to this process and never written through. Another process that truncates the
    // file while it is mapped could fault us; that is the documented price of not copying model weights.
    let map = unsafe { Mmap::map(&file) }.map_err(fail)?;
    Ok(Bytes::from_owner(map))
}

/// Whether so many bytes could be had now: they are mapped, not touched, and given back.
pub fn is_free(bytes: usize) -> bool {
    bytes == 0 || MmapMut::map_anon(bytes).is_ok()
}
