//! Binaries that a runtime has loaded, and their functions.

use std::ffi::CString;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use fusewright_acl_sys as sys;

use super::api::{Api, Failure};
use super::context::Current;

/// How the files begin that compilers make.
pub(super) const ELF: &[u8] = b"\x7fELF";

/// Has the runtime load a binary for vector cores.
///
/// # Errors
/// A binary that it does not take; no place for a file, where it takes nothing else.
pub(super) fn load(current: &Current<'_>, image: &[u8]) -> Result<sys::aclrtBinHandle, Refusal> {
    let api = current.context.api;
    let mut magic = sys::aclrtBinaryLoadOption {
        kind: sys::ACL_RT_BINARY_LOAD_OPT_MAGIC,
        value: [sys::ACL_RT_BINARY_MAGIC_ELF_VECTOR_CORE, 0, 0, 0],
    };
    let mut options = sys::aclrtBinaryLoadOptions { options: &mut magic, numOpt: 1 };
    let mut raw = null_mut();
    if let Some(load) = api.acl.aclrtBinaryLoadFromData {
        // SAFETY: the image and the options live through the call; the function writes one handle.
        let answer = unsafe { load(image.as_ptr().cast(), image.len(), &options, &mut raw) };
        return api.said("aclrtBinaryLoadFromData", answer).map(|()| raw).map_err(Refusal::Runtime);
    }
    let file = Temporary::with(image)?;
    let path = CString::new(file.0.as_os_str().as_bytes()).map_err(|_| Refusal::File("its path has a zero".into()))?;
    // SAFETY: the path is terminated, it and the options live through the call; the function writes one handle.
    let answer = unsafe { (api.acl.aclrtBinaryLoadFromFile)(path.as_ptr(), &mut options, &mut raw) };
    api.said("aclrtBinaryLoadFromFile", answer).map(|()| raw).map_err(Refusal::Runtime)
}

/// Why a binary is not loaded.
pub(super) enum Refusal {
    Runtime(Failure),
    File(String),
}

/// A function of a binary, by name.
pub(super) fn function(api: &Api, binary: sys::aclrtBinHandle, name: &str) -> Result<sys::aclrtFuncHandle, String> {
    let name = CString::new(name).map_err(|_| "its name is no word".to_owned())?;
    let mut function = null_mut();
    // SAFETY: the binary is loaded, the name terminated, and the function writes one handle.
    let answer = unsafe { (api.acl.aclrtBinaryGetFunction)(binary, name.as_ptr(), &mut function) };
    api.said("aclrtBinaryGetFunction", answer).map(|()| function).map_err(|failure| failure.to_string())
}

/// A file that nobody else can read, until the value is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn with(bytes: &[u8]) -> Result<Temporary, Refusal> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("fusewright-{}-{number}.o", std::process::id()));
        let failed = |error: std::io::Error| Refusal::File(format!("{}: {error}", path.display()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
        let written = Temporary(path.clone());
        file.write_all(bytes).map_err(failed)?;
        Ok(written)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // A file that is gone needs no removing.
        let _ = fs::remove_file(&self.0);
    }
}
