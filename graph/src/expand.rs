//! Graphs of primitives: every composite replaced by its expansion.

use crate::builder::Builder;
use crate::graph::{Graph, Node, Op, Value};
use crate::infer::TypeError;

impl Graph {
    /// The same graph in primitives alone.
    ///
    /// # Errors
    /// A composite whose operands do not fit; verified graphs have none.
    pub fn expanded(&self) -> Result<Graph, TypeError> {
        let mut graph = self.clone();
        // Expansions may hold composites; each level is one rebuild.
        while graph.nodes().iter().any(|node| matches!(node.op, Op::Composite(_))) {
            graph = graph.rebuild(|b, _, node, operands| expand_node(b, node, operands))?;
        }
        Ok(graph)
    }
}

fn expand_node(b: &Builder, node: &Node, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
    match &node.op {
        Op::Composite(composite) => composite.expand(b, operands),
        Op::Prim(_) => b.op(node.op.clone(), operands),
    }
}
