//! Padding: a tensor that a constant fills up behind its end.

use crate::graph::{Def, Graph, NodeId, Op, Value};
use crate::prim::{Literal, Prim};

/// A concatenation of a computed value and one constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pad {
    /// What is filled up.
    pub value: Value,
    /// What the elements behind it are.
    pub fill: Literal,
    /// The axis that grows.
    pub axis: usize,
}

impl Pad {
    /// The padding that a node is: a concatenation all of whose operands but the first repeat one literal.
    pub fn of(graph: &Graph, id: NodeId) -> Option<Pad> {
        let node = graph.node(id);
        let Op::Prim(Prim::Cat { axis }) = node.op else { return None };
        let (&value, fills) = node.operands.split_first()?;
        let (&first, rest) = fills.split_first()?;
        let fill = repeated(graph, first)?;
        let alike = rest.iter().all(|&v| repeated(graph, v) == Some(fill));
        (alike && repeated(graph, value).is_none()).then_some(Pad { value, fill, axis })
    }
}

/// Whether any node of a graph pads.
pub fn pads(graph: &Graph) -> bool {
    graph.node_ids().any(|id| Pad::of(graph, id).is_some())
}

/// The literal that a value repeats.
fn repeated(graph: &Graph, mut value: Value) -> Option<Literal> {
    loop {
        let Def::Node(id, _) = graph.def(value) else { return None };
        let node = graph.node(id);
        match &node.op {
            Op::Prim(Prim::Literal(literal)) => return Some(*literal),
            Op::Prim(Prim::Expand { .. } | Prim::Reshape { .. }) => value = node.operands[0],
            _ => return None,
        }
    }
}
