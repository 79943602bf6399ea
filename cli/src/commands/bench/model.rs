//! `bench MODEL --target cuda`: a whole model as a CUDA graph, and its generated kernels alone, fused and not.

use std::path::Path;
use std::time::Duration;

use fusewright::bench::gpu::{ModelResults, ModelRow, ModelRun, measure_model};
use fusewright::bench::rows_to_measure;
use fusewright::graph::{Graph, InputKind};
use fusewright::inputs::{DEFAULT_ROWS, DEFAULT_SEED, Sizes, Values, symbols, tensors, weights_as_inputs};
use fusewright::{Error, HostTensor, check, model, read_safetensors};

use super::super::{Exit, OK};
use crate::args::{BenchArgs, Common};
use crate::output::{line, progress, table};

pub fn main(path: &Path, args: &BenchArgs, common: &Common) -> Exit {
    let others = [
        (args.check, "--check"),
        (args.list, "--list"),
        (!args.case.is_empty(), "--case"),
        (args.compare.is_some(), "--compare"),
        (args.html.is_some(), "--html"),
        (args.threads != 1, "--threads"),
        (args.sample.is_some() || args.slice.is_some() || args.seed.is_some(), "--sample`, `--slice` or `--seed"),
        (common.pipeline.is_some() || common.patterns.is_some(), "--pipeline` or `--patterns"),
        (common.relaxed, "--relaxed"),
    ];
    if let Some((_, option)) = others.iter().find(|(given, _)| *given) {
        return Err(Error::Input(format!("a MODEL on a GPU is measured without `{option}`")));
    }
    let located = |e: Error| e.about(path.display());
    let graph = super::opened(path, args, common)?;
    model::check_runnable(&graph).map_err(located)?;
    let graph = weights_as_inputs(&graph, |kind| matches!(kind, InputKind::Weight(None)));
    let calls = if args.inputs.is_empty() { made(&graph, args).map_err(located)? } else { given(&graph, args)? };
    let run = ModelRun {
        out: args.out.clone(),
        deadline: args.deadline.map(Duration::from_secs),
        schedules: common.schedules()?,
    };
    let mut done = |row: &ModelRow| progress(common.verbose, &words(row));
    let results = measure_model(&graph, &args.target, &calls, &run, &mut done).map_err(located)?;
    if args.json {
        line(results.to_json());
    } else {
        print(&results);
    }
    Ok(OK)
}

/// Calls made from a seed at every number of rows.
fn made(graph: &Graph, args: &BenchArgs) -> Result<Vec<Vec<HostTensor>>, Error> {
    let asked: Vec<usize> = args.rows.iter().map(|&rows| rows as usize).collect();
    let call = |rows: Option<usize>| {
        let rows = rows.map(|rows| i64::try_from(rows).unwrap_or(i64::MAX));
        let sizes = symbols(graph, &Sizes { rows, ..Sizes::default() }, DEFAULT_ROWS)?;
        tensors(graph, &sizes, DEFAULT_SEED, Values::Ordinary)?.iter().map(HostTensor::of).collect()
    };
    rows_to_measure(graph, &asked)?.into_iter().map(call).collect()
}

/// Calls as files have them.
fn given(graph: &Graph, args: &BenchArgs) -> Result<Vec<Vec<HostTensor>>, Error> {
    let mut calls = Vec::new();
    for path in &args.inputs {
        let cases = check::cases(graph, &read_safetensors(path)?).map_err(|e| e.about(path.display()))?;
        calls.extend(cases.into_iter().map(|case| case.inputs));
    }
    Ok(calls)
}

/// A row in a line.
fn words(row: &ModelRow) -> String {
    let rows = row.rows.map_or_else(String::new, |rows| format!(" at {rows} rows"));
    format!("{} {}{rows}: {:.2} µs, hot {:.2} µs", row.variant(), row.part.name(), row.us, row.hot_us)
}

fn print(results: &ModelResults) {
    line(&results.device);
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let figures: [fn(&ModelRow) -> Option<f64>; 3] = [|row| Some(row.us), |row| Some(row.hot_us), |row| row.chained_us];
    let mut rows = Vec::new();
    for row in results.rows.iter().filter(|row| row.fused) {
        let plain = if row.overlapping { "" } else { ", plain" };
        let mut cells =
            vec![format!("{}{plain}", row.part.name()), row.rows.map_or_else(|| "-".to_owned(), |n| n.to_string())];
        cells.push(row.nodes.to_string());
        cells.extend(figures.iter().flat_map(|of| [figure(of(row)), figure(results.ratio(row, of))]));
        rows.push(cells);
    }
    let ratio = "unfused / fused";
    let head = ["part", "rows", "nodes", "µs", ratio, "hot µs", ratio, "chained µs", ratio];
    table(&head, &rows, &[1, 2, 3, 4, 5, 6, 7, 8]);
}
