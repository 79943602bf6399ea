//! Backends: from Kernel IR to the code of one target.
//!
//! A backend is a pure function of a kernel and a target: it opens no device and no file, and the same input gives the
//! same bytes. It yields named stages, the last of which is the payload that a runtime loads. What a backend does not
//! take it refuses by name; it never emits something else. [`assemble`] adds to the payload what a runtime needs to
//! call it.

mod artifact;
#[cfg(feature = "ascend")]
pub mod ascend;
#[cfg(feature = "cpu")]
pub mod cpu;
#[cfg(feature = "llvm")]
pub mod cpu_llvm;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(any(feature = "cpu", feature = "llvm"))]
mod host;
#[cfg(any(feature = "cuda", feature = "llvm"))]
mod llvm;
mod order;

use std::sync::Arc;

use fusewright_abi::{DType, PayloadKind, Target};
use fusewright_graph::Dim;

use crate::kernel::{Kernel, VerifyError, verify};
use crate::schedule::{KernelSchedule, ScheduleTable, Spread};

pub use artifact::{Route, assemble, kernel_key, pack, resumed_key};

/// One form of a kernel on its way to the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// File extension that names the form: `clif`, `bin`, `ll`, `ptx`, …
    pub extension: &'static str,
    /// The form itself; UTF-8 text unless it is machine code.
    pub bytes: Vec<u8>,
}

/// The blocks of a launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// Threads of a block, which are one axis.
    pub threads: u32,
    /// Blocks per outer row; the grid is one axis of that many blocks per row in the range, or of fewer.
    pub per_row: Dim,
    /// How many of these share a block of threads, the last of a launch perhaps with fewer.
    pub shares: u32,
}

/// How a kernel is launched.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grid {
    /// Its blocks.
    pub blocks: Blocks,
    /// From how many rows of a launch on other code is better, and its blocks.
    pub many: Option<(usize, Blocks)>,
    /// Whether the code waits by itself for what is ahead of it, so that a launch may begin before that ends.
    pub dependent: bool,
    /// Bytes of shared memory of a block that a launch states, beside what the code itself has.
    pub shared: Dim,
    /// What the address of every buffer is a multiple of, in bytes.
    pub alignment: u32,
    /// Tables of results that the code fills and looks up.
    pub tables: u32,
}

impl Grid {
    /// One block of one thread, where rows are looped over.
    pub fn loop_over_rows() -> Grid {
        let blocks = Blocks { threads: 1, per_row: Dim::constant(1), shares: 1 };
        Grid { blocks, many: None, dependent: false, shared: Dim::constant(0), alignment: 1, tables: 0 }
    }
}

/// Facts that hold of all kernels of a backend.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its name, in reports and keys.
    pub name: &'static str,
    /// The kind of the last stage.
    pub payload: PayloadKind,
    /// The kind of file that a linker or a driver takes: the payload, unless the target has something better.
    pub file: PayloadKind,
    /// Sources that every payload includes, by name.
    pub headers: &'static [(&'static str, &'static str)],
    /// Bytes of memory that should be free where a kernel is compiled: the compiler is one that ends the process when it
    /// gets none. Compilers that check what they get need none.
    pub memory: usize,
}

/// How much of its work a backend is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Every stage, for whoever reads them; the payload is the last.
    Stages,
    /// The payload alone, without the cost of the stages before it.
    Payload,
    /// The code as a file of the kind [`About::file`], without the cost of the stages before it.
    File,
}

/// Makes code for one kind of target.
pub trait Backend: Send + Sync {
    /// Says what holds of all its kernels.
    fn about(&self) -> About;

    /// Names everything besides kernel and target that changes the output: tool versions, host features.
    fn fingerprint(&self) -> String;

    /// Says why the target computes with no element of a dtype, where it does not: no kernel of a graph that does would run
    /// there, so that the graph is refused as a whole.
    fn lacks(&self, _dtype: DType, _target: &Target) -> Option<String> {
        None
    }

    /// Says how a kernel is launched: as one block of one thread, where rows are looped over.
    fn grid(&self, _kernel: &Kernel, _target: &Target) -> Grid {
        Grid::loop_over_rows()
    }

    /// Gives the schedules of its kernels, if the target has blocks and threads to spread rows over.
    fn schedules(&self) -> Option<&dyn Schedules> {
        None
    }

    /// Emits a verified kernel as stages, of which the last is what is wanted.
    ///
    /// # Errors
    /// What the backend does not take, by name.
    fn emit(&self, kernel: &Kernel, target: &Target, wanted: Wanted) -> Result<Vec<Stage>, BackendError>;

    /// Goes on from a stage of [`Backend::emit`] that was changed outside: that stage and those behind it, of which the last
    /// is the payload. It must keep the kernel's entry point, arguments and launch, which nothing can check.
    ///
    /// # Errors
    /// A form that the backend does not read; what is wrong with the text, as far as its compiler says.
    fn resume(&self, kernel: &Kernel, _target: &Target, stage: Stage) -> Result<Vec<Stage>, BackendError> {
        let message = format!("`{}` is no form that it goes on from", stage.extension);
        Err(BackendError::stage(self.about().name, kernel, message))
    }
}

/// Spreads the rows of kernels over blocks and threads: as a table says, or else by rule.
pub trait Schedules {
    /// Gives the schedule of a kernel. It enters the key, and changes no bit of a result.
    fn of(&self, kernel: &Kernel) -> KernelSchedule;

    /// Gives the spreads of launches of every size that are worth measuring, the rule's first.
    fn candidates(&self, kernel: &Kernel) -> Vec<Spread>;

    /// Says what the schedule of a kernel makes of launches of so many rows, in words: the same of code of one kind.
    fn kind(&self, kernel: &Kernel, rows: usize) -> Option<String>;
}

/// The targets of this build that are the host; first the one that every build has.
pub const HOST_TARGETS: &[Target] =
    if cfg!(feature = "llvm") { &[Target::Cpu, Target::CPU_LLVM] } else { &[Target::Cpu] };

/// The backend of a target.
///
/// # Errors
/// A target that this build has no backend for, by name.
pub fn for_target(target: &Target) -> Result<Arc<dyn Backend>, BackendError> {
    #[allow(unused_variables, reason = "with all features none is missing")]
    let missing = |reason: &str| BackendError::target("fusewright", target, reason);
    match target {
        #[cfg(feature = "cpu")]
        Target::Cpu => Ok(Arc::new(cpu::CpuBackend)),
        #[cfg(not(feature = "cpu"))]
        Target::Cpu => Err(missing(&lacks("cpu"))),
        #[cfg(feature = "llvm")]
        Target::CpuLlvm { .. } => Ok(Arc::new(cpu_llvm::CpuLlvmBackend)),
        #[cfg(not(feature = "llvm"))]
        Target::CpuLlvm { .. } => Err(missing(&lacks("llvm"))),
        #[cfg(feature = "cuda")]
        Target::Cuda { arch } => match cuda::known(arch) {
            Ok(()) => Ok(Arc::new(cuda::CudaBackend::default())),
            Err(error) => Err(missing(&error.to_string())),
        },
        #[cfg(not(feature = "cuda"))]
        Target::Cuda { .. } => Err(missing(&lacks("cuda"))),
        #[cfg(feature = "ascend")]
        Target::Ascend { .. } | Target::AscendSim { .. } => Ok(Arc::new(ascend::AscendBackend)),
        #[cfg(not(feature = "ascend"))]
        Target::Ascend { .. } | Target::AscendSim { .. } => Err(missing(&lacks("ascend"))),
    }
}

/// Says that this build was made without a feature of the crates, and what to do.
pub fn lacks(feature: &str) -> String {
    format!(
        "this build lacks feature `{feature}`: build the command, the crate or the wheel with `--features {feature}`"
    )
}

/// The version of LLVM that this build makes code with, where it has one: major, minor and patch.
pub fn llvm_version() -> Option<(u32, u32, u32)> {
    #[cfg(any(feature = "cuda", feature = "llvm"))]
    return Some(inkwell::support::get_llvm_version());
    #[cfg(not(any(feature = "cuda", feature = "llvm")))]
    None
}

/// How wide the vectors are, in bits, of kernels for a target that is the host.
///
/// # Errors
/// A target that is not the host, or that this build lacks; what the processor lacks.
pub fn vector_bits(target: &Target) -> Result<u32, String> {
    match target {
        #[cfg(feature = "cpu")]
        Target::Cpu => cpu::vector_bits(),
        #[cfg(feature = "llvm")]
        Target::CpuLlvm { level } => cpu_llvm::vector_bits(*level),
        other => match for_target(other) {
            Ok(_) => Err(format!("`{other}` is not the host")),
            Err(error) => Err(error.to_string()),
        },
    }
}

/// The architectures of NVIDIA GPUs that this build makes code for, the oldest first; none without feature `cuda`.
pub fn gpu_architectures() -> Vec<&'static str> {
    #[cfg(feature = "cuda")]
    return cuda::architectures().collect();
    #[cfg(not(feature = "cuda"))]
    Vec::new()
}

/// The backend of a target, for which a table says how the rows of some kernels are spread.
///
/// # Errors
/// As [`for_target`]; a table of another target, and a target without schedules.
pub fn scheduled(target: &Target, table: Arc<ScheduleTable>) -> Result<Arc<dyn Backend>, BackendError> {
    if table.target != *target {
        return Err(BackendError::target("fusewright", target, format!("the schedules are for `{}`", table.target)));
    }
    for_target(target)?;
    match target {
        #[cfg(feature = "cuda")]
        Target::Cuda { .. } => Ok(Arc::new(cuda::CudaBackend::with_schedules(table))),
        _ => Err(BackendError::target("fusewright", target, "it has no schedules to choose")),
    }
}

/// Why a kernel has no code for a target.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BackendError {
    /// The backend does not take something in the kernel; the caller may run the region unfused.
    #[error("{backend}: kernel `{kernel}`: {place}: {reason}")]
    Unsupported {
        /// Name of the backend.
        backend: &'static str,
        /// Name of the kernel.
        kernel: String,
        /// The segment and instruction, parameter or dim at fault.
        place: String,
        /// What is not taken, and why.
        reason: String,
    },
    /// The kernel breaks an invariant of Kernel IR: a bug of who made it.
    #[error("internal error: {backend}: {error}")]
    Invalid {
        /// Name of the backend.
        backend: &'static str,
        /// The invariants that it breaks.
        error: VerifyError,
    },
    /// A table gives the kernel a schedule that it cannot have.
    #[error("{backend}: kernel `{kernel}` cannot have the schedule that it is given: {reason}; it is `{schedule}`")]
    Schedule {
        /// Name of the backend.
        backend: &'static str,
        /// Name of the kernel.
        kernel: String,
        /// The schedule.
        schedule: String,
        /// Why not.
        reason: String,
    },
    /// The target cannot be compiled for.
    #[error("{backend}: target `{target}`: {reason}")]
    Target {
        /// Name of the backend.
        backend: &'static str,
        /// The target asked for.
        target: Target,
        /// What it lacks.
        reason: String,
    },
    /// The machine has not the memory that the compiler needs; said by who looks, which no backend does.
    #[error("{backend}: kernel `{kernel}`: no {bytes} bytes of memory are free to compile it")]
    Memory {
        /// Name of the backend.
        backend: &'static str,
        /// Name of the kernel.
        kernel: String,
        /// As many as [`About::memory`] asks for.
        bytes: usize,
    },
    /// A tool of the machine that the backend's code goes through failed; said by who calls it, which no backend does.
    #[error("{backend}: kernel `{kernel}`: {message}")]
    Tool {
        /// Name of the backend.
        backend: &'static str,
        /// Name of the kernel.
        kernel: String,
        /// Which tool, what it said, and how to repeat it.
        message: String,
    },
    /// A stage that stands for a generated one is not taken.
    #[error("{backend}: kernel `{kernel}`: {message}")]
    Stage {
        /// Name of the backend.
        backend: &'static str,
        /// Name of the kernel.
        kernel: String,
        /// What is wrong with it.
        message: String,
    },
    /// The backend made something that its own tools reject.
    #[error("internal error of {backend} in kernel `{kernel}`: {message}")]
    Internal {
        /// Name of the backend.
        backend: &'static str,
        /// Name of the kernel.
        kernel: String,
        /// What went wrong.
        message: String,
    },
}

/// Refuses a kernel that breaks an invariant of Kernel IR. Every backend asks before it makes code.
#[cfg_attr(not(any(feature = "cpu", feature = "cuda", feature = "llvm", feature = "ascend")), allow(dead_code))]
fn valid(backend: &'static str, kernel: &Kernel) -> Result<(), BackendError> {
    verify(kernel).map_err(|error| BackendError::Invalid { backend, error })
}

impl BackendError {
    fn unsupported(
        backend: &'static str,
        kernel: &Kernel,
        place: impl Into<String>,
        reason: impl Into<String>,
    ) -> Self {
        let (kernel, place, reason) = (kernel.name.clone(), place.into(), reason.into());
        BackendError::Unsupported { backend, kernel, place, reason }
    }

    fn target(backend: &'static str, target: &Target, reason: impl Into<String>) -> Self {
        BackendError::Target { backend, target: target.clone(), reason: reason.into() }
    }

    fn stage(backend: &'static str, kernel: &Kernel, message: impl Into<String>) -> Self {
        BackendError::Stage { backend, kernel: kernel.name.clone(), message: message.into() }
    }

    #[cfg_attr(not(any(feature = "cpu", feature = "cuda", feature = "llvm", feature = "ascend")), allow(dead_code))]
    fn internal(backend: &'static str, kernel: &Kernel, message: impl Into<String>) -> Self {
        BackendError::Internal { backend, kernel: kernel.name.clone(), message: message.into() }
    }
}
