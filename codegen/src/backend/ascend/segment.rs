//! One segment of a kernel as the parts of a class: queues, scalars, vector statements.
//!
//! A tile is a number of rows side by side in unified buffer. A row value is its lanes, a scalar eight copies of itself,
//! a mask its bits; what is the same for all rows is computed once per core and kept. A row that is stored is computed
//! in its output queue, one that is joined in its place. Integer scalars are plain C++ and serve addresses and conditions
//! only.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_abi::DType;
use fusewright_graph::{Dim, Literal, ScalarFn};
use fusewright_templates::ascend as template;

use super::EmitError;
use super::chip::Chip;
use super::lanes::Offsets;
use super::levels::{levels, spread_stores};
use super::memory::{BLOCK, Steps, Tensor, Work};
use super::operands::as_words;
use super::passes::Pass;
use super::text::{self, Names};
use super::tile::{self, COPIES, Count, Tile};
use crate::kernel::{Inst, InstOp, Kernel, Level, Segment, Shape, Val};

pub(super) type Made<T> = Result<T, EmitError>;

/// A scalar that is no tensor.
#[derive(Clone, Debug)]
pub(super) enum Scalar {
    /// An f32 constant.
    Literal(f32),
    /// A C++ expression of an integer or a condition.
    Expression(String),
}

/// Writes one segment.
pub(super) struct Writer<'a> {
    pub chip: Chip,
    pub kernel: &'a Kernel,
    pub segment: &'a Segment,
    pub tile: Tile,
    pub names: Names,
    pub work: Work,
    /// Names of parameters, by number.
    pub params: &'a [String],
    /// Place of the instruction that is being written in the order of writing.
    pub step: usize,
    pub out: template::Segment,
    pub levels: Vec<Level>,
    /// Inner rows of the row that are passed over one by one.
    pub inner_rows: Dim,
    /// Statements of the core's start, and of a tile.
    pub fixed: Steps,
    pub tiled: Steps,
    /// Whether what is written now is of the core's start.
    pub at_start: bool,
    pub last_use: BTreeMap<Val, usize>,
    /// Rows that go from buffer to buffer, waiting for their store.
    pub moved: BTreeMap<Val, template::Move>,
    /// Declarations of integer scalars, with the value that each declares.
    pub declarations: Vec<(Val, String)>,
    /// Scalars of which each is one lane.
    pub packed: BTreeMap<Val, Tensor>,
    /// Constants in blocks of their own, by their bits.
    pub blocks: BTreeMap<u32, Tensor>,
    /// Variables of blocks that hold integers of the scalar unit.
    pub integers: BTreeSet<String>,
    /// Tables of byte offsets, by what they hold.
    pub tables: BTreeMap<Offsets, Tensor>,
    /// Places of reductions that go on over tiles.
    pub folded: BTreeMap<Val, Tensor>,
    /// Output tensors that values are brought to.
    pub outputs_of: BTreeMap<Val, String>,
    /// Bytes of what is kept for all tiles.
    pub kept: Work,
    pub tensors: BTreeMap<Val, Tensor>,
    scalars: BTreeMap<Val, Scalar>,
    /// What the storage of a value is part of: `(whole, first lane)`.
    pub placed: BTreeMap<Val, (Val, u64)>,
}

/// Writes a segment in tiles, with `depth` tiles in flight.
pub(super) fn write(
    chip: Chip,
    kernel: &Kernel,
    segment: &Segment,
    params: &[String],
    tile: &Tile,
    depth: u32,
    pass: Option<&Pass>,
) -> Made<template::Segment> {
    let segment = &spread_stores(segment, pass);
    let mut names = Names::new();
    for name in params.iter().chain(kernel.dims.iter().map(|d| &d.name)) {
        names.claim(name);
    }
    let out = template::Segment {
        class: text::camel_case(&segment.name),
        inner: text::index(&segment.inner, &str::to_owned),
        rows: tile.rows,
        inners: tile.inners,
        dims: kernel.dims.iter().map(|d| d.name.clone()).collect(),
        depth,
        ..template::Segment::default()
    };
    let mut writer = Writer {
        chip,
        kernel,
        segment,
        tile: tile.clone(),
        names,
        fixed: Steps::default(),
        tiled: Steps::default(),
        at_start: false,
        work: Work::default(),
        params,
        step: 0,
        levels: levels(segment, pass),
        inner_rows: pass.map_or(Dim::constant(1), |p| p.inner_rows.clone()),
        packed: BTreeMap::new(),
        blocks: BTreeMap::new(),
        integers: BTreeSet::new(),
        tables: BTreeMap::new(),
        folded: BTreeMap::new(),
        outputs_of: BTreeMap::new(),
        kept: Work::default(),
        tensors: BTreeMap::new(),
        scalars: BTreeMap::new(),
        declarations: Vec::new(),
        placed: BTreeMap::new(),
        last_use: BTreeMap::new(),
        moved: BTreeMap::new(),
        out,
    };
    if let Some(pass) = pass {
        writer.out.passes = true;
        writer.out.results = pass.wanted.len() as u64;
        if pass.inner_rows != Dim::constant(1) {
            writer.out.inner_rows = text::index(&pass.inner_rows, &str::to_owned);
        }
        let result = |slot: u64| {
            let var = "results".to_owned();
            Tensor { var, offset: slot * COPIES, lanes: COPIES, size: 4, work: None }
        };
        for (value, slot) in &pass.given {
            let given = result(*slot);
            let given = if writer.dtype(*value) == DType::I32 { as_words(&given) } else { given };
            writer.bind(*value, given);
        }
        writer.folded = pass.wanted.iter().map(|(value, slot)| (*value, result(*slot))).collect();
    }
    let order = writer.order();
    writer.place_joined();
    writer.find_last_uses(&order);
    writer.open_outputs().map_err(|e| e.in_segment(segment))?;
    for (step, &at) in order.iter().enumerate() {
        let inst = &segment.insts[at];
        writer.step = step;
        writer.at_start = writer.is_fixed(inst);
        writer.inst(inst).map_err(|e| e.at(segment, inst))?;
    }
    writer.finish()
}

impl<'a> Writer<'a> {
    /// Instructions in the order of writing: loads of what is the same for all rows, what is computed from it, the rest.
    fn order(&self) -> Vec<usize> {
        let insts = &self.segment.insts;
        let rank = |inst: &Inst| match (self.is_fixed(inst), &inst.op) {
            (true, InstOp::Load { .. }) => 0,
            (true, _) => 1,
            (false, _) => 2,
        };
        let mut order: Vec<usize> = (0..insts.len()).collect();
        order.sort_by_key(|&at| rank(&insts[at]));
        order
    }

    /// Whether an instruction is the same for all rows.
    fn is_fixed(&self, inst: &Inst) -> bool {
        inst.results.first().is_some_and(|r| self.levels[r.0 as usize] == Level::Kernel)
    }

    pub fn uses(&self, value: Val) -> impl Iterator<Item = &'a Inst> {
        self.segment.insts.iter().filter(move |inst| inst.args.contains(&value))
    }

    pub fn defining(&self, value: Val) -> Option<&'a Inst> {
        self.segment.insts.iter().find(|inst| inst.results.contains(&value))
    }

    /// The operands of a map.
    pub fn map_args(&self, value: Val, f: ScalarFn) -> Option<&'a [Val]> {
        let inst = self.defining(value)?;
        (inst.op == InstOp::Map(f)).then_some(inst.args.as_slice())
    }

    pub fn shape(&self, value: Val) -> &'a Shape {
        &self.segment.ty(value).shape
    }

    pub fn dtype(&self, value: Val) -> DType {
        self.segment.ty(value).dtype
    }

    /// How often a value is in a tile.
    pub fn level(&self, value: Val) -> Level {
        self.levels[value.0 as usize]
    }

    /// Lanes of one row's part of a value.
    pub fn lanes(&self, value: Val) -> Made<u64> {
        let shape = self.shape(value);
        tile::lanes(shape).ok_or_else(|| {
            EmitError::unsupported(format!("{} lanes: the buffer plan needs a known length", shape.elements()))
        })
    }

    /// Elements of one row's part of a value.
    pub fn elements(&self, value: Val) -> Made<u64> {
        let copies = if matches!(self.shape(value), Shape::Row(_)) { 1 } else { COPIES };
        Ok(self.lanes(value)? / copies)
    }

    /// Lanes of a value in a tile.
    pub fn count(&self, value: Val) -> Made<Count> {
        Ok(self.tile.times(self.level(value)).of(self.lanes(value)?))
    }

    /// Lanes of a value in the largest tile.
    pub fn most(&self, value: Val) -> Made<u64> {
        Ok(self.tile.most(self.level(value)) * self.lanes(value)?)
    }

    /// Values that are computed right where a join wants them: where a tile is one row.
    fn place_joined(&mut self) {
        if !self.tile.is_single() {
            return;
        }
        for inst in self.segment.insts.iter().filter(|i| i.op == InstOp::Cat) {
            let mut start = Some(0);
            for &arg in &inst.args {
                let size = u64::from(self.dtype(arg).bits() / 8);
                let computed = matches!(self.defining(arg).map(|i| &i.op), Some(InstOp::Map(_) | InstOp::Cast { .. }));
                let once = self.uses(arg).count() == 1 && inst.args.iter().filter(|&&a| a == arg).count() == 1;
                let level = self.level(arg) == self.level(inst.results[0]);
                if let Some(at) = start
                    && computed
                    && once
                    && level
                    && (at * size).is_multiple_of(BLOCK)
                {
                    self.placed.insert(arg, (inst.results[0], at));
                }
                start = start.and_then(|at: u64| Some(at + self.lanes(arg).ok()?));
            }
        }
    }

    /// The value whose storage a value is part of.
    pub fn root(&self, value: Val) -> Val {
        if let Some(&(whole, _)) = self.placed.get(&value) {
            return self.root(whole);
        }
        match self.defining(value) {
            Some(Inst { op: InstOp::Slice { .. }, args, .. }) if self.tile.is_single() => self.root(args[0]),
            Some(Inst { op: InstOp::AsRow | InstOp::Bitcast(_), args, .. }) => self.root(args[0]),
            _ => value,
        }
    }

    fn find_last_uses(&mut self, order: &[usize]) {
        for (step, &at) in order.iter().enumerate() {
            let inst = &self.segment.insts[at];
            let fixed = self.is_fixed(inst);
            for &value in inst.args.iter().chain(&inst.results) {
                let kept = !fixed && self.level(value) == Level::Kernel;
                let last = if kept { usize::MAX } else { step };
                let root = self.root(value);
                let known = self.last_use.entry(root).or_insert(last);
                *known = last.max(*known);
            }
        }
    }

    /// Reserves a queue's buffer for every stored row, so that it is computed there.
    fn open_outputs(&mut self) -> Made<()> {
        for inst in &self.segment.insts {
            let InstOp::Store { param, .. } = &inst.op else { continue };
            let value = inst.args[0];
            let loaded = matches!(self.defining(value).map(|i| &i.op), Some(InstOp::Load { .. }));
            let row = matches!(self.shape(value), Shape::Row(_));
            let varies = self.level(value) != Level::Kernel;
            let whole = self.root(value) == value && self.dtype(value) != DType::Bool;
            if loaded || !row || !varies || !whole || self.tensors.contains_key(&value) {
                continue;
            }
            let tensor = self.output(value, param.0)?;
            self.tensors.insert(value, tensor);
        }
        Ok(())
    }

    /// A tensor of an output queue for a value's elements.
    pub fn output(&mut self, value: Val, param: u32) -> Made<Tensor> {
        let dtype = self.dtype(value);
        let (element, size) = (self.element(dtype)?, self.size(dtype));
        let lanes = self.tile.most(self.level(value)) * self.elements(value)?;
        let var = self.names.claim(&format!("{}Out", self.params[param as usize]));
        let tensor = Tensor { var: var.clone(), offset: 0, lanes, size, work: None };
        let bytes = (lanes * size).next_multiple_of(BLOCK).max(BLOCK);
        self.out.outputs.push(template::Queue { tensor: var, element, bytes });
        Ok(tensor)
    }

    fn inst(&mut self, inst: &Inst) -> Made<()> {
        let Some(&result) = inst.results.first() else { return self.store(inst) };
        let ty = self.segment.ty(result).clone();
        let address = ty.shape == Shape::Scalar && !ty.dtype.is_float() && !self.is_vector_scalar(inst);
        match &inst.op {
            InstOp::Literal(Literal::Float(DType::F32, v)) => {
                self.scalars.insert(result, Scalar::Literal(*v as f32));
                Ok(())
            }
            InstOp::Load { .. } if address => self.load_integer(inst, result),
            InstOp::Load { .. } => self.load(inst, result),
            _ if address => self.integer(inst, result),
            InstOp::Map(f) => self.map(*f, inst, result),
            InstOp::Cast { .. } => self.cast(inst, result),
            InstOp::Reduce { .. } => self.reduce(inst, result),
            InstOp::Slice { start, step, .. } => self.slice(inst, result, start, *step),
            InstOp::Cat => self.join(inst, result),
            InstOp::Zip => self.zip(inst, result),
            InstOp::Pack { ways, to } => self.pack(inst, result, *ways, *to),
            InstOp::Broadcast(_) => self.broadcast(inst, result),
            InstOp::Iota(_) => self.iota(result),
            InstOp::Bitcast(_) => self.bitcast(inst, result),
            _ => Err(EmitError::unsupported(format!("`{}` of {ty}", inst.op.name()))),
        }
    }

    /// Whether an integer or a condition of a row is computed from floats, and so by the vector unit.
    pub fn is_vector_scalar(&self, inst: &Inst) -> bool {
        let vector = |v: &Val| {
            let float = self.dtype(*v).is_float();
            float || self.shape(*v) != &Shape::Scalar || self.tensors.contains_key(v) || self.packed.contains_key(v)
        };
        inst.args.iter().any(vector)
    }

    /// Where statements go now.
    pub fn steps(&mut self) -> &mut Steps {
        if self.at_start { &mut self.fixed } else { &mut self.tiled }
    }

    /// Makes an expression stand for a value.
    pub fn express(&mut self, value: Val, expression: String) {
        self.scalars.insert(value, Scalar::Expression(expression));
    }

    /// The scalar that a value is, if it is no tensor.
    pub fn scalar(&self, value: Val) -> Option<&Scalar> {
        self.scalars.get(&value)
    }
}
