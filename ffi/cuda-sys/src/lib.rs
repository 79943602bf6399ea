//! The CUDA driver's functions, looked up in `libcuda` when a program runs: nothing links against it, and a machine
//! without a driver gets an error value.
//!
//! The bindings are made by `bindgen` from `include/driver.h`; `tests/bindings.rs` compares them with it. Signatures and
//! the meaning of arguments are those of NVIDIA's "CUDA Driver API".
#![allow(unsafe_code)]

#[allow(missing_docs, non_camel_case_types, non_snake_case, clippy::all, clippy::undocumented_unsafe_blocks)]
mod bindings;

pub use bindings::*;
pub use libloading::Error;

/// Names under which systems know the driver, in the order in which they are tried.
const NAMES: &[&str] = if cfg!(windows) { &["nvcuda.dll"] } else { &["libcuda.so.1", "libcuda.so"] };

/// Loads the driver.
///
/// # Errors
/// No driver: what the system says of the last name that was tried. A driver that lacks one of the functions: its name.
pub fn load() -> Result<Driver, Error> {
    let mut tried = Err(Error::DlOpenUnknown);
    for name in NAMES {
        // SAFETY: the driver is written to be loaded so; its initialisers ask nothing of the process.
        tried = unsafe { Driver::new(name) };
        if !matches!(tried, Err(Error::DlOpen { .. })) {
            break;
        }
    }
    tried
}
