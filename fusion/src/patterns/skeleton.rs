//! A body seen without its roundings and layouts, for queries.
//!
//! Names do not depend on where a value is rounded, how it is shaped, or in which order commutative operands stand; so
//! queries follow definitions through float casts and layout ops.

use std::collections::BTreeSet;

use fusewright_graph::axes::{AxisId, AxisMap};
use fusewright_graph::prim::Literal;
use fusewright_graph::{DType, Def, Graph, Node, NodeId, Op, Prim, ReduceOp, ScalarFn, Value};

/// A body of primitives under query.
pub(super) struct Skeleton<'g> {
    pub body: &'g Graph,
    pub axes: AxisMap,
    /// How many of the nodes, the first ones, are those of kernels before.
    pub front: usize,
    /// Values that kernels before computed from several elements, in a way that no name is for.
    pub computed: BTreeSet<Value>,
}

impl<'g> Skeleton<'g> {
    pub fn of(body: &'g Graph) -> Option<Self> {
        Some(Skeleton { body, axes: AxisMap::of(body).ok()?, front: 0, computed: BTreeSet::new() })
    }

    pub fn prim(&self, value: Value) -> Option<(&'g Prim, &'g Node)> {
        let node = self.body.def_node(value)?;
        match &node.op {
            Op::Prim(prim) => Some((prim, node)),
            Op::Composite(_) => None,
        }
    }

    /// The nodes of the region.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &'g Prim, &'g Node)> + use<'g> {
        let front = self.front;
        self.all_nodes().filter(move |(id, ..)| id.0 as usize >= front)
    }

    /// The nodes of the region, behind those of kernels before.
    pub fn all_nodes(&self) -> impl Iterator<Item = (NodeId, &'g Prim, &'g Node)> + use<'g> {
        let body = self.body;
        body.node_ids().filter_map(move |id| match &body.node(id).op {
            Op::Prim(prim) => Some((id, prim, body.node(id))),
            Op::Composite(_) => None,
        })
    }

    /// The value below float casts, reshapes, permutations and expansions.
    pub fn peel(&self, mut value: Value) -> Value {
        while let Some((prim, node)) = self.prim(value) {
            let Some(&of) = node.operands.first().filter(|&&of| is_transparent(prim, self.body.ty(of).dtype)) else {
                break;
            };
            value = of;
        }
        value
    }

    /// The value below casts of whole numbers, too.
    pub fn whole(&self, value: Value) -> Value {
        let mut value = self.peel(value);
        while let Some((Prim::Cast { to, .. }, node)) = self.prim(value)
            && (to.is_int() || self.body.ty(node.operands[0]).dtype.is_int())
        {
            value = self.peel(node.operands[0]);
        }
        value
    }

    /// The elementwise function that yields a value, and its operands.
    pub fn map(&self, value: Value) -> Option<(ScalarFn, &'g [Value])> {
        match self.prim(self.peel(value))? {
            (Prim::Map(f), node) => Some((*f, &node.operands)),
            _ => None,
        }
    }

    /// The operands of `f` in both orders, if `f` yields the value.
    pub fn pairs(&self, value: Value, f: ScalarFn) -> Vec<(Value, Value)> {
        match self.map(value) {
            Some((g, &[a, b])) if g == f => vec![(a, b), (b, a)],
            _ => Vec::new(),
        }
    }

    /// Whether two values are one below roundings and layouts.
    pub fn same(&self, a: Value, b: Value) -> bool {
        self.peel(a) == self.peel(b)
    }

    /// `x` if the value is the magnitude of `x`, else the value.
    pub fn magnitude_of(&self, value: Value) -> Value {
        match self.map(value) {
            Some((ScalarFn::Abs, &[x])) => self.peel(x),
            _ => self.peel(value),
        }
    }

    /// The number that a value holds in every element.
    pub fn constant(&self, value: Value) -> Option<f64> {
        match self.prim(self.peel(value))? {
            (Prim::Literal(Literal::Float(_, v)), _) => Some(*v),
            (Prim::Literal(Literal::Int(_, v)), _) => Some(*v as f64),
            (Prim::SizeOf(dim), _) => dim.as_const().map(|v| v as f64),
            (Prim::Cast { .. }, node) => self.constant(node.operands[0]),
            (Prim::Map(ScalarFn::Div), node) => {
                Some(self.constant(node.operands[0])? / self.constant(node.operands[1])?)
            }
            _ => None,
        }
    }

    /// Whether a value holds a number to the accuracy of f32 literals.
    pub fn is_about(&self, value: Value, number: f64) -> bool {
        self.constant(value).is_some_and(|v| (v - number).abs() <= number.abs() * f64::from(f32::EPSILON))
    }

    /// Whether a value is a tensor of all the axes that `whole` has.
    pub fn covers(&self, value: Value, whole: Value) -> bool {
        self.constant(value).is_none() && self.axes.flat(value) == self.axes.flat(whole)
    }

    /// Whether a value has one element.
    pub fn is_single(&self, value: Value) -> bool {
        self.body.ty(value).elements().as_const() == Some(1)
    }

    /// What a value reduces by an op, and over which axes.
    pub fn reduction(&self, value: Value, op: ReduceOp) -> Option<(Value, Vec<AxisId>)> {
        let value = self.peel(value);
        match (self.body.def(value), self.prim(value)?) {
            (Def::Node(id, _), (Prim::Reduce { op: found, .. }, node)) if *found == op => {
                Some((node.operands[0], self.reduced(id)))
            }
            _ => None,
        }
    }

    /// The axes that a reduction runs over.
    fn reduced(&self, reduction: NodeId) -> Vec<AxisId> {
        self.axes.reduced().find(|(id, _)| *id == reduction).map(|(_, over)| over).unwrap_or_default()
    }

    /// Whether what a value of all elements is combined with is reduced over the last of its axes, as far as it is
    /// reduced over any of them.
    pub fn is_of_last_axes(&self, value: Value, all: Value) -> bool {
        if self.axes.is_diagonal(all) {
            return false;
        }
        let flat = self.axes.flat(all);
        let (mut open, mut seen) = (vec![value], BTreeSet::new());
        while let Some(value) = open.pop() {
            let Def::Node(id, _) = self.body.def(value) else { continue };
            let node = self.body.node(id);
            if !matches!(node.op, Op::Prim(Prim::Reduce { .. })) {
                open.extend(node.operands.iter().filter(|operand| seen.insert(**operand)));
                continue;
            }
            let over = self.reduced(id);
            let last = flat.iter().rev().take_while(|axis| over.contains(axis)).count();
            if flat.iter().filter(|axis| over.contains(axis)).count() != last {
                return false;
            }
        }
        true
    }

    /// Every value that a value depends on, itself included.
    pub fn ancestors(&self, value: Value) -> BTreeSet<Value> {
        let mut seen = BTreeSet::new();
        let mut stack = vec![value];
        while let Some(value) = stack.pop() {
            if seen.insert(value)
                && let Def::Node(id, _) = self.body.def(value)
            {
                stack.extend(&self.body.node(id).operands);
            }
        }
        seen
    }
}

/// Whether an op of a value of a dtype is a rounding or another layout.
pub(super) fn is_transparent(prim: &Prim, of: DType) -> bool {
    match prim {
        Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } => true,
        Prim::Cast { to, .. } => wide(*to) && wide(of),
        _ => false,
    }
}

/// Float dtypes between which a cast is a rounding, not a quantisation.
fn wide(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::F32 | DType::BF16 | DType::F16)
}
