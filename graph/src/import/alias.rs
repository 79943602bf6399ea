//! Which names of the file share a buffer, and until when each is read.

use std::collections::BTreeMap;

use super::schema::{Argument, NodeJson, Program, SpecArg};

/// Ops whose result is their first operand's buffer in another shape.
const RESHAPES: &[&str] = &[
    "aten.view",
    "aten._unsafe_view",
    "aten.reshape",
    "aten.view_as",
    "aten.reshape_as",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.unsqueeze",
    "aten.squeeze",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.alias",
    "aten.detach",
    "aten.detach_",
    "aten.contiguous",
    "aten.lift_fresh",
    "aten.to.dtype",
    "aten.to.device",
    "aten.to.dtype_layout",
    "aten.to.other",
    "aten.type_as",
    "aten.dropout",
];

/// Ops whose results are parts or rearrangements of their first operand's buffer.
const PARTS: &[&str] = &[
    "aten.slice.Tensor",
    "aten.narrow",
    "aten.select.int",
    "aten.unbind.int",
    "aten.chunk",
    "aten.split.Tensor",
    "aten.split_with_sizes",
    "aten.expand",
    "aten.expand_as",
    "aten.permute",
    "aten.transpose.int",
    "aten.t",
    "aten.numpy_T",
    "aten.diagonal",
    "aten.as_strided",
    "aten.unfold",
];

/// The sharing of buffers, filled in node by node.
#[derive(Default)]
pub(super) struct Aliases {
    /// Of a view: its buffer's first name, and whether it is all of it in order.
    views: BTreeMap<String, (String, bool)>,
    /// Position of the last node that reads a name; outputs come after all nodes.
    last_read: BTreeMap<String, usize>,
}

impl Aliases {
    pub(super) fn new(program: &Program) -> Self {
        let mut last_read = BTreeMap::new();
        for (at, node) in program.graph_module.graph.nodes.iter().enumerate() {
            for name in node.inputs.iter().flat_map(|input| tensors(&input.arg)) {
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
        Aliases { views: BTreeMap::new(), last_read }
    }

    /// Notes that results of a node are views of its first operand, if they are.
    pub(super) fn note(&mut self, target: &str, node: &NodeJson, results: &[&str]) {
        let whole = RESHAPES.contains(&target);
        if !whole && !PARTS.contains(&target) {
            return;
        }
        let Some(source) = node.inputs.first().and_then(|input| tensors(&input.arg).next()) else { return };
        let (root, source_whole) = match self.views.get(source) {
            Some((root, whole)) => (root.clone(), *whole),
            None => (source.to_owned(), true),
        };
        for result in results {
            self.views.insert((*result).to_owned(), (root.clone(), whole && source_whole));
        }
    }

    /// The first name of the buffer.
    pub(super) fn root<'a>(&'a self, name: &'a str) -> &'a str {
        self.views.get(name).map_or(name, |(root, _)| root)
    }

    /// Whether the name stands for the whole buffer in order.
    pub(super) fn is_whole(&self, name: &str) -> bool {
        self.views.get(name).is_none_or(|(_, whole)| *whole)
    }

    /// All names of the buffer but `name`.
    pub(super) fn sharing(&self, root: &str, name: &str) -> Vec<String> {
        let views = self.views.iter().filter(|(_, (r, _))| r == root).map(|(view, _)| view.as_str());
        views.chain([root]).filter(|other| *other != name).map(str::to_owned).collect()
    }

    /// Whether a name is read by a node after `at` or returned.
    pub(super) fn read_after(&self, name: &str, at: usize) -> bool {
        self.last_read.get(name).is_some_and(|&last| last > at)
    }
}

fn tensors(argument: &Argument) -> impl Iterator<Item = &str> {
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
