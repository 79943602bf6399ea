//! `bench --suite kernels --target cuda`: kernels on a GPU beside a copy, dependent launches, and figures of others.

use std::time::Duration;

use fusewright::Error;
use fusewright::bench::gpu::{
    GpuCase, GpuPeers, GpuResults, GpuRow, GpuRun, Tuned, gpu_cases, gpu_page, measure_gpu, tune_gpu,
};
use fusewright::write_whole;

use super::super::{Exit, FAILED, OK};
use crate::args::{BenchArgs, Common};
use crate::output::{line, progress, table};

pub fn main(args: &BenchArgs, common: &Common) -> Exit {
    if args.model.is_some() || args.threads != 1 {
        return Err(Error::Input("suite `kernels` on a GPU takes no MODEL or `--threads`".to_owned()));
    }
    let all = gpu_cases()?;
    if args.list {
        all.iter().for_each(|case| line(case.name()));
        return Ok(OK);
    }
    let cases = chosen(all, &args.case)?;
    let peers = args.compare.as_deref().map(GpuPeers::open).transpose()?;
    let run = GpuRun {
        rows: args.rows.iter().map(|&rows| rows as usize).collect(),
        out: args.out.clone(),
        deadline: args.deadline.map(Duration::from_secs),
        schedules: common.schedules()?,
    };
    if args.tune {
        return tune(args, common, &cases, &run);
    }
    let mut done = |row: &GpuRow| progress(common.verbose, &words(row));
    let results = match &args.from {
        Some(path) => {
            common.without_schedules("bench --from")?;
            of_cases(GpuResults::read(path)?, (!args.case.is_empty()).then_some(&cases[..]), &run.rows)
        }
        None => measure_gpu(&cases, &args.target, &run, &mut done)?,
    };
    if let Some(path) = &args.html {
        write_whole(path, gpu_page(&results, peers.as_ref())?.as_bytes())?;
        line(format!("wrote {}", path.display()));
    } else if args.json {
        let mut report = results.to_json();
        report["target"] = args.target.to_string().into();
        if let Some(peers) = &peers {
            report["compare"] = peers.report(&results.rows);
        }
        line(report);
    } else {
        print(&results, peers.as_ref());
    }
    Ok(if results.rows.iter().all(GpuRow::is_right) { OK } else { FAILED })
}

/// Searches schedules, and says what each kernel gains.
fn tune(args: &BenchArgs, common: &Common, cases: &[GpuCase], run: &GpuRun) -> Exit {
    // `--tune` requires it.
    let path = args.out.as_deref().ok_or_else(|| Error::Input("`--tune` needs `--out`".to_owned()))?;
    let mut rows = Vec::new();
    let mut done = |tuned: &Tuned| {
        progress(common.verbose, &format!("{}: {}", tuned.name, tuned.schedule));
        let (gain, count) = (format!("{:.3}", tuned.gain), tuned.candidates.to_string());
        rows.push(vec![tuned.name.clone(), count, gain, tuned.schedule.to_string()]);
    };
    tune_gpu(cases, &args.target, run, path, &mut done)?;
    table(&["op", "candidates", "rule / tuned", "schedule"], &rows, &[1, 2]);
    line(format!("wrote {}", path.display()));
    Ok(OK)
}

/// The stored rows of cases and numbers of rows, or all.
fn of_cases(mut results: GpuResults, cases: Option<&[GpuCase]>, rows: &[usize]) -> GpuResults {
    results.rows.retain(|row| {
        let is_of =
            |case: &GpuCase| (case.op.as_str(), case.anchor, case.length) == (row.op.as_str(), row.anchor, row.dim);
        cases.is_none_or(|cases| cases.iter().any(is_of)) && (rows.is_empty() || rows.contains(&row.rows))
    });
    results
}

/// The cases of those names; without any, all ops as they are fused, at their main row length.
pub(super) fn chosen(all: Vec<GpuCase>, names: &[String]) -> Result<Vec<GpuCase>, Error> {
    if names.is_empty() {
        return Ok(all.into_iter().filter(|case| case.main && !case.anchor).collect());
    }
    if let Some(unknown) = names.iter().find(|name| !all.iter().any(|case| case.name() == **name)) {
        let known: Vec<String> = all.iter().map(GpuCase::name).collect();
        return Err(Error::Input(format!("no case `{unknown}`; there are {}", known.join(", "))));
    }
    Ok(all.into_iter().filter(|case| names.contains(&case.name())).collect())
}

fn name(row: &GpuRow) -> String {
    format!("{}{} {}", row.op, if row.anchor { " (anchor)" } else { "" }, row.dim)
}

/// A row in a line.
fn words(row: &GpuRow) -> String {
    match &row.us {
        Ok(us) => format!("{} at {} rows: {us:.2} µs", name(row), row.rows),
        Err(error) => format!("{} at {} rows: {error}", name(row), row.rows),
    }
}

fn print(results: &GpuResults, peers: Option<&GpuPeers>) {
    line(format!("{}, driver of {}", results.device, results.driver));
    let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let cells = |row: &GpuRow| {
        let us = row.us.as_ref().ok().copied();
        let differ: usize = row.mismatched.iter().map(|m| m.differ).sum();
        let ratio = |against, any| figure(peers.and_then(|peers| peers.ratio(row, against, false, any)));
        let mut cells = vec![name(row), row.rows.to_string()];
        cells.extend([us, row.hot_us, row.pdl_us, row.hot_pdl_us, row.copy_us, row.hot_copy_us].map(figure));
        cells.push(figure(us.and_then(|us| Some(row.copy_us? / us))));
        cells.push(differ.to_string());
        cells.push(row.registers.map_or_else(|| "-".to_owned(), |n| n.to_string()));
        if peers.is_some() {
            cells.extend([
                ratio("peer", false),
                ratio("attainable", false),
                ratio("peer", true),
                ratio("attainable", true),
            ]);
        }
        cells
    };
    let rows: Vec<Vec<String>> = results.rows.iter().map(cells).collect();
    let mut head =
        vec!["op", "rows", "µs", "hot", "pdl", "hot pdl", "copy", "hot copy", "copy / ours", "differ", "registers"];
    if peers.is_some() {
        head.extend(["peer / ours", "attainable / ours", "peer / ours, any launch", "attainable / ours, any launch"]);
    }
    table(&head, &rows, &(1..head.len()).collect::<Vec<_>>());
    for row in &results.rows {
        if let Err(error) = &row.us {
            line(format!("{} at {} rows: {error}", name(row), row.rows));
        }
        for m in row.mismatched.iter().filter(|m| m.differ > 0) {
            let (output, first) = (&m.output, m.first.as_deref().unwrap_or_default());
            line(format!("{} at {} rows: `{output}`{first}", name(row), row.rows));
        }
    }
    let Some(peers) = peers else { return };
    if peers.device != results.device {
        line(format!("the figures of others are of {}", peers.device));
    }
    let ratios = peers.ratios(&results.rows);
    let cells = ratios.iter().map(|r| {
        vec![
            r.op.clone(),
            r.against.to_owned(),
            if r.hot { "hot" } else { "cold" }.to_owned(),
            if r.any { "any" } else { "plain" }.to_owned(),
            format!("{:.2}", r.mean),
            format!("{:.2}", r.worst.0),
            r.worst.1.to_string(),
            r.count.to_string(),
        ]
    });
    let head = ["op", "against", "cache", "launch", "theirs / ours, mean", "worst", "at rows", "figures"];
    table(&head, &cells.collect::<Vec<_>>(), &[4, 5, 6, 7]);
}
