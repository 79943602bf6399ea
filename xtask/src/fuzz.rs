//! Long runs of the fuzz tests, with a fresh seed for every round.
//!
//! The tests draw from a generator; what varies is its seed. A round that fails leaves its input in a folder of this
//! checkout's `target/`, and the seed that makes it again is in its name.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Where failing inputs are kept, below the root.
pub const KEPT: &str = "target/fuzz";

/// Runs rounds for at least so many seconds, one at least.
///
/// # Errors
/// Tests that cannot be built; rounds that failed, with their seeds and where the inputs are.
pub fn run(root: &Path, seconds: u64) -> Result<(), String> {
    let kept = root.join(KEPT);
    std::fs::create_dir_all(&kept).map_err(|e| format!("{}: {e}", kept.display()))?;
    if !tests(root).arg("--no-run").status().map_err(|e| format!("cargo: {e}"))?.success() {
        return Err("the fuzz tests cannot be built".to_owned());
    }
    let (start, mut rounds, mut failed) = (Instant::now(), 0u64, Vec::new());
    let first = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    while rounds == 0 || start.elapsed() < Duration::from_secs(seconds) {
        let seed = first.wrapping_add(rounds);
        println!("round {rounds}, seed {seed}");
        let round =
            tests(root).env("FUSEWRIGHT_FUZZ_SEED", seed.to_string()).env("FUSEWRIGHT_FUZZ_KEEP", &kept).status();
        if !round.map_err(|e| format!("cargo: {e}"))?.success() {
            failed.push(seed.to_string());
            save_running(&kept, seed).map_err(|e| format!("{}: {e}", kept.display()))?;
        }
        rounds += 1;
    }
    println!("{rounds} rounds in {} s", start.elapsed().as_secs());
    if failed.is_empty() {
        return Ok(());
    }
    let (count, seeds) = (failed.len(), failed.join(", "));
    Err(format!("{count} of {rounds} rounds failed, seeds {seeds}; their inputs are in {}", kept.display()))
}

fn tests(root: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.args(["test", "-q", "-p", "fusewright", "--test", "fuzz"]).current_dir(root);
    command
}

/// Gives what a round was reading when it ended a name that the next round does not overwrite.
fn save_running(kept: &Path, seed: u64) -> std::io::Result<()> {
    for entry in std::fs::read_dir(kept)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(rest) = name.strip_prefix("running-") {
            std::fs::rename(&path, kept.join(format!("ended-seed-{seed}-{rest}")))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ended_a_round_survives_the_next() {
        let folder = std::env::temp_dir().join(format!("fuzz-kept-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("running-graph.fw"), "first").expect("a file");
        std::fs::write(folder.join("graph-seed-3-case-1.fw"), "other").expect("a file");
        save_running(&folder, 7).expect("it is renamed");
        let there = |name: &str| folder.join(name).exists();
        assert!(there("ended-seed-7-graph.fw") && there("graph-seed-3-case-1.fw") && !there("running-graph.fw"));
        std::fs::remove_dir_all(&folder).expect("it is removed");
    }
}
