//! How near an op comes to a region that it does not replace: which of its results it gives, and whether but for roundings.

use std::collections::BTreeSet;
use std::fmt;

use fusewright_graph::Graph;

use super::bind::{Arguments, Forms, arguments, forms, meaning, through};
use super::same::Numbers;
use super::table::VendorOp;
use crate::pass::{Pipeline, Relaxation};

/// Most calls that are looked at for a region.
const MOST_TRIED: usize = 512;

/// What an op computes of a region that it does not replace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Near {
    /// Outputs of the region's body that the op gives. None are where it is a part that only the region itself reads.
    pub gives: Vec<usize>,
    /// Those that it does not give.
    pub lacks: Vec<usize>,
    /// Whether that holds only if roundings in between do not count.
    pub but_for_rounding: bool,
    /// Where the graph rounds and relaxed mode does not, if roundings are what differs.
    pub roundings: Vec<String>,
}

impl fmt::Display for Near {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |outputs: &[usize]| outputs.iter().map(|i| format!("out{i}")).collect::<Vec<_>>().join(", ");
        if self.gives.is_empty() {
            f.write_str("the op is a part of it and gives none of its results")?;
        } else {
            write!(f, "the op gives {}", names(&self.gives))?;
        }
        if !self.lacks.is_empty() && !self.gives.is_empty() {
            write!(f, ", not {}", names(&self.lacks))?;
        }
        if self.but_for_rounding {
            f.write_str(", if roundings do not count")?;
        }
        if !self.roundings.is_empty() {
            write!(f, "; the graph rounds more at {}", self.roundings.join(", "))?;
        }
        Ok(())
    }
}

/// How near an op comes to the body of a region in primitives, if its first result is there at all. Of all calls, the one
/// that gives most; one that rounds as the region does is preferred.
pub(super) fn near(op: &VendorOp, body: &Graph, pipeline: &Pipeline, relaxed: bool) -> Option<Near> {
    let calls: Vec<Arguments> = arguments(op, body, false).take(MOST_TRIED).collect();
    let exact = Found::best(op, body, &forms(body.clone()), &calls, |graph| through(graph, pipeline, relaxed));
    if exact.is_some() || relaxed {
        return Some(exact?.near(body, Vec::new(), Vec::new()));
    }
    let (rough, in_body) = through(body, pipeline, true)?;
    let found = Found::best(op, body, &rough, &calls, |graph| through(graph, pipeline, true))?;
    let in_op = found.relaxations.clone();
    Some(found.near(body, in_body, in_op)).map(|near| Near { but_for_rounding: true, ..near })
}

/// The outputs that a call gives.
struct Found {
    gives: Vec<usize>,
    relaxations: Vec<Relaxation>,
}

impl Found {
    fn best(
        op: &VendorOp,
        body: &Graph,
        own: &Forms,
        calls: &[Arguments],
        passed: impl Fn(&Graph) -> Option<(Forms, Vec<Relaxation>)>,
    ) -> Option<Found> {
        let mut best: Option<Found> = None;
        for call in calls {
            let Some((made, relaxations)) = meaning(op, body, call).ok().and_then(|meaning| passed(&meaning)) else {
                continue;
            };
            let given = own.iter().zip(&made).filter_map(|(own, made)| given(own, made, call)).max_by_key(Vec::len);
            let Some(gives) = given else { continue };
            if best.as_ref().is_none_or(|best| gives.len() > best.gives.len()) {
                best = Some(Found { gives, relaxations });
            }
        }
        best
    }

    /// In words. What relaxed mode drops in the op too is no difference.
    fn near(self, body: &Graph, in_body: Vec<Relaxation>, in_op: Vec<Relaxation>) -> Near {
        let lacks = (0..body.outputs().len()).filter(|i| !self.gives.contains(i)).collect();
        let more = in_body.iter().map(|r| r.times).sum::<usize>() > in_op.iter().map(|r| r.times).sum();
        let places: BTreeSet<String> = in_body.iter().map(|relaxed| relaxed.origin.to_string()).collect();
        let roundings = if more { places.into_iter().collect() } else { Vec::new() };
        Near { gives: self.gives, lacks, but_for_rounding: false, roundings }
    }
}

/// The outputs of a body that results of a call are, if its first result is computed in the body.
fn given(body: &Graph, made: &Graph, call: &Arguments) -> Option<Vec<usize>> {
    let mut numbers = Numbers::default();
    let of_input = |name: &str| body.inputs().iter().position(|input| input.name == name);
    let of_parameter = |name: &str| of_input(call.input(name)?);
    let wanted = numbers.of_outputs(body, of_input);
    let inside = numbers.of_values(body, of_input);
    let made = numbers.of_outputs(made, of_parameter);
    let first = made.first().copied().flatten().filter(|first| inside.contains(first));
    first?;
    let gives = |(i, want): (usize, &Option<usize>)| (want.is_some() && made.contains(want)).then_some(i);
    Some(wanted.iter().enumerate().filter_map(gives).collect())
}
