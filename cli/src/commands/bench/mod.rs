//! `bench`: fused kernels against unfused ones and against memory copy, on the host and on a GPU; how long compiling takes;
//! what launches cost the host; the feature matrix; estimates for NPUs.

mod against;
mod compare;
#[cfg(feature = "ascend")]
mod estimate;
mod gpu;
mod kinds;
mod launch;
mod matrix;
mod model;
mod stack;

use std::path::Path;

use fusewright::bench::{BenchCase, BenchRow, PeerTimes, bench_page, kernel_suite, measure, rows_to_measure};
use fusewright::graph::{Graph, InputKind};
use fusewright::inputs::weights_as_inputs;
use fusewright::{Compiler, Error, Target, fuse_graph_for, write_whole};
use serde_json::json;

use super::{Exit, OK};
use crate::args::{BenchArgs, Common};
use crate::files::Files;
use crate::output::{line, progress, table};
use compare::Peers;

pub fn main(args: &BenchArgs, common: &Common) -> Exit {
    let files =
        Files::default().reads("MODEL", &args.model).reads("--compare", &args.compare).reads("--from", &args.from);
    files.reads("--inputs", &args.inputs).writes("--html", &args.html).writes("--out", &args.out).check()?;
    // With `--tune`, schedules may be written to the file that they are read from.
    Files::of(common).writes("--html", &args.html).check()?;
    let suite = args.suite.as_deref();
    let gpu = matches!(args.target, Target::Cuda { .. });
    if args.bandwidth.is_some() && !args.estimate {
        return Err(Error::Input("only `--estimate` has a `--bandwidth`".to_owned()));
    }
    let (on_gpu, model_on_gpu) = (gpu && suite == Some("kernels"), gpu && suite.is_none());
    refuse_idle(args, common)?;
    if !on_gpu && (args.tune || args.from.is_some()) {
        return Err(Error::Input("only suite `kernels` on a GPU has `--from` and `--tune`".to_owned()));
    }
    if !on_gpu && !model_on_gpu && (args.out.is_some() || args.deadline.is_some()) {
        return Err(Error::Input("only what is measured on a GPU has `--out` and `--deadline`".to_owned()));
    }
    if !model_on_gpu && !args.inputs.is_empty() {
        return Err(Error::Input("only a MODEL on a GPU has `--inputs`".to_owned()));
    }
    if let (Some(path), true) = (&args.model, model_on_gpu) {
        return model::main(path, args, common);
    }
    if !on_gpu {
        common.without_schedules("bench")?;
    }
    let of_kernels = !args.case.is_empty() || args.compare.is_some() || args.html.is_some();
    if let (Some(suite @ ("compile" | "matrix")), true) = (suite, of_kernels) {
        return Err(Error::Input(format!("suite `{suite}` takes no `--case`, `--compare` or `--html`")));
    }
    match suite {
        Some("compile") => return stack::main(args, common),
        Some("matrix") => return matrix::main(args, common),
        _ if args.against_unfused => {
            return Err(Error::Input("only suite `matrix` is measured `--against-unfused`".to_owned()));
        }
        _ if args.check => return Err(Error::Input("only suite `matrix` has a `--check`".to_owned())),
        _ if args.sample.is_some() || args.slice.is_some() || args.seed.is_some() => {
            return Err(Error::Input("only suite `matrix` has `--sample`, `--slice` and `--seed`".to_owned()));
        }
        Some("kinds") => return kinds::main(args, common),
        Some("launch") => return launch::main(args),
        _ if on_gpu => return gpu::main(args, common),
        _ => {}
    }
    if args.estimate {
        return estimated(args, common);
    }
    if matches!(args.target, Target::AscendSim { .. }) {
        let message = "what a host model takes says nothing of a device: `--estimate` with `--target ascend`";
        return Err(Error::Input(message.to_owned()));
    }
    let cases = chosen(cases(args, common)?, &args.case)?;
    let peers = args.compare.as_deref().map(|path| Peers::open(path, args.threads)).transpose()?;
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
    if let Some(path) = &args.html {
        let of = |row: &BenchRow| peers.as_ref().and_then(|peers| peers.of(row));
        let peer = peers.as_ref().map(|peers| PeerTimes { name: peers.name(), of: &of });
        let page = bench_page(&args.target, args.threads.into(), &measured, peer.as_ref())?;
        write_whole(path, page.as_bytes())?;
        line(format!("wrote {}", path.display()));
    } else if args.json {
        let row = |r: &BenchRow| {
            let mut row = json!({
                "name": r.name, "rows": r.rows, "bytes": r.bytes, "kernels": r.kernels,
                "fused_us": r.fused_us, "unfused_us": r.unfused_us, "copy_us": r.copy_us,
            });
            if let Some(peer) = peers.as_ref().and_then(|peers| peers.of(r)) {
                row["peer_us"] = json!(peer);
            }
            row
        };
        let rows: Vec<_> = measured.iter().map(row).collect();
        let mut report = json!({ "target": args.target.to_string(), "threads": args.threads, "rows": rows });
        if let Some(peers) = &peers {
            report["compare"] = peers.report(&measured);
        }
        line(report);
    } else {
        print(&measured, peers.as_ref());
    }
    Ok(OK)
}

/// Refuses options that would change nothing.
fn refuse_idle(args: &BenchArgs, common: &Common) -> Result<(), Error> {
    let refuse = |message: String| Err(Error::Input(message));
    let suite = args.suite.as_deref();
    if args.layers != 1 && suite != Some("compile") && suite != Some("matrix") {
        return refuse("only suite `compile` has `--layers`".to_owned());
    }
    let passes = common.pipeline.is_some() || common.patterns.is_some() || common.relaxed;
    match suite {
        Some(suite @ ("kernels" | "launch" | "kinds")) if passes && !args.estimate => refuse(format!(
            "suite `{suite}` has kernels of its own, and takes no `--pipeline`, `--patterns` or `--relaxed`"
        )),
        Some("compile") if !args.rows.is_empty() || args.threads != 1 || args.list || args.check => {
            refuse("suite `compile` takes no `--rows`, `--threads`, `--list` or `--check`".to_owned())
        }
        Some(suite @ ("compile" | "matrix" | "kinds" | "launch")) if args.estimate => {
            refuse(format!("`--estimate` is of a MODEL or of suite `kernels`, not of suite `{suite}`"))
        }
        _ => Ok(()),
    }
}

#[cfg(feature = "ascend")]
fn estimated(args: &BenchArgs, common: &Common) -> Exit {
    estimate::main(args, common)
}

#[cfg(not(feature = "ascend"))]
fn estimated(_: &BenchArgs, _: &Common) -> Exit {
    Err(Error::Unavailable("`--estimate`: this build lacks feature `ascend`".to_owned()))
}

/// The graph of a model that is measured.
fn opened(path: &Path, args: &BenchArgs, common: &Common) -> Result<Graph, Error> {
    let graph = common.open(path)?;
    if graph.symbols().is_empty() && !args.rows.is_empty() {
        let message = "`--rows` sets symbols, and the graph has none";
        return Err(Error::Call(format!("{}: {message}", path.display())));
    }
    Ok(graph)
}

/// The cases of those names, or all.
fn chosen(cases: Vec<BenchCase>, names: &[String]) -> Result<Vec<BenchCase>, Error> {
    if let Some(unknown) = names.iter().find(|name| !cases.iter().any(|case| case.name == **name)) {
        let known: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        return Err(Error::Input(format!("no case `{unknown}`; there are {}", known.join(", "))));
    }
    Ok(cases.into_iter().filter(|case| names.is_empty() || names.contains(&case.name)).collect())
}

fn cases(args: &BenchArgs, common: &Common) -> Result<Vec<BenchCase>, Error> {
    match (&args.model, args.suite.as_deref()) {
        (Some(path), None) => {
            let graph = opened(path, args, common)?;
            let fused = fuse_graph_for(&graph, &common.options()?, &Compiler::new(&args.target)?)?;
            let case = |(i, r): (usize, &fusewright::FusedRegion)| BenchCase {
                name: format!("{i}:{}", r.name),
                graph: weights_as_inputs(&r.body, |kind| matches!(kind, InputKind::Weight(_))),
            };
            Ok(fused.partition.regions.iter().enumerate().map(case).collect())
        }
        (None, Some("kernels")) => kernel_suite(),
        (Some(_), Some("kernels")) => Err(Error::Input("suite `kernels` takes no MODEL".to_owned())),
        (_, other) => Err(Error::Input(format!(
            "no suite `{}`; there are `kernels`, `launch`, `kinds`, `compile` and `matrix`",
            other.unwrap_or_default()
        ))),
    }
}

/// A number of rows in words.
fn at(rows: Option<usize>) -> String {
    rows.map_or_else(String::new, |rows| format!(" at {rows} rows"))
}

fn print(measured: &[BenchRow], peers: Option<&Peers>) {
    let figure = |value: f64| format!("{value:.2}");
    let row = |r: &BenchRow| {
        let mut row = vec![
            r.name.clone(),
            r.rows.map_or_else(|| "-".to_owned(), |rows| rows.to_string()),
            figure(r.fused_us),
            figure(r.unfused_us / r.fused_us),
            figure(r.copy_us / r.fused_us),
            figure(r.bandwidth(r.fused_us)),
        ];
        row.extend(peers.map(|peers| peers.of(r).map_or_else(|| "-".to_owned(), |peer| figure(peer / r.fused_us))));
        row
    };
    let rows: Vec<Vec<String>> = measured.iter().map(row).collect();
    let mut columns = vec!["kernel", "rows", "fused µs", "unfused / fused", "copy / fused", "GB/s"];
    columns.extend(peers.map(|_| "peer / fused"));
    table(&columns, &rows, &[1, 2, 3, 4, 5, 6]);
    if let Some(worst) =
        measured.iter().min_by(|a, b| (a.unfused_us / a.fused_us).total_cmp(&(b.unfused_us / b.fused_us)))
    {
        let ratio = figure(worst.unfused_us / worst.fused_us);
        line(format!("worst: {}{}, unfused / fused {ratio}", worst.name, at(worst.rows)));
    }
    peers.iter().flat_map(|peers| peers.lines(measured)).for_each(line);
}
