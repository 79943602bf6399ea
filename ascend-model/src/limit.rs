//! How much the folders of models hold: what was not used for the longest time goes first, and nothing that is in use.
//!
//! Whoever has a model holds a shared lock on a file of its folder, so that no other process removes the folder. Kernels
//! are used when they are asked for, which the time of their folder says, and are read or loaded then: those that nobody
//! asked for since a while are free to go.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::address_spaces::SPACES;
use crate::compiler::{KERNELS, Model};
use crate::together::UNITS;
use crate::whole::{REMOVED, unique};

/// The file of a model that is locked by those who have it.
const IN_USE: &str = "in-use";
/// What names of models' folders begin with.
pub(crate) const PREFIX: &str = "model-";

/// A folder that may go.
struct Candidate {
    folder: PathBuf,
    used: SystemTime,
    bytes: u64,
    /// Whether it is a model, which others may hold.
    is_model: bool,
}

/// A model's folder that is held for as long as this lives, where the system has locks.
#[derive(Debug)]
pub(crate) struct Hold {
    _locked: Option<File>,
}

/// Holds a model's folder; `None` where it was removed before that.
pub(crate) fn hold(folder: &Path) -> Option<Hold> {
    // In a folder that is read-only nothing is removed either.
    let open = File::options().create(true).truncate(false).write(true).open(folder.join(IN_USE));
    let locked = open.and_then(|file| {
        file.lock_shared()?;
        file.set_modified(SystemTime::now())?;
        Ok(file)
    });
    // Who removes a folder gives it another name while no one holds it.
    folder.exists().then_some(Hold { _locked: locked.ok() })
}

/// Says that a folder is used now, if it can be said.
pub(crate) fn touch(folder: &Path) {
    let _ = File::open(folder).and_then(|open| open.set_modified(SystemTime::now()));
}

impl Model {
    /// Removes kernels that nobody asked for since `idle`, and models of other sources or compilers that no process has,
    /// those first that were not used for the longest time, until there are no more than `limit` bytes in the folder that
    /// this model was built in. Returns how many are left.
    ///
    /// What cannot be removed, or was by another process, is no error: the next call tries again.
    pub fn trim(&self, limit: u64, idle: Duration) -> u64 {
        let Some(cache) = self.folder().parent() else { return 0 };
        let mut candidates = Vec::new();
        let mut held = 0;
        for model in folders(cache).into_iter().filter(|folder| named(folder).starts_with(PREFIX)) {
            let own = model == self.folder();
            let bytes = size(&model);
            held += bytes;
            if own {
                let made = folders(&model).into_iter().filter(|kind| KINDS.contains(&named(kind)));
                for folder in made.flat_map(|kind| folders(&kind)) {
                    candidates.push(Candidate { used: used(&folder), bytes: size(&folder), folder, is_model: false });
                }
            } else {
                candidates.push(Candidate { used: used(&model.join(IN_USE)), bytes, folder: model, is_model: true });
            }
        }
        let now = SystemTime::now();
        candidates.retain(|one| now.duration_since(one.used).is_ok_and(|age| age >= idle));
        candidates.sort_by(|a, b| (a.used, &a.folder).cmp(&(b.used, &b.folder)));
        for candidate in &candidates {
            if held <= limit {
                break;
            }
            if candidate.remove() {
                held -= candidate.bytes;
            }
        }
        held
    }
}

/// Folders of a model that hold what was compiled for it, by and by.
const KINDS: [&str; 3] = [KERNELS, UNITS, SPACES];

impl Candidate {
    /// Whether it is gone.
    fn remove(&self) -> bool {
        // A model that is being built has no such file yet, and one that was left half built never gets one.
        let lock = File::open(self.folder.join(IN_USE));
        if self.is_model && lock.as_ref().is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock))) {
            return false;
        }
        let going = self.folder.with_extension(format!("{}.{REMOVED}", unique()));
        fs::rename(&self.folder, &going).is_ok_and(|()| fs::remove_dir_all(&going).is_ok())
    }
}

fn folders(within: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(within).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path()).collect()
}

fn named(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}

fn used(path: &Path) -> SystemTime {
    // A model that is being built was last used now, for all that can be told.
    let of = |path: &Path| fs::metadata(path).and_then(|found| found.modified());
    of(path).or_else(|_| of(path.parent().unwrap_or(path))).unwrap_or_else(|_| SystemTime::now())
}

fn size(folder: &Path) -> u64 {
    let sizes = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::{Chip, Source};

    /// A compiler that writes a thousand bytes, of some version.
    fn compiler(folder: &Path, version: u32) -> PathBuf {
        let path = folder.join(format!("compiler{version}"));
        let text = format!(
            "#!/bin/sh\nout=\nfor word in \"$@\"; do\n  [ \"$last\" = -o ] && out=$word\n  last=$word\ndone\n\
             if [ -n \"$out\" ]; then head -c 1000 /dev/zero > \"$out\"; else echo {version}; fi\n"
        );
        fs::write(&path, text).expect("the folder takes files");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        path
    }

    fn build(folder: &Path, version: u32) -> Model {
        let compiler = compiler(folder, version);
        Model::build_with(&folder.join("cache"), compiler.as_os_str(), std::process::Command::output)
            .unwrap_or_else(|e| panic!("{e}"))
    }

    fn compile(model: &Model, name: &str) -> PathBuf {
        let chip = Chip { arch: 2201, buffer_bytes: 1 << 17 };
        let object = model.compile(&[Source { name, text: "int x;" }], &[], chip).unwrap_or_else(|e| panic!("{e}"));
        object.parent().expect("a folder").to_owned()
    }

    fn age(folder: &Path, seconds: u64) {
        let then = SystemTime::now() - Duration::from_secs(seconds);
        File::open(folder).and_then(|open| open.set_modified(then)).expect("its time");
    }

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn kernels_that_were_not_used_go_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let model = build(folder.path(), 1);
        let [a, b, c] = ["a", "b", "c"].map(|name| compile(&model, name));
        let all = model.trim(u64::MAX, Duration::ZERO);
        assert!(a.exists() && b.exists() && c.exists() && all > 3000);
        age(&a, 500);
        age(&b, 900);
        // One of those has to go, and it is the oldest.
        assert!(model.trim(all - 1, MINUTE) < all);
        assert!(a.exists() && !b.exists() && c.exists());
        // What was used a moment ago stays whatever the limit is, and being asked for is use.
        assert_eq!(compile(&model, "a"), a);
        model.trim(0, MINUTE);
        assert!(a.exists() && c.exists() && model.library().exists());
        age(&c, 500);
        model.trim(0, MINUTE);
        assert!(a.exists() && !c.exists());
        // What is gone is made again.
        assert_eq!(compile(&model, "b"), b);
        assert!(b.join("kernels.so").exists());
    }

    #[test]
    fn models_that_nobody_has_go_and_no_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let (old, other) = (build(folder.path(), 1), build(folder.path(), 2));
        let (old_folder, other_folder) = (old.folder().to_owned(), other.folder().to_owned());
        let model = build(folder.path(), 3);
        for folder in [&old_folder, &other_folder] {
            age(&folder.join(IN_USE), 500);
        }
        drop(old);
        model.trim(0, MINUTE);
        assert!(!old_folder.exists() && other_folder.exists() && model.folder().exists());
        drop(other);
        model.trim(u64::MAX, MINUTE);
        assert!(other_folder.exists());
        model.trim(0, MINUTE);
        assert!(!other_folder.exists());
        // Who needs one that went builds it again.
        assert_eq!(build(folder.path(), 1).folder(), old_folder);
        assert!(old_folder.join(IN_USE).exists());
    }
}
