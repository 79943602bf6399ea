//! The kernel cache on disk as compilers use it: a help, never a condition. What is wrong with it is said once, and the
//! kernel is compiled.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use etcetera::BaseStrategy;
use fusewright_abi::{ContentKey, Payload, PayloadKind};
use fusewright_runtime::disk::{DiskCache, Label};

use crate::knobs;

/// Most megabytes of a cache unless [`knobs::CACHE_MB`] says otherwise: thousands of kernels.
const MEGABYTES: u64 = 256;
/// The value of [`knobs::CACHE_DIR`] that means none.
const OFF: &str = "off";

/// Where compiled kernels are kept from process to process.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum CacheChoice {
    /// Where [`knobs::CACHE_DIR`] says, else in the folder of the system for caches of this user.
    #[default]
    Environment,
    /// Nowhere.
    Off,
    /// In that folder.
    Folder(PathBuf),
}

impl CacheChoice {
    /// The folder; `None` where kernels are not kept.
    ///
    /// # Errors
    /// No folder of this user for caches.
    pub fn folder(&self) -> Result<Option<PathBuf>, String> {
        self.located().map(|found| found.map(|(folder, _)| folder))
    }

    /// As [`CacheChoice::folder`], with what chose it: a variable, the usual folder of the system, or an option.
    pub(crate) fn located(&self) -> Result<Option<(PathBuf, &'static str)>, String> {
        match self {
            CacheChoice::Off => Ok(None),
            CacheChoice::Folder(folder) => Ok(Some((folder.clone(), "an option"))),
            CacheChoice::Environment => match knobs::CACHE_DIR.path() {
                Some(folder) if folder == Path::new(OFF) => Ok(None),
                Some(folder) => Ok(Some((folder, knobs::CACHE_DIR.name))),
                None => match etcetera::choose_base_strategy() {
                    Ok(user) => Ok(Some((user.cache_dir().join("fusewright"), chosen_by(&user.cache_dir())))),
                    Err(e) => Err(format!("kernel cache: {e}; {} names a folder", knobs::CACHE_DIR.name)),
                },
            },
        }
    }
}

/// The variable or rule that chose the system's folder for caches.
fn chosen_by(caches: &Path) -> &'static str {
    let knob = knobs::XDG_CACHE_HOME;
    if knob.path().is_some_and(|named| named == caches) { knob.name } else { "the system's usual folder" }
}

/// Opens the kernel cache; `None` where kernels are not kept.
///
/// # Errors
/// In words, a folder that cannot be used, or a size that is no number.
pub fn kernel_cache(choice: &CacheChoice) -> Result<Option<DiskCache>, String> {
    let Some((folder, from)) = choice.located()? else { return Ok(None) };
    let is_variable = [knobs::CACHE_DIR.name, knobs::XDG_CACHE_HOME.name].contains(&from);
    let wrong = |message: String| if is_variable { format!("{from}: {message}") } else { message };
    DiskCache::open(&folder, limit()?).map(Some).map_err(|e| wrong(e.to_string()))
}

/// How many bytes the cache may hold, and what the host model of NPUs keeps beside it as many again.
///
/// # Errors
/// In words, a size that is no number.
pub(crate) fn limit() -> Result<u64, String> {
    let megabytes = match knobs::CACHE_MB.read() {
        None => MEGABYTES,
        Some(text) => {
            text.parse().map_err(|_| format!("{}: `{text}` is no number of megabytes", knobs::CACHE_MB.name))?
        }
    };
    Ok(megabytes.saturating_mul(1 << 20))
}

/// A cache on disk, if there is one, and the first thing that was wrong with it.
#[derive(Default)]
pub(crate) struct Store {
    disk: Option<DiskCache>,
    warning: Mutex<Option<String>>,
}

impl Store {
    pub fn of(choice: &CacheChoice) -> Store {
        let (disk, warning) = match kernel_cache(choice) {
            Ok(disk) => (disk, None),
            Err(reason) => (None, Some(format!("{reason}; kernels are not kept"))),
        };
        Store { disk, warning: Mutex::new(warning) }
    }

    /// The payload of a key, if a whole one of that label and kind is there.
    pub fn load(&self, key: &ContentKey, label: &Label, kind: PayloadKind) -> Option<Payload> {
        match self.disk.as_ref()?.load(key) {
            Ok(Some((found, payload))) if found == *label && payload.kind == kind => Some(payload),
            Ok(Some((found, _))) => {
                let (target, kernel) = (found.target, found.kernel);
                self.warn(format!("kernel cache: {key} is `{kernel}` for `{target}`; it is compiled anew"));
                None
            }
            Ok(None) => None,
            Err(error) => {
                self.warn(format!("{error}; it is compiled anew"));
                None
            }
        }
    }

    pub fn save(&self, key: &ContentKey, label: &Label, payload: &Payload) {
        let saved = self.disk.as_ref().map_or(Ok(()), |disk| disk.save(key, label, payload));
        if let Err(error) = saved {
            self.warn(format!("{error}; kernels are not kept"));
        }
    }

    /// Whether there is a cache.
    pub fn is_open(&self) -> bool {
        self.disk.is_some()
    }

    pub fn warning(&self) -> Option<String> {
        self.warning.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps the first thing that was wrong.
    pub fn warn(&self, message: String) {
        self.warning.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(message);
    }
}
