//! Where libraries of vendors lie that are looked up at run time, behind where the system looks for libraries.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::knobs;

/// Folders in which cuBLASLt may lie: that of the user, those of CUDA, and those of NVIDIA's wheels in the environments of
/// Python on this machine. Only folders that are there are among them, and the user's, whether it is there or not.
pub(crate) fn cublaslt_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = knobs::CUBLASLT_DIR.path().into_iter().collect();
    let homes = [knobs::CUDA_HOME.path(), knobs::CUDA_PATH.path(), Some(PathBuf::from("/usr/local/cuda"))];
    let toolkits = homes.into_iter().flatten().flat_map(|home| ["lib64", "lib"].map(|lib| home.join(lib)));
    let pythons = [knobs::VIRTUAL_ENV.path(), knobs::CONDA_PREFIX.path()].into_iter().flatten();
    let pythons = pythons.chain(on_path(&knobs::PATH.path().unwrap_or_default()));
    let pythons = pythons.chain(["/usr/local", "/usr", "/opt/conda"].map(PathBuf::from));
    let found = toolkits.chain(pythons.flat_map(|home| wheels(&home)));
    folders.extend(found.filter(|folder| folder.is_dir()));
    let mut seen = BTreeSet::new();
    folders.retain(|folder| seen.insert(folder.clone()));
    folders
}

/// The installations whose Python a list of folders of commands has.
fn on_path(path: &Path) -> Vec<PathBuf> {
    let folders = std::env::split_paths(path).filter(|folder| folder.join("python3").exists());
    folders.filter_map(|folder| folder.parent().map(Path::to_owned)).collect()
}

/// The folders of NVIDIA's wheels in an installation of Python.
fn wheels(home: &Path) -> Vec<PathBuf> {
    let lib = home.join("lib");
    let Ok(entries) = std::fs::read_dir(&lib) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut pythons: Vec<String> = names.filter(|name| name.starts_with("python3")).collect();
    // Folders are read in no order that means anything.
    pythons.sort();
    let packages = pythons.iter().flat_map(|python| {
        ["site-packages", "dist-packages"].map(|packages| lib.join(python).join(packages).join("nvidia"))
    });
    packages.flat_map(|nvidia| ["cu13/lib", "cublas/lib"].map(|folder| nvidia.join(folder))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_of_every_python_are_found() {
        let home = tempfile::tempdir().expect("a folder");
        let lib = |python: &str| home.path().join("lib").join(python).join("site-packages/nvidia/cu13/lib");
        for python in ["python3.12", "python3.9"] {
            std::fs::create_dir_all(lib(python)).expect("a folder");
        }
        let found: Vec<PathBuf> = wheels(home.path()).into_iter().filter(|folder| folder.is_dir()).collect();
        assert_eq!(found, [lib("python3.12"), lib("python3.9")]);
        assert_eq!(wheels(&home.path().join("nothing")), Vec::<PathBuf>::new());
    }

    #[test]
    fn the_python_of_the_command_line_is_found() {
        let home = tempfile::tempdir().expect("a folder");
        let (with, without) = (home.path().join("a/bin"), home.path().join("b/bin"));
        for folder in [&with, &without] {
            std::fs::create_dir_all(folder).expect("a folder");
        }
        std::fs::write(with.join("python3"), "").expect("a file");
        let path = std::env::join_paths([&without, &with]).expect("names without colons");
        assert_eq!(on_path(Path::new(&path)), [home.path().join("a")]);
    }
}
