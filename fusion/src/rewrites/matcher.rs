//! Matching the left side of a rewrite: against a graph under construction or a whole one.
//!
//! The search is complete: where operands commute both orders are tried, together with every choice made before, up to
//! [`STEPS`]. Whoever wants to know why nothing matched passes a [`Watch`].

use std::collections::BTreeMap;

use fusewright_graph::prim::Literal;
use fusewright_graph::text::{Bindings, RuleNode, RuleOp, print_literal};
use fusewright_graph::{Builder, DType, Graph, Op, Prim, TensorType, Value, num};

use super::{Rewrite, miss};

/// Most nodes that the search for one match looks at.
const STEPS: usize = 20_000;

/// What a pattern is matched against.
pub(crate) trait Source {
    /// Type of a value.
    fn ty(&self, value: Value) -> TensorType;
    /// Element type of a value.
    fn dtype(&self, value: Value) -> DType;
    /// What makes a value; `None` for an input.
    fn definition(&self, value: Value) -> Option<Definition>;
}

/// A node of a source.
pub(crate) struct Definition {
    /// What it computes.
    pub op: Op,
    /// Its operands.
    pub operands: Vec<Value>,
    /// All its results.
    pub results: Vec<Value>,
}

impl Source for Builder {
    fn ty(&self, value: Value) -> TensorType {
        Builder::ty(self, value)
    }

    fn dtype(&self, value: Value) -> DType {
        Builder::dtype(self, value)
    }

    fn definition(&self, value: Value) -> Option<Definition> {
        let (op, operands) = Builder::definition(self, value)?;
        Some(Definition { op, operands, results: self.beside(value) })
    }
}

impl Source for Graph {
    fn ty(&self, value: Value) -> TensorType {
        Graph::ty(self, value).clone()
    }

    fn dtype(&self, value: Value) -> DType {
        Graph::ty(self, value).dtype
    }

    fn definition(&self, value: Value) -> Option<Definition> {
        let node = self.def_node(value)?;
        Some(Definition { op: node.op.clone(), operands: node.operands.clone(), results: node.results.clone() })
    }
}

/// What the names of a left side stand for.
#[derive(Clone, Default, Debug)]
pub(crate) struct Instance<'r> {
    /// Values by name.
    pub values: BTreeMap<&'r str, Value>,
    /// Variables of attributes.
    pub attrs: Bindings,
    /// Nodes of the left side that matched, constants left out.
    pub matched: usize,
}

/// Is told where matches end.
pub(crate) trait Watch {
    /// A search begins where a name of the left side stands for a value.
    fn begin(&self, name: &str, value: Value);

    /// After so many nodes, a value is not as the pattern says; `why` gives what was expected and what was found. It is
    /// `close` if the op is the right one.
    fn miss(&self, matched: usize, close: bool, at: Value, why: &dyn Fn() -> (String, String));
}

/// Names of the left side and the values that they have to stand for, the next one last.
type Pending<'r> = Vec<(&'r str, Value)>;

/// Whether a complete match is wanted.
pub(crate) type Accept<'a, 'r> = &'a mut dyn FnMut(&Instance<'r>) -> bool;

/// The search for one match.
pub(crate) struct Search<'r, 's, S> {
    source: &'s S,
    rewrite: &'r Rewrite,
    watch: Option<&'s dyn Watch>,
    steps: usize,
}

impl<'r, 's, S: Source> Search<'r, 's, S> {
    pub fn new(source: &'s S, rewrite: &'r Rewrite, watch: Option<&'s dyn Watch>) -> Self {
        Search { source, rewrite, watch, steps: 0 }
    }

    /// The first match in which names stand for given values.
    pub fn values(&mut self, mut wanted: Pending<'r>, accept: Accept<'_, 'r>) -> Option<Instance<'r>> {
        wanted.reverse();
        self.solve(wanted, Instance::default(), accept)
    }

    fn miss(&self, state: &Instance<'r>, close: bool, at: Value, why: &dyn Fn() -> (String, String)) {
        if let Some(watch) = self.watch {
            watch.miss(state.matched, close, at, why);
        }
    }

    fn solve(
        &mut self,
        mut pending: Pending<'r>,
        mut state: Instance<'r>,
        accept: Accept<'_, 'r>,
    ) -> Option<Instance<'r>> {
        let (source, rewrite) = (self.source, self.rewrite);
        while let Some((name, value)) = pending.pop() {
            if let Some(&known) = state.values.get(name) {
                if known != value {
                    self.miss(&state, true, value, &|| miss::another_value(name));
                    return None;
                }
            } else if let Some(param) = rewrite.lhs.params.iter().find(|p| p.name == name) {
                let dtype = source.dtype(value);
                if !param.admits(dtype) {
                    self.miss(&state, true, value, &|| miss::dtype(param, dtype));
                    return None;
                }
                state.values.insert(name, value);
            } else {
                let node = rewrite.lhs.nodes.iter().find(|n| n.results.iter().any(|r| r == name))?;
                if let RuleOp::Constant(text) = &node.op {
                    let literal = uniform(source, value);
                    if !literal.is_some_and(|l| node.op.constant(l.dtype()) == Some(l)) {
                        let found = || literal.map_or("another value".to_owned(), |l| print_literal(&l));
                        self.miss(&state, true, value, &|| (format!("the constant {text}"), found()));
                        return None;
                    }
                    state.values.insert(name, value);
                    continue;
                }
                return self.defined(node, (name, value), pending, state, accept);
            }
        }
        accept(&state).then_some(state)
    }

    /// Goes on with the node that makes a value.
    fn defined(
        &mut self,
        node: &'r RuleNode,
        (name, value): (&'r str, Value),
        pending: Pending<'r>,
        mut state: Instance<'r>,
        accept: Accept<'_, 'r>,
    ) -> Option<Instance<'r>> {
        let Some(found) = self.source.definition(value) else {
            self.miss(&state, false, value, &|| (miss::op(&node.op), "an input of the graph".to_owned()));
            return None;
        };
        let place = found.results.iter().position(|r| *r == value);
        if place != node.results.iter().position(|r| r == name) || found.results.len() != node.results.len() {
            self.miss(&state, true, value, &|| (miss::op(&node.op), miss::result(&found.op, place)));
            return None;
        }
        for (result, &value) in node.results.iter().zip(&found.results) {
            if state.values.insert(result, value).is_some_and(|known| known != value) {
                return None;
            }
        }
        self.node(node, (&found.op, &found.operands, Some(value)), pending, state, accept)
    }

    /// Matches a node, then everything that is pending; the node's results are bound already.
    pub fn node(
        &mut self,
        node: &'r RuleNode,
        (op, operands, value): (&Op, &[Value], Option<Value>),
        pending: Pending<'r>,
        mut state: Instance<'r>,
        accept: Accept<'_, 'r>,
    ) -> Option<Instance<'r>> {
        self.steps += 1;
        if self.steps > STEPS {
            return None;
        }
        let before = state.attrs.clone();
        if node.operands.len() != operands.len() || !node.op.matches(op, &mut state.attrs) {
            if let Some(value) = value {
                let close = miss::op_name(&node.op) == op.name();
                self.miss(&state, close, value, &|| miss::ops(node, op, operands.len(), &before));
            }
            return None;
        }
        state.matched += 1;
        let commutes = matches!(op, Op::Prim(Prim::Map(f)) if f.spec().commutative);
        let mut orders = vec![operands.to_vec()];
        if commutes {
            orders.push(operands.to_vec());
            orders[1].swap(0, 1);
        }
        // Where one order has all that is asked for, what the other lacks is not what breaks the match.
        if let (Some(_), 2) = (self.watch, orders.len())
            && let Some(whole) = orders.iter().position(|order| self.is_whole(node, order, &pending, &state))
        {
            orders = vec![orders.swap_remove(whole)];
        }
        orders.into_iter().find_map(|order| self.solve(with_operands(node, &order, &pending), state.clone(), accept))
    }

    /// Says whether everything that is pending is there, with the operands of a node in one order; nobody is told of a miss.
    fn is_whole(&mut self, node: &'r RuleNode, order: &[Value], pending: &Pending<'r>, state: &Instance<'r>) -> bool {
        let (watch, steps) = (self.watch.take(), self.steps);
        let found = self.solve(with_operands(node, order, pending), state.clone(), &mut |_| true);
        (self.watch, self.steps) = (watch, steps);
        found.is_some()
    }
}

/// Puts the operands of a node before everything that is pending.
fn with_operands<'r>(node: &'r RuleNode, order: &[Value], pending: &Pending<'r>) -> Pending<'r> {
    let mut next = pending.clone();
    next.extend(node.operands.iter().map(String::as_str).zip(order.iter().copied()).rev());
    next
}

/// The literal that every element of a value is.
pub(crate) fn uniform<S: Source>(source: &S, value: Value) -> Option<Literal> {
    let Definition { op, operands, .. } = source.definition(value)?;
    match op {
        Op::Prim(Prim::Literal(literal)) => Some(literal),
        Op::Prim(Prim::Reshape { .. } | Prim::Expand { .. } | Prim::Permute { .. }) => uniform(source, operands[0]),
        Op::Prim(Prim::Cast { to, round, saturate }) => match uniform(source, operands[0])? {
            Literal::Float(_, v) if to.is_float() => Some(Literal::Float(to, num::round_to(to, v, round, saturate))),
            _ => None,
        },
        _ => None,
    }
}
