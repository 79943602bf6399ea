//! `bench`: fused kernels against unfused ones and against memory copy; how long compiling takes; the feature matrix.

mod matrix;
mod stack;

use fusewright::bench::{BenchCase, BenchRow, kernel_suite, measure, rows_to_measure};
use fusewright::graph::InputKind;
use fusewright::inputs::weights_as_inputs;
use fusewright::{Error, fuse_graph};
use serde_json::json;

use super::{Exit, OK};
use crate::args::{BenchArgs, Common, later};
use crate::output::{line, progress, table};

pub fn main(args: &BenchArgs, common: &Common) -> Exit {
    let given = [
        (args.compare.is_some(), "bench --compare"),
        (args.tune, "bench --tune"),
        (args.html.is_some(), "bench --html"),
    ];
    if let Some((_, name)) = given.iter().find(|(given, _)| *given) {
        return Err(later(name));
    }
    match args.suite.as_deref() {
        Some("compile") => return stack::main(args, common),
        Some("matrix") => return matrix::main(args, common),
        _ if args.check => return Err(Error::Input("only suite `matrix` has a `--check`".to_owned())),
        _ => {}
    }
    let cases = cases(args, common)?;
    if args.list {
        cases.iter().for_each(|case| line(&case.name));
        return Ok(OK);
    }
    let asked: Vec<usize> = args.rows.iter().map(|&rows| rows as usize).collect();
    // Every number of rows is checked before the first is measured.
    let rows = |case: &BenchCase| rows_to_measure(&case.graph, &asked).map_err(|e| e.about(&case.name));
    let planned = cases.iter().map(|case| Ok((case, rows(case)?))).collect::<Result<Vec<_>, Error>>()?;
    let mut measured = Vec::new();
    for (case, rows) in planned {
        for rows in rows {
            progress(common.verbose, &format!("{}{}", case.name, at(rows)));
            measured.push(measure(case, &args.target, rows, args.threads.into()).map_err(|e| e.about(&case.name))?);
        }
    }
    if args.json {
        let row = |r: &BenchRow| {
            json!({
                "name": r.name, "rows": r.rows, "bytes": r.bytes, "kernels": r.kernels,
                "fused_us": r.fused_us, "unfused_us": r.unfused_us, "copy_us": r.copy_us,
            })
        };
        let rows: Vec<_> = measured.iter().map(row).collect();
        line(json!({ "target": args.target.to_string(), "threads": args.threads, "rows": rows }));
    } else {
        print(&measured);
    }
    Ok(OK)
}

fn cases(args: &BenchArgs, common: &Common) -> Result<Vec<BenchCase>, Error> {
    match (&args.model, args.suite.as_deref()) {
        (Some(path), None) => {
            let graph = common.open(path)?;
            if graph.symbols().is_empty() && !args.rows.is_empty() {
                let message = "`--rows` sets symbols, and the graph has none";
                return Err(Error::Call(format!("{}: {message}", path.display())));
            }
            let fused = fuse_graph(&graph, &common.options()?)?;
            let case = |(i, r): (usize, &fusewright::FusedRegion)| BenchCase {
                name: format!("{i}:{}", r.name),
                graph: weights_as_inputs(&r.body, |kind| matches!(kind, InputKind::Weight(_))),
            };
            Ok(fused.partition.regions.iter().enumerate().map(case).collect())
        }
        (None, Some("kernels")) => kernel_suite(),
        (Some(_), Some("kernels")) => Err(Error::Input("suite `kernels` takes no MODEL".to_owned())),
        (_, other) => Err(Error::Input(format!(
            "no suite `{}`; there are `kernels`, `compile` and `matrix`",
            other.unwrap_or_default()
        ))),
    }
}

/// A number of rows in words.
fn at(rows: Option<usize>) -> String {
    rows.map_or_else(String::new, |rows| format!(" at {rows} rows"))
}

fn print(measured: &[BenchRow]) {
    let rows: Vec<Vec<String>> = measured
        .iter()
        .map(|r| {
            vec![
                r.name.clone(),
                r.rows.map_or_else(|| "-".to_owned(), |rows| rows.to_string()),
                format!("{:.2}", r.fused_us),
                format!("{:.2}", r.unfused_us / r.fused_us),
                format!("{:.2}", r.copy_us / r.fused_us),
                format!("{:.2}", r.bytes as f64 / r.fused_us / 1e3),
            ]
        })
        .collect();
    table(&["kernel", "rows", "fused µs", "unfused / fused", "copy / fused", "GB/s"], &rows, &[1, 2, 3, 4, 5]);
    if let Some(worst) =
        measured.iter().min_by(|a, b| (a.unfused_us / a.fused_us).total_cmp(&(b.unfused_us / b.fused_us)))
    {
        line(format!(
            "worst: {}{}, unfused / fused {:.2}",
            worst.name,
            at(worst.rows),
            worst.unfused_us / worst.fused_us
        ));
    }
}
