//! What becomes of each step of a program: recorded, or enqueued by every call, and why.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::{Def, Dim, NodeId, Op, Prim, Value};
use fusewright_runtime::capture::Part;

use super::rows::{apart, chooser};
use crate::Error;
use crate::program::layout::View;
use crate::program::step::{Step, Work};
use crate::program::{Program, words};

/// A step that every call enqueues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SplitStep {
    /// What it is called.
    pub step: String,
    /// Why it is not recorded.
    pub reason: String,
}

/// What becomes of a program's steps.
#[derive(Debug)]
pub(super) struct Parts {
    pub parts: Vec<Part>,
    pub split: Vec<SplitStep>,
    /// The numbers of the caller's inputs that choose places: padding is −1.
    pub choosers: BTreeSet<usize>,
}

/// Divides the steps of a program, whose rows `symbol` counts. Those that `named` names are split off: by the name of a
/// region, or of one of their ops.
///
/// # Errors
/// A name that no step has; internal errors.
pub(super) fn parts(program: &Program, symbol: &str, named: &[String]) -> Result<Parts, Error> {
    let mut found = Parts { parts: Vec::new(), split: Vec::new(), choosers: BTreeSet::new() };
    let unsteady = unsteady(program, symbol);
    // Values that an idle step makes of rows that are not known before a call.
    let mut tainted: BTreeSet<Value> = BTreeSet::new();
    let mut unknown: BTreeSet<&String> = named.iter().collect();
    for step in &program.steps {
        let judged = judge(program, step, symbol)?;
        if matches!(step.work, Work::View | Work::Constant(_)) {
            let reads = step.inputs.iter().any(|input| tainted.contains(input));
            if reads || judged.rows.as_ref().map_or(true, |places| !places.is_empty()) {
                tainted.extend(&step.outputs);
            }
            found.parts.push(Part::Idle);
            continue;
        }
        let name = named.iter().find(|name| judged.names.contains(*name));
        unknown.retain(|name| !judged.names.contains(*name));
        let touched = || step.inputs.iter().chain(&step.outputs);
        let computed = touched().find(|value| tainted.contains(value));
        let moves = touched().find(|value| unsteady.contains_key(value));
        let choosers: Option<BTreeSet<usize>> =
            judged.rows.iter().flatten().map(|&places| chooser(&program.graph, places)).collect();
        let reason = match (name, &judged.rows, computed, moves) {
            (Some(name), ..) => Some(format!("`{name}` is to be split off")),
            (None, Err(reason), ..) => Some(reason.clone()),
            (None, Ok(_), Some(value), _) => {
                Some(format!("{} depends on how many rows there are", words::name(&program.graph, *value)))
            }
            (None, Ok(_), None, Some(value)) => Some(unsteady[value].clone()),
            (None, Ok(_), None, None) if choosers.is_none() => {
                Some("no input says that padding rows write nothing".to_owned())
            }
            (None, Ok(_), None, None) if by_interpreter(step) => {
                Some("the interpreter takes no places that padding makes up".to_owned())
            }
            (None, Ok(_), None, None) => None,
        };
        match reason {
            Some(reason) => {
                found.parts.push(Part::Split);
                found.split.push(SplitStep { step: words::step(step), reason });
            }
            None => {
                found.parts.push(Part::Captured);
                found.choosers.extend(choosers.into_iter().flatten());
            }
        }
    }
    match unknown.first() {
        Some(name) => Err(Error::Call(format!("no step of `{}` is, or has an op, `{name}`", program.graph.name()))),
        None => Ok(found),
    }
}

/// What is known of a step from its nodes.
struct Judged {
    /// Its region and its ops.
    names: BTreeSet<String>,
    /// The operands that choose places, if it keeps rows apart; else why not.
    rows: Result<Vec<Value>, String>,
}

fn judge(program: &Program, step: &Step, symbol: &str) -> Result<Judged, Error> {
    let graph = &program.graph;
    let label = step.label.split(" [").next().unwrap_or(&step.label);
    let mut judged = Judged { names: BTreeSet::from([label.to_owned()]), rows: Ok(Vec::new()) };
    for id in nodes(program, step) {
        let node = graph.node(id);
        judged.names.insert(node.op.name().to_owned());
        let apart = apart(graph, node, symbol)?.map_err(|reason| format!("`{}`: {reason}", node.op.name()));
        judged.rows = match (judged.rows, apart) {
            (Ok(mut places), Ok(more)) => {
                places.extend(more);
                Ok(places)
            }
            (Err(reason), _) | (_, Err(reason)) => Err(reason),
        };
    }
    Ok(judged)
}

/// The nodes between a step's operands and its results, in the order of the graph.
fn nodes(program: &Program, step: &Step) -> BTreeSet<NodeId> {
    let (mut open, mut found) = (step.outputs.clone(), BTreeSet::new());
    while let Some(value) = open.pop() {
        if let Def::Node(id, _) = program.graph.def(value)
            && !step.inputs.contains(&value)
            && found.insert(id)
        {
            open.extend(&program.graph.node(id).operands);
        }
    }
    found
}

/// Whether the interpreter computes a step that reads or writes chosen places, which it checks.
fn by_interpreter(step: &Step) -> bool {
    let chooses = |op: &Op| matches!(op, Op::Prim(Prim::Gather { .. } | Prim::Scatter { .. } | Prim::ScatterAdd { .. }));
    let Work::Reference(body) = &step.work else { return false };
    // A composite may hold any op.
    body.nodes().iter().any(|node| chooses(&node.op) || matches!(node.op, Op::Composite(_)))
}

/// Values whose first rows lie elsewhere if there are more of them, and why.
fn unsteady(program: &Program, symbol: &str) -> BTreeMap<Value, String> {
    let layouts = &program.layouts;
    let views = layouts.views.iter().chain(&layouts.copies);
    let moves = |view: &View| {
        let strides = view.shape.iter().zip(&view.layout.strides);
        let one = Dim::constant(1);
        view.layout.offset.mentions(symbol) || strides.into_iter().any(|(e, stride)| *e != one && stride.mentions(symbol))
    };
    let of = |(value, view): (&Value, &View)| {
        let name = words::name(&program.graph, *value);
        moves(view).then(|| (*value, format!("where rows of {name} lie depends on how many there are")))
    };
    views.filter_map(of).collect()
}
