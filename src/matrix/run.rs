//! A combination run on a target.

use fusewright_abi::{DType, Target};
use fusewright_codegen::backend::for_target;

use super::{Combination, Layout, ROW_SYMBOL};
use crate::diff::{self, Verdict, options};
use crate::{Error, Options, compile, dtypes, fuse_graph};

/// What a combination that passed was compared on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Passed {
    /// Elements compared.
    pub elements: usize,
    /// Those of which the graph allows one value only.
    pub single_valued: usize,
}

/// What became of a combination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Everything agrees.
    Passed(Passed),
    /// The target does not take all of it, and why; what runs instead agrees.
    Refused(String),
    /// What does not hold.
    Failed(String),
}

/// Whether a target takes a combination at all; a build without the target's backend says so when it runs.
pub(super) fn is_taken(target: &Target, combination: &Combination) -> bool {
    let Ok(backend) = for_target(target) else { return true };
    let lacks = |dtype: &DType| backend.lacks(*dtype, target).is_some();
    if !DType::ALL.iter().any(lacks) {
        return true;
    }
    !lacks(&combination.dtype)
        && combination.graph().is_ok_and(|graph| dtypes::all_taken(&graph, &*backend, target).is_ok())
}

/// Makes the kernels of combinations together, where that takes less time than one by one.
///
/// # Errors
/// A target that is not available, and internal errors.
pub fn prepare(combinations: &[Combination], target: &Target) -> Result<(), Error> {
    let graph = |one: &Combination| one.graph().map_err(|e| Error::Internal(format!("{one}: {e}")));
    let graphs = combinations.iter().map(graph).collect::<Result<Vec<_>, _>>()?;
    compile::prepare(&graphs, target, &options())
}

impl Combination {
    /// As [`Combination::run`], where what the target does not take is a failure.
    ///
    /// # Errors
    /// An internal error; what does not hold is `Ok(Err(why))`.
    pub fn check(&self, target: &Target, seed: u64) -> Result<Result<Passed, String>, Error> {
        Ok(match self.run(target, seed)? {
            Outcome::Passed(passed) => Ok(passed),
            Outcome::Refused(reason) => Err(format!("no kernel: {reason}")),
            Outcome::Failed(reason) => Err(reason),
        })
    }

    /// Fuses and runs the combination, every way there is, without rows too.
    ///
    /// # Errors
    /// An internal error.
    pub fn run(&self, target: &Target, seed: u64) -> Result<Outcome, Error> {
        let graph = self.graph().map_err(|e| Error::Internal(format!("{self}: {e}")))?;
        let fused = fuse_graph(&graph, &Options::default())?;
        let kernels: Vec<&str> =
            fused.partition.regions.iter().chain(&fused.partition.lone).map(|r| r.name.as_str()).collect();
        if kernels.len() != self.kernels() {
            let (found, named) = (kernels.len(), kernels.join(", "));
            return Ok(Outcome::Failed(format!("{found} kernels, not {}: {named}", self.kernels())));
        }
        let rows = |rows: i64| {
            let mut symbols = self.symbols();
            symbols.insert(ROW_SYMBOL.to_owned(), rows);
            symbols
        };
        let cases = [rows(0), rows(self.rows)];
        if *target == Target::Cpu
            && self.layout == Layout::Slices
            && let Err(why) = self.check_slices(seed)?
        {
            return Ok(Outcome::Failed(why));
        }
        Ok(match diff::graph(&graph, target, &cases, seed)? {
            Verdict::Differ(difference) => Outcome::Failed(difference.to_string()),
            Verdict::Equal(agreement) => match agreement.fallbacks.into_iter().next() {
                Some(fallback) => Outcome::Refused(fallback),
                None => {
                    Outcome::Passed(Passed { elements: agreement.elements, single_valued: agreement.single_valued })
                }
            },
        })
    }
}
