//! Verdicts by content: of equal layers one is judged.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use fusewright_graph::{Graph, Op, TensorType, Value};

use super::Refusal;

/// Which bodies are row programs. It is only looked up, so its order cannot show.
#[derive(Default)]
pub(super) struct Verdicts(HashMap<Content, Result<(), Refusal>>);

impl Verdicts {
    /// The verdict on a body of the graph that all bodies here are of.
    pub fn of(
        &mut self,
        body: &Graph,
        segments: bool,
        judge: impl FnOnce() -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        *self.0.entry(Content::of(body, segments)).or_insert_with(judge)
    }
}

impl Verdicts {
    /// Forgets what was refused for a reason.
    pub fn forget(&mut self, reason: impl Fn(Refusal) -> bool) {
        self.0.retain(|_, verdict| !verdict.is_err_and(&reason));
    }
}

/// What a verdict depends on. The ranges of symbols are those of one graph.
#[derive(PartialEq, Eq, Hash)]
struct Content {
    inputs: Vec<TensorType>,
    nodes: Vec<(Function, Vec<Value>)>,
    outputs: Vec<Value>,
    segments: bool,
}

impl Content {
    fn of(body: &Graph, segments: bool) -> Content {
        Content {
            inputs: body.inputs().iter().map(|input| body.ty(input.value).clone()).collect(),
            nodes: body.nodes().iter().map(|node| (Function(node.op.clone()), node.operands.clone())).collect(),
            outputs: body.outputs().iter().map(|output| output.value).collect(),
            segments,
        }
    }
}

#[derive(PartialEq, Eq)]
struct Function(Op);

impl Hash for Function {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Op::Prim(prim) => prim.hash(state),
            // Attributes are left to equality.
            Op::Composite(composite) => composite.name().hash(state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_bodies_are_judged_once_and_others_anew() {
        let body = |eps: &str, name: &str, lanes: u32| -> Graph {
            let text = format!(
                "graph @g(s: 0..; %{name}: f32[s, {lanes}], %w: f32[{lanes}]) {{
                   %y = rms_norm %{name}, %w {{eps = {eps}, round = once}}
                   return %y
                 }}"
            );
            text.parse().expect("parses")
        };
        let mut verdicts = Verdicts::default();
        let mut judged = 0;
        let mut judge = |body: &Graph, segments, verdict| {
            verdicts.of(body, segments, || {
                judged += 1;
                verdict
            })
        };
        assert_eq!(judge(&body("1e-6", "x", 8), false, Err(Refusal::Reshape)), Err(Refusal::Reshape));
        assert_eq!(judge(&body("1e-6", "z", 8), false, Ok(())), Err(Refusal::Reshape), "names do not matter");
        assert_eq!(judge(&body("1e-5", "x", 8), false, Ok(())), Ok(()));
        assert_eq!(judge(&body("1e-6", "x", 16), false, Ok(())), Ok(()));
        assert_eq!(judge(&body("1e-6", "x", 8), true, Ok(())), Ok(()));
        assert_eq!(judged, 4);
    }
}
