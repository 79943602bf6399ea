//! The pass manager: a visible list of passes, run in order over rebuilt graphs.
//!
//! Passes do the work; what goes around them (verification, dumps, times, bisection) is done by [`Observer`]s. The
//! crate is pure, so an observer that measures time is given its clock.

use fusewright_graph::{Graph, Op, Origin, TensorType, TypeError, infer};

use crate::passes::PIPELINE;

/// What passes may depend on besides the graph.
#[derive(Clone, Debug, Default)]
pub struct Cx {
    /// Whether rewrites that change rounding are allowed.
    pub relaxed: bool,
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
    /// Name, for switches and reports.
    pub name: &'static str,
    /// Whether later stages rely on it; a required pass cannot be switched off.
    pub required: bool,
    /// Makes the new graph.
    pub run: fn(&Graph, &mut Cx) -> PassResult,
}

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

/// Hands every graph to a function, for dumps.
pub struct Dump<F: FnMut(&str, &Graph)>(pub F);

impl<F: FnMut(&str, &Graph)> Observer for Dump<F> {
    fn after(&mut self, pass: &Pass, graph: &Graph, _: Outcome) -> Result<(), Diagnostic> {
        (self.0)(pass.name, graph);
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

/// Checks after every pass that each node's results have the types that its op infers.
#[derive(Debug, Default)]
pub struct Verify;

impl Observer for Verify {
    fn after(&mut self, pass: &Pass, graph: &Graph, _: Outcome) -> Result<(), Diagnostic> {
        for node in graph.nodes() {
            let wrong = |message: String| Diagnostic { pass: pass.name, message, origin: Some(node.origin.clone()) };
            let operands: Vec<&TensorType> = node.operands.iter().map(|&v| graph.ty(v)).collect();
            let inferred = match &node.op {
                Op::Prim(prim) => infer(prim, &operands),
                Op::Composite(composite) => composite.infer(&operands),
            };
            let inferred = inferred.map_err(|e| wrong(e.to_string()))?;
            if !inferred.iter().eq(node.results.iter().map(|&r| graph.ty(r))) {
                return Err(wrong(format!("`{}` yields {inferred:?}", node.op.name())));
            }
        }
        Ok(())
    }
}

/// What one pass of a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassReport {
    /// Name of the pass.
    pub name: &'static str,
    /// Nodes that it changed.
    pub changed: usize,
}

/// A pass that is not in the list, or that cannot be switched off.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SwitchError {
    /// No pass has that name.
    #[error("no pass is named `{name}`; there are {known}")]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The pass is required.
    #[error("pass `{0}` is required and cannot be switched off")]
    Required(String),
}

/// Runs a list of passes.
#[derive(Debug)]
pub struct PassManager {
    passes: Vec<(&'static Pass, bool)>,
}

impl Default for PassManager {
    fn default() -> Self {
        PassManager::new(PIPELINE)
    }
}

impl PassManager {
    /// A manager of a list of passes, all switched on.
    pub fn new(passes: &[&'static Pass]) -> Self {
        PassManager { passes: passes.iter().map(|&pass| (pass, true)).collect() }
    }

    /// The names of the passes and whether they are on, in order.
    pub fn passes(&self) -> impl Iterator<Item = (&'static str, bool)> + '_ {
        self.passes.iter().map(|(pass, on)| (pass.name, *on))
    }

    /// Switches every pass of that name on or off.
    ///
    /// # Errors
    /// An unknown name, or switching off a required pass.
    pub fn switch(&mut self, name: &str, on: bool) -> Result<(), SwitchError> {
        let known: Vec<&str> = self.passes.iter().map(|(pass, _)| pass.name).collect();
        if !known.contains(&name) {
            return Err(SwitchError::Unknown { name: name.to_owned(), known: known.join(", ") });
        }
        for (pass, state) in self.passes.iter_mut().filter(|(pass, _)| pass.name == name) {
            if pass.required && !on {
                return Err(SwitchError::Required(name.to_owned()));
            }
            *state = on;
        }
        Ok(())
    }

    /// Runs the passes that are on.
    ///
    /// # Errors
    /// The first error of a pass or an observer.
    pub fn run(
        &self,
        graph: &Graph,
        cx: &mut Cx,
        observers: &mut [&mut dyn Observer],
    ) -> Result<(Graph, Vec<PassReport>), Diagnostic> {
        let mut graph = graph.clone();
        let mut reports = Vec::new();
        for &(pass, on) in &self.passes {
            // Every observer is asked, so that a clock starts even where another observer skips the pass.
            let wanted = observers.iter_mut().fold(true, |all, o| o.before(pass, &graph) & all);
            if !(pass.required || on && wanted) {
                continue;
            }
            let (next, outcome) = (pass.run)(&graph, cx)?;
            graph = next;
            for observer in observers.iter_mut() {
                observer.after(pass, &graph, outcome)?;
            }
            reports.push(PassReport { name: pass.name, changed: outcome.changed });
        }
        Ok((graph, reports))
    }
}

#[cfg(test)]
mod tests {
    use fusewright_graph::{Builder, DType::F32, Dim};

    use super::*;

    fn graph() -> Graph {
        let b = Builder::new("g");
        let s = b.symbol("s", 1, None);
        let x = b.input("x", TensorType::new(F32, [s.clone(), Dim::constant(8)]));
        let y = b.prim(fusewright_graph::Prim::Reshape { shape: vec![s, Dim::constant(8)] }, &[x]).expect("reshape");
        b.output(b.mul(y, y).expect("mul"));
        b.finish()
    }

    #[test]
    fn passes_run_in_order_and_report() {
        let mut ticks = 0;
        let mut timer = Timer::new(|| {
            ticks += 5;
            ticks
        });
        let manager = PassManager::default();
        let (out, reports) = manager.run(&graph(), &mut Cx::default(), &mut [&mut Verify, &mut timer]).expect("runs");
        assert_eq!(out.nodes().len(), 1);
        let names: Vec<&str> = reports.iter().map(|r| r.name).collect();
        assert_eq!(names, PIPELINE.iter().map(|p| p.name).collect::<Vec<_>>());
        assert_eq!(reports.iter().find(|r| r.name == "rewrite").map(|r| r.changed), Some(1));
        assert_eq!(timer.times.len(), names.len());
        assert!(timer.times.iter().all(|t| t.1 == 5));
    }

    #[test]
    fn passes_are_switched_by_name() {
        let mut manager = PassManager::default();
        manager.switch("rewrite", false).expect("not required");
        let (out, reports) = manager.run(&graph(), &mut Cx::default(), &mut []).expect("runs");
        assert_eq!(out.nodes().len(), 2);
        assert!(reports.iter().all(|r| r.name != "rewrite"));
        assert!(manager.switch("nope", true).is_err_and(|e| e.to_string().contains("rewrite")));
        assert_eq!(manager.switch("dce", false), Err(SwitchError::Required("dce".into())));
    }
}
