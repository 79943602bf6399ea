//! Compiled code on disk, one file per content key, in a folder that processes share.
//!
//! Nothing in the folder is trusted. It must belong to this user and be closed to writers besides, as must every file; a
//! file is read whole, and its head, lengths, key and checksum are compared before any byte of it is used. What does not
//! fit is an error value that names the file, and the caller compiles as if the file were not there.
//!
//! A file is written under another name in the same folder and renamed when it is whole, so that readers meet all of it or
//! nothing, also those of other processes. It is not forced to the disk: after a loss of power a file may be empty or torn,
//! which the checksum tells, and forcing it would take longer than compiling again.
//!
//! The folder is divided into 64 shards by the first byte of keys. Each may hold its part of the limit, and the process
//! that writes an entry removes those of its shard that have not been used for the longest time.

mod entry;
mod folder;

use std::fmt;
use std::fs::{self, DirEntry};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use fusewright_abi::{ContentKey, Payload};

pub use entry::Label;
pub use folder::private;

/// Parts of a folder. Few enough to walk over, and enough for a write to look at few files.
const SHARDS: u8 = 64;
/// Extension of entries.
const ENTRY: &str = "kernel";
/// Extension of files that are being written.
const PARTIAL: &str = "partial";
/// The largest entry.
const MOST_BYTES: u64 = 64 << 20;
/// A file that is still being written after this was left by a process that ended.
const ABANDONED: Duration = Duration::from_secs(600);
/// How old a time of use may be before it is written anew: a hit is to cost no write.
const STALE_USE: Duration = Duration::from_secs(3600);

/// What is wrong with a cache on disk. The caller goes on without it.
#[derive(Debug)]
pub enum DiskError {
    /// The folder cannot be used at all.
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Why.
        reason: String,
    },
    /// An entry is not what it should be, and was not used.
    Entry {
        /// Its file.
        file: PathBuf,
        /// What does not fit.
        reason: String,
    },
    /// An entry cannot be written, or the folder not be read.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::Folder { folder, reason } => write!(f, "kernel cache: folder {} {reason}", folder.display()),
            DiskError::Entry { file, reason } => write!(f, "kernel cache: {} {reason}", file.display()),
            DiskError::Io { path, source } => write!(f, "kernel cache: {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DiskError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// A folder of compiled code.
#[derive(Debug)]
pub struct DiskCache {
    folder: PathBuf,
    limit: u64,
    /// Whether a write failed: the disk is full or closed, and the next write would fail as well.
    closed: AtomicBool,
}

/// A file of a cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryFile {
    /// Its path.
    pub path: PathBuf,
    /// Its key; `None` for what is no entry, such as a file that a process left half written.
    pub key: Option<ContentKey>,
    /// Its size.
    pub bytes: u64,
    /// When it was last used, to the hour.
    pub used: SystemTime,
}

impl DiskCache {
    /// A cache in a folder, which is made if it is not there, of at most `limit` bytes.
    ///
    /// # Errors
    /// A folder that cannot be made, belongs to someone else, or that others may write into.
    pub fn open(folder: &Path, limit: u64) -> Result<DiskCache, DiskError> {
        let refuse = |reason| DiskError::Folder { folder: folder.to_owned(), reason };
        folder::private(folder).map_err(refuse)?;
        Ok(DiskCache { folder: folder.to_owned(), limit, closed: AtomicBool::new(false) })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How many bytes it may hold.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The code of a key, if it is there.
    ///
    /// # Errors
    /// A file in its place that is not a whole and undamaged entry of that key, written by this user.
    pub fn load(&self, key: &ContentKey) -> Result<Option<(Label, Payload)>, DiskError> {
        let file = self.place(key);
        let wrong = |reason| DiskError::Entry { file: file.clone(), reason };
        let Some((open, bytes)) = folder::read(&file, MOST_BYTES).map_err(wrong)? else { return Ok(None) };
        let found = entry::decode(&bytes, key).map_err(wrong)?;
        let now = SystemTime::now();
        let used = open.metadata().and_then(|found| found.modified()).unwrap_or(now);
        if now.duration_since(used).is_ok_and(|age| age > STALE_USE) {
            // Of a folder that is read-only the order of use is not kept.
            let _ = open.set_modified(now);
        }
        Ok(Some(found))
    }

    /// Keeps the code of a key. After a write that failed nothing is written any more.
    ///
    /// # Errors
    /// A file that cannot be written, once.
    pub fn save(&self, key: &ContentKey, label: &Label, payload: &Payload) -> Result<(), DiskError> {
        let bytes = entry::encode(key, label, payload);
        if self.closed.load(Ordering::Relaxed) || bytes.len() as u64 > MOST_BYTES.min(self.limit) {
            return Ok(());
        }
        let file = self.place(key);
        let written = self.write(&file, &bytes);
        written.map_err(|source| {
            self.closed.store(true, Ordering::Relaxed);
            DiskError::Io { path: file.clone(), source }
        })?;
        self.evict(&self.shard(key), &file);
        Ok(())
    }

    fn write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        static WRITES: AtomicU64 = AtomicU64::new(0);
        let shard = file.parent().unwrap_or(&self.folder);
        folder::private(shard).map_err(io::Error::other)?;
        let number = WRITES.fetch_add(1, Ordering::Relaxed);
        let partial = file.with_extension(format!("{}-{number}.{PARTIAL}", std::process::id()));
        let done = folder::create(&partial)
            .and_then(|mut open| open.write_all(bytes))
            .and_then(|()| fs::rename(&partial, file));
        if done.is_err() {
            let _ = fs::remove_file(&partial);
        }
        done
    }

    /// Removes what a shard holds beyond its part of the limit, the entry just written last of all, and what is abandoned.
    /// What cannot be removed, or was by another process, is no error: the next write tries again.
    fn evict(&self, shard: &Path, written: &Path) {
        let Ok(mut files) = files(shard) else { return };
        let now = SystemTime::now();
        files.retain(|file| {
            let old = now.duration_since(file.used).is_ok_and(|age| age > ABANDONED);
            let abandoned = file.key.is_none() && old;
            !(abandoned && fs::remove_file(&file.path).is_ok())
        });
        files.sort_by(|a, b| (a.path == written, a.used, &a.path).cmp(&(b.path == written, b.used, &b.path)));
        let mut held: u64 = files.iter().map(|file| file.bytes).sum();
        for file in files.iter().filter(|file| file.key.is_some() && file.path != written) {
            if held <= self.limit / u64::from(SHARDS) {
                break;
            }
            let _ = fs::remove_file(&file.path);
            held -= file.bytes;
        }
    }

    /// Writes a file and removes it, as an entry would be written.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn try_to_write(&self) -> Result<(), DiskError> {
        let file = self.folder.join(format!("try-{}.{PARTIAL}", std::process::id()));
        let tried =
            folder::create(&file).and_then(|mut open| open.write_all(b"try")).and_then(|()| fs::remove_file(&file));
        tried.map_err(|source| DiskError::Io { path: file, source })
    }

    /// Every file, in the order of keys.
    ///
    /// # Errors
    /// A folder that cannot be read.
    pub fn entries(&self) -> Result<Vec<EntryFile>, DiskError> {
        let mut found = Vec::new();
        for number in 0..SHARDS {
            let shard = self.folder.join(format!("{number:02x}"));
            match files(&shard) {
                Ok(files) => found.extend(files),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(source) => return Err(DiskError::Io { path: shard, source }),
            }
        }
        Ok(found)
    }

    /// Reads and checks a file as [`DiskCache::load`] does.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self, file: &EntryFile) -> Result<Label, DiskError> {
        let wrong = |reason: &str| DiskError::Entry { file: file.path.clone(), reason: reason.to_owned() };
        let key = file.key.ok_or_else(|| wrong("is no entry: its writing did not end"))?;
        if self.place(&key) != file.path {
            return Err(wrong("does not lie where its key says"));
        }
        self.load(&key)?.map(|(label, _)| label).ok_or_else(|| wrong("is gone"))
    }

    /// Removes every file, and says how many and how many bytes.
    ///
    /// # Errors
    /// The first file that cannot be removed; all others are.
    pub fn clear(&self) -> Result<(usize, u64), DiskError> {
        let (mut count, mut bytes, mut kept) = (0, 0, None);
        for file in self.entries()? {
            match fs::remove_file(&file.path) {
                Ok(()) => (count, bytes) = (count + 1, bytes + file.bytes),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(source) => _ = kept.get_or_insert(DiskError::Io { path: file.path, source }),
            }
        }
        kept.map_or(Ok((count, bytes)), Err)
    }

    fn shard(&self, key: &ContentKey) -> PathBuf {
        self.folder.join(format!("{:02x}", key.0[0] % SHARDS))
    }

    fn place(&self, key: &ContentKey) -> PathBuf {
        self.shard(key).join(format!("{key}.{ENTRY}"))
    }
}

/// The files of a shard that this cache made, in the order of their names.
fn files(shard: &Path) -> io::Result<Vec<EntryFile>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(shard)? {
        found.extend(file(&entry?));
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// A file of a shard; `None` for what this cache did not make, or what another process has just removed.
fn file(entry: &DirEntry) -> Option<EntryFile> {
    let path = entry.path();
    let extension = path.extension()?;
    let key = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
    let ours = extension == PARTIAL || (extension == ENTRY && key.is_some());
    let found = entry.metadata().ok().filter(|_| ours)?;
    let key = key.filter(|_| extension == ENTRY);
    Some(EntryFile { bytes: found.len(), used: found.modified().ok()?, path, key })
}
