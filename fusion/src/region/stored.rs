//! What the outputs of a body store: a value, or a value written into an input at places that an index tensor chooses.

use fusewright_graph::axes::AxisMap;
use fusewright_graph::{Def, Graph, NodeId, Op, Prim, Value};

use super::Refusal;

/// What an output stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The value whose rows are stored.
    pub value: Value,
    /// Where its rows go, if that is not where they come in order.
    pub scatter: Option<Scattered>,
}

/// An input that is overwritten in part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scattered {
    /// The scatter.
    pub node: NodeId,
    /// The input that it writes into, seen through layout ops and other scatters.
    pub input: Value,
    /// The axis of the scatter that is indexed.
    pub axis: usize,
}

impl Stored {
    /// What an output of a body of primitives stores. A scatter into anything but an input, as it is or after other
    /// scatters, is a value like others.
    pub fn of(body: &Graph, output: Value) -> Stored {
        let plain = Stored { value: output, scatter: None };
        let (_, Some(node)) = unwrapped(body, output) else { return plain };
        let Op::Prim(Prim::Scatter { axis }) = body.node(node).op else { return plain };
        let mut into = unwrapped(body, body.node(node).operands[0]);
        while let (_, Some(before)) = into
            && matches!(body.node(before).op, Op::Prim(Prim::Scatter { .. }))
        {
            into = unwrapped(body, body.node(before).operands[0]);
        }
        match into {
            (input, None) => {
                let scatter = Some(Scattered { node, input, axis });
                Stored { value: body.node(node).operands[2], scatter }
            }
            _ => plain,
        }
    }
}

/// Whether an op keeps all elements of its operand, once each.
pub(super) fn relabels(op: &Op) -> bool {
    matches!(op, Op::Prim(Prim::Reshape { .. } | Prim::Permute { .. }))
}

/// What a value is behind reshapes and permutations, and the node that computes it; none if it is an input.
pub(super) fn unwrapped(body: &Graph, mut value: Value) -> (Value, Option<NodeId>) {
    loop {
        let Def::Node(id, _) = body.def(value) else { return (value, None) };
        let node = body.node(id);
        if !relabels(&node.op) {
            return (value, Some(id));
        }
        value = node.operands[0];
    }
}

/// Every scatter writes into an input that nothing else reads, and its result is one output, whose elements lie as that
/// input's do.
pub(super) fn check_scatters(body: &Graph, axes: &AxisMap) -> Result<(), Refusal> {
    let scatters: Vec<NodeId> =
        body.node_ids().filter(|&id| matches!(body.node(id).op, Op::Prim(Prim::Scatter { .. }))).collect();
    if scatters.is_empty() {
        return Ok(());
    }
    let users = body.users();
    for id in scatters {
        let outputs = body.outputs().iter().filter_map(|o| Some((o.value, Stored::of(body, o.value).scatter?)));
        let mut own = outputs.filter(|(_, s)| s.node == id);
        let (Some((output, scattered)), None) = (own.next(), own.next()) else { return Err(Refusal::Scatter) };
        let laid_out_alike = axes.flat(output) == axes.flat(scattered.input)
            && body.ty(output).elements() == body.ty(scattered.input).elements();
        let operands = &body.node(id).operands;
        let reads_itself = operands[1..].contains(&operands[0]);
        let alone = is_chain(body, &users, scattered.input, operands[0])
            && is_chain(body, &users, body.node(id).results[0], output)
            && users[output.0 as usize].is_empty()
            && !reads_itself;
        if !laid_out_alike || !alone {
            return Err(Refusal::Scatter);
        }
    }
    Ok(())
}

/// Whether a value is read by one node alone, and so on up to the last.
pub(super) fn is_chain(body: &Graph, users: &[Vec<NodeId>], first: Value, last: Value) -> bool {
    let mut value = first;
    while value != last {
        let &[reader] = &users[value.0 as usize][..] else { return false };
        value = body.node(reader).results[0];
    }
    users[last.0 as usize].len() <= 1
}
