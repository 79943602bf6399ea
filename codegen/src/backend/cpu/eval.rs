//! Pull evaluation: what every value is at a position, computed where it is asked for.
//!
//! A row value is recomputed from its loads, chunk by chunk, unless an earlier loop has stored it. Within the reach of a
//! scope (kernel, row, phase, one pass of a loop) every value at every position is computed once.

use std::collections::{BTreeMap, HashSet};

use cranelift_codegen::ir::{Block, InstBuilder, Value};
use fusewright_abi::DType;
use fusewright_graph::{Dim, Literal, ScalarFn, num};

use super::cast::register;
use super::code::{Code, vector_of};
use super::index::{Pos, element_bytes};
use super::lookup::Lookup;
use super::memory::{Lanes, Width};
use crate::backend::host::facts::{Known, known_facts, literal_shift};
use crate::backend::host::index::group_of;
use crate::backend::host::index::split_constant;
use crate::backend::host::place::{InGroup, Memo, Slots};
use crate::backend::host::stash::Stored;
use crate::backend::host::{Refused, Taken};
use crate::kernel::{Inst, InstOp, Kernel, LANE, ParamId, Segment, Shape, Val};

/// What a scope remembers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Key {
    Scalar(Val),
    Splat(Value),
    At(Val, Pos, Width),
    Dim(Dim),
    Lane(Pos),
    Base(ParamId, Dim),
    Dummy(ParamId, Literal),
    Trash,
    GroupOf(Pos, Dim),
    Kept(Val, Pos),
    /// Elements in pairs: those at the even and at the odd places from an index on.
    Pairs(ParamId, Dim, Pos),
}

/// The loop that a pass belongs to.
#[derive(Clone, Debug)]
pub(super) struct Pass {
    /// Its counter.
    pub base: Value,
    /// How many lanes the counter runs over from 0, if it starts there.
    pub lanes: Option<Dim>,
    /// Lanes between the counter and the chunk at hand.
    pub shift: i64,
    /// The counter is a multiple of so many lanes in every pass, 1 if no more is known.
    pub multiple: i64,
}

/// Evaluates values of one segment into the current block.
pub(super) struct Eval<'k, 'f> {
    pub code: Code<'f>,
    pub kernel: &'k Kernel,
    pub segment: &'k Segment,
    pub buffers: Vec<Value>,
    pub dims: BTreeMap<String, Value>,
    pub row: Option<Value>,
    pub inner: Option<Value>,
    pub group: Option<InGroup<Value>>,
    pub pass: Option<Pass>,
    /// Heads of the loops over chunks of lanes.
    pub chunked: Vec<Block>,
    /// Whether the loop at hand loads what it stored itself.
    pub loads_its_stores: bool,
    /// Whether the instruction set has prefetches.
    pub prefetches: bool,
    /// The instruction that is being evaluated, for messages.
    pub at: Option<usize>,
    pub facts: Vec<Known>,
    /// Loops find these values stored.
    pub found: Stored,
    /// Where stored values are.
    pub slots: Slots<Value>,
    /// The values of the segment that are looked up, and where.
    pub tables: BTreeMap<Val, (&'k Lookup, Value)>,
    /// What is computed.
    pub memo: Memo<Key, Lanes>,
}

impl<'k, 'f> Eval<'k, 'f> {
    pub fn new(code: Code<'f>, kernel: &'k Kernel, segment: &'k Segment) -> Self {
        Eval {
            code,
            kernel,
            segment,
            buffers: Vec::new(),
            dims: BTreeMap::new(),
            row: None,
            inner: None,
            group: None,
            pass: None,
            chunked: Vec::new(),
            loads_its_stores: false,
            prefetches: false,
            at: None,
            facts: Vec::new(),
            found: Stored::default(),
            slots: BTreeMap::new(),
            tables: BTreeMap::new(),
            memo: Memo::new(),
        }
    }

    /// Turns to another segment of the kernel; nothing that names its values may be remembered.
    pub fn enter_segment(&mut self, segment: &'k Segment, found: &Stored) {
        self.segment = segment;
        self.found = found.clone();
        self.facts = known_facts(segment);
    }

    pub fn refuse(&self, reason: impl Into<String>) -> Refused {
        let inst = self.at.and_then(|i| Some((i, self.segment.insts.get(i)?)));
        let place = match inst {
            Some((i, inst)) => format!("segment `{}`, instruction {i} `{}`", self.segment.name, inst.op.name()),
            None => format!("segment `{}`", self.segment.name),
        };
        Refused { place, reason: reason.into() }
    }

    pub fn remember(&mut self, key: Key, value: Value) -> Value {
        self.remember_lanes(key, Lanes::one(value)).first
    }

    pub(super) fn remember_lanes(&mut self, key: Key, lanes: Lanes) -> Lanes {
        self.memo.remember(key, lanes)
    }

    pub fn definition(&self, v: Val) -> (usize, &'k Inst) {
        let at = self.found.definitions[v.0 as usize];
        (at, &self.segment.insts[at])
    }

    pub fn dtype(&self, v: Val) -> DType {
        self.segment.ty(v).dtype
    }

    /// A scalar value.
    pub fn scalar(&mut self, v: Val) -> Taken<Value> {
        let key = Key::Scalar(v);
        if let Some(known) = self.memo.known(&key) {
            return Ok(known.first);
        }
        let (at, inst) = self.definition(v);
        let outer = self.at.replace(at);
        let value = match &inst.op {
            InstOp::Literal(literal) => self.literal(*literal, Width::One),
            InstOp::Index(index) => self.dim(index)?,
            InstOp::Reduce { .. } | InstOp::ArgReduce(_) => {
                return Err(self.refuse("a reduction is used before its phase"));
            }
            _ => self.compute(inst, v, None, Width::One)?.first,
        };
        self.at = outer;
        Ok(self.remember(key, value))
    }

    /// A constant in every lane.
    pub fn literal(&mut self, literal: Literal, width: Width) -> Value {
        let dtype = literal.dtype();
        let code = match literal {
            Literal::Float(_, x) => num::encode(dtype, x) as i64,
            Literal::Int(_, x) => x,
        };
        let ty = register(dtype);
        match (dtype, width) {
            (DType::F64, _) => self.code.b.ins().f64const(f64::from_bits(code as u64)),
            (DType::I64 | DType::U64, _) => self.code.i64(code),
            (DType::Bool, Width::One) => self.code.b.ins().iconst(ty, code),
            (DType::Bool, _) => self.code.bits(vector_of(ty), if code != 0 { u32::MAX } else { 0 }),
            (DType::BF16, Width::One) => self.code.bits(ty, (code as u32) << 16),
            (DType::BF16, _) => self.code.bits(vector_of(ty), (code as u32) << 16),
            (_, Width::One) => self.code.bits(ty, code as u32),
            _ => self.code.bits(vector_of(ty), code as u32),
        }
    }

    /// A scalar in every lane.
    fn spread(&mut self, v: Val, width: Width) -> Taken<Lanes> {
        if width == Width::One {
            return Ok(Lanes::one(self.scalar(v)?));
        }
        if let InstOp::Literal(literal) = self.definition(v).1.op {
            let constant = self.literal(literal, width);
            return Ok(repeated(constant, width));
        }
        let scalar = self.scalar(v)?;
        Ok(repeated(self.splat(scalar), width))
    }

    fn splat(&mut self, scalar: Value) -> Value {
        let key = Key::Splat(scalar);
        if let Some(known) = self.memo.known(&key) {
            return known.first;
        }
        let vector = self.code.splat(scalar);
        self.remember(key, vector)
    }

    /// A value of any shape at lanes of a row of `shape` (or at groups, if the shape is a group).
    pub fn value(&mut self, v: Val, shape: &Shape, pos: Option<&Pos>, width: Width) -> Taken<Lanes> {
        let (segment, pos) = (self.segment, pos.cloned());
        match (&segment.ty(v).shape, shape, pos) {
            (Shape::Scalar, _, _) => self.spread(v, width),
            (Shape::Group { lanes, size }, Shape::Row(_), Some(pos)) => {
                let index = self.group_of(&pos, lanes, size)?;
                let value = self.at_position(v, &Pos::at(index), Width::One)?.first;
                Ok(if width == Width::One { Lanes::one(value) } else { repeated(self.splat(value), width) })
            }
            (_, _, Some(pos)) => self.at_position(v, &pos, width),
            (_, _, None) => Err(self.refuse("lanes where a scalar belongs")),
        }
    }

    /// The number of the group that holds a lane.
    fn group_of(&mut self, pos: &Pos, lanes: &Dim, size: &Dim) -> Taken<Value> {
        let here = self.group.as_ref().zip(self.pass.as_ref());
        if let Some((group, _)) = here.filter(|(group, pass)| group.holds(pass.base, pos, lanes, size)) {
            return Ok(group.index);
        }
        if let Some(group) = self.piece_lanes(pos).and_then(|lanes| group_of(size, &lanes)) {
            return Ok(self.code.i64(group));
        }
        let key = Key::GroupOf(pos.clone(), size.clone());
        if let Some(known) = self.memo.known(&key) {
            return Ok(known.first);
        }
        let lane = self.lane(pos)?;
        let by = self.dim(size)?;
        let index = self.code.floor_div(lane, by);
        Ok(self.remember(key, index))
    }

    /// A row or group value at a position.
    pub fn at_position(&mut self, v: Val, pos: &Pos, width: Width) -> Taken<Lanes> {
        let key = Key::At(v, pos.clone(), width);
        if let Some(known) = self.memo.known(&key) {
            return Ok(known);
        }
        if let Some(lanes) = self.load_kept(v, pos, width)? {
            return Ok(self.remember_lanes(key, lanes));
        }
        if let Some(lanes) = self.look_up(v, pos, width)? {
            return Ok(self.remember_lanes(key, lanes));
        }
        let (at, inst) = self.definition(v);
        let outer = self.at.replace(at);
        let lanes = self.compute(inst, v, Some(pos), width)?;
        self.at = outer;
        Ok(self.remember_lanes(key, lanes))
    }

    fn compute(&mut self, inst: &'k Inst, v: Val, pos: Option<&Pos>, width: Width) -> Taken<Lanes> {
        let shape = &self.segment.ty(v).shape;
        let to = self.dtype(v);
        match (&inst.op, pos) {
            (InstOp::Load { param, index, otherwise, .. }, _) => {
                self.load(*param, index, *otherwise, inst.args.first().copied(), shape, pos, width)
            }
            (InstOp::Map(f), _) => self.map(*f, inst, shape, pos, width),
            (InstOp::Cast { round, saturate, .. }, _) => {
                let from = self.dtype(inst.args[0]);
                let x = self.value(inst.args[0], shape, pos, width)?;
                let known = self.facts[inst.args[0].0 as usize];
                self.each(x, |code, v| code.cast_known(v, from, to, (*round, *saturate), known))
            }
            (InstOp::Bitcast(_), _) => {
                let from = self.dtype(inst.args[0]);
                let x = self.value(inst.args[0], shape, pos, width)?;
                self.each(x, |code, v| {
                    let bits = code.code_of(v, from);
                    Ok(code.seat_code(bits, to))
                })
            }
            (InstOp::Broadcast(_), _) => self.value(inst.args[0], shape, pos, width),
            (InstOp::Iota(_), Some(pos)) => self.iota(pos, width),
            (InstOp::Slice { .. }, Some(pos)) => self.slice(inst, pos, width),
            (InstOp::Cat, Some(pos)) => self.cat(inst, v, pos, width),
            (InstOp::Zip, Some(pos)) => self.zip(inst, pos, width),
            (InstOp::Pack { ways, .. }, Some(pos)) => self.pack(inst.args[0], *ways, to, pos, width),
            (InstOp::AsRow | InstOp::AsGroup { .. }, Some(pos)) => self.at_position(inst.args[0], pos, width),
            (InstOp::Reduce { .. }, Some(pos)) if width == Width::One => self.reduce_group(v, pos),
            _ => Err(self.refuse("not taken by this backend")),
        }
    }

    /// Applies a conversion to every register of a value.
    pub fn each(&mut self, x: Lanes, f: impl Fn(&mut Code<'f>, Value) -> Result<Value, String>) -> Taken<Lanes> {
        let first = f(&mut self.code, x.first).map_err(|reason| self.refuse(reason))?;
        // Both halves of a spread scalar are one register.
        let second = match x.second {
            Some(odd) if odd == x.first => Some(first),
            Some(odd) => Some(f(&mut self.code, odd).map_err(|reason| self.refuse(reason))?),
            None => None,
        };
        Ok(Lanes { first, second })
    }

    fn map(&mut self, f: ScalarFn, inst: &Inst, shape: &Shape, pos: Option<&Pos>, width: Width) -> Taken<Lanes> {
        if let Some(by) = literal_shift(self.segment, inst) {
            let x = self.value(inst.args[0], shape, pos, width)?;
            let left = f == ScalarFn::Shl;
            return self.each(x, |code, v| Ok(if left { code.shl(v, by) } else { code.sar(v, by) }));
        }
        let mut args = Vec::with_capacity(inst.args.len());
        for &arg in &inst.args {
            args.push(self.value(arg, shape, pos, width)?);
        }
        let dtype = self.dtype(inst.args[inst.args.len() - 1]);
        let facts: Vec<Known> = inst.args.iter().map(|a| self.facts[a.0 as usize]).collect();
        let evens: Vec<Value> = args.iter().map(|a| a.first).collect();
        let first = self.code.map(f, dtype, &evens, &facts).map_err(|reason| self.refuse(reason))?;
        let odds: Option<Vec<Value>> = args.iter().map(|a| a.second).collect();
        let second = match odds {
            Some(odds) => Some(self.code.map(f, dtype, &odds, &facts).map_err(|reason| self.refuse(reason))?),
            None => None,
        };
        Ok(Lanes { first, second })
    }

    /// Computes in the current scope what the loops ahead would otherwise compute in every pass: base addresses,
    /// spread scalars.
    pub fn prepare(&mut self, roots: &[Val]) -> Taken<()> {
        let mut seen: HashSet<Val> = HashSet::new();
        let mut open: Vec<Val> = roots.to_vec();
        while let Some(v) = open.pop() {
            if !seen.insert(v) || self.slots.get(&v).is_some_and(|slot| slot.filled) {
                continue;
            }
            let (at, inst) = self.definition(v);
            if self.segment.ty(v).shape == Shape::Scalar {
                if !matches!(inst.op, InstOp::Literal(_)) {
                    self.scalar(v)?;
                }
                continue;
            }
            self.at = Some(at);
            if let InstOp::Load { param, index, otherwise, .. } = &inst.op {
                self.prepare_load(*param, index, *otherwise)?;
            }
            for &arg in inst.args.iter().rev() {
                let literal = matches!(self.definition(arg).1.op, InstOp::Literal(_));
                if self.segment.ty(arg).shape == Shape::Scalar && !literal && self.dtype(arg).bits() < 64 {
                    let predicate = matches!(inst.op, InstOp::Load { .. });
                    let scalar = self.scalar(arg)?;
                    if !predicate {
                        self.splat(scalar);
                    }
                } else {
                    open.push(arg);
                }
            }
            self.at = None;
        }
        Ok(())
    }

    pub fn prepare_load(&mut self, param: ParamId, index: &Dim, otherwise: Option<Literal>) -> Taken<()> {
        if let Some((slope, rest)) = index.split_linear(LANE)
            && slope.as_const().is_some()
            && let Some(bytes) = element_bytes(self.kernel.param(param).dtype)
        {
            self.base(param, &split_constant(&rest).0, bytes)?;
        }
        if let Some(literal) = otherwise {
            self.dummy(param, literal)?;
        }
        Ok(())
    }
}

/// One vector as both halves of a chunk.
pub(super) fn repeated(vector: Value, width: Width) -> Lanes {
    if width == Width::Eight { Lanes::pair(vector, vector) } else { Lanes::one(vector) }
}
