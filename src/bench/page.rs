//! `bench` as one self-contained page: of every case the bandwidth beside that of a copy, which is its roof, and how many
//! times as fast it is as what it is compared with.

use fusewright_abi::Target;
use fusewright_templates::bench::{BenchPage, Case, Chart, Mark, Point, Series};
use fusewright_templates::page::Table;

use super::{BenchRow, geometric_mean};
use crate::Error;

/// Times of another implementation.
pub struct PeerTimes<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Microseconds of the case in a row, if there is such a figure.
    pub of: &'a dyn Fn(&BenchRow) -> Option<f64>,
}

const WIDTH: i64 = 340;
const HEIGHT: i64 = 190;
/// Where the grid begins and ends.
const LEFT: i64 = 64;
const RIGHT: i64 = WIDTH - 24;
const TOP: i64 = 10;
const BOTTOM: i64 = HEIGHT - 24;
/// Most lines of a grid, about.
const LINES: i32 = 6;

/// What a series is called, and its values from left to right.
pub(super) type Curve = (&'static str, Vec<Option<f64>>);

/// The page of what was measured for a target on so many threads.
///
/// # Errors
/// None for finite figures.
pub fn bench_page(
    target: &Target,
    threads: usize,
    rows: &[BenchRow],
    peer: Option<&PeerTimes<'_>>,
) -> Result<String, Error> {
    let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    names.dedup();
    let case = |name: &&str| {
        let rows: Vec<&BenchRow> = rows.iter().filter(|row| row.name == **name).collect();
        Case { name: (*name).to_owned(), charts: vec![roofline(&rows, peer), ratios(&rows, peer)] }
    };
    let page = BenchPage {
        title: format!("Kernels for {target} on {threads} thread{}", if threads == 1 { "" } else { "s" }),
        summary: summary(rows, peer),
        legend: legend(peer),
        cases: names.iter().map(case).collect(),
        table: table(rows, peer),
    };
    page.text().map_err(|e| Error::Internal(format!("the page of `bench`: {e}")))
}

fn legend(peer: Option<&PeerTimes<'_>>) -> Vec<(&'static str, String)> {
    let words = [("fused", "fused"), ("unfused", "one kernel per op"), ("copy", "copy of as many bytes: the roof")];
    let mut legend: Vec<_> = words.map(|(class, words)| (class, words.to_owned())).into();
    legend.extend(peer.map(|peer| ("peer", peer.name.to_owned())));
    legend
}

/// Geometric means of ratios, and the least of them.
fn summary(rows: &[BenchRow], peer: Option<&PeerTimes<'_>>) -> Vec<(String, String)> {
    let mut figures = Vec::new();
    let mut add = |what: &str, ratios: Vec<f64>| figures.extend(mean_and_least(what, &ratios));
    add("one kernel per op / fused", rows.iter().map(|row| row.unfused_us / row.fused_us).collect());
    add("copy / fused", rows.iter().map(|row| row.copy_us / row.fused_us).collect());
    if let Some(peer) = peer {
        let ratios = rows.iter().filter_map(|row| Some((peer.of)(row)? / row.fused_us)).collect();
        add(&format!("{} / fused", peer.name), ratios);
    }
    figures
}

/// The geometric mean of ratios and the least of them, and what they are; none of none.
pub(super) fn mean_and_least(what: &str, ratios: &[f64]) -> Option<(String, String)> {
    let least = ratios.iter().copied().min_by(f64::total_cmp)?;
    Some((format!("{:.2}, least {least:.2}", geometric_mean(ratios)), format!("{what}, geometric mean")))
}

fn roofline(rows: &[&BenchRow], peer: Option<&PeerTimes<'_>>) -> Chart {
    let bandwidth = |us: &dyn Fn(&BenchRow) -> Option<f64>| -> Vec<Option<f64>> {
        rows.iter().map(|row| us(row).map(|us| row.bandwidth(us))).collect()
    };
    let mut curves: Vec<Curve> =
        vec![("copy", bandwidth(&|row| Some(row.copy_us))), ("unfused", bandwidth(&|row| Some(row.unfused_us)))];
    curves.extend(peer.map(|peer| ("peer", bandwidth(peer.of))));
    curves.push(("fused", bandwidth(&|row| Some(row.fused_us))));
    chart("GB/s over rows", &counts(rows), &curves, "GB/s")
}

fn ratios(rows: &[&BenchRow], peer: Option<&PeerTimes<'_>>) -> Chart {
    let ratio = |us: &dyn Fn(&BenchRow) -> Option<f64>| -> Vec<Option<f64>> {
        rows.iter().map(|row| us(row).map(|us| us / row.fused_us)).collect()
    };
    let mut curves: Vec<Curve> = vec![
        ("copy", ratio(&|row| Some(row.copy_us))),
        ("unfused", ratio(&|row| Some(row.unfused_us))),
        ("fused", ratio(&|row| Some(row.fused_us))),
    ];
    curves.extend(peer.map(|peer| ("peer", ratio(peer.of))));
    chart("times as fast as", &counts(rows), &curves, "×")
}

fn counts(rows: &[&BenchRow]) -> Vec<String> {
    rows.iter().map(|row| row.rows.map_or_else(String::new, |rows| rows.to_string())).collect()
}

/// Curves on a logarithmic scale, since twice and half as fast are equally far from even; below each value its number of
/// rows.
pub(super) fn chart(caption: &str, counts: &[String], curves: &[Curve], unit: &str) -> Chart {
    let values = || curves.iter().flat_map(|(_, values)| values.iter().flatten()).map(|value| value.log2());
    let bound = |value: f64| value.clamp(-30.0, 30.0) as i32;
    let low = bound(values().fold(f64::INFINITY, f64::min).floor());
    let high = bound(values().fold(f64::NEG_INFINITY, f64::max).ceil()).max(low + 1);
    let y = |value: f64| {
        let part = (value.log2() - f64::from(low)) / f64::from(high - low);
        BOTTOM - (part * (BOTTOM - TOP) as f64).round() as i64
    };
    let line = |power: i32| Mark { at: y(f64::from(power).exp2()), text: power_of_two(power), base: power == 0 };
    let every = (high - low) / LINES + 1;
    let x = |i: usize| LEFT + (RIGHT - LEFT) * i as i64 / (counts.len() as i64 - 1).max(1);
    let tick = |(i, text): (usize, &String)| Mark { at: x(i), text: text.clone(), base: false };
    let series = curves.iter().map(|(class, values)| {
        let point = |(i, value): (usize, &Option<f64>)| {
            let value = (*value)?;
            Some(Point { x: x(i), y: y(value), hint: format!("{class}: {value:.2} {unit}") })
        };
        Series { class, points: values.iter().enumerate().filter_map(point).collect() }
    });
    Chart {
        caption: caption.to_owned(),
        width: WIDTH,
        height: HEIGHT,
        grid: (low..=high).filter(|power| power % every == 0).map(line).collect(),
        ticks: counts.iter().enumerate().map(tick).collect(),
        series: series.collect(),
    }
}

fn power_of_two(power: i32) -> String {
    let value = 1u64 << power.unsigned_abs();
    if power < 0 { format!("1/{value}") } else { value.to_string() }
}

fn table(rows: &[BenchRow], peer: Option<&PeerTimes<'_>>) -> Table {
    let mut head =
        ["kernel", "rows", "fused µs", "one per op µs", "copy µs", "GB/s", "copy / fused"].map(str::to_owned).to_vec();
    head.extend(peer.map(|peer| format!("{} µs", peer.name)));
    let cells = |row: &BenchRow| {
        let figure = |value: f64| format!("{value:.2}");
        let mut cells = vec![
            row.name.clone(),
            row.rows.map_or_else(|| "-".to_owned(), |rows| rows.to_string()),
            figure(row.fused_us),
            figure(row.unfused_us),
            figure(row.copy_us),
            figure(row.bandwidth(row.fused_us)),
            figure(row.copy_us / row.fused_us),
        ];
        cells.extend(peer.map(|peer| (peer.of)(row).map_or_else(|| "-".to_owned(), figure)));
        cells
    };
    Table { title: "All figures, medians".to_owned(), head, rows: rows.iter().map(cells).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, rows: Option<usize>, fused_us: f64) -> BenchRow {
        let (unfused_us, copy_us) = (4.0 * fused_us, fused_us / 2.0);
        BenchRow { name: name.to_owned(), rows, fused_us, unfused_us, copy_us, bytes: 64_000, kernels: 1 }
    }

    #[test]
    fn every_case_has_its_roof_and_its_ratios() {
        let rows = [row("a<b", Some(1), 2.0), row("a<b", Some(32), 8.0), row("c", None, 0.5)];
        let half = |row: &BenchRow| (row.name == "c").then_some(row.fused_us / 2.0);
        let peer = PeerTimes { name: "other", of: &half };
        let page = bench_page(&Target::Cpu, 2, &rows, Some(&peer)).expect("renders");
        assert_eq!((page.matches("<section>").count(), page.matches("<svg").count()), (2, 4));
        assert!(page.contains("a&#60;b") && !page.contains("<script") && !page.contains("a<b"), "{page}");
        // 64 kB in 2 µs; the peer is twice as fast; the copy too, everywhere.
        for words in ["fused: 32.00 GB/s", "peer: 0.50 ×", "4.00, least 4.00", "0.50, least 0.50", "on 2 threads"] {
            assert!(page.contains(words), "{words}: {page}");
        }
        for number in page.split(['"', ',', ' ']).filter_map(|word| word.parse::<i64>().ok()) {
            assert!((0..=64_000).contains(&number), "{number} is outside of the drawing");
        }
    }

    #[test]
    fn powers_of_two_are_written_as_people_do() {
        assert_eq!([-3, 0, 5].map(power_of_two), ["1/8", "1", "32"]);
    }
}
