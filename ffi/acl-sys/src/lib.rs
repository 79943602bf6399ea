//! The functions of Huawei's Ascend runtime and of its run-time compiler, looked up when a program runs: nothing links
//! against them, and a machine without CANN gets an error value.
//!
//! Declarations are written by hand from the vendor's public documentation ("Runtime API", "Ascend C API: RTC"), which is
//! also where the meaning of arguments is; no header of CANN was used.
#![allow(unsafe_code)]

mod functions;
#[allow(missing_docs, non_camel_case_types, non_upper_case_globals, non_snake_case)]
mod names;
mod rtc;
#[allow(missing_docs, non_camel_case_types, non_snake_case)]
mod types;

use std::path::{Path, PathBuf};

use libloading::Library;

pub use functions::Acl;
pub use libloading::Error;
pub use names::*;
pub use rtc::Rtc;
pub use types::*;

/// File name of the runtime.
pub const LIBRARY: &str = "libascendcl.so";
/// File that some versions have a part of its functions in.
pub const RUNTIME_PART: &str = "libacl_rt.so";
/// File name of the run-time compiler.
pub const RTC_LIBRARY: &str = "libacl_rtc.so";

/// Files that may be a library, in the order in which they are tried: the name alone, which the system looks up and which
/// finds a library that the process has loaded already, then the name in folders.
pub fn candidates(name: &str, folders: &[PathBuf]) -> Vec<PathBuf> {
    [PathBuf::from(name)].into_iter().chain(folders.iter().map(|folder| folder.join(name))).collect()
}

/// Loads the runtime from a file, or by a name that the system looks up.
///
/// # Errors
/// No such library, or one that lacks a function that every version has: what the system says.
pub fn load(file: &Path) -> Result<Acl, Error> {
    // SAFETY: the library is written to be loaded so; its initialisers ask nothing of the process.
    let library = unsafe { Library::new(file) }?;
    // The part lies beside the whole, or where the system looks for both.
    let part = file.with_file_name(RUNTIME_PART);
    // SAFETY: as above.
    let part = unsafe { Library::new(part) }.ok();
    Acl::of([Some(library), part].into_iter().flatten().collect())
}

/// Loads the run-time compiler from a file, or by a name that the system looks up.
///
/// # Errors
/// No such library, or one that lacks a function: what the system says.
pub fn load_rtc(file: &Path) -> Result<Rtc, Error> {
    // SAFETY: the library is written to be loaded so; its initialisers ask nothing of the process.
    let library = unsafe { Library::new(file) }?;
    Rtc::of(vec![library])
}

/// A function of the first library that has it.
///
/// # Safety
/// `T` is the type of a function pointer of that name.
unsafe fn symbol<T: Copy>(libraries: &[Library], name: &[u8]) -> Result<T, Error> {
    let mut last = Err(Error::DlSymUnknown);
    for library in libraries {
        // SAFETY: as the caller says.
        last = unsafe { library.get::<T>(name) }.map(|symbol| *symbol);
        if last.is_ok() {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_comes_before_folders() {
        let found = candidates(LIBRARY, &[PathBuf::from("a"), PathBuf::from("b")]);
        assert_eq!(found, ["libascendcl.so", "a/libascendcl.so", "b/libascendcl.so"].map(PathBuf::from));
    }

    #[test]
    fn a_missing_library_is_an_error_that_names_it() {
        let error = load(Path::new("no/such/libascendcl.so")).expect_err("there is none");
        let system = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
        assert!(system.contains("no/such/libascendcl.so"), "{system}");
    }

    #[test]
    fn structures_are_as_large_as_the_runtime_reads_them() {
        // What compilers of the vendor's packages make of them.
        assert_eq!(size_of::<aclrtLaunchKernelCfg>(), 16);
        assert_eq!(size_of::<aclrtLaunchKernelAttr>(), 20);
        assert_eq!(size_of::<aclrtBinaryLoadOption>(), 20);
        assert_eq!(size_of::<aclrtBinaryLoadOptions>(), 16);
        assert_eq!(size_of::<aclrtPlaceHolderInfo>(), 8);
        assert_eq!(std::mem::offset_of!(aclrtLaunchKernelCfg, numAttrs), 8);
        assert_eq!(std::mem::offset_of!(aclrtBinaryLoadOption, value), 4);
        assert_eq!(std::mem::offset_of!(aclrtLaunchKernelAttr, value), 4);
    }

    #[test]
    fn no_function_is_declared_twice() {
        let all: Vec<&str> = Acl::BASELINE.iter().chain(Acl::NEWER).chain(Rtc::BASELINE).copied().collect();
        let distinct: std::collections::BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(all.len(), distinct.len());
    }
}
