//! Outputs of a chain that are its inputs in another order: a kernel each that copies the elements.
//!
//! Within a program such a value is a view, which costs nothing. A caller who asks for it as a tensor of its own has it
//! copied, and a kernel that knows the shapes copies faster than one that walks any strides.

use fusewright_fusion::region::{FusedRegion, Kind, Partition, Step, is_layout};
use fusewright_graph::{Builder, Def, Graph, NodeId, Op, Prim, TypeError, Value};

use crate::program::layout::Layout;

/// Gives every output that layout ops make of an input, in another order of its elements, a kernel of its own.
///
/// # Errors
/// None for a graph that verifies.
pub(super) fn copied(graph: &Graph, partition: &mut Partition) -> Result<(), TypeError> {
    for output in graph.outputs() {
        let Def::Node(id, _) = graph.def(output.value) else { continue };
        let Some(at) = partition.steps.iter().position(|step| *step == Step::Node(id)) else { continue };
        if let Some(region) = copy(graph, output.value)? {
            partition.steps[at] = Step::Lone(partition.lone.len());
            partition.lone.push(region);
            partition.unfused.retain(|unfused| unfused.node != id);
        }
    }
    Ok(())
}

/// The copy of a value, if it is an input in another order, or parts of one.
fn copy(graph: &Graph, result: Value) -> Result<Option<FusedRegion>, TypeError> {
    let (mut nodes, mut source): (Vec<NodeId>, _) = (Vec::new(), result);
    while let Def::Node(id, _) = graph.def(source) {
        let node = graph.node(id);
        if !is_layout(&node.op) {
            return Ok(None);
        }
        nodes.push(id);
        source = node.operands[0];
    }
    nodes.reverse();
    let (b, mut layout) = (Builder::new("copy"), Some(Layout::contiguous(&graph.ty(source).shape)));
    for symbol in graph.symbols() {
        b.symbol(&symbol.name, symbol.min, symbol.max);
    }
    let mut value = b.input("x0", graph.ty(source).clone());
    for &id in &nodes {
        let node = graph.node(id);
        let shape = |value: Value| graph.ty(value).shape.as_slice();
        let through = |prim: &Prim| layout.as_ref()?.through(prim, shape(node.operands[0]), shape(node.results[0]));
        layout = if let Op::Prim(prim) = &node.op { through(prim) } else { None };
        b.set_origin(node.origin.clone());
        value = b.op(node.op.clone(), &[value])?[0];
    }
    b.output(value);
    // Elements that lie as they did are memory, which whoever owns it copies as such.
    if layout.is_some_and(|layout| layout.is_contiguous(&graph.ty(result).shape)) {
        return Ok(None);
    }
    Ok(Some(FusedRegion {
        name: "copy".to_owned(),
        kind: Kind::Op,
        nodes,
        inputs: vec![source],
        outputs: vec![result],
        body: b.finish(),
        segments: false,
        ends: Vec::new(),
    }))
}
