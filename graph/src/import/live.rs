//! Graphs that live in a framework: the JSON of an exported program, without an archive.
//!
//! Every tensor that the graph takes is an input; there are no weights. What a node means is said by the same tables as
//! for files.

use super::schema::Program;
use super::weights::Weights;
use super::{aten, casts, collective, convert, inline, parse_json, reshaped, table, vendor};
use crate::diag::Diagnostic;
use crate::graph::Graph;

/// The graph of a program in the JSON of the export schema, whose inputs are all of the kind `user_input`.
///
/// # Errors
/// Text that does not follow the schema, inputs of other kinds, or a node whose result types cannot be represented; the
/// message names the node, and so does [`Diagnostic::origin`].
pub fn live(name: &str, json: &[u8]) -> Result<Graph, Diagnostic> {
    let mut program: Program = parse_json(name, json)?;
    inline::regions(&mut program.graph_module.graph);
    reshaped::as_views(&mut program);
    let graph = convert::convert(name, &program, &Weights::none())?;
    casts::of_version(graph, program.torch_version.as_deref())
        .map_err(|error| Diagnostic::new("import.version", error.to_string()))
}

/// Whether an op has a row in the op tables, such as `aten.add.Tensor`; a row may refuse some of its calls.
pub fn is_known(target: &str) -> bool {
    let target = table::short_target(target);
    aten::find(target).or_else(|| vendor::find(target)).or_else(|| collective::find(target)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds two rows of eight elements.
    fn sum(target: &str) -> String {
        let tensor = r#"{"dtype":7,"sizes":[{"as_expr":{"expr_str":"Symbol('s0')"}},{"as_int":8}]}"#;
        format!(
            r#"{{"graph_module":{{"graph":{{"nodes":[{{"target":"{target}","name":"n0",
            "inputs":[{{"name":"self","arg":{{"as_tensor":{{"name":"x"}}}}}},{{"name":"other","arg":{{"as_tensor":{{"name":"y"}}}}}}],
            "outputs":[{{"as_tensor":{{"name":"z"}}}}]}}],"tensor_values":{{"x":{tensor},"y":{tensor},"z":{tensor}}}}},
            "signature":{{"input_specs":[{{"user_input":{{"arg":{{"as_tensor":{{"name":"x"}}}}}}}},{{"user_input":{{"arg":{{"as_tensor":{{"name":"y"}}}}}}}}],
            "output_specs":[{{"user_output":{{"arg":{{"as_tensor":{{"name":"z"}}}}}}}}]}}}},
            "range_constraints":{{"s0":{{"min_val":1,"max_val":null}}}}}}"#
        )
    }

    #[test]
    fn a_graph_without_an_archive_is_imported() {
        let graph = live("part", sum("torch.ops.aten.add.Tensor").as_bytes()).expect("imports");
        let ops: Vec<&str> = graph.nodes().iter().map(|node| node.op.name()).collect();
        assert_eq!(ops, ["add"]);
        assert_eq!(graph.nodes()[0].origin.node.as_deref(), Some("n0"));
    }

    #[test]
    fn known_ops_have_rows() {
        for known in ["torch.ops.aten.add.Tensor", "aten.rsqrt.default", "prims.convert_element_type.default"] {
            assert!(is_known(known), "{known}");
        }
        assert!(!is_known("torch.ops.mine.op.default"));
    }
}
