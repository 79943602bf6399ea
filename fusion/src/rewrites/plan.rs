//! The right side of a rewrite for one match: typed first, built after.

use std::collections::BTreeMap;

use fusewright_graph::text::{RuleNode, RuleOp};
use fusewright_graph::{Op, Prim, TensorType, TypeError, Value};

use super::Rewrite;
use super::apply::{Form, types_of};
use super::matcher::{Instance, Source};

/// An operand of a planned node.
#[derive(Clone, Copy, Debug)]
enum Place {
    Old(Value),
    /// Node and which of its results.
    New(usize, usize),
}

#[derive(Debug)]
struct Planned {
    op: Op,
    operands: Vec<Place>,
    types: Vec<TensorType>,
}

/// A right side with everything in its place, not built yet.
#[derive(Debug)]
pub(crate) struct Plan {
    nodes: Vec<Planned>,
    results: Vec<Place>,
}

/// Adds a node to what is being built.
pub(crate) type Add<'a> = &'a mut dyn FnMut(Op, &[Value]) -> Result<Vec<Value>, TypeError>;

impl Plan {
    /// The right side for what the left one stands for; `None` where it has no meaning there.
    pub fn of<S: Source>(source: &S, rewrite: &Rewrite, bound: &Instance<'_>) -> Option<Plan> {
        let mut plan = Plan { nodes: Vec::new(), results: Vec::new() };
        let mut names: BTreeMap<&str, Place> = BTreeMap::new();
        for param in &rewrite.lhs.params {
            names.insert(&param.name, Place::Old(*bound.values.get(param.name.as_str())?));
        }
        let mut constants: BTreeMap<&str, &RuleOp> = BTreeMap::new();
        for node in &rewrite.rhs.nodes {
            // A node of both sides stands already, unless one of its operands is another here.
            let stands = |name: &String| match names.get(name.as_str()) {
                Some(Place::Old(value)) => bound.values.get(name.as_str()) == Some(value),
                _ => false,
            };
            let shared = rewrite.lhs.nodes.contains(node) && node.operands.iter().all(stands);
            let known = |name: &String| shared.then(|| bound.values.get(name.as_str())).flatten();
            if let Some(values) = node.results.iter().map(known).collect::<Option<Vec<&Value>>>() {
                names.extend(node.results.iter().zip(values).map(|(name, v)| (name.as_str(), Place::Old(*v))));
            } else if let RuleOp::Constant(_) = node.op {
                constants.insert(&node.results[0], &node.op);
            } else {
                let index = plan.node(source, node, bound, (&names, &constants))?;
                if plan.nodes[index].types.len() != node.results.len() {
                    return None;
                }
                names.extend(node.results.iter().enumerate().map(|(i, r)| (r.as_str(), Place::New(index, i))));
            }
        }
        for name in &rewrite.rhs.yields {
            plan.results.push(*names.get(name.as_str())?);
        }
        Some(plan)
    }

    fn node<S: Source>(
        &mut self,
        source: &S,
        node: &RuleNode,
        bound: &Instance<'_>,
        (names, constants): (&BTreeMap<&str, Place>, &BTreeMap<&str, &RuleOp>),
    ) -> Option<usize> {
        let op = node.op.instantiate(&bound.attrs).ok()?;
        // The last operand that has a dtype gives it to constants: the first may be a condition.
        let known = node.operands.iter().rev().find_map(|name| names.get(name.as_str()));
        let mut operands = Vec::new();
        for name in &node.operands {
            operands.push(match (names.get(name.as_str()), constants.get(name.as_str())) {
                (Some(&place), _) => place,
                (None, constant) => {
                    let literal = constant?.constant(self.type_of(source, *known?).dtype)?;
                    Place::New(self.push(source, Op::Prim(Prim::Literal(literal)), Vec::new())?, 0)
                }
            });
        }
        self.push(source, op, operands)
    }

    fn push<S: Source>(&mut self, source: &S, op: Op, operands: Vec<Place>) -> Option<usize> {
        let given: Vec<TensorType> = operands.iter().map(|&p| self.type_of(source, p)).collect();
        let types = types_of(&op, &given)?;
        self.nodes.push(Planned { op, operands, types });
        Some(self.nodes.len() - 1)
    }

    fn type_of<S: Source>(&self, source: &S, place: Place) -> TensorType {
        match place {
            Place::Old(value) => source.ty(value),
            Place::New(node, result) => self.nodes[node].types[result].clone(),
        }
    }

    /// Types of the results.
    pub fn types<S: Source>(&self, source: &S) -> Vec<TensorType> {
        self.results.iter().map(|&p| self.type_of(source, p)).collect()
    }

    /// Adds all nodes but the last, which is the new form of a node with one result.
    pub fn form(mut self, add: Add<'_>) -> Result<Form, TypeError> {
        match self.results.first() {
            Some(&Place::Old(value)) => Ok(Form::Value(value)),
            _ => {
                let last = self.nodes.pop().expect("the result is a planned node");
                let built = self.add_all(&|v| v, add)?;
                Ok(Form::Node(last.op, last.operands.iter().map(|p| at(&built, &|v| v, *p)).collect()))
            }
        }
    }

    /// Adds all nodes, with values of the old graph replaced by those of the new one, and gives the results.
    pub fn build(&self, map: &dyn Fn(Value) -> Value, add: Add<'_>) -> Result<Vec<Value>, TypeError> {
        let built = self.add_all(map, add)?;
        Ok(self.results.iter().map(|p| at(&built, map, *p)).collect())
    }

    fn add_all(&self, map: &dyn Fn(Value) -> Value, add: Add<'_>) -> Result<Vec<Vec<Value>>, TypeError> {
        let mut built: Vec<Vec<Value>> = Vec::new();
        for node in &self.nodes {
            let operands: Vec<Value> = node.operands.iter().map(|p| at(&built, map, *p)).collect();
            built.push(add(node.op.clone(), &operands)?);
        }
        Ok(built)
    }
}

fn at(built: &[Vec<Value>], map: &dyn Fn(Value) -> Value, place: Place) -> Value {
    match place {
        Place::Old(value) => map(value),
        Place::New(node, result) => built[node][result],
    }
}
