//! Gives the emitters an identity: a hash of the sources that decide what code comes of a kernel. It enters every key, so
//! that no cache holds code of another emitter.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

/// This crate, and what it is built with where that lies beside it.
const SOURCES: [&str; 3] = ["src", "../graph/src", "../abi/src"];

fn main() -> io::Result<()> {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = BTreeMap::new();
    for source in SOURCES.map(|source| root.join(source)).iter().filter(|source| source.is_dir()) {
        println!("cargo::rerun-if-changed={}", source.display());
        collect(&root, source, &mut files)?;
    }
    let mut hash = DefaultHasher::new();
    files.hash(&mut hash);
    println!("cargo::rustc-env=FUSEWRIGHT_EMITTER={} {:016x}", env!("CARGO_PKG_VERSION"), hash.finish());
    Ok(())
}

/// The contents of all files below a folder, by their paths from the root.
fn collect(root: &Path, folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else {
            let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
            files.insert(name, std::fs::read(&path)?);
        }
    }
    Ok(())
}
