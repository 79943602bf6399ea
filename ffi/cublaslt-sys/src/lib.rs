//! The functions of cuBLASLt, looked up in `libcublasLt` when a program runs: nothing links against it, and a machine
//! without the library gets an error value.
//!
//! The bindings are made by `bindgen` from `include/cublaslt.h`; `tests/bindings.rs` compares them with it. Signatures and
//! the meaning of arguments are those of NVIDIA's "cuBLAS Library".
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};

#[allow(missing_docs, non_camel_case_types, non_snake_case, clippy::all, clippy::undocumented_unsafe_blocks)]
mod bindings;

pub use bindings::*;
pub use libloading::Error;

/// Names under which systems know the library, newest first.
pub const NAMES: &[&str] = if cfg!(windows) {
    &["cublasLt64_13.dll", "cublasLt64_12.dll", "cublasLt64_11.dll"]
} else {
    &["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11"]
};

/// Files that may be the library, in the order in which they are tried: the names alone, which the system looks up and
/// which find a library that the process has loaded already, then the names in folders.
pub fn candidates(folders: &[PathBuf]) -> Vec<PathBuf> {
    let in_folder = |folder: &PathBuf| NAMES.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
    NAMES.iter().map(PathBuf::from).chain(folders.iter().flat_map(in_folder)).collect()
}

/// Loads the library from a file, or by a name that the system looks up.
///
/// # Errors
/// No such library, or one that lacks one of the functions: what the system says.
pub fn load(file: &Path) -> Result<CublasLt, Error> {
    // SAFETY: the library is written to be loaded so; its initialisers ask nothing of the process.
    unsafe { CublasLt::new(file) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_folders_and_newer_before_older() {
        let found = candidates(&[PathBuf::from("a"), PathBuf::from("b")]);
        assert_eq!(found.len(), 3 * NAMES.len());
        assert_eq!(found[0], Path::new(NAMES[0]));
        assert_eq!(found[NAMES.len()], Path::new("a").join(NAMES[0]));
        assert_eq!(found[3 * NAMES.len() - 1], Path::new("b").join(NAMES[2]));
    }

    #[test]
    fn results_of_the_search_are_laid_out_as_the_library_writes_them() {
        assert_eq!(std::mem::size_of::<cublasLtMatmulAlgo_t>(), 64);
        assert_eq!(std::mem::size_of::<cublasLtMatmulHeuristicResult_t>(), 96);
        assert_eq!(std::mem::offset_of!(cublasLtMatmulHeuristicResult_t, workspaceSize), 64);
        assert_eq!(std::mem::offset_of!(cublasLtMatmulHeuristicResult_t, state), 72);
    }
}
