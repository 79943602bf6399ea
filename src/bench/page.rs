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

/// What a series draws, and its value in a row.
type Curve<'a> = (&'static str, Box<dyn Fn(&BenchRow) -> Option<f64> + 'a>);

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
    let mut add = |what: &str, ratios: Vec<f64>| {
        if let Some(least) = ratios.iter().copied().min_by(f64::total_cmp) {
            let mean = geometric_mean(&ratios);
            figures.push((format!("{mean:.2}, least {least:.2}"), format!("{what}, geometric mean")));
        }
    };
    add("one kernel per op / fused", rows.iter().map(|row| row.unfused_us / row.fused_us).collect());
    add("copy / fused", rows.iter().map(|row| row.copy_us / row.fused_us).collect());
    if let Some(peer) = peer {
        let ratios = rows.iter().filter_map(|row| Some((peer.of)(row)? / row.fused_us)).collect();
        add(&format!("{} / fused", peer.name), ratios);
    }
    figures
}

fn roofline(rows: &[&BenchRow], peer: Option<&PeerTimes<'_>>) -> Chart {
    let mut curves: Vec<Curve<'_>> = vec![
        ("copy", Box::new(|row| Some(row.bandwidth(row.copy_us)))),
        ("unfused", Box::new(|row| Some(row.bandwidth(row.unfused_us)))),
    ];
    curves.extend(peer.map(|peer| -> Curve<'_> { ("peer", Box::new(|row| Some(row.bandwidth((peer.of)(row)?)))) }));
    curves.push(("fused", Box::new(|row| Some(row.bandwidth(row.fused_us)))));
    chart("GB/s over rows", rows, &curves, "GB/s")
}

fn ratios(rows: &[&BenchRow], peer: Option<&PeerTimes<'_>>) -> Chart {
    let mut curves: Vec<Curve<'_>> = vec![
        ("copy", Box::new(|row| Some(row.copy_us / row.fused_us))),
        ("unfused", Box::new(|row| Some(row.unfused_us / row.fused_us))),
        ("fused", Box::new(|_| Some(1.0))),
    ];
    curves
        .extend(peer.map(|peer| -> Curve<'_> { ("peer", Box::new(move |row| Some((peer.of)(row)? / row.fused_us))) }));
    chart("times as fast as", rows, &curves, "×")
}

/// Curves on a logarithmic scale, since twice and half as fast are equally far from even.
fn chart(caption: &str, rows: &[&BenchRow], curves: &[Curve<'_>], unit: &str) -> Chart {
    let values = || rows.iter().flat_map(|row| curves.iter().filter_map(|(_, value)| value(row))).map(f64::log2);
    let bound = |value: f64| value.clamp(-30.0, 30.0) as i32;
    let low = bound(values().fold(f64::INFINITY, f64::min).floor());
    let high = bound(values().fold(f64::NEG_INFINITY, f64::max).ceil()).max(low + 1);
    let y = |value: f64| {
        let part = (value.log2() - f64::from(low)) / f64::from(high - low);
        BOTTOM - (part * (BOTTOM - TOP) as f64).round() as i64
    };
    let line = |power: i32| Mark { at: y(f64::from(power).exp2()), text: power_of_two(power), base: power == 0 };
    let every = (high - low) / LINES + 1;
    let x = |i: usize| LEFT + (RIGHT - LEFT) * i as i64 / (rows.len() as i64 - 1).max(1);
    let count = |row: &BenchRow| row.rows.map_or_else(String::new, |rows| rows.to_string());
    let ticks = rows.iter().enumerate().map(|(i, row)| Mark { at: x(i), text: count(row), base: false }).collect();
    let series = curves.iter().map(|(class, value)| {
        let point = |(i, row): (usize, &&BenchRow)| {
            let value = value(row)?;
            Some(Point { x: x(i), y: y(value), hint: format!("{class}: {value:.2} {unit}") })
        };
        Series { class, points: rows.iter().enumerate().filter_map(point).collect() }
    });
    Chart {
        caption: caption.to_owned(),
        width: WIDTH,
        height: HEIGHT,
        grid: (low..=high).filter(|power| power % every == 0).map(line).collect(),
        ticks,
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
