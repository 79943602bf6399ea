//! `bench --suite matrix`: every combination of ops, listed, checked, or measured against its ops one by one.

use fusewright::inputs::DEFAULT_SEED;
use fusewright::matrix::{Combination, KERNELS, Outcome, Passed, TENSOR_KERNELS, combinations, prepare, sample_for};
use fusewright::{Error, Target};
use serde_json::json;

use super::super::{Exit, FAILED, OK};
use crate::args::{BenchArgs, Common};
use crate::output::{line, progress};

pub fn main(args: &BenchArgs, common: &Common) -> Exit {
    if args.model.is_some() {
        return Err(Error::Input("suite `matrix` takes no MODEL".to_owned()));
    }
    if !args.list && !args.check && !args.against_unfused {
        return Err(Error::Input(
            "suite `matrix` is listed, checked or measured: `--list`, `--check` or `--against-unfused`".to_owned(),
        ));
    }
    // A combination has its rows and sizes, and runs in every way that its target has.
    if (!args.rows.is_empty() && !args.against_unfused) || args.layers != 1 || args.threads != 1 {
        return Err(Error::Input("suite `matrix` takes no `--rows`, `--layers` or `--threads`".to_owned()));
    }
    let all = combinations();
    let seed = args.seed.unwrap_or(DEFAULT_SEED);
    let total = all.len();
    let chosen = match (args.sample, args.slice) {
        (Some(count), _) => sample_for(&args.target, count as usize, seed),
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
    if args.against_unfused {
        return super::against::main(&chosen, seed, args, common);
    }
    let Checked { passed, refused, failed } = check(&chosen, &args.target, seed, common)?;
    if args.json {
        let named = |list: &[(String, String)]| -> Vec<_> {
            list.iter().map(|(name, reason)| json!({ "name": name, "reason": reason })).collect()
        };
        line(json!({
            "suite": "matrix", "combinations": total, "checked": chosen.len(), "seed": seed,
            "kernels": KERNELS, "tensor_kernels": TENSOR_KERNELS, "elements": passed.elements,
            "single_valued": passed.single_valued, "refused": named(&refused), "failed": named(&failed),
        }));
    } else {
        refused.iter().for_each(|(name, reason)| line(format!("{name}: refused: {reason}")));
        failed.iter().for_each(|(name, reason)| line(format!("{name}: {reason}")));
        let refused = if refused.is_empty() { String::new() } else { format!("{} refused, ", refused.len()) };
        line(format!(
            "{} of {total} combinations checked with seed {seed}, {refused}{} failed; {} elements, {} of them single-valued",
            chosen.len(),
            failed.len(),
            passed.elements,
            passed.single_valued
        ));
    }
    Ok(if failed.is_empty() { OK } else { FAILED })
}

/// What became of combinations.
#[derive(Default)]
struct Checked {
    /// What passed, in sum.
    passed: Passed,
    /// Names, and what the target does not take.
    refused: Vec<(String, String)>,
    /// Names and reasons of what failed.
    failed: Vec<(String, String)>,
}

/// Combinations whose kernels are made together.
const TOGETHER: usize = 64;

fn check(chosen: &[Combination], target: &Target, seed: u64, common: &Common) -> Result<Checked, Error> {
    let mut checked = Checked::default();
    // A chip lacks conversions, and says which; any other target takes everything.
    let may_refuse = matches!(target, Target::Ascend { .. } | Target::AscendSim { .. });
    for (i, combination) in chosen.iter().enumerate() {
        if i % TOGETHER == 0 {
            prepare(&chosen[i..chosen.len().min(i + TOGETHER)], target)?;
        }
        progress(common.verbose, &format!("{} of {}: {combination}", i + 1, chosen.len()));
        match combination.run(target, seed)? {
            Outcome::Passed(one) => {
                checked.passed.elements += one.elements;
                checked.passed.single_valued += one.single_valued;
            }
            Outcome::Refused(reason) if may_refuse => checked.refused.push((combination.to_string(), reason)),
            Outcome::Refused(reason) => checked.failed.push((combination.to_string(), format!("no kernel: {reason}"))),
            Outcome::Failed(reason) => checked.failed.push((combination.to_string(), reason)),
        }
    }
    Ok(checked)
}
