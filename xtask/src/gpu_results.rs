//! Tables of figures of GPUs, made from the files that `fusewright bench --suite kernels --target cuda --out` writes into
//! `benches/results/gpu/`, one for each device.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;

/// Where the files are, below the root.
const FOLDER: &str = "benches/results/gpu";

/// What one device measured.
#[derive(Deserialize)]
pub struct Gpu {
    target: String,
    device: String,
    rows: Vec<Row>,
    compare: Vec<Comparison>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    dim: u64,
    rows: u64,
    plain: Times,
    overlapping: Times,
    copy: Times,
}

#[derive(Deserialize)]
struct Times {
    cold_us: f64,
}

#[derive(Deserialize)]
struct Comparison {
    what: String,
    count: u64,
    geometric_mean: f64,
    worst: Worst,
}

#[derive(Deserialize)]
struct Worst {
    name: String,
    rows: u64,
    ratio: f64,
}

/// All devices by the names of their files.
///
/// # Errors
/// A file that cannot be read, or is not what the bench writes.
pub fn gpus(root: &Path) -> Result<BTreeMap<String, Gpu>, String> {
    let folder = root.join(FOLDER);
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let text = std::fs::read_to_string(&path).map_err(|e| said(&e))?;
        let gpu = serde_json::from_str(&text).map_err(|e| said(&e))?;
        found.insert(path.file_stem().unwrap_or_default().to_string_lossy().into_owned(), gpu);
    }
    Ok(found)
}

/// One line for each device and what it is compared with.
pub fn summary(gpus: &BTreeMap<String, Gpu>) -> String {
    let mut text = String::from("| device | how often as fast | figures | mean | least |\n|---|---|---|---|---|\n");
    for gpu in gpus.values() {
        for Comparison { what, count, geometric_mean, worst } in &gpu.compare {
            let Worst { name, rows, ratio } = worst;
            let device = &gpu.device;
            let _ = writeln!(
                text,
                "| {device} | {what} | {count} | {geometric_mean:.2} | {ratio:.2} (`{name}`, {}) |",
                counted(*rows)
            );
        }
    }
    text
}

/// Every figure of every device: microseconds of a launch one after the other, and overlapping, and as a copy.
pub fn details(gpus: &BTreeMap<String, Gpu>) -> String {
    let mut text = String::new();
    for (name, gpu) in gpus {
        let _ =
            write!(text, "\n`gpu/{name}.json`: {}, `{}`; µs: plain, overlapping, (copy)\n\n", gpu.device, gpu.target);
        let mut counts: Vec<u64> = gpu.rows.iter().map(|row| row.rows).collect();
        counts.sort_unstable();
        counts.dedup();
        let heads: Vec<String> = counts.iter().map(|rows| counted(*rows)).collect();
        let _ = writeln!(text, "| op | {} |\n|---|{}", heads.join(" | "), "---|".repeat(heads.len()));
        let mut names: Vec<(&str, u64)> = gpu.rows.iter().map(|row| (row.name.as_str(), row.dim)).collect();
        names.dedup();
        for (op, dim) in names {
            let cell = |rows: &u64| {
                let row = gpu.rows.iter().find(|row| row.name == op && row.rows == *rows);
                row.map_or_else(
                    || "-".to_owned(),
                    |r| format!("{:.2}, {:.2} ({:.2})", r.plain.cold_us, r.overlapping.cold_us, r.copy.cold_us),
                )
            };
            let cells: Vec<String> = counts.iter().map(cell).collect();
            let _ = writeln!(text, "| `{op}` {dim} | {} |", cells.join(" | "));
        }
    }
    text.trim_start().to_owned()
}

fn counted(rows: u64) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_every_figure_and_the_worst_by_name() {
        let file = r#"{"target": "cuda:sm_90", "device": "G", "rows": [
            {"name": "A", "dim": 64, "rows": 1, "plain": {"cold_us": 2.0}, "overlapping": {"cold_us": 1.0}, "copy": {"cold_us": 1.5}},
            {"name": "B", "dim": 64, "rows": 8, "plain": {"cold_us": 4.0}, "overlapping": {"cold_us": 3.0}, "copy": {"cold_us": 2.5}}],
            "compare": [{"what": "w", "count": 2, "geometric_mean": 1.5, "worst": {"name": "B", "rows": 8, "ratio": 0.9}}]}"#;
        let gpus = BTreeMap::from([("g".to_owned(), serde_json::from_str(file).expect("it is what the bench writes"))]);
        assert!(summary(&gpus).contains("| G | w | 2 | 1.50 | 0.90 (`B`, 8 rows) |"), "{}", summary(&gpus));
        let text = details(&gpus);
        assert!(text.contains("| `A` 64 | 2.00, 1.00 (1.50) | - |"), "{text}");
    }
}
