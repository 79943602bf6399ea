//! NVIDIA's PTX assembler and disassembler: where they are, how to get them, and what they say of a kernel.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable that names the executable.
pub const VARIABLE: &str = "FUSEWRIGHT_PTXAS";
/// What to say when there is none.
pub const MISSING: &str = "no ptxas; set FUSEWRIGHT_PTXAS or run `cargo run -p xtask -- fetch-ptxas`";
/// What to say when there is no disassembler.
pub const NO_DISASSEMBLER: &str = "no nvdisasm; run `cargo run -p xtask -- fetch-ptxas`";
/// The wheel of the assembler; later ones accept PTX that drivers of its time do not load.
const WHEEL: &str = "nvidia-cuda-nvcc==13.0.88";

/// The wheel of the disassembler.
const DISASSEMBLER_WHEEL: &str = "nvidia-cuda-nvdisasm==13.2.51";

/// The assembler: as the environment says, in `PATH`, in `CUDA_HOME`, or as fetched into `tools`.
pub fn locate(tools: &Path) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return Some(named.into());
    }
    find(tools, "ptxas")
}

/// The disassembler of its code: in `PATH`, in `CUDA_HOME`, or as fetched into `tools`.
pub fn locate_disassembler(tools: &Path) -> Option<PathBuf> {
    find(tools, "nvdisasm")
}

fn find(tools: &Path, name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).map(|dir| dir.join(name));
    let in_cuda = std::env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin").join(name));
    in_path.chain(in_cuda).chain([fetched(tools, name)]).find(|p| p.is_file())
}

fn fetched(tools: &Path, name: &str) -> PathBuf {
    tools.join(name).join("nvidia/cu13/bin").join(name)
}

/// Gets both tools, of pinned wheels, through pip and unpacks them below `tools`. The path is that of the assembler.
///
/// # Errors
/// A command that is missing or fails, in words.
pub fn fetch(tools: &Path) -> Result<PathBuf, String> {
    let assembler = fetch_wheel(tools, "ptxas", WHEEL)?;
    fetch_wheel(tools, "nvdisasm", DISASSEMBLER_WHEEL)?;
    Ok(assembler)
}

fn fetch_wheel(tools: &Path, name: &str, wheel: &str) -> Result<PathBuf, String> {
    let into = tools.join(name);
    std::fs::create_dir_all(&into).map_err(|e| format!("{}: {e}", into.display()))?;
    let dir = into.display().to_string();
    python(&["-m", "pip", "download", "--no-deps", "--dest", &dir, wheel])?;
    let mut entries = std::fs::read_dir(&into).map_err(|e| format!("{dir}: {e}"))?;
    let file = entries
        .find_map(|entry| entry.ok().map(|e| e.path()).filter(|p| p.extension().is_some_and(|x| x == "whl")))
        .ok_or_else(|| format!("{dir}: pip left no wheel"))?;
    python(&["-m", "zipfile", "-e", &file.display().to_string(), &dir])?;
    let tool = fetched(tools, name);
    let status = Command::new("chmod").arg("+x").arg(&tool).status().map_err(|e| format!("chmod: {e}"))?;
    if status.success() { Ok(tool) } else { Err(format!("{} is not in {wheel}", tool.display())) }
}

fn python(args: &[&str]) -> Result<(), String> {
    let status = Command::new("python3").args(args).status().map_err(|e| format!("python3: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("python3 {} failed", args.join(" "))) }
}

/// What the assembler says of a kernel.
#[derive(Debug)]
pub struct Report {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of spill stores and loads.
    pub spilled: u32,
}

/// Assembles a PTX text for the architecture that it names.
///
/// # Errors
/// The assembler's messages.
pub fn assemble(tool: &Path, ptx: &str) -> Result<Report, String> {
    assemble_into(tool, ptx, Path::new("/dev/null"))
}

pub(crate) fn assemble_into(tool: &Path, ptx: &str, into: &Path) -> Result<Report, String> {
    let arch = ptx
        .lines()
        .find_map(|line| line.strip_prefix(".target "))
        .and_then(|rest| rest.split([',', ' ']).next())
        .ok_or("the text has no .target")?;
    let mut child = Command::new(tool)
        .args(["-v", "-arch", arch, "-o"])
        .arg(into)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{}: {e}", tool.display()))?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(ptx.as_bytes()).map_err(|e| format!("ptxas: {e}"))?;
    }
    let output = child.wait_with_output().map_err(|e| format!("ptxas: {e}"))?;
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(said);
    }
    let before = |unit: &str| -> u32 {
        let counts = said
            .match_indices(unit)
            .filter_map(|(at, _)| said[..at].trim_end().rsplit(' ').next()?.parse::<u32>().ok());
        counts.sum()
    };
    Ok(Report { registers: before("registers"), spilled: before("bytes spill stores") + before("bytes spill loads") })
}
