//! Links what LLVM needs of the system from static archives, where there are some: not every machine has these libraries.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Libraries that static LLVM may name and that no Linux promises to have.
const ARCHIVES: [&str; 2] = ["libffi.a", "libzstd.a"];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let built = |feature: &str| std::env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
    if !built("LLVM") && !built("CUDA") {
        return;
    }
    let Some(out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    for name in ARCHIVES {
        match archive(name) {
            // The linker takes an archive from a folder that has no shared library of the name.
            Some(found) => link(&found, &out.join(name)),
            None => println!("cargo:warning=no static {name}: the module needs the shared library"),
        }
    }
    println!("cargo:rustc-link-search=native={}", out.display());
}

/// Where the compiler finds an archive.
fn archive(name: &str) -> Option<PathBuf> {
    let asked = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    path.is_absolute().then_some(path)
}

fn link(from: &Path, to: &Path) {
    if let Err(error) = std::fs::copy(from, to) {
        println!("cargo:warning={}: {error}", from.display());
    }
}
