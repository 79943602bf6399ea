//! How calls end, and what the last of a thread says of its failure.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use fusewright_runtime::RuntimeError;
use fusewright_runtime::bundle::BundleError;

/// How a call ended.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// As asked.
    Ok = 0,
    /// An argument that is null where it must not be, or does not fit what it is for.
    Argument = 1,
    /// A bundle that cannot be read, is damaged, or is of another version.
    Bundle = 2,
    /// No device, driver or processor for the kernel.
    Device = 3,
    /// A launch that failed.
    Launch = 4,
    /// A defect of the library.
    Internal = 5,
}

/// A failure with its text.
#[derive(Debug)]
pub(crate) struct Failure {
    pub status: Status,
    pub text: String,
}

impl Failure {
    pub fn argument(text: impl Into<String>) -> Failure {
        Failure { status: Status::Argument, text: text.into() }
    }
}

impl From<BundleError> for Failure {
    fn from(error: BundleError) -> Failure {
        let status = match &error {
            BundleError::Device(_) => Status::Device,
            BundleError::Missing { .. } | BundleError::NoVariant { .. } => Status::Argument,
            _ => Status::Bundle,
        };
        Failure { status, text: error.to_string() }
    }
}

impl From<RuntimeError> for Failure {
    fn from(error: RuntimeError) -> Failure {
        let status = match &error {
            RuntimeError::Unavailable { .. } => Status::Device,
            RuntimeError::Arguments { .. } => Status::Argument,
            _ => Status::Launch,
        };
        Failure { status, text: error.to_string() }
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs what a function does; keeps the text of its failure.
pub(crate) fn guarded(body: impl FnOnce() -> Result<(), Failure>) -> Status {
    let ended = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Failure { status: Status::Internal, text: format!("a defect: {}", said.unwrap_or("a panic")) })
    });
    let (status, text) = match ended {
        Ok(()) => (Status::Ok, String::new()),
        Err(failure) => (failure.status, failure.text),
    };
    LAST.with_borrow_mut(|last| *last = CString::new(text.replace('\0', " ")).unwrap_or_default());
    status
}

/// What the last call of this thread failed with, empty if it did not: UTF-8, the library's, until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn fusewright_last_error() -> *const c_char {
    LAST.with_borrow(|last| last.as_ptr())
}

/// The version of the calling convention of kernels, which bundles state as well.
#[unsafe(no_mangle)]
pub extern "C" fn fusewright_abi_version() -> u32 {
    fusewright_abi::ABI_VERSION
}
