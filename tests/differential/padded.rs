//! Steps that fill tensors up, cut them, join them and write into parts of them, on every axis, before, beside and behind
//! reductions.

use fusewright::graph::{DType, Dim, Literal, NanRule, Prim, ReduceOp, Rounding, ScalarFn, Value, num};

use super::{FLOATS, Gen};

/// Extents of short axes and of lanes.
const EXTENTS: [i64; 9] = [1, 2, 3, 4, 5, 8, 16, 20, 33];

impl Gen {
    /// Tensors of up to four axes, of which one may be as long as rows; one of a length that a call chooses, shorter than an
    /// axis of another.
    pub(super) fn short_inputs(&mut self) {
        let rows = self.s.clone();
        self.inputs_of(rows);
    }

    /// The same with so many rows.
    pub(super) fn inputs_of(&mut self, rows: Dim) {
        let [a, b] = [0, 1].map(|_| self.random.pick(&EXTENTS));
        let n = self.random.pick(&EXTENTS) + self.random.below(8) as i64;
        let shape = match self.random.below(4) {
            0 => vec![rows, a.into(), n.into()],
            1 => vec![rows, a.into(), b.into(), n.into()],
            2 => vec![a.into(), n.into()],
            _ => vec![a.into(), rows, n.into()],
        };
        for i in 0..1 + self.random.below(2) {
            let dtype = self.random.pick(&FLOATS);
            self.input(&format!("x{i}"), dtype, shape.clone());
        }
        if self.random.once_in(2) {
            let t = self.b.symbol("t", 0, Some(n));
            let dtype = self.random.pick(&FLOATS);
            self.input("part", dtype, vec![t]);
        }
        if self.random.once_in(2) {
            let dtype = self.random.pick(&FLOATS);
            self.input("w", dtype, vec![n.into()]);
        }
    }

    /// An axis of a value, the last more often.
    pub(super) fn axis(&mut self, x: Value) -> Option<usize> {
        let last = self.b.ty(x).rank().checked_sub(1)?;
        Some(self.random.below(last + 1).max(self.random.below(last + 1)))
    }

    /// One constant in a shape of which an axis has another extent.
    pub(super) fn filling(&mut self, x: Value, axis: usize, extent: &Dim) -> Option<Value> {
        let dtype = self.b.dtype(x);
        let number = self.random.pick(&[0.0, 0.0, 1.0, -0.0, f64::NEG_INFINITY]);
        let number = num::round_to(dtype, number, Rounding::NearestEven, true);
        let fill = self.prim(Prim::Literal(Literal::Float(dtype, number)), &[])?;
        let mut shape = self.shape(x);
        shape[axis] = extent.clone();
        self.prim(Prim::Expand { shape }, &[fill])
    }

    /// Filled up ahead, behind, or both, by a number of places or to a length.
    pub(super) fn pad(&mut self) -> Option<Value> {
        let x = self.float()?;
        let axis = self.axis(x)?;
        let extent = self.shape(x)[axis].clone();
        let by = Dim::constant(1 + self.random.below(13) as i64);
        let by = if extent.as_symbol() == Some("t") { &Dim::constant(48) - &extent } else { by };
        let parts = match self.random.below(5) {
            0 => vec![self.filling(x, axis, &by)?, x],
            1 => {
                let ahead = self.filling(x, axis, &Dim::constant(2))?;
                vec![ahead, x, self.filling(x, axis, &by)?]
            }
            _ => vec![x, self.filling(x, axis, &by)?],
        };
        self.prim(Prim::Cat { axis }, &parts)
    }

    /// A part of an axis, which may end where a call says.
    pub(super) fn cut(&mut self) -> Option<Value> {
        let x = self.value();
        let axis = self.axis(x)?;
        let (start, end) = self.range(x, axis)?;
        self.prim(Prim::Slice { axis, start, end, step: 1 }, &[x])
    }

    /// A range of an axis.
    fn range(&mut self, x: Value, axis: usize) -> Option<(Dim, Dim)> {
        let extent = self.shape(x)[axis].clone();
        let n = extent.as_const()?;
        let part = self.pool.iter().find_map(|&v| self.shape(v).iter().find(|e| e.as_symbol() == Some("t")).cloned());
        if let Some(t) = part
            && n >= EXTENTS[EXTENTS.len() - 1] + 8
        {
            return Some(if self.random.once_in(2) { (0.into(), t) } else { (t, extent) });
        }
        let start = self.random.below(n as usize) as i64;
        let len = 1 + self.random.below((n - start) as usize) as i64;
        Some((start.into(), (start + len).into()))
    }

    /// A value of which a range of an axis holds others.
    pub(super) fn assign(&mut self) -> Option<Value> {
        let x = self.float()?;
        let axis = self.axis(x)?;
        let extent = self.shape(x)[axis].clone();
        let (start, end) = self.range(x, axis)?;
        let of = |start: Dim, end: Dim| Prim::Slice { axis, start, end, step: 1 };
        let inside = if self.random.once_in(2) {
            self.filling(x, axis, &(&end - &start))?
        } else {
            let part = self.prim(of(start.clone(), end.clone()), &[x])?;
            let y = self.beside(part)?;
            let sum = self.map(ScalarFn::Add, &[part, y])?;
            (self.shape(sum) == self.shape(part)).then_some(sum)?
        };
        let mut parts = Vec::new();
        if start.as_const() != Some(0) {
            parts.push(self.prim(of(0.into(), start), &[x])?);
        }
        parts.push(inside);
        if end != extent {
            parts.push(self.prim(of(end, extent), &[x])?);
        }
        self.prim(Prim::Cat { axis }, &parts)
    }

    /// Over any axis of known length, or the two last.
    pub(super) fn reduce_any(&mut self) -> Option<Value> {
        let x = self.float()?;
        let axis = self.axis(x)?;
        let known = |axis: usize| self.shape(x)[axis].as_const().is_some();
        known(axis).then_some(())?;
        let both = axis > 0 && known(axis - 1) && self.random.once_in(4);
        let axes = if both { vec![axis - 1, axis] } else { vec![axis] };
        let op = self.random.pick(&[ReduceOp::Add, ReduceOp::Max]);
        let wide = if op == ReduceOp::Add { self.to(x, DType::F32)? } else { x };
        let reduced = self.prim(Prim::Reduce { op, axes: axes.clone(), nan: NanRule::Propagate }, &[wide])?;
        if self.random.once_in(2) {
            return Some(reduced);
        }
        // Beside what was reduced, as a norm has it.
        let mut shape = self.shape(x);
        axes.iter().for_each(|&axis| shape[axis] = 1.into());
        let kept = self.prim(Prim::Reshape { shape }, &[reduced])?;
        let f = self.random.pick(&[ScalarFn::Sub, ScalarFn::Div, ScalarFn::Add]);
        self.map(f, &[wide, kept])
    }

    /// The same values with another axis ahead.
    pub(super) fn turn(&mut self) -> Option<Value> {
        let x = self.value();
        let rank = self.b.ty(x).rank();
        (rank >= 2).then_some(())?;
        let axis = 1 + self.random.below(rank - 1);
        let mut perm: Vec<usize> = (0..rank).collect();
        perm.swap(axis - 1, axis);
        self.prim(Prim::Permute { perm }, &[x])
    }

    /// A value of fewer elements as one of more, where that is all that its type lacks.
    pub(super) fn repeated(&mut self) -> Option<Value> {
        let x = self.float()?;
        let mut shape = self.shape(x);
        let ones: Vec<usize> = (0..shape.len()).filter(|&i| shape[i].as_const() == Some(1)).collect();
        let axis = ones.get(self.random.below(ones.len().max(1))).copied()?;
        shape[axis] = self.random.pick(&EXTENTS).into();
        self.prim(Prim::Expand { shape }, &[x])
    }

    /// Divided by, or less, what reduces the last axis and the one before it in turn.
    pub(super) fn in_turn(&mut self) -> Option<Value> {
        let x = self.float()?;
        let shape = self.shape(x);
        (shape.len() == 3 && shape[1..].iter().all(|e| e.as_const().is_some())).then_some(())?;
        let mut value = self.to(x, DType::F32)?;
        let first = self.random.below(2);
        for turn in first..first + 2 + self.random.below(3) {
            let axis = 2 - turn % 2;
            let op = self.random.pick(&[ReduceOp::Add, ReduceOp::Max]);
            let reduced = self.prim(Prim::Reduce { op, axes: vec![axis], nan: NanRule::Propagate }, &[value])?;
            let mut kept = shape.clone();
            kept[axis] = 1.into();
            let kept = self.prim(Prim::Reshape { shape: kept }, &[reduced])?;
            let f = self.random.pick(&[ScalarFn::Div, ScalarFn::Sub]);
            value = self.map(f, &[value, kept])?;
        }
        Some(value)
    }
}
