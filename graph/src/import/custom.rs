//! Ops that overwrite arguments, made free of effects.
//!
//! Three forms of one op: the plain call without results, whose later readers read the argument again, and the two
//! functionalised forms, which return the new contents: one result per overwritten argument, or one per base buffer of
//! which the arguments are views. In each the op becomes a node whose results are the new contents; the names that
//! read them are bound to these.

use super::schema::{Argument, NodeJson, SymIntArg};
use super::table::{Row, short_target};
use super::vendor;

/// How the file writes the call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// No results; arguments are overwritten.
    InPlace,
    /// `auto_functionalized`: the op's own result, then one per overwritten argument.
    PerArgument,
    /// `auto_functionalized_v2`: the op's own result, then one per base.
    PerBase,
}

/// An op that overwrites arguments.
pub(super) struct Custom<'a> {
    pub(super) form: Form,
    pub(super) row: Option<&'static Row>,
    /// Overwritten parameters in schema order, those given as `None` left out. Of an op without a row, every tensor
    /// argument counts as overwritten.
    pub(super) overwritten: Vec<&'a str>,
}

/// A parameter that is a view of a base.
pub(super) struct View<'a> {
    /// Position in the list of bases.
    pub(super) index: usize,
    /// Name of the base.
    pub(super) base: &'a str,
    /// Extents and strides of the view, if it is not the base itself.
    pub(super) layout: Option<(Vec<SymIntArg>, Vec<SymIntArg>)>,
}

impl<'a> Custom<'a> {
    /// The node as such an op, or `None` if it has no effects or is a functionalised call of an unknown op, whose
    /// results the file states.
    pub(super) fn of(node: &'a NodeJson) -> Option<Self> {
        let form = match short_target(&node.target) {
            "higher_order.auto_functionalized" => Form::PerArgument,
            "higher_order.auto_functionalized_v2" => Form::PerBase,
            _ => Form::InPlace,
        };
        let target = match form {
            Form::InPlace => short_target(&node.target),
            _ => node.inputs.iter().find_map(|input| match &input.arg {
                Argument::Operator(target) => Some(short_target(target)),
                _ => None,
            })?,
        };
        if form == Form::InPlace && !node.outputs.is_empty() {
            return None;
        }
        let row = vendor::find(target).filter(|row| row.overwritten().next().is_some());
        let overwritten: Vec<&str> = match (row, form) {
            (Some(row), Form::PerBase) => row.overwritten().filter(|name| has_view(node, name)).collect(),
            (Some(row), _) => row.overwritten().filter(|name| tensor_argument(node, name).is_some()).collect(),
            (None, Form::InPlace) => {
                let tensors = node.inputs.iter().filter(|input| matches!(input.arg, Argument::Tensor(_)));
                tensors.map(|input| input.name.as_str()).collect()
            }
            (None, _) => return None,
        };
        Some(Custom { form, row, overwritten })
    }
}

/// Name of the tensor given for a parameter.
pub(super) fn tensor_argument<'a>(node: &'a NodeJson, parameter: &str) -> Option<&'a str> {
    match argument(node, parameter)? {
        Argument::Tensor(name) => Some(name),
        _ => None,
    }
}

/// Arguments of the functionalised forms that describe the call and are none of the op's parameters.
pub(super) fn is_description(name: &str) -> bool {
    const SUFFIXES: [&str; 8] =
        ["_base_index", "_size", "_stride", "_storage_offset", "_alias", "_slice_dim", "_slice_start", "_slice_end"];
    name.is_empty() || name == "_all_bases" || (name.starts_with('_') && SUFFIXES.iter().any(|s| name.ends_with(s)))
}

fn argument<'a>(node: &'a NodeJson, name: &str) -> Option<&'a Argument> {
    node.inputs.iter().find(|input| input.name == name).map(|input| &input.arg)
}

fn has_view(node: &NodeJson, parameter: &str) -> bool {
    matches!(argument(node, &format!("_{parameter}_base_index")), Some(Argument::Int(_)))
}

/// The view that an overwritten parameter of the third form is; `None` for a slice of a base.
pub(super) fn view<'a>(node: &'a NodeJson, parameter: &str) -> Option<View<'a>> {
    let Argument::Tensors(bases) = argument(node, "_all_bases")? else { return None };
    let Argument::Int(index) = argument(node, &format!("_{parameter}_base_index"))? else { return None };
    let index = usize::try_from(*index).ok()?;
    let base = bases.get(index)?;
    if argument(node, &format!("_{parameter}_slice_dim")).is_some() {
        return None;
    }
    let sizes = |suffix: &str| match argument(node, &format!("_{parameter}_{suffix}")) {
        None => Some(None),
        Some(Argument::Ints(list)) => Some(Some(list.iter().copied().map(SymIntArg::Int).collect())),
        Some(Argument::SymInts(list)) => Some(Some(list.clone())),
        Some(_) => None,
    };
    let from_start = matches!(
        argument(node, &format!("_{parameter}_storage_offset")),
        None | Some(Argument::Int(0) | Argument::SymInt(SymIntArg::Int(0)))
    );
    let layout = match (sizes("size")?, sizes("stride")?) {
        (None, None) => None,
        (Some(size), Some(stride)) if from_start => Some((size, stride)),
        _ => return None,
    };
    Some(View { index, base, layout })
}
