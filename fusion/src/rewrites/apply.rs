//! Rewriting a graph under construction to a fixed point: each new node takes its simplest form.

use std::collections::BTreeMap;

use fusewright_graph::text::{RuleNode, RuleOp};
use fusewright_graph::{Builder, Graph, Op, Prim, TensorType, TypeError, Value, infer};

use super::matcher::{Instance, Search, uniform};
use super::plan::Plan;
use super::{Counts, Rewrite};
use crate::passes::{bounds, layout, places};

/// What a node may be replaced by.
pub(crate) enum Form {
    /// A value that stands already.
    Value(Value),
    /// Another node.
    Node(Op, Vec<Value>),
}

impl Form {
    /// Another primitive.
    pub fn prim(prim: Prim, operands: Vec<Value>) -> Self {
        Form::Node(Op::Prim(prim), operands)
    }
}

/// Rewrites by the name of the op that they end in.
pub(crate) struct Rules<'r> {
    by_root: BTreeMap<&'r str, Vec<&'r Rewrite>>,
    /// Whether the equations that are code apply too.
    layout: bool,
}

impl<'r> Rules<'r> {
    pub fn new(rewrites: impl IntoIterator<Item = &'r Rewrite>, layout: bool) -> Self {
        let mut by_root: BTreeMap<&str, Vec<&Rewrite>> = BTreeMap::new();
        for rewrite in rewrites {
            let name = match rewrite.lhs.nodes.last().map(|n| &n.op) {
                Some(RuleOp::Exact(op)) => op.name(),
                Some(RuleOp::Pattern { name, .. }) => name,
                Some(RuleOp::Constant(_)) | None => continue,
            };
            by_root.entry(name).or_default().push(rewrite);
        }
        Rules { by_root, layout }
    }
}

/// Most rewrites of one node; no chain of the tables comes near.
const FUEL: usize = 256;

/// Adds a node in its simplest form.
///
/// # Errors
/// Operands that do not fit the op.
pub(crate) fn form(
    b: &Builder,
    rules: &Rules<'_>,
    op: &Op,
    operands: &[Value],
    counts: &mut Counts,
) -> Result<Vec<Value>, TypeError> {
    let mut fuel = FUEL;
    simplest(b, rules, (op.clone(), operands.to_vec()), &mut fuel, counts)
}

fn simplest(
    b: &Builder,
    rules: &Rules<'_>,
    node: (Op, Vec<Value>),
    fuel: &mut usize,
    counts: &mut Counts,
) -> Result<Vec<Value>, TypeError> {
    let (mut op, mut operands) = node;
    while *fuel > 0 {
        let found = match rewritten(b, rules, &op, &operands, fuel, counts)? {
            None if rules.layout => coded(b, &op, &operands, counts)?,
            found => found,
        };
        match found {
            None => break,
            Some(Form::Value(value)) => return Ok(vec![value]),
            Some(Form::Node(next, inputs)) => (op, operands) = (next, inputs),
        }
        *fuel = fuel.saturating_sub(1);
    }
    b.op(op, &operands)
}

/// Equations that are code: what a primitive is by them.
type Coded = fn(&Builder, &Prim, &[Value]) -> Result<Option<Form>, TypeError>;

fn coded(b: &Builder, op: &Op, operands: &[Value], counts: &mut Counts) -> Result<Option<Form>, TypeError> {
    let Op::Prim(prim) = op else { return Ok(None) };
    for (name, rule) in [("layout", layout::rule as Coded), ("bounds", bounds::rule), ("places", places::rule)] {
        let found = rule(b, prim, operands)?;
        if found.is_some() {
            *counts.entry(name.to_owned()).or_default() += 1;
            return Ok(found);
        }
    }
    Ok(None)
}

/// The node by the first rewrite that applies.
fn rewritten(
    b: &Builder,
    rules: &Rules<'_>,
    op: &Op,
    operands: &[Value],
    fuel: &mut usize,
    counts: &mut Counts,
) -> Result<Option<Form>, TypeError> {
    for rewrite in rules.by_root.get(op.name()).into_iter().flatten() {
        let Some(bound) = instance(b, rewrite, op, operands) else { continue };
        let Some(plan) = Plan::of(b, rewrite, &bound) else { continue };
        let types: Vec<TensorType> = operands.iter().map(|&v| b.ty(v)).collect();
        if types_of(op, &types).as_deref() != Some(&plan.types(b)[..]) {
            continue;
        }
        *counts.entry(rewrite.name.clone()).or_default() += 1;
        return plan
            .form(&mut |op, operands| {
                *fuel = fuel.saturating_sub(1);
                simplest(b, rules, (op, operands.to_vec()), fuel, counts)
            })
            .map(Some);
    }
    Ok(None)
}

/// The results' types of an op.
pub(super) fn types_of(op: &Op, operands: &[TensorType]) -> Option<Vec<TensorType>> {
    let operands: Vec<&TensorType> = operands.iter().collect();
    match op {
        Op::Prim(prim) => infer(prim, &operands),
        Op::Composite(composite) => composite.infer(&operands),
    }
    .ok()
}

/// What a rewrite's left side stands for in a node, if the node is of that form.
fn instance<'r>(b: &Builder, rewrite: &'r Rewrite, op: &Op, operands: &[Value]) -> Option<Instance<'r>> {
    let root = rewrite.lhs.nodes.last()?;
    if !may_match(b, rewrite, root, op, operands) {
        return None;
    }
    let mut search = Search::new(b, rewrite, None);
    search.node(root, (op, operands, None), Vec::new(), Instance::default(), &mut |_| true)
}

/// Whether the ops that make the operands of a node are those of a pattern, by their names alone: what most rewrites
/// fail by, before any attribute is compared.
fn may_match(b: &Builder, rewrite: &Rewrite, pattern: &RuleNode, op: &Op, operands: &[Value]) -> bool {
    let fits = |(name, &value): (&String, &Value)| {
        let made = rewrite.lhs.nodes.iter().find(|node| node.results.contains(name));
        match made.map(|node| &node.op) {
            None => true,
            Some(RuleOp::Constant(_)) => uniform(b, value).is_some(),
            Some(RuleOp::Exact(op)) => b.look(value, |found, _| found.name() == op.name()) == Some(true),
            Some(RuleOp::Pattern { name, .. }) => b.look(value, |found, _| found.name() == name) == Some(true),
        }
    };
    let names = &pattern.operands;
    let commutes = matches!(op, Op::Prim(Prim::Map(f)) if f.spec().commutative);
    let swapped = || names.iter().rev().zip(operands).all(fits);
    names.len() == operands.len()
        && (names.iter().zip(operands).all(fits) || commutes && (names.len() != 2 || swapped()))
}

/// The graph with some rewrites applied wherever they do, to a fixed point, and how often each did.
///
/// # Errors
/// A rewrite that gives a node operands of the wrong type.
pub fn apply(graph: &Graph, rewrites: &[&Rewrite]) -> Result<(Graph, Counts), TypeError> {
    let rules = Rules::new(rewrites.iter().copied(), false);
    let mut counts = Counts::new();
    let rebuilt = graph.rebuild(|b, _, node, operands| form(b, &rules, &node.op, operands, &mut counts))?;
    Ok((rebuilt, counts))
}
