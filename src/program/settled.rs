//! What is complete before the launch ahead of a kernel begins, as far as the order of a graph's steps says it: what a
//! product lies behind, and what the caller gives. Kernels for GPUs read it early; whether a launch may is decided of its
//! commands.

use std::collections::BTreeMap;

use fusewright_fusion::region::{Partition, Step};
use fusewright_graph::{Def, Graph, InputKind, Op, Prim, Value};

/// The body of a kernel whose inputs are these values of the graph, with those marked that are settled.
pub(super) struct Settled<'a> {
    graph: &'a Graph,
    /// The step that makes a value.
    made: BTreeMap<Value, usize>,
    step: usize,
    /// The last step that is a product.
    product: Option<usize>,
}

impl<'a> Settled<'a> {
    /// Before the first step.
    pub fn new(graph: &'a Graph) -> Self {
        Settled { graph, made: BTreeMap::new(), step: 0, product: None }
    }

    /// Goes past a step.
    pub fn pass(&mut self, partition: &Partition, step: Step) {
        match (partition.kernel(step), step) {
            (Some(region), _) => self.made.extend(region.outputs.iter().map(|&value| (value, self.step))),
            (None, Step::Node(id)) => {
                let node = self.graph.node(id);
                self.made.extend(node.results.iter().map(|&value| (value, self.step)));
                if matches!(node.op, Op::Prim(Prim::MatMul { .. })) {
                    self.product = Some(self.step);
                }
            }
            (None, _) => {}
        }
        self.step += 1;
    }

    /// The body of the next step with the kinds of its inputs, which are these values.
    pub fn mark(&self, mut body: Graph, inputs: &[Value]) -> Graph {
        for (i, &value) in inputs.iter().enumerate() {
            if matches!(body.inputs().get(i).map(|input| &input.kind), Some(InputKind::User)) && self.is_settled(value)
            {
                body = body.with_kind(i, InputKind::Settled);
            }
        }
        body
    }

    fn is_settled(&self, value: Value) -> bool {
        match self.graph.def(value) {
            Def::Input(i) => self.graph.inputs()[i].kind.is_given(),
            Def::Node(..) => self.made.get(&value).is_some_and(|&made| self.product.is_some_and(|at| made < at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use fusewright_fusion::region::{Limits, partition};

    use super::*;

    #[test]
    fn what_a_product_lies_behind_is_settled() {
        let text = "graph @g(s: 1..; %x: bf16[s, 64], %r: bf16[s, 64], %w: weight bf16[64, 64], %n: weight bf16[64]) {
  %h = add %x, %r
  %y = rms_norm %h, %n {eps = 1e-6, round = before_weight}
  %p = matmul %y, %w {out = bf16}
  %h2 = add %p, %h
  %z = rms_norm %h2, %n {eps = 1e-6, round = before_weight}
  return %z, %h2
}
";
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let partition = partition(&graph, &Limits::default());
        let (mut settled, mut found) = (Settled::new(&graph), Vec::new());
        for &step in &partition.steps {
            if let Some(region) = partition.kernel(step) {
                let body = settled.mark(region.body.clone(), &region.inputs);
                let named = region.inputs.iter().zip(body.inputs());
                found.extend(
                    named.map(|(&value, input)| (graph.value_name(value).map(str::to_owned), input.kind.clone())),
                );
            }
            settled.pass(&partition, step);
        }
        let of = |wanted: bool| {
            let named = found.iter().filter(move |(_, kind)| matches!(kind, InputKind::Settled) == wanted);
            named.map(|(name, _)| name.as_deref().unwrap_or_default()).collect::<Vec<_>>()
        };
        // The product itself may still be written when the launch behind it begins; weights are read early in any case.
        assert_eq!((of(true), of(false)), (vec!["x", "r", "h"], vec!["n", "p", "n"]));
    }
}
