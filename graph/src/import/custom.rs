//! Ops that overwrite arguments, made free of effects.
//!
//! Three forms of one op: the plain call without results, whose later readers read the argument again, and the two
//! functionalised forms, which return the new contents: one result per overwritten argument, or one per base buffer of
//! which the arguments are views. In each the op becomes a node whose results are the new contents; the names that
//! read them are bound to these.

use super::alias;
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
    /// What is overwritten, in schema order; parameters given as `None` are left out. Of an op without a row, every
    /// tensor among the arguments counts as overwritten, also those of lists.
    pub(super) overwritten: Vec<Overwritten<'a>>,
}

/// An overwritten argument.
pub(super) struct Overwritten<'a> {
    pub(super) parameter: &'a str,
    /// Name of the tensor; none in the third form.
    pub(super) name: Option<&'a str>,
}

/// Where in its base a view lies.
pub(super) enum Layout {
    /// It is the base.
    Base,
    /// Extents, strides and the place of the first element.
    Strided { sizes: Vec<SymIntArg>, strides: Vec<SymIntArg>, offset: SymIntArg },
    /// A range of one axis.
    Slice { axis: i64, start: SymIntArg, end: SymIntArg },
}

/// A parameter that is a view of a base.
pub(super) struct View<'a> {
    /// Position in the list of bases.
    pub(super) index: usize,
    /// Name of the base.
    pub(super) base: &'a str,
    pub(super) layout: Layout,
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
        let by_row = |row: &'static Row, form| -> Vec<Overwritten<'a>> {
            let given = row.overwritten().filter_map(|parameter| match form {
                Form::PerBase => has_view(node, parameter).then_some(Overwritten { parameter, name: None }),
                _ => tensor_argument(node, parameter).map(|name| Overwritten { parameter, name: Some(name) }),
            });
            given.collect()
        };
        let overwritten = match (row, form) {
            (Some(row), form) => by_row(row, form),
            (None, Form::InPlace) => {
                let all = node.inputs.iter().flat_map(|input| {
                    alias::tensors(&input.arg).map(|name| Overwritten { parameter: &input.name, name: Some(name) })
                });
                all.collect()
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

pub(super) fn argument<'a>(node: &'a NodeJson, name: &str) -> Option<&'a Argument> {
    node.inputs.iter().find(|input| input.name == name).map(|input| &input.arg)
}

fn has_view(node: &NodeJson, parameter: &str) -> bool {
    matches!(argument(node, &format!("_{parameter}_base_index")), Some(Argument::Int(_)))
}

/// The view that an overwritten parameter of the third form is; `None` for one that is described otherwise.
pub(super) fn view<'a>(node: &'a NodeJson, parameter: &str) -> Option<View<'a>> {
    let Argument::Tensors(bases) = argument(node, "_all_bases")? else { return None };
    let part = |suffix: &str| argument(node, &format!("_{parameter}_{suffix}"));
    let Argument::Int(index) = part("base_index")? else { return None };
    let index = usize::try_from(*index).ok()?;
    let base = bases.get(index)?;
    let size = |suffix: &str| match part(suffix)? {
        Argument::Int(n) => Some(SymIntArg::Int(*n)),
        Argument::SymInt(size) => Some(size.clone()),
        _ => None,
    };
    if let Some(axis) = part("slice_dim") {
        let Argument::Int(axis) = axis else { return None };
        let layout = Layout::Slice { axis: *axis, start: size("slice_start")?, end: size("slice_end")? };
        return Some(View { index, base, layout });
    }
    let sizes = |suffix: &str| match part(suffix) {
        None => Some(None),
        Some(Argument::Ints(list)) => Some(Some(list.iter().copied().map(SymIntArg::Int).collect())),
        Some(Argument::SymInts(list)) => Some(Some(list.clone())),
        Some(_) => None,
    };
    let layout = match (sizes("size")?, sizes("stride")?) {
        (None, None) => Layout::Base,
        (Some(sizes), Some(strides)) => Layout::Strided { sizes, strides, offset: size("storage_offset")? },
        _ => return None,
    };
    Some(View { index, base, layout })
}
