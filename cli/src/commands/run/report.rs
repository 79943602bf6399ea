//! What `run` prints.

use fusewright::check::WrongElement;
use fusewright::explain::explain;
use fusewright::{Compiled, Error, HostTensor, SIMULATED};
use serde_json::{Value, json};

use super::{Made, Outcome, Ran};
use crate::commands::explain::print_regions;
use crate::commands::report::{steps, update_copies, updates};
use crate::output::{counted, line, table};

/// The report as JSON.
pub fn json(outcome: &Outcome) -> Value {
    let cases: Vec<Value> = outcome.cases.iter().map(json_case).collect();
    let compiled = outcome.compiled.as_ref();
    let fallbacks = compiled.map_or(&[][..], |c| &c.fallbacks);
    let fallbacks: Vec<Value> = fallbacks.iter().map(|f| json!({ "op": f.label, "reason": f.reason })).collect();
    json!({
        "simulated": compiled.and_then(|c| c.program.simulated()).map(simulated),
        "cases": cases,
        "compared": compared(outcome),
        "seed": outcome.made.as_ref().map(|made| made.seed),
        "symbols": outcome.made.as_ref().map(|made| &made.symbols),
        "kernels": compiled.map_or(0, |c| c.program.counts().kernels),
        "copies": compiled.map_or(0, |c| c.program.counts().copies),
        "fused_ops": outcome.ops.fused,
        "unfused_ops": outcome.ops.unfused,
        "compile_us": compiled.map_or(0, compile_us),
        "counters": compiled.map(counters),
        "time_us": { "fused": outcome.times.map(|t| t[0]), "unfused": outcome.times.map(|t| t[1]) },
        "fallbacks": fallbacks,
    })
}

/// Microseconds that the kernels took to compile.
fn compile_us(compiled: &Compiled) -> u64 {
    compiled.kernels.iter().map(|k| k.lower_us + k.emit_us).sum()
}

/// How often kernels were compiled, and how often that was not needed.
fn counters(compiled: &Compiled) -> Value {
    let from_disk = compiled.from_disk();
    let tiers = compiled.program.tiers();
    json!({
        "compiled": compiled.kernels.len() - from_disk,
        "from_disk": from_disk,
        "asked": tiers.asked,
        "swapped": tiers.swapped,
        "refused": tiers.refused,
    })
}

/// What results of a host model are.
fn simulated(chip: &str) -> String {
    format!("{SIMULATED}: computed by a host model of {chip}, never by an NPU")
}

/// What results were compared with, if with anything.
fn compared(outcome: &Outcome) -> Option<&'static str> {
    let compared = outcome.cases.iter().any(|ran| ran.checks.is_some());
    compared.then_some(if outcome.made.is_some() { "reference" } else { "stored" })
}

fn json_case(ran: &Ran) -> Value {
    let output = |(name, tensor): &(String, HostTensor)| {
        let check = ran.checks.as_ref().and_then(|checks| checks.iter().find(|check| check.name == *name));
        json!({
            "name": name,
            "dtype": tensor.dtype.name(),
            "elements": tensor.elements(),
            "mismatched": check.map(|o| o.mismatched),
            "max_ulp": check.and_then(|o| o.max_ulp),
            "max_abs": check.map(|o| o.max_abs),
            "outside_interval": check.map(|o| o.outside),
            "expected_outside_interval": check.map(|o| o.expected_outside),
            "expected_outside_allowed": check.map(|o| o.allowed_outside()),
            "expected_far_from_interval": check.map(|o| o.expected_far),
            "single_valued": check.map(|o| o.exact),
            "first_wrong": check.filter(|o| !o.passed()).and_then(|o| o.first_wrong.as_ref()).map(json_wrong),
        })
    };
    let first = |(at, index, [fused, unfused]): &(usize, Vec<usize>, [String; 2])| json!({ "name": ran.names[*at], "index": index, "fused": fused, "unfused": unfused });
    // What overwrites inputs has no stored results.
    let compared = |name: &str| ran.checks.as_ref().is_none_or(|checks| checks.iter().any(|check| check.name == name));
    json!({
        "prefix": ran.case.prefix,
        "outputs": ran.outputs.iter().filter(|(name, _)| compared(name)).map(output).collect::<Vec<_>>(),
        "in_place_mismatched": ran.in_place.as_ref().map(|(differ, _)| differ.elements),
        "updates": ran.in_place.as_ref().map(|(_, placement)| updates(&ran.names, placement)),
        "update_copies": ran.in_place.as_ref().map(|(_, placement)| update_copies(placement)),
        "unfused_mismatched": ran.unfused_differ.as_ref().map(|differ| differ.elements),
        "unfused_first": ran.unfused_differ.as_ref().and_then(|differ| differ.first.as_ref()).map(first),
    })
}

fn json_wrong(wrong: &WrongElement) -> Value {
    let which = if wrong.expected_is_wrong { "expected" } else { "got" };
    json!({
        "index": wrong.index, "got": wrong.got, "expected": wrong.expected, "interval": wrong.interval, "outside": which,
    })
}

/// The report for people.
pub fn print(outcome: &Outcome) -> Result<(), Error> {
    if let Some(compiled) = &outcome.compiled {
        if let Some(chip) = compiled.program.simulated() {
            line(simulated(chip));
        }
        print_regions(&explain(&compiled.fused)?);
        line(format!(
            "\n{}; compiled {} in {:.1} ms",
            steps(compiled.program.counts()),
            counted(compiled.kernels.len(), "kernel"),
            compile_us(compiled) as f64 / 1e3
        ));
        for fallback in &compiled.fallbacks {
            line(format!("  by the interpreter: {}: {}", fallback.label, fallback.reason));
        }
        if let Some([fused, unfused]) = outcome.times {
            line(format!("fused {fused:.1} µs, unfused {unfused:.1} µs, unfused / fused {:.2}", unfused / fused));
        }
    }
    if let Some(made) = &outcome.made {
        line(format!("inputs made from {}", sizes(made)));
    }
    outcome.cases.iter().for_each(print_updates);
    if compared(outcome).is_none() {
        line("nothing was compared: there are no stored results");
        outcome.cases.iter().for_each(print_shapes);
        return Ok(());
    }
    line("");
    print_checks(&outcome.cases);
    print_variants(&outcome.cases);
    Ok(())
}

fn sizes(made: &Made) -> String {
    let symbols: Vec<String> = made.symbols.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let at = if symbols.is_empty() { String::new() } else { format!(" at {}", symbols.join(", ")) };
    format!("seed {}{at}", made.seed)
}

/// Where the new values of inputs are written when these are overwritten.
fn print_updates(ran: &Ran) {
    let Some((differ, placement)) = &ran.in_place else { return };
    let prefix = &ran.case.prefix;
    for update in &placement.updates {
        let how = update.reason.as_ref().map_or_else(|| "in place".to_owned(), |reason| format!("elsewhere: {reason}"));
        line(format!("{prefix}{} is written {how}", ran.names[update.output]));
    }
    for copy in &placement.copies {
        line(format!("{prefix}in0…: {} bytes copied for {}: {}", copy.bytes, copy.of, copy.reason));
    }
    if differ.elements > 0 {
        line(format!("{prefix}in0…: in place, {} elements have other bits", differ.elements));
    }
}

fn print_shapes(ran: &Ran) {
    for (name, tensor) in &ran.outputs {
        line(format!("{}{name}: {}{:?}", ran.case.prefix, tensor.dtype, tensor.shape));
    }
}

fn print_checks(cases: &[Ran]) {
    let mut rows = Vec::new();
    // A NaN is at no distance from a number.
    let none = || "-".to_owned();
    for ran in cases {
        for o in ran.checks.iter().flatten() {
            rows.push(vec![
                format!("{}{}", ran.case.prefix, o.name),
                o.dtype.to_string(),
                o.elements.to_string(),
                o.mismatched.to_string(),
                o.max_ulp.map_or_else(none, |ulps| ulps.to_string()),
                if o.max_abs.is_nan() { none() } else { format!("{:.3e}", o.max_abs) },
                o.exact.to_string(),
                o.outside.to_string(),
                o.expected_outside.to_string(),
                o.expected_far.to_string(),
                if o.passed() { "ok" } else { "FAILED" }.to_owned(),
            ]);
        }
    }
    let header = [
        "output",
        "dtype",
        "elements",
        "differ",
        "max ulp",
        "max abs",
        "single-valued",
        "outside",
        "stored outside",
        "stored far outside",
        "",
    ];
    table(&header, &rows, &[2, 3, 4, 5, 6, 7, 8, 9]);
    for ran in cases {
        for o in ran.checks.iter().flatten().filter(|o| !o.passed()) {
            let wrong = o.first_wrong.iter();
            wrong.for_each(|wrong| line(format!("{}{}{wrong}", ran.case.prefix, o.name)));
        }
    }
}

/// Whether fusing changed bits.
fn print_variants(cases: &[Ran]) {
    let compared = || cases.iter().filter_map(|ran| Some((ran, ran.unfused_differ.as_ref()?)));
    match compared().map(|(_, differ)| differ.elements).reduce(|a, b| a + b) {
        Some(0) => line("one kernel per op gives the same bits"),
        Some(elements) => {
            line(format!("one kernel per op gives other bits in {elements} elements"));
            for (ran, differ) in compared() {
                if let Some((at, index, [fused, unfused])) = &differ.first {
                    let name = format!("{}{}", ran.case.prefix, ran.names[*at]);
                    line(format!("{name}{index:?} is {fused} fused, {unfused} with one kernel per op"));
                }
            }
        }
        None => {}
    }
}
