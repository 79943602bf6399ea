//! Reductions in the order that Kernel IR states.
//!
//! A tree of as many interleaved accumulators as a chunk has lanes is one vector and takes whole chunks. Any other tree
//! keeps its accumulators in memory and takes lanes one by one, and so does a part of a row that cannot go in chunks.
//!
//! Extremes of f32 that hand NaN on are searched among integers in the same order, so that a chunk waits for one
//! instruction of the chunk before it.

use fusewright_abi::DType;
use fusewright_graph::{Dim, NanRule, ReduceOp, ScalarFn};
use inkwell::values::{IntValue, PointerValue};
use inkwell::{FloatPredicate, IntPredicate};

use super::address::Pos;
use super::eval::{CHUNK, Eval, Running};
use super::maps;
use super::memory::MEMORY;
use crate::backend::host::facts::Known;
use crate::backend::host::place::InGroup;
use crate::backend::host::trees::{MOST_ACCUMULATORS, UNROLLED, runs};
use crate::backend::llvm::cast::{Cast, cast, literal, widen};
use crate::backend::llvm::ops::{lanes, widened};
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::{InstOp, Order, Over, Shape, Tree, Val};

/// The tree for an order that is left open.
const RELAXED: Tree = Tree::interleaved(CHUNK);

/// A reduction in progress.
#[derive(Clone, Debug)]
pub(super) struct Accumulators<'c> {
    op: ReduceOp,
    nan: NanRule,
    dtype: DType,
    known: Known,
    tree: Tree,
    /// All of them as one vector, if chunks are taken.
    vector: Option<PointerValue<'c>>,
    /// Whether the vector holds integers in the order of the numbers.
    ranked: bool,
    memory: IntValue<'c>,
}

impl Accumulators<'_> {
    /// Whether chunks are taken and no order of lanes shows in the result: extremes of integers, or of numbers that have
    /// one zero.
    pub fn is_unordered(&self) -> bool {
        let extreme = matches!(self.op, ReduceOp::Max | ReduceOp::Min);
        let one_zero = self.dtype == DType::F32 && self.op == ReduceOp::Max && self.known.sign_clear;
        self.vector.is_some() && extreme && (self.ranked || one_zero)
    }
}

/// Whether whole chunks of lanes can be taken.
pub(super) fn takes_chunks(order: Order, dtype: DType) -> bool {
    tree_of(order) == Tree::interleaved(CHUNK) && dtype != DType::Bool
}

fn tree_of(order: Order) -> Tree {
    match order {
        Order::Tree(tree) => tree,
        Order::Relaxed => RELAXED,
    }
}

impl<'c> Eval<'_, '_, 'c> {
    /// Accumulators at what the op starts from.
    pub fn accumulators(&mut self, at: usize) -> Built<Accumulators<'c>> {
        let inst = &self.segment.insts[at];
        let InstOp::Reduce { op, nan, order, .. } = inst.op else {
            return Err(BuildError::unsupported("not a reduction"));
        };
        let (tree, dtype) = (tree_of(order), self.dtype(inst.args[0]));
        let count = tree.accumulators();
        if tree.vec == 0 || count == 0 || count > MOST_ACCUMULATORS {
            return Err(BuildError::unsupported(format!("{count} accumulators ({order})")).at(self.segment, inst));
        }
        let known = self.facts[inst.args[0].0 as usize];
        let memory = self.stack(count as i64 * i64::from(dtype.bits().div_ceil(8)))?;
        let ranked = matches!(op.step(nan), ScalarFn::Max | ScalarFn::Min) && dtype == DType::F32 && !known.sign_clear;
        let mut acc = Accumulators { op, nan, dtype, known, tree, vector: None, ranked, memory };
        let start = literal(self.code, &op.start(dtype))?;
        if takes_chunks(order, dtype) {
            let start = self.code.splat(start, CHUNK)?;
            let start = if ranked { self.rank(&acc, start)? } else { start };
            let variable = self.variable(start.get_type())?;
            self.code.b.build_store(variable, start)?;
            acc.vector = Some(variable);
        } else {
            let l = self.code.begin_loop(self.code.i64(0), self.code.i64(count as i64), 1)?;
            self.put(&acc, l.i, start)?;
            self.code.end_loop(l)?;
        }
        Ok(acc)
    }

    fn place(&self, acc: &Accumulators<'c>, index: IntValue<'c>) -> Built<IntValue<'c>> {
        self.code.add(acc.memory, self.scaled(index, i64::from(acc.dtype.bits().div_ceil(8)))?)
    }

    fn put(&self, acc: &Accumulators<'c>, index: IntValue<'c>, value: Value<'c>) -> Built<()> {
        self.store_lanes(acc.dtype, value, self.place(acc, index)?)
    }

    fn get(&self, acc: &Accumulators<'c>, index: IntValue<'c>) -> Built<Value<'c>> {
        self.load_lanes(acc.dtype, self.place(acc, index)?, 1)
    }

    fn step(&self, acc: &Accumulators<'c>, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        let (code, dtype, f) = (self.code, acc.dtype, acc.op.step(acc.nan));
        if dtype.is_float() && dtype.bits() < 32 {
            let (x, y) = (widen(code, a, dtype)?, widen(code, b, dtype)?);
            let result = maps::map(code, f, DType::F32, &[x, y], &[])?;
            return cast(code, result, Cast::nearest(DType::F32, dtype));
        }
        match f {
            // An accumulator starts from a number and never becomes NaN, and is kept against a NaN; equal zeros are the
            // only other case where the order of operands shows.
            ScalarFn::MaxNum if dtype == DType::F32 && acc.known.sign_clear => maps::beyond(code, true, b, a),
            ScalarFn::Max if dtype == DType::F32 && acc.known.sign_clear => maps::max_of_positive(code, a, b),
            _ => maps::map(code, f, dtype, &[a, b], &[]),
        }
    }

    fn vector(&self, acc: &Accumulators<'c>) -> Built<Option<(PointerValue<'c>, Value<'c>)>> {
        let Some(variable) = acc.vector else { return Ok(None) };
        let element = if acc.ranked { self.code.int_type(32).into() } else { self.code.type_of(acc.dtype) };
        Ok(Some((variable, self.code.b.build_load(widened(element, CHUNK), variable, "")?)))
    }

    /// Integers in the order of f32 values, the two zeros apart, NaN beyond all others.
    fn rank(&self, acc: &Accumulators<'c>, x: Value<'c>) -> Built<Value<'c>> {
        let code = self.code;
        let ranks = self.turned(code.bits_of(x)?)?;
        let nan: i64 = if acc.op == ReduceOp::Max { 0x7fc0_0000 } else { -0x7fc0_0001 };
        code.select(code.fcmp(FloatPredicate::UNO, x, x)?, code.int(ranks, nan), ranks)
    }

    /// Of negative numbers the bits below the sign turned over: ranks of bits, and bits of ranks.
    fn turned(&self, bits: Value<'c>) -> Built<Value<'c>> {
        let negative = self.code.sar(bits, 31)?;
        self.code.xor(bits, self.code.masked(negative, 0x7fff_ffff)?)
    }

    /// The accumulators of a vector as elements.
    fn elements(&self, acc: &Accumulators<'c>, value: Value<'c>) -> Built<Value<'c>> {
        if acc.ranked { self.code.float_of(self.turned(value)?) } else { Ok(value) }
    }

    /// Takes a chunk of lanes, or those that the mask has, or some of a chunk: the first of them goes to the accumulator `from`.
    pub fn accumulate(&mut self, acc: &Accumulators<'c>, lanes: Value<'c>, from: u32) -> Built<()> {
        let (lanes, some) = self.whole_chunk(lanes, from)?;
        let Some((variable, so_far)) = self.vector(acc)? else {
            return Err(BuildError::Llvm("a chunk for accumulators in memory".into()));
        };
        let mut next = if acc.ranked {
            let extreme = if acc.op == ReduceOp::Max { "llvm.smax" } else { "llvm.smin" };
            self.code.same(extreme, &[so_far, self.rank(acc, lanes)?])?
        } else {
            self.step(acc, so_far, lanes)?
        };
        if let Some(mask) = self.pass.as_ref().and_then(|pass| pass.mask).or(some) {
            next = self.code.select(mask, next, so_far)?;
        }
        self.code.b.build_store(variable, next)?;
        Ok(())
    }

    /// Lanes as those of a chunk from `from` on, and which of these they are, if they are not all.
    fn whole_chunk(&self, value: Value<'c>, from: u32) -> Built<(Value<'c>, Option<Value<'c>>)> {
        let count = lanes(value);
        if count >= CHUNK {
            return Ok((value, None));
        }
        let whole = self.shuffle(value, value, (0..CHUNK).map(|lane| lane % count))?;
        let below = |n: u32| {
            let n = self.code.splat(self.code.i32(n.into()).into(), CHUNK)?;
            self.code.icmp(IntPredicate::ULT, self.lane_numbers(CHUNK), n)
        };
        Ok((whole, Some(self.code.xor(below(from + count)?, below(from)?)?)))
    }

    /// Copies a vector of accumulators to memory, before lanes are taken one by one.
    pub fn spill(&mut self, acc: &Accumulators<'c>) -> Built<()> {
        match self.vector(acc)? {
            Some((_, value)) => self.code.store(self.elements(acc, value)?, acc.memory, MEMORY),
            None => Ok(()),
        }
    }

    /// Takes the accumulators back into the vector.
    pub fn reload(&mut self, acc: &Accumulators<'c>) -> Built<()> {
        if let Some(variable) = acc.vector {
            let ty = widened(self.code.type_of(acc.dtype), CHUNK);
            let value = self.code.load(ty, acc.memory, MEMORY)?;
            let value = if acc.ranked { self.rank(acc, value)? } else { value };
            self.code.b.build_store(variable, value)?;
        }
        Ok(())
    }

    /// Takes one lane into the accumulators in memory.
    pub fn accumulate_one(&mut self, acc: &Accumulators<'c>, lane: IntValue<'c>, value: Value<'c>) -> Built<()> {
        let index = self.accumulator_of(&acc.tree, lane)?;
        let so_far = self.get(acc, index)?;
        let next = self.step(acc, so_far, value)?;
        self.put(acc, index, next)
    }

    fn accumulator_of(&self, tree: &Tree, lane: IntValue<'c>) -> Built<IntValue<'c>> {
        let (code, b) = (self.code, &self.code.b);
        let constant = |n: u32| code.i64(i64::from(n));
        let turn = b.build_int_unsigned_div(lane, constant(tree.vec), "")?;
        let thread = b.build_int_unsigned_rem(turn, constant(tree.threads), "")?;
        let within = b.build_int_unsigned_rem(lane, constant(tree.vec), "")?;
        let way = b.build_int_unsigned_rem(within, constant(tree.ways), "")?;
        code.add(code.mul(thread, constant(tree.ways))?, way)
    }

    /// The result, once all lanes are taken.
    pub fn finish(&mut self, acc: &Accumulators<'c>) -> Built<Value<'c>> {
        if let Some((_, value)) = self.vector(acc)? {
            return self.halve(acc, self.elements(acc, value)?);
        }
        let steps = acc.tree.combine_steps();
        if steps.len() <= UNROLLED {
            for (into, from) in steps {
                self.combine(acc, self.code.i64(into as i64), self.code.i64(from as i64))?;
            }
        } else {
            for run in runs(&steps) {
                let l = self.code.begin_loop(self.code.i64(0), self.code.i64(run.count as i64), 1)?;
                let far = self.scaled(l.i, run.stride as i64)?;
                let into = self.code.add(far, self.code.i64(run.into as i64))?;
                let from = self.code.add(far, self.code.i64(run.from as i64))?;
                self.combine(acc, into, from)?;
                self.code.end_loop(l)?;
            }
        }
        self.get(acc, self.code.i64(0))
    }

    fn combine(&mut self, acc: &Accumulators<'c>, into: IntValue<'c>, from: IntValue<'c>) -> Built<()> {
        let sum = self.step(acc, self.get(acc, into)?, self.get(acc, from)?)?;
        self.put(acc, into, sum)
    }

    /// Halves within the vector: lane `i` takes lane `i` of the upper half.
    fn halve(&mut self, acc: &Accumulators<'c>, mut value: Value<'c>) -> Built<Value<'c>> {
        let mut left = CHUNK;
        while left > 2 {
            left /= 2;
            let lower = self.shuffle(value, value, 0..left)?;
            let upper = self.shuffle(value, value, left..2 * left)?;
            value = self.step(acc, lower, upper)?;
        }
        self.step(acc, self.extract(value, 0)?, self.extract(value, 1)?)
    }

    /// A group reduction at a group, in a loop of its own.
    pub fn reduce_group(&mut self, v: Val, pos: &Pos<'c>) -> Built<Value<'c>> {
        let (at, inst) = self.definition(v);
        let (InstOp::Reduce { over: Over::Group(size), .. }, Shape::Group { lanes, .. }) = (&inst.op, self.shape(v))
        else {
            return Err(BuildError::unsupported("a reduction over a row that is used as lanes"));
        };
        let index = self.lane(pos)?;
        let (from, to) = self.group_bounds(lanes, size, index)?;
        let outer = (self.group.take(), self.pass.take());
        let mark = self.memo.enter();
        let acc = self.accumulators(at)?;
        self.spill(&acc)?;
        let l = self.code.begin_loop(from, to, 1)?;
        let inside = self.memo.enter();
        self.pass = Some(Running { base: l.i, lanes: None, shift: 0, multiple: 1, mask: None, part: None });
        self.group = Some(InGroup { lanes: lanes.clone(), size: size.clone(), index, rate: 1, span: 1 });
        let value = self.value(inst.args[0], self.shape(inst.args[0]), Some(&Pos::at(l.i)), 1)?;
        let within = self.code.b.build_int_sub(l.i, from, "")?;
        self.accumulate_one(&acc, within, value)?;
        self.memo.leave(inside);
        self.code.end_loop(l)?;
        self.memo.leave(mark);
        (self.group, self.pass) = outer;
        self.reload(&acc)?;
        self.finish(&acc)
    }

    /// First lane of a group and the lane after its last.
    pub fn group_bounds(
        &mut self,
        lanes: &Dim,
        size: &Dim,
        index: IntValue<'c>,
    ) -> Built<(IntValue<'c>, IntValue<'c>)> {
        let (all, by) = (self.dim(lanes)?, self.dim(size)?);
        let from = self.code.mul(index, by)?;
        let to = self.code.add(from, by)?;
        if lanes.exact_div(size).is_some() {
            return Ok((from, to));
        }
        let inside = self.code.cmp(IntPredicate::SLT, to, all)?;
        Ok((from, self.code.select(inside, to, all)?.into_int_value()))
    }
}
