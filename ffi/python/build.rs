//! Links what LLVM needs of the system from static archives, where there are some: not every machine has these libraries, or has
//! them as new.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Libraries that static LLVM may name and that no Linux promises to have.
const ARCHIVES: [&str; 3] = ["libffi.a", "libstdc++.a", "libzstd.a"];

/// A function that archives of LLVM for a newer glibc call.
const OLDER_GLIBC: &str = "older_glibc.c";

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
    println!("cargo:rerun-if-changed={OLDER_GLIBC}");
    // Objects, as the linker would look into an archive before LLVM asks for what is in it.
    if std::env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|libc| libc == "gnu") {
        match cc::Build::new().file(OLDER_GLIBC).warnings(true).try_compile_intermediates() {
            Ok(objects) => objects.iter().for_each(|o| println!("cargo:rustc-cdylib-link-arg={}", o.display())),
            Err(error) => println!("cargo:warning=the module needs a glibc as new as LLVM's archives: {error}"),
        }
    }
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
