//! One segment of a kernel as straight-line block code.
//!
//! Scalars live in registers of every thread. Rows and groups are functions of the lane. Where rows fit the registers of a
//! block, each thread has lanes of its own ([`super::vectors`]); elsewhere lanes are computed where they are needed and
//! again in each phase, and only group reductions, and loads that a store of the same row may overwrite, are held in
//! shared memory. Stores wait until everything is computed; stores of equal length share one pass over the lanes.

use std::collections::{BTreeMap, HashMap};

use fusewright_abi::DType;
use fusewright_graph::Dim;
use inkwell::IntPredicate;
use inkwell::values::{FloatValue, IntValue};

use super::arch::Arch;
use super::code::SHARED;
use super::joined::Joined;
use super::lanes::Lanes;
use super::plan::Held;
use super::range::Ranges;
use super::reduce::Groups;
use crate::backend::llvm::cast::{Cast, cast, literal};
use crate::backend::llvm::code::Code;
use crate::backend::llvm::map::map;
use crate::backend::llvm::{BuildError, Built, Value, index};
use crate::kernel::{Inst, InstOp, Kernel, LANE, Over, Segment, Shape, Val};

/// By value, the instruction that yields it.
pub(super) fn defining(segment: &Segment) -> Vec<usize> {
    let mut defining = vec![0; segment.types.len()];
    for (i, inst) in segment.insts.iter().enumerate() {
        for result in &inst.results {
            defining[result.0 as usize] = i;
        }
    }
    defining
}

/// What all segments of a kernel share.
pub(super) struct Frame<'a, 'c> {
    pub code: &'a Code<'c>,
    pub kernel: &'a Kernel,
    pub arch: &'a Arch,
    /// Threads of a unit, and the number of this one among them.
    pub threads: u32,
    pub thread: IntValue<'c>,
    /// Addresses of the parameters.
    pub buffers: Vec<IntValue<'c>>,
    /// Values of the dims, and of the row once it is known.
    pub names: BTreeMap<String, IntValue<'c>>,
    /// Whether the thread's row is one, where a block may have threads without: they compute another, and store nothing.
    pub exists: Option<IntValue<'c>>,
    /// The share of this unit in a row that is looped over, if it is not the whole.
    pub share: Option<Share<'c>>,
}

/// The lanes of a looped row that are a unit's: as many for each of its threads, one after the other part of the row.
#[derive(Clone, Copy)]
pub(super) struct Share<'c> {
    /// The number of the part.
    pub part: IntValue<'c>,
    /// Lanes of a thread.
    pub at_once: u32,
}

/// What was computed at a point of the code.
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
pub(super) enum Known<'c> {
    Element(Val, IntValue<'c>),
    /// Two neighbours of a vector in one integer, by vector and pair.
    Pair(Val, usize, usize),
    Quotient(IntValue<'c>, IntValue<'c>),
    Product(IntValue<'c>, IntValue<'c>),
    Sum(IntValue<'c>, IntValue<'c>),
    Reciprocal(FloatValue<'c>),
}

/// Emits one segment.
pub(super) struct Rows<'a, 'c> {
    pub frame: &'a Frame<'a, 'c>,
    pub code: &'a Code<'c>,
    pub segment: &'a Segment,
    pub defining: &'a [usize],
    /// Between which bounds values lie.
    pub ranges: Ranges<'a>,
    /// Rows that are joined of pieces.
    pub joined: Joined,
    registers: Vec<Option<Value<'c>>>,
    pub held: BTreeMap<Val, IntValue<'c>>,
    pub shared_bytes: i64,
    /// Where the next value goes whose size launches state.
    pub stated_end: Option<IntValue<'c>>,
    known: Vec<HashMap<Known<'c>, Value<'c>>>,
    /// The lanes of this thread, if rows lie in registers.
    pub lanes: Option<Lanes<'c>>,
    /// Reductions so far, for alternating their shared slots.
    pub reductions: u32,
    /// Shared partial results by element width and slot.
    pub partials: BTreeMap<(u32, bool, u32), IntValue<'c>>,
}

impl<'a, 'c> Rows<'a, 'c> {
    pub fn new(frame: &'a Frame<'a, 'c>, segment: &'a Segment, defining: &'a [usize]) -> Self {
        Rows {
            frame,
            code: frame.code,
            segment,
            defining,
            ranges: Ranges::of(segment, defining),
            joined: Joined::of(segment),
            registers: vec![None; segment.types.len()],
            held: BTreeMap::new(),
            shared_bytes: 0,
            stated_end: None,
            known: vec![HashMap::new()],
            lanes: None,
            reductions: 0,
            partials: BTreeMap::new(),
        }
    }

    /// Emits a segment for rows that a thread has one after the other: all are read before the first is computed.
    pub fn run(rows: &mut [Self], held: Option<Held>, part: IntValue<'c>) -> Built<()> {
        for row in rows.iter_mut() {
            if let Some(held) = held {
                row.deal(held, part)?;
                row.read_early()?;
            }
        }
        rows.iter().take(1).try_for_each(|row| row.await_predecessors())?;
        if held.is_some() {
            rows.iter_mut().try_for_each(|row| row.read_at_once())?;
            rows.iter().take(1).try_for_each(|row| row.release_successors())?;
        }
        rows.iter_mut().try_for_each(|row| row.compute_all(held, part))
    }

    /// Emits every instruction; with rows in registers, for the part of a row that is the block's.
    fn compute_all(&mut self, held: Option<Held>, part: IntValue<'c>) -> Built<()> {
        let segment = self.segment;
        let hazards = super::hazard::find(self.frame.kernel, segment);
        let mut waits = hazards.any;
        if held.is_some() && self.has_read_what_it_overwrites() && self.frame.exists.is_none() {
            self.store_early()?;
            waits = false;
        }
        for (i, inst) in segment.insts.iter().enumerate() {
            self.inst(inst, hazards.staged.contains(&i)).map_err(|e| e.at(segment, inst))?;
        }
        // Whoever shares a row overwrites only what it alone has read.
        if waits && self.frame.share.is_none() {
            self.code.barrier()?;
        }
        if let Some(held) = held {
            return match self.frame.exists {
                Some(exists) => self.when(exists, |rows| rows.store_all(held, part)),
                None => self.store_all(held, part),
            };
        }
        let mut passes: Vec<(&Shape, Vec<&Inst>)> = Vec::new();
        for store in segment.insts.iter().filter(|i| matches!(i.op, InstOp::Store { .. })) {
            let shape = &segment.ty(store.args[0]).shape;
            match passes
                .iter_mut()
                .find(|(s, _)| (**s == Shape::Scalar) == (*shape == Shape::Scalar) && s.elements() == shape.elements())
            {
                Some((_, stores)) => stores.push(store),
                None => passes.push((shape, vec![store])),
            }
        }
        passes.into_iter().try_for_each(|(shape, stores)| self.store_pass(shape, &stores))
    }

    fn inst(&mut self, inst: &Inst, stage: bool) -> Built<()> {
        if matches!(inst.op, InstOp::Store { .. }) {
            return Ok(());
        }
        let result = inst.results[0];
        let ty = self.segment.ty(result).clone();
        match &inst.op {
            InstOp::TopK { k, over: Over::Row } => {
                let held = [self.hold(inst.results[0], k)?, self.hold(inst.results[1], k)?];
                self.top_k(inst.args[0], k, held)
            }
            InstOp::Reduce { op, over: Over::Row, nan, order } => {
                let value = self.reduce_row(*op, *nan, *order, inst.args[0])?;
                self.registers[result.0 as usize] = Some(value);
                Ok(())
            }
            InstOp::Reduce { op, over: Over::Group(size), nan, order } => {
                let groups = Groups { op: *op, nan: *nan, order: *order, x: inst.args[0], size };
                if self.lanes.is_some() {
                    return self.reduce_own_groups(result, &groups);
                }
                let address = self.hold(result, &ty.shape.elements())?;
                self.reduce_groups(&groups, address)
            }
            InstOp::ArgReduce(op) => {
                let pair = self.arg_reduce(*op, inst.args[0])?;
                for (result, value) in inst.results.iter().zip(pair) {
                    self.registers[result.0 as usize] = Some(value);
                }
                Ok(())
            }
            _ if ty.shape == Shape::Scalar => self.scalar(inst),
            _ if stage => self.stage(inst, &ty.shape.elements()),
            _ if self.lanes.is_some() && matches!(ty.shape, Shape::Group { .. }) => self.hand_out(result),
            _ => Ok(()),
        }
    }

    /// Computes a scalar, unless it is known.
    pub fn scalar(&mut self, inst: &Inst) -> Built<()> {
        let result = inst.results[0].0 as usize;
        if self.registers[result].is_none() {
            self.registers[result] = Some(self.compute(inst, self.code.i64(0))?);
        }
        Ok(())
    }

    /// Waits until what the kernels ahead of this one write can be read, and nothing that they read is needed.
    fn await_predecessors(&self) -> Built<()> {
        if self.frame.arch.dependent_launch { self.code.assembly("griddepcontrol.wait;") } else { Ok(()) }
    }

    /// Lets the kernel behind this one begin, now that this one has its rows.
    fn release_successors(&self) -> Built<()> {
        if self.frame.arch.dependent_launch { self.code.assembly("griddepcontrol.launch_dependents;") } else { Ok(()) }
    }

    /// What was computed under a key.
    pub fn known(&self, key: &Known<'c>) -> Option<Value<'c>> {
        self.known.iter().rev().find_map(|scope| scope.get(key)).copied()
    }

    /// Where what is computed now is remembered.
    pub fn known_scope(&mut self) -> &mut HashMap<Known<'c>, Value<'c>> {
        if self.known.is_empty() {
            self.known.push(HashMap::new());
        }
        let last = self.known.len() - 1;
        &mut self.known[last]
    }

    fn remember(&mut self, key: Known<'c>, make: impl FnOnce(&mut Self) -> Built<Value<'c>>) -> Built<Value<'c>> {
        if let Some(value) = self.known(&key) {
            return Ok(value);
        }
        let value = make(self)?;
        self.known_scope().insert(key, value);
        Ok(value)
    }

    fn remember_int(
        &mut self,
        key: Known<'c>,
        make: impl FnOnce(&mut Self) -> Built<IntValue<'c>>,
    ) -> Built<IntValue<'c>> {
        Ok(self.remember(key, |rows| make(rows).map(Into::into))?.into_int_value())
    }

    /// Runs `body` so that what it computes is forgotten afterwards, since it does not reach further code.
    fn scoped<T>(&mut self, body: impl FnOnce(&mut Self) -> Built<T>) -> Built<T> {
        self.known.push(HashMap::new());
        let result = body(self);
        self.known.pop();
        result
    }

    /// `if condition { yes } else { no }` with results.
    pub fn branch(
        &mut self,
        condition: IntValue<'c>,
        yes: impl FnOnce(&mut Self) -> Built<Vec<Value<'c>>>,
        no: impl FnOnce(&mut Self) -> Built<Vec<Value<'c>>>,
    ) -> Built<Vec<Value<'c>>> {
        let (then, otherwise, join) = (self.code.block(), self.code.block(), self.code.block());
        self.code.b.build_conditional_branch(condition, then, otherwise)?;
        self.code.b.position_at_end(then);
        let a = self.scoped(yes)?;
        let from_then = self.code.here()?;
        self.code.b.build_unconditional_branch(join)?;
        self.code.b.position_at_end(otherwise);
        let b = self.scoped(no)?;
        let from_otherwise = self.code.here()?;
        self.code.b.build_unconditional_branch(join)?;
        self.code.b.position_at_end(join);
        a.into_iter().zip(b).map(|(a, b)| self.code.merge(&[(a, from_then), (b, from_otherwise)])).collect()
    }

    /// `if condition { body }`.
    pub fn when(&mut self, condition: IntValue<'c>, body: impl FnOnce(&mut Self) -> Built<()>) -> Built<()> {
        self.branch(condition, |rows| body(rows).map(|()| Vec::new()), |_| Ok(Vec::new())).map(|_| ())
    }

    /// `for i in (start..end).step_by(step)`, carrying values from one turn to the next.
    pub fn each(
        &mut self,
        start: IntValue<'c>,
        end: IntValue<'c>,
        step: IntValue<'c>,
        carried: Vec<Value<'c>>,
        body: impl FnOnce(&mut Self, IntValue<'c>, &[Value<'c>]) -> Built<Vec<Value<'c>>>,
    ) -> Built<Vec<Value<'c>>> {
        let before = self.code.here()?;
        let head = self.code.fall_into_new_block()?;
        let at = self.code.b.build_phi(self.code.ctx.i64_type(), "")?;
        at.add_incoming(&[(&start, before)]);
        let phis = carried
            .iter()
            .map(|v| {
                let phi = self.code.b.build_phi(v.get_type(), "")?;
                phi.add_incoming(&[(v, before)]);
                Ok(phi)
            })
            .collect::<Built<Vec<_>>>()?;
        let i = at.as_basic_value().into_int_value();
        let (inside, after) = (self.code.block(), self.code.block());
        let more = self.code.cmp(IntPredicate::SLT, i, end)?;
        self.code.b.build_conditional_branch(more, inside, after)?;
        self.code.b.position_at_end(inside);
        let values: Vec<Value<'c>> = phis.iter().map(|p| p.as_basic_value()).collect();
        let next = self.scoped(|rows| body(rows, i, &values))?;
        let i_next = self.code.add(i, step)?;
        let end_of_body = self.code.here()?;
        at.add_incoming(&[(&i_next, end_of_body)]);
        for (phi, value) in phis.iter().zip(&next) {
            phi.add_incoming(&[(value, end_of_body)]);
        }
        self.code.b.build_unconditional_branch(head)?;
        self.code.b.position_at_end(after);
        Ok(values)
    }

    /// The value of a dim of the segment, gathered integers included.
    pub fn dim(&self, dim: &Dim) -> Built<IntValue<'c>> {
        self.index(dim, None)
    }

    /// The value of an index at a lane.
    pub fn index(&self, dim: &Dim, lane: Option<IntValue<'c>>) -> Built<IntValue<'c>> {
        index::dim(self.code, dim, &|name| {
            if let (LANE, Some(lane)) = (name, lane) {
                return Ok(lane);
            }
            if let Some(value) = Val::from_symbol(name) {
                return self.gathered(value);
            }
            let named = self.frame.names.get(name).copied();
            named.ok_or_else(|| BuildError::unsupported(format!("`{name}` in an index")))
        })
    }

    fn gathered(&self, value: Val) -> Built<IntValue<'c>> {
        let register = self.registers.get(value.0 as usize).copied().flatten();
        let int = register.ok_or_else(|| BuildError::unsupported(format!("{value:?} in an index is not a scalar")))?;
        let signed = self.segment.ty(value).dtype.is_signed_int();
        Ok(self.code.b.build_int_cast_sign_flag(int.into_int_value(), self.code.ctx.i64_type(), signed, "")?)
    }

    /// `⌊lane / size⌋`.
    pub fn quotient(&mut self, lane: IntValue<'c>, size: IntValue<'c>) -> Built<IntValue<'c>> {
        let lane = self.first_of_vector(lane).unwrap_or(lane);
        self.remember_int(Known::Quotient(lane, size), |rows| index::floor_div(rows.code, lane, size))
    }

    pub fn lane_of(&mut self, lane: IntValue<'c>, step: i64, start: IntValue<'c>) -> Built<IntValue<'c>> {
        let step = self.code.i64(step);
        let scaled = self.remember_int(Known::Product(lane, step), |rows| rows.code.mul(lane, step))?;
        self.remember_int(Known::Sum(scaled, start), |rows| rows.code.add(scaled, start))
    }

    /// The element of a value at a lane; scalars have no lane.
    pub fn element(&mut self, value: Val, lane: IntValue<'c>) -> Built<Value<'c>> {
        if let Some(register) = self.registers[value.0 as usize] {
            return Ok(register);
        }
        self.remember(Known::Element(value, lane), |rows| {
            if let Some(&address) = rows.held.get(&value) {
                return rows.load_from(address, rows.segment.ty(value).dtype, lane, SHARED);
            }
            let segment = rows.segment;
            let inst = &segment.insts[rows.defining[value.0 as usize]];
            let found = match rows.with_neighbours(inst, lane) {
                Ok(None) => rows.compute(inst, lane),
                Ok(Some(element)) => Ok(element),
                Err(error) => Err(error),
            };
            found.map_err(|e| e.at(segment, inst))
        })
    }

    /// The element of an operand that meets a result of shape `shape` at `lane`.
    pub fn operand(&mut self, value: Val, shape: &Shape, lane: IntValue<'c>) -> Built<Value<'c>> {
        match (&self.segment.ty(value).shape, shape) {
            (Shape::Group { size, .. }, Shape::Row(_)) => {
                let size = self.dim(size)?;
                let group = self.quotient(lane, size)?;
                self.element(value, group)
            }
            _ => self.element(value, lane),
        }
    }

    fn compute(&mut self, inst: &Inst, lane: IntValue<'c>) -> Built<Value<'c>> {
        let ty = self.segment.ty(inst.results[0]).clone();
        let args = &inst.args;
        match &inst.op {
            InstOp::Literal(constant) => literal(self.code, constant),
            InstOp::Index(index) => Ok(self.dim(index)?.into()),
            InstOp::Iota(_) => Ok(self.code.resize(lane, 32)?.into()),
            InstOp::Load { .. } => self.load(inst, lane),
            InstOp::Map(f) => {
                if let Some(found) = self.narrow_gate(inst, lane)? {
                    return Ok(found);
                }
                if let Some(found) = self.in_range(inst, lane)? {
                    return Ok(found);
                }
                if let Some(found) = self.flushed(inst, lane)? {
                    return Ok(found);
                }
                let x = args.iter().map(|&a| self.operand(a, &ty.shape, lane)).collect::<Built<Vec<_>>>()?;
                let dtype = args.last().map_or(ty.dtype, |&a| self.segment.ty(a).dtype);
                map(self.code, *f, dtype, &x)
            }
            InstOp::Cast { to, round, saturate } => {
                if let Some(found) = self.byte_code(inst, lane)? {
                    return Ok(found);
                }
                let x = self.element(args[0], lane)?;
                let from = self.segment.ty(args[0]).dtype;
                cast(self.code, x, Cast::new(from, *to, *round, *saturate))
            }
            InstOp::Bitcast(to) => {
                let x = self.element(args[0], lane)?;
                self.bitcast(x, *to)
            }
            InstOp::Slice { start, step, .. } => {
                let start = self.dim(start)?;
                let from = self.lane_of(lane, *step, start)?;
                self.element(args[0], from)
            }
            InstOp::Cat => self.cat(args, lane),
            InstOp::Zip => self.zip(args, lane),
            InstOp::Pack { ways, to } => self.pack(args[0], *ways, *to, lane),
            InstOp::Broadcast(shape) => self.operand(args[0], shape, lane),
            InstOp::AsRow | InstOp::AsGroup { .. } => self.element(args[0], lane),
            _ => Err(BuildError::unsupported(format!("`{}` of one lane", inst.op.name()))),
        }
    }

    fn bitcast(&self, x: Value<'c>, to: DType) -> Built<Value<'c>> {
        match (x, to) {
            (Value::IntValue(x), DType::Bool) => {
                Ok(self.code.cmp(IntPredicate::NE, x, x.get_type().const_zero())?.into())
            }
            (Value::IntValue(x), _) if x.get_type().get_bit_width() == 1 => Ok(self.code.resize(x, 8)?.into()),
            _ => self.code.bits(x, self.code.type_of(to)),
        }
    }

    fn cat(&mut self, args: &[Val], lane: IntValue<'c>) -> Built<Value<'c>> {
        let [first, rest @ ..] = args else { return Err(BuildError::unsupported("`cat` of nothing")) };
        if rest.is_empty() {
            return self.element(*first, lane);
        }
        let lanes = self.dim(&self.segment.ty(*first).shape.elements())?;
        let inside = self.code.cmp(IntPredicate::SLT, lane, lanes)?;
        let result = self.branch(
            inside,
            |rows| Ok(vec![rows.element(*first, lane)?]),
            |rows| {
                let lane = rows.code.b.build_int_sub(lane, lanes, "")?;
                Ok(vec![rows.cat(rest, lane)?])
            },
        )?;
        Ok(result[0])
    }

    fn zip(&mut self, args: &[Val], lane: IntValue<'c>) -> Built<Value<'c>> {
        let count = self.code.i64(args.len() as i64);
        let at = self.quotient(lane, count)?;
        let way = self.code.b.build_int_sub(lane, self.code.mul(at, count)?, "")?;
        self.one_of(args, at, way)
    }

    fn one_of(&mut self, args: &[Val], lane: IntValue<'c>, way: IntValue<'c>) -> Built<Value<'c>> {
        let [first, rest @ ..] = args else { return Err(BuildError::unsupported("`zip` of nothing")) };
        if rest.is_empty() {
            return self.element(*first, lane);
        }
        let here = self.code.cmp(IntPredicate::EQ, way, self.code.i64(0))?;
        let result = self.branch(
            here,
            |rows| Ok(vec![rows.element(*first, lane)?]),
            |rows| {
                let way = rows.code.b.build_int_sub(way, rows.code.i64(1), "")?;
                Ok(vec![rows.one_of(rest, lane, way)?])
            },
        )?;
        Ok(result[0])
    }
}
