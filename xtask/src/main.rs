//! `cargo run -p xtask -- CHORE`: the chores of this repository by name.
//!
//! A chore reads and writes this checkout only. Exit status: 0 done, 1 the chore found something, 2 bad command line.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use xtask::{engine, foreign, fuzz, gpu_pack, hostile, long, passes, ptxas, results, unfused};

/// What the command prints when it is called wrongly.
const USAGE: &str = "usage: cargo run -p xtask -- CHORE

  tidy                   check layering, unsafe code, file form, forbidden words and purity
  passes                 make each pass idle in turn: a test of `fusion` has to fail (minutes)
  fuzz [SECONDS]         run the fuzz tests with fresh seeds for so long (60); keeps what fails in target/fuzz
  hostile                how long the optimised command takes to refuse each bad file: less than 100 ms
  long [PART]            casts of all f32, 10,000 kernels made and dropped, broken Ascend C, a sample of the matrix and whole graphs
                         (of FUSEWRIGHT_FIXTURES too) on the host model of NPUs, the whole matrix in slices that a later run
                         goes on from, ten minutes of fuzzing, the example for mistral.rs, lints of two examples; or one part: casts, memory,
                         mutants, bounds, ascend, gpu-code, differential, matrix, fuzz, mistralrs, lints (hours)
  unfused [FOLDER]       the share of ops of exported models that no kernel computes: at most 2 % together; without a folder, of
                         tiny models of `transformers`, which it fetches and keeps in target/models
  engine NAME [ARG...]   run an inference engine with Fusewright and without: vllm, or hf for transformers' `generate`; installs it into
                         target/engines, writes figures there and prints them; arguments are those of the program in
                         ffi/python/benches/engines (an hour on a quiet machine)
  foreign-kernel         fetch a kernel for Ascend that others wrote into target/foreign, and run it on the host model
  results                write the tables and the chart of measured figures in README.md, docs and benches from benches/results
  gpu-pack               make a folder that measures kernels on a machine with a GPU and nothing else, as an archive in target/gpu-pack
  gpu-code               look for spills, long code and the assembler's known mistake in machine code of the ops of the GPU bench,
                         their schedules, and a sample of the matrix (FUSEWRIGHT_SEED); needs no GPU
  fetch-ptxas            get NVIDIA's PTX assembler and disassembler into target/tools
  validate [FILE.ptx...] assemble these files, or else what the PTX tests generate";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tidy"] => tidy(),
        ["passes"] => outcome(passes::check(&root())),
        ["fuzz"] => outcome(fuzz::run(&root(), 60)),
        ["fuzz", seconds] if seconds.parse::<u64>().is_ok() => {
            outcome(seconds.parse().map_err(|_| "no number of seconds".to_owned()).and_then(|s| fuzz::run(&root(), s)))
        }
        ["hostile"] => outcome(hostile::check(&root())),
        ["long"] => outcome(long::run(&root(), None)),
        ["long", part] => outcome(long::run(&root(), Some(part))),
        ["unfused"] => outcome(unfused::check(&root(), None)),
        ["unfused", folder] => outcome(unfused::check(&root(), Some(folder))),
        ["engine", name, more @ ..] => outcome(engine::run(&root(), name, more)),
        ["foreign-kernel"] => outcome(foreign::check(&root())),
        ["results"] => outcome(results::write(&root())),
        ["gpu-pack"] => outcome(gpu_pack::pack(&root()).map(|path| println!("{}", path.display()))),
        ["gpu-code"] => outcome(long::gpu_code(&root())),
        ["fetch-ptxas"] => outcome(ptxas::fetch(&tools()).map(|path| println!("{}", path.display()))),
        ["validate", files @ ..] => outcome(validate(files)),
        _ => {
            eprintln!("{USAGE}");
            ExitCode::from(2)
        }
    }
}

/// The root of this checkout.
fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask).to_path_buf()
}

fn tidy() -> ExitCode {
    let findings = match xtask::tidy::Tree::load(&root()) {
        Ok(tree) => xtask::tidy::check(&tree),
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::from(2);
        }
    };
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn outcome(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(1)
        }
    }
}

/// Runs the tests that look at machine code, and shows what they counted.
fn tools() -> PathBuf {
    root().join("target/tools")
}

fn validate(files: &[&str]) -> Result<(), String> {
    let Some(tool) = ptxas::locate(&tools()) else {
        println!("skipped: validate ({})", ptxas::MISSING);
        return Ok(());
    };
    if files.is_empty() {
        let status = Command::new("cargo")
            .args(["test", "-p", "fusewright-codegen", "--features", "cuda", "--test", "ptx"])
            .env(ptxas::VARIABLE, &tool)
            .current_dir(root())
            .status()
            .map_err(|e| format!("cargo: {e}"))?;
        return if status.success() { Ok(()) } else { Err("the PTX tests failed".to_owned()) };
    }
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
        let report = ptxas::assemble(&tool, &text).map_err(|e| format!("{file}: {e}"))?;
        println!("{file}: {} registers, {} bytes spilled", report.registers, report.spilled);
    }
    Ok(())
}
