//! `bench --suite kernels --target cuda`: kernels on a GPU, launched one after the other and overlapping, with cold and
//! warm caches, and beside figures of others.

use std::collections::BTreeMap;
use std::path::Path;

use fusewright::bench::{GpuBench, GpuRow, GpuTimes, geometric_mean, gpu_suite};
use fusewright::{Error, write_whole};
use serde_json::{Value, json};

use super::super::{Exit, OK};
use crate::args::{BenchArgs, Common};
use crate::output::{line, progress, table};

/// Rows that are measured unless others are asked for.
const ROWS: [usize; 7] = [1, 8, 32, 128, 512, 2048, 16384];

pub fn main(args: &BenchArgs, common: &Common) -> Exit {
    let mut cases = gpu_suite()?;
    if let Some(unknown) = args.case.iter().find(|name| !cases.iter().any(|case| case.name == **name)) {
        let known: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        return Err(Error::Input(format!("no case `{unknown}`; there are {}", known.join(", "))));
    }
    cases.retain(|case| args.case.is_empty() || args.case.contains(&case.name));
    if args.list {
        cases.iter().for_each(|case| line(&case.name));
        return Ok(OK);
    }
    let peers = args.compare.as_deref().map(Peers::open).transpose()?;
    let rows: Vec<usize> = args.rows.iter().map(|&rows| rows as usize).collect();
    let rows = if rows.is_empty() { ROWS.to_vec() } else { rows };
    let bench = GpuBench::new(&args.target)?;
    let mut measured = Vec::new();
    for case in &cases {
        for &rows in &rows {
            progress(common.verbose, &format!("{} at {rows} rows", case.name));
            measured.push(bench.measure(case, rows).map_err(|e| e.about(&case.name))?);
        }
    }
    let report = || report(args, &bench, &measured, peers.as_ref());
    if let Some(path) = &args.out {
        write_whole(path, format!("{:#}\n", report()).as_bytes())?;
        line(format!("wrote {}", path.display()));
    } else if args.json {
        line(report());
        return Ok(OK);
    }
    print(&measured, peers.as_ref());
    Ok(OK)
}

/// Figures of others on the same kind of device, by op, row length and rows.
struct Peers(BTreeMap<(String, u64, u64), Value>);

/// Which figure of a row is compared with which of another's: its name, ours, and theirs.
type Comparison = (&'static str, fn(&GpuRow) -> Option<f64>, &'static str);

const COMPARISONS: [Comparison; 8] = [
    ("attainable / plain", |r| Some(r.plain.cold), "plain"),
    ("attainable / overlapping", |r| Some(r.overlapping.cold), "overlapping"),
    ("attainable / warm plain", |r| r.plain.warm, "hot_plain"),
    ("attainable / warm overlapping", |r| r.overlapping.warm, "hot_overlapping"),
    ("peer without overlap / plain", |r| Some(r.plain.cold), "peer_plain"),
    ("peer / overlapping", |r| Some(r.overlapping.cold), "peer"),
    ("warm peer without overlap / plain", |r| r.plain.warm, "hot_peer_plain"),
    ("warm peer / overlapping", |r| r.overlapping.warm, "hot_peer"),
];

impl Peers {
    fn open(path: &Path) -> Result<Peers, Error> {
        let bad = |what: String| Error::Input(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        let file: Value = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        let rows = file["rows"].as_array().ok_or_else(|| bad("no list `rows`".to_owned()))?;
        let key = |row: &Value| Some((row["op"].as_str()?.to_owned(), row["dim"].as_u64()?, row["T"].as_u64()?));
        Ok(Peers(rows.iter().filter_map(|row| Some((key(row)?, row.clone()))).collect()))
    }

    fn of(&self, row: &GpuRow, figure: &str) -> Option<f64> {
        let op = row.name.split('.').next()?.to_owned();
        self.0.get(&(op, row.dim as u64, row.rows as u64))?[figure].as_f64().filter(|us| *us > 0.0)
    }

    /// By comparison: how often as fast as they, in the mean and at worst.
    fn ratios<'r>(&self, measured: &'r [GpuRow]) -> Vec<(&'static str, usize, f64, (&'r GpuRow, f64))> {
        let one = |(name, ours, theirs): Comparison| {
            let ratio = |row: &'r GpuRow| Some((row, self.of(row, theirs)? / ours(row)?));
            let ratios: Vec<(&GpuRow, f64)> = measured.iter().filter_map(ratio).collect();
            let mean = geometric_mean(&ratios.iter().map(|(_, ratio)| *ratio).collect::<Vec<_>>());
            let worst = ratios.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
            Some((name, ratios.len(), mean, worst))
        };
        COMPARISONS.into_iter().filter_map(one).collect()
    }
}

fn report(args: &BenchArgs, bench: &GpuBench, measured: &[GpuRow], peers: Option<&Peers>) -> Value {
    let times = |times: GpuTimes| json!({ "cold_us": times.cold, "warm_us": times.warm });
    let row = |r: &GpuRow| {
        json!({
            "name": r.name, "dim": r.dim, "rows": r.rows, "bytes": r.bytes, "registers": r.registers, "spilled": r.spilled,
            "plain": times(r.plain), "overlapping": times(r.overlapping), "copy": times(r.copy),
        })
    };
    let rows: Vec<Value> = measured.iter().map(row).collect();
    let mut report = json!({ "target": args.target.to_string(), "device": bench.device(), "rows": rows });
    if let Some(peers) = peers {
        let one = |(name, count, mean, (row, ratio)): (&str, usize, f64, (&GpuRow, f64))| {
            let worst = json!({ "name": row.name, "rows": row.rows, "ratio": ratio });
            json!({ "what": name, "count": count, "geometric_mean": mean, "worst": worst })
        };
        report["compare"] = peers.ratios(measured).into_iter().map(one).collect();
    }
    report
}

fn print(measured: &[GpuRow], peers: Option<&Peers>) {
    let figure = |us: f64| format!("{us:.2}");
    let warm = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), figure);
    let row = |r: &GpuRow| {
        vec![
            r.name.clone(),
            r.rows.to_string(),
            figure(r.plain.cold),
            figure(r.overlapping.cold),
            figure(r.copy.cold),
            warm(r.plain.warm),
            warm(r.overlapping.warm),
            warm(r.copy.warm),
            format!("{:.0}", r.bytes as f64 / r.plain.cold / 1e3),
        ]
    };
    let rows: Vec<Vec<String>> = measured.iter().map(row).collect();
    let columns = ["kernel", "rows", "µs", "overlapping", "copy", "warm µs", "overlapping", "copy", "GB/s"];
    table(&columns, &rows, &[1, 2, 3, 4, 5, 6, 7, 8]);
    for (name, count, mean, (row, ratio)) in peers.iter().flat_map(|peers| peers.ratios(measured)) {
        line(format!(
            "{name}: geometric mean {mean:.3} of {count}, worst {ratio:.2}: {} at {} rows",
            row.name, row.rows
        ));
    }
}
