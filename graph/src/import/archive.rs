//! The `.pt2` container: a zip whose records are stored, never compressed.
//!
//! Sizes and offsets come from the central directory (local headers of these files carry none). Records are slices of
//! the input bytes; nothing is copied. Every offset is checked against the file, so a truncated or hostile archive is an
//! error, not a panic and not an allocation. Records that are read here are checked against their checksums; that of a
//! weight is handed on, to be checked when its bytes are first used.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::ops::Range;

use bytes::Bytes;
use zip::read::{ArchiveOffset, Config};
use zip::{CompressionMethod, ZipArchive};

use crate::checksum::Checksum;
use crate::diag::Diagnostic;

const FORMAT: &str = "archive_format";

/// An opened archive.
#[derive(Clone, Debug)]
pub struct Archive {
    bytes: Bytes,
    /// By name below the root folder; a record that cannot be used keeps the reason.
    records: BTreeMap<String, Result<Record, String>>,
}

/// Where the data of a record lies, and its CRC-32.
#[derive(Clone, Debug)]
struct Record {
    range: Range<usize>,
    crc: u32,
}

impl Archive {
    /// Reads the directory of an archive and checks its format, version and byte order.
    ///
    /// # Errors
    /// Not a zip, no root folder, another format than `pt2`, an unknown version, or big-endian weights.
    pub fn open(bytes: &Bytes) -> Result<Self, Diagnostic> {
        let refuse = |message: String| {
            Diagnostic::new("import.archive", format!("not a readable .pt2 archive: {message}"))
                .with_help("expected a file written by torch.export.save")
        };
        // The archive starts at the first byte. Left to find out, the reader may take an archive inside of it (torch
        // stores sample inputs as one) for this one.
        let config = Config { archive_offset: ArchiveOffset::Known(0) };
        let zip = ZipArchive::with_config(config, Cursor::new(&bytes[..]));
        let mut zip = zip.map_err(|e| refuse(format!("it is cut off, or no archive at all ({e})")))?;
        if zip.has_duplicate_names() {
            return Err(refuse("two entries have one name".into()));
        }
        let mut entries: Vec<(String, Result<Record, String>)> = Vec::with_capacity(zip.len());
        for index in 0..zip.len() {
            let Some(Ok(name)) = zip.name_for_index(index) else {
                return Err(refuse(format!("the name of entry {index} is not text")));
            };
            let name = name.into_owned();
            let record = locate(&mut zip, index, bytes.len());
            entries.push((name, record));
        }
        let mut roots = entries.iter().filter_map(|(name, _)| name.strip_suffix(FORMAT));
        let root = match (roots.next(), roots.next()) {
            (Some(root), None) if root.is_empty() || root.ends_with('/') => root.to_owned(),
            (Some(_), Some(_)) => return Err(refuse(format!("several `{FORMAT}` entries"))),
            _ => return Err(refuse(format!("no `{FORMAT}` entry"))),
        };
        let records = entries
            .into_iter()
            .filter_map(|(name, record)| Some((name.strip_prefix(&root)?.to_owned(), record)))
            .collect();
        let archive = Archive { bytes: bytes.clone(), records };
        for (record, known) in [(FORMAT, "pt2"), ("archive_version", "0"), ("byteorder", "little")] {
            archive.check_text(record, known)?;
        }
        Ok(archive)
    }

    /// Names of all records below the root folder, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.records.keys().map(String::as_str)
    }

    /// The bytes of a record, or `None` if there is no such record. All bytes are read once, for the checksum; see
    /// [`Archive::weight`] for records of any size.
    ///
    /// # Errors
    /// A compressed or encrypted record, one that reaches beyond the file, or one whose checksum does not match.
    pub fn get(&self, name: &str) -> Result<Option<Bytes>, Diagnostic> {
        let Some((bytes, checksum)) = self.weight(name)? else { return Ok(None) };
        checksum.check().map_err(|message| Diagnostic::new("import.record", message))?;
        Ok(Some(bytes))
    }

    /// The bytes of a record and their checksum, which is not checked; the bytes are not read.
    ///
    /// # Errors
    /// A compressed or encrypted record, or one that reaches beyond the file.
    pub fn weight(&self, name: &str) -> Result<Option<(Bytes, Checksum)>, Diagnostic> {
        match self.records.get(name) {
            None => Ok(None),
            Some(Ok(Record { range, crc })) => {
                let bytes = self.bytes.slice(range.clone());
                Ok(Some((bytes.clone(), Checksum::new(name, *crc, bytes))))
            }
            Some(Err(message)) => Err(Diagnostic::new("import.record", format!("record `{name}` {message}"))),
        }
    }

    /// The bytes of a record that must exist.
    ///
    /// # Errors
    /// As [`Archive::get`], or a missing record.
    pub fn require(&self, name: &str) -> Result<Bytes, Diagnostic> {
        let missing = || Diagnostic::new("import.record", format!("record `{name}` is missing"));
        self.get(name)?.ok_or_else(missing)
    }

    fn check_text(&self, name: &str, expected: &str) -> Result<(), Diagnostic> {
        let bytes = self.require(name)?;
        let found = bytes.trim_ascii();
        if found == expected.as_bytes() {
            return Ok(());
        }
        let found = String::from_utf8_lossy(&found[..found.len().min(40)]);
        Err(Diagnostic::new("import.version", format!("`{name}` is `{found}`, expected `{expected}`")))
    }
}

/// Where the data of an entry lies in the file.
fn locate(zip: &mut ZipArchive<Cursor<&[u8]>>, index: usize, file_len: usize) -> Result<Record, String> {
    let entry = zip.by_index_raw(index).map_err(|e| e.to_string())?;
    if entry.encrypted() {
        return Err("is encrypted".into());
    }
    if entry.compression() != CompressionMethod::Stored || entry.compressed_size() != entry.size() {
        return Err("is compressed; torch.export.save stores its records".into());
    }
    let outside = || "reaches beyond the end of the file".to_owned();
    let start = entry.data_start().and_then(|s| usize::try_from(s).ok()).ok_or_else(outside)?;
    let size = usize::try_from(entry.size()).map_err(|_| outside())?;
    let end = start.checked_add(size).filter(|&end| end <= file_len).ok_or_else(outside)?;
    Ok(Record { range: start..end, crc: entry.crc32() })
}
