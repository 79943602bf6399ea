//! The chore counts the ops of recent models that no generated kernel computes.
//!
//! Views and the work of libraries, such as matrix products, count as neither. Models are exported files in a folder; without
//! one, tiny models of `transformers` are made.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

/// The folder of the models that are made, below the root.
const MADE: &str = "target/models";
/// The Python that makes them, below the root, and the script that installs it.
const PYTHON: &str = "target/python-torch";
const INSTALL: &str = "ffi/python/tools/install_torch_cpu.sh";
const TRANSFORMERS: &str = "transformers==5.24.0";
/// The command that explains them, below the root.
const COMMAND: &str = "target/release/fusewright";
/// Most that may stay unfused, in percent of all models' ops together.
const MOST: f64 = 2.0;
/// Ops that cost nothing: they are in a region's list beside those that it computes.
const VIEWS: [&str; 4] = ["reshape", "permute", "expand", "slice"];

/// The part of `explain --json` that says where ops are computed.
#[derive(Deserialize)]
struct Explained {
    by_reference: Vec<Op>,
    regions: Vec<Region>,
}

#[derive(Deserialize)]
struct Region {
    ops: Vec<String>,
    no_kernel: Option<String>,
    instead: Vec<Instead>,
}

#[derive(Deserialize)]
struct Op {
    op: String,
    reason: String,
}

#[derive(Deserialize)]
struct Instead {
    op: String,
    by: String,
    no_kernel: Option<String>,
}

/// The ops of a model by what computes them.
#[derive(Default)]
struct Counts {
    in_kernels: usize,
    /// Each with the reason.
    by_reference: Vec<String>,
}

/// Explains all models of a folder, prints what each leaves to the reference interpreter and the share of all of them.
///
/// # Errors
/// A command that fails, a folder without models, a share above the limit.
pub fn check(root: &Path, folder: Option<&str>) -> Result<(), String> {
    let folder = match folder {
        Some(folder) => PathBuf::from(folder),
        None => made(root)?,
    };
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "pt2"));
    files.sort();
    let build = ["build", "-q", "--release", "--bin", "fusewright"];
    ran(Command::new("cargo").args(build).current_dir(root))?;
    let mut all = Counts::default();
    for file in &files {
        let said = Command::new(root.join(COMMAND)).arg("explain").arg(file).arg("--json").output();
        let said = said.map_err(|e| format!("{COMMAND}: {e}"))?;
        if !said.status.success() {
            return Err(format!("{}: {}", file.display(), String::from_utf8_lossy(&said.stderr).trim()));
        }
        let explained = serde_json::from_slice(&said.stdout).map_err(|e| format!("{}: {e}", file.display()))?;
        let counts = Counts::of(explained);
        println!("{:5.1} %  {}", counts.share(), file.file_stem().unwrap_or_default().display());
        counts.by_reference.iter().for_each(|op| println!("         {op}"));
        all.in_kernels += counts.in_kernels;
        all.by_reference.extend(counts.by_reference);
    }
    println!("{:5.2} %  of {} models, at most {MOST} %", all.share(), files.len());
    match (files.is_empty(), all.share() <= MOST) {
        (true, _) => Err(format!("{}: no exported models", folder.display())),
        (false, true) => Ok(()),
        (false, false) => Err("too many ops are left to the reference interpreter".to_owned()),
    }
}

/// Makes the models where they are not there yet.
fn made(root: &Path) -> Result<PathBuf, String> {
    let folder = root.join(MADE);
    if folder.is_dir() {
        return Ok(folder);
    }
    let python = root.join(PYTHON).join("bin/python");
    if !python.is_file() {
        ran(Command::new(root.join(INSTALL)).arg(PYTHON).current_dir(root))?;
    }
    ran(Command::new(&python).args(["-m", "pip", "install", "-q", TRANSFORMERS]))?;
    let half = folder.with_extension("part");
    ran(Command::new(&python).args(["-c", include_str!("models.py")]).arg(&half))?;
    std::fs::rename(&half, &folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

fn ran(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().map_err(|e| format!("{name}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name} failed")) }
}

impl Counts {
    fn of(explained: Explained) -> Counts {
        let mut counts = Counts::default();
        for op in explained.by_reference {
            counts.by_reference.push(format!("{}: {}", op.op, op.reason));
        }
        for region in explained.regions {
            if region.no_kernel.is_none() {
                counts.in_kernels += region.ops.iter().filter(|op| !VIEWS.contains(&op.as_str())).count();
            }
            for op in region.instead {
                match op.by.as_str() {
                    "kernel" => counts.in_kernels += 1,
                    "reference" => counts.by_reference.push(format!("{}: {}", op.op, op.no_kernel.unwrap_or_default())),
                    _ => {}
                }
            }
        }
        counts
    }

    /// The share of ops that no kernel computes, in percent.
    fn share(&self) -> f64 {
        let all = self.in_kernels + self.by_reference.len();
        if all == 0 { 0.0 } else { 100.0 * self.by_reference.len() as f64 / all as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_views_count_as_neither() {
        let said = r#"{
            "by_reference": [{ "op": "sort", "reason": "of a symbolic length" }],
            "regions": [
                { "ops": ["reshape", "add", "mul"], "no_kernel": null, "instead": [] },
                { "ops": ["cat", "mm", "exp"], "no_kernel": "too wide", "instead": [
                    { "op": "cat", "by": "copy", "no_kernel": null },
                    { "op": "mm", "by": "matrix product", "no_kernel": null },
                    { "op": "exp", "by": "kernel", "no_kernel": null }
                ] }
            ]
        }"#;
        let counts = Counts::of(serde_json::from_str(said).expect("a report"));
        assert_eq!((counts.in_kernels, counts.by_reference.len()), (3, 1));
        assert!((counts.share() - 25.0).abs() < 1e-9);
        assert_eq!(counts.by_reference, ["sort: of a symbolic length"]);
    }
}
