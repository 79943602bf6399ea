//! How the lanes of a row lie in memory, as far as copies can say it: runs of consecutive elements at one distance.

use std::collections::BTreeSet;
use std::convert::Infallible;

use fusewright_graph::Dim;
use fusewright_graph::dim::{DimFn, DimFold};

use crate::kernel::LANE;

/// How lanes lie in memory: runs of consecutive elements, `step` apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Runs {
    /// First element.
    pub start: Dim,
    /// Lanes of a run.
    pub run: i64,
    /// Elements from run to run.
    pub step: Dim,
}

/// The runs of `n` lanes at an index.
pub(super) fn runs(index: &Dim, n: i64) -> Option<Runs> {
    let at = |lane: i64| index.substitute(&|name| (name == LANE).then(|| Dim::constant(lane)));
    let start = at(0);
    if n <= 1 {
        return Some(Runs { start, run: n.max(1), step: Dim::constant(n.max(1)) });
    }
    if let Some((slope, start)) = index.split_linear(LANE) {
        let run = if slope == Dim::constant(1) { n } else { 1 };
        return Some(Runs { start, run, step: if run == n { Dim::constant(n) } else { slope } });
    }
    let mut periods = Periods::default();
    match index.fold(&mut periods) {
        Ok(_) if periods.opaque => return None,
        Ok(_) => {}
    }
    let [run] = periods.found.into_iter().collect::<Vec<_>>()[..] else { return None };
    if run <= 0 || n % run != 0 {
        return None;
    }
    let step = if n > run { &at(run) - &start } else { Dim::constant(run) };
    let fits = |block: i64| {
        let first = &start + &(&step * &Dim::constant(block));
        at(block * run) == first && at(block * run + run - 1) == &first + &Dim::constant(run - 1)
    };
    (0..n / run).all(fits).then_some(Runs { start, run, step })
}

/// `(run, start)` of a row of `n` lanes that repeats its first `run`.
pub(super) fn repeated(index: &Dim, n: i64) -> Option<(i64, Dim)> {
    let found = runs(index, n).filter(|r| r.run < n && r.run > 1 && r.step == Dim::constant(0))?;
    Some((found.run, found.start))
}

/// The divisors by which an index divides lane numbers.
#[derive(Default)]
struct Periods {
    found: BTreeSet<i64>,
    opaque: bool,
}

#[derive(Clone)]
enum Term {
    Lane,
    Number(i64),
    /// Whether the lane number is in it.
    Other(bool),
}

impl Term {
    fn has_lane(&self) -> bool {
        matches!(self, Term::Lane | Term::Other(true))
    }
}

impl DimFold for Periods {
    type Value = Term;
    type Error = Infallible;

    fn constant(&mut self, value: i64) -> Result<Term, Infallible> {
        Ok(Term::Number(value))
    }

    fn symbol(&mut self, name: &str) -> Result<Term, Infallible> {
        Ok(if name == LANE { Term::Lane } else { Term::Other(false) })
    }

    fn add(&mut self, a: Term, b: Term) -> Result<Term, Infallible> {
        Ok(Term::Other(a.has_lane() || b.has_lane()))
    }

    fn mul(&mut self, a: Term, b: Term) -> Result<Term, Infallible> {
        self.opaque |= a.has_lane() && b.has_lane();
        Ok(Term::Other(a.has_lane() || b.has_lane()))
    }

    fn function(&mut self, f: DimFn, a: Term, b: Term) -> Result<Term, Infallible> {
        match (f, &a, &b) {
            (DimFn::FloorDiv | DimFn::Mod, Term::Lane, Term::Number(by)) => {
                self.found.insert(*by);
            }
            _ => self.opaque |= a.has_lane() || b.has_lane(),
        }
        Ok(Term::Other(a.has_lane() || b.has_lane()))
    }
}
