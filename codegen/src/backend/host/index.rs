//! What index expressions say of the lanes that they are over: distances, borders, parity.

use fusewright_graph::Dim;
use fusewright_graph::dim::{DimFn, DimFold};

use crate::kernel::{Inst, LANE, Segment};

/// The constant term of a dim and the rest.
pub(in crate::backend) fn split_constant(dim: &Dim) -> (Dim, i64) {
    let constant = dim.constant_term();
    (dim - &Dim::constant(constant), constant)
}

/// How many elements apart neighbouring lanes are: a constant, or 0 where it is not one.
pub(in crate::backend) fn consecutive(index: &Dim) -> i64 {
    index.split_linear(LANE).and_then(|(slope, _)| slope.as_const()).unwrap_or(0)
}

/// Where each operand of a concatenation starts, and the end of the last.
pub(in crate::backend) fn borders(segment: &Segment, inst: &Inst) -> Vec<Dim> {
    let mut borders = vec![Dim::constant(0)];
    for &arg in &inst.args {
        let end = &borders[borders.len() - 1] + &segment.ty(arg).shape.elements();
        borders.push(end);
    }
    borders
}

/// The number of the group that holds two lanes, if it is the same.
pub(in crate::backend) fn one_group(size: i64, first: i64, last: i64) -> Option<i64> {
    let group = first.div_euclid(size.max(1));
    (size > 0 && first >= 0 && group == last.div_euclid(size)).then_some(group)
}

/// The number of the group that holds the lanes from one to before another, if it is one and all are known.
pub(in crate::backend) fn group_of(size: &Dim, (from, to): &(Dim, Dim)) -> Option<i64> {
    one_group(size.as_const()?, from.as_const()?, to.as_const()? - 1)
}

/// Whether `a ≥ b` for all non-negative values of the symbols.
pub(in crate::backend) fn at_least(a: &Dim, b: &Dim) -> bool {
    (a - b).as_polynomial().is_some_and(|terms| terms.iter().all(|(coefficient, _)| *coefficient >= 0))
}

/// Whether a dim is odd, if that is the same for all values of its symbols.
pub(in crate::backend) fn parity(dim: &Dim) -> Option<bool> {
    let (rest, constant) = split_constant(dim);
    let even = rest.as_polynomial()?.iter().all(|(coefficient, _)| coefficient % 2 == 0);
    even.then_some(constant.rem_euclid(2) == 1)
}

/// Whether neighbouring lanes are neighbours in memory in every `lanes` lanes from a multiple of that number on.
pub(in crate::backend) fn runs_by_one(index: &Dim, lanes: i64) -> bool {
    index.fold(&mut Runs { lanes }).is_ok_and(|run| run.slope == 1)
}

/// What an expression is over so many lanes from a multiple of their number on.
#[derive(Clone, Copy)]
struct Run {
    /// The difference from lane to lane.
    slope: i64,
    /// Whether it starts at a multiple of their number.
    aligned: bool,
    constant: Option<i64>,
}

/// Looks at expressions over chunks of so many lanes.
struct Runs {
    lanes: i64,
}

impl Runs {
    fn times(&self, run: Run, by: i64) -> Run {
        Run { slope: run.slope.saturating_mul(by), aligned: run.aligned || by % self.lanes == 0, constant: None }
    }
}

impl DimFold for Runs {
    type Value = Run;
    type Error = ();

    fn constant(&mut self, value: i64) -> Result<Run, ()> {
        Ok(Run { slope: 0, aligned: value % self.lanes == 0, constant: Some(value) })
    }

    fn symbol(&mut self, name: &str) -> Result<Run, ()> {
        let lane = name == LANE;
        Ok(Run { slope: i64::from(lane), aligned: lane, constant: None })
    }

    fn add(&mut self, a: Run, b: Run) -> Result<Run, ()> {
        Ok(Run { slope: a.slope.saturating_add(b.slope), aligned: a.aligned && b.aligned, constant: None })
    }

    fn mul(&mut self, a: Run, b: Run) -> Result<Run, ()> {
        match (a.constant, b.constant) {
            (Some(by), _) => Ok(self.times(b, by)),
            (_, Some(by)) => Ok(self.times(a, by)),
            _ if (a.slope, b.slope) == (0, 0) => Ok(Run { slope: 0, aligned: a.aligned || b.aligned, constant: None }),
            _ => Err(()),
        }
    }

    fn function(&mut self, f: DimFn, a: Run, b: Run) -> Result<Run, ()> {
        if (a.slope, b.slope) == (0, 0) {
            return Ok(Run { slope: 0, aligned: false, constant: None });
        }
        // No multiple of the divisor lies inside the lanes.
        let inside = a.aligned && a.slope == 1 && b.constant.is_some_and(|by| by > 0 && by % self.lanes == 0);
        match f {
            DimFn::Mod if inside => Ok(Run { slope: 1, aligned: true, constant: None }),
            DimFn::FloorDiv if inside => Ok(Run { slope: 0, aligned: false, constant: None }),
            _ => Err(()),
        }
    }
}
