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
