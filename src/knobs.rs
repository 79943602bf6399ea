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
    /// The value, if it is set, not empty and valid Unicode.
    pub fn read(&self) -> Option<String> {
        std::env::var(self.name).ok().filter(|value| !value.is_empty())
    }

    /// The value as a path, if it is set and not empty.
    pub fn path(&self) -> Option<PathBuf> {
        std::env::var_os(self.name).filter(|value| !value.is_empty()).map(PathBuf::from)
    }
}

/// The runtime of Ascend NPUs.
pub const ACL: Knob = Knob {
    name: "FUSEWRIGHT_ACL",
    doc: "`libascendcl.so` of CANN, or its folder [default: where the system, ASCEND_HOME_PATH or the usual folders have it]",
};

/// Folder where every stage of compilation is written.
pub const DUMP_DIR: Knob = Knob {
    name: "FUSEWRIGHT_DUMP_DIR",
    doc: "folder for every stage of compilation: the graph after each pass, regions, Kernel IR, code",
};

/// Folder of changed stages.
pub const OVERRIDE_DIR: Knob = Knob {
    name: "FUSEWRIGHT_OVERRIDE_DIR",
    doc: "folder of stages that you changed (`ll`, `ptx`, `cubin`, `cpp`), named as in FUSEWRIGHT_DUMP_DIR",
};

/// Folder of the kernel cache.
pub const CACHE_DIR: Knob = Knob {
    name: "FUSEWRIGHT_CACHE_DIR",
    doc: "folder of the kernel cache, or `off` [default: `fusewright` in the user's cache folder]",
};

/// Size of the kernel cache.
pub const CACHE_MB: Knob = Knob {
    name: "FUSEWRIGHT_CACHE_MB",
    doc: "most megabytes of the kernel cache, and as many again for the host model of NPUs [default: 256]",
};

/// How rows of GPU kernels are spread over blocks and threads.
pub const SCHEDULES: Knob = Knob {
    name: "FUSEWRIGHT_SCHEDULES",
    doc: "table of schedules of GPU kernels, written by `bench --tune`; one for another target is ignored with a warning",
};

/// Which compilers make CPU kernels.
pub const TIERS: Knob = Knob {
    name: "FUSEWRIGHT_TIERS",
    doc: "compilers of target `cpu`: `off` Cranelift, `on` Cranelift and then LLVM behind the calls, `llvm` LLVM before the calls",
};

/// Which assembler makes code of kernels for NVIDIA GPUs.
pub const PTXAS: Knob = Knob {
    name: "FUSEWRIGHT_PTXAS",
    doc: "the `ptxas` that assembles kernels for `cuda`, or `off` for the driver's own [default: the first of PATH, CUDA_HOME, wheels]",
};

/// Which toolkit compiles kernels for Ascend NPUs.
pub const ASCEND_TOOLKIT: Knob = Knob {
    name: "FUSEWRIGHT_ASCEND_TOOLKIT",
    doc: "folder of the CANN toolkit, `rtc` for its compiler within the process, or `off` [default: ASCEND_HOME_PATH, ASCEND_TOOLKIT_HOME, the usual folders]",
};

/// Folder of cuBLASLt.
pub const CUBLASLT_DIR: Knob = Knob {
    name: "FUSEWRIGHT_CUBLASLT_DIR",
    doc: "folder of cuBLASLt, if it is not where the system, CUDA_HOME or NVIDIA's wheels have it",
};

/// How long the compiler of a vendor, or of the host, may take.
pub const TOOL_SECONDS: Knob = Knob {
    name: "FUSEWRIGHT_TOOL_SECONDS",
    doc: "most seconds of one call of CANN's tools, of `ptxas` or of the C++ compiler [default: 300]",
};

/// Every knob, in alphabetical order.
pub const ALL: &[Knob] = &[
    ACL,
    ASCEND_TOOLKIT,
    CACHE_DIR,
    CACHE_MB,
    CUBLASLT_DIR,
    DUMP_DIR,
    OVERRIDE_DIR,
    PTXAS,
    SCHEDULES,
    TIERS,
    TOOL_SECONDS,
];

/// Read by the Python package alone.
pub const PYTHON: &[Knob] = &[
    Knob {
        name: "FUSEWRIGHT_INNER",
        doc: "who runs what the backend does not fuse, `eager` or `inductor`, where a caller says nothing",
    },
    Knob { name: "FUSEWRIGHT_MODE", doc: "`exact` or `relaxed` where a caller of the backend gives no mode" },
    Knob { name: "FUSEWRIGHT_SGLANG", doc: "doors of SGLang that the plug-in opens, separated by commas" },
    Knob { name: "FUSEWRIGHT_VLLM", doc: "doors of vLLM that the plug-in opens, separated by commas" },
];

/// How the names of our variables begin.
const PREFIX: &str = "FUSEWRIGHT_";

/// Names that begin as those of knobs do, are set, and are none: spelled wrong, or of our tests.
pub fn unknown() -> Vec<String> {
    let known = |name: &str| ALL.iter().chain(PYTHON).any(|knob| knob.name == name);
    let names =
        std::env::vars_os().filter(|(_, value)| !value.is_empty()).filter_map(|(name, _)| name.into_string().ok());
    let mut unknown: Vec<String> = names.filter(|name| name.starts_with(PREFIX) && !known(name)).collect();
    unknown.sort();
    unknown
}

/// Says that a message is of one of our variables: these begin with its name.
pub(crate) fn is_blamed(message: &str) -> bool {
    let behind = |knob: &Knob| message.strip_prefix(knob.name);
    ALL.iter().filter_map(behind).any(|rest| rest.starts_with(':'))
}

/// The variables of others that a report shows: paths of installations, a compiler, a folder. They are read as their owners mean them.
pub(crate) const OF_OTHERS: &[Knob] = &[
    ASCEND_HOME_PATH,
    ASCEND_TOOLKIT_HOME,
    CONDA_PREFIX,
    CUDA_HOME,
    CUDA_PATH,
    CXX,
    NVTX_INJECTION,
    VIRTUAL_ENV,
    XDG_CACHE_HOME,
];

// What others set and we read as they mean it: where their installations are.

pub(crate) const ASCEND_HOME_PATH: Knob = Knob { name: "ASCEND_HOME_PATH", doc: "CANN's toolkit" };
pub(crate) const ASCEND_TOOLKIT_HOME: Knob = Knob { name: "ASCEND_TOOLKIT_HOME", doc: "CANN's toolkit" };
pub(crate) const NVTX_INJECTION: Knob =
    Knob { name: "NVTX_INJECTION64_PATH", doc: "library of a profiler, which is told the names of kernels" };
pub(crate) const XDG_CACHE_HOME: Knob = Knob { name: "XDG_CACHE_HOME", doc: "the user's folder for caches" };
pub(crate) const HOME: Knob = Knob { name: "HOME", doc: "folder of the user" };
pub(crate) const CXX: Knob = Knob { name: "CXX", doc: "the host's compiler of C++" };
pub(crate) const CUDA_HOME: Knob = Knob { name: "CUDA_HOME", doc: "CUDA's toolkit" };
pub(crate) const CUDA_PATH: Knob = Knob { name: "CUDA_PATH", doc: "CUDA's toolkit" };
pub(crate) const PATH: Knob = Knob { name: "PATH", doc: "folders of commands" };
pub(crate) const VIRTUAL_ENV: Knob = Knob { name: "VIRTUAL_ENV", doc: "an environment of Python" };
pub(crate) const CONDA_PREFIX: Knob = Knob { name: "CONDA_PREFIX", doc: "an environment of Python and other packages" };
