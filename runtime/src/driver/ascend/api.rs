//! The runtime's functions, and what they answer.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fusewright_acl_sys as sys;

use crate::{DeviceFailure, RuntimeError};

/// What a function of the runtime answered instead of success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure {
    /// The function.
    pub function: &'static str,
    /// Its answer.
    pub code: sys::aclError,
    /// What the runtime says of it; may be nothing.
    pub text: String,
}

impl Failure {
    /// Whether there was too little memory.
    pub fn is_memory(&self) -> bool {
        matches!(self.code, sys::ACL_ERROR_RT_MEMORY_ALLOCATION | sys::ACL_ERROR_BAD_ALLOC)
    }

    /// Whether a kernel did what no kernel may, after which nothing on the device is as it should be.
    pub fn is_fault(&self) -> bool {
        matches!(
            self.code,
            sys::ACL_ERROR_RT_AICORE_TIMEOUT
                | sys::ACL_ERROR_RT_AICORE_EXCEPTION
                | sys::ACL_ERROR_RT_AICORE_TRAP_EXCEPTION
                | sys::ACL_ERROR_RT_VECTOR_CORE_TIMEOUT
                | sys::ACL_ERROR_RT_VECTOR_CORE_EXCEPTION
                | sys::ACL_ERROR_RT_VECTOR_CORE_TRAP_EXCEPTION
                | sys::ACL_ERROR_RT_SYS_DMA
                | sys::ACL_ERROR_RT_LOST_HEARTBEAT
        )
    }

    /// The failure of work that is no launch of one kernel.
    pub fn during(&self, action: &'static str) -> RuntimeError {
        let failure = match self {
            _ if self.is_memory() => DeviceFailure::Memory,
            _ if self.is_fault() => DeviceFailure::Fault,
            _ => DeviceFailure::Refused,
        };
        RuntimeError::Device { action, failure, reason: self.to_string() }
    }

    /// The failure of loading or launching a kernel.
    pub fn of(&self, kernel: &str) -> RuntimeError {
        let (kernel, reason) = (kernel.to_owned(), self.to_string());
        if self.is_fault() {
            RuntimeError::Fault { kernel, reason }
        } else if self.is_memory() {
            RuntimeError::Memory { kernel, reason }
        } else {
            RuntimeError::Driver { kernel, reason }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { function, code, text } = self;
        match sys::name_of(*code) {
            Some(name) => write!(f, "{function}: {name} ({code})")?,
            None => write!(f, "{function}: answer {code}")?,
        }
        if text.is_empty() { Ok(()) } else { write!(f, ": {text}") }
    }
}

/// The loaded runtime.
pub(super) struct Api {
    pub acl: sys::Acl,
    /// The file that it is of, or the name that the system looked up.
    pub file: PathBuf,
    /// Whether it only stands for a device.
    pub simulated: bool,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Api({})", self.file.display())
    }
}

/// The first of these files that is a runtime, loaded and initialised once in the life of this process.
///
/// # Errors
/// No such file, one that is too old, or one that cannot be initialised, in words.
pub(super) fn api(files: &[PathBuf]) -> Result<&'static Api, String> {
    static LOADED: Mutex<BTreeMap<PathBuf, &'static Api>> = Mutex::new(BTreeMap::new());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(api) = files.iter().find_map(|file| loaded.get(file).copied()) {
        return Ok(api);
    }
    // A runtime stays: others may use it, and threads that it has started do.
    let api: &'static Api = Box::leak(Box::new(load(files)?));
    loaded.insert(api.file.clone(), api);
    Ok(api)
}

fn load(files: &[PathBuf]) -> Result<Api, String> {
    let mut tried = Vec::with_capacity(files.len());
    for file in files {
        match sys::load(file) {
            Ok(acl) => {
                let api = Api { simulated: acl.simulated().is_some(), acl, file: file.clone() };
                return api.init().map(|()| api);
            }
            Err(error @ sys::Error::DlSym { .. }) => {
                return Err(format!("{} is too old, CANN 8.1 is needed: {}", file.display(), system(&error)));
            }
            Err(error) => tried.push(system(&error)),
        }
    }
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let said = tried.first().map(|said| format!(": {said}")).unwrap_or_default();
    Err(format!("no Ascend runtime: looked for {}{said}", names.join(", ")))
}

/// What the system says of a library that it did not load.
pub(super) fn system(error: &sys::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

impl Api {
    /// Initialises the runtime, unless another library of the process has.
    fn init(&self) -> Result<(), String> {
        // SAFETY: the function may be called at any time; without a file the defaults hold.
        match self.said("aclInit", unsafe { (self.acl.aclInit)(std::ptr::null()) }) {
            Err(failure) if failure.code != sys::ACL_ERROR_REPEAT_INITIALIZE => Err(failure.to_string()),
            _ => Ok(()),
        }
    }

    /// An answer as a result.
    pub fn said(&self, function: &'static str, answer: sys::aclError) -> Result<(), Failure> {
        if answer == sys::ACL_SUCCESS {
            return Ok(());
        }
        // SAFETY: the function gives a terminated string of this thread's last failure, or null.
        let text = unsafe { text((self.acl.aclGetRecentErrMsg)()) };
        Err(Failure { function, code: answer, text })
    }

    /// Version of the runtime, as the library numbers it.
    pub fn version(&self) -> Option<(i32, i32, i32)> {
        let (mut major, mut minor, mut patch) = (0, 0, 0);
        // SAFETY: the function writes three numbers.
        let answer = unsafe { (self.acl.aclrtGetVersion)(&mut major, &mut minor, &mut patch) };
        self.said("aclrtGetVersion", answer).ok().map(|()| (major, minor, patch))
    }

    /// The folder of the library, if it was loaded from one.
    pub fn folder(&self) -> Option<&Path> {
        self.file.parent().filter(|folder| !folder.as_os_str().is_empty())
    }
}

/// A string of the runtime; empty for null.
///
/// # Safety
/// It is null or terminated and alive.
pub(super) unsafe fn text(from: sys::Text) -> String {
    if from.is_null() {
        return String::new();
    }
    // SAFETY: as the caller says.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().trim().to_owned()
}
