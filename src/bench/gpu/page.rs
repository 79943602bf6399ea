//! `bench` on a GPU as one self-contained page: of every op the bandwidth beside that of a copy in the same run, which is its
//! roof, and how many times as fast it is as a copy and as the best others.

use fusewright_templates::bench::{BenchPage, Case, Chart};
use fusewright_templates::page::Table;

use super::compare::GpuPeers;
use super::rows::{GpuResults, GpuRow};
use crate::Error;
use crate::bench::page::{Curve, chart, mean_and_least};

/// What ratios are to: those of `benches/gpu/peers.json` that others published.
const PEER: &str = "peer";

/// The page of what was measured on a device.
///
/// # Errors
/// None for finite figures.
pub fn gpu_page(results: &GpuResults, peers: Option<&GpuPeers>) -> Result<String, Error> {
    let mut ops: Vec<(&str, bool, usize)> = results.rows.iter().map(op).collect();
    ops.dedup();
    let cases = ops.into_iter().map(|of| {
        let mut rows: Vec<&GpuRow> = results.rows.iter().filter(|row| op(row) == of).collect();
        rows.sort_by_key(|row| row.rows);
        Case { name: rows.first().map_or_else(String::new, |row| name(row)), charts: charts(&rows, peers) }
    });
    let mut title = format!("Kernels on {}, driver of {}", results.device, results.driver);
    if let Some(peers) = peers.filter(|peers| peers.device != results.device) {
        title += &format!("; others on {}", peers.device);
    }
    let page = BenchPage {
        title,
        summary: summary(&results.rows, peers),
        legend: legend(peers.is_some()),
        cases: cases.collect(),
        table: table(&results.rows, peers),
    };
    page.text().map_err(|e| Error::Internal(format!("the page of `bench`: {e}")))
}

fn op(row: &GpuRow) -> (&str, bool, usize) {
    (row.op.as_str(), row.anchor, row.dim)
}

fn name(row: &GpuRow) -> String {
    format!("{}{} {}", row.op, if row.anchor { " (anchor)" } else { "" }, row.dim)
}

fn legend(with_peers: bool) -> Vec<(&'static str, String)> {
    let words = [
        ("fused", "launched plainly, caches empty"),
        ("dependent", "launched to begin while the launch before ends"),
        ("copy", "copy of as many bytes in the same run: the roof"),
    ];
    let mut legend: Vec<_> = words.map(|(class, words)| (class, words.to_owned())).into();
    legend.extend(with_peers.then(|| ("peer", "the best others, plain".to_owned())));
    legend
}

/// Microseconds of the better launch.
fn best(row: &GpuRow) -> Option<f64> {
    [row.us.as_ref().ok().copied(), row.pdl_us].into_iter().flatten().min_by(f64::total_cmp)
}

fn plain(row: &GpuRow) -> Option<f64> {
    row.us.as_ref().ok().copied()
}

/// The time of others, plainly launched.
fn peer_us(row: &GpuRow, peers: Option<&GpuPeers>) -> Option<f64> {
    Some(peers?.ratio(row, PEER, false, false)? * plain(row)?)
}

fn charts(rows: &[&GpuRow], peers: Option<&GpuPeers>) -> Vec<Chart> {
    let counts: Vec<String> = rows.iter().map(|row| row.rows.to_string()).collect();
    let each = |of: &dyn Fn(&GpuRow) -> Option<f64>| -> Vec<Option<f64>> { rows.iter().map(|row| of(row)).collect() };
    let bandwidth = |us: &dyn Fn(&GpuRow) -> Option<f64>| each(&|row| Some(row.bytes as f64 / us(row)? / 1e3));
    let mut roofline: Vec<Curve> = vec![("copy", bandwidth(&|row| row.copy_us))];
    let mut ratios: Vec<Curve> = vec![("copy", each(&|row| Some(row.copy_us? / plain(row)?)))];
    if peers.is_some() {
        roofline.push(("peer", bandwidth(&|row| peer_us(row, peers))));
        ratios.push(("peer", each(&|row| Some(peer_us(row, peers)? / plain(row)?))));
    }
    roofline.push(("dependent", bandwidth(&|row| row.pdl_us)));
    roofline.push(("fused", bandwidth(&plain)));
    ratios.push(("dependent", each(&|row| Some(row.pdl_us? / plain(row)?))));
    ratios.push(("fused", each(&|row| plain(row).map(|_| 1.0))));
    vec![
        chart("GB/s over rows", &counts, &roofline, "GB/s"),
        chart("their time by that of a plain launch", &counts, &ratios, "×"),
    ]
}

fn summary(rows: &[GpuRow], peers: Option<&GpuPeers>) -> Vec<(String, String)> {
    let of = |ratio: &dyn Fn(&GpuRow) -> Option<f64>| rows.iter().filter_map(ratio).collect::<Vec<f64>>();
    let mut figures = Vec::new();
    figures.extend(mean_and_least("copy / plain", &of(&|row| Some(row.copy_us? / plain(row)?))));
    figures.extend(mean_and_least("copy / better launch", &of(&|row| Some(row.copy_us? / best(row)?))));
    if let Some(peers) = peers {
        figures.extend(mean_and_least("others / plain, both plain", &of(&|row| peers.ratio(row, PEER, false, false))));
        figures.extend(mean_and_least("others / ours, any launch", &of(&|row| peers.ratio(row, PEER, false, true))));
    }
    let wrong = rows.iter().filter(|row| !row.is_right()).count();
    figures.push((wrong.to_string(), format!("of {} rows failed or differ from the interpreter", rows.len())));
    figures
}

fn table(rows: &[GpuRow], peers: Option<&GpuPeers>) -> Table {
    let mut head =
        ["op", "rows", "µs", "pdl", "hot", "hot pdl", "copy", "GB/s", "copy / µs"].map(str::to_owned).to_vec();
    head.extend(peers.map(|_| ["others / µs", "others / ours, any"].map(str::to_owned)).into_iter().flatten());
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let cells = |row: &GpuRow| {
        let us = plain(row);
        let mut cells = vec![name(row), row.rows.to_string()];
        cells.extend([us, row.pdl_us, row.hot_us, row.hot_pdl_us, row.copy_us].map(figure));
        cells.push(figure(us.map(|us| row.bytes as f64 / us / 1e3)));
        cells.push(figure(us.and_then(|us| Some(row.copy_us? / us))));
        if let Some(peers) = peers {
            cells.extend([false, true].map(|any| figure(peers.ratio(row, PEER, false, any))));
        }
        cells
    };
    Table { title: "All figures, medians".to_owned(), head, rows: rows.iter().map(cells).collect() }
}

#[cfg(test)]
mod tests {
    use super::super::rows::tests::row;
    use super::*;

    #[test]
    fn every_op_has_its_roof_and_its_ratios() {
        let text = r#"{"device":"x","columns":["op","dim","T","peer_plain"],"rows":[["A",5120,1,4],["A",5120,8,1]]}"#;
        let peers = GpuPeers::parse(text).expect("is in its form");
        let mut failed = row("B", 1, 1.0);
        failed.us = Err("refused".to_owned());
        let results = GpuResults {
            device: "a<GPU".to_owned(),
            driver: "CUDA 13.0".to_owned(),
            // 30720 bytes in 2 µs; not in order, and a row without a figure.
            rows: vec![row("A", 8, 2.0), row("A", 1, 1.0), failed],
        };
        let page = gpu_page(&results, Some(&peers)).expect("renders");
        assert_eq!((page.matches("<section>").count(), page.matches("<svg").count()), (2, 4));
        assert!(page.contains("a&#60;GPU") && page.contains("others on x") && !page.contains("<script"), "{page}");
        for words in ["fused: 15.36 GB/s", "copy: 0.50 ×", "peer: 4.00 ×", "1.41, least 0.50", "1</dd>"] {
            assert!(page.contains(words), "{words}: {page}");
        }
        assert!(page.find("30.72 GB/s") < page.find("15.36 GB/s"), "rows ascend");
    }
}
