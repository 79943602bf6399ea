//! The host model of NPUs on what takes too long for every change: a sample of the matrix on a chip of each family, and
//! whole graphs. Results are SIMULATED; what a chip does not take is counted by its reason, and is no failure.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::skipped::skipped;

/// A chip of each family.
const CHIPS: [&str; 3] = ["910b1", "950", "310p3"];
/// Combinations of the matrix per chip.
const SAMPLE: usize = 300;
/// The seed of samples unless [`SEED`] names another.
const USUAL_SEED: &str = "1";
const SEED: &str = "FUSEWRIGHT_SEED";
/// Names a folder of models with what they must give, beside the one of this repository.
const FIXTURES: &str = "FUSEWRIGHT_FIXTURES";
/// What names of models of the vendor's ops, of PyTorch's and of vLLM's begin with.
const KINDS: [&str; 3] = ["npu_", "aten_", "vllm_"];
const MODEL: &str = ".train.pt2";
/// What the command says of a graph of a dtype that a target lacks, before what that is.
const REFUSED: &str = "does not run this graph: ";
/// Exit status of the command where a target is not available.
const UNAVAILABLE: i32 = 3;

/// Runs everything by the command as tests build it: most of the time goes to the compiler of C++.
///
/// # Errors
/// What failed, in words.
pub fn run(root: &Path) -> Result<(), String> {
    let build = ["build", "-q", "-p", "fusewright-cli"];
    let built = Command::new("cargo").args(build).current_dir(root).status();
    if !built.map_err(|e| format!("cargo: {e}"))?.success() {
        return Err("the command cannot be built".to_owned());
    }
    let tool = root.join("target/debug/fusewright");
    let mut failed = Vec::new();
    for chip in CHIPS {
        let target = format!("ascend-sim:{chip}");
        let Some(sample) = matrix(&tool, &target)? else { return Ok(()) };
        println!("{target}: matrix: {}", sample.words());
        failed.extend(sample.failed.iter().map(|failed| format!("{target}: {failed}")));
        let graphs = graphs(root, &tool, &target)?;
        println!("{target}: whole graphs: {}", graphs.words());
        failed.extend(graphs.failed.iter().map(|failed| format!("{target}: {failed}")));
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// What became of several runs.
#[derive(Default, Debug)]
struct Tally {
    ran: usize,
    /// Runs of which the target does not take some part.
    refused: usize,
    /// Runs that the target refuses as a whole, by name.
    refused_whole: usize,
    /// Reasons, and how often each was given.
    reasons: BTreeMap<String, usize>,
    /// What failed, in words.
    failed: Vec<String>,
}

impl Tally {
    fn refuse<'a>(&mut self, given: impl Iterator<Item = &'a str>) {
        let mut some = false;
        for text in given {
            *self.reasons.entry(reason(text)).or_default() += 1;
            some = true;
        }
        self.refused += usize::from(some);
    }

    fn words(&self) -> String {
        let mut reasons: Vec<_> = self.reasons.iter().collect();
        reasons.sort_by_key(|(reason, count)| (std::cmp::Reverse(**count), *reason));
        let lines: String = reasons.iter().map(|(reason, count)| format!("\n  {count:>4} {reason}")).collect();
        let Tally { ran, refused, refused_whole, failed, .. } = self;
        format!("{ran} ran, {refused} refused in part, {refused_whole} as a whole, {} failed{lines}", failed.len())
    }
}

/// Why something has no code, without the kernel and the place.
fn reason(text: &str) -> String {
    let (_, last) = text.rsplit_once("no Ascend C for ").unwrap_or(("", text));
    last.to_owned()
}

/// A sample of the matrix; none where the host model cannot be built, which is said.
fn matrix(tool: &Path, target: &str) -> Result<Option<Tally>, String> {
    let seed = std::env::var(SEED).unwrap_or_else(|_| USUAL_SEED.to_owned());
    let sample = SAMPLE.to_string();
    let arguments = ["bench", "--suite", "matrix", "--check", "--json", "--sample", &sample, "--seed", &seed];
    let said = call(tool, &[&arguments[..], &["--target", target]].concat())?;
    if said.status.code() == Some(UNAVAILABLE) {
        skipped(target, String::from_utf8_lossy(&said.stderr).trim());
        return Ok(None);
    }
    let report = parsed(&said)?;
    let list = |name: &str| report[name].as_array().cloned().unwrap_or_default();
    let mut tally = Tally { ran: report["checked"].as_u64().unwrap_or(0) as usize, ..Tally::default() };
    for refused in list("refused") {
        tally.refuse(refused["reason"].as_str().into_iter());
    }
    for failed in list("failed") {
        tally.failed.push(format!("{} (seed {seed}): {}", failed["name"], failed["reason"]));
    }
    Ok(Some(tally))
}

/// Every model that is stored with what it must give.
fn graphs(root: &Path, tool: &Path, target: &str) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for (model, stored) in models(root)? {
        let (model, stored) = (model.display().to_string(), stored.display().to_string());
        let said = call(tool, &["run", &model, "--check", &stored, "--json", "--target", target])?;
        let stderr = String::from_utf8_lossy(&said.stderr);
        if let Some((_, why)) = stderr.split_once(REFUSED) {
            tally.refused_whole += 1;
            let why = why.split(';').next().unwrap_or(why).trim();
            *tally.reasons.entry(why.to_owned()).or_default() += 1;
            continue;
        }
        tally.ran += 1;
        if !said.status.success() {
            let why = stderr.trim();
            tally.failed.push(format!("{model}: {}", if why.is_empty() { "results differ" } else { why }));
            continue;
        }
        let report = parsed(&said)?;
        let fallbacks = report["fallbacks"].as_array().cloned().unwrap_or_default();
        tally.refuse(fallbacks.iter().filter_map(|fallback| fallback["reason"].as_str()));
    }
    Ok(tally)
}

/// Models and the files of what they must give.
fn models(root: &Path) -> Result<Vec<(PathBuf, PathBuf)>, String> {
    let mut folders = vec![root.join("fixtures")];
    match std::env::var_os(FIXTURES) {
        Some(folder) => folders.push(folder.into()),
        None => skipped("models of another folder", format!("{FIXTURES} names none")),
    }
    let mut found = BTreeMap::new();
    for folder in folders {
        let entries = std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(stem) = name.strip_suffix(MODEL).filter(|stem| KINDS.iter().any(|kind| stem.starts_with(kind)))
            else {
                continue;
            };
            let stored = folder.join(format!("{stem}.safetensors"));
            if stored.exists() {
                found.entry(stem.to_owned()).or_insert((entry.path(), stored));
            }
        }
    }
    Ok(found.into_values().collect())
}

fn call(tool: &Path, arguments: &[&str]) -> Result<Output, String> {
    Command::new(tool).args(arguments).output().map_err(|e| format!("{}: {e}", tool.display()))
}

fn parsed(said: &Output) -> Result<Value, String> {
    let text = String::from_utf8_lossy(&said.stdout);
    serde_json::from_str(&text).map_err(|e| format!("{e}: {text}{}", String::from_utf8_lossy(&said.stderr)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_their_reasons() {
        let mut tally = Tally { ran: 3, ..Tally::default() };
        let text =
            |segment: &str| format!("gelu: ascend-c: kernel `g`: segment `{segment}`, map: no Ascend C for `erf`");
        tally.refuse([text("a").as_str(), text("b").as_str()].into_iter());
        tally.refuse(["another reason"].into_iter());
        tally.refuse(std::iter::empty());
        assert_eq!(
            tally.words(),
            "3 ran, 2 refused in part, 0 as a whole, 0 failed\n     2 `erf`\n     1 another reason"
        );
    }

    #[test]
    fn models_have_what_they_must_give() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let found = models(&root).expect("the folder of this repository");
        assert!(found.len() >= 2 && found.iter().all(|(model, stored)| model.exists() && stored.exists()));
    }
}
