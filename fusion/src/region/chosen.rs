//! Reductions of few rows that indices choose, as those of a stack: a row program reads each row at a place of its own.
//!
//! The rows of a token's experts are summed so, and those of a bag of embeddings.

use fusewright_graph::dim::product;
use fusewright_graph::{Builder, Dim, Graph, Node, Op, Prim, TypeError, Value};

use crate::passes;

/// Most rows that are combined.
const MOST: i64 = 32;

/// A body of primitives with stacks of rows for what such reductions are of; `None` if there are none.
pub(super) fn stacked(body: &Graph) -> Option<Graph> {
    let mut chosen = vec![false; body.value_count()];
    for node in body.nodes() {
        let gathers = matches!(node.op, Op::Prim(Prim::Gather { .. }));
        if gathers || node.operands.iter().any(|v| chosen[v.0 as usize]) {
            node.results.iter().for_each(|v| chosen[v.0 as usize] = true);
        }
    }
    let mut found = false;
    let graph = body.rebuild(|b, _, node, operands| {
        if let Some(reduction) = Reduction::of(body, node).filter(|_| chosen[node.operands[0].0 as usize]) {
            found = true;
            let stack = reduction.stacked(b, operands[0])?;
            return b.op(node.op.clone(), &[stack]);
        }
        b.op(node.op.clone(), operands)
    });
    let graph = graph.ok().filter(|_| found)?;
    let merged = passes::cse(&graph).map_or(graph, |(merged, _)| merged);
    Some(passes::dce(&merged).0)
}

/// A reduction over few rows.
struct Reduction {
    axis: usize,
    count: i64,
}

impl Reduction {
    fn of(body: &Graph, node: &Node) -> Option<Reduction> {
        let Op::Prim(Prim::Reduce { axes, .. }) = &node.op else { return None };
        let &[axis] = axes.as_slice() else { return None };
        let shape = &body.ty(node.operands[0]).shape;
        let count = shape[axis].as_const().filter(|n| (2..=MOST).contains(n))?;
        (axis + 1 < shape.len()).then_some(Reduction { axis, count })
    }

    /// The value as a stack of rows.
    fn stacked(&self, b: &Builder, value: Value) -> Result<Value, TypeError> {
        let rows = (0..self.count).map(|place| Every { axis: self.axis, count: self.count, place }.of(b, value));
        let rows = rows.collect::<Result<Vec<Value>, TypeError>>()?;
        b.prim(Prim::Cat { axis: self.axis }, &rows)
    }
}

/// Along an axis, one of every `count` elements: the one at `place` among them.
#[derive(Clone, Copy)]
struct Every {
    axis: usize,
    count: i64,
    place: i64,
}

impl Every {
    /// These elements of a value, as the same function of those of what it is computed of.
    fn of(self, b: &Builder, value: Value) -> Result<Value, TypeError> {
        let shape = b.ty(value).shape;
        let along = |axis: usize| Every { axis, ..self };
        let Some((Op::Prim(prim), mut operands)) = b.definition(value) else { return self.cut(b, value) };
        match &prim {
            Prim::Map(_) | Prim::Cast { .. } | Prim::Bitcast { .. } => {
                for operand in &mut operands {
                    // An operand that is repeated along the axis stays so.
                    let own = b.ty(*operand).shape;
                    let axis = (self.axis + own.len()).checked_sub(shape.len());
                    if let Some(axis) = axis.filter(|axis| own[*axis] == shape[self.axis]) {
                        *operand = along(axis).of(b, *operand)?;
                    }
                }
                Ok(b.op(Op::Prim(prim), &operands)?[0])
            }
            Prim::Gather { axis } => {
                let of_indices = b.ty(operands[1]).rank();
                if (*axis..axis + of_indices).contains(&self.axis) {
                    operands[1] = along(self.axis - axis).of(b, operands[1])?;
                    return b.prim(prim, &operands);
                }
                self.cut(b, value)
            }
            Prim::Reshape { .. } => {
                let (own, count) = (b.ty(operands[0]).shape, Dim::constant(self.count));
                let inner = product(&shape[..=self.axis]);
                let fits = |axis: &usize| product(&own[..=*axis]) == inner && own[*axis].exact_div(&count).is_some();
                let Some(axis) = (0..own.len()).find(fits) else { return self.cut(b, value) };
                let taken = along(axis).of(b, operands[0])?;
                b.reshape(taken, self.left(&shape))
            }
            _ => self.cut(b, value),
        }
    }

    /// These elements by slicing.
    fn cut(self, b: &Builder, value: Value) -> Result<Value, TypeError> {
        let (shape, count) = (b.ty(value).shape, Dim::constant(self.count));
        let left = self.left(&shape);
        let mut apart = left.clone();
        apart.insert(self.axis + 1, count);
        let (from, to) = (Dim::constant(self.place), Dim::constant(self.place + 1));
        let taken = b.slice(b.reshape(value, apart)?, self.axis + 1, from, to)?;
        b.reshape(taken, left)
    }

    /// The shape of these elements.
    fn left(self, shape: &[Dim]) -> Vec<Dim> {
        let mut left = shape.to_vec();
        let count = Dim::constant(self.count);
        left[self.axis] = left[self.axis].ceil_div(&count);
        left
    }
}
