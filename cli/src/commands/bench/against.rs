//! `bench --suite matrix --against-unfused`: combinations of ops, fused against one kernel per op.

use fusewright::bench::{AGAINST_ROWS, Against, against, by_family};
use fusewright::matrix::Combination;
use fusewright::{Error, Target};
use serde_json::json;

use super::super::{Exit, FAILED, OK};
use crate::args::{BenchArgs, Common};
use crate::output::{line, progress};

/// Measures combinations, and says which are slower fused.
pub fn main(chosen: &[Combination], seed: u64, args: &BenchArgs, common: &Common) -> Exit {
    if !matches!(args.target, Target::Cpu | Target::CpuLlvm { .. }) {
        return Err(Error::Input("`--against-unfused` is of CPUs: `--target cpu` or `cpu-llvm`".to_owned()));
    }
    let rows = if args.rows.is_empty() { &AGAINST_ROWS[..] } else { &args.rows[..] };
    let mut measured: Vec<Against> = Vec::new();
    for (i, combination) in chosen.iter().enumerate() {
        progress(common.verbose, &format!("{} of {}: {combination}", i + 1, chosen.len()));
        for &rows in rows {
            measured.push(against(combination, &args.target, rows, seed)?);
        }
    }
    let slower: Vec<&Against> = measured.iter().filter(|one| one.is_slower()).collect();
    let families = by_family(&measured);
    if args.json {
        let row = |one: &Against| {
            json!({
                "name": one.name, "family": one.family, "rows": one.rows, "fused_us": one.fused_us,
                "unfused_us": one.unfused_us, "ratios": one.ratios, "slower": one.is_slower(),
            })
        };
        let family =
            |((name, rows), ratio): (&(String, u32), &f64)| json!({ "family": name, "rows": rows, "ratio": ratio });
        line(json!({
            "suite": "matrix", "target": args.target.to_string(), "seed": seed,
            "rows": measured.iter().map(row).collect::<Vec<_>>(),
            "families": families.iter().map(family).collect::<Vec<_>>(),
        }));
    } else {
        for ((name, rows), ratio) in &families {
            line(format!("{name} at {rows} rows: unfused / fused {ratio:.2}"));
        }
        for one in &slower {
            let ratios = one.ratios.map(|ratio| format!("{ratio:.2}")).join(", ");
            line(format!(
                "slower fused: {} at {} rows: unfused / fused {ratios} (fused {:.2} µs)",
                one.name, one.rows, one.fused_us
            ));
        }
        line(format!("{} of {} figures are slower fused", slower.len(), measured.len()));
    }
    Ok(if slower.is_empty() { OK } else { FAILED })
}
