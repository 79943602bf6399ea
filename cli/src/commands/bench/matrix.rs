//! `bench --suite matrix`: every combination of ops, listed or checked.

use fusewright::inputs::DEFAULT_SEED;
use fusewright::matrix::{Combination, KERNELS, Passed, TENSOR_KERNELS, combinations, sample};
use fusewright::{Error, Target};
use serde_json::json;

use super::super::{Exit, FAILED, OK};
use crate::args::{BenchArgs, Common};
use crate::output::{line, progress};

pub fn main(args: &BenchArgs, common: &Common) -> Exit {
    if args.model.is_some() {
        return Err(Error::Input("suite `matrix` takes no MODEL".to_owned()));
    }
    if !args.list && !args.check {
        return Err(Error::Input(
            "suite `matrix` is listed or checked, not measured: `--list` or `--check`".to_owned(),
        ));
    }
    // A combination has its rows and sizes, and runs in every way that its target has.
    if !args.rows.is_empty() || args.layers != 1 || args.threads != 1 {
        return Err(Error::Input("suite `matrix` takes no `--rows`, `--layers` or `--threads`".to_owned()));
    }
    let all = combinations();
    let seed = args.seed.unwrap_or(DEFAULT_SEED);
    let total = all.len();
    let chosen = match (args.sample, args.slice) {
        (Some(count), _) => sample(count as usize, seed),
        (None, Some((start, end))) => all
            .get(start..end)
            .map(<[Combination]>::to_vec)
            .ok_or_else(|| Error::Input(format!("there are no combinations {start}..{end}: the list has {total}")))?,
        (None, None) => all,
    };
    if args.list {
        chosen.iter().for_each(line);
        return Ok(OK);
    }
    let (passed, failed) = check(&chosen, &args.target, seed, common)?;
    if args.json {
        let failed: Vec<_> = failed.iter().map(|(name, reason)| json!({ "name": name, "reason": reason })).collect();
        line(json!({
            "suite": "matrix", "combinations": total, "checked": chosen.len(), "seed": seed,
            "kernels": KERNELS, "tensor_kernels": TENSOR_KERNELS, "elements": passed.elements, "single_valued": passed.single_valued, "failed": failed,
        }));
    } else {
        failed.iter().for_each(|(name, reason)| line(format!("{name}: {reason}")));
        line(format!(
            "{} of {total} combinations checked with seed {seed}, {} failed; {} elements, {} of them single-valued",
            chosen.len(),
            failed.len(),
            passed.elements,
            passed.single_valued
        ));
    }
    Ok(if failed.is_empty() { OK } else { FAILED })
}

/// What passed, in sum, and the names and reasons of what did not.
fn check(
    chosen: &[Combination],
    target: &Target,
    seed: u64,
    common: &Common,
) -> Result<(Passed, Vec<(String, String)>), Error> {
    let (mut passed, mut failed) = (Passed::default(), Vec::new());
    for (i, combination) in chosen.iter().enumerate() {
        progress(common.verbose, &format!("{} of {}: {combination}", i + 1, chosen.len()));
        match combination.check(target, seed)? {
            Ok(one) => {
                passed.elements += one.elements;
                passed.single_valued += one.single_valued;
            }
            Err(reason) => failed.push((combination.to_string(), reason)),
        }
    }
    Ok((passed, failed))
}
