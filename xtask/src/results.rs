//! Tables of measured figures in the pages, made from the files that `benches/bench_cpu.py` writes.
//!
//! A file of `benches/results/` is one machine in one run. Each page has a place between two marks: some ops of one machine in
//! `README.md`, the summary of all machines in `docs/benchmarks.md`, every op and number of rows in `benches/README.md`. The
//! chart in `docs/images/` has the means.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;

use crate::chart::{Bar, chart};
use crate::{gpu_layers, gpu_results};

/// Where the files are, below the root.
const FOLDER: &str = "benches/results";
const BEGIN: &str = "<!-- figures: made by `cargo run -p xtask -- results` -->\n";
const END: &str = "<!-- end of figures -->\n";
/// Where the chart is.
const CHART: &str = "docs/images/speed.svg";
/// The ops that the front page shows, of this machine, compiled by LLVM, on one thread.
const KNOWN: [&str; 7] = [
    "rms_norm",
    "add_rms_norm",
    "add_rms_norm_fp8_token",
    "qk_norm_rope",
    "silu_mul",
    "silu_mul_fp8_group128",
    "softmax",
];
const FRONT: (&str, u64, &str) = ("amd-epyc-zen4", 1, "cpu-llvm");
/// The start of the name under which a file has what is measured against.
const PEER: &str = "inductor";
/// The start of the names of our targets.
const OURS: &str = "fusewright:";

/// What one machine measured.
#[derive(Deserialize)]
struct Machine {
    env: Environment,
    results: Vec<Figure>,
}

#[derive(Deserialize)]
struct Environment {
    cpu: String,
    isa: String,
    torch: String,
}

#[derive(Deserialize)]
struct Figure {
    op: String,
    rows: u64,
    threads: u64,
    #[serde(rename = "impl")]
    implementation: String,
    median_us: f64,
    copy_us: Option<f64>,
}

/// A row of a table: how often as fast as the peer, and as a copy of as many bytes.
struct Ratio<'a> {
    op: &'a str,
    rows: u64,
    peer: f64,
    copy: Option<f64>,
}

/// Writes the tables of all pages anew.
///
/// # Errors
/// A file that cannot be read or written, or is not what the bench writes; a page without the marks.
pub fn write(root: &Path) -> Result<(), String> {
    for (path, text) in pages(root)? {
        let path = root.join(path);
        std::fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

/// The pages whose tables are not those of the files.
///
/// # Errors
/// As [`write()`].
pub fn stale(root: &Path) -> Result<Vec<&'static str>, String> {
    let differs = |(path, text): (&'static str, String)| match std::fs::read_to_string(root.join(path)) {
        Ok(found) if found == text => None,
        _ => Some(path),
    };
    Ok(pages(root)?.into_iter().filter_map(differs).collect())
}

/// Every page with tables, as it should be.
fn pages(root: &Path) -> Result<Vec<(&'static str, String)>, String> {
    let machines = machines(root)?;
    let page = |path: &'static str, tables: String| -> Result<(&'static str, String), String> {
        let text = std::fs::read_to_string(root.join(path)).map_err(|e| format!("{path}: {e}"))?;
        let filled = filled(&text, &tables).ok_or_else(|| format!("{path}: no place for tables, which is marked"))?;
        Ok((path, filled))
    };
    let gpus = gpu_results::gpus(root)?;
    let layers = gpu_layers::tables(&gpu_layers::layers(root)?);
    let joined = |cpus: String, gpus: String| format!("{}\n\n{}", cpus.trim_end(), gpus);
    let bars: Vec<Bar> = bars(&machines).into_iter().chain(gpu_results::bars(&gpus)).collect();
    Ok(vec![
        (
            CHART,
            chart(
                "How often as fast, rounding where the graph does",
                "Geometric means; at the dashed line both are equally fast",
                &bars,
            ),
        ),
        page("README.md", known(&machines)?)?,
        page("docs/benchmarks.md", joined(summary(&machines), gpu_results::summary(&gpus)))?,
        page("benches/README.md", joined(details(&machines), gpu_results::details(&gpus) + &layers))?,
    ])
}

/// All machines by the names of their files.
fn machines(root: &Path) -> Result<BTreeMap<String, Machine>, String> {
    let folder = root.join(FOLDER);
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        if path.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|e| said(&e))?;
        let machine = serde_json::from_str(&text).map_err(|e| said(&e))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.insert(name, machine);
    }
    Ok(found)
}

/// A page with other tables.
fn filled(page: &str, tables: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{tables}\n{END}{after}"))
}

/// The ops of the front page, as often as fast as the peer.
fn known(machines: &BTreeMap<String, Machine>) -> Result<String, String> {
    let (name, threads, target) = FRONT;
    let machine =
        machines.get(name).ok_or_else(|| format!("{FOLDER}/{name}.json: the front page shows this machine"))?;
    let ratios = machine.ratios(threads, target);
    let rows: BTreeSet<u64> = ratios.iter().map(|r| r.rows).collect();
    let mut text = String::new();
    let heads: Vec<String> = std::iter::once("op".to_owned()).chain(rows.iter().map(|n| counted(*n))).collect();
    line(&mut text, &heads);
    line(&mut text, &vec!["---".to_owned(); heads.len()]);
    for op in KNOWN {
        let of = |n: &u64| ratios.iter().find(|r| r.op == op && r.rows == *n);
        let cell = |n: &u64| of(n).map_or_else(|| "-".to_owned(), |r| format!("{:.1} ×", r.peer));
        let cells: Vec<String> = std::iter::once(format!("`{op}`")).chain(rows.iter().map(cell)).collect();
        line(&mut text, &cells);
    }
    Ok(text)
}

/// Bars of every machine, compiled by LLVM, on one thread.
fn bars(machines: &BTreeMap<String, Machine>) -> Vec<Bar> {
    let (_, threads, target) = FRONT;
    let mut bars = Vec::new();
    for machine in machines.values() {
        let ratios = machine.ratios(threads, target);
        let (single, more): (Vec<&Ratio<'_>>, Vec<&Ratio<'_>>) = ratios.iter().partition(|r| r.rows == 1);
        for (rows, of) in [("1 row", single), ("more rows", more)] {
            let isa = machine.env.isa.split(' ').next().unwrap_or_default();
            let label = format!("{}, {isa}, PyTorch Inductor, {rows}", machine.env.cpu);
            bars.extend(geometric(&of).map(|ratio| Bar { label, ratio }));
        }
    }
    bars
}

/// One line for each machine, number of threads and target.
fn summary(machines: &BTreeMap<String, Machine>) -> String {
    let mut text = String::from(
        "| machine | threads | target | more than one row: mean | least | one row: mean | least |\n|---|---|---|---|---|---|---|\n",
    );
    for machine in machines.values() {
        for (threads, target) in machine.measured() {
            let ratios = machine.ratios(threads, target);
            let (single, more): (Vec<&Ratio<'_>>, Vec<&Ratio<'_>>) = ratios.iter().partition(|r| r.rows == 1);
            let name = format!("{}, {}", machine.env.cpu, machine.env.isa.split(' ').next().unwrap_or_default());
            line(
                &mut text,
                &[
                    name,
                    threads.to_string(),
                    format!("`{target}`"),
                    mean(&more),
                    least(&more),
                    mean(&single),
                    least(&single),
                ],
            );
        }
    }
    text
}

/// Every figure of every machine.
fn details(machines: &BTreeMap<String, Machine>) -> String {
    let mut text = String::new();
    for (name, machine) in machines {
        let Environment { cpu, isa, torch } = &machine.env;
        for (threads, target) in machine.measured() {
            let _ = write!(text, "\n`{name}.json`: {cpu}, {isa}, torch {torch}, `{target}`, threads: {threads}\n\n");
            let ratios = machine.ratios(threads, target);
            let rows: BTreeSet<u64> = ratios.iter().map(|r| r.rows).collect();
            let heads =
                rows.iter().map(|n| counted(*n)).chain(rows.last().map(|n| format!("of a copy, {}", counted(*n))));
            let heads: Vec<String> = std::iter::once("op".to_owned()).chain(heads).collect();
            line(&mut text, &heads);
            line(&mut text, &vec!["---".to_owned(); heads.len()]);
            let mut ops: Vec<&str> = ratios.iter().map(|r| r.op).collect();
            ops.dedup();
            for op in ops {
                let of = |n: &u64| ratios.iter().find(|r| r.op == op && r.rows == *n);
                let peers = rows.iter().map(|n| of(n).map_or_else(|| "-".to_owned(), |r| format!("{:.2}", r.peer)));
                let copy =
                    rows.last().and_then(of).and_then(|r| r.copy).map_or_else(|| "-".to_owned(), |c| format!("{c:.2}"));
                let cells: Vec<String> = std::iter::once(format!("`{op}`")).chain(peers).chain([copy]).collect();
                line(&mut text, &cells);
            }
        }
    }
    text.trim_start().to_owned()
}

impl Machine {
    /// Numbers of threads and our targets.
    fn measured(&self) -> BTreeSet<(u64, &str)> {
        self.results.iter().filter_map(|f| Some((f.threads, f.implementation.strip_prefix(OURS)?))).collect()
    }

    fn ratios(&self, threads: u64, target: &str) -> Vec<Ratio<'_>> {
        let ours =
            self.results.iter().filter(|f| f.threads == threads && f.implementation.strip_prefix(OURS) == Some(target));
        let peer = |our: &Figure| {
            let same = |f: &&Figure| (&f.op, f.rows, f.threads) == (&our.op, our.rows, threads);
            self.results.iter().filter(same).find(|f| f.implementation.starts_with(PEER)).map(|f| f.median_us)
        };
        ours.filter_map(|f| {
            Some(Ratio {
                op: &f.op,
                rows: f.rows,
                peer: peer(f)? / f.median_us,
                copy: f.copy_us.map(|c| c / f.median_us),
            })
        })
        .collect()
    }
}

/// The geometric mean; `None` of no ratios.
fn geometric(ratios: &[&Ratio<'_>]) -> Option<f64> {
    let logs: f64 = ratios.iter().map(|r| r.peer.ln()).sum();
    (!ratios.is_empty()).then(|| (logs / ratios.len() as f64).exp())
}

fn mean(ratios: &[&Ratio<'_>]) -> String {
    geometric(ratios).map_or_else(|| "-".to_owned(), |mean| format!("{mean:.2}"))
}

/// The least, and what it is of.
fn least(ratios: &[&Ratio<'_>]) -> String {
    match ratios.iter().min_by(|a, b| a.peer.total_cmp(&b.peer)) {
        Some(r) if r.rows == 1 => format!("{:.2} (`{}`)", r.peer, r.op),
        Some(r) => format!("{:.2} (`{}`, {})", r.peer, r.op, counted(r.rows)),
        None => "-".to_owned(),
    }
}

fn counted(rows: u64) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

fn line(text: &mut String, cells: &[String]) {
    let _ = writeln!(text, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"env": {"cpu": "C", "isa": "avx2", "torch": "2.15", "gxx": "12"}, "results": [
        {"op": "a", "rows": 32, "threads": 1, "impl": "inductor_exact", "median_us": 8.0},
        {"op": "a", "rows": 32, "threads": 1, "impl": "fusewright:cpu", "median_us": 4.0, "copy_us": 1.0},
        {"op": "b", "rows": 32, "threads": 1, "impl": "inductor_exact", "median_us": 8.0},
        {"op": "b", "rows": 32, "threads": 1, "impl": "fusewright:cpu", "median_us": 1.0},
        {"op": "b", "rows": 1, "threads": 1, "impl": "inductor_exact", "median_us": 3.0},
        {"op": "b", "rows": 1, "threads": 1, "impl": "fusewright:cpu", "median_us": 1.0},
        {"op": "b", "rows": 1, "threads": 2, "impl": "fusewright:cpu", "median_us": 1.0}]}"#;

    fn one() -> BTreeMap<String, Machine> {
        BTreeMap::from([("m".to_owned(), serde_json::from_str(FILE).expect("it is what the bench writes"))])
    }

    #[test]
    fn means_are_geometric_and_the_least_is_named() {
        let text = summary(&one());
        assert!(text.contains("| C, avx2 | 1 | `cpu` | 4.00 | 2.00 (`a`, 32 rows) | 3.00 | 3.00 (`b`) |"), "{text}");
        assert!(text.contains("| C, avx2 | 2 | `cpu` | - | - | - | - |"), "{text}");
    }

    #[test]
    fn every_op_has_a_line_and_what_was_not_measured_a_dash() {
        let text = details(&one());
        assert!(text.contains("| op | 1 row | 32 rows | of a copy, 32 rows |\n| --- |"), "{text}");
        assert!(text.contains("| `a` | - | 2.00 | 0.25 |\n| `b` | 3.00 | 8.00 | - |"), "{text}");
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let page = format!("before\n{BEGIN}old\n{END}after\n");
        assert_eq!(filled(&page, "new\n"), Some(format!("before\n{BEGIN}\nnew\n\n{END}after\n")));
        assert_eq!(filled("no marks", "new"), None);
    }
}
