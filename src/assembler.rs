//! NVIDIA's assembler, where the machine has one: from PTX to code of a device, each kernel in a process of its own.
//!
//! It is a [`Step`] behind the backend that makes PTX: it looks for a file and starts processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex, PoisonError};

use fusewright_abi::{PayloadKind, Target};
use fusewright_codegen::backend::{About, BackendError};
use fusewright_codegen::kernel::Kernel;
use fusewright_runtime::device_at;

use crate::installations::tool_folders;
use crate::toolchain::Step;
use crate::{Error, Options, external, knobs};

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
            Some(tool) => {
                let from = if *self == AssemblerChoice::Environment { knobs::PTXAS.name } else { "an option" };
                Assembler::at(&tool, from).map(Some).map_err(Error::Unavailable)
            }
            None => Ok(tool_folders().iter().find_map(|at| Assembler::at(&at.folder.join(NAME), at.from).ok())),
        }
    }
}

/// An assembler that works.
#[derive(Clone, Debug)]
pub(crate) struct Assembler {
    tool: PathBuf,
    /// The variable, kind of folder, or option that led to it.
    from: &'static str,
    /// What it says of itself.
    version: Arc<str>,
}

impl Assembler {
    /// Asks a file for its version, once in the life of this process.
    fn at(tool: &Path, from: &'static str) -> Result<Assembler, String> {
        static KNOWN: Mutex<BTreeMap<PathBuf, Arc<str>>> = Mutex::new(BTreeMap::new());
        let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(version) = known().get(tool).cloned() {
            return Ok(Assembler { tool: tool.to_owned(), from, version });
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
        Ok(Assembler { tool: tool.to_owned(), from, version })
    }

    /// Its file.
    pub fn file(&self) -> &Path {
        &self.tool
    }

    /// The variable, kind of folder, or option that led to it.
    pub fn from(&self) -> &'static str {
        self.from
    }

    /// Its own words of its version.
    pub fn version(&self) -> &str {
        &self.version
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

/// The step of a target's toolchain, if there is an assembler, the target has need of it, and no device of this machine is of
/// another generation than what it would make.
///
/// # Errors
/// An assembler that was asked for by name and does not work.
pub(crate) fn step(target: &Target, options: &Options) -> Result<Option<Arc<dyn Step>>, Error> {
    if !matches!(target, Target::Cuda { .. }) {
        return Ok(None);
    }
    let Some(assembler) = options.assembler.find()? else { return Ok(None) };
    let device = device_at(target, options.device, options.pool.shared());
    let is_taken = device.map_or(true, |device| device.takes(PayloadKind::Cubin));
    Ok(is_taken.then(|| Arc::new(assembler) as Arc<dyn Step>))
}

impl Step for Assembler {
    fn fingerprint(&self) -> String {
        self.version.to_string()
    }

    fn payload_kind(&self) -> PayloadKind {
        PayloadKind::Cubin
    }

    fn make(&self, of: &Kernel, target: &Target, about: &About, code: &[u8]) -> Result<Vec<u8>, BackendError> {
        let (backend, kernel) = (about.name, of.name.clone());
        let Target::Cuda { arch } = target else {
            let reason = "this assembler is for `cuda`".to_owned();
            return Err(BackendError::Target { backend, target: target.clone(), reason });
        };
        let code = self.assemble(code, arch);
        code.map_err(|said| BackendError::Internal { backend, kernel, message: format!("{NAME}: {said}") })
    }

    fn resumes(&self) -> bool {
        true
    }

    fn is_spared_by_drivers(&self) -> bool {
        true
    }
}
