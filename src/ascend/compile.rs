//! Running the vendor's compiler: from Ascend C to an object for vector cores, each kernel by processes of its own.
//!
//! It stands around the backend that writes Ascend C, as a [`Backend`] with one more stage, so that keys, the cache on disk
//! and dumps know of it.

use std::fmt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use fusewright_abi::{Payload, PayloadKind, Target};
use fusewright_codegen::backend::{Backend, BackendError, Grid, Stage};
use fusewright_codegen::kernel::Kernel;
use fusewright_fusion::region::SourceKind;

use super::command::{CommandLine, NoRoute, device_object};
use super::scratch::Scratch;
use super::toolkit::Toolkit;

/// Most lines that a tool says that an error repeats.
const MOST_LINES: usize = 60;

/// Why there is no object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToolFailure {
    /// The toolkit cannot do it.
    Route(NoRoute),
    /// A file cannot be written or read, or a program not be started.
    System(String),
    /// A tool failed.
    Tool {
        /// What it was called with; the files that it names are still there.
        command: CommandLine,
        /// How it ended.
        status: String,
        /// What it said.
        output: String,
    },
}

impl fmt::Display for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolFailure::Route(reason) => write!(f, "{reason}"),
            ToolFailure::System(reason) => f.write_str(reason),
            ToolFailure::Tool { command, status, output } => {
                let name = command.program.file_name().unwrap_or_default().to_string_lossy();
                write!(f, "{name} failed ({status}):\n{output}\nto repeat it: {command}")
            }
        }
    }
}

impl std::error::Error for ToolFailure {}

/// A toolkit that makes objects of sources.
#[derive(Clone, Debug)]
pub(crate) struct Maker(Toolkit);

impl Maker {
    pub fn new(toolkit: Toolkit) -> Maker {
        Maker(toolkit)
    }

    /// The object of a source and its headers.
    ///
    /// # Errors
    /// What the tools say; the folder with the source is kept then.
    pub fn object(
        &self,
        npu_arch: &str,
        name: &str,
        source: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<Vec<u8>, ToolFailure> {
        let mut scratch = Scratch::new().map_err(|e| ToolFailure::System(format!("a folder for the compiler: {e}")))?;
        let made = self.object_in(&scratch, npu_arch, name, source, headers);
        if matches!(made, Err(ToolFailure::Tool { .. })) {
            scratch.keep();
        }
        made
    }

    fn object_in(
        &self,
        scratch: &Scratch,
        npu_arch: &str,
        name: &str,
        source: &[u8],
        headers: &[(&str, &str)],
    ) -> Result<Vec<u8>, ToolFailure> {
        let [file, object] = ["cpp", "o"].map(|extension| scratch.file(&format!("{name}.{extension}")));
        let lines = device_object(&self.0, npu_arch, &file, &object).map_err(ToolFailure::Route)?;
        let write = |path: PathBuf, bytes: &[u8]| {
            std::fs::write(&path, bytes).map_err(|e| ToolFailure::System(format!("{}: {e}", path.display())))
        };
        for (header, text) in headers {
            write(scratch.file(header), text.as_bytes())?;
        }
        write(file, source)?;
        lines.into_iter().try_for_each(|line| run(line, scratch))?;
        std::fs::read(&object).map_err(|e| ToolFailure::System(format!("{}: {e}", object.display())))
    }
}

/// Runs a command in the scratch folder.
fn run(command: CommandLine, scratch: &Scratch) -> Result<(), ToolFailure> {
    let started =
        Command::new(&command.program).args(&command.args).current_dir(scratch.path()).stdin(Stdio::null()).output();
    let said = started.map_err(|e| ToolFailure::System(format!("{}: {e}", command.program.display())))?;
    if said.status.success() {
        return Ok(());
    }
    let output = [said.stderr, said.stdout].concat();
    Err(ToolFailure::Tool {
        command,
        status: said.status.to_string(),
        output: shortened(&String::from_utf8_lossy(&output)),
    })
}

/// The first lines of what a tool says, which name the first mistake.
fn shortened(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().collect();
    let more = lines.len().saturating_sub(MOST_LINES);
    let mut kept = lines[..lines.len() - more].join("\n");
    if more > 0 {
        kept += &format!("\n… and {more} lines more");
    }
    kept
}

/// The backend that writes Ascend C, and the vendor's compiler behind it.
pub(crate) struct Built {
    inner: Arc<dyn Backend>,
    maker: Maker,
}

impl Built {
    pub fn new(inner: Arc<dyn Backend>, maker: Maker) -> Built {
        Built { inner, maker }
    }

    fn object(&self, kernel: &Kernel, target: &Target, source: &[u8]) -> Result<Vec<u8>, BackendError> {
        let backend = self.inner.name();
        let wrong = |reason: String| BackendError::Target { backend, target: target.clone(), reason };
        let arch = npu_arch(target).ok_or_else(|| wrong("this compiler is for `ascend`".to_owned()))?;
        let made = self.maker.object(arch, &kernel.name, source, self.inner.headers());
        made.map_err(|failure| match failure {
            ToolFailure::Tool { .. } => {
                BackendError::Internal { backend, kernel: kernel.name.clone(), message: failure.to_string() }
            }
            ToolFailure::Route(_) | ToolFailure::System(_) => wrong(failure.to_string()),
        })
    }
}

impl Backend for Built {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn fingerprint(&self) -> String {
        format!("{}, CANN {}", self.inner.fingerprint(), self.maker.0.version())
    }

    fn payload_kind(&self) -> PayloadKind {
        PayloadKind::AscendObject
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

    fn emit(&self, kernel: &Kernel, target: &Target) -> Result<Vec<Stage>, BackendError> {
        let mut stages = self.inner.emit(kernel, target)?;
        let source = stages.last().map_or(&[][..], |stage| &stage.bytes);
        let code = self.object(kernel, target, source)?;
        stages.push(Stage { extension: PayloadKind::AscendObject.extension(), bytes: code });
        Ok(stages)
    }

    fn payload(&self, kernel: &Kernel, target: &Target) -> Result<Payload, BackendError> {
        let source = self.inner.payload(kernel, target)?;
        Ok(Payload { kind: PayloadKind::AscendObject, bytes: self.object(kernel, target, &source.bytes)? })
    }
}

/// The architecture of a target's chip, as the vendor's tools are told.
#[cfg(feature = "ascend")]
pub(crate) fn npu_arch(target: &Target) -> Option<&'static str> {
    let Target::Ascend { chip } = target else { return None };
    fusewright_codegen::backend::ascend::CHIPS.iter().find(|known| known.name == chip).map(|known| known.arch)
}

/// A build without the backend knows no chip.
#[cfg(not(feature = "ascend"))]
pub(crate) fn npu_arch(_: &Target) -> Option<&'static str> {
    None
}
