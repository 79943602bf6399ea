//! Bad input of every kind, under limits on memory and on processor time that the system enforces.
//!
//! A case passes if the command exits with 2 and says what is wrong and where. A panic, an abort for lack of memory or
//! an input whose cost grows faster than its size all end otherwise. The limits count work, not the clock.

mod archive;
mod models;
mod tensors;
mod texts;

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Outcome, folder, write};

/// Memory of the whole process but for mapped files, in KiB.
const MEMORY: u64 = 64 << 10;
/// Exit status of bad input, and of what the machine lacks.
const BAD_INPUT: i32 = 2;
const LACKING: i32 = 3;
/// Processor time of the whole process in seconds; a build without optimisation takes far less.
const SECONDS: u64 = 4;

/// Runs the command to its end under the limits.
fn limited(arguments: &[&str]) -> Outcome {
    let script = format!("ulimit -c 0; ulimit -d {MEMORY}; ulimit -t {SECONDS}; exec \"$0\" \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, &command_under_test()]).args(arguments);
    command.output().expect("the command starts").into()
}

/// The command that is tried: the one that was built with the tests, or one that `xtask hostile` names.
fn command_under_test() -> String {
    std::env::var("FUSEWRIGHT_COMMAND").unwrap_or_else(|_| env!("CARGO_BIN_EXE_fusewright").to_owned())
}

/// What is wrong with how the command refused, if anything.
fn complaint(arguments: &[&str], words: &[&str]) -> Option<String> {
    complaint_of(arguments, BAD_INPUT, words)
}

/// As [`complaint`], for another status than that of bad input.
fn complaint_of(arguments: &[&str], code: i32, words: &[&str]) -> Option<String> {
    let said = limited(arguments);
    let complaint = if said.code != Some(code) {
        format!("exit status {:?}", said.code)
    } else if said.stderr.contains("panicked") {
        "a panic".to_owned()
    } else if !said.stdout.is_empty() {
        "something is printed".to_owned()
    } else {
        let missing = words.iter().find(|word| !said.stderr.contains(**word))?;
        format!("no `{missing}`")
    };
    let shown: String = said.stderr.chars().take(600).collect();
    Some(format!("{complaint} in: {shown}"))
}

/// Bad files of one kind; all are tried before any complaint is raised.
struct Cases {
    /// Ending of the files.
    ending: &'static str,
    complaints: Vec<String>,
    tried: usize,
    slowest: (Duration, String),
}

impl Cases {
    fn new(ending: &'static str) -> Self {
        Cases { ending, complaints: Vec::new(), tried: 0, slowest: (Duration::ZERO, String::new()) }
    }

    /// A file of these bytes cannot be read: each command says so with the file's name and `words`. `FILE` stands for
    /// the file.
    fn misread(&mut self, what: &str, bytes: &[u8], commands: &[&[&str]], words: &[&str]) {
        let name = format!("bad.{}", self.ending);
        self.refused(what, bytes, commands, &[&[name.as_str()], words].concat());
    }

    /// A file of these bytes is refused by each command with `words`.
    fn refused(&mut self, what: &str, bytes: &[u8], commands: &[&[&str]], words: &[&str]) {
        self.each(what, bytes, commands, BAD_INPUT, words);
    }

    /// Each command says with `words` that there is no memory for what a file of these bytes asks for.
    fn starved(&mut self, what: &str, bytes: &[u8], commands: &[&[&str]], words: &[&str]) {
        self.each(what, bytes, commands, LACKING, words);
    }

    fn each(&mut self, what: &str, bytes: &[u8], commands: &[&[&str]], code: i32, words: &[&str]) {
        let folder = folder();
        let path = write(&folder, &format!("bad.{}", self.ending), bytes);
        for command in commands {
            let arguments: Vec<&str> = command.iter().map(|&word| if word == "FILE" { &path } else { word }).collect();
            self.tried += 1;
            let start = Instant::now();
            self.complaints
                .extend(complaint_of(&arguments, code, words).map(|c| format!("{what}, {}: {c}", command[0])));
            let took = start.elapsed();
            if took > self.slowest.0 {
                self.slowest = (took, format!("{}, {what}", command[0]));
            }
        }
    }

    /// Fails if any case complained.
    fn finish(self, least: usize) {
        // Read by `xtask hostile`, which gives the time a meaning: a build with optimisation, one case after the other.
        println!("{} cases, slowest {} µs: {}", self.tried, self.slowest.0.as_micros(), self.slowest.1);
        assert!(self.complaints.is_empty(), "{}", self.complaints.join("\n\n"));
        assert!(self.tried >= least, "{} cases", self.tried);
    }
}

#[test]
fn the_limits_bite() {
    let model = crate::support::fixture("qwen3_tiny_layer_bf16.train.pt2");
    // What is good is run within the limits too, so that a refusal under them is about the input.
    let whole = limited(&["explain", &model]);
    assert_eq!(whole.code, Some(0), "{}", whole.stderr);
    let folder = folder();
    let large = write(&folder, "large.fw", "graph @large(%x: f32[64, 1048576]) {\n  %y = neg %x\n  return %y\n}\n");
    let words = ["large.fw", "input `x`", "f32[64, 1048576]", "536870912 bytes"];
    assert_eq!(complaint_of(&["run", &large, "--unfused"], LACKING, &words), None);
}
