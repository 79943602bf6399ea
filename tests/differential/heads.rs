//! Steps of rows that are heads and groups: split, merged, turned, cut, rotated, and stacked between others.

use fusewright::graph::ops::{Composite, RopeNeox};
use fusewright::graph::{DType, Dim, NanRule, Prim, ReduceOp, ScalarFn, Value, infer};

use super::Gen;

impl Gen {
    /// The lanes as heads or groups.
    pub(super) fn split(&mut self) -> Option<Value> {
        let x = self.value();
        let mut shape = self.shape(x);
        (shape.len() <= 2).then_some(())?;
        let n = shape.pop()?.as_const()?;
        let divisors: Vec<i64> = (2..n).filter(|d| n % d == 0).collect();
        (!divisors.is_empty()).then_some(())?;
        let heads = self.random.pick(&divisors);
        shape.extend([Dim::constant(heads), Dim::constant(n / heads)]);
        self.prim(Prim::Reshape { shape }, &[x])
    }

    /// The last two axes as one.
    pub(super) fn merge(&mut self) -> Option<Value> {
        let x = self.value();
        let mut shape = self.shape(x);
        (shape.len() == 3).then_some(())?;
        let last = &shape.pop()? * &shape.pop()?;
        shape.push(last);
        self.prim(Prim::Reshape { shape }, &[x])
    }

    /// Heads before rows, or back.
    pub(super) fn permute(&mut self) -> Option<Value> {
        let x = self.value();
        (self.b.ty(x).rank() == 3).then_some(())?;
        self.prim(Prim::Permute { perm: vec![1, 0, 2] }, &[x])
    }

    pub(super) fn slice(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.b.ty(x).rank().checked_sub(1)?;
        let n = self.shape(x)[axis].as_const().filter(|&n| n > 1)?;
        let (start, end) = match self.random.below(3) {
            0 => (0, n / 2),
            1 => (n / 2, n),
            _ => {
                let start = self.random.below(n as usize) as i64;
                (start, start + 1 + self.random.below((n - start) as usize) as i64)
            }
        };
        let step = if self.random.once_in(5) { 2 } else { 1 };
        self.prim(Prim::Slice { axis, start: start.into(), end: end.into(), step }, &[x])
    }

    /// A half rotation, spelled out or as the composite.
    pub(super) fn rotate(&mut self) -> Option<Value> {
        let x = self.float()?;
        let axis = self.b.ty(x).rank().checked_sub(1)?;
        let n = self.shape(x)[axis].as_const().filter(|n| n % 2 == 0)?;
        if self.random.once_in(3) {
            let (cos, sin) = (self.beside(x)?, self.beside(x)?);
            let operands = [x, cos, sin];
            let ty = self.b.ty(x);
            let spread = |v: Value| infer(&Prim::Map(ScalarFn::Mul), &[&ty, &self.b.ty(v)]);
            (spread(cos).ok()?[0] == ty && spread(sin).ok()?[0] == ty).then_some(())?;
            let rotated = self.b.composite(Composite::new(RopeNeox), &operands).ok()?;
            self.used.extend(operands);
            return rotated.first().copied();
        }
        let half = |start: i64, end: i64| Prim::Slice { axis, start: start.into(), end: end.into(), step: 1 };
        let (low, high) = (self.prim(half(0, n / 2), &[x])?, self.prim(half(n / 2, n), &[x])?);
        let negated = self.map(ScalarFn::Neg, &[high])?;
        self.prim(Prim::Cat { axis }, &[negated, low])
    }

    /// Over the axis before the last.
    pub(super) fn reduce_heads(&mut self) -> Option<Value> {
        let x = self.float()?;
        let shape = self.shape(x);
        (shape.len() == 3 && shape[1].as_const().is_some()).then_some(())?;
        let op = self.random.pick(&[ReduceOp::Add, ReduceOp::Max]);
        let wide = if op == ReduceOp::Add { self.to(x, DType::F32)? } else { x };
        self.prim(Prim::Reduce { op, axes: vec![1], nan: NanRule::Propagate }, &[wide])
    }

    /// Two values beside each other along an axis of their own, between any two others.
    pub(super) fn between(&mut self) -> Option<Value> {
        let x = self.float()?;
        let y = self.beside(x)?;
        let mut shape = self.shape(x);
        (self.shape(y) == shape && !shape.is_empty()).then_some(())?;
        let axis = 1 + self.random.below(shape.len());
        shape.insert(axis, Dim::constant(1));
        let (x, y) =
            (self.prim(Prim::Reshape { shape: shape.clone() }, &[x])?, self.prim(Prim::Reshape { shape }, &[y])?);
        self.prim(Prim::Cat { axis }, &[x, y])
    }

    /// Two values whose lanes take turns, or follow each other; often what a rotation of pairs does.
    pub(super) fn stack(&mut self) -> Option<Value> {
        let x = self.float()?;
        let mut shape = self.shape(x);
        let n = shape.pop()?.as_const().filter(|n| *n > 1)?;
        let y = if n % 2 == 0 && self.random.once_in(2) {
            let axis = shape.len();
            let every = |start: i64| Prim::Slice { axis, start: start.into(), end: n.into(), step: 2 };
            let (even, odd) = (self.prim(every(0), &[x])?, self.prim(every(1), &[x])?);
            let negated = self.map(ScalarFn::Neg, &[odd])?;
            return self.turns(negated, even);
        } else {
            self.beside(x)?
        };
        (self.shape(y) == self.shape(x)).then_some(())?;
        self.turns(x, y)
    }

    fn turns(&mut self, x: Value, y: Value) -> Option<Value> {
        let mut shape = self.shape(x);
        let n = shape.pop()?;
        let behind = !self.random.once_in(3);
        let one = Dim::constant(1);
        let (pair, axis) = if behind { ([n.clone(), one], shape.len() + 1) } else { ([one, n.clone()], shape.len()) };
        let spread = Prim::Reshape { shape: shape.iter().cloned().chain(pair).collect() };
        let (x, y) = (self.prim(spread.clone(), &[x])?, self.prim(spread, &[y])?);
        let stack = self.prim(Prim::Cat { axis }, &[x, y])?;
        shape.push(&n * &Dim::constant(2));
        self.prim(Prim::Reshape { shape }, &[stack])
    }
}
