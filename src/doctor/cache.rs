//! The kernel cache: where it is and why there, and whether it can be used.

use std::path::{Path, PathBuf};

use super::{Finding, Section};
use crate::knobs;
use crate::store::{CacheChoice, kernel_cache, limit};

pub(super) fn findings() -> Vec<Finding> {
    let located = CacheChoice::Environment.located();
    of(located, limit())
}

/// Reports a folder, what chose it, and the limit of the cache.
fn of(located: Result<Option<(PathBuf, &'static str)>, String>, limit: Result<u64, String>) -> Vec<Finding> {
    let knob = knobs::CACHE_DIR.name;
    let (folder, by) = match located {
        Ok(Some(found)) => found,
        Ok(None) => return vec![cache("folder", format!("off, by {knob}"), "every process compiles its kernels")],
        Err(reason) => {
            return vec![cache("folder", reason, NOT_KEPT).advising(format!("name a folder by {knob}"))];
        }
    };
    let named = by == knob;
    let found = format!("{}, by {by}", folder.display());
    let wrong = |reason: String| {
        let finding = cache("folder", format!("{found}: {reason}"), NOT_KEPT);
        let remedy = format!("name a folder of yours that nobody else can write by {knob}, or `off`");
        if named { finding.failing(remedy) } else { finding.advising(remedy) }
    };
    let limit = match limit {
        Ok(limit) => limit,
        // Its own line says what to do.
        Err(reason) => return vec![cache("folder", format!("{found}: {reason}"), NOT_KEPT)],
    };
    if !folder.exists() {
        return match can_be_made(&folder) {
            Ok(()) => vec![cache("folder", format!("{found}: not there yet"), "made when the first kernel is kept")],
            Err(reason) => vec![wrong(reason)],
        };
    }
    let opened = kernel_cache(&CacheChoice::Folder(folder.clone()));
    let cache_there = match opened {
        Ok(Some(cache)) => cache,
        Ok(None) => return Vec::new(),
        Err(reason) => return vec![wrong(reason)],
    };
    if let Err(error) = cache_there.try_to_write() {
        return vec![wrong(error.to_string())];
    }
    let content = match cache_there.entries() {
        Ok(entries) => {
            let bytes: u64 = entries.iter().map(|entry| entry.bytes).sum();
            cache("content", format!("{}, {bytes} of {limit} bytes", counted(entries.len())), CONTENT)
        }
        Err(error) => cache("content", error.to_string(), CONTENT).advising("`fusewright cache clear`"),
    };
    vec![cache("folder", format!("{found}: can be written"), "keeps compiled kernels for later processes"), content]
}

/// The consequence of having no cache.
const NOT_KEPT: &str = "kernels are not kept: every process compiles its own";
const CONTENT: &str = "the least recently used goes when it is full";

fn cache(subject: &str, found: impl Into<String>, used: impl Into<String>) -> Finding {
    Finding::new(Section::Cache, subject, found, used)
}

fn counted(entries: usize) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") }
}

/// Checks that a folder that is not there could be made.
///
/// # Errors
/// Why not, in words.
pub(super) fn can_be_made(folder: &Path) -> Result<(), String> {
    let absolute = std::path::absolute(folder).map_err(|error| error.to_string())?;
    let above = absolute.ancestors().find(|above| above.exists());
    let above = above.ok_or_else(|| "nothing above it exists".to_owned())?;
    if !above.is_dir() {
        return Err(format!("cannot be made: {} is no folder", above.display()));
    }
    // Permissions do not tell: a mount may be read-only, and systems have folders like `/proc` that nothing can be made in.
    let tried = above.join(format!(".fusewright-try-{}", std::process::id()));
    std::fs::create_dir(&tried)
        .and_then(|()| std::fs::remove_dir(&tried))
        .map_err(|error| format!("cannot be made in {}: {error}", above.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(folder: &Path) -> Result<Option<(PathBuf, &'static str)>, String> {
        Ok(Some((folder.to_owned(), knobs::CACHE_DIR.name)))
    }

    #[test]
    fn a_folder_is_looked_at_and_not_made() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("a/b");
        let [finding] = of(named(&folder), Ok(1 << 20)).try_into().expect("one line");
        assert!(finding.problem.is_none() && finding.found.contains("not there yet"), "{finding:?}");
        assert!(!root.path().join("a").exists());
        kernel_cache(&CacheChoice::Folder(folder.clone())).expect("it can be made");
        assert_eq!(std::fs::read_dir(root.path()).expect("it is there").count(), 1, "what was tried is gone");
        let findings = of(named(&folder), Ok(1 << 20));
        assert!(findings.iter().all(|finding| finding.problem.is_none()), "{findings:?}");
        assert!(findings[0].found.ends_with("by FUSEWRIGHT_CACHE_DIR: can be written"), "{findings:?}");
        assert_eq!(findings[1].found, format!("0 entries, 0 of {} bytes", 1 << 20));
        assert_eq!(std::fs::read_dir(&folder).expect("it is there").count(), 0, "nothing is left in it");
    }

    #[test]
    fn a_folder_that_cannot_be_used_fails_only_where_a_variable_names_it() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("file");
        std::fs::write(&file, "").expect("there is room");
        for folder in [file.clone(), file.join("below")] {
            let [finding] = of(named(&folder), Ok(1 << 20)).try_into().expect("one line");
            assert!(finding.problem.as_ref().is_some_and(|problem| problem.fails), "{finding:?}");
            assert!(finding.found.contains("file") && finding.used.contains("not kept"), "{finding:?}");
            let of_system = Ok(Some((folder, "the system's usual folder")));
            let [finding] = of(of_system, Ok(1 << 20)).try_into().expect("one line");
            assert!(finding.problem.is_some_and(|problem| !problem.fails));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_in_which_nothing_can_be_made_is_found_out() {
        let [finding] = of(named(Path::new("/proc/cache")), Ok(1)).try_into().expect("one line");
        assert!(finding.found.contains("cannot be made in /proc"), "{finding:?}");
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_others_may_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().expect("a folder");
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o777)).expect("it is ours");
        let [finding] = of(named(root.path()), Ok(1 << 20)).try_into().expect("one line");
        assert!(finding.found.contains("may be written by others"), "{finding:?}");
        assert!(finding.problem.is_some_and(|problem| problem.fails && problem.remedy.contains("CACHE_DIR")));
    }

    #[test]
    fn off_is_no_problem() {
        let [finding] = of(Ok(None), Ok(1)).try_into().expect("one line");
        assert!(finding.problem.is_none() && finding.found.starts_with("off"), "{finding:?}");
    }
}
