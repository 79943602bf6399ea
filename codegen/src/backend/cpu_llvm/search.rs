//! Searches of a row, lane by lane: its extreme lane, and its largest lanes in order.

use fusewright_abi::DType;
use fusewright_graph::{ReduceOp, ScalarFn};
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::address::Pos;
use super::eval::{Eval, Key, Running};
use crate::backend::host::place::Slot;
use crate::backend::llvm::cast::{literal, widen};
use crate::backend::llvm::map::map;
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::{InstOp, Shape};

/// Most bytes of stack memory that the largest lanes of a row take.
const MOST_BYTES: i64 = 16 << 10;

/// The largest lanes so far, in memory, from the largest down.
#[derive(Clone, Copy)]
struct Best<'c> {
    dtype: DType,
    count: i64,
    values: IntValue<'c>,
    lanes: IntValue<'c>,
}

impl<'c> Eval<'_, '_, 'c> {
    /// Runs a search; its results are scalars, or are stored.
    pub fn search(&mut self, at: usize) -> Built<()> {
        let inst = &self.segment.insts[at];
        let found = match inst.op {
            InstOp::TopK(_) => self.top_k(at),
            InstOp::ArgReduce(op) => self.arg_reduce(at, op),
            _ => Err(BuildError::unsupported("not a search")),
        };
        found.map_err(|e| e.at(self.segment, inst))
    }

    /// The extreme lane of a row: the first of equals, a NaN before everything.
    fn arg_reduce(&mut self, at: usize, op: ReduceOp) -> Built<()> {
        let inst = &self.segment.insts[at];
        let (arg, dtype) = (inst.args[0], self.dtype(inst.args[0]));
        if dtype == DType::Bool {
            return Err(BuildError::unsupported("an extreme of booleans"));
        }
        let start = literal(self.code, &op.start(dtype))?;
        let (best, place) = (self.variable(start.get_type())?, self.variable(self.code.int_type(32).into())?);
        let (value_type, place_type) = (start.get_type(), self.code.int_type(32));
        self.code.b.build_store(best, start)?;
        self.code.b.build_store(place, self.code.i32(0))?;
        self.each_lane(arg, |eval, i, x| {
            let so_far = eval.code.b.build_load(value_type, best, "")?;
            let at_best = eval.code.b.build_load(place_type, place, "")?;
            let better = eval.is_better(op, dtype, x, so_far)?;
            let at_x = eval.code.extend(i.into(), 32, false)?;
            eval.code.b.build_store(best, eval.code.select(better, x, so_far)?)?;
            eval.code.b.build_store(place, eval.code.select(better, at_x, at_best)?)?;
            Ok(())
        })?;
        let value = self.code.b.build_load(value_type, best, "")?;
        let index = self.code.b.build_load(place_type, place, "")?;
        self.memo.remember(Key::Scalar(inst.results[0]), value);
        self.memo.remember(Key::Scalar(inst.results[1]), index);
        Ok(())
    }

    /// A loop over the lanes of a row.
    fn each_lane(
        &mut self,
        arg: crate::kernel::Val,
        body: impl FnOnce(&mut Self, IntValue<'c>, Value<'c>) -> Built<()>,
    ) -> Built<()> {
        let elements = self.shape(arg).elements();
        let end = self.dim(&elements)?;
        let l = self.code.begin_loop(self.code.i64(0), end, 1)?;
        let outer =
            self.pass.replace(Running { base: l.i, lanes: None, shift: 0, even: false, mask: None, part: None });
        let mark = self.memo.enter();
        let x = self.value(arg, self.shape(arg), Some(&Pos::at(l.i)), 1)?;
        body(self, l.i, x)?;
        self.memo.leave(mark);
        self.pass = outer;
        self.code.end_loop(l)?;
        Ok(())
    }

    /// The largest lanes in descending order, equal ones in theirs, NaNs before everything: each lane that is larger
    /// than the last one kept moves up to its place.
    fn top_k(&mut self, at: usize) -> Built<()> {
        let inst = &self.segment.insts[at];
        let (arg, dtype) = (inst.args[0], self.dtype(inst.args[0]));
        let Shape::Row(count) = self.shape(inst.results[0]) else {
            return Err(BuildError::unsupported("the largest of no row"));
        };
        let bytes = i64::from(dtype.bits() / 8);
        let fits = |count: &i64| (1..=MOST_BYTES / (bytes + 4).max(1)).contains(count);
        let Some(count) = count.as_const().filter(fits).filter(|_| bytes > 0 && dtype != DType::Bool) else {
            return Err(BuildError::unsupported(format!("the {count} largest of {dtype}")));
        };
        let (values, lanes) = (self.lanes_memory(dtype, count)?, self.lanes_memory(DType::I32, count)?);
        let best = Best { dtype, count, values, lanes };
        self.each_lane(arg, |eval, i, x| eval.take(best, x, i))?;
        for (&result, address) in inst.results.iter().zip([values, lanes]) {
            self.slots.insert(result, Slot { address, group: None, filled: true });
        }
        Ok(())
    }

    /// Whether `x` replaces the best element so far.
    fn is_better(&self, op: ReduceOp, dtype: DType, x: Value<'c>, best: Value<'c>) -> Built<Value<'c>> {
        let beyond = if op == ReduceOp::Max { ScalarFn::Gt } else { ScalarFn::Lt };
        if !dtype.is_float() {
            return map(self.code, beyond, dtype, &[x, best]);
        }
        let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
        let (x, best) = (widen(self.code, x, dtype)?, widen(self.code, best, dtype)?);
        let beyond = map(self.code, beyond, wide, &[x, best])?;
        let nan = map(self.code, ScalarFn::Ne, wide, &[x, x])?;
        let number = map(self.code, ScalarFn::Eq, wide, &[best, best])?;
        self.code.and(self.code.or(beyond, nan)?, number)
    }

    /// Puts lane `i` of value `x` among the best, if it belongs there: from the end, or from `i` while there are fewer,
    /// smaller ones move down by one.
    fn take(&mut self, best: Best<'c>, x: Value<'c>, i: IntValue<'c>) -> Built<()> {
        let code = self.code;
        let last = code.i64(best.count - 1);
        let few = code.cmp(IntPredicate::SLT, i, code.i64(best.count))?;
        let full = |eval: &mut Self| {
            let least = eval.best_value(best, last)?;
            eval.is_better(ReduceOp::Max, best.dtype, x, least)
        };
        let enters = self.branch(few.into(), |_| Ok(code.bool(true).into()), full)?;
        self.when(enters, |eval| {
            let first = code.select(few, i, last)?.into_int_value();
            let before = code.here()?;
            let test = code.fall_into_new_block()?;
            let (look, shift, place) = (code.block(), code.block(), code.block());
            let at = code.b.build_phi(code.ctx.i64_type(), "")?;
            at.add_incoming(&[(&first, before)]);
            let to = at.as_basic_value().into_int_value();
            let top = code.cmp(IntPredicate::EQ, to, code.i64(0))?;
            code.b.build_conditional_branch(top, place, look)?;
            code.b.position_at_end(look);
            let above = code.add(to, code.i64(-1))?;
            let y = eval.best_value(best, above)?;
            let better = eval.is_better(ReduceOp::Max, best.dtype, x, y)?;
            code.b.build_conditional_branch(better.into_int_value(), shift, place)?;
            code.b.position_at_end(shift);
            let lane = eval.load_lanes(DType::I32, eval.best_place(best.lanes, above, 4)?, 1)?;
            eval.put_best(best, to, y, lane)?;
            at.add_incoming(&[(&above, code.here()?)]);
            code.b.build_unconditional_branch(test)?;
            code.b.position_at_end(place);
            let lane = code.extend(i.into(), 32, false)?;
            eval.put_best(best, to, x, lane)
        })
    }

    fn best_place(&self, base: IntValue<'c>, at: IntValue<'c>, bytes: i64) -> Built<IntValue<'c>> {
        self.code.add(base, self.scaled(at, bytes)?)
    }

    fn best_value(&self, best: Best<'c>, at: IntValue<'c>) -> Built<Value<'c>> {
        let address = self.best_place(best.values, at, i64::from(best.dtype.bits() / 8))?;
        self.load_lanes(best.dtype, address, 1)
    }

    fn put_best(&self, best: Best<'c>, at: IntValue<'c>, value: Value<'c>, lane: Value<'c>) -> Built<()> {
        let address = self.best_place(best.values, at, i64::from(best.dtype.bits() / 8))?;
        self.store_lanes(best.dtype, value, address)?;
        self.store_lanes(DType::I32, lane, self.best_place(best.lanes, at, 4)?)
    }
}
