//! Reductions in the order that Kernel IR states.
//!
//! A tree of 8 or 16 interleaved accumulators lives in vector registers and takes whole chunks; lanes that are left
//! over go through a copy of the accumulators on the stack. Any other tree keeps its accumulators on the stack and takes
//! lanes one by one.

use cranelift_codegen::ir::types::{F64, I64, Type};
use cranelift_codegen::ir::{InstBuilder, Value};
use cranelift_frontend::Variable;
use fusewright_abi::DType;
use fusewright_graph::{Literal, NanRule, ReduceOp, Rounding, num};

use super::cast::register;
use super::code::vector_of;
use super::eval::{Eval, Pass};
use super::index::Pos;
use super::memory::{Lanes, Width};
use crate::backend::host::Taken;
use crate::backend::host::facts::Known;
use crate::backend::host::place::InGroup;
use crate::backend::host::trees::{MOST_ACCUMULATORS, Run, UNROLLED, runs};
use crate::kernel::{InstOp, Order, Over, Shape, Tree, Val};

/// The tree for an order that is left open.
const RELAXED: Tree = Tree::interleaved(16);

/// A reduction in progress.
#[derive(Clone, Debug)]
pub(super) struct Accumulators {
    op: ReduceOp,
    nan: NanRule,
    dtype: DType,
    known: Known,
    tree: Tree,
    /// Even and odd lanes of each eight accumulators, if they are in registers.
    registers: Vec<Variable>,
    memory: Value,
}

impl Accumulators {
    /// Of accumulators that hold an extreme so far, or NaN, and either zero: whether it is the greatest, not the least.
    fn extreme(&self) -> Option<bool> {
        match (self.op, self.nan, self.dtype) {
            (ReduceOp::Max, NanRule::Propagate, DType::F32) => (!self.known.sign_clear).then_some(true),
            (ReduceOp::Min, NanRule::Propagate, DType::F32) => Some(false),
            _ => None,
        }
    }
}

/// Whether chunks of eight lanes can be taken, and how many lanes the accumulators cover.
pub(super) fn vector_lanes(order: Order, dtype: DType) -> Option<i64> {
    let tree = tree_of(order);
    let interleaved = tree.vec == 1 && tree.ways == 1 && matches!(tree.threads, 8 | 16);
    (interleaved && dtype.bits() <= 32 && dtype != DType::Bool).then_some(i64::from(tree.threads))
}

fn tree_of(order: Order) -> Tree {
    match order {
        Order::Tree(tree) => tree,
        Order::Relaxed => RELAXED,
    }
}

impl Eval<'_, '_> {
    /// Accumulators at what the op starts from.
    pub fn accumulators(&mut self, at: usize) -> Taken<Accumulators> {
        let inst = &self.segment.insts[at];
        let InstOp::Reduce { op, nan, order, .. } = inst.op else { return Err(self.refuse("not a reduction")) };
        let (tree, dtype) = (tree_of(order), self.dtype(inst.args[0]));
        let count = tree.accumulators();
        if tree.vec == 0 || count == 0 || count > MOST_ACCUMULATORS {
            self.at = Some(at);
            return Err(self.refuse(format!("{order} has {count} accumulators")));
        }
        let known = self.facts[inst.args[0].0 as usize];
        let memory = self.code.stack(count as u32 * lane_bytes(dtype) as u32);
        let mut acc = Accumulators { op, nan, dtype, known, tree, registers: Vec::new(), memory };
        let ty = register(dtype);
        if vector_lanes(order, dtype).is_some() {
            let bits = start(op, dtype);
            for _ in 0..count / 4 {
                let variable = self.code.b.declare_var(vector_of(ty));
                let start = self.code.bits(vector_of(ty), bits as u32);
                self.code.b.def_var(variable, start);
                acc.registers.push(variable);
            }
        } else {
            self.fill(&acc, ty)?;
        }
        Ok(acc)
    }

    fn fill(&mut self, acc: &Accumulators, ty: Type) -> Taken<()> {
        let bits = start(acc.op, acc.dtype);
        let (start, end) = (self.code.i64(0), self.code.i64(acc.tree.accumulators() as i64));
        let value = match ty {
            I64 => self.code.i64(bits as i64),
            F64 => self.code.b.ins().f64const(f64::from_bits(bits)),
            _ => self.code.bits(ty, bits as u32),
        };
        let l = self.code.begin_loop(start, end, 1);
        let address = self.element_address(acc, l.i);
        self.code.store(value, address, 0);
        self.code.end_loop(l);
        Ok(())
    }

    fn element_address(&mut self, acc: &Accumulators, index: Value) -> Value {
        let distance = self.code.shl(index, lane_bytes(acc.dtype).trailing_zeros());
        self.code.b.ins().iadd(acc.memory, distance)
    }

    fn step(&mut self, acc: &Accumulators, a: Value, b: Value) -> Taken<Value> {
        let (dtype, known) = (acc.dtype, acc.known);
        let code = &mut self.code;
        let narrow = dtype.is_float() && !matches!(dtype, DType::F32 | DType::F64);
        let result = if narrow {
            let (x, y) = (code.widened(a, dtype), code.widened(b, dtype));
            code.combine(acc.op, acc.nan, DType::F32, known, x, y)
                .and_then(|sum| code.cast(sum, DType::F32, dtype, Rounding::NearestEven, false))
        } else {
            code.combine(acc.op, acc.nan, dtype, known, a, b)
        };
        result.map_err(|reason| self.refuse(reason))
    }

    /// Takes eight lanes, of which the first is lane `chunk · 8` modulo 16.
    pub fn accumulate(&mut self, acc: &Accumulators, chunk: i64, lanes: Lanes) -> Taken<()> {
        let at = (chunk as usize * 2) % acc.registers.len();
        for (i, part) in lanes.parts().enumerate() {
            let variable = acc.registers[at + i];
            let so_far = self.code.b.use_var(variable);
            let next = self.joined(acc, so_far, part)?;
            self.code.b.def_var(variable, next);
        }
        Ok(())
    }

    fn joined(&mut self, acc: &Accumulators, so_far: Value, part: Value) -> Taken<Value> {
        match acc.extreme() {
            Some(max) => Ok(self.code.extreme_so_far(max, so_far, part)),
            None => self.step(acc, so_far, part),
        }
    }

    /// Leaves out the first `ran` of eight lanes. Behind the others comes what changes no accumulator.
    pub fn new_lanes(&mut self, acc: &Accumulators, lanes: Lanes, ran: Value) -> Lanes {
        let ty = vector_of(register(acc.dtype));
        let nothing = self.code.bits(ty, start(acc.op, acc.dtype) as u32);
        let (low, high) = self.code.join_even_odd(lanes);
        let memory = self.code.stack(64);
        for (at, vector) in [low, high, nothing, nothing].into_iter().enumerate() {
            self.code.store(vector, memory, at as i32 * 16);
        }
        let distance = self.code.shl(ran, 2);
        let first = self.code.b.ins().iadd(memory, distance);
        let [low, high] = [0, 16].map(|at| self.code.load(ty, first, at));
        self.code.split_even_odd(low, high)
    }

    /// Takes eight lanes into the accumulators on the stack; `ahead` lanes, a multiple of eight, are ahead of them.
    pub fn accumulate_behind(&mut self, acc: &Accumulators, ahead: Value, lanes: Lanes) -> Taken<()> {
        let within = self.code.b.ins().band_imm_u(ahead, i64::from(acc.tree.threads) - 1);
        let distance = self.code.shl(within, 2);
        let address = self.code.b.ins().iadd(acc.memory, distance);
        let ty = vector_of(register(acc.dtype));
        for (part, at) in lanes.parts().zip([0, 16]) {
            let so_far = self.code.load(ty, address, at);
            let next = self.joined(acc, so_far, part)?;
            self.code.store(next, address, at);
        }
        Ok(())
    }

    /// Copies register accumulators to the stack, before lanes are taken one by one.
    pub fn spill(&mut self, acc: &Accumulators) {
        for (i, &variable) in acc.registers.iter().enumerate() {
            let value = self.code.b.use_var(variable);
            self.code.store(value, acc.memory, i as i32 * 16);
        }
    }

    /// Takes the accumulators back into registers.
    pub fn reload(&mut self, acc: &Accumulators) {
        let ty = vector_of(register(acc.dtype));
        for (i, &variable) in acc.registers.iter().enumerate() {
            let value = self.code.load(ty, acc.memory, i as i32 * 16);
            self.code.b.def_var(variable, value);
        }
    }

    /// Takes one lane into the accumulators on the stack.
    pub fn accumulate_one(&mut self, acc: &Accumulators, lane: Value, value: Value) -> Taken<()> {
        let address = if acc.registers.is_empty() {
            let index = self.accumulator_of(&acc.tree, lane);
            self.element_address(acc, index)
        } else {
            self.register_place(acc, lane)
        };
        let so_far = self.code.load(register(acc.dtype), address, 0);
        let next = self.step(acc, so_far, value)?;
        self.code.store(next, address, 0);
        Ok(())
    }

    /// Where the accumulator of a lane is among the spilled registers: even and odd lanes of each eight apart.
    fn register_place(&mut self, acc: &Accumulators, lane: Value) -> Value {
        let code = &mut self.code;
        let index = code.b.ins().band_imm_u(lane, i64::from(acc.tree.threads) - 1);
        let eight = code.sar(index, 3);
        let eight = code.shl(eight, 5);
        let odd = code.b.ins().band_imm_u(index, 1);
        let odd = code.shl(odd, 4);
        let pair = code.b.ins().band_imm_u(index, 6);
        let pair = code.shl(pair, 1);
        let place = code.b.ins().iadd(eight, odd);
        let place = code.b.ins().iadd(place, pair);
        code.b.ins().iadd(acc.memory, place)
    }

    fn accumulator_of(&mut self, tree: &Tree, lane: Value) -> Value {
        let code = &mut self.code;
        let (vec, threads, ways) =
            (code.i64(tree.vec.into()), code.i64(tree.threads.into()), code.i64(tree.ways.into()));
        let turn = code.b.ins().udiv(lane, vec);
        let thread = code.b.ins().urem(turn, threads);
        let first = code.b.ins().imul(thread, ways);
        let within = code.b.ins().urem(lane, vec);
        let way = code.b.ins().urem(within, ways);
        code.b.ins().iadd(first, way)
    }

    /// The result, once all lanes are taken.
    pub fn finish(&mut self, acc: &Accumulators) -> Taken<Value> {
        if !acc.registers.is_empty() {
            return self.finish_registers(acc);
        }
        let steps = acc.tree.combine_steps();
        let (ty, bytes) = (register(acc.dtype), lane_bytes(acc.dtype) as i32);
        if steps.len() <= UNROLLED {
            for (into, from) in steps {
                let a = self.code.load(ty, acc.memory, into as i32 * bytes);
                let b = self.code.load(ty, acc.memory, from as i32 * bytes);
                let sum = self.step(acc, a, b)?;
                self.code.store(sum, acc.memory, into as i32 * bytes);
            }
        } else {
            for run in runs(&steps) {
                self.combine_run(acc, run)?;
            }
        }
        Ok(self.code.load(ty, acc.memory, 0))
    }

    fn combine_run(&mut self, acc: &Accumulators, run: Run) -> Taken<()> {
        let (start, end) = (self.code.i64(0), self.code.i64(run.count as i64));
        let l = self.code.begin_loop(start, end, 1);
        let (into, from) = (self.strided(l.i, run.into, run.stride), self.strided(l.i, run.from, run.stride));
        let (into, from) = (self.element_address(acc, into), self.element_address(acc, from));
        let ty = register(acc.dtype);
        let (a, b) = (self.code.load(ty, into, 0), self.code.load(ty, from, 0));
        let sum = self.step(acc, a, b)?;
        self.code.store(sum, into, 0);
        self.code.end_loop(l);
        Ok(())
    }

    fn strided(&mut self, i: Value, start: usize, stride: usize) -> Value {
        let stride = self.code.i64(stride as i64);
        let distance = self.code.b.ins().imul(i, stride);
        self.code.add(distance, start as i64)
    }

    /// Halves within vectors: the accumulators are even and odd lanes of each eight.
    fn finish_registers(&mut self, acc: &Accumulators) -> Taken<Value> {
        let mut parts: Vec<Value> = acc.registers.iter().map(|&v| self.code.b.use_var(v)).collect();
        if let [a, b, c, d] = parts[..] {
            parts = vec![self.step(acc, a, c)?, self.step(acc, b, d)?];
        }
        for lanes in [[2, 3, 2, 3], [1, 1, 1, 1]] {
            for part in &mut parts {
                let upper = self.code.shuffle(*part, *part, lanes);
                *part = self.step(acc, *part, upper)?;
            }
        }
        let whole = self.step(acc, parts[0], parts[1])?;
        Ok(self.code.extract(whole, 0, acc.dtype))
    }

    /// A group reduction at a group, in a loop of its own.
    pub(super) fn reduce_group(&mut self, v: Val, pos: &Pos) -> Taken<Lanes> {
        let (at, inst) = self.definition(v);
        let InstOp::Reduce { over: Over::Group(size), .. } = &inst.op else {
            return Err(self.refuse("a reduction over a row is used as lanes"));
        };
        let Shape::Group { lanes, .. } = &self.segment.ty(v).shape else {
            return Err(self.refuse("a group reduction without groups"));
        };
        let index = self.lane(pos)?;
        let (from, to) = self.group_bounds(lanes, size, index)?;
        let outer = (self.group.take(), self.pass.take());
        let mark = self.memo.enter();
        let acc = self.accumulators(at)?;
        self.spill(&acc);
        let l = self.code.begin_loop(from, to, 1);
        let inside = self.memo.enter();
        self.pass = Some(Pass { base: l.i, lanes: None, shift: 0, multiple: 1 });
        let shape = &self.segment.ty(inst.args[0]).shape;
        self.group = Some(InGroup { lanes: lanes.clone(), size: size.clone(), index, rate: 1, span: 1 });
        let value = self.value(inst.args[0], shape, Some(&Pos::at(l.i)), Width::One)?.first;
        let within = self.code.b.ins().isub(l.i, from);
        self.accumulate_one(&acc, within, value)?;
        self.memo.leave(inside);
        self.code.end_loop(l);
        self.memo.leave(mark);
        (self.group, self.pass) = outer;
        self.reload(&acc);
        Ok(Lanes::one(self.finish(&acc)?))
    }

    /// First lane of a group and the lane after its last.
    pub(super) fn group_bounds(
        &mut self,
        lanes: &fusewright_graph::Dim,
        size: &fusewright_graph::Dim,
        index: Value,
    ) -> Taken<(Value, Value)> {
        let (all, by) = (self.dim(lanes)?, self.dim(size)?);
        let from = self.code.b.ins().imul(index, by);
        let to = self.code.b.ins().iadd(from, by);
        let exact = lanes.exact_div(size).is_some();
        let to = if exact { to } else { self.code.b.ins().smin(to, all) };
        Ok((from, to))
    }
}

const fn lane_bytes(dtype: DType) -> usize {
    if dtype.bits() == 64 { 8 } else { 4 }
}

/// What an accumulator starts from, as it is held in a register.
fn start(op: ReduceOp, dtype: DType) -> u64 {
    match op.start(dtype) {
        Literal::Float(DType::BF16, value) => num::encode(DType::BF16, value) << 16,
        Literal::Int(_, value) => value as u64,
        literal => literal.code(),
    }
}
