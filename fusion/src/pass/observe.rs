//! Observers: what happens around every pass of a run.

use fusewright_graph::Graph;
use fusewright_graph::verify::verify;

use super::{Diagnostic, Outcome, Pass};

/// Watches passes.
pub trait Observer {
    /// Called before a pass; `false` skips it unless it is required.
    fn before(&mut self, _pass: &Pass, _graph: &Graph) -> bool {
        true
    }

    /// Called after a pass with its result.
    ///
    /// # Errors
    /// What the observer finds wrong with the graph; ends the run.
    fn after(&mut self, _pass: &Pass, _graph: &Graph, _outcome: Outcome) -> Result<(), Diagnostic> {
        Ok(())
    }
}

/// When a graph is seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// As a pass gets it.
    Before,
    /// As a pass left it.
    After,
}

impl Moment {
    /// Name in file names and titles.
    pub const fn name(self) -> &'static str {
        match self {
            Moment::Before => "before",
            Moment::After => "after",
        }
    }
}

/// Hands the graph before and after every pass to a function, for dumps.
pub struct Dump<F: FnMut(&str, Moment, &Graph)>(pub F);

impl<F: FnMut(&str, Moment, &Graph)> Observer for Dump<F> {
    fn before(&mut self, pass: &Pass, graph: &Graph) -> bool {
        (self.0)(pass.name, Moment::Before, graph);
        true
    }

    fn after(&mut self, pass: &Pass, graph: &Graph, _: Outcome) -> Result<(), Diagnostic> {
        (self.0)(pass.name, Moment::After, graph);
        Ok(())
    }
}

/// Measures passes by a clock that counts microseconds.
pub struct Timer<C: FnMut() -> u64> {
    clock: C,
    started: u64,
    /// Microseconds per pass, in the order of the run.
    pub times: Vec<(&'static str, u64)>,
}

impl<C: FnMut() -> u64> Timer<C> {
    /// A timer with a clock.
    pub fn new(clock: C) -> Self {
        Timer { clock, started: 0, times: Vec::new() }
    }
}

impl<C: FnMut() -> u64> Observer for Timer<C> {
    fn before(&mut self, _: &Pass, _: &Graph) -> bool {
        self.started = (self.clock)();
        true
    }

    fn after(&mut self, pass: &Pass, _: &Graph, _: Outcome) -> Result<(), Diagnostic> {
        let now = (self.clock)();
        self.times.push((pass.name, now.saturating_sub(self.started)));
        Ok(())
    }
}

/// Checks after every pass that the graph satisfies what every graph must.
#[derive(Debug, Default)]
pub struct Verify;

impl Observer for Verify {
    fn after(&mut self, pass: &Pass, graph: &Graph, _: Outcome) -> Result<(), Diagnostic> {
        let Err(violations) = verify(graph) else { return Ok(()) };
        let broken =
            violations.into_iter().next().map_or_else(Default::default, |v| (v.message, v.node.map(|_| v.origin)));
        Err(Diagnostic { pass: pass.name, message: broken.0, origin: broken.1 })
    }
}
