//! Regions that the training IR keeps as graphs of their own, called by one node: without gradients, or with autocast off.
//!
//! They compute what their nodes compute, so these take the place of the call, with the region's name before their own.
//! A region under autocast stays a call: which operands it casts is not in the file.

use std::collections::BTreeMap;

use super::alias::tensors;
use super::schema::{Argument, GraphJson, Metadata, NamedArgument, NodeJson, SubGraph, SymInt, SymIntArg};
use super::table::short_target;

const AUTOCAST: &str = "higher_order.wrap_with_autocast";
const GRADIENTS: &str = "higher_order.wrap_with_set_grad_enabled";

/// Why a call of a region is kept.
pub(super) fn kept(node: &NodeJson) -> Option<&'static str> {
    (short_target(&node.target) == AUTOCAST && !is_plain(node)).then_some(
        "the file does not say what autocast casts; export with run_decompositions(), which writes the casts",
    )
}

/// Whether a node calls a region that computes what its nodes compute.
fn is_plain(node: &NodeJson) -> bool {
    match short_target(&node.target) {
        GRADIENTS => true,
        // The first of its flags says whether autocast is on.
        AUTOCAST => {
            node.inputs.iter().any(|input| matches!(input.arg, Argument::Bool(_)))
                && !node.inputs.iter().any(|input| matches!(input.arg, Argument::Bool(true)))
        }
        _ => false,
    }
}

/// Puts the nodes of regions in the place of their calls.
pub(super) fn regions(graph: &mut GraphJson) {
    for node in std::mem::take(&mut graph.nodes) {
        place(graph, node);
    }
}

fn place(graph: &mut GraphJson, mut node: NodeJson) {
    let called = node.inputs.iter().position(|input| matches!(input.arg, Argument::Graph(_)));
    let called = called.filter(|&at| is_plain(&node) && fits(&node, at));
    let Some(at) = called else { return graph.nodes.push(node) };
    let operands = node.inputs.split_off(at + 1);
    if let Some(NamedArgument { arg: Argument::Graph(region), .. }) = node.inputs.pop() {
        expand(graph, *region, &operands, &node.outputs);
    }
}

fn names(arguments: &[Argument]) -> Vec<&str> {
    arguments.iter().flat_map(tensors).collect()
}

/// Whether operands and results of a call are those of its region, tensors and sizes alone.
fn fits(node: &NodeJson, at: usize) -> bool {
    let Argument::Graph(region) = &node.inputs[at].arg else { return false };
    let (formal, actual) = (listed(&region.graph.inputs), &node.inputs[at + 1..]);
    let alike = |(formal, actual): (&Argument, &NamedArgument)| {
        matches!(
            (formal, &actual.arg),
            (Argument::Tensor(_), Argument::Tensor(_))
                | (Argument::SymInt(SymIntArg::Name(_)), Argument::SymInt(_) | Argument::Int(_))
        )
    };
    formal.len() == actual.len()
        && formal.iter().zip(actual).all(alike)
        && names(listed(&region.graph.outputs)).len() == names(&node.outputs).len()
}

fn listed(arguments: &Option<Vec<Argument>>) -> &[Argument] {
    arguments.as_deref().unwrap_or_default()
}

/// The names of a region in the graph that it is put into.
struct Renaming {
    prefix: String,
    given: BTreeMap<String, String>,
}

impl Renaming {
    fn of(&self, name: &str) -> String {
        self.given.get(name).cloned().unwrap_or_else(|| format!("{}.{name}", self.prefix))
    }

    fn all(&self, names: &mut [String]) {
        names.iter_mut().for_each(|name| *name = self.of(name));
    }

    fn size(&self, size: &mut SymIntArg) {
        if let SymIntArg::Name(name) = size {
            *name = self.of(name);
        }
    }

    fn argument(&self, argument: &mut Argument) {
        match argument {
            Argument::Tensor(name) => *name = self.of(name),
            Argument::Tensors(names) => self.all(names),
            Argument::OptionalTensors(names) => names.iter_mut().flatten().for_each(|name| *name = self.of(name)),
            Argument::SymInt(size) => self.size(size),
            Argument::SymInts(sizes) => sizes.iter_mut().for_each(|size| self.size(size)),
            _ => {}
        }
    }
}

fn expand(graph: &mut GraphJson, region: SubGraph, operands: &[NamedArgument], results: &[Argument]) {
    let SubGraph { name: mut prefix, graph: body } = region;
    let taken = |prefix: &str| {
        let inside = |name: &String| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'));
        graph.tensor_values.keys().any(inside) || graph.sym_int_values.keys().any(inside)
    };
    while taken(&prefix) {
        prefix.push('_');
    }
    let mut renaming = Renaming { prefix, given: BTreeMap::new() };
    for (formal, actual) in listed(&body.inputs).iter().zip(operands) {
        match (formal, &actual.arg) {
            (Argument::Tensor(formal), Argument::Tensor(actual))
            | (Argument::SymInt(SymIntArg::Name(formal)), Argument::SymInt(SymIntArg::Name(actual))) => {
                renaming.given.insert(formal.clone(), actual.clone());
            }
            (
                Argument::SymInt(SymIntArg::Name(formal)),
                Argument::Int(known) | Argument::SymInt(SymIntArg::Int(known)),
            ) => {
                graph.sym_int_values.insert(renaming.of(formal), SymInt::Int(*known));
            }
            _ => {}
        }
    }
    let own = |name: &String| !renaming.given.contains_key(name);
    let values = body.tensor_values.into_iter().filter(|(name, _)| own(name));
    graph.tensor_values.extend(values.map(|(name, meta)| (renaming.of(&name), meta)));
    for (name, size) in body.sym_int_values.into_iter().filter(|(name, _)| own(name)) {
        graph.sym_int_values.entry(renaming.of(&name)).or_insert(size);
    }
    for mut node in body.nodes {
        node.inputs.iter_mut().for_each(|input| renaming.argument(&mut input.arg));
        node.outputs.iter_mut().for_each(|output| renaming.argument(output));
        node.name = node.name.map(|name| renaming.of(&name));
        place(graph, node);
    }
    for (result, inner) in names(results).into_iter().zip(names(listed(&body.outputs))) {
        let arg = Argument::Tensor(renaming.of(inner));
        graph.nodes.push(NodeJson {
            target: "torch.ops.aten.alias.default".to_owned(),
            inputs: vec![NamedArgument { name: "self".to_owned(), arg }],
            outputs: vec![Argument::Tensor(result.to_owned())],
            metadata: Metadata::default(),
            name: Some(result.to_owned()),
        });
    }
}
