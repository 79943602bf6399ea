//! Tables of figures of GPUs, made from the files that `fusewright bench --suite kernels --target cuda --out` writes, in
//! `benches/results/gpu/`, one for each device; beside them what others measured on the device of `benches/gpu/peers.json`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::chart::Bar;

/// Where the files are, below the root.
const FOLDER: &str = "benches/results/gpu";
/// Figures of others.
const PEERS: &str = "benches/gpu/peers.json";

/// What one device measured.
#[derive(Deserialize)]
pub struct Gpu {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    device: String,
    op: String,
    form: String,
    dim: u64,
    #[serde(rename = "T")]
    rows: u64,
    us: f64,
    pdl_us: Option<f64>,
    hot_us: Option<f64>,
    hot_pdl_us: Option<f64>,
    copy_us: Option<f64>,
}

/// Figures of others: a device, names of columns, and rows of op, row length, rows and figures.
#[derive(Deserialize)]
pub struct Peers {
    device: String,
    columns: Vec<String>,
    rows: Vec<Vec<Value>>,
}

/// Which of our figures is compared with which column of others.
type Comparison = (&'static str, fn(&Row) -> Option<f64>, &'static str);

const COMPARISONS: [Comparison; 8] = [
    ("as prototypes", |r| Some(r.us), "native_plain"),
    ("as prototypes, overlapping", |r| r.pdl_us, "native_pdl"),
    ("as prototypes, in the cache", |r| r.hot_us, "native_hot_plain"),
    ("as prototypes, in the cache, overlapping", |r| r.hot_pdl_us, "native_hot_pdl"),
    ("as the best others that do not overlap", |r| Some(r.us), "peer_plain"),
    ("as the best others, overlapping", |r| r.pdl_us, "peer"),
    ("as the best others that do not overlap, in the cache", |r| r.hot_us, "hot_peer_plain"),
    ("as the best others, in the cache, overlapping", |r| r.hot_pdl_us, "hot_peer"),
];

/// All devices by the names of their files, and figures of others.
///
/// # Errors
/// A file that cannot be read, or is not what the bench writes.
pub fn gpus(root: &Path) -> Result<(BTreeMap<String, Gpu>, Peers), String> {
    let folder = root.join(FOLDER);
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))? {
        let path = entry.map_err(|e| format!("{}: {e}", folder.display()))?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        found.insert(name, read(&path)?);
    }
    Ok((found, read(&root.join(PEERS))?))
}

fn read<T: for<'d> Deserialize<'d>>(path: &Path) -> Result<T, String> {
    let said = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let text = std::fs::read_to_string(path).map_err(|e| said(&e))?;
    serde_json::from_str(&text).map_err(|e| said(&e))
}

impl Gpu {
    fn device(&self) -> &str {
        self.rows.first().map_or("", |row| row.device.as_str())
    }
}

impl Peers {
    fn of(&self, row: &Row, column: &str) -> Option<f64> {
        let at = self.columns.iter().position(|name| name == column)?;
        let same = |other: &&Vec<Value>| {
            let [op, dim, rows, ..] = other.as_slice() else { return false };
            *op == row.op.as_str() && *dim == row.dim && *rows == row.rows
        };
        self.rows.iter().find(same)?.get(at)?.as_f64()
    }
}

/// How often as fast as others a device of theirs is.
struct Compared<'g> {
    device: &'g str,
    what: &'static str,
    count: usize,
    mean: f64,
    least: (f64, &'g Row),
}

fn compared((gpus, peers): &(BTreeMap<String, Gpu>, Peers)) -> Vec<Compared<'_>> {
    let mut found = Vec::new();
    for gpu in gpus.values().filter(|gpu| gpu.device() == peers.device) {
        for (what, ours, theirs) in COMPARISONS {
            let exact = gpu.rows.iter().filter(|row| row.form == "exact");
            let ratios: Vec<(f64, &Row)> =
                exact.filter_map(|row| Some((peers.of(row, theirs)? / ours(row)?, row))).collect();
            let Some(least) = ratios.iter().min_by(|a, b| a.0.total_cmp(&b.0)).copied() else { continue };
            let mean = (ratios.iter().map(|(ratio, _)| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
            found.push(Compared { device: gpu.device(), what, count: ratios.len(), mean, least });
        }
    }
    found
}

/// How often as fast as others a device of theirs is, one line for each comparison.
pub fn summary(measured: &(BTreeMap<String, Gpu>, Peers)) -> String {
    let mut text = String::from("| device | how often as fast | figures | mean | least |\n|---|---|---|---|---|\n");
    for Compared { device, what, count, mean, least: (least, row) } in compared(measured) {
        let (op, rows) = (&row.op, counted(row.rows));
        let _ = writeln!(text, "| {device} | {what} | {count} | {mean:.2} | {least:.2} (`{op}`, {rows}) |");
    }
    text
}

/// Bars of the means against the best kernels of others.
pub fn bars(measured: &(BTreeMap<String, Gpu>, Peers)) -> Vec<Bar> {
    let shown = ["as the best others that do not overlap", "as the best others, overlapping"];
    let others = compared(measured).into_iter().filter(|c| shown.contains(&c.what));
    let bar = |c: Compared<'_>| {
        let how = if c.what.ends_with(", overlapping") { "overlapping launches" } else { "plain launches" };
        Bar { label: format!("{}, best published kernel, {how}", c.device), ratio: c.mean }
    };
    others.map(bar).collect()
}

/// Every figure of every device: microseconds of a launch, of one that overlaps, and of a copy.
pub fn details((gpus, _): &(BTreeMap<String, Gpu>, Peers)) -> String {
    let mut text = String::new();
    for (name, gpu) in gpus {
        let _ = write!(text, "\n`gpu/{name}.json`: {}; µs: plain, overlapping, (copy)\n\n", gpu.device());
        let mut counts: Vec<u64> = gpu.rows.iter().map(|row| row.rows).collect();
        counts.sort_unstable();
        counts.dedup();
        let heads: Vec<String> = counts.iter().map(|rows| counted(*rows)).collect();
        let _ = writeln!(text, "| op | {} |\n|---|{}", heads.join(" | "), "---|".repeat(heads.len()));
        let mut names: Vec<(&str, &str, u64)> =
            gpu.rows.iter().map(|row| (row.op.as_str(), row.form.as_str(), row.dim)).collect();
        names.dedup();
        for (op, form, dim) in names {
            let same = |row: &&Row| (row.op.as_str(), row.form.as_str(), row.dim) == (op, form, dim);
            let figure = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{us:.2}"));
            let cell = |rows: &u64| {
                let row = gpu.rows.iter().filter(same).find(|row| row.rows == *rows);
                row.map_or_else(
                    || "-".to_owned(),
                    |r| format!("{:.2}, {} ({})", r.us, figure(r.pdl_us), figure(r.copy_us)),
                )
            };
            let cells: Vec<String> = counts.iter().map(cell).collect();
            let form = if form == "exact" { String::new() } else { format!(", {form}") };
            let _ = writeln!(text, "| `{op}` {dim}{form} | {} |", cells.join(" | "));
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
    fn tables_have_every_figure_and_the_least_by_name() {
        let file = r#"{"rows": [
            {"device": "G", "op": "A", "form": "exact", "dim": 64, "T": 1, "us": 2.0, "pdl_us": 1.0, "copy_us": 1.5},
            {"device": "G", "op": "B", "form": "exact", "dim": 64, "T": 8, "us": 4.0}]}"#;
        let peers = r#"{"device": "G", "columns": ["op", "dim", "T", "native_plain"],
            "rows": [["A", 64, 1, 4.0], ["B", 64, 8, 2.0], ["B", 64, 16, null]]}"#;
        let gpu = serde_json::from_str(file).expect("it is what the bench writes");
        let both = (BTreeMap::from([("g".to_owned(), gpu)]), serde_json::from_str(peers).expect("figures of others"));
        assert!(summary(&both).contains("| G | as prototypes | 2 | 1.00 | 0.50 (`B`, 8 rows) |"), "{}", summary(&both));
        let text = details(&both);
        assert!(text.contains("| `A` 64 | 2.00, 1.00 (1.50) | - |"), "{text}");
        assert!(text.contains("| `B` 64 | - | 4.00, - (-) |"), "{text}");
    }
}
