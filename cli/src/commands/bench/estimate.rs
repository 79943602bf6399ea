//! `bench --estimate`: what kernels for an NPU move and compute, and how long that would take; never measured.

use fusewright::bench::{
    BenchCase, ESTIMATE_COLUMNS, EstimateBasis, EstimateRow, NEVER_MEASURED, estimate, estimate_cells, estimate_page,
    kernel_suite, rows_to_measure,
};
use fusewright::{Error, write_whole};
use serde_json::{Value, json};

use super::super::{Exit, OK};
use super::{at, chosen, opened};
use crate::args::{BenchArgs, Common};
use crate::output::{line, progress, table};

pub fn main(args: &BenchArgs, common: &Common) -> Exit {
    let given = [
        (args.threads != 1, "--threads"),
        (args.compare.is_some(), "--compare"),
        (args.check, "--check"),
        (args.list, "--list"),
    ];
    if let Some((_, option)) = given.iter().find(|(given, _)| *given) {
        return Err(Error::Input(format!("`--estimate` takes no `{option}`")));
    }
    let bandwidth = args.bandwidth.map(|gigabytes| gigabytes * 1e9);
    let basis = EstimateBasis::of(&args.target, bandwidth)?;
    let cases = match (&args.model, args.suite.as_deref()) {
        (Some(path), None) => vec![BenchCase {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            graph: opened(path, args, common)?,
        }],
        (None, Some("kernels")) => kernel_suite()?,
        _ => return Err(Error::Input("`--estimate` is of a MODEL or of suite `kernels`".to_owned())),
    };
    let cases = chosen(cases, &args.case)?;
    let asked: Vec<usize> = args.rows.iter().map(|&rows| rows as usize).collect();
    let options = common.options()?;
    let mut rows: Vec<EstimateRow> = Vec::new();
    for case in &cases {
        for count in rows_to_measure(&case.graph, &asked).map_err(|e| e.about(&case.name))? {
            progress(common.verbose, &format!("{}{}", case.name, at(count)));
            rows.extend(estimate(case, &args.target, count, &options, &basis).map_err(|e| e.about(&case.name))?);
        }
    }
    if let Some(path) = &args.html {
        write_whole(path, estimate_page(&args.target, &basis, &rows)?.as_bytes())?;
        line(format!("wrote {}", path.display()));
    } else if args.json {
        line(json!({
            "target": args.target.to_string(), "is": NEVER_MEASURED, "basis": basis.words(),
            "rows": rows.iter().map(row).collect::<Vec<_>>(),
        }));
    } else {
        line(format!("{NEVER_MEASURED}. {}", basis.words()));
        let cells: Vec<Vec<String>> = rows.iter().map(estimate_cells).collect();
        table(&ESTIMATE_COLUMNS, &cells, &[1, 3, 4, 5, 6, 7, 8, 9, 10]);
        sums(&rows).into_iter().for_each(line);
    }
    Ok(OK)
}

/// What the kernels of a case with several take together, each number of rows in a line.
fn sums(rows: &[EstimateRow]) -> Vec<String> {
    let alike = |a: &EstimateRow, b: &EstimateRow| (&a.name, a.rows) == (&b.name, b.rows);
    let several = rows.chunk_by(alike).filter(|kernels| kernels.len() > 1);
    let sum = |kernels: &[EstimateRow]| {
        let known: Vec<f64> = kernels.iter().filter_map(|row| row.estimate.as_ref().ok()?.us).collect();
        // The sum of none is −0.
        let (first, us) = (&kernels[0], known.iter().sum::<f64>().abs());
        let (name, rows, counted, all) = (&first.name, at(first.rows), known.len(), kernels.len());
        format!("{name}{rows}: {us:.2} µs for {counted} of {all} kernels; {NEVER_MEASURED}")
    };
    several.map(sum).collect()
}

fn row(row: &EstimateRow) -> Value {
    let named = json!({ "name": row.name, "rows": row.rows, "kernel": row.kernel });
    let figures = match &row.estimate {
        Ok(e) => json!({
            "loaded_bytes": e.work.loaded, "stored_bytes": e.work.stored, "loaded_by_every_core": e.work.shared,
            "least_bytes": e.least_bytes, "vector_instructions": e.work.instructions, "repeats": e.work.repeats,
            "buffer_bytes": e.work.buffer_bytes, "cores": e.work.cores, "memory_us": e.memory_us, "vector_us": e.vector_us,
            "us": e.us, "bound": e.bound.map(|bound| bound.name()),
        }),
        Err(why) => json!({ "no_kernel": why }),
    };
    let (Value::Object(mut all), Value::Object(figures)) = (named, figures) else { return Value::Null };
    all.extend(figures);
    Value::Object(all)
}
