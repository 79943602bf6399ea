//! Pull evaluation: what every value is at a position, computed where it is asked for.
//!
//! A value is one element, or consecutive lanes in a vector of as many elements, in their order. Within the reach of a
//! scope (kernel, row, phase, one pass of a loop) every value at every position is computed once.

use std::collections::{BTreeMap, HashSet};

use fusewright_abi::DType;
use fusewright_graph::{Dim, ScalarFn};
use inkwell::values::IntValue;

use super::address::Pos;
use super::parts::Part;
use crate::backend::host::facts::{Known, known_facts};
use crate::backend::host::index::group_of;
use crate::backend::host::place::{InGroup, Memo, Slots};
use crate::backend::host::stash::Stored;
use crate::backend::llvm::cast::{Cast, cast, literal};
use crate::backend::llvm::code::Code;
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::{Inst, InstOp, Kernel, Segment, Shape, Val};

/// Lanes of a chunk: accumulators of the trees that the target's schedule picks.
pub(super) const CHUNK: u32 = 16;

/// What a scope remembers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Key<'c> {
    Scalar(Val),
    /// A value at a position, and how many lanes of it.
    At(Val, Pos<'c>, u32),
    Dim(Dim),
    Lane(Pos<'c>),
    GroupOf(Pos<'c>, Dim),
    Half(IntValue<'c>),
}

/// The loop that a pass belongs to.
#[derive(Clone, Debug)]
pub(super) struct Running<'c> {
    /// Its counter.
    pub base: IntValue<'c>,
    /// How many lanes the counter runs over from 0, if it starts there.
    pub lanes: Option<Dim>,
    /// Lanes between the counter and the chunk at hand.
    pub shift: i64,
    /// The counter is a multiple of so many lanes in every pass, 1 if no more is known.
    pub multiple: i64,
    /// Which lanes of the chunk there are, if not all.
    pub mask: Option<Value<'c>>,
    /// Which lanes of twice as many the chunk is, unless it is consecutive ones.
    pub part: Option<Part>,
}

/// Evaluates values of one segment into the current block.
pub(super) struct Eval<'k, 'e, 'c> {
    pub code: &'e Code<'c>,
    pub kernel: &'k Kernel,
    pub segment: &'k Segment,
    pub buffers: Vec<IntValue<'c>>,
    pub dims: BTreeMap<String, IntValue<'c>>,
    pub row: Option<IntValue<'c>>,
    pub inner: Option<IntValue<'c>>,
    pub group: Option<InGroup<IntValue<'c>>>,
    pub pass: Option<Running<'c>>,
    pub facts: Vec<Known>,
    /// Whether products with powers of two are instructions.
    pub scales: bool,
    /// Loops find these values stored.
    pub found: Stored,
    /// Where stored values are.
    pub slots: Slots<IntValue<'c>>,
    /// Lines for people on what was decided.
    pub decisions: Vec<String>,
    /// What is computed.
    pub memo: Memo<Key<'c>, Value<'c>>,
}

impl<'k, 'e, 'c> Eval<'k, 'e, 'c> {
    pub fn new(code: &'e Code<'c>, kernel: &'k Kernel, segment: &'k Segment, scales: bool) -> Self {
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
            facts: Vec::new(),
            scales,
            found: Stored::default(),
            slots: BTreeMap::new(),
            decisions: Vec::new(),
            memo: Memo::new(),
        }
    }

    /// Turns to another segment of the kernel; nothing that names its values may be remembered.
    pub fn enter_segment(&mut self, segment: &'k Segment, found: &Stored) {
        self.segment = segment;
        self.found = found.clone();
        self.facts = known_facts(segment);
    }

    pub fn definition(&self, v: Val) -> (usize, &'k Inst) {
        let at = self.found.definitions[v.0 as usize];
        (at, &self.segment.insts[at])
    }

    pub fn dtype(&self, v: Val) -> DType {
        self.segment.ty(v).dtype
    }

    pub fn shape(&self, v: Val) -> &'k Shape {
        &self.segment.ty(v).shape
    }

    /// A scalar value.
    pub fn scalar(&mut self, v: Val) -> Built<Value<'c>> {
        let key = Key::Scalar(v);
        if let Some(known) = self.memo.known(&key) {
            return Ok(known);
        }
        let (_, inst) = self.definition(v);
        let value = match &inst.op {
            InstOp::Literal(constant) => literal(self.code, constant),
            InstOp::Index(index) => self.dim(index).map(Into::into),
            InstOp::Reduce { .. } | InstOp::ArgReduce(_) => {
                Err(BuildError::unsupported("a reduction that is used before its phase"))
            }
            _ => self.compute(inst, v, None, 1),
        };
        let value = value.map_err(|e| e.at(self.segment, inst))?;
        Ok(self.memo.remember(key, value))
    }

    /// A value of any shape at so many lanes of a row of `shape` (or at groups, if the shape is a group).
    pub fn value(&mut self, v: Val, shape: &Shape, pos: Option<&Pos<'c>>, width: u32) -> Built<Value<'c>> {
        match (self.shape(v), shape, pos) {
            (Shape::Scalar, _, _) => {
                let one = self.scalar(v)?;
                self.code.splat(one, width)
            }
            (Shape::Group { lanes, size }, Shape::Row(_), Some(pos)) => {
                let index = self.group_of(pos, lanes, size)?;
                let one = self.at_position(v, &Pos::at(index), 1)?;
                self.code.splat(one, width)
            }
            (_, _, Some(pos)) => self.at_position(v, pos, width),
            (_, _, None) => Err(BuildError::unsupported("lanes where a scalar belongs")),
        }
    }

    /// The number of the group that holds a lane.
    fn group_of(&mut self, pos: &Pos<'c>, lanes: &Dim, size: &Dim) -> Built<IntValue<'c>> {
        let here = self.group.as_ref().zip(self.pass.as_ref());
        if let Some((group, _)) = here.filter(|(group, pass)| group.holds(pass.base, pos, lanes, size)) {
            return Ok(group.index);
        }
        if let Some(group) = self.piece_lanes(pos).and_then(|lanes| group_of(size, &lanes)) {
            return Ok(self.code.i64(group));
        }
        let key = Key::GroupOf(pos.clone(), size.clone());
        if let Some(known) = self.memo.known(&key) {
            return Ok(known.into_int_value());
        }
        let lane = self.lane(pos)?;
        let by = self.dim(size)?;
        let index = crate::backend::llvm::index::floor_div(self.code, lane, by)?;
        Ok(self.memo.remember(key, index.into()).into_int_value())
    }

    /// A row or group value at a position.
    pub fn at_position(&mut self, v: Val, pos: &Pos<'c>, width: u32) -> Built<Value<'c>> {
        let key = Key::At(v, pos.clone(), width);
        if let Some(known) = self.memo.known(&key) {
            return Ok(known);
        }
        let value = match self.load_kept(v, pos, width)? {
            Some(value) => value,
            None => {
                let (_, inst) = self.definition(v);
                self.compute(inst, v, Some(pos), width).map_err(|e| e.at(self.segment, inst))?
            }
        };
        Ok(self.memo.remember(key, value))
    }

    fn compute(&mut self, inst: &'k Inst, v: Val, pos: Option<&Pos<'c>>, width: u32) -> Built<Value<'c>> {
        let shape = self.shape(v);
        let to = self.dtype(v);
        match (&inst.op, pos) {
            (InstOp::Load { .. }, _) => self.load(inst, shape, pos, width),
            (InstOp::Map(f), _) => self.map(*f, inst, shape, pos, width),
            (InstOp::Cast { round, saturate, .. }, _) => {
                let from = self.dtype(inst.args[0]);
                let x = self.value(inst.args[0], shape, pos, width)?;
                let Known { short_nan, short, bounded, .. } = self.facts[inst.args[0].0 as usize];
                cast(self.code, x, Cast { short_nan, short, bounded, ..Cast::new(from, to, *round, *saturate) })
            }
            (InstOp::Bitcast(_), _) => {
                let from = self.dtype(inst.args[0]);
                let x = self.value(inst.args[0], shape, pos, width)?;
                let stored = self.to_memory(x, from)?;
                let bits = self.code.bits(stored, self.memory_type(to))?;
                self.loaded(bits, to)
            }
            (InstOp::Broadcast(_), _) => self.value(inst.args[0], shape, pos, width),
            (InstOp::Iota(_), Some(pos)) => self.iota(pos, width),
            (InstOp::Slice { start, step, .. }, Some(pos)) => self.slice(inst.args[0], start, *step, pos, width),
            (InstOp::Cat, Some(pos)) => self.cat(inst, pos, width),
            (InstOp::Zip, Some(pos)) => self.zip(inst, pos, width),
            (InstOp::Pack { ways, .. }, Some(pos)) => self.pack(inst.args[0], *ways, to, pos, width),
            (InstOp::AsRow | InstOp::AsGroup { .. }, Some(pos)) => self.at_position(inst.args[0], pos, width),
            (InstOp::Reduce { .. }, Some(pos)) if width == 1 => self.reduce_group(v, pos),
            (InstOp::Reduce { .. }, Some(pos)) => {
                self.by_single_lanes(pos, width, &mut |eval, pos| eval.at_position(v, pos, 1))
            }
            (op, _) => Err(BuildError::unsupported(format!("`{}` of lanes", op.name()))),
        }
    }

    fn map(
        &mut self,
        f: ScalarFn,
        inst: &'k Inst,
        shape: &Shape,
        pos: Option<&Pos<'c>>,
        width: u32,
    ) -> Built<Value<'c>> {
        if f == ScalarFn::Mul && width == CHUNK && self.scales {
            let product = self.scaled_product(inst, &mut |eval, v| eval.value(v, shape, pos, width))?;
            if let Some(product) = product {
                return Ok(product);
            }
        }
        let args = inst.args.iter().map(|&arg| self.value(arg, shape, pos, width)).collect::<Built<Vec<_>>>()?;
        let dtype = self.dtype(inst.args[inst.args.len() - 1]);
        let facts: Vec<Known> = inst.args.iter().map(|a| self.facts[a.0 as usize]).collect();
        super::maps::map(self.code, f, dtype, &args, &facts)
    }

    /// Computes in the current scope what the loops ahead would otherwise load or divide in every pass.
    pub fn prepare(&mut self, roots: &[Val]) -> Built<()> {
        let mut seen: HashSet<Val> = HashSet::new();
        let mut open: Vec<Val> = roots.to_vec();
        while let Some(v) = open.pop() {
            if !seen.insert(v) || self.slots.get(&v).is_some_and(|slot| slot.filled) {
                continue;
            }
            let (_, inst) = self.definition(v);
            if *self.shape(v) == Shape::Scalar {
                self.scalar(v)?;
                continue;
            }
            if let InstOp::Load { index, .. } = &inst.op {
                self.prepare_index(index)?;
            }
            open.extend(inst.args.iter().rev());
        }
        Ok(())
    }
}
