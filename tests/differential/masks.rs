//! Steps that reduce lanes under masks of their numbers, as sums of prefixes and segments are spelled out: of whole rows, of
//! blocks of them, and of rows behind other axes.

use fusewright::graph::{DType, Dim, Literal, NanRule, Prim, ReduceOp, ScalarFn, Value};

use super::Gen;

/// Most lanes that are masked against as many.
const MOST: i64 = 20;

impl Gen {
    /// Reductions of the lanes that a mask of a triangle or a diagonal leaves of each block of the last axis.
    pub(super) fn masked(&mut self) -> Option<Value> {
        let x = self.float()?;
        let shape = self.shape(x);
        let (last, before) = shape.split_last()?;
        let lanes = last.as_const().filter(|lanes| (1..=400).contains(lanes))?;
        let blocks: Vec<i64> = (1..=lanes).filter(|size| lanes % size == 0 && *size <= MOST).collect();
        let size = self.random.pick(&blocks);
        let with =
            |tail: &[i64]| before.iter().cloned().chain(tail.iter().map(|&n| Dim::constant(n))).collect::<Vec<Dim>>();
        let parts = self.prim(Prim::Reshape { shape: with(&[lanes / size, 1, size]) }, &[x])?;
        let rank = self.shape(parts).len();
        let dtype = self.random.pick(&[DType::I32, DType::I64]);
        let place = |this: &mut Self, axis: usize| {
            let mut shape = vec![Dim::constant(1); rank];
            shape[axis] = Dim::constant(size);
            this.prim(Prim::Iota { dtype, shape, axis }, &[])
        };
        let (i, mut j) = (place(self, rank - 2)?, place(self, rank - 1)?);
        if self.random.once_in(3) {
            let by = self.random.pick(&[1, 2, -1]);
            let by = self.prim(Prim::Literal(Literal::Int(dtype, by)), &[])?;
            j = self.map(ScalarFn::Add, &[j, by])?;
        }
        let f = self.random.pick(&[ScalarFn::Le, ScalarFn::Lt, ScalarFn::Ge, ScalarFn::Eq, ScalarFn::Ne]);
        let inside = self.map(f, &[j, i])?;
        let neutral = self.constant(self.b.dtype(x))?;
        let left = self.map(ScalarFn::Select, &[inside, parts, neutral])?;
        let op = self.random.pick(&[ReduceOp::Add, ReduceOp::Max, ReduceOp::Min]);
        let left = if op == ReduceOp::Add { self.to(left, DType::F32)? } else { left };
        let reduced = self.prim(Prim::Reduce { op, axes: vec![rank - 1], nan: NanRule::Propagate }, &[left])?;
        self.prim(Prim::Reshape { shape }, &[reduced])
    }
}
