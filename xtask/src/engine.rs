//! Real engines run with Fusewright and without, in an environment of their own: vLLM's build for CPUs, and `generate` of
//! Hugging Face's transformers.
//!
//! The programs that measure are Python, in `ffi/python/benches/engines/`. This installs what they need, at versions that are
//! written there, and builds the wheel.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The programs that measure, below the root.
const PROGRAMS: &str = "ffi/python/benches/engines";
/// Engines by name, and the program of each.
const ENGINES: [(&str, &str); 2] = [("vllm", "run_vllm.py"), ("hf", "run_hf.py")];
/// Where the environment, the models and the results are, below the root.
const FOLDER: &str = "target/engines";
const INSTALL_TORCH: &str = "ffi/python/tools/install_torch_cpu.sh";
const TORCH: &str = "2.13.0";
/// The Python of the environment, if not `python3`.
const PYTHON: &str = "FUSEWRIGHT_PYTHON";
/// Names a wheel that is taken instead of building one.
const WHEEL: &str = "FUSEWRIGHT_WHEEL";
/// Features and profile of a wheel that is built, as `build_wheel.sh` takes them.
const BUILD: &str = "FUSEWRIGHT_WHEEL_BUILD";

/// Runs an engine's program with further arguments.
///
/// # Errors
/// An unknown engine; what failed, in words.
pub fn run(root: &Path, name: &str, arguments: &[&str]) -> Result<(), String> {
    let names: Vec<&str> = ENGINES.iter().map(|(name, _)| *name).collect();
    let (_, program) = ENGINES
        .iter()
        .find(|(engine, _)| *engine == name)
        .ok_or_else(|| format!("no engine {name}; there are {}", names.join(", ")))?;
    let folder = root.join(FOLDER);
    let bin = environment(root, &folder)?;
    let wheel = wheel(root, &bin)?;
    let python = bin.join("python");
    let install = ["-m", "pip", "install", "-q", "--no-deps", "--force-reinstall"];
    ran(Command::new(&python).args(install).arg(wheel))?;
    let program = root.join(PROGRAMS).join(program);
    // Start-up is measured with modules that were compiled when they were installed.
    let measured = Command::new(&python)
        .arg(program)
        .arg("--folder")
        .arg(&folder)
        .args(arguments)
        .env("PATH", path(&bin)?)
        .env_remove("PYTHONDONTWRITEBYTECODE")
        .status();
    if measured.map_err(|e| format!("python: {e}"))?.success() { Ok(()) } else { Err(format!("{name} failed")) }
}

/// The programs of an environment that has the engines, which is made if it is not there or is another.
fn environment(root: &Path, folder: &Path) -> Result<PathBuf, String> {
    let requirements = root.join(PROGRAMS).join("requirements.txt");
    let wanted = std::fs::read_to_string(&requirements).map_err(|e| format!("{}: {e}", requirements.display()))?;
    let wanted = format!("torch=={TORCH}\n{wanted}");
    let made = folder.join("python");
    let (bin, installed) = (made.join("bin"), made.join("installed.txt"));
    if std::fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(bin);
    }
    let usual = std::env::var(PYTHON).unwrap_or_else(|_| "python3".to_owned());
    ran(Command::new(usual).args(["-m", "venv", "--clear"]).arg(&made))?;
    let torch = Command::new(root.join(INSTALL_TORCH)).arg(&made).arg(TORCH).env("PATH", path(&bin)?).status();
    if !torch.map_err(|e| format!("{INSTALL_TORCH}: {e}"))?.success() {
        return Err("torch cannot be installed".to_owned());
    }
    let install = ["-m", "pip", "install", "-q", "--no-deps", "-r"];
    ran(Command::new(bin.join("python")).args(install).arg(requirements))?;
    std::fs::write(&installed, wanted).map_err(|e| format!("{}: {e}", installed.display()))?;
    Ok(bin)
}

/// A wheel of this checkout.
fn wheel(root: &Path, bin: &Path) -> Result<PathBuf, String> {
    if let Some(given) = std::env::var_os(WHEEL) {
        return Ok(given.into());
    }
    let chosen = std::env::var(BUILD).unwrap_or_default();
    let built = Command::new(root.join("ffi/python/build_wheel.sh"))
        .args(chosen.split_whitespace())
        .env("PATH", path(bin)?)
        .current_dir(root)
        .status();
    if !built.map_err(|e| format!("build_wheel.sh: {e}"))?.success() {
        return Err("the wheel cannot be built".to_owned());
    }
    let folder = root.join("target/wheels");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let found =
        entries.filter_map(|entry| Some(entry.ok()?.path())).find(|path| path.extension().is_some_and(|e| e == "whl"));
    found.ok_or_else(|| format!("{}: no wheel", folder.display()))
}

/// The search path with a folder first.
fn path(bin: &Path) -> Result<std::ffi::OsString, String> {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(bin.to_path_buf()).chain(std::env::split_paths(&usual));
    std::env::join_paths(folders).map_err(|e| format!("PATH: {e}"))
}

fn ran(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|e| format!("{name}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_engine_is_named() {
        let said = run(Path::new("/nowhere"), "tgi", &[]).expect_err("there is no such engine");
        assert_eq!(said, "no engine tgi; there are vllm, hf");
    }

    #[test]
    fn programs_and_requirements_are_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a workspace");
        for (_, program) in ENGINES {
            assert!(root.join(PROGRAMS).join(program).is_file(), "{program}");
        }
        let text = std::fs::read_to_string(root.join(PROGRAMS).join("requirements.txt")).expect("it is a file");
        assert!(text.lines().all(|line| line.starts_with('#') || line.contains("==")), "every version is written");
    }
}
