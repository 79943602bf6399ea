//! What becomes of each step of a program: recorded, or enqueued by every call, and why.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::{Def, NodeId, Op, Prim, Value};
use fusewright_runtime::capture::Part;

use super::rows::{apart, chooser};
use super::unsteady;
use crate::Error;
use crate::program::device::runs_on_host;
use crate::program::layout::Home;
use crate::program::step::{Step, Work};
use crate::program::{Program, words};

/// The op that is split off by name where it was taken apart, too.
const ATTENTION: &str = "sdpa";

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
    /// Values whose rows lie in calls of fewer rows where they lie in those of a whole size.
    pub spread: BTreeSet<Value>,
}

/// Divides the steps of a program whose values lie in `home` and whose rows `symbol` counts. Those that `named` names are split off: by the name of a
/// region, or of one of their ops.
///
/// # Errors
/// A name that no step has; internal errors.
pub(super) fn parts(program: &Program, symbol: &str, named: &[String], home: Home) -> Result<Parts, Error> {
    // Values that an idle step makes of rows that are not known before a call.
    let mut tainted: BTreeSet<Value> = BTreeSet::new();
    let mut unknown: BTreeSet<&String> = named.iter().collect();
    // Why steps are not recorded, and what is to be told that it chooses no places, by the numbers of the steps.
    let (mut reasons, mut choosers) = (BTreeMap::new(), BTreeMap::new());
    for (number, step) in program.steps.iter().enumerate() {
        let judged = judge(program, step, symbol)?;
        if is_idle(step) {
            let reads = step.inputs.iter().any(|input| tainted.contains(input));
            if reads || judged.rows.as_ref().map_or(true, |places| !places.is_empty()) {
                tainted.extend(&step.outputs);
            }
            continue;
        }
        unknown.retain(|name| !judged.names.contains(*name));
        match reason(program, step, &judged, (named, home), &tainted) {
            Ok(chosen) => drop(choosers.insert(number, chosen)),
            Err(reason) => drop(reasons.insert(number, reason)),
        }
    }
    if let Some(name) = unknown.first() {
        return Err(Error::Call(format!("no step of `{}` is, or has an op, `{name}`", program.graph.name())));
    }
    let spread = unsteady::divide(program, symbol, &mut reasons);
    let part = |(number, step): (usize, &Step)| match (is_idle(step), reasons.contains_key(&number)) {
        (true, _) => Part::Idle,
        (false, true) => Part::Split,
        (false, false) => Part::Captured,
    };
    let parts = program.steps.iter().enumerate().map(part).collect();
    choosers.retain(|number, _| !reasons.contains_key(number));
    let split =
        reasons.into_iter().map(|(number, reason)| SplitStep { step: words::step(&program.steps[number]), reason });
    Ok(Parts { parts, split: split.collect(), choosers: choosers.into_values().flatten().collect(), spread })
}

/// Whether a step does nothing when a call runs.
pub(super) fn is_idle(step: &Step) -> bool {
    matches!(step.work, Work::View | Work::Constant(_))
}

/// The inputs that are to choose no places for padding if a step is recorded, or why it is not.
fn reason(
    program: &Program,
    step: &Step,
    judged: &Judged,
    (named, home): (&[String], Home),
    tainted: &BTreeSet<Value>,
) -> Result<BTreeSet<usize>, String> {
    if let Some(name) = named.iter().find(|name| judged.names.contains(*name)) {
        return Err(format!("`{name}` is to be split off"));
    }
    if home == Home::Device && runs_on_host(step) {
        return Err("it runs on the host".to_owned());
    }
    let places = judged.rows.as_ref().map_err(Clone::clone)?;
    if let Some(value) = step.inputs.iter().find(|value| tainted.contains(value)) {
        return Err(format!("{} depends on how many rows there are", words::name(&program.graph, *value)));
    }
    if by_interpreter(step) {
        return Err("the interpreter takes no places that padding makes up".to_owned());
    }
    let choosers = places.iter().map(|&places| chooser(&program.graph, places)).collect::<Option<_>>();
    choosers.ok_or_else(|| "no input says that padding rows write nothing".to_owned())
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
        if program.attention.contains(&id) {
            judged.names.insert(ATTENTION.to_owned());
        }
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
    let chooses =
        |op: &Op| matches!(op, Op::Prim(Prim::Gather { .. } | Prim::Scatter { .. } | Prim::ScatterReduce { .. }));
    let Work::Reference(body) = &step.work else { return false };
    // A composite may hold any op.
    body.nodes().iter().any(|node| chooses(&node.op) || matches!(node.op, Op::Composite(_)))
}
