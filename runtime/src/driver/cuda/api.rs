//! The driver's functions, and what they answer.

use std::ffi::{CStr, c_char};
use std::fmt;
use std::sync::OnceLock;

use fusewright_cuda_sys as sys;

use crate::{DeviceFailure, RuntimeError};

/// Oldest driver that is used, as `cuDriverGetVersion` numbers them: that of CUDA 12.0.
const OLDEST: i32 = 12000;

/// What a function of the driver answered instead of success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Failure {
    /// The function.
    pub function: &'static str,
    /// Its status.
    pub code: i32,
    /// What the driver says of it.
    pub text: String,
}

impl Failure {
    /// Whether there was too little memory.
    pub fn is_memory(&self) -> bool {
        self.code == sys::CUDA_ERROR_OUT_OF_MEMORY
    }

    /// Whether a kernel did what no kernel may, after which the driver refuses everything else on the device.
    pub fn is_fault(&self) -> bool {
        matches!(
            self.code,
            sys::CUDA_ERROR_ILLEGAL_ADDRESS
                | sys::CUDA_ERROR_LAUNCH_TIMEOUT
                | sys::CUDA_ERROR_HARDWARE_STACK_ERROR
                | sys::CUDA_ERROR_ILLEGAL_INSTRUCTION
                | sys::CUDA_ERROR_MISALIGNED_ADDRESS
                | sys::CUDA_ERROR_INVALID_ADDRESS_SPACE
                | sys::CUDA_ERROR_INVALID_PC
                | sys::CUDA_ERROR_LAUNCH_FAILED
        )
    }
}

impl Failure {
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
        write!(f, "{}: {} ({})", self.function, self.text, self.code)
    }
}

/// The loaded driver.
pub(super) struct Api {
    pub driver: sys::Driver,
    /// Version of CUDA that the driver is of, as `cuDriverGetVersion` numbers it.
    pub version: i32,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Api")
    }
}

/// The driver of this machine, loaded once.
///
/// # Errors
/// No driver, one that is too old, or one that has no device, in words.
pub(super) fn api() -> Result<&'static Api, String> {
    static API: OnceLock<Result<Api, String>> = OnceLock::new();
    API.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Api, String> {
    let driver = sys::load().map_err(|error| {
        let system = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        let old = matches!(error, sys::Error::DlSym { .. });
        format!("{}: {system}", if old { "the NVIDIA driver is too old" } else { "no NVIDIA driver" })
    })?;
    let mut api = Api { driver, version: 0 };
    let mut version = 0;
    // SAFETY: the function writes the version, whether there is a device or not.
    api.said("cuDriverGetVersion", unsafe { api.driver.cuDriverGetVersion(&mut version) })
        .map_err(|failure| failure.to_string())?;
    if version < OLDEST {
        let [is, least] = [version, OLDEST].map(|v| format!("CUDA {}.{}", v / 1000, v % 1000 / 10));
        return Err(format!("the NVIDIA driver is too old: it is of {is}, and {least} is needed"));
    }
    api.version = version;
    // SAFETY: the function may be called at any time, by any thread.
    match api.said("cuInit", unsafe { api.driver.cuInit(0) }) {
        Ok(()) => Ok(api),
        Err(failure) if failure.code == sys::CUDA_ERROR_NO_DEVICE => Err("no NVIDIA GPU".to_owned()),
        Err(failure) => Err(failure.to_string()),
    }
}

impl Api {
    /// A status as a result.
    #[inline]
    pub fn said(&self, function: &'static str, status: sys::CUresult) -> Result<(), Failure> {
        if status == sys::CUDA_SUCCESS { Ok(()) } else { Err(self.failure(function, status)) }
    }

    #[cold]
    fn failure(&self, function: &'static str, status: sys::CUresult) -> Failure {
        Failure { function, code: status, text: self.words(status) }
    }

    fn words(&self, status: sys::CUresult) -> String {
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the function writes the address of a constant string, or null.
        let known = unsafe { self.driver.cuGetErrorString(status, &mut text) };
        if known != sys::CUDA_SUCCESS || text.is_null() {
            return "a status that the driver does not know".to_owned();
        }
        // SAFETY: the string is terminated, and lives as long as the driver.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}
