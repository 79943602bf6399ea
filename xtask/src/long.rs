//! What takes too long for every change: all 2³² f32 converted, ten thousand kernels compiled and dropped, every way to
//! break Ascend C, kernels with changed indices, a sample of combinations and whole graphs on the host model of NPUs,
//! machine code for every kind of GPU, twenty thousand random graphs, the whole matrix, fuzzing, the example for mistral.rs,
//! lints of the examples that link the library in a build script, and tests of the wheel as it is released.
//!
//! The matrix is checked in slices by a release build. What is done of it and of the broken Ascend C is kept in
//! `target/long`, with the commit that it was done for, so that a run that was stopped goes on where it was.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Where the state of the matrix is kept, below the root.
const STATE: &str = "target/long/matrix";
/// The folder of what became of broken Ascend C, a file per commit, below the root.
const MUTANTS: &str = "target/long/mutants";
/// Combinations that are checked at once.
const SLICE: usize = 500;
/// How often kernels are compiled and dropped, per tier.
const CYCLES: usize = 10_000;
/// Seeds of random graphs, and graphs of each seed and profile.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=10;
const GRAPHS: u64 = 500;
/// Combinations of the matrix whose kernels are proven and run between fences, and how many changed kernels are tried.
const COMBINATIONS: usize = 2000;
const CHANGED: usize = 20_000;
/// Seconds of fuzzing.
const FUZZ: u64 = 600;
/// Examples with build scripts that link the library.
const LINTED: [&str; 2] = ["fusewright-example-build-rs", "fusewright-example-first-build-rs"];

/// What a run does, in order.
pub const PARTS: [&str; 12] = [
    "casts",
    "memory",
    "mutants",
    "bounds",
    "ascend",
    "gpu-code",
    "differential",
    "matrix",
    "fuzz",
    "mistralrs",
    "lints",
    "wheel",
];

/// Runs one part, or all of them.
///
/// # Errors
/// An unknown part; what failed, in words.
pub fn run(root: &Path, part: Option<&str>) -> Result<(), String> {
    for name in PARTS.into_iter().filter(|name| part.is_none_or(|part| part == *name)) {
        let start = Instant::now();
        match name {
            "casts" => casts(root)?,
            "memory" => memory(root)?,
            "mutants" => mutants(root)?,
            "bounds" => bounds(root)?,
            "ascend" => crate::npu::run(root)?,
            "differential" => differential(root)?,
            "gpu-code" => gpu_code(root)?,
            "matrix" => matrix(root)?,
            "mistralrs" => mistralrs(root)?,
            "lints" => lints(root)?,
            "wheel" => wheel(root)?,
            _ => crate::fuzz::run(root, FUZZ)?,
        }
        println!("{name}: done after {} s", start.elapsed().as_secs());
    }
    match part {
        Some(part) if !PARTS.contains(&part) => Err(format!("no part `{part}`; there is {}", PARTS.join(", "))),
        _ => Ok(()),
    }
}

/// In a build with LLVM, whose conversions are its own.
fn casts(root: &Path) -> Result<(), String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let test = ["test", "--release", "-p", "fusewright", "--features", "llvm", "--test", "numerics"];
    let chosen = ["casts::every_f32", "--", "--nocapture"];
    let mut command = Command::new("cargo");
    let status = command.args(test).args(chosen).env("FUSEWRIGHT_LONG", threads.to_string()).current_dir(root).status();
    if status.map_err(|e| format!("cargo: {e}"))?.success() { Ok(()) } else { Err("a conversion is wrong".to_owned()) }
}

/// Broken Ascend C, all of it, on the host model.
fn mutants(root: &Path) -> Result<(), String> {
    let test = ["test", "-p", "fusewright-codegen", "--features", "ascend", "--test", "mutants", "--", "--nocapture"];
    let folder = root.join(MUTANTS);
    std::fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let kept = folder.join(commit(root)?);
    println!("what became of each mutant: {}", kept.display());
    let status = Command::new("cargo").args(test).env("FUSEWRIGHT_LONG", kept).current_dir(root).status();
    let caught = status.map_err(|e| format!("cargo: {e}"))?.success();
    if caught { Ok(()) } else { Err("too much that is broken is not caught".to_owned()) }
}

/// Kernels with a changed index or predicate, and kernels of the matrix between two fences.
fn bounds(root: &Path) -> Result<(), String> {
    for (binary, chosen) in [("differential", "bounds::"), ("cpu", "fenced::")] {
        let test = ["test", "--release", "-p", "fusewright", "--features", "llvm", "--test", binary, chosen];
        let mut command = Command::new("cargo");
        command.args(test).args(["--", "--nocapture"]).current_dir(root);
        command.env("FUSEWRIGHT_CASES", COMBINATIONS.to_string()).env("FUSEWRIGHT_MUTANTS", CHANGED.to_string());
        if !command.status().map_err(|e| format!("cargo: {e}"))?.success() {
            return Err("a kernel leaves its memory, or is refused without a reason".to_owned());
        }
    }
    Ok(())
}

/// In a build with LLVM, which the second tier needs.
fn memory(root: &Path) -> Result<(), String> {
    let test = ["test", "--release", "-p", "fusewright", "--features", "llvm", "--test", "memory", "--", "--nocapture"];
    let status = Command::new("cargo").args(test).env("FUSEWRIGHT_LONG", CYCLES.to_string()).current_dir(root).status();
    if status.map_err(|e| format!("cargo: {e}"))?.success() { Ok(()) } else { Err("memory grows".to_owned()) }
}

/// The example for mistral.rs, which depends on many crates.
fn mistralrs(root: &Path) -> Result<(), String> {
    let status = Command::new(".ci/examples").arg("mistralrs").current_dir(root).status();
    if status.map_err(|e| format!(".ci/examples: {e}"))?.success() { Ok(()) } else { Err("it fails".to_owned()) }
}

/// Machine code of the ops of the GPU bench, their schedules and a sample of the matrix, for every kind of GPU. Needs no GPU.
///
/// # Errors
/// Code that spills, is too long, or has the assembler's known mistake.
pub fn gpu_code(root: &Path) -> Result<(), String> {
    let test = ["test", "-q", "-p", "fusewright", "--features", "cuda", "--test", "gpu", "machine_code::"];
    let mut command = Command::new("cargo");
    command.args(test).args(["--", "--nocapture"]).env("FUSEWRIGHT_LONG", "1").current_dir(root);
    let right = command.status().map_err(|e| format!("cargo: {e}"))?.success();
    if right { Ok(()) } else { Err("machine code spills, is too long, or is not what was meant".to_owned()) }
}

/// The wheel in the release profile, and its tests. `.ci/run` builds it in the profile of development.
fn wheel(root: &Path) -> Result<(), String> {
    let status = Command::new("ffi/python/test.sh").current_dir(root).status();
    if status.map_err(|e| format!("ffi/python/test.sh: {e}"))?.success() { Ok(()) } else { Err("it fails".to_owned()) }
}

/// Lints that every change does not wait for: Clippy compiles the library anew for build scripts.
fn lints(root: &Path) -> Result<(), String> {
    let mut command = Command::new("cargo");
    command.args(["clippy", "-q", "--all-targets"]).args(LINTED.iter().flat_map(|name| ["-p", *name]));
    let clean = command.args(["--", "-D", "warnings"]).current_dir(root).status().map_err(|e| format!("cargo: {e}"))?;
    if clean.success() { Ok(()) } else { Err("an example has warnings".to_owned()) }
}

/// Random graphs of many seeds, run every way that there is on this host.
fn differential(root: &Path) -> Result<(), String> {
    let test = ["test", "-q", "-p", "fusewright", "--features", "llvm,ascend", "--test", "differential", "every_way"];
    for seed in SEEDS {
        let mut command = Command::new("cargo");
        command.args(test).env("FUSEWRIGHT_SEED", seed.to_string()).env("FUSEWRIGHT_CASES", GRAPHS.to_string());
        if !command.current_dir(root).status().map_err(|e| format!("cargo: {e}"))?.success() {
            return Err(format!("random graphs of seed {seed}"));
        }
        println!("seed {seed} of {} done", SEEDS.end());
    }
    Ok(())
}

/// How far the matrix is checked, and for what.
#[derive(Clone, PartialEq, Eq, Debug)]
struct State {
    commit: String,
    done: usize,
}

impl State {
    fn text(&self) -> String {
        format!("{} {}\n", self.commit, self.done)
    }

    /// The state for a commit: what the text says, or nothing done if it is of another.
    fn parse(text: &str, commit: &str) -> State {
        let found = text.trim().split_once(' ').filter(|(of, _)| *of == commit);
        let done = found.and_then(|(_, done)| done.parse().ok()).unwrap_or(0);
        State { commit: commit.to_owned(), done }
    }
}

/// The commit and what is changed beside it.
fn commit(root: &Path) -> Result<String, String> {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).current_dir(root).output().map_err(|e| format!("git: {e}"))?;
        if output.status.success() { Ok(output.stdout) } else { Err(format!("git {} failed", args.join(" "))) }
    };
    let head = String::from_utf8_lossy(&git(&["rev-parse", "HEAD"])?).trim().to_owned();
    // Every byte of the difference counts: a changed tree is another one.
    let changed = git(&["diff", "HEAD"])?
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    Ok(format!("{head}-{changed:016x}"))
}

fn matrix(root: &Path) -> Result<(), String> {
    let built =
        Command::new("cargo").args(["build", "-q", "--release", "--bin", "fusewright"]).current_dir(root).status();
    if !built.map_err(|e| format!("cargo: {e}"))?.success() {
        return Err("the command cannot be built".to_owned());
    }
    let tool = root.join("target/release/fusewright");
    let bench = |args: &[&str]| Command::new(&tool).args(["bench", "--suite", "matrix"]).args(args).output();
    let listed = bench(&["--list"]).map_err(|e| format!("{}: {e}", tool.display()))?;
    let total = String::from_utf8_lossy(&listed.stdout).lines().count();
    let path = root.join(STATE);
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let mut state = State::parse(&kept, &commit(root)?);
    let (start, first) = (Instant::now(), state.done);
    while state.done < total {
        let slice = format!("{}..{}", state.done, (state.done + SLICE).min(total));
        let said = bench(&["--check", "--slice", &slice]).map_err(|e| format!("{}: {e}", tool.display()))?;
        if !said.status.success() {
            let [out, err] = [said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
            return Err(format!("combinations {slice}:\n{out}{err}"));
        }
        state.done = (state.done + SLICE).min(total);
        save(&path, &state)?;
        let rate = (state.done - first) as f64 / start.elapsed().as_secs_f64();
        let left = (total - state.done) as f64 / rate;
        println!("{} of {total} combinations, {rate:.1} a second, {left:.0} s left", state.done);
    }
    Ok(())
}

fn save(path: &Path, state: &State) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(failed)?;
    std::fs::write(path, state.text()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_for_the_same_commit_alone() {
        let state = State { commit: "abc".to_owned(), done: 1500 };
        assert_eq!(State::parse(&state.text(), "abc"), state);
        assert_eq!(State::parse(&state.text(), "abd").done, 0);
        assert_eq!(State::parse("", "abc").done, 0);
        assert_eq!(State::parse("abc many", "abc").done, 0);
    }

    #[test]
    fn an_unknown_part_is_an_error() {
        let error = run(Path::new("."), Some("cast")).expect_err("there is no such part");
        assert_eq!(
            error,
            "no part `cast`; there is casts, memory, mutants, bounds, ascend, gpu-code, differential, matrix, fuzz, mistralrs, \
             lints, wheel"
        );
    }
}
