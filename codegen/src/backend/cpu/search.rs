//! Searches of a row, lane by lane: its extreme lane, and its largest lanes in order.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F64, I32, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use fusewright_abi::DType;
use fusewright_graph::ReduceOp;

use super::cast::register;
use super::code::Code;
use super::eval::{Eval, Key};
use super::extremes;
use super::index::Pos;
use super::memory::{Lanes, Width};
use crate::backend::host::Taken;
use crate::backend::host::extremes::one_by_one;
use crate::backend::host::place::Slot;
use crate::kernel::{Inst, InstOp, Over, Shape, Val};

/// Most bytes of stack memory that the largest lanes of a row take, without the integers that order them.
const MOST_BYTES: i64 = 16 << 10;

/// The largest lanes so far, in memory, from the largest down.
#[derive(Clone, Copy)]
struct Best {
    dtype: DType,
    count: i64,
    values: Value,
    lanes: Value,
}

/// A row whose largest lanes are wanted.
#[derive(Clone, Copy)]
struct Searched {
    arg: Val,
    /// Its lanes are ordered in place of those of `arg`.
    key: Option<Val>,
    dtype: DType,
}

impl Eval<'_, '_> {
    /// Runs a search; its results are scalars, or are stored.
    pub(super) fn search(&mut self, at: usize) -> Taken<()> {
        match self.segment.insts[at].op {
            InstOp::TopK { .. } => self.top_k(at),
            _ => self.arg_reduce(at),
        }
    }

    /// The extreme lane of a row: the first of equals, a NaN before everything.
    fn arg_reduce(&mut self, at: usize) -> Taken<()> {
        let segment = self.segment;
        let inst: &Inst = &segment.insts[at];
        self.at = Some(at);
        let InstOp::ArgReduce(op) = inst.op else { return Err(self.refuse("not an extreme")) };
        let (arg, dtype) = (inst.args[0], segment.ty(inst.args[0]).dtype);
        if dtype == DType::Bool {
            return Err(self.refuse("an extreme of booleans"));
        }
        let shape = &segment.ty(arg).shape;
        let start = self.literal(op.start(dtype), Width::One);
        let best = self.code.b.declare_var(register(dtype));
        let place = self.code.b.declare_var(I32);
        self.code.b.def_var(best, start);
        let nowhere = self.code.b.ins().iconst(I32, 0);
        self.code.b.def_var(place, nowhere);
        let (zero, end) = (self.code.i64(0), self.dim(&shape.elements())?);
        let l = self.code.begin_loop(zero, end, 1);
        let mark = self.memo.enter();
        let x = self.value(arg, shape, Some(&Pos::at(l.i)), Width::One)?.first;
        let so_far = self.code.b.use_var(best);
        let better = self.code.is_better(op, dtype, x, so_far);
        let at_x = self.code.b.ins().ireduce(I32, l.i);
        let at_best = self.code.b.use_var(place);
        let value = self.code.b.ins().select(better, x, so_far);
        let index = self.code.b.ins().select(better, at_x, at_best);
        self.code.b.def_var(best, value);
        self.code.b.def_var(place, index);
        self.memo.leave(mark);
        self.code.end_loop(l);
        let (value, index) = (self.code.b.use_var(best), self.code.b.use_var(place));
        self.remember(Key::Scalar(inst.results[0]), value);
        self.remember(Key::Scalar(inst.results[1]), index);
        self.at = None;
        Ok(())
    }

    /// The largest lanes in descending order, equal ones in theirs, NaNs before everything: each lane that is larger
    /// than the last one kept moves up to its place.
    fn top_k(&mut self, at: usize) -> Taken<()> {
        let segment = self.segment;
        let inst = &segment.insts[at];
        self.at = Some(at);
        let (arg, dtype) = (inst.args[0], segment.ty(inst.args[0]).dtype);
        let (InstOp::TopK { k, over }, Shape::Row(count)) = (&inst.op, &segment.ty(inst.results[0]).shape) else {
            return Err(self.refuse("no search of a row"));
        };
        let bytes = i64::from(dtype.bits() / 8);
        let fits = |count: &i64| (1..=MOST_BYTES / (bytes + 4)).contains(count);
        let Some(count) = count.as_const().filter(fits).filter(|_| bytes > 0 && dtype != DType::Bool) else {
            return Err(self.refuse(format!("the {count} largest of {dtype}")));
        };
        let (values, lanes) = (self.code.stack((count * bytes) as u32), self.code.stack(count as u32 * 4));
        let elements = segment.ty(arg).shape.elements();
        let (zero, end) = (self.code.i64(0), self.dim(&elements)?);
        let searched = Searched { arg, key: inst.args.get(1).copied(), dtype };
        match over {
            Over::Row => self.best_of(searched, (count, [values, lanes]), (elements.as_const(), [zero, end]))?,
            Over::Group(size) => {
                let (Some(k), Some(size)) = (k.as_const(), size.as_const()) else {
                    return Err(self.refuse(format!("the {k} largest of groups of {size}")));
                };
                let groups = self.code.i64(count / k.max(1));
                let l = self.code.begin_loop(zero, groups, 1);
                let mark = self.memo.enter();
                let [found, first] = [k, size].map(|step| self.scaled(l.i, step));
                let values = self.code.element(values, found, bytes);
                let lanes = self.code.element(lanes, found, 4);
                let end = self.code.add(first, size);
                self.best_of(searched, (k, [values, lanes]), (Some(size), [first, end]))?;
                self.memo.leave(mark);
                self.code.end_loop(l);
            }
        }
        for (&result, address) in inst.results.iter().zip([values, lanes]) {
            self.slots.insert(result, Slot { address, group: None, filled: true });
        }
        self.at = None;
        Ok(())
    }

    /// Finds the best of the lanes from one to before another, which are `size`, if that is known. Lanes are counted from the
    /// first.
    fn best_of(
        &mut self,
        searched: Searched,
        (count, [values, lanes]): (i64, [Value; 2]),
        (size, [first, end]): (Option<i64>, [Value; 2]),
    ) -> Taken<()> {
        let Searched { arg, key, dtype } = searched;
        let stored = |key| self.slots.get(&key).filter(|slot| slot.filled && slot.group.is_none());
        // Keys that are not stored would be computed one by one, which takes longer than comparing the elements.
        let Some((key, keys)) = key.and_then(|key| Some((key, stored(key)?.address))) else {
            return self.insert_all(arg, Best { dtype, count, values, lanes }, [first, end]);
        };
        match size.filter(|size| one_by_one(*size, count, extremes::WIDTH)) {
            Some(size) => {
                let keys = self.code.element(keys, first, 4);
                self.code.extremes(keys, size, count, lanes);
            }
            None => {
                let values = self.code.stack(count as u32 * 4);
                self.insert_all(key, Best { dtype: DType::I32, count, values, lanes }, [first, end])?;
            }
        }
        let (zero, end) = (self.code.i64(0), self.code.i64(count));
        let l = self.code.begin_loop(zero, end, 1);
        let mark = self.memo.enter();
        let place = self.code.element(lanes, l.i, 4);
        let lane = self.code.load(I32, place, 0);
        let lane = self.code.b.ins().uextend(I64, lane);
        let lane = self.code.b.ins().iadd(lane, first);
        let x = self.value(arg, &self.segment.ty(arg).shape, Some(&Pos::at(lane)), Width::One)?;
        let address = self.code.element(values, l.i, i64::from(dtype.bits() / 8));
        self.code.store_lanes(dtype, x, address, 0, Width::One);
        self.memo.leave(mark);
        self.code.end_loop(l);
        Ok(())
    }

    /// Puts lanes from one to before another among the best, one after the other.
    fn insert_all(&mut self, arg: Val, best: Best, [first, end]: [Value; 2]) -> Taken<()> {
        let segment = self.segment;
        let l = self.code.begin_loop(first, end, 1);
        let mark = self.memo.enter();
        let x = self.value(arg, &segment.ty(arg).shape, Some(&Pos::at(l.i)), Width::One)?.first;
        let place = self.code.b.ins().isub(l.i, first);
        self.code.take(best, x, place);
        self.memo.leave(mark);
        self.code.end_loop(l);
        Ok(())
    }
}

impl Code<'_> {
    /// Whether `x` replaces the best element so far.
    fn is_better(&mut self, op: ReduceOp, dtype: DType, x: Value, best: Value) -> Value {
        let max = op == ReduceOp::Max;
        if !dtype.is_float() {
            let cc = if max { IntCC::SignedGreaterThan } else { IntCC::SignedLessThan };
            return self.icmp(if dtype.is_signed_int() { cc } else { cc.unsigned() }, x, best);
        }
        let (x, best) = match dtype {
            DType::F64 => (x, best),
            _ => (self.widened(x, dtype), self.widened(best, dtype)),
        };
        debug_assert!(matches!(self.ty(x), F32 | F64));
        let cc = if max { FloatCC::GreaterThan } else { FloatCC::LessThan };
        let beyond = self.fcmp(cc, x, best);
        let nan = self.fcmp(FloatCC::Unordered, x, x);
        let number = self.fcmp(FloatCC::Ordered, best, best);
        let wins = self.b.ins().bor(beyond, nan);
        self.b.ins().band(wins, number)
    }

    /// Puts lane `i` of value `x` among the best, if it belongs there.
    fn take(&mut self, best: Best, x: Value, i: Value) {
        let [last, enter, test, shift, place, done] = std::array::from_fn(|_| self.b.create_block());
        let at = self.b.append_block_param(enter, I64);
        let to = self.b.append_block_param(place, I64);
        // Until there are enough, every lane is among them.
        let few = self.icmp_const(IntCC::SignedLessThan, i, best.count);
        self.b.ins().brif(few, enter, &[i.into()], last, &[]);
        self.b.seal_block(last);
        self.b.switch_to_block(last);
        let end = self.i64(best.count - 1);
        let least = self.best_value(best, end);
        let better = self.is_better(ReduceOp::Max, best.dtype, x, least);
        self.b.ins().brif(better, enter, &[end.into()], done, &[]);
        self.b.switch_to_block(enter);
        let first = self.icmp_const(IntCC::Equal, at, 0);
        self.b.ins().brif(first, place, &[at.into()], test, &[]);
        self.b.seal_block(test);
        self.b.switch_to_block(test);
        let before = self.add(at, -1);
        let y = self.best_value(best, before);
        let better = self.is_better(ReduceOp::Max, best.dtype, x, y);
        self.b.ins().brif(better, shift, &[], place, &[at.into()]);
        self.b.seal_block(shift);
        self.b.seal_block(place);
        self.b.switch_to_block(shift);
        let address = self.element(best.lanes, before, 4);
        let lane = self.load(I32, address, 0);
        self.put(best, at, y, lane);
        self.b.ins().jump(enter, &[before.into()]);
        self.b.seal_block(enter);
        self.b.switch_to_block(place);
        let lane = self.b.ins().ireduce(I32, i);
        self.put(best, to, x, lane);
        self.b.ins().jump(done, &[]);
        self.b.seal_block(done);
        self.b.switch_to_block(done);
    }

    fn best_value(&mut self, best: Best, at: Value) -> Value {
        let address = self.element(best.values, at, i64::from(best.dtype.bits() / 8));
        self.load_lanes(best.dtype, address, 0, Width::One).first
    }

    fn put(&mut self, best: Best, at: Value, value: Value, lane: Value) {
        let address = self.element(best.values, at, i64::from(best.dtype.bits() / 8));
        self.store_lanes(best.dtype, Lanes::one(value), address, 0, Width::One);
        let address = self.element(best.lanes, at, 4);
        self.store(lane, address, 0);
    }

    pub(super) fn element(&mut self, base: Value, at: Value, bytes: i64) -> Value {
        let distance = self.shl(at, bytes.trailing_zeros());
        self.b.ins().iadd(base, distance)
    }
}
