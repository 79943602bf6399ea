//! `explain`: what fuses, what does not, and why.

use fusewright::check::output_names;
use fusewright::explain::{
    Explanation, Instead, KernelReport, Kernels, OverwriteReport, RefusalReport, RegionReport, RelaxationReport,
    Unmatched, all_names, explain, is_name, kernels,
};
use fusewright::graph::text::nearest::nearest;
use fusewright::{
    Compiler, Error, Fallback, Fused, Near, PatternReport, Target, UserPatterns, VendorReport, explain_page,
    fuse_graph_for, steps_picture, vendor_ops, write_whole,
};
use serde_json::json;

use super::report::{steps, update_copies, updates};
use super::{Exit, FAILED, OK};
use crate::args::{Common, ExplainArgs};
use crate::files::Files;
use crate::output::{counted, error, idle, line, progress, stages, table};

pub fn main(args: &ExplainArgs, common: &Common) -> Exit {
    let files = Files::of(common).reads("MODEL", [&args.model]);
    files.writes("--html", &args.html).writes("--svg", &args.svg).check()?;
    let expected = args.expect.iter().map(|text| parse_expectation(text)).collect::<Result<Vec<_>, _>>()?;
    progress(common.verbose, &format!("reading {}", args.model.display()));
    let graph = common.open(&args.model)?;
    let options = common.options()?;
    check_names(&expected, options.pipeline.patterns())?;
    common.without_schedules("explain")?;
    let fused = fuse_graph_for(&graph, &options, &Compiler::new(&args.target)?)?;
    let report = explain(&fused)?;
    progress(common.verbose, &format!("compiling {} regions for {}", report.regions.len(), args.target));
    let kernels = kernels(&fused, &report, &args.target)?;
    let not_run = options.pipeline.idle(&graph);
    idle(common.verbose, &not_run);
    stages(common.verbose, &fused.passes, &kernels.compilations);
    let title = args.model.file_name().unwrap_or_default().to_string_lossy();
    if let Some(path) = &args.html {
        let page = explain_page(&title, &fused, &report, &kernels, &Compiler::new(&args.target)?)?;
        write_whole(path, page.as_bytes())?;
        line(format!("wrote {}", path.display()));
    }
    if let Some(path) = &args.svg {
        write_whole(path, steps_picture(&title, &fused, &report, &kernels)?.as_bytes())?;
        line(format!("wrote {}", path.display()));
    }
    if args.html.is_some() || args.svg.is_some() {
        // The files say it all.
    } else if args.json {
        line(json_report(&fused, &report, &args.target, &kernels));
    } else {
        print_report(&fused, &report, &args.target, &kernels);
        not_run.iter().for_each(line);
    }
    let mut exit = OK;
    for (name, count) in expected {
        let replaced = fused.vendor.reports.iter().find(|op| op.name == name).map(|op| op.regions.len());
        let found = replaced.unwrap_or_else(|| report.count(name));
        if found != count {
            let why = report.user_patterns.iter().find(|r| r.name == name).and_then(|r| r.unmatched.as_ref());
            let why = why.map_or_else(String::new, |why| format!("; {why}"));
            error(&format!("expected {count} of `{name}`, found {found}{why}"));
            exit = FAILED;
        }
    }
    Ok(exit)
}

fn parse_expectation(text: &str) -> Result<(&str, usize), Error> {
    let wrong = |why: String| Error::Input(format!("`--expect {text}` is not NAME=COUNT{why}"));
    let (name, count) = text.split_once('=').ok_or_else(|| wrong(String::new()))?;
    Ok((name, count.parse().map_err(|_| wrong(format!(": `{count}` is no number of regions")))?))
}

/// Refuses expectations of names that neither the vocabulary, the user's patterns nor the vendor's ops have.
fn check_names(expected: &[(&str, usize)], patterns: &UserPatterns) -> Result<(), Error> {
    let ops: Vec<&str> = vendor_ops().collect();
    let own = || patterns.iter().map(|pattern| pattern.name()).chain(ops.iter().copied());
    let unknown = expected.iter().find(|(name, _)| !is_name(name) && own().all(|own| own != *name));
    let Some((name, _)) = unknown else { return Ok(()) };
    let names = all_names();
    let near = nearest(name, own().chain(names.iter().map(String::as_str)));
    let yours: Vec<String> = patterns.iter().map(|pattern| format!("`{}`", pattern.name())).collect();
    let yours = if yours.is_empty() { String::new() } else { format!("; your patterns are {}", yours.join(", ")) };
    Err(Error::Input(format!(
        "`--expect`: no region or pattern can have the name `{name}`; the nearest names are {near}{yours}"
    )))
}

fn json_report(fused: &Fused, report: &Explanation, target: &Target, kernels: &Kernels) -> serde_json::Value {
    let relaxed = |all: &[RelaxationReport]| -> serde_json::Value {
        all.iter().map(|r| json!({ "rewrite": r.rewrite, "times": r.times, "origin": r.origin })).collect()
    };
    let refusals = |all: &[RefusalReport]| -> serde_json::Value {
        all.iter().map(|r| json!({ "op": r.op, "origin": r.origin, "reason": r.reason })).collect()
    };
    let regions = report.regions.iter().zip(&kernels.reports).map(|(r, k)| {
        let figures = k.kernel.as_ref().ok();
        json!({
            "name": r.name, "kind": r.kind, "ops": r.ops,
            "bytes_fused": r.bytes_fused, "bytes_unfused": r.bytes_unfused, "kernel_key": r.key,
            "bytes_uncounted": uncounted(r, report),
            "artifact_key": figures.map(|f| &f.key), "code_bytes": figures.map(|f| f.bytes),
            "no_kernel": k.kernel.as_ref().err(),
            "instead": instead(k),
            "in_place": overwrites(k),
            // Scripts read the key.
            "source": null,
            "ends": refusals(&r.ends),
            "relaxed": relaxed(&r.relaxed),
        })
    });
    let passes = fused.passes.iter().map(|p| json!({ "name": p.name, "changed": p.changed, "us": p.us }));
    let (steps, placement) = (kernels.steps, kernels.placement.as_ref());
    json!({
        "kernels": steps.kernels,
        "copies": steps.copies,
        "matmuls": steps.matmuls,
        "attentions": steps.attentions,
        "references": steps.references,
        "by_reference": kernels.by_reference.iter().map(fallback).collect::<Vec<_>>(),
        "not_run": kernels.not_run.iter().map(fallback).collect::<Vec<_>>(),
        "updates": placement.ok().map(|p| updates(&output_names(&fused.graph), p)),
        "update_copies": placement.ok().map(update_copies),
        "no_updates": placement.err(),
        "regions": regions.collect::<Vec<_>>(),
        "patterns": report.patterns,
        "user_patterns": report.user_patterns.iter().map(user_pattern).collect::<Vec<_>>(),
        "vendor_ops": fused.vendor.reports.iter().map(|op| vendor_op(op, fused)).collect::<Vec<_>>(),
        "refused": refusals(&report.refused),
        "passes": passes.collect::<Vec<_>>(),
        "bytes_at": report.bytes_at,
        "target": target.to_string(),
        "relaxed_outside": relaxed(&report.relaxed_outside),
        "pipeline": report.pipeline,
    })
}

fn fallback(op: &Fallback) -> serde_json::Value {
    json!({ "op": op.label, "reason": op.reason })
}

/// What stands for bytes that are not counted.
const BEYOND: &str = "2^63 or more";

/// Why bytes of a region are `null`, if they are.
fn uncounted(region: &RegionReport, report: &Explanation) -> Option<String> {
    let missing = match (region.bytes_fused, region.bytes_unfused) {
        (Some(_), Some(_)) => return None,
        (None, Some(_)) => "bytes_fused is",
        (Some(_), None) => "bytes_unfused is",
        (None, None) => "both are",
    };
    let at: Vec<String> = report.bytes_at.iter().map(|(symbol, n)| format!("{symbol} = {n}")).collect();
    let at = if at.is_empty() { String::new() } else { format!(" at {}", at.join(", ")) };
    Some(format!("{missing} {BEYOND}{at}"))
}

/// What computes the ops of a region without a kernel.
fn instead(kernel: &KernelReport) -> serde_json::Value {
    let op = |op: &Instead| {
        json!({
            "op": op.op, "by": op.by,
            "artifact_key": op.kernel.as_ref().map(|f| &f.key), "code_bytes": op.kernel.as_ref().map(|f| f.bytes),
            "no_kernel": op.reason,
        })
    };
    kernel.instead.iter().map(op).collect()
}

/// The outputs of a region that overwrite old values or could have.
fn overwrites(kernel: &KernelReport) -> serde_json::Value {
    let output = |o: &OverwriteReport| json!({ "output": o.output, "overwrites": o.old, "in_place": o.reason.is_none(), "reason": o.reason });
    kernel.overwrites.iter().map(output).collect()
}

fn user_pattern(report: &PatternReport) -> serde_json::Value {
    let near = match &report.unmatched {
        Some(Unmatched::Near(near)) => json!({
            "matched": near.matched, "nodes": near.nodes, "expected": near.expected, "found": near.found,
            "origin": near.origin,
        }),
        _ => serde_json::Value::Null,
    };
    json!({
        "name": report.name, "class": report.class.to_string(), "times": report.times, "near_miss": near,
        "reason": report.unmatched.as_ref().map(ToString::to_string),
    })
}

/// Numbers of regions as people count them.
fn numbers(places: &[usize]) -> Vec<usize> {
    places.iter().map(|place| place + 1).collect()
}

fn vendor_op(report: &VendorReport, fused: &Fused) -> serde_json::Value {
    let calls = report.regions.iter().filter_map(|place| fused.vendor.calls.get(place));
    json!({
        "name": report.name,
        "regions": numbers(&report.regions),
        "calls": calls.map(ToString::to_string).collect::<Vec<_>>(),
        "but_for_rounding": numbers(&report.but_for_rounding),
        "near": report.near.iter().map(near).collect::<Vec<_>>(),
    })
}

fn near((place, near): (&usize, &Near)) -> serde_json::Value {
    json!({
        "region": place + 1, "gives": near.gives, "lacks": near.lacks, "but_for_rounding": near.but_for_rounding,
        "rounds_at": near.roundings, "words": near.to_string(),
    })
}

/// Prints which regions ops of the vendor's library replace.
fn print_vendor_ops(fused: &Fused) {
    let reports = &fused.vendor.reports;
    if reports.is_empty() {
        return;
    }
    line("\nops of the vendor: `compile` writes these calls for `ascend`; programs that run here use kernels");
    for report in reports {
        line(format!("  {} × {}", report.regions.len(), report.name));
        for place in &report.regions {
            let call = fused.vendor.calls.get(place).map_or_else(String::new, ToString::to_string);
            line(format!("    region {}: {call}", place + 1));
        }
        for (place, near) in &report.near {
            let relaxed = if report.but_for_rounding.contains(place) { "; `--relaxed` may take it" } else { "" };
            line(format!("    region {} is not replaced: {near}{relaxed}", place + 1));
        }
    }
}

/// Prints how many regions have each name.
fn print_patterns(report: &Explanation) {
    if report.patterns.is_empty() {
        return;
    }
    line("\nnames");
    for (name, count) in &report.patterns {
        line(format!("  {count} × {name}"));
    }
}

/// Prints how often each pattern of the user was replaced, or why nowhere.
fn print_user_patterns(reports: &[PatternReport]) {
    if reports.is_empty() {
        return;
    }
    line("\nyour patterns");
    for report in reports {
        line(format!("  {} × {} ({})", report.times, report.name, report.class));
        if let Some(why) = &report.unmatched {
            line(format!("    {why}"));
        }
    }
}

fn print_report(fused: &Fused, report: &Explanation, target: &Target, kernels: &Kernels) {
    print_regions(report);
    print_kernels(target, kernels);
    print_overwrites(kernels);
    print_patterns(report);
    print_user_patterns(&report.user_patterns);
    print_vendor_ops(fused);
    if !report.refused.is_empty() {
        line("\nnot fused");
        let row = |r: &RefusalReport| vec![r.op.clone(), r.reason.clone(), r.origin.clone()];
        table(&["op", "reason", "origin"], &report.refused.iter().map(row).collect::<Vec<_>>(), &[]);
    }
    print_ends(report);
    print_relaxed(report);
    line("\npasses");
    let rows: Vec<Vec<String>> =
        fused.passes.iter().map(|p| vec![p.name.clone(), p.changed.to_string(), p.us.to_string()]).collect();
    table(&["pass", "changed", "µs"], &rows, &[1, 2]);
}

/// Prints how many kernels a target has, which it refuses, what runs instead, and what the interpreter computes.
fn print_kernels(target: &Target, kernels: &Kernels) {
    let reports = &kernels.reports;
    let made: Vec<usize> = reports.iter().filter_map(|k| k.kernel.as_ref().ok()).map(|f| f.bytes).collect();
    let bytes: usize = made.iter().sum();
    line(format!("\nfor {target}: {} of {} regions have a kernel, {bytes} bytes of code", made.len(), reports.len()));
    for kernel in reports {
        if let Err(reason) = &kernel.kernel {
            line(format!("  no kernel: {}: {reason}", kernel.region));
            for op in &kernel.instead {
                let why = op.reason.as_ref().map_or_else(String::new, |why| format!(": {why}"));
                line(format!("    instead: {} by {}{why}", op.op, op.by));
            }
        }
    }
    let refused = match kernels.steps.not_run {
        0 => String::new(),
        ops => format!("; {} cannot be run here, and `run` refuses the model", counted(ops, "op")),
    };
    line(format!("a call runs {}{refused}", steps(kernels.steps)));
    for op in &kernels.by_reference {
        line(format!("  by the interpreter: {}: {}", op.label, op.reason));
    }
    for op in &kernels.not_run {
        line(format!("  not run here: {}: {}", op.label, op.reason));
    }
}

/// Prints which outputs are written over old values, and why others are not.
fn print_overwrites(kernels: &Kernels) {
    let reports = kernels.reports.iter().enumerate();
    let row = |at: usize, region: &str, o: &OverwriteReport| {
        let how = o.reason.as_ref().map_or_else(|| "in place".to_owned(), |why| format!("elsewhere: {why}"));
        vec![format!("{} {region}", at + 1), o.output.clone(), o.old.clone(), how]
    };
    let all = reports.flat_map(|(at, k)| k.overwrites.iter().map(move |o| row(at, &k.region, o)));
    let rows: Vec<Vec<String>> = all.collect();
    if !rows.is_empty() {
        line("\nwritten in place");
        table(&["region", "output", "overwrites", "how"], &rows, &[]);
    }
    match &kernels.placement {
        Ok(placement) => {
            for copy in &placement.copies {
                line(format!("  {} bytes copied for {}: {}", copy.bytes, copy.of, copy.reason));
            }
        }
        Err(why) => line(format!("\nwritten in place: unknown at these sizes: {why}")),
    }
}

/// Prints why each region ends where it ends.
fn print_ends(report: &Explanation) {
    let row = |(number, name, end): (usize, &str, &RefusalReport)| {
        vec![format!("{number} {name}"), end.op.clone(), end.reason.clone(), end.origin.clone()]
    };
    let regions = report.regions.iter().enumerate();
    let all = regions.flat_map(|(i, r)| r.ends.iter().map(move |end| row((i + 1, r.name.as_str(), end))));
    let rows: Vec<Vec<String>> = all.collect();
    if !rows.is_empty() {
        line("\nwhy regions end");
        table(&["region", "neighbour", "reason", "origin"], &rows, &[]);
    }
}

/// Prints which roundings relaxed mode changed, by region.
fn print_relaxed(report: &Explanation) {
    let regions = report.regions.iter().map(|r| (r.name.as_str(), &r.relaxed));
    let row = |(region, r): (&str, &RelaxationReport)| {
        vec![region.to_owned(), r.rewrite.clone(), r.times.to_string(), r.origin.clone()]
    };
    let all = regions.chain([("outside of regions", &report.relaxed_outside)]);
    let rows: Vec<Vec<String>> = all.flat_map(|(name, found)| found.iter().map(move |r| row((name, r)))).collect();
    if !rows.is_empty() {
        line("\nroundings that relaxed mode changed");
        table(&["region", "rewrite", "times", "origin"], &rows, &[2]);
    }
}

/// Prints the table of fused regions.
pub fn print_regions(report: &Explanation) {
    let rows: Vec<Vec<String>> = report
        .regions
        .iter()
        .map(|r| {
            let bytes = r.bytes_fused.map_or(BEYOND.to_owned(), |n| n.to_string());
            let saved = match (r.bytes_fused, r.bytes_unfused) {
                (Some(fused), Some(unfused)) => format!("{:.2}", unfused as f64 / fused.max(1) as f64),
                _ => "-".to_owned(),
            };
            vec![r.name.clone(), r.ops.len().to_string(), bytes, saved, r.ops.join(" ")]
        })
        .collect();
    let at: Vec<String> = report.bytes_at.iter().map(|(s, n)| format!("{s} = {n}")).collect();
    let bytes = if at.is_empty() { "bytes".to_owned() } else { format!("bytes at {}", at.join(", ")) };
    table(&["region", "ops", &bytes, "unfused / fused", ""], &rows, &[1, 2, 3]);
}
