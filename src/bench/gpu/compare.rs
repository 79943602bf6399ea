//! Rows beside what other implementations and hand-written kernels reach: `benches/gpu/peers.json`.
//!
//! A ratio is their time by ours, so more than 1 is faster than they are. Plain launches are compared with plain ones; *any*
//! compares the better of plain and dependent launches on both sides.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::rows::GpuRow;
use crate::Error;
use crate::bench::geometric_mean;

/// What rows are compared with, and the columns of their times: cold and plain, cold and dependent, hot likewise.
const AGAINST: [(&str, [&str; 4]); 3] = [
    ("peer", ["peer_plain", "peer", "hot_peer_plain", "hot_peer"]),
    ("attainable", ["plain", "pdl", "hot_plain", "hot_pdl"]),
    ("attainable, own driver", ["native_plain", "native_pdl", "native_hot_plain", "native_hot_pdl"]),
];

/// Figures of others by op, row length and rows.
#[derive(Clone, Debug)]
pub struct GpuPeers {
    /// The device that they were measured on.
    pub device: String,
    times: BTreeMap<(String, usize, usize), BTreeMap<String, f64>>,
}

/// Ratios of the rows of one op.
#[derive(Clone, PartialEq, Debug)]
pub struct GpuRatio {
    /// Letter of the op, with its row length.
    pub op: String,
    /// What it is compared with.
    pub against: &'static str,
    /// With inputs in the cache, or with caches empty.
    pub hot: bool,
    /// Whether dependent launches count on both sides.
    pub any: bool,
    /// Geometric mean.
    pub mean: f64,
    /// The least ratio, and the number of rows where it is.
    pub worst: (f64, usize),
    /// Rows compared.
    pub count: usize,
}

impl GpuPeers {
    /// The figures of a file.
    ///
    /// # Errors
    /// A file that cannot be read or is of another form.
    pub fn open(path: &Path) -> Result<GpuPeers, Error> {
        let bad = |what: String| Error::Input(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        GpuPeers::parse(&text).map_err(bad)
    }

    pub(super) fn parse(text: &str) -> Result<GpuPeers, String> {
        let file: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let list = |key: &str| file[key].as_array().ok_or_else(|| format!("no list `{key}`"));
        let columns: Vec<&str> = list("columns")?.iter().filter_map(Value::as_str).collect();
        let mut times = BTreeMap::new();
        for (i, row) in list("rows")?.iter().enumerate() {
            let at = |column: &str| columns.iter().position(|c| *c == column).map(|c| &row[c]);
            let number = |column| at(column).and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
            let op = at("op").and_then(Value::as_str);
            let (Some(op), Some(dim), Some(rows)) = (op, number("dim"), number("T")) else {
                return Err(format!("row {i} has no op, dim and T"));
            };
            let figures = columns.iter().zip(row.as_array().into_iter().flatten()).skip(3);
            let figures = figures.filter_map(|(column, value)| Some(((*column).to_owned(), value.as_f64()?)));
            times.insert((op.to_owned(), dim, rows), figures.collect());
        }
        Ok(GpuPeers { device: file["device"].as_str().unwrap_or("?").to_owned(), times })
    }

    fn of(&self, row: &GpuRow) -> Option<&BTreeMap<String, f64>> {
        self.times.get(&(row.op.clone(), row.dim, row.rows))
    }

    /// The ratio of one row, if both sides have the figure.
    pub fn ratio(&self, row: &GpuRow, against: &str, hot: bool, any: bool) -> Option<f64> {
        let (_, columns) = AGAINST.iter().find(|(name, _)| *name == against)?;
        let of = |i: usize| self.of(row)?.get(columns[i]).copied();
        let (plain, dependent) = if hot { (of(2), of(3)) } else { (of(0), of(1)) };
        let ours = if hot { (row.hot_us, row.hot_pdl_us) } else { (row.us.as_ref().ok().copied(), row.pdl_us) };
        let least = |(a, b): (Option<f64>, Option<f64>)| [a, b].into_iter().flatten().min_by(f64::total_cmp);
        if any { Some(least((plain, dependent))? / least(ours)?) } else { Some(plain? / ours.0?) }
    }

    /// Ratios by op, of what there are figures of.
    pub fn ratios(&self, rows: &[GpuRow]) -> Vec<GpuRatio> {
        let mut ops: Vec<(&str, bool, usize)> = rows.iter().map(|r| (r.op.as_str(), r.anchor, r.dim)).collect();
        ops.dedup();
        let mut all = Vec::new();
        for (op, anchor, dim) in ops {
            let form = if anchor { " (anchor)" } else { "" };
            for (against, _) in AGAINST {
                for (hot, any) in [(false, false), (false, true), (true, false), (true, true)] {
                    let of = rows.iter().filter(|r| (r.op.as_str(), r.anchor, r.dim) == (op, anchor, dim));
                    let ratios: Vec<(f64, usize)> =
                        of.filter_map(|r| Some((self.ratio(r, against, hot, any)?, r.rows))).collect();
                    let mean = geometric_mean(&ratios.iter().map(|(ratio, _)| *ratio).collect::<Vec<_>>());
                    let Some(worst) = ratios.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
                    let (op, count) = (format!("{op}{form} {dim}"), ratios.len());
                    all.push(GpuRatio { op, against, hot, any, mean, worst, count });
                }
            }
        }
        all
    }

    /// Ratios for programs.
    pub fn report(&self, rows: &[GpuRow]) -> Value {
        let one = |r: &GpuRatio| {
            json!({
                "op": r.op, "against": r.against, "cache": if r.hot { "hot" } else { "cold" },
                "launch": if r.any { "any" } else { "plain" }, "geometric_mean": r.mean, "worst": r.worst.0,
                "worst_T": r.worst.1, "count": r.count,
            })
        };
        json!({ "device": self.device, "ratios": self.ratios(rows).iter().map(one).collect::<Vec<_>>() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::row;
    use super::*;

    #[test]
    fn the_committed_figures_are_read() {
        let peers = GpuPeers::parse(include_str!("../../../benches/gpu/peers.json")).expect("is in its form");
        assert!(peers.times.len() > 300 && peers.device.contains("H200"));
        let mut ours = row("D", 32, 2.5);
        let ratio =
            |ours: &GpuRow, against, hot, any| peers.ratio(ours, against, hot, any).map(|r| (r * 100.0).round());
        assert_eq!(ratio(&ours, "peer", false, false), Some(168.0), "4.211 / 2.5");
        assert_eq!(ratio(&ours, "attainable", false, false), Some(100.0), "2.5 / 2.5");
        assert_eq!(ratio(&ours, "attainable", false, true), Some(74.0), "1.86 / 2.5");
        ours.pdl_us = Some(1.86);
        assert_eq!(ratio(&ours, "attainable", false, true), Some(100.0));
        assert_eq!(ratio(&row("none", 32, 1.0), "peer", false, false), None);
    }

    #[test]
    fn means_are_geometric_and_the_worst_row_is_named() {
        let text = r#"{"device":"x","columns":["op","dim","T","peer_plain"],"rows":[["A",5120,1,4],["A",5120,8,1]]}"#;
        let peers = GpuPeers::parse(text).expect("is in its form");
        let ratios = peers.ratios(&[row("A", 1, 1.0), row("A", 8, 1.0), row("A", 9, 1.0)]);
        let plain = ratios.iter().find(|r| !r.any && !r.hot).expect("one");
        assert_eq!((plain.mean, plain.worst, plain.count), (2.0, (1.0, 8), 2));
        assert!(GpuPeers::parse(r#"{"columns":["op"],"rows":[["A"]]}"#).is_err());
    }
}
