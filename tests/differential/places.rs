//! Steps that read and write at chosen places, along every axis of known length: places that are counted, computed of
//! values, and of reads equal to each other; some outside the axis, of which reads take the nearest place and writes
//! none. Rows that are written at equal places are in
//! `tests/regressions.rs`: the interpreter of kernels takes them for a race.

use fusewright::graph::{DType, Literal, Prim, ReduceOp, Rounding, ScalarFn, TensorType, Value};

use super::Gen;

impl Gen {
    /// An axis of known length that has places, and how many.
    fn axis_with_places(&mut self, x: Value) -> Option<(usize, i64)> {
        let axis = self.axis(x)?;
        let extent = self.shape(x)[axis].as_const()?;
        (extent > 0).then_some((axis, extent))
    }

    fn int(&mut self, dtype: DType, value: i64) -> Option<Value> {
        self.prim(Prim::Literal(Literal::Int(dtype, value)), &[])
    }

    /// Places of an axis of so many, one after the other, or others beside it.
    fn places(&mut self, count: i64, extent: i64) -> Option<Value> {
        let dtype = self.random.pick(&[DType::I64, DType::I32]);
        let line = self.pool.iter().copied().find(|&v| {
            let shape = self.shape(v);
            shape.len() == 1 && shape[0].as_const() == Some(count) && self.b.dtype(v).is_float()
        });
        let wanted = match line.filter(|_| self.random.once_in(2)) {
            Some(line) => {
                let round = Rounding::TowardZero;
                self.prim(Prim::Cast { to: dtype, round, saturate: true }, &[line])?
            }
            None => {
                let counted = self.prim(Prim::Iota { dtype, shape: vec![count.into()], axis: 0 }, &[])?;
                let step = self.random.pick(&[1, 1, 2, -1, 0, 5]);
                let step = self.int(dtype, step)?;
                let first = self.random.below(extent as usize) as i64;
                let first = self.int(dtype, first)?;
                let scaled = self.map(ScalarFn::Mul, &[counted, step])?;
                self.map(ScalarFn::Add, &[scaled, first])?
            }
        };
        let beyond = match self.random.below(4) {
            0 => return Some(wanted),
            1 => 2,
            _ => 0,
        };
        let (least, most) = (self.int(dtype, -beyond)?, self.int(dtype, extent - 1 + beyond)?);
        let above = self.map(ScalarFn::Max, &[wanted, least])?;
        self.map(ScalarFn::Min, &[above, most])
    }

    /// Places that differ from each other, the first or the last perhaps outside the axis.
    fn different_places(&mut self, count: i64, extent: i64) -> Option<Value> {
        let dtype = self.random.pick(&[DType::I64, DType::I32]);
        let counted = self.prim(Prim::Iota { dtype, shape: vec![count.into()], axis: 0 }, &[])?;
        let first = self.random.below((extent - count + 3) as usize) as i64 - 1;
        let first = self.int(dtype, first)?;
        let rising = self.map(ScalarFn::Add, &[counted, first])?;
        if self.random.once_in(2) {
            return Some(rising);
        }
        let last = self.int(dtype, count - 1)?;
        let falling = self.map(ScalarFn::Sub, &[last, counted])?;
        self.map(ScalarFn::Add, &[falling, first])
    }

    fn count(&mut self, extent: i64) -> i64 {
        if self.random.once_in(2) { extent } else { 1 + self.random.below(9) as i64 }
    }

    /// Slices at places.
    pub(super) fn choose(&mut self) -> Option<Value> {
        let x = self.value();
        let (axis, extent) = self.axis_with_places(x)?;
        let count = self.count(extent);
        let places = self.places(count, extent)?;
        self.prim(Prim::Gather { axis }, &[x, places])
    }

    /// Slices to be written: values of the right shape if there are any, or the tensor's own.
    fn updates(&mut self, x: Value, axis: usize, count: i64, extent: i64) -> Option<Value> {
        let mut shape = self.shape(x);
        shape[axis] = count.into();
        let wanted = TensorType::new(self.b.dtype(x), shape);
        if let Some(found) = self.pool.iter().copied().find(|&v| v != x && self.b.ty(v) == wanted) {
            return Some(found);
        }
        let places = self.places(count, extent)?;
        let own = self.prim(Prim::Gather { axis }, &[x, places])?;
        let other = self.beside(own)?;
        let sum = self.map(ScalarFn::Add, &[own, other])?;
        (self.b.ty(sum) == wanted).then_some(sum)
    }

    /// Slices written at places.
    pub(super) fn write(&mut self) -> Option<Value> {
        let x = self.float()?;
        let (axis, extent) = self.axis_with_places(x)?;
        let count = self.count(extent).min(extent);
        let updates = self.updates(x, axis, count, extent)?;
        let places = self.different_places(count, extent)?;
        self.prim(Prim::Scatter { axis }, &[x, places, updates])
    }

    /// Slices combined with what stands at places.
    pub(super) fn combine(&mut self) -> Option<Value> {
        let x = self.float()?;
        let (axis, extent) = self.axis_with_places(x)?;
        let count = self.count(extent);
        let updates = self.updates(x, axis, count, extent)?;
        let places = self.places(count, extent)?;
        let op = self.random.pick(&[ReduceOp::Add, ReduceOp::Max, ReduceOp::Min]);
        self.prim(Prim::ScatterReduce { op, axis }, &[x, places, updates])
    }
}
