//! Passes and what goes around them.
//!
//! A [`Pass`] makes a new graph from a graph. A [`Pipeline`] is a list of passes as data: which, in which order, switched
//! on or off, for which numbers of rows. The [`PassManager`] runs it; verification, dumps and times are done by
//! [`Observer`]s, the search for a wrong change by [`bisect`]. The crate is pure, so an observer that measures time is
//! given its clock.

mod bisect;
mod config;
mod manager;
mod observe;
mod pipeline;
#[cfg(test)]
mod tests;

use std::fmt;

use fusewright_graph::{Graph, Origin, TypeError, Value};

use crate::rewrites::{Class, UserPatterns};

pub use bisect::{Culprit, Verdict, bisect};
pub use manager::{PassManager, PassReport};
pub use observe::{Dump, Moment, Observer, Timer, Verify};
pub use pipeline::{Level, Order, Pipeline, PipelineError, Rows, Stage};

/// What passes may depend on besides the graph, and what they leave for the report.
#[derive(Clone, Debug, Default)]
pub struct Cx {
    /// Whether rewrites that change rounding are allowed.
    pub relaxed: bool,
    /// The numbers of rows that the graph is compiled for; `None` stands for what its symbols say.
    pub rows: Option<Rows>,
    /// How many more changes passes may make; `None` stands for any number.
    pub fuel: Option<usize>,
    /// The roundings that relaxed mode changed, by values of the graph that the last pass left.
    pub relaxations: Vec<Relaxation>,
    /// Patterns of users.
    pub patterns: UserPatterns,
    /// What became of the patterns of users, in their order.
    pub pattern_reports: Vec<PatternReport>,
}

/// What became of a pattern of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PatternReport {
    /// Its name.
    pub name: String,
    /// What it keeps.
    pub class: Class,
    /// How often it was replaced.
    pub times: usize,
    /// Why it was not, if it was not.
    pub unmatched: Option<Unmatched>,
}

/// Why a pattern was replaced nowhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unmatched {
    /// It is nowhere.
    Near(NearMiss),
    /// It changes roundings, and relaxed mode is off.
    NeedsRelaxed,
    /// Pass `patterns` did not run.
    Off,
}

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unmatched::Near(near) => write!(f, "{near}"),
            Unmatched::NeedsRelaxed => f.write_str("it is `fast`, which needs relaxed mode"),
            Unmatched::Off => f.write_str("pass `patterns` did not run"),
        }
    }
}

/// The place that comes nearest to a pattern, and the first node there that breaks it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NearMiss {
    /// Nodes that matched.
    pub matched: usize,
    /// Nodes of the pattern.
    pub nodes: usize,
    /// What had to come next.
    pub expected: String,
    /// What stands there.
    pub found: String,
    /// Where that came from, if anything stands there.
    pub origin: Option<String>,
}

impl fmt::Display for NearMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NearMiss { matched, nodes, expected, found, .. } = self;
        write!(f, "{matched} of {nodes} nodes match; expected {expected}, found {found}")?;
        self.origin.as_ref().map_or(Ok(()), |origin| write!(f, ", at {origin}"))
    }
}

/// One place where relaxed mode changed roundings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relaxation {
    /// The value that is computed in another way.
    pub value: Value,
    /// Name of the rewrite.
    pub rewrite: String,
    /// How often it applied there.
    pub times: usize,
    /// Where the rewritten node came from.
    pub origin: Origin,
}

impl Cx {
    /// Whether no further change may be made.
    pub fn is_spent(&self) -> bool {
        self.fuel == Some(0)
    }

    /// Counts a change.
    pub fn spend(&mut self) {
        self.fuel = self.fuel.map(|left| left.saturating_sub(1));
    }
}

/// What a pass did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Outcome {
    /// Nodes that were rewritten, merged or removed.
    pub changed: usize,
}

/// Why a pass failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("pass `{pass}`: {message}{}", origin.as_ref().map_or(String::new(), |o| format!(", at {o}")))]
pub struct Diagnostic {
    /// Name of the pass.
    pub pass: &'static str,
    /// What is wrong.
    pub message: String,
    /// The node at fault, if one is.
    pub origin: Option<Origin>,
}

impl Diagnostic {
    /// A node that a pass rebuilt with operands that do not fit: an error of the pass.
    pub fn rebuilt(pass: &'static str, origin: &Origin, error: &TypeError) -> Self {
        Diagnostic { pass, message: error.to_string(), origin: Some(origin.clone()) }
    }
}

/// A graph and what changed in it.
pub type PassResult = Result<(Graph, Outcome), Diagnostic>;

/// One pass.
#[derive(Debug)]
pub struct Pass {
    /// Name, for switches, pipelines and reports; it stays.
    pub name: &'static str,
    /// Whether later stages rely on it; a required pass cannot be switched off.
    pub required: bool,
    /// Makes the new graph. Changes are counted by [`Cx::spend`], and none is made once [`Cx::is_spent`].
    pub run: fn(&Graph, &mut Cx) -> PassResult,
}
