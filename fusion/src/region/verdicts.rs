//! Verdicts by content: of equal layers one is judged.

use std::collections::HashMap;

use super::Refusal;
use super::content::Content;

/// A kernel of a body takes so long for functions that layout in front of them repeats, in picoseconds. Or there is none.
pub(super) type Verdict = Result<f64, Refusal>;

/// Which bodies are row programs. It is only looked up, so its order cannot show.
#[derive(Default)]
pub(super) struct Verdicts {
    legal: HashMap<(Content, bool), Verdict>,
    varies: HashMap<(Content, bool, usize), bool>,
}

impl Verdicts {
    /// The verdict on a body of the graph that all bodies here are of.
    pub fn of(&mut self, body: Content, segments: bool, judge: impl FnOnce() -> Verdict) -> Verdict {
        *self.legal.entry((body, segments)).or_insert_with(judge)
    }

    /// Whether the rows of a body read different elements of one of its inputs.
    pub fn varies(&mut self, body: Content, segments: bool, input: usize, judge: impl FnOnce() -> bool) -> bool {
        *self.varies.entry((body, segments, input)).or_insert_with(judge)
    }

    /// Forgets what was refused for a reason.
    pub fn forget(&mut self, reason: impl Fn(Refusal) -> bool) {
        self.legal.retain(|_, verdict| !verdict.is_err_and(&reason));
        self.varies.clear();
    }
}

#[cfg(test)]
mod tests {
    use fusewright_graph::{Graph, NodeId, Value};

    use super::super::content::Contents;
    use super::*;

    #[test]
    fn equal_bodies_are_judged_once_and_others_anew() {
        let graph = |eps: &str| -> Graph {
            let text = format!(
                "graph @g(s: 0..; %x: f32[s, 8], %w: f32[8]) {{
                   %y = rms_norm %x, %w {{eps = {eps}, round = once}}
                   return %y
                 }}"
            );
            text.parse().expect("parses")
        };
        let (one, other) = (graph("1e-6"), graph("1e-5"));
        let (mut contents, mut verdicts, mut judged) = (Contents::default(), Verdicts::default(), 0);
        let mut judge = |graph, segments, verdict| {
            verdicts.of(contents.of(graph, &[NodeId(0)], &[Value(0), Value(1)], &[Value(2)]), segments, || {
                judged += 1;
                verdict
            })
        };
        assert_eq!(judge(&one, false, Err(Refusal::Reshape)), Err(Refusal::Reshape));
        assert_eq!(judge(&one, false, Ok(0.0)), Err(Refusal::Reshape));
        assert_eq!(judge(&other, false, Ok(0.0)), Ok(0.0));
        assert_eq!(judge(&one, true, Ok(0.0)), Ok(0.0));
        assert_eq!(judged, 3);
        verdicts.forget(|refusal| refusal == Refusal::Reshape);
        let content = contents.of(&one, &[NodeId(0)], &[Value(0), Value(1)], &[Value(2)]);
        assert_eq!(verdicts.of(content, false, || Ok(0.0)), Ok(0.0), "it is judged again");
    }
}
