//! Graphs that compute with elements that a target's kernels do not take at all.

use fusewright_abi::Target;
use fusewright_codegen::backend::Backend;
use fusewright_fusion::region::{is_constant, is_layout};
use fusewright_graph::Graph;

use crate::Error;
use crate::program::value_name;

/// Refuses a graph of which some op has an operand or a result of a dtype that the target lacks, by the first of them: it
/// would run on the host, op by op, which nobody asks for who names a device. Views cost nothing anywhere.
///
/// # Errors
/// What the target lacks, the op with its origin, and the value.
pub(crate) fn all_taken(graph: &Graph, backend: &dyn Backend, target: &Target) -> Result<(), Error> {
    for node in graph.nodes().iter().filter(|node| !is_layout(&node.op) && !is_constant(&node.op)) {
        for (values, verb) in [(&node.operands, "takes"), (&node.results, "makes")] {
            for &value in values {
                if let Some(lacks) = backend.lacks(graph.ty(value).dtype, target) {
                    let (op, origin, name) = (node.op.name(), graph.origin(node), value_name(graph, value));
                    return Err(Error::Input(format!(
                        "target `{target}` does not run this graph: {lacks}; the first op that has it is `{op}` \
                         [{origin}], which {verb} {name}"
                    )));
                }
            }
        }
    }
    Ok(())
}
