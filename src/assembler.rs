//! NVIDIA's assembler, where the machine has one: from PTX to code of a device, each kernel in a process of its own.
//!
//! It stands around the backend that makes PTX, as a [`Backend`] with one more stage, so that keys, the cache on disk and
//! dumps know of it. It is not pure as backends of `codegen` are: it looks for a file and starts processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, PoisonError};

use fusewright_abi::{Payload, PayloadKind, Target};
use fusewright_codegen::backend::{Backend, BackendError, Grid, Stage};
use fusewright_codegen::kernel::Kernel;
use fusewright_codegen::schedule::{KernelSchedule, Spread};
use fusewright_fusion::region::SourceKind;

use crate::installations::tool_folders;
use crate::{Error, external, knobs};

/// File name of the tool.
const NAME: &str = "ptxas";
/// How the files begin that it writes.
const ELF: &[u8] = b"\x7fELF";
/// The value of [`knobs::PTXAS`] that means none.
const OFF: &str = "off";
/// Where code is written that is read from a pipe.
const PIPE: &str = "/dev/stdout";

/// Whether kernels for NVIDIA GPUs are assembled before they are loaded, and by what; if not, their driver compiles PTX.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum AssemblerChoice {
    /// As [`knobs::PTXAS`] says; else by the first `ptxas` that works in `PATH`, in `CUDA_HOME`, in the usual folder of CUDA
    /// or in a wheel of a Python of this machine; else not.
    #[default]
    Environment,
    /// Not.
    Off,
    /// By that file.
    At(PathBuf),
}

impl AssemblerChoice {
    /// The assembler.
    ///
    /// # Errors
    /// One that was asked for by name and does not work.
    pub(crate) fn find(&self) -> Result<Option<Assembler>, Error> {
        let named = match self {
            AssemblerChoice::Off => return Ok(None),
            AssemblerChoice::At(tool) => Some(tool.clone()),
            AssemblerChoice::Environment => match knobs::PTXAS.path() {
                Some(word) if word == Path::new(OFF) => return Ok(None),
                word => word,
            },
        };
        match named {
            Some(tool) => Assembler::at(&tool).map(Some).map_err(Error::Unavailable),
            None => Ok(tool_folders().iter().find_map(|folder| Assembler::at(&folder.join(NAME)).ok())),
        }
    }
}

/// An assembler that works.
#[derive(Clone, Debug)]
pub(crate) struct Assembler {
    tool: PathBuf,
    /// What it says of itself.
    version: Arc<str>,
}

impl Assembler {
    /// Asks a file for its version, once in the life of this process.
    fn at(tool: &Path) -> Result<Assembler, String> {
        static KNOWN: Mutex<BTreeMap<PathBuf, Arc<str>>> = Mutex::new(BTreeMap::new());
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(version) = known().get(tool).cloned() {
            return Ok(Assembler { tool: tool.to_owned(), version });
        }
        let failed = |reason: &dyn std::fmt::Display| format!("assembler {}: {reason}", tool.display());
        if !tool.is_file() {
            return Err(failed(&"there is no such file"));
        }
        let said = external::run(Command::new(tool).arg("--version"), &[]).map_err(|e| failed(&e))?.output;
        let text = String::from_utf8_lossy(&said.stdout);
        let lines: Vec<&str> = text.lines().filter(|line| line.contains("release") || line.contains("Build")).collect();
        if !said.status.success() || lines.is_empty() {
            return Err(failed(&"it does not say its version"));
        }
        let version: Arc<str> = lines.join("; ").into();
        known().insert(tool.to_owned(), Arc::clone(&version));
        Ok(Assembler { tool: tool.to_owned(), version })
    }

    /// The code of a PTX text for an architecture.
    ///
    /// # Errors
    /// What the assembler says, or why it cannot be started.
    fn assemble(&self, ptx: &[u8], arch: &str) -> Result<Vec<u8>, String> {
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", self.tool.display());
        // It reads all of the text before it writes anything. One that ends early says why.
        let mut command = Command::new(&self.tool);
        let ran = external::run(command.args(["-arch", arch, "-o", PIPE, "-"]), ptx).map_err(|e| failed(&e))?;
        let Output { status, stdout, stderr } = ran.output;
        let said = String::from_utf8_lossy(&stderr);
        match said.trim() {
            "" if !status.success() => return Err(format!("{}: {status}", self.tool.display())),
            said if !status.success() => return Err(said.to_owned()),
            _ => ran.written.map_err(|e| failed(&e))?,
        }
        if !stdout.starts_with(ELF) {
            return Err(format!("{} wrote {} bytes that are no cubin", self.tool.display(), stdout.len()));
        }
        Ok(stdout)
    }
}

/// A backend that makes PTX, and the assembler behind it.
pub(crate) struct Assembled {
    inner: Arc<dyn Backend>,
    assembler: Assembler,
}

impl Assembled {
    pub fn new(inner: Arc<dyn Backend>, assembler: Assembler) -> Assembled {
        Assembled { inner, assembler }
    }

    fn assemble(&self, kernel: &Kernel, target: &Target, ptx: &[u8]) -> Result<Vec<u8>, BackendError> {
        let (backend, of) = (self.inner.name(), kernel.name.clone());
        let Target::Cuda { arch } = target else {
            let reason = "this assembler is for `cuda`".to_owned();
            return Err(BackendError::Target { backend, target: target.clone(), reason });
        };
        let code = self.assembler.assemble(ptx, arch);
        code.map_err(|said| BackendError::Internal { backend, kernel: of, message: format!("{NAME}: {said}") })
    }
}

impl Backend for Assembled {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn fingerprint(&self) -> String {
        format!("{}, {}", self.inner.fingerprint(), self.assembler.version)
    }

    fn payload_kind(&self) -> PayloadKind {
        PayloadKind::Cubin
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        self.inner.headers()
    }

    fn sources(&self) -> &'static [SourceKind] {
        self.inner.sources()
    }

    fn grid(&self, kernel: &Kernel, target: &Target) -> Grid {
        self.inner.grid(kernel, target)
    }

    fn schedule(&self, kernel: &Kernel) -> Option<KernelSchedule> {
        self.inner.schedule(kernel)
    }

    fn candidates(&self, kernel: &Kernel) -> Vec<Spread> {
        self.inner.candidates(kernel)
    }

    fn kind(&self, kernel: &Kernel, rows: usize) -> Option<String> {
        self.inner.kind(kernel, rows)
    }

    fn memory(&self) -> usize {
        self.inner.memory()
    }

    fn emit(&self, kernel: &Kernel, target: &Target) -> Result<Vec<Stage>, BackendError> {
        let mut stages = self.inner.emit(kernel, target)?;
        let ptx = stages.last().map_or(&[][..], |stage| &stage.bytes);
        let code = self.assemble(kernel, target, ptx)?;
        stages.push(Stage { extension: PayloadKind::Cubin.extension(), bytes: code });
        Ok(stages)
    }

    fn resume(&self, kernel: &Kernel, target: &Target, stage: Stage) -> Result<Vec<Stage>, BackendError> {
        if stage.extension == PayloadKind::Cubin.extension() {
            return Ok(vec![stage]);
        }
        let mut stages = self.inner.resume(kernel, target, stage)?;
        let ptx = stages.last().map_or(&[][..], |stage| &stage.bytes);
        let (backend, of) = (self.inner.name(), kernel.name.clone());
        let code = self.assemble(kernel, target, ptx).map_err(|error| match error {
            BackendError::Internal { message, .. } => BackendError::Stage { backend, kernel: of, message },
            other => other,
        })?;
        stages.push(Stage { extension: PayloadKind::Cubin.extension(), bytes: code });
        Ok(stages)
    }

    fn payload(&self, kernel: &Kernel, target: &Target) -> Result<Payload, BackendError> {
        let ptx = self.inner.payload(kernel, target)?;
        Ok(Payload { kind: PayloadKind::Cubin, bytes: self.assemble(kernel, target, &ptx.bytes)? })
    }
}
