//! Rotary position embedding. Lanes are paired, the first half with the second (neox) or neighbours (interleaved), and
//! each pair `(a, b)` becomes `(a·cos − b·sin, b·cos + a·sin)`. Every product and sum rounds to the dtype of `x`.
//!
//! - `rope_neox(x, cos, sin) = x · cos + turned(x) · sin` with `turned([a | b]) = [−b | a]`, and `rope_interleaved` with
//!   neighbours turned, read tables of the full width, in which both lanes of a pair have the same angle;
//! - `rope_half_table(x, cos, sin)` reads tables of half the width, one lane per pair.
//!
//! Tables broadcast over the other axes.

use fusewright_abi::DType;

use super::{AttrValue, Attrs, Composite, CompositeOp, OpSpec};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::prim::Prim;
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

/// Which lanes are a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pairs {
    /// A lane of the first half and one of the second.
    Neox,
    /// Neighbours.
    Interleaved,
}

const PAIRS: [(&str, Pairs); 2] = [("neox", Pairs::Neox), ("interleaved", Pairs::Interleaved)];

/// Rotary position embedding of halves, tables of the full width.
#[derive(Clone, Debug)]
pub struct RopeNeox;

/// Rotary position embedding of neighbours, tables of the full width.
#[derive(Clone, Debug)]
pub struct RopeInterleaved;

/// Rotary position embedding, tables of half the width.
#[derive(Clone, Debug)]
pub struct RopeHalfTable {
    /// Which lanes are a pair.
    pub pairs: Pairs,
}

/// `x` and tables with that many lanes.
fn operands(dtype: DType, lanes: i64) -> Vec<TensorType> {
    let s = Dim::symbol("s");
    let table = TensorType::new(dtype, [s.clone(), Dim::constant(lanes)]);
    vec![TensorType::new(dtype, [Dim::constant(4), s, Dim::constant(64)]), table.clone(), table]
}

pub(super) const NEOX: OpSpec = OpSpec {
    name: "rope_neox",
    arity: 3,
    optional: 0,
    parse: |_| Ok(Composite::new(RopeNeox)),
    variants: || vec![Composite::new(RopeNeox)],
    operands: |dtype| operands(dtype, 64),
};

pub(super) const INTERLEAVED: OpSpec = OpSpec {
    name: "rope_interleaved",
    arity: 3,
    optional: 0,
    parse: |_| Ok(Composite::new(RopeInterleaved)),
    variants: || vec![Composite::new(RopeInterleaved)],
    operands: |dtype| operands(dtype, 64),
};

pub(super) const HALF_TABLE: OpSpec = OpSpec {
    name: "rope_half_table",
    arity: 3,
    optional: 0,
    parse: |attrs| Ok(Composite::new(RopeHalfTable { pairs: attrs.word("pairs", &PAIRS)? })),
    variants: || PAIRS.map(|(_, pairs)| Composite::new(RopeHalfTable { pairs })).to_vec(),
    operands: |dtype| operands(dtype, 32),
};

/// The lanes of a value, in pairs.
struct Lanes {
    axis: usize,
    shape: Vec<Dim>,
    /// The first lane of every pair, and the second.
    parts: [Value; 2],
}

impl Lanes {
    fn of(b: &Builder, x: Value, pairs: Pairs, op: &str) -> Result<Lanes, TypeError> {
        let ty = b.ty(x);
        let refuse = |message: &str| TypeError { op: op.to_owned(), message: format!("{message}: {ty}") };
        let axis = ty.rank().checked_sub(1).ok_or_else(|| refuse("no axis"))?;
        let lanes = &ty.shape[axis];
        let half = lanes.exact_div(&Dim::constant(2)).ok_or_else(|| refuse("odd last axis"))?;
        let cut = |start: Dim, end: Dim, step| b.prim(Prim::Slice { axis, start, end, step }, &[x]);
        let (zero, one) = (Dim::constant(0), Dim::constant(1));
        let parts = match pairs {
            Pairs::Neox => [cut(zero, half.clone(), 1)?, cut(half, lanes.clone(), 1)?],
            Pairs::Interleaved => [cut(zero, lanes.clone(), 2)?, cut(one, lanes.clone(), 2)?],
        };
        Ok(Lanes { axis, shape: ty.shape.clone(), parts })
    }

    /// A row of the first and the second lanes of pairs.
    fn joined(&self, b: &Builder, [first, second]: [Value; 2], pairs: Pairs) -> Result<Value, TypeError> {
        if pairs == Pairs::Neox {
            return b.cat(&[first, second], self.axis);
        }
        let column = |x: Value| {
            let mut shape = b.ty(x).shape;
            shape.push(Dim::constant(1));
            b.reshape(x, shape)
        };
        b.reshape(b.cat(&[column(first)?, column(second)?], self.axis + 1)?, self.shape.clone())
    }
}

/// `x · cos + turned(x) · sin`.
fn full_table(b: &Builder, operands: &[Value], pairs: Pairs, op: &str) -> Result<Vec<Value>, TypeError> {
    let (x, cos, sin) = (operands[0], operands[1], operands[2]);
    let lanes = Lanes::of(b, x, pairs, op)?;
    let [first, second] = lanes.parts;
    let turned = lanes.joined(b, [b.map(ScalarFn::Neg, &[second])?, first], pairs)?;
    Ok(vec![b.add(b.mul(x, cos)?, b.mul(turned, sin)?)?])
}

impl CompositeOp for RopeNeox {
    fn spec(&self) -> &'static OpSpec {
        &NEOX
    }

    fn attrs(&self) -> Attrs {
        Attrs::default()
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        full_table(b, operands, Pairs::Neox, NEOX.name)
    }
}

impl CompositeOp for RopeInterleaved {
    fn spec(&self) -> &'static OpSpec {
        &INTERLEAVED
    }

    fn attrs(&self) -> Attrs {
        Attrs::default()
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        full_table(b, operands, Pairs::Interleaved, INTERLEAVED.name)
    }
}

impl CompositeOp for RopeHalfTable {
    fn spec(&self) -> &'static OpSpec {
        &HALF_TABLE
    }

    fn attrs(&self) -> Attrs {
        let pairs = PAIRS.iter().find(|(_, p)| *p == self.pairs).map_or("", |(word, _)| word);
        Attrs::of([("pairs", AttrValue::Word(pairs))])
    }

    fn expand(&self, b: &Builder, operands: &[Value]) -> Result<Vec<Value>, TypeError> {
        let (x, cos, sin) = (operands[0], operands[1], operands[2]);
        let lanes = Lanes::of(b, x, self.pairs, HALF_TABLE.name)?;
        let [first, second] = lanes.parts;
        let low = b.sub(b.mul(first, cos)?, b.mul(second, sin)?)?;
        let high = b.add(b.mul(second, cos)?, b.mul(first, sin)?)?;
        Ok(vec![lanes.joined(b, [low, high], self.pairs)?])
    }
}
