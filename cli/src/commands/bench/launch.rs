//! `bench --suite launch --target cuda`: what launches cost the host beyond the driver's own call.

use fusewright::bench::gpu::{LaunchReport, LaunchRow, gpu_cases, measure_launches};
use fusewright::{Error, Target};
use serde_json::json;

use super::super::{Exit, OK};
use super::gpu::chosen;
use crate::args::BenchArgs;
use crate::output::{line, table};

pub fn main(args: &BenchArgs) -> Exit {
    if args.model.is_some() || args.threads != 1 || args.html.is_some() || args.compare.is_some() {
        let message = "suite `launch` takes no MODEL, `--threads`, `--compare` or `--html`";
        return Err(Error::Input(message.to_owned()));
    }
    let all = gpu_cases()?;
    if args.list {
        all.iter().for_each(|case| line(case.name()));
        return Ok(OK);
    }
    if !matches!(args.target, Target::Cuda { .. }) {
        let message = "suite `launch` is of GPUs: `--target cuda`; `cargo bench --bench launch` is that of the host";
        return Err(Error::Input(message.to_owned()));
    }
    let cases = chosen(all, &args.case)?;
    let rows: Vec<usize> = args.rows.iter().map(|&rows| rows as usize).collect();
    let report = measure_launches(&cases, &args.target, if rows.is_empty() { &[1] } else { &rows })?;
    if args.json {
        line(to_json(&report))
    } else {
        print(&report)
    }
    Ok(OK)
}

fn to_json(report: &LaunchReport) -> serde_json::Value {
    let row = |row: &LaunchRow| {
        json!({
            "op": row.name, "T": row.rows, "arguments": row.arguments, "own_us": row.own_us(),
            "bare_us": row.bare_us, "prepared_us": row.prepared_us, "checked_us": row.checked_us, "program_us": row.program_us,
        })
    };
    let rows: Vec<_> = report.rows.iter().map(row).collect();
    json!({ "device": report.device, "driver": report.driver, "calls": report.calls, "rows": rows })
}

fn print(report: &LaunchReport) {
    let row = |row: &LaunchRow| {
        let figures = [row.bare_us, row.prepared_us, row.checked_us, row.program_us, row.own_us()];
        let words = [row.name.clone(), row.rows.to_string(), row.arguments.to_string()];
        words.into_iter().chain(figures.map(|us| format!("{us:.3}"))).collect()
    };
    let rows: Vec<Vec<String>> = report.rows.iter().map(row).collect();
    let columns = ["op", "rows", "arguments", "driver µs", "prepared µs", "checked µs", "program µs", "most beyond µs"];
    table(&columns, &rows, &[1, 2, 3, 4, 5, 6, 7]);
    if let Some(most) = report.rows.iter().max_by(|a, b| a.own_us().total_cmp(&b.own_us())) {
        let (own, name, rows) = (most.own_us(), &most.name, most.rows);
        line(format!(
            "most beyond the driver's call: {own:.3} µs (`{name}`, {rows} rows), {} calls each",
            report.calls
        ));
    }
}
