//! `bench --compare`: ratios to figures that `benches/bench_cpu.py` wrote on the same machine.

use std::collections::BTreeMap;
use std::path::Path;

use fusewright::Error;
use fusewright::bench::{BenchRow, geometric_mean};
use serde_json::{Value, json};

use super::at;

/// What implementations that are compared with are called: those of Inductor, the exact one first.
const PEERS: [&str; 2] = ["inductor_exact", "inductor"];
/// The dtype of the suite's rows.
const DTYPE: &str = "bf16";

/// Times in microseconds of another implementation.
pub struct Peers {
    name: String,
    times: BTreeMap<(String, u64), f64>,
}

/// Ratios of some rows: how often as fast as the peer.
struct Ratios<'r> {
    what: &'static str,
    mean: f64,
    worst: (&'r BenchRow, f64),
    count: usize,
}

impl Peers {
    /// The figures on so many threads.
    ///
    /// # Errors
    /// A file that cannot be read or is of another form, or that has no such figure.
    pub fn open(path: &Path, threads: u16) -> Result<Peers, Error> {
        let bad = |what: String| Error::Input(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
        let file: Value = serde_json::from_str(&text).map_err(|e| bad(e.to_string()))?;
        let results = file["results"].as_array().ok_or_else(|| bad("no list `results`".to_owned()))?;
        let of = |name: &str| {
            let fits = |r: &&Value| r["impl"] == name && r["threads"] == threads && r["dtype"] == DTYPE;
            let figure = |r: &Value| {
                let time = r["median_us"].as_f64().filter(|time| *time > 0.0)?;
                Some(((r["op"].as_str()?.to_owned(), r["rows"].as_u64()?), time))
            };
            results.iter().filter(fits).filter_map(figure).collect::<BTreeMap<_, _>>()
        };
        let found = PEERS.iter().map(|name| (*name, of(name))).find(|(_, times)| !times.is_empty());
        let (name, times) =
            found.ok_or_else(|| bad(format!("no figure of {} in {DTYPE} on {threads} threads", PEERS.join(" or "))))?;
        Ok(Peers { name: name.to_owned(), times })
    }

    /// What the other implementation is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The time of the same case.
    pub fn of(&self, row: &BenchRow) -> Option<f64> {
        self.times.get(&(row.name.clone(), row.rows? as u64)).copied()
    }

    /// One row by itself, since calls cost as much there as kernels, and all others.
    fn ratios<'r>(&self, measured: &'r [BenchRow]) -> Vec<Ratios<'r>> {
        let of = |what: &'static str, single: bool| {
            let rows = measured.iter().filter(|row| (row.rows == Some(1)) == single);
            let ratios: Vec<(&BenchRow, f64)> = rows.filter_map(|r| Some((r, self.of(r)? / r.fused_us))).collect();
            let mean = geometric_mean(&ratios.iter().map(|(_, ratio)| *ratio).collect::<Vec<_>>());
            let worst = ratios.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))?;
            Some(Ratios { what, mean, worst, count: ratios.len() })
        };
        [of("one row", true), of("more rows", false)].into_iter().flatten().collect()
    }

    /// The ratios for programs.
    pub fn report(&self, measured: &[BenchRow]) -> Value {
        let one = |r: &Ratios<'_>| {
            let (row, ratio) = r.worst;
            json!({
                "rows": r.what, "count": r.count, "geometric_mean": r.mean,
                "worst": { "name": row.name, "rows": row.rows, "ratio": ratio },
            })
        };
        json!({ "peer": self.name, "ratios": self.ratios(measured).iter().map(one).collect::<Vec<_>>() })
    }

    /// The ratios for people.
    pub fn lines(&self, measured: &[BenchRow]) -> Vec<String> {
        let ratios = self.ratios(measured);
        if ratios.is_empty() {
            return vec![format!("{} has no figure of these cases", self.name)];
        }
        let one = |r: &Ratios<'_>| {
            let (row, ratio) = r.worst;
            let (peer, what, count, mean) = (&self.name, r.what, r.count, r.mean);
            format!(
                "{peer} / fused, {what}: geometric mean {mean:.2} of {count}, worst {ratio:.2}: {}{}",
                row.name,
                at(row.rows)
            )
        };
        ratios.iter().map(one).collect()
    }
}
