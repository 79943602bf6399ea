//! `bench --suite kinds --target cuda`: one kernel of each kind of schedule, for tools that watch kernels.

use fusewright::bench::gpu::{KindRow, gpu_kinds, kind_cases, launch_kinds};
use fusewright::{Error, Target};
use serde_json::json;

use super::super::{Exit, FAILED, OK};
use crate::args::{BenchArgs, Common};
use crate::output::{line, progress, table};

pub fn main(args: &BenchArgs, common: &Common) -> Exit {
    let narrowed = !args.case.is_empty() || !args.rows.is_empty();
    if args.model.is_some() || args.threads != 1 || args.html.is_some() || args.compare.is_some() || narrowed {
        let message = "suite `kinds` takes no MODEL, `--threads`, `--case`, `--rows`, `--compare` or `--html`";
        return Err(Error::Input(message.to_owned()));
    }
    if !matches!(args.target, Target::Cuda { .. }) {
        return Err(Error::Input("suite `kinds` is of GPUs: `--target cuda`".to_owned()));
    }
    let cases = kind_cases()?;
    let mut done =
        |row: &KindRow| progress(common.verbose, &format!("{} at {} rows: {}", row.name, row.rows, row.kind));
    let rows = match args.list {
        true => gpu_kinds(&cases, &args.target)?,
        false => launch_kinds(&cases, &args.target, &mut done)?,
    };
    // What was listed was not run.
    let differ =
        |row: &KindRow| row.dependent.map(|_| row.mismatched.iter().map(|mismatch| mismatch.differ).sum::<usize>());
    if args.json {
        let row = |row: &KindRow| {
            json!({
                "kind": row.kind, "op": row.name, "T": row.rows, "dependent": row.dependent, "differ": differ(row),
            })
        };
        line(json!({ "kinds": rows.iter().map(row).collect::<Vec<_>>() }));
    } else if args.list {
        let row = |row: &KindRow| vec![row.name.clone(), row.rows.to_string(), row.kind.clone()];
        table(&["op", "rows", "kind"], &rows.iter().map(row).collect::<Vec<_>>(), &[1]);
        line(format!("{} kinds of schedules", rows.len()));
    } else {
        let dependent = |row: &KindRow| row.dependent.map_or("-", |is| if is { "yes" } else { "no" }).to_owned();
        let differ = |row: &KindRow| differ(row).map_or_else(|| "-".to_owned(), |n| n.to_string());
        let row =
            |row: &KindRow| vec![row.name.clone(), row.rows.to_string(), dependent(row), differ(row), row.kind.clone()];
        let lines: Vec<Vec<String>> = rows.iter().map(row).collect();
        table(&["op", "rows", "overlapping", "differ", "kind"], &lines, &[1, 3]);
        line(format!("{} kinds of schedules", rows.len()));
    }
    Ok(if rows.iter().all(KindRow::is_right) { OK } else { FAILED })
}
