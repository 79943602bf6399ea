//! Bisection: the first pass, and in it the first change, after which something no longer holds.

use fusewright_graph::Graph;

use super::{Cx, Diagnostic, Pipeline, Rows};

/// What a bisection found.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It holds after every pass.
    Holds,
    /// It does not hold of the graph as given.
    Never,
    /// A change broke it.
    Broken(Box<Culprit>),
}

/// The change after which something no longer holds.
#[derive(Clone, Debug)]
pub struct Culprit {
    /// Name of the pass.
    pub pass: &'static str,
    /// Its place in the pipeline, from 0.
    pub stage: usize,
    /// The change of the pass, from 1.
    pub change: usize,
    /// How many changes the pass makes.
    pub changes: usize,
    /// The graph before the change.
    pub before: Graph,
    /// The graph after it.
    pub after: Graph,
}

/// Finds the first pass of a run after which `holds` is false, and a change of it before which `holds` is true and after
/// which it is false.
///
/// # Errors
/// Those of a pass, and of `holds`.
pub fn bisect<E: From<Diagnostic>>(
    graph: &Graph,
    pipeline: &Pipeline,
    relaxed: bool,
    holds: &mut dyn FnMut(&Graph) -> Result<bool, E>,
) -> Result<Verdict, E> {
    if !holds(graph)? {
        return Ok(Verdict::Never);
    }
    let rows = Rows::of(graph);
    let mut good = graph.clone();
    for (stage, place) in pipeline.stages().iter().enumerate() {
        let pass = place.pass;
        if !(pass.required || place.runs(rows)) {
            continue;
        }
        let run = |fuel: Option<usize>| -> Result<(Graph, usize), Diagnostic> {
            let mut cx = Cx { relaxed, rows: Some(rows), fuel, patterns: pipeline.patterns().clone(), ..Cx::default() };
            (pass.run)(&good, &mut cx).map(|(graph, outcome)| (graph, outcome.changed))
        };
        let (next, changes) = run(None)?;
        if holds(&next)? {
            good = next;
            continue;
        }
        // Before change `low + 1` it holds, after change `high` it does not.
        let (mut low, mut high) = (0, changes);
        let (mut before, mut after) = (good.clone(), next);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let (partial, _) = run(Some(middle))?;
            if holds(&partial)? {
                (low, before) = (middle, partial);
            } else {
                (high, after) = (middle, partial);
            }
        }
        let culprit = Culprit { pass: pass.name, stage, change: high, changes, before, after };
        return Ok(Verdict::Broken(Box::new(culprit)));
    }
    Ok(Verdict::Holds)
}
