//! The pass manager: runs a pipeline over rebuilt graphs.

use fusewright_graph::Graph;

use super::{Cx, Diagnostic, Observer, PatternReport, Pipeline, PipelineError, Rows, Unmatched};

/// What one pass of a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PassReport {
    /// Name of the pass.
    pub name: &'static str,
    /// Nodes that it changed.
    pub changed: usize,
}

/// Runs a pipeline.
#[derive(Clone, Debug, Default)]
pub struct PassManager {
    pipeline: Pipeline,
}

impl PassManager {
    /// A manager of a pipeline.
    pub fn new(pipeline: Pipeline) -> Self {
        PassManager { pipeline }
    }

    /// What it runs.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// Switches every pass of that name on or off.
    ///
    /// # Errors
    /// An unknown name, or switching off a required pass.
    pub fn switch(&mut self, name: &str, on: bool) -> Result<(), PipelineError> {
        self.pipeline.switch(name, on)
    }

    /// Runs the passes that are on and whose rows the graph's lie in.
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
        cx.patterns = self.pipeline.patterns().clone();
        cx.pattern_reports.clear();
        let rows = cx.rows.unwrap_or_else(|| Rows::of(&graph));
        for stage in self.pipeline.stages() {
            let pass = stage.pass;
            // Every observer is asked, so that a clock starts even where another observer skips the pass.
            let wanted = observers.iter_mut().fold(true, |all, o| o.before(pass, &graph) & all);
            if !(pass.required || stage.runs(rows) && wanted) {
                continue;
            }
            let (next, outcome) = (pass.run)(&graph, cx)?;
            graph = next;
            for observer in observers.iter_mut() {
                observer.after(pass, &graph, outcome)?;
            }
            reports.push(PassReport { name: pass.name, changed: outcome.changed });
        }
        for pattern in self.pipeline.patterns() {
            if cx.pattern_reports.iter().all(|r| r.name != pattern.name()) {
                let (name, class) = (pattern.name().to_owned(), pattern.class());
                cx.pattern_reports.push(PatternReport { name, class, times: 0, unmatched: Some(Unmatched::Off) });
            }
        }
        Ok((graph, reports))
    }
}
