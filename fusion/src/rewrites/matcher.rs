//! Matching one side of a rewrite against a graph under construction, and building the other.

use std::collections::BTreeMap;

use fusewright_graph::prim::Literal;
use fusewright_graph::text::{Bindings, RuleNode, RuleOp};
use fusewright_graph::{Builder, Graph, Op, Prim, TensorType, TypeError, Value, infer, num};

use super::{Counts, Rewrite};
use crate::passes::{bounds, layout};

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
        *fuel -= 1;
    }
    b.op(op, &operands)
}

/// Equations that are code: what a primitive is by them.
type Coded = fn(&Builder, &Prim, &[Value]) -> Result<Option<Form>, TypeError>;

fn coded(b: &Builder, op: &Op, operands: &[Value], counts: &mut Counts) -> Result<Option<Form>, TypeError> {
    let Op::Prim(prim) = op else { return Ok(None) };
    for (name, rule) in [("layout", layout::rule as Coded), ("bounds", bounds::rule)] {
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
        if plan.ty(b).as_ref() != result_type(b, op, operands).as_ref() {
            continue;
        }
        *counts.entry(rewrite.name.clone()).or_default() += 1;
        return plan.build(b, rules, fuel, counts).map(Some);
    }
    Ok(None)
}

fn result_type(b: &Builder, op: &Op, operands: &[Value]) -> Option<TensorType> {
    let types: Vec<TensorType> = operands.iter().map(|&v| b.ty(v)).collect();
    type_of(op, &types)
}

/// The type of an op's one result.
fn type_of(op: &Op, operands: &[TensorType]) -> Option<TensorType> {
    let operands: Vec<&TensorType> = operands.iter().collect();
    let types = match op {
        Op::Prim(prim) => infer(prim, &operands),
        Op::Composite(composite) => composite.infer(&operands),
    };
    let mut types = types.ok()?;
    if types.len() == 1 { types.pop() } else { None }
}

/// What the names of a left side stand for.
#[derive(Clone, Default)]
struct Instance<'r> {
    values: BTreeMap<&'r str, Value>,
    attrs: Bindings,
}

/// What a rewrite's left side stands for in a node, if the node is of that form.
fn instance<'r>(b: &Builder, rewrite: &'r Rewrite, op: &Op, operands: &[Value]) -> Option<Instance<'r>> {
    let root = rewrite.lhs.nodes.last()?;
    matched(b, rewrite, root, (op, operands), Instance::default())
}

fn matched<'r>(
    b: &Builder,
    rewrite: &'r Rewrite,
    node: &'r RuleNode,
    found: (&Op, &[Value]),
    mut state: Instance<'r>,
) -> Option<Instance<'r>> {
    let (op, operands) = found;
    if node.operands.len() != operands.len() || !node.op.matches(op, &mut state.attrs) {
        return None;
    }
    let commutes = matches!(op, Op::Prim(Prim::Map(f)) if f.spec().commutative);
    let mut orders = vec![operands.to_vec()];
    if commutes {
        orders.push(operands.to_vec());
        orders[1].swap(0, 1);
    }
    orders.into_iter().find_map(|order| {
        let mut pairs = node.operands.iter().zip(order);
        pairs.try_fold(state.clone(), |state, (name, value)| operand(b, rewrite, name, value, state))
    })
}

fn operand<'r>(
    b: &Builder,
    rewrite: &'r Rewrite,
    name: &'r str,
    value: Value,
    mut state: Instance<'r>,
) -> Option<Instance<'r>> {
    if let Some(&known) = state.values.get(name) {
        return (known == value).then_some(state);
    }
    if let Some(param) = rewrite.lhs.params.iter().find(|p| p.name == name) {
        if !param.admits(b.dtype(value)) {
            return None;
        }
    } else {
        let node = rewrite.lhs.nodes.iter().find(|n| n.results[0] == name)?;
        if let RuleOp::Constant(_) = &node.op {
            let literal = uniform(b, value)?;
            if node.op.constant(literal.dtype()) != Some(literal) {
                return None;
            }
        } else {
            let (op, operands) = b.definition(value)?;
            // A definition does not say which of several results the value is.
            if matches!(op, Op::Prim(Prim::TopK { .. } | Prim::Opaque { .. }) | Op::Composite(_)) {
                return None;
            }
            state = matched(b, rewrite, node, (&op, &operands), state)?;
        }
    }
    state.values.insert(name, value);
    Some(state)
}

/// The literal that every element of a value is.
pub(crate) fn uniform(b: &Builder, value: Value) -> Option<Literal> {
    match b.definition(value)? {
        (Op::Prim(Prim::Literal(literal)), _) => Some(literal),
        (Op::Prim(Prim::Reshape { .. } | Prim::Expand { .. } | Prim::Permute { .. }), source) => uniform(b, source[0]),
        (Op::Prim(Prim::Cast { to, round, saturate }), source) => match uniform(b, source[0])? {
            Literal::Float(_, v) if to.is_float() => Some(Literal::Float(to, num::round_to(to, v, round, saturate))),
            _ => None,
        },
        _ => None,
    }
}

/// An operand of a planned node.
#[derive(Clone, Copy)]
enum Source {
    Old(Value),
    New(usize),
}

/// A right side with everything in its place, not built yet.
struct Plan {
    nodes: Vec<(Op, Vec<Source>, TensorType)>,
    result: Source,
}

impl Plan {
    /// The right side for what the left one stands for; `None` where it has no meaning there.
    fn of(b: &Builder, rewrite: &Rewrite, bound: &Instance<'_>) -> Option<Plan> {
        let mut plan = Plan { nodes: Vec::new(), result: Source::New(0) };
        let mut names: BTreeMap<&str, Source> = BTreeMap::new();
        for param in &rewrite.lhs.params {
            names.insert(&param.name, Source::Old(*bound.values.get(param.name.as_str())?));
        }
        let mut constants: BTreeMap<&str, &RuleOp> = BTreeMap::new();
        for node in &rewrite.rhs.nodes {
            let name = node.results[0].as_str();
            // A node of both sides stands already.
            let shared = rewrite.lhs.nodes.contains(node).then(|| bound.values.get(name)).flatten();
            if let Some(&value) = shared {
                names.insert(name, Source::Old(value));
            } else if let RuleOp::Constant(_) = node.op {
                constants.insert(name, &node.op);
            } else {
                let source = plan.node(b, node, bound, (&names, &constants))?;
                names.insert(name, source);
            }
        }
        plan.result = *names.get(rewrite.rhs.yields[0].as_str())?;
        Some(plan)
    }

    fn node(
        &mut self,
        b: &Builder,
        node: &RuleNode,
        bound: &Instance<'_>,
        (names, constants): (&BTreeMap<&str, Source>, &BTreeMap<&str, &RuleOp>),
    ) -> Option<Source> {
        let op = node.op.instantiate(&bound.attrs).ok()?;
        // The last operand that has a dtype gives it to constants: the first may be a condition.
        let known = node.operands.iter().rev().find_map(|name| names.get(name.as_str()));
        let mut sources = Vec::new();
        for name in &node.operands {
            sources.push(match (names.get(name.as_str()), constants.get(name.as_str())) {
                (Some(&source), _) => source,
                (None, constant) => {
                    let literal = constant?.constant(self.type_of(b, *known?).dtype)?;
                    self.push(b, Op::Prim(Prim::Literal(literal)), Vec::new())?
                }
            });
        }
        self.push(b, op, sources)
    }

    fn push(&mut self, b: &Builder, op: Op, sources: Vec<Source>) -> Option<Source> {
        let types: Vec<TensorType> = sources.iter().map(|&s| self.type_of(b, s)).collect();
        let ty = type_of(&op, &types)?;
        self.nodes.push((op, sources, ty));
        Some(Source::New(self.nodes.len() - 1))
    }

    fn type_of(&self, b: &Builder, source: Source) -> TensorType {
        match source {
            Source::Old(value) => b.ty(value),
            Source::New(index) => self.nodes[index].2.clone(),
        }
    }

    fn ty(&self, b: &Builder) -> Option<TensorType> {
        Some(self.type_of(b, self.result))
    }

    /// Adds all nodes but the last, which is the new form.
    fn build(
        mut self,
        b: &Builder,
        rules: &Rules<'_>,
        fuel: &mut usize,
        counts: &mut Counts,
    ) -> Result<Form, TypeError> {
        if let Source::Old(value) = self.result {
            return Ok(Form::Value(value));
        }
        let mut built: Vec<Value> = Vec::new();
        let old = |built: &[Value], sources: &[Source]| -> Vec<Value> {
            sources.iter().map(|s| if let Source::Old(v) = s { *v } else { built[index(s)] }).collect()
        };
        let last = self.nodes.pop();
        for (op, sources, _) in self.nodes {
            let operands = old(&built, &sources);
            *fuel = fuel.saturating_sub(1);
            built.push(simplest(b, rules, (op, operands), fuel, counts)?[0]);
        }
        let (op, sources, _) = last.expect("the result is a planned node");
        Ok(Form::Node(op, old(&built, &sources)))
    }
}

fn index(source: &Source) -> usize {
    match source {
        Source::New(index) => *index,
        Source::Old(_) => unreachable!("only planned nodes have an index"),
    }
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
