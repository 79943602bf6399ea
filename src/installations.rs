//! Where CUDA's tools and libraries lie that are looked up at run time: in its toolkit and in NVIDIA's wheels.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::knobs;

/// Folders of wheels with libraries, below the packages of a Python.
const LIBRARIES: &[&str] = &["nvidia/cu13/lib", "nvidia/cublas/lib"];
/// The same with tools.
const TOOLS: &[&str] = &["nvidia/cu13/bin", "nvidia/cuda_nvcc/bin", "triton/backends/nvidia/bin"];

/// Folders in which cuBLASLt may lie, behind where the system looks for libraries: that of the user, those of CUDA, and those
/// of NVIDIA's wheels in the environments of Python on this machine. Only folders that are there are among them, and the
/// user's, whether it is there or not.
pub(crate) fn cublaslt_folders() -> Vec<PathBuf> {
    let toolkits = toolkits().into_iter().flat_map(|home| ["lib64", "lib"].map(|lib| home.folder.join(lib)));
    let there = toolkits.chain(in_wheels(LIBRARIES)).filter(|folder| folder.is_dir());
    distinct(knobs::CUBLASLT_DIR.path().into_iter().chain(there))
}

/// A folder, and why it was looked at: the variable that names it, or what it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub folder: PathBuf,
    pub from: &'static str,
}

/// Folders in which tools of CUDA may lie, the nearest first: those of commands, those of CUDA, and those of NVIDIA's wheels.
/// Only folders that are there are among them.
pub(crate) fn tool_folders() -> Vec<Place> {
    let path = knobs::PATH.path().unwrap_or_default();
    let commands = std::env::split_paths(&path).map(|folder| Place { folder, from: knobs::PATH.name });
    let toolkits = toolkits().into_iter().map(|home| Place { folder: home.folder.join("bin"), ..home });
    let wheels = in_wheels(TOOLS).into_iter().map(|folder| Place { folder, from: "a Python package" });
    let mut seen = BTreeSet::new();
    let places = commands.chain(toolkits).chain(wheels).filter(|place| place.folder.is_dir());
    places.filter(|place| seen.insert(place.folder.clone())).collect()
}

fn distinct(folders: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    folders.filter(|folder| seen.insert(folder.clone())).collect()
}

/// Where toolkits of CUDA may be.
fn toolkits() -> Vec<Place> {
    let named = |knob: knobs::Knob| knob.path().map(|folder| Place { folder, from: knob.name });
    let usual = Place { folder: PathBuf::from("/usr/local/cuda"), from: "the usual folder of CUDA" };
    [named(knobs::CUDA_HOME), named(knobs::CUDA_PATH), Some(usual)].into_iter().flatten().collect()
}

/// Folders of wheels in every Python: of the active environments, of the commands, of the system.
fn in_wheels(folders: &[&str]) -> Vec<PathBuf> {
    let active = [knobs::VIRTUAL_ENV.path(), knobs::CONDA_PREFIX.path()].into_iter().flatten();
    let pythons = active.chain(on_path(&knobs::PATH.path().unwrap_or_default()));
    let pythons = pythons.chain(["/usr/local", "/usr", "/opt/conda"].map(PathBuf::from));
    pythons.flat_map(|home| wheels(&home, folders)).collect()
}

/// The installations whose Python a list of folders of commands has.
fn on_path(path: &Path) -> Vec<PathBuf> {
    let folders = std::env::split_paths(path).filter(|folder| folder.join("python3").exists());
    folders.filter_map(|folder| folder.parent().map(Path::to_owned)).collect()
}

/// Folders of wheels in an installation of Python.
fn wheels(home: &Path, folders: &[&str]) -> Vec<PathBuf> {
    let lib = home.join("lib");
    let Ok(entries) = std::fs::read_dir(&lib) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut pythons: Vec<String> = names.filter(|name| name.starts_with("python3")).collect();
    // Folders are read in no order that means anything.
    pythons.sort();
    let packages = pythons
        .iter()
        .flat_map(|python| ["site-packages", "dist-packages"].map(|packages| lib.join(python).join(packages)));
    packages.flat_map(|packages| folders.iter().map(move |folder| packages.join(folder))).collect()
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
        let found: Vec<PathBuf> = wheels(home.path(), LIBRARIES).into_iter().filter(|folder| folder.is_dir()).collect();
        assert_eq!(found, [lib("python3.12"), lib("python3.9")]);
        assert_eq!(wheels(&home.path().join("nothing"), TOOLS), Vec::<PathBuf>::new());
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
