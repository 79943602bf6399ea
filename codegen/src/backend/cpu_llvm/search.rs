//! Searches of a row, lane by lane: its extreme lane, and its largest lanes in order.

use fusewright_abi::DType;
use fusewright_graph::{ReduceOp, ScalarFn};
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::address::Pos;
use super::eval::{Eval, Key, Running};
use super::extremes;
use crate::backend::host::extremes::one_by_one;
use crate::backend::host::place::Slot;
use crate::backend::llvm::cast::{literal, widen};
use crate::backend::llvm::map::map;
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::{InstOp, Over, Shape, Val};

/// Most bytes of stack memory that the largest lanes of a row take, without the integers that order them.
const MOST_BYTES: i64 = 16 << 10;

/// The largest lanes so far, in memory, from the largest down.
#[derive(Clone, Copy)]
struct Best<'c> {
    dtype: DType,
    count: i64,
    values: IntValue<'c>,
    lanes: IntValue<'c>,
}

/// A row whose largest lanes are wanted.
#[derive(Clone, Copy)]
struct Searched {
    arg: Val,
    /// Its lanes are ordered in place of those of `arg`.
    key: Option<Val>,
    dtype: DType,
}

impl<'c> Eval<'_, '_, 'c> {
    /// Runs a search; its results are scalars, or are stored.
    pub fn search(&mut self, at: usize) -> Built<()> {
        let inst = &self.segment.insts[at];
        let found = match inst.op {
            InstOp::TopK { .. } => self.top_k(at),
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
        let (first, end) = (self.code.i64(0), self.dim(&self.shape(arg).elements())?);
        self.each_lane(arg, [first, end], |eval, i, x| {
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

    /// A loop over the lanes of a row from one to before another.
    fn each_lane(
        &mut self,
        arg: Val,
        [first, end]: [IntValue<'c>; 2],
        body: impl FnOnce(&mut Self, IntValue<'c>, Value<'c>) -> Built<()>,
    ) -> Built<()> {
        let l = self.code.begin_loop(first, end, 1)?;
        self.at_lane(arg, l.i, |eval, x| body(eval, l.i, x))?;
        self.code.end_loop(l)?;
        Ok(())
    }

    /// Runs code on one lane of a row.
    fn at_lane(
        &mut self,
        arg: Val,
        lane: IntValue<'c>,
        body: impl FnOnce(&mut Self, Value<'c>) -> Built<()>,
    ) -> Built<()> {
        let at = Running { base: lane, lanes: None, shift: 0, multiple: 1, mask: None, part: None };
        let outer = self.pass.replace(at);
        let mark = self.memo.enter();
        let x = self.value(arg, self.shape(arg), Some(&Pos::at(lane)), 1)?;
        body(self, x)?;
        self.memo.leave(mark);
        self.pass = outer;
        Ok(())
    }

    /// The largest lanes in descending order, equal ones in theirs, NaNs before everything: each lane that is larger
    /// than the last one kept moves up to its place.
    fn top_k(&mut self, at: usize) -> Built<()> {
        let inst = &self.segment.insts[at];
        let (arg, dtype) = (inst.args[0], self.dtype(inst.args[0]));
        let (InstOp::TopK { k, over }, Shape::Row(count)) = (&inst.op, self.shape(inst.results[0])) else {
            return Err(BuildError::unsupported("the largest of no row"));
        };
        let bytes = i64::from(dtype.bits() / 8);
        let fits = |count: &i64| (1..=MOST_BYTES / (bytes + 4)).contains(count);
        let Some(count) = count.as_const().filter(fits).filter(|_| bytes > 0 && dtype != DType::Bool) else {
            return Err(BuildError::unsupported(format!("the {count} largest of {dtype}")));
        };
        let (values, lanes) = (self.lanes_memory(dtype, count)?, self.lanes_memory(DType::I32, count)?);
        let elements = self.shape(arg).elements();
        let (zero, end) = (self.code.i64(0), self.dim(&elements)?);
        let searched = Searched { arg, key: inst.args.get(1).copied(), dtype };
        match over {
            Over::Row => self.best_of(searched, (count, [values, lanes]), (elements.as_const(), [zero, end]))?,
            Over::Group(size) => {
                let (Some(k), Some(size)) = (k.as_const(), size.as_const()) else {
                    return Err(BuildError::unsupported(format!("the {k} largest of groups of {size}")));
                };
                let l = self.code.begin_loop(zero, self.code.i64(count / k.max(1)), 1)?;
                let mark = self.memo.enter();
                let (found, first) = (self.scaled(l.i, k)?, self.scaled(l.i, size)?);
                let values = self.best_place(values, found, bytes)?;
                let lanes = self.best_place(lanes, found, 4)?;
                let end = self.code.add(first, self.code.i64(size))?;
                self.best_of(searched, (k, [values, lanes]), (Some(size), [first, end]))?;
                self.memo.leave(mark);
                self.code.end_loop(l)?;
            }
        }
        for (&result, address) in inst.results.iter().zip([values, lanes]) {
            self.slots.insert(result, Slot { address, group: None, filled: true });
        }
        Ok(())
    }

    /// Finds the best of the lanes from one to before another, which are `size`, if that is known. Lanes are counted from the
    /// first.
    fn best_of(
        &mut self,
        searched: Searched,
        (count, [values, lanes]): (i64, [IntValue<'c>; 2]),
        (size, [first, end]): (Option<i64>, [IntValue<'c>; 2]),
    ) -> Built<()> {
        let Searched { arg, key, dtype } = searched;
        let insert_all = |eval: &mut Self, arg, best| {
            eval.each_lane(arg, [first, end], |eval, i, x| {
                let place = eval.code.b.build_int_sub(i, first, "")?;
                eval.take(best, x, place)
            })
        };
        let stored = |key| self.slots.get(&key).filter(|slot| slot.filled && slot.group.is_none());
        // Keys that are not stored would be computed one by one, which takes longer than comparing the elements.
        let Some((key, keys)) = key.and_then(|key| Some((key, stored(key)?.address))) else {
            return insert_all(self, arg, Best { dtype, count, values, lanes });
        };
        match size.filter(|size| one_by_one(*size, count, extremes::WIDTH)) {
            Some(size) => {
                let keys = self.best_place(keys, first, 4)?;
                self.extremes(keys, size, count, lanes)?;
            }
            None => {
                let values = self.lanes_memory(DType::I32, count)?;
                insert_all(self, key, Best { dtype: DType::I32, count, values, lanes })?;
            }
        }
        let l = self.code.begin_loop(self.code.i64(0), self.code.i64(count), 1)?;
        let lane = self.load_lanes(DType::I32, self.best_place(lanes, l.i, 4)?, 1)?;
        let lane = self.code.extend(lane, 64, false)?.into_int_value();
        let lane = self.code.add(lane, first)?;
        self.at_lane(arg, lane, |eval, x| {
            eval.store_lanes(dtype, x, eval.best_place(values, l.i, i64::from(dtype.bits() / 8))?)
        })?;
        self.code.end_loop(l)?;
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

    pub(super) fn best_place(&self, base: IntValue<'c>, at: IntValue<'c>, bytes: i64) -> Built<IntValue<'c>> {
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
