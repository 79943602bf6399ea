//! How long the command takes to refuse bad files.
//!
//! The tests of bad files limit memory and processor time, which hold on any machine. Time by the clock is measured
//! here, with an optimised build and one case after the other.

use std::path::Path;
use std::process::Command;

/// Most time that a refusal may take, in microseconds, the start of the process included.
const MOST: u64 = 100_000;
/// The built command, below the root.
const COMMAND: &str = "target/release/fusewright";

/// Builds the command, tries every bad file on it, prints the slowest of each kind.
///
/// # Errors
/// A build or a test that fails, and a refusal that takes too long.
pub fn check(root: &Path) -> Result<(), String> {
    let cargo = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        command.args(arguments).current_dir(root).env("FUSEWRIGHT_COMMAND", root.join(COMMAND));
        command
    };
    let built = cargo(&["build", "-q", "--release", "--bin", "fusewright"]).status();
    if !built.map_err(|e| format!("cargo: {e}"))?.success() {
        return Err("the command cannot be built".to_owned());
    }
    let tests =
        ["test", "-q", "-p", "fusewright-cli", "--test", "cli", "hostile::", "--", "--nocapture", "--test-threads=1"];
    let output = cargo(&tests).output().map_err(|e| format!("cargo: {e}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("{said}{}", String::from_utf8_lossy(&output.stderr)));
    }
    judge(&said)
}

/// Prints the slowest case of each kind, and refuses those that take too long.
fn judge(said: &str) -> Result<(), String> {
    let found: Vec<(u64, &str)> = said.lines().filter_map(slowest).collect();
    if found.is_empty() {
        return Err("the tests of bad files print no times".to_owned());
    }
    for (micros, what) in &found {
        println!("{:7.1} ms  {what}", *micros as f64 / 1e3);
    }
    let slow: Vec<&str> = found.iter().filter(|(micros, _)| *micros > MOST).map(|(_, what)| *what).collect();
    if slow.is_empty() { Ok(()) } else { Err(format!("more than {} ms: {}", MOST / 1000, slow.join("; "))) }
}

/// The time and the name of the slowest case in a line of the tests, which says `N cases, slowest T µs: NAME`.
fn slowest(line: &str) -> Option<(u64, &str)> {
    let (micros, what) = line.split_once(" cases, slowest ")?.1.split_once(" µs: ")?;
    Some((micros.parse().ok()?, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_case_is_named() {
        let line = "40 cases, slowest 12345 µs: run, bomb";
        assert_eq!(slowest(line), Some((12_345, "run, bomb")));
        assert_eq!(slowest("test hostile::archive ... ok"), None);
        assert!(judge(&format!("running 2 tests\n{line}\nok")).is_ok());
        let slow = judge("3 cases, slowest 100001 µs: opt, deep").expect_err("it is too slow");
        assert!(slow.contains("opt, deep"), "{slow}");
        assert!(judge("ok").is_err());
    }
}
