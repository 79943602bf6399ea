//! A kernel that others wrote, under Apache-2.0: fetched from where it is published and run on the host model of Ascend C.
//! It stays in `target`.

use std::path::Path;
use std::process::Command;

/// The package that holds it, of which one file is read.
const WHEEL: &str = "mindspore==2.10.0";
/// How the file's path ends.
const FILE: &str = "/dynamic/all_finite.cpp";
/// Where it is kept, below the root.
pub const KEPT: &str = "target/foreign/all_finite.cpp";
/// What tests say where it is not.
pub const MISSING: &str = "not fetched; run `cargo run -p xtask -- foreign-kernel`";

/// Fetches the kernel where it is not there yet, and runs the tests on it.
///
/// # Errors
/// A command that is missing or fails, in words.
pub fn check(root: &Path) -> Result<(), String> {
    let kept = root.join(KEPT);
    if !kept.is_file() {
        if let Some(folder) = kept.parent() {
            std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let script = include_str!("foreign.py");
        let fetch = Command::new("python3").args(["-c", script, WHEEL, FILE]).arg(&kept).status();
        if !fetch.map_err(|e| format!("python3: {e}"))?.success() {
            return Err(format!("{FILE} of {WHEEL} was not fetched"));
        }
    }
    let args = ["test", "-p", "fusewright-ascend-model", "--test", "model", "foreign::", "--", "--nocapture"];
    let status = Command::new("cargo").args(args).current_dir(root).status().map_err(|e| format!("cargo: {e}"))?;
    if status.success() { Ok(()) } else { Err("a kernel of others does not run as it should".to_owned()) }
}
