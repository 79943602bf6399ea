//! Running the vendor's compiler: from Ascend C to an object for vector cores, each kernel by processes of its own, or by the
//! compiler that CANN has as a library.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use fusewright_runtime::ascend::Rtc;

use super::command::{CommandLine, NoRoute, device_object, rtc_options};
use super::scratch::Scratch;
use super::toolkit::{Toolkit, ToolkitChoice, usual_places, version_of};
use super::version::CannVersion;
use crate::Error;
use crate::external::{self, ToolError};

/// Most lines that a tool says that an error repeats.
const MOST_LINES: usize = 60;

/// Why there is no object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ToolFailure {
    /// The toolkit cannot do it.
    Route(NoRoute),
    /// A file cannot be written or read, or a program not be started.
    System(String),
    /// A tool was ended at its limit: which, with what, and the limit. The files that it names are still there.
    Late(String),
    /// A tool failed.
    Tool {
        /// What it was called with; the files that it names are still there.
        command: CommandLine,
        /// How it ended.
        status: String,
        /// What it said.
        output: String,
    },
    /// The compiler within this process refuses, with its words.
    RunTime(String),
}

impl fmt::Display for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToolFailure::Route(reason) => write!(f, "{reason}"),
            ToolFailure::System(reason) | ToolFailure::Late(reason) | ToolFailure::RunTime(reason) => {
                f.write_str(reason)
            }
            ToolFailure::Tool { command, status, output } => {
                let name = command.program.file_name().unwrap_or_default().to_string_lossy();
                write!(f, "{name} failed ({status}):\n{output}\nto repeat it: {command}")
            }
        }
    }
}

impl std::error::Error for ToolFailure {}

/// What makes objects of sources.
#[derive(Clone, Debug)]
pub(crate) enum Maker {
    /// Tools, each a process.
    Toolkit(Toolkit),
    /// The compiler within this process, of that version of CANN where its files state it.
    RunTime(Arc<Mutex<Rtc>>, Option<CannVersion>),
}

impl Maker {
    /// What a choice leads to: a toolkit, or where there is none the compiler within this process.
    ///
    /// # Errors
    /// One that was asked for by name and is not there.
    pub fn find(choice: &ToolkitChoice) -> Result<Option<Maker>, Error> {
        if let Some(toolkit) = choice.find()? {
            return Ok(Some(Maker::Toolkit(toolkit)));
        }
        let Some(files) = choice.run_time() else { return Ok(None) };
        match Rtc::open(&files) {
            Ok(rtc) => {
                let version = usual_places().iter().find_map(|home| version_of(home).ok());
                Ok(Some(Maker::RunTime(Arc::new(Mutex::new(rtc)), version)))
            }
            Err(reason) if choice.wants_run_time() => Err(Error::Unavailable(reason)),
            Err(_) => Ok(None),
        }
    }

    /// What it is, for people.
    pub fn words(&self) -> String {
        match self {
            Maker::Toolkit(toolkit) => format!("CANN {} in {}", toolkit.version(), toolkit.home().display()),
            Maker::RunTime(rtc, _) => {
                let rtc = rtc.lock().unwrap_or_else(PoisonError::into_inner);
                format!("{} within the process", rtc.file().display())
            }
        }
    }

    /// What names it in keys.
    pub fn described(&self) -> String {
        match self {
            Maker::Toolkit(toolkit) => format!("CANN {}", toolkit.version()),
            Maker::RunTime(_, Some(version)) => format!("CANN {version} at run time"),
            Maker::RunTime(rtc, None) => {
                let rtc = rtc.lock().unwrap_or_else(PoisonError::into_inner);
                // Its own bytes tell it from others, as far as it can be read: the system may have found it by its name.
                let mut content = DefaultHasher::new();
                std::fs::read(rtc.file()).unwrap_or_default().hash(&mut content);
                format!("CANN at run time, {:016x}", content.finish())
            }
        }
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
        match self {
            Maker::Toolkit(toolkit) => by_tools(toolkit, npu_arch, name, source, headers),
            Maker::RunTime(rtc, version) => {
                let options = rtc_options(version.as_ref(), npu_arch).map_err(ToolFailure::Route)?;
                let options: Vec<&str> = options.iter().map(String::as_str).collect();
                let text = String::from_utf8_lossy(source);
                // Nothing says that it takes several threads.
                let rtc = rtc.lock().unwrap_or_else(PoisonError::into_inner);
                let failed = |said: String| {
                    ToolFailure::RunTime(format!("{said}\nby {} {}", rtc.file().display(), options.join(" ")))
                };
                rtc.compile(name, &text, headers, &options).map_err(failed)
            }
        }
    }
}

fn by_tools(
    toolkit: &Toolkit,
    npu_arch: &str,
    name: &str,
    source: &[u8],
    headers: &[(&str, &str)],
) -> Result<Vec<u8>, ToolFailure> {
    let mut scratch = Scratch::new().map_err(|e| ToolFailure::System(format!("a folder for the compiler: {e}")))?;
    let made = object_in(&scratch, toolkit, npu_arch, (name, source), headers);
    if matches!(made, Err(ToolFailure::Tool { .. } | ToolFailure::Late(_))) {
        scratch.keep();
    }
    made
}

fn object_in(
    scratch: &Scratch,
    toolkit: &Toolkit,
    npu_arch: &str,
    (name, source): (&str, &[u8]),
    headers: &[(&str, &str)],
) -> Result<Vec<u8>, ToolFailure> {
    let [file, object] = ["cpp", "o"].map(|extension| scratch.file(&format!("{name}.{extension}")));
    let lines = device_object(toolkit, npu_arch, &file, &object).map_err(ToolFailure::Route)?;
    let write = |path: PathBuf, bytes: &[u8]| {
        std::fs::write(&path, bytes).map_err(|e| ToolFailure::System(format!("{}: {e}", path.display())))
    };
    for (header, text) in headers {
        write(scratch.file(header), text.as_bytes())?;
    }
    write(file, source)?;
    // What a command does not write is its own failure, not that of what reads it.
    for (line, made) in lines.into_iter().zip([scratch.file(&format!("{name}.o.part")), object.clone()]) {
        run(&line, scratch)?;
        if !made.exists() {
            let output = format!("{} is not there", made.display());
            return Err(ToolFailure::Tool { command: line, status: "exit status 0, without its file".into(), output });
        }
    }
    std::fs::read(&object).map_err(|e| ToolFailure::System(format!("{}: {e}", object.display())))
}

/// Runs a command in the scratch folder.
fn run(command: &CommandLine, scratch: &Scratch) -> Result<(), ToolFailure> {
    let mut process = Command::new(&command.program);
    let ran = external::run(process.args(&command.args).current_dir(scratch.path()), &[]);
    let said = match ran {
        Ok(ran) => ran.output,
        Err(ToolError::Late(reason)) => return Err(ToolFailure::Late(reason)),
        Err(error) => return Err(ToolFailure::System(format!("{}: {error}", command.program.display()))),
    };
    if said.status.success() {
        return Ok(());
    }
    let output = [said.stderr, said.stdout].concat();
    Err(ToolFailure::Tool {
        command: command.clone(),
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
