//! Which names of the file share a buffer, how each is cut out of it, and until when each is read.

use std::collections::{BTreeMap, BTreeSet};

use super::call::Names;
use super::schema::{Argument, NodeJson, Program, SpecArg};
use super::sharing::Sharing;
use super::steps::{self, Step};
use super::strided;
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;

/// Ops whose results are views of their first operand.
const VIEWS: &[&str] = &[
    "aten.view",
    "aten._unsafe_view",
    "aten.view_as",
    "aten.view.dtype",
    "aten.view_as_real",
    "aten.view_as_complex",
    "aten.unflatten.int",
    "aten.atleast_1d",
    "aten.atleast_2d",
    "aten.atleast_3d",
    "aten.unsqueeze",
    "aten.squeeze",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.alias",
    "aten.detach",
    "aten.detach_",
    "aten.lift_fresh",
    "aten.dropout",
    "aten.positive",
    "aten.slice.Tensor",
    "aten.narrow",
    "aten.select.int",
    "aten.unbind.int",
    "aten.chunk",
    "aten.tensor_split.sections",
    "aten.tensor_split.indices",
    "aten.split.Tensor",
    "aten.split.sizes",
    "aten.split_with_sizes",
    "aten.hsplit.int",
    "aten.hsplit.array",
    "aten.vsplit.int",
    "aten.vsplit.array",
    "aten.dsplit.int",
    "aten.dsplit.array",
    "aten.tensor_split.tensor_indices_or_sections",
    "aten.expand",
    "aten.expand_as",
    "aten.broadcast_to",
    "aten.permute",
    "aten.transpose.int",
    "aten.swapaxes",
    "aten.swapdims",
    "aten.movedim.int",
    "aten.movedim.intlist",
    "aten.moveaxis.int",
    "aten.moveaxis.intlist",
    "aten.t",
    "aten.numpy_T",
    "aten.mT",
    "aten.mH",
    "aten.matrix_H",
    "aten.adjoint",
    "aten.real",
    "aten.imag",
    "aten.conj",
    "aten._conj",
    "aten.resolve_conj",
    "aten.resolve_neg",
    "aten.diagonal",
    "aten.linalg_diagonal",
    "aten.as_strided",
    "aten._reshape_alias",
    "aten.unfold",
];

/// Those of them whose elements are at places that no layout ops may lead to.
const PLACED: &[&str] = &["aten.diagonal", "aten.linalg_diagonal", "aten.as_strided", "aten.unfold"];

/// Ops each of whose results is a view of the operand of the same number.
const VIEWS_OF_EACH: &[&str] = &["aten.broadcast_tensors", "aten.meshgrid", "aten.meshgrid.indexing"];

/// Ops whose result is a view where the strides of the operand allow it, and a copy elsewhere.
const VIEWS_BY_STRIDES: &[&str] =
    &["aten.reshape", "aten.reshape_as", "aten.flatten.using_ints", "aten.contiguous", "aten.ravel"];

/// Ops whose result is a view of the operand where nothing is computed.
const VIEWS_AT_TIMES: &[&str] = &["aten.einsum"];

/// Ops whose result is the operand itself where nothing is to be converted.
const CONVERSIONS: &[&str] =
    &["aten.to.dtype", "aten.to.device", "aten.to.dtype_layout", "aten.to.other", "aten.type_as"];

/// A name that shares a buffer.
#[derive(Clone)]
pub(super) struct View {
    /// The buffer's first name.
    pub(super) root: String,
    /// The layout ops that cut the view out of the buffer; `None` where they are not known, or where the ranges of sizes
    /// do not say whether the buffer is shared.
    pub(super) steps: Option<Vec<Step>>,
}

/// The sharing of buffers, filled in node by node.
#[derive(Default)]
pub(super) struct Aliases {
    views: BTreeMap<String, View>,
    /// The views of a buffer, by its first name.
    of_root: BTreeMap<String, Vec<String>>,
    /// Position of the last node that reads a name; outputs come after all nodes.
    last_read: BTreeMap<String, usize>,
    /// Names whose value is of before an overwrite of their buffer.
    stale: BTreeSet<String>,
    /// Extents on whose values it depends whether a name shares its buffer.
    doubts: BTreeMap<String, Vec<Dim>>,
}

/// A node whose results may be views, with its values.
pub(super) struct Produced<'a> {
    pub(super) target: &'a str,
    pub(super) node: &'a NodeJson,
    /// Of the first operand.
    pub(super) operand: Value,
    pub(super) results: &'a [(&'a str, Value)],
    pub(super) names: &'a dyn Names,
}

impl Aliases {
    pub(super) fn new(program: &Program) -> Self {
        let mut last_read = BTreeMap::new();
        for (at, node) in program.graph_module.graph.nodes.iter().enumerate() {
            for name in operands(node) {
                last_read.insert(name.to_owned(), at);
            }
        }
        for spec in &program.graph_module.signature.output_specs {
            let name = match &spec.body.arg {
                Some(SpecArg::Name(name) | SpecArg::Argument(Argument::Tensor(name))) => name,
                _ => continue,
            };
            last_read.insert(name.clone(), usize::MAX);
        }
        // What the caller holds is read by the caller.
        for spec in &program.graph_module.signature.input_specs {
            if let Some(SpecArg::Name(name) | SpecArg::Argument(Argument::Tensor(name))) = &spec.body.arg {
                last_read.insert(name.clone(), usize::MAX);
            }
        }
        Aliases { last_read, ..Aliases::default() }
    }

    /// Notes which results of a node are views of its first operand, or of the one of the same number.
    pub(super) fn note(&mut self, b: &Builder, program: &Program, produced: &Produced<'_>) {
        let Produced { target, node, operand, results, names } = *produced;
        if VIEWS_OF_EACH.contains(&target) {
            for (source, &(name, value)) in operands(node).zip(results) {
                let steps = names.value(source).and_then(|source| steps::between(b, source, value));
                self.share(name, source, steps);
            }
            return;
        }
        let Some(source) = first_operand(node) else { return };
        let metas = &program.graph_module.graph.tensor_values;
        for &(name, value) in results {
            let known = steps::between(b, operand, value);
            let steps = if VIEWS.contains(&target) {
                if known.is_none() && PLACED.contains(&target) && self.place(b, source, (name, value), names) {
                    continue;
                }
                known
            } else if VIEWS_BY_STRIDES.contains(&target) {
                match (known, shares(names, source, target, &b.ty(value).shape)) {
                    (_, Some(false)) => continue,
                    (steps, Some(true)) => steps,
                    (_, None) => {
                        self.doubts.insert(name.to_owned(), b.ty(operand).shape);
                        None
                    }
                }
            } else if VIEWS_AT_TIMES.contains(&target) {
                match known {
                    Some(steps) => Some(steps),
                    None => continue,
                }
            } else if CONVERSIONS.contains(&target) {
                let moved = metas.get(source).zip(metas.get(name)).is_some_and(|(a, b)| a.device != b.device);
                let copied = node.inputs.iter().any(|i| i.name == "copy" && matches!(i.arg, Argument::Bool(true)));
                match known {
                    Some(steps) if !moved && !copied => Some(steps),
                    _ => continue,
                }
            } else {
                return;
            };
            self.share(name, source, steps);
        }
    }

    /// Notes a view by the places of its elements in its buffer, if these are known.
    fn place(&mut self, b: &Builder, source: &str, (name, value): (&str, Value), names: &dyn Names) -> bool {
        let View { root, steps } = self.view(source);
        let of_floats = !names.is_complex(&root) && !names.is_complex(name);
        let alike = names.value(&root).is_some_and(|root| b.dtype(root) == b.dtype(value));
        let memory = names.memory(&root).zip(names.memory(name)).filter(|_| steps.is_some() && alike && of_floats);
        let Some(step) = memory.and_then(|(base, view)| strided::by_places(b, &base, &view, names)) else {
            return false;
        };
        self.of_root.entry(root.clone()).or_default().push(name.to_owned());
        self.views.insert(name.to_owned(), View { root, steps: Some(vec![step]) });
        true
    }

    /// The extents on whose values it depends whether a name shares its buffer.
    pub(super) fn doubts(&self, name: &str) -> &[Dim] {
        self.doubts.get(name).map_or(&[], Vec::as_slice)
    }

    /// Notes that a name is cut out of what another stands for.
    pub(super) fn share(&mut self, name: &str, source: &str, steps: Option<Vec<Step>>) {
        let View { root, steps: before } = self.view(source);
        let steps = before.zip(steps).map(|(mut before, after)| {
            before.extend(after);
            before
        });
        if let Some(extents) = self.doubts.get(source).cloned() {
            self.doubts.entry(name.to_owned()).or_default().extend(extents);
        }
        self.of_root.entry(root.clone()).or_default().push(name.to_owned());
        self.views.insert(name.to_owned(), View { root, steps });
    }

    /// The buffer of a name and the way to it; a name that is no view is its own buffer.
    pub(super) fn view(&self, name: &str) -> View {
        let own = || View { root: name.to_owned(), steps: Some(Vec::new()) };
        self.views.get(name).cloned().unwrap_or_else(own)
    }

    /// The other names of the buffer that are read after node `at`, the root first.
    pub(super) fn readers_after(&self, root: &str, name: &str, at: usize) -> Vec<String> {
        let views = self.of_root.get(root).map_or(&[][..], Vec::as_slice).iter().map(String::as_str);
        let read = |other: &&str| *other != name && self.last_read.get(*other).is_some_and(|&last| last > at);
        [root].into_iter().chain(views).filter(read).map(str::to_owned).collect()
    }

    /// Notes that a name is its own buffer from now on.
    pub(super) fn detach(&mut self, name: &str) {
        self.views.remove(name);
    }

    /// Notes that a name's value is of before an overwrite, or is to be read from its buffer.
    pub(super) fn outdated(&mut self, name: String) {
        self.stale.insert(name);
    }

    /// Whether a name's value is to be cut out of its buffer before it is next read.
    pub(super) fn is_outdated(&self, name: &str) -> bool {
        self.stale.contains(name)
    }

    /// Whether a name's value was of before an overwrite; from now on it counts as current.
    pub(super) fn refresh(&mut self, name: &str) -> bool {
        self.stale.remove(name)
    }
}

/// Whether an op of [`VIEWS_BY_STRIDES`] shares the buffer of its operand; `None` where that depends on sizes.
fn shares(names: &dyn Names, source: &str, target: &str, to: &[Dim]) -> Option<bool> {
    let tensor = names.memory(source)?;
    let sharing = Sharing { tensor: &tensor, names };
    match target {
        "aten.contiguous" | "aten.ravel" => sharing.is_contiguous(),
        _ => sharing.is_viewed(to),
    }
}

/// Whether the results of an op are views of its first operand, whatever the strides of that.
pub(super) fn is_view(target: &str) -> bool {
    VIEWS.contains(&target)
}

/// The tensors among the arguments of a node.
pub(super) fn operands(node: &NodeJson) -> impl Iterator<Item = &str> {
    node.inputs.iter().flat_map(|input| tensors(&input.arg))
}

/// The first tensor among the arguments of a node.
pub(super) fn first_operand(node: &NodeJson) -> Option<&str> {
    node.inputs.first().and_then(|input| tensors(&input.arg).next())
}

/// The tensors of an argument.
pub(super) fn tensors(argument: &Argument) -> impl Iterator<Item = &str> {
    let (one, many): (Option<&str>, &[String]) = match argument {
        Argument::Tensor(name) => (Some(name), &[]),
        Argument::Tensors(list) => (None, list),
        _ => (None, &[]),
    };
    let optional: &[Option<String>] = match argument {
        Argument::OptionalTensors(list) => list,
        _ => &[],
    };
    one.into_iter().chain(many.iter().map(String::as_str)).chain(optional.iter().flatten().map(String::as_str))
}
