//! `explain`: what fuses, what does not, and why.

use fusewright::explain::{Explanation, explain};
use fusewright::{Error, Fused, Options, fuse_graph, model};
use serde_json::json;

use super::{Exit, FAILED, OK};
use crate::args::{Common, ExplainArgs, later};
use crate::output::{error, line, progress, table};

pub fn main(args: &ExplainArgs, common: &Common) -> Exit {
    if args.html.is_some() {
        return Err(later("explain --html"));
    }
    let expected = args.expect.iter().map(|text| parse_expectation(text)).collect::<Result<Vec<_>, _>>()?;
    progress(common.verbose, &format!("reading {}", args.model.display()));
    let graph = model::open(&args.model)?;
    let fused = fuse_graph(&graph, &Options::default())?;
    let report = explain(&fused)?;
    if args.json {
        line(json_report(&fused, &report));
    } else {
        print_report(&fused, &report);
    }
    let mut exit = OK;
    for (name, count) in expected {
        let found = report.patterns.get(name).copied().unwrap_or(0);
        if found != count {
            error(&format!("expected {count} of `{name}`, found {found}"));
            exit = FAILED;
        }
    }
    Ok(exit)
}

fn parse_expectation(text: &str) -> Result<(&str, usize), Error> {
    let parsed = text.split_once('=').and_then(|(name, count)| Some((name, count.parse().ok()?)));
    parsed.ok_or_else(|| Error::Input(format!("`--expect {text}` is not NAME=COUNT")))
}

fn json_report(fused: &Fused, report: &Explanation) -> serde_json::Value {
    let regions = report.regions.iter().map(|r| {
        json!({
            "name": r.name, "kind": r.kind, "ops": r.ops,
            "bytes_fused": r.bytes_fused, "bytes_unfused": r.bytes_unfused, "kernel_key": r.key,
        })
    });
    let refused = report.refused.iter().map(|r| json!({ "op": r.op, "origin": r.origin, "reason": r.reason }));
    let passes = fused.passes.iter().map(|p| json!({ "name": p.name, "changed": p.changed, "us": p.us }));
    json!({
        "regions": regions.collect::<Vec<_>>(),
        "patterns": report.patterns,
        "refused": refused.collect::<Vec<_>>(),
        "passes": passes.collect::<Vec<_>>(),
        "bytes_at": report.bytes_at,
    })
}

fn print_report(fused: &Fused, report: &Explanation) {
    print_regions(report);
    line("\npatterns");
    for (name, count) in &report.patterns {
        line(format!("  {count} × {name}"));
    }
    line("\nnot fused");
    let rows: Vec<Vec<String>> =
        report.refused.iter().map(|r| vec![r.op.clone(), r.reason.to_owned(), r.origin.clone()]).collect();
    table(&["op", "reason", "origin"], &rows, &[]);
    line("\npasses");
    let rows: Vec<Vec<String>> =
        fused.passes.iter().map(|p| vec![p.name.clone(), p.changed.to_string(), p.us.to_string()]).collect();
    table(&["pass", "changed", "µs"], &rows, &[1, 2]);
}

/// Prints the table of fused regions.
pub fn print_regions(report: &Explanation) {
    let rows: Vec<Vec<String>> = report
        .regions
        .iter()
        .map(|r| {
            let ratio = r.bytes_unfused as f64 / r.bytes_fused.max(1) as f64;
            vec![
                r.name.clone(),
                r.ops.len().to_string(),
                r.bytes_fused.to_string(),
                format!("{ratio:.2}"),
                r.ops.join(" "),
            ]
        })
        .collect();
    let at: Vec<String> = report.bytes_at.iter().map(|(s, n)| format!("{s} = {n}")).collect();
    let bytes = if at.is_empty() { "bytes".to_owned() } else { format!("bytes at {}", at.join(", ")) };
    table(&["region", "ops", &bytes, "saved ×", ""], &rows, &[1, 2, 3]);
}
