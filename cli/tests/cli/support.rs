//! Calling the built command.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// The exported models that are kept with the project.
pub const MODELS: [&str; 3] =
    ["aten_addrms_fp8tok_h4096_bfloat16", "aten_silu_grp128_h12288_bfloat16", "qwen3_tiny_layer_bf16"];

/// A file of `fixtures/`.
pub fn fixture(name: &str) -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(name).display().to_string()
}

/// The command with arguments.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fusewright"));
    command.args(arguments);
    command
}

/// What a call left behind.
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("the command prints UTF-8");
        Outcome { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Runs the command to its end.
pub fn call(arguments: &[&str]) -> Outcome {
    command(arguments).output().expect("the command starts").into()
}

/// Runs the command, which must exit with 0 and print one JSON value.
#[track_caller]
pub fn json(arguments: &[&str]) -> Value {
    let outcome = call(arguments);
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).expect("the command prints JSON")
}

/// Runs the command, which must exit with `code`, print nothing, and say each of `words` on standard error.
#[track_caller]
pub fn refused(code: i32, arguments: &[&str], words: &[&str]) {
    let outcome = call(arguments);
    assert_eq!(outcome.code, Some(code), "{arguments:?}: {}", outcome.stderr);
    assert_eq!(outcome.stdout, "", "{arguments:?}");
    for word in words {
        assert!(outcome.stderr.contains(word), "{arguments:?}: no `{word}` in: {}", outcome.stderr);
    }
    assert!(!outcome.stderr.contains("panicked"), "{arguments:?}: {}", outcome.stderr);
}

/// The keys of a JSON object in order.
pub fn keys(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

/// Fails unless `value` is an object with all of `expected` among its keys.
#[track_caller]
pub fn check_keys(value: &Value, expected: &[&str]) {
    let found = keys(value);
    for key in expected {
        assert!(found.contains(key), "no key `{key}` among {found:?}");
    }
}

/// Writes a text file into a folder and returns its path.
pub fn write(folder: &tempfile::TempDir, name: &str, contents: impl AsRef<[u8]>) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, contents).expect("the folder takes files");
    path.display().to_string()
}

/// A folder of its own.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("the system has a place for temporary files")
}

/// Every file below a folder by its path there.
pub fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder is readable") {
            let path = entry.expect("the folder is readable").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).expect("it lies below").display().to_string();
                found.insert(name, std::fs::read(&path).expect("the file is readable"));
            }
        }
    }
    found
}
