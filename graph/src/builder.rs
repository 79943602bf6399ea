//! Building graphs node by node; every method checks its operands.
//!
//! Methods take `&self`, so calls nest: `b.mul(b.cast(x, F32)?, s)?`.

mod bits;

use std::cell::RefCell;

use fusewright_abi::DType;

use crate::dim::Dim;
use crate::equal::unequal;
use crate::graph::{Graph, InputKind, Op, Origin, Output, Symbol, Value};
use crate::infer::{TypeError, infer};
use crate::ops::{Composite, Known};
use crate::prim::{Literal, NanRule, Prim, ReduceOp, Rounding};
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// Builds one graph.
#[derive(Debug)]
pub struct Builder {
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    graph: Graph,
    origin: Origin,
    captures: Vec<(Value, &'static str)>,
    /// Extents for which the last op that was refused would have fitted if they were equal.
    unequal: Option<(Dim, Dim)>,
    /// Result types of composites.
    composites: Known<Vec<TensorType>>,
}

impl State {
    /// Values are numbers, so only one beyond those of this graph is known to be of another.
    fn knows(&self, op: &str, value: Value) -> Result<(), TypeError> {
        if (value.0 as usize) < self.graph.value_count() {
            return Ok(());
        }
        let message = format!("operand {value:?} is no value of `{}`: it is of another builder", self.graph.name());
        Err(TypeError { op: op.to_owned(), message })
    }
}

/// A point in the growth of a graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    graph: (usize, usize),
    captures: usize,
}

/// Result of a builder method that makes one value.
pub type Built = Result<Value, TypeError>;

impl Builder {
    /// A builder of an empty graph.
    pub fn new(name: &str) -> Self {
        let state = State {
            graph: Graph::new(name),
            origin: Origin::default(),
            captures: Vec::new(),
            unequal: None,
            composites: Known::default(),
        };
        Builder { state: RefCell::new(state) }
    }

    /// The finished graph.
    pub fn finish(self) -> Graph {
        self.state.into_inner().graph
    }

    /// How far the graph has grown.
    pub(crate) fn mark(&self) -> Mark {
        let state = self.state.borrow();
        Mark { graph: state.graph.extent(), captures: state.captures.len() }
    }

    /// Takes back every node added since `mark`; no inputs or outputs may have been added since.
    pub(crate) fn rollback(&self, mark: Mark) {
        let mut state = self.state.borrow_mut();
        state.graph.truncate(mark.graph);
        state.captures.truncate(mark.captures);
    }

    /// Type of a value built so far.
    pub fn ty(&self, value: Value) -> TensorType {
        self.state.borrow().graph.ty(value).clone()
    }

    /// Element type of a value built so far.
    pub fn dtype(&self, value: Value) -> DType {
        self.state.borrow().graph.ty(value).dtype
    }

    /// The op and the operands that make a value built so far; `None` for an input.
    pub fn definition(&self, value: Value) -> Option<(Op, Vec<Value>)> {
        let state = self.state.borrow();
        state.graph.def_node(value).map(|node| (node.op.clone(), node.operands.clone()))
    }

    /// What a function says of the op and the operands that make a value built so far; `None` for an input.
    pub fn look<T>(&self, value: Value, say: impl FnOnce(&Op, &[Value]) -> T) -> Option<T> {
        self.state.borrow().graph.def_node(value).map(|node| say(&node.op, &node.operands))
    }

    /// All results of the node that makes a value built so far, in order; none for an input.
    pub fn beside(&self, value: Value) -> Vec<Value> {
        self.state.borrow().graph.def_node(value).map_or_else(Vec::new, |node| node.results.clone())
    }

    /// Origin of the nodes that are added now.
    pub fn origin(&self) -> Origin {
        self.state.borrow().origin.clone()
    }

    /// Origin of the nodes added from now on.
    pub fn set_origin(&self, origin: Origin) {
        self.state.borrow_mut().origin = origin;
    }

    /// Declares a symbol and its range; a symbol declared before keeps its range.
    pub fn symbol(&self, name: &str, min: i64, max: Option<i64>) -> Dim {
        self.state.borrow_mut().graph.push_symbol(Symbol { name: name.to_owned(), min, max });
        Dim::symbol(name)
    }

    /// Adds an input given at each call.
    pub fn input(&self, name: &str, ty: TensorType) -> Value {
        self.add_input(name, ty, InputKind::User)
    }

    /// Adds an input of any kind.
    pub fn add_input(&self, name: &str, ty: TensorType, kind: InputKind) -> Value {
        self.state.borrow_mut().graph.push_input(name, ty, kind)
    }

    /// Returns a value from the graph.
    pub fn output(&self, value: Value) {
        self.add_output(value, None);
    }

    /// Returns a value that overwrites the named input.
    pub fn add_output(&self, value: Value, updates: Option<String>) {
        self.state.borrow_mut().graph.push_output(Output { value, updates });
    }

    /// Names a value for text forms. An input keeps its own name.
    pub fn name(&self, value: Value, name: &str) {
        self.state.borrow_mut().graph.set_value_name(value, name);
    }

    /// Names a value that has no name yet. What a pass dropped is in no graph and stays nameless.
    pub(crate) fn name_unnamed(&self, value: Value, name: &str) {
        let mut state = self.state.borrow_mut();
        if (value.0 as usize) < state.graph.value_count() && state.graph.value_name(value).is_none() {
            state.graph.set_value_name(value, name);
        }
    }

    /// Adds a node.
    ///
    /// # Errors
    /// Operands that do not fit the op, or that another builder made after as many values as this one has.
    pub fn op(&self, op: Op, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let results = {
            let state = &mut *self.state.borrow_mut();
            operands.iter().try_for_each(|&v| state.knows(op.name(), v))?;
            let types: Vec<&TensorType> = operands.iter().map(|&v| state.graph.ty(v)).collect();
            match &op {
                Op::Prim(prim) => infer(prim, &types).map_err(|error| (error, unequal(prim, &types))),
                Op::Composite(composite) => {
                    let found = state.composites.of(composite, &types, || composite.infer(&types));
                    found.map_err(|error| (error, None))
                }
            }
        };
        let mut state = self.state.borrow_mut();
        let results = results.map_err(|(error, unequal)| {
            state.unequal = unequal;
            error
        })?;
        let origin = state.origin.clone();
        Ok(state.graph.push_node(op, operands, results, origin))
    }

    /// Extents for which the last op that was refused would have fitted if they were equal; once.
    pub(crate) fn take_unequal(&self) -> Option<(Dim, Dim)> {
        self.state.borrow_mut().unequal.take()
    }

    /// Adds a primitive with one result.
    ///
    /// # Errors
    /// Operands that do not fit it.
    pub fn prim(&self, prim: Prim, operands: &[Value]) -> Built {
        Ok(self.op(Op::Prim(prim), operands)?[0])
    }

    /// Adds a composite.
    ///
    /// # Errors
    /// Operands that do not fit it.
    pub fn composite(&self, composite: Composite, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        self.op(Op::Composite(composite), operands)
    }

    /// A 0-d float constant, rounded to `dtype` by the caller.
    ///
    /// # Errors
    /// None for float dtypes; an integer dtype takes [`Builder::int`].
    pub fn float(&self, dtype: DType, value: f64) -> Built {
        self.prim(Prim::Literal(Literal::Float(dtype, value)), &[])
    }

    /// A 0-d integer or boolean constant.
    ///
    /// # Errors
    /// None.
    pub fn int(&self, dtype: DType, value: i64) -> Built {
        self.prim(Prim::Literal(Literal::Int(dtype, value)), &[])
    }

    /// A constant that is the attribute `name` of the composite being expanded. Recognition of decomposed graphs
    /// binds the attribute to whatever constant stands there.
    ///
    /// # Errors
    /// None for float dtypes.
    pub fn attr(&self, name: &'static str, dtype: DType, value: f64) -> Built {
        let constant = self.float(dtype, value)?;
        self.state.borrow_mut().captures.push((constant, name));
        Ok(constant)
    }

    /// The constants made by [`Builder::attr`], in order.
    pub fn captures(&self) -> Vec<(Value, &'static str)> {
        self.state.borrow().captures.clone()
    }

    /// An elementwise function.
    ///
    /// # Errors
    /// Operands of different dtypes or shapes that do not broadcast.
    pub fn map(&self, f: ScalarFn, operands: &[Value]) -> Built {
        self.prim(Prim::Map(f), operands)
    }

    /// `a + b`.
    ///
    /// # Errors
    /// As [`Builder::map`].
    pub fn add(&self, a: Value, b: Value) -> Built {
        self.map(ScalarFn::Add, &[a, b])
    }

    /// `a - b`.
    ///
    /// # Errors
    /// As [`Builder::map`].
    pub fn sub(&self, a: Value, b: Value) -> Built {
        self.map(ScalarFn::Sub, &[a, b])
    }

    /// `a * b`.
    ///
    /// # Errors
    /// As [`Builder::map`].
    pub fn mul(&self, a: Value, b: Value) -> Built {
        self.map(ScalarFn::Mul, &[a, b])
    }

    /// `a / b`.
    ///
    /// # Errors
    /// As [`Builder::map`].
    pub fn div(&self, a: Value, b: Value) -> Built {
        self.map(ScalarFn::Div, &[a, b])
    }

    /// `min(max(x, low), high)`; NaN stays NaN.
    ///
    /// # Errors
    /// As [`Builder::map`].
    pub fn clamp(&self, x: Value, low: Value, high: Value) -> Built {
        self.map(ScalarFn::Min, &[self.map(ScalarFn::Max, &[x, low])?, high])
    }

    /// Conversion to nearest even without saturation (integers saturate); no node if the dtype is the same.
    ///
    /// # Errors
    /// A value of another builder.
    pub fn cast(&self, x: Value, to: DType) -> Built {
        self.state.borrow().knows("cast", x)?;
        if self.dtype(x) == to {
            return Ok(x);
        }
        let saturate = !to.is_float();
        self.prim(Prim::Cast { to, round: Rounding::NearestEven, saturate }, &[x])
    }

    /// Conversion to nearest even that clamps to the finite range.
    ///
    /// # Errors
    /// None.
    pub fn cast_saturating(&self, x: Value, to: DType) -> Built {
        self.prim(Prim::Cast { to, round: Rounding::NearestEven, saturate: true }, &[x])
    }

    /// Reduction over the last axis, which stays with extent 1; NaN propagates.
    ///
    /// # Errors
    /// A 0-d operand.
    pub fn reduce_last(&self, op: ReduceOp, x: Value) -> Built {
        self.state.borrow().knows("reduce", x)?;
        let rank = self.ty(x).rank();
        self.prim(Prim::Reduce { op, axes: vec![rank.saturating_sub(1)], nan: NanRule::Propagate }, &[x])
    }

    /// Mean over the last axis: the sum divided by the extent, in the operand's dtype.
    ///
    /// # Errors
    /// A 0-d or integer operand.
    pub fn mean_last(&self, x: Value) -> Built {
        self.state.borrow().knows("mean", x)?;
        let ty = self.ty(x);
        let sum = self.reduce_last(ReduceOp::Add, x)?;
        let extent = ty.shape.last().cloned().unwrap_or_else(|| Dim::constant(1));
        let count = match extent.as_const() {
            Some(n) => self.float(ty.dtype, n as f64)?,
            None => self.cast(self.prim(Prim::SizeOf(extent), &[])?, ty.dtype)?,
        };
        self.div(sum, count)
    }

    /// The same elements in another shape; no node if the shape is the same.
    ///
    /// # Errors
    /// A different number of elements.
    pub fn reshape(&self, x: Value, shape: Vec<Dim>) -> Built {
        self.state.borrow().knows("reshape", x)?;
        if self.ty(x).shape == shape {
            return Ok(x);
        }
        self.prim(Prim::Reshape { shape }, &[x])
    }

    /// Elements `start..end` along `axis`.
    ///
    /// # Errors
    /// A range outside the axis.
    pub fn slice(&self, x: Value, axis: usize, start: Dim, end: Dim) -> Built {
        self.prim(Prim::Slice { axis, start, end, step: 1 }, &[x])
    }

    /// Operands joined along `axis`.
    ///
    /// # Errors
    /// Operands that differ in dtype or in another axis.
    pub fn cat(&self, parts: &[Value], axis: usize) -> Built {
        self.prim(Prim::Cat { axis }, parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_another_builder_is_an_error_of_the_op() {
        let other = Builder::new("other");
        let ty = || TensorType::new(DType::F32, [3.into()]);
        let y = other.input("y", ty());
        let foreign = other.mul(y, y).expect("types");
        let b = Builder::new("g");
        let x = b.input("x", ty());
        let refused: [(&str, Built); 6] = [
            ("mul", b.mul(x, foreign)),
            ("cast", b.cast(foreign, DType::BF16)),
            ("cast", b.cast_saturating(foreign, DType::BF16)),
            ("reduce", b.reduce_last(ReduceOp::Add, foreign)),
            ("mean", b.mean_last(foreign)),
            ("reshape", b.reshape(foreign, vec![3.into()])),
        ];
        for (op, refused) in refused {
            let error = refused.expect_err("the value is of another graph");
            assert_eq!(
                (error.op.as_str(), error.message.as_str()),
                (op, "operand %1 is no value of `g`: it is of another builder")
            );
        }
        assert!(b.finish().nodes().is_empty());
    }
}
