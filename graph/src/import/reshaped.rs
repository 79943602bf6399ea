//! ATen ops that change the shape of a tensor where it stands: `squeeze_`, `unsqueeze_`, `t_`, `transpose_`.
//!
//! The memory stays as it is, so each is the view that the op without the underscore takes, and the tensor's name stands
//! for that view from then on.

use std::collections::BTreeMap;

use super::alias;
use super::schema::{Argument, Program, SpecArg};
use super::table::short_target;

/// Such ops, and the views that they take.
const VIEWS: &[(&str, &str)] = &[
    ("aten.squeeze_", "aten.squeeze"),
    ("aten.squeeze_.dim", "aten.squeeze.dim"),
    ("aten.squeeze_.dims", "aten.squeeze.dims"),
    ("aten.unsqueeze_", "aten.unsqueeze"),
    ("aten.t_", "aten.t"),
    ("aten.transpose_", "aten.transpose.int"),
    ("aten.swapaxes_", "aten.swapaxes"),
    ("aten.swapdims_", "aten.swapdims"),
    ("aten.as_strided_", "aten.as_strided"),
];

/// Spells such ops as views, and reads their results where later nodes and outputs name what was reshaped.
pub(super) fn as_views(program: &mut Program) {
    let mut now: BTreeMap<String, String> = BTreeMap::new();
    for node in &mut program.graph_module.graph.nodes {
        node.inputs.iter_mut().for_each(|input| rename(&mut input.arg, &now));
        let Some((_, view)) = VIEWS.iter().find(|(op, _)| *op == short_target(&node.target)) else { continue };
        let operand = alias::first_operand(node).map(str::to_owned);
        if let (Some(operand), [Argument::Tensor(result)]) = (operand, node.outputs.as_slice()) {
            now.values_mut().filter(|name| **name == operand).for_each(|name| name.clone_from(result));
            now.insert(operand, result.clone());
        }
        node.target = format!("torch.ops.{view}");
    }
    let outputs = program.graph_module.signature.output_specs.iter_mut();
    for spec in outputs.filter(|spec| spec.kind == "user_output") {
        if let Some(SpecArg::Argument(argument)) = &mut spec.body.arg {
            rename(argument, &now);
        }
    }
}

/// Gives tensors the names that they have now.
fn rename(argument: &mut Argument, now: &BTreeMap<String, String>) {
    let newer = |name: &mut String| {
        if let Some(new) = now.get(name) {
            name.clone_from(new);
        }
    };
    match argument {
        Argument::Tensor(name) => newer(name),
        Argument::Tensors(names) => names.iter_mut().for_each(newer),
        Argument::OptionalTensors(names) => names.iter_mut().flatten().for_each(newer),
        _ => {}
    }
}
