//! Checksums of storages, checked when their bytes are first used.

use std::fmt;
use std::sync::OnceLock;

use bytes::Bytes;

/// The checksum that a file states for an entry.
pub struct Checksum {
    entry: String,
    stated: u32,
    bytes: Bytes,
    holds: OnceLock<bool>,
}

impl Checksum {
    /// The CRC-32 that a file states for the bytes of `entry`.
    pub fn new(entry: &str, stated: u32, bytes: Bytes) -> Self {
        Checksum { entry: entry.to_owned(), stated, bytes, holds: OnceLock::new() }
    }

    /// Compares the bytes with the checksum. The first call reads all of them once, at some gigabytes per second, and
    /// brings a mapped file into memory; later calls cost a load.
    ///
    /// # Errors
    /// The bytes are not those that the file was written with; the message names the entry.
    pub fn check(&self) -> Result<(), String> {
        let holds = *self.holds.get_or_init(|| crc32fast::hash(&self.bytes) == self.stated);
        if holds { Ok(()) } else { Err(format!("entry `{}` is damaged: its checksum does not match", self.entry)) }
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checksum({} {:08x})", self.entry, self.stated)
    }
}
