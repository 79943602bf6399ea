//! Environment variables that change behaviour: the only place that reads them.

use std::path::PathBuf;

/// One environment variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Knob {
    /// Name.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
}

impl Knob {
    /// The value, if it is set and valid Unicode.
    pub fn read(&self) -> Option<String> {
        std::env::var(self.name).ok()
    }

    /// The value as a path, if it is set and not empty.
    pub fn path(&self) -> Option<PathBuf> {
        std::env::var_os(self.name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }
}

/// Folder where every stage of compilation is written.
pub const DUMP_DIR: Knob = Knob {
    name: "FUSEWRIGHT_DUMP_DIR",
    doc: "folder for every stage of compilation: the graph after each pass, regions, Kernel IR, code",
};

/// Folder of the kernel cache.
pub const CACHE_DIR: Knob = Knob {
    name: "FUSEWRIGHT_CACHE_DIR",
    doc: "folder of the kernel cache, `off` for none; else `fusewright` in the folder of the system for caches",
};

/// Size of the kernel cache.
pub const CACHE_MB: Knob =
    Knob { name: "FUSEWRIGHT_CACHE_MB", doc: "most megabytes that the kernel cache holds [default: 256]" };

/// How rows of GPU kernels are spread over blocks and threads.
pub const SCHEDULES: Knob = Knob {
    name: "FUSEWRIGHT_SCHEDULES",
    doc: "table of schedules of GPU kernels, as `bench --tune` writes it; ignored, with a warning, where it is for another target",
};

/// Which compilers make CPU kernels.
pub const TIERS: Knob = Knob {
    name: "FUSEWRIGHT_TIERS",
    doc: "compilers of target `cpu`: `off` Cranelift, `on` Cranelift and LLVM behind the calls, `llvm` LLVM before them",
};

/// Which assembler makes code of kernels for NVIDIA GPUs.
pub const PTXAS: Knob = Knob {
    name: "FUSEWRIGHT_PTXAS",
    doc: "the `ptxas` that assembles kernels for `cuda`, `off` for the driver's own; else the first of PATH, CUDA_HOME, wheels",
};

/// Every knob, in alphabetical order.
pub const ALL: &[Knob] = &[CACHE_DIR, CACHE_MB, DUMP_DIR, PTXAS, SCHEDULES, TIERS];

/// Where CUDA lies unless someone says otherwise.
const CUDA: &str = "/usr/local/cuda";
/// Where wheels put the tools of CUDA, below the packages of a Python environment.
const WHEELS: [&str; 3] = ["nvidia/cu13/bin", "nvidia/cuda_nvcc/bin", "triton/backends/nvidia/bin"];

/// The folders in which tools of CUDA may lie, the nearest first: of `PATH`, of CUDA, of the active Python environment.
pub(crate) fn tool_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cuda = std::env::var_os("CUDA_HOME").map_or_else(|| CUDA.into(), PathBuf::from);
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).chain([cuda.join("bin")]).collect();
    for active in ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os) {
        let versions = std::fs::read_dir(PathBuf::from(active).join("lib")).into_iter().flatten().flatten();
        let mut versions: Vec<PathBuf> = versions.map(|version| version.path().join("site-packages")).collect();
        versions.sort();
        folders.extend(versions.iter().flat_map(|packages| WHEELS.map(|wheel| packages.join(wheel))));
    }
    folders
}
