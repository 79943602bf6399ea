//! `run`: compile a model, run it on stored inputs, compare, time.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use fusewright::check::{self, Case, OutputCheck};
use fusewright::explain::explain;
use fusewright::graph::Graph;
use fusewright::{Compiled, Error, HostTensor, Options, Program, compile, model};
use serde_json::{Value, json};

use super::{Exit, FAILED, OK};
use crate::args::{Common, RunArgs};
use crate::output::{line, progress, table};

/// Timed runs per variant; the median is printed.
const TIMED_RUNS: usize = 15;

pub fn main(args: &RunArgs, common: &Common) -> Exit {
    progress(common.verbose, &format!("reading {}", args.model.display()));
    let graph = model::open(&args.model)?;
    let cases = args.check.as_ref().map(|path| read_cases(path, &graph)).transpose()?.unwrap_or_default();
    if args.out.is_some() && cases.is_empty() {
        return Err(Error::Input("`--out` needs inputs; give them with `--check`".to_owned()));
    }
    if args.unfused {
        let produced = cases
            .iter()
            .map(|case| check::reference(&graph, &case.inputs.iter().collect::<Vec<_>>()))
            .collect::<Result<Vec<_>, _>>()?;
        return report(args, &graph, &cases, &produced, None);
    }
    progress(common.verbose, &format!("compiling {} nodes for {}", graph.nodes().len(), args.target));
    let fused = compile(&graph, &args.target, &Options::default())?;
    let unfused = compile(&graph, &args.target, &Options { fuse: false, ..Options::default() })?;
    let mut produced = Vec::with_capacity(cases.len());
    for case in &cases {
        progress(common.verbose, &format!("running case `{}0`", format_args!("{}in", case.prefix)));
        produced.push(fused.program.run(&case.inputs.iter().collect::<Vec<_>>(), args.threads.into())?);
    }
    let times = match cases.first() {
        Some(case) => Some(times(case, [&fused.program, &unfused.program], args.threads.into())?),
        None => None,
    };
    report(args, &graph, &cases, &produced, Some((&fused, times)))
}

fn read_cases(path: &Path, graph: &Graph) -> Result<Vec<Case>, Error> {
    check::cases(graph, &fusewright::read_safetensors(path)?).map_err(|e| match e {
        Error::Input(message) => Error::Input(format!("{}: {message}", path.display())),
        other => other,
    })
}

/// Median microseconds of each program, runs interleaved.
fn times(case: &Case, programs: [&Program; 2], threads: usize) -> Result<[f64; 2], Error> {
    let inputs: Vec<&HostTensor> = case.inputs.iter().collect();
    let mut samples = [Vec::new(), Vec::new()];
    for _ in 0..TIMED_RUNS {
        for (program, samples) in programs.iter().zip(&mut samples) {
            let start = Instant::now();
            program.run(&inputs, threads)?;
            samples.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    Ok(samples.map(|mut s| {
        s.sort_by(f64::total_cmp);
        s[s.len() / 2]
    }))
}

fn report(
    args: &RunArgs,
    graph: &Graph,
    cases: &[Case],
    produced: &[Vec<HostTensor>],
    compiled: Option<(&Compiled, Option<[f64; 2]>)>,
) -> Exit {
    let mut checked: Vec<(&Case, Vec<OutputCheck>)> = Vec::with_capacity(cases.len());
    for (case, outputs) in cases.iter().zip(produced) {
        checked.push((case, check::compare(graph, case, outputs)?));
    }
    if let Some(path) = &args.out {
        let mut tensors = BTreeMap::new();
        for (case, outputs) in cases.iter().zip(produced) {
            let names = check::output_names(graph).into_iter().map(|name| format!("{}{name}", case.prefix));
            tensors.extend(names.zip(outputs.iter().cloned()));
        }
        fusewright::write_safetensors(path, &tensors)?;
    }
    if args.json {
        line(json_report(&checked, compiled));
    } else {
        print_report(&checked, compiled)?;
    }
    let passed = checked.iter().flat_map(|(_, outputs)| outputs).all(OutputCheck::passed);
    Ok(if passed { OK } else { FAILED })
}

fn json_report(checked: &[(&Case, Vec<OutputCheck>)], compiled: Option<(&Compiled, Option<[f64; 2]>)>) -> Value {
    let output = |o: &OutputCheck| {
        json!({
            "dtype": o.dtype.name(),
            "elements": o.elements,
            "mismatched": o.mismatched,
            "max_ulp": o.max_ulp,
            "max_abs": o.max_abs,
            "outside_interval": o.outside,
            "expected_outside_interval": o.expected_outside,
            "expected_far_from_interval": o.expected_far,
            "single_valued": o.exact,
        })
    };
    let case = |(case, outputs): &(&Case, Vec<OutputCheck>)| json!({ "prefix": case.prefix, "outputs": outputs.iter().map(output).collect::<Vec<_>>() });
    let mut report = json!({ "cases": checked.iter().map(case).collect::<Vec<_>>() });
    let (kernels, fused_ops, unfused_ops, compile_us) = compiled.map_or((0, 0, 0, 0), |(c, _)| {
        let counts = c.program.counts();
        (counts.kernels, c.fused_ops(), c.unfused_ops(), c.compiled.1)
    });
    report["kernels"] = kernels.into();
    report["fused_ops"] = fused_ops.into();
    report["unfused_ops"] = unfused_ops.into();
    report["compile_us"] = compile_us.into();
    let times = compiled.and_then(|(_, times)| times);
    report["time_us"] = json!({ "fused": times.map(|t| t[0]), "unfused": times.map(|t| t[1]) });
    let fallbacks = compiled.map_or(&[][..], |(c, _)| &c.fallbacks);
    report["fallbacks"] =
        fallbacks.iter().map(|f| json!({ "op": f.label, "reason": f.reason })).collect::<Vec<_>>().into();
    report
}

fn print_report(
    checked: &[(&Case, Vec<OutputCheck>)],
    compiled: Option<(&Compiled, Option<[f64; 2]>)>,
) -> Result<(), Error> {
    if let Some((compiled, times)) = compiled {
        super::explain::print_regions(&explain(&compiled.fused)?);
        let counts = compiled.program.counts();
        line(format!(
            "\n{} kernels, {} matrix products, {} attentions, {} ops by reference; compiled {} kernels in {:.1} ms",
            counts.kernels,
            counts.matmuls,
            counts.attentions,
            counts.references,
            compiled.compiled.0,
            compiled.compiled.1 as f64 / 1e3
        ));
        for fallback in &compiled.fallbacks {
            line(format!("  by reference: {}: {}", fallback.label, fallback.reason));
        }
        if let Some([fused, unfused]) = times {
            line(format!("fused {fused:.1} µs, unfused {unfused:.1} µs, ratio {:.2}", unfused / fused));
        }
    }
    if checked.is_empty() {
        return Ok(());
    }
    line("");
    let mut rows = Vec::new();
    for (case, outputs) in checked {
        for (i, o) in outputs.iter().enumerate() {
            rows.push(vec![
                format!("{}out{i}", case.prefix),
                o.dtype.to_string(),
                o.elements.to_string(),
                o.mismatched.to_string(),
                o.max_ulp.to_string(),
                format!("{:.3e}", o.max_abs),
                o.exact.to_string(),
                o.outside.to_string(),
                o.expected_far.to_string(),
                if o.passed() { "ok" } else { "FAILED" }.to_owned(),
            ]);
        }
    }
    let header =
        ["output", "dtype", "elements", "differ", "max ulp", "max abs", "single-valued", "outside", "stored far", ""];
    table(&header, &rows, &[2, 3, 4, 5, 6, 7, 8]);
    Ok(())
}
