//! One segment of a kernel as the parts of a class: queues, scalars, vector statements.
//!
//! Rows are tensors in unified buffer, one per value; a value that is stored is computed in its output queue, a value
//! that is joined is computed in its place. A scalar that depends on a row is a tensor of one block; integer scalars
//! are plain C++ and serve addresses and conditions only.

use std::collections::BTreeMap;

use fusewright_abi::DType;
use fusewright_graph::{Dim, Literal};
use fusewright_templates::ascend as template;

use super::EmitError;
use super::chip::Chip;
use super::memory::{BLOCK, Steps, Tensor, Work};
use super::text::{self, Names};
use crate::kernel::{Inst, InstOp, Kernel, LANE, Level, Segment, Shape, Val};

type Made<T> = Result<T, EmitError>;

/// A scalar that is no tensor.
#[derive(Clone, Debug)]
pub(super) enum Scalar {
    /// An f32 constant.
    Literal(f32),
    /// A C++ expression.
    Expression(String),
}

/// Writes one segment.
pub(super) struct Writer<'a> {
    pub chip: Chip,
    pub kernel: &'a Kernel,
    pub segment: &'a Segment,
    pub names: Names,
    pub steps: Steps,
    pub work: Work,
    /// Names of parameters, by number.
    pub params: &'a [String],
    /// Instruction that is being written.
    pub step: usize,
    /// Scalar tensors whose value is in a C++ variable.
    pub read: BTreeMap<Val, String>,
    tensors: BTreeMap<Val, Tensor>,
    scalars: BTreeMap<Val, Scalar>,
    /// Declarations of integer scalars, with the value that each declares.
    declarations: Vec<(Val, String)>,
    /// What the storage of a value is part of: `(whole, first lane)`.
    placed: BTreeMap<Val, (Val, u64)>,
    last_use: BTreeMap<Val, usize>,
    /// Rows that go from buffer to buffer, waiting for their store.
    moved: BTreeMap<Val, template::Queue>,
    out: template::Segment,
}

/// Writes a segment, with `depth` rows in flight.
pub(super) fn write(
    chip: Chip,
    kernel: &Kernel,
    segment: &Segment,
    params: &[String],
    depth: u32,
) -> Made<template::Segment> {
    let mut names = Names::new();
    for name in params.iter().chain(kernel.dims.iter().map(|d| &d.name)) {
        names.claim(name);
    }
    let out = template::Segment {
        class: text::camel_case(&segment.name),
        inner: text::index(&segment.inner, &str::to_owned),
        uses_inner: segment.inner != Dim::constant(1),
        buffers: Vec::new(),
        dims: kernel.dims.iter().map(|d| d.name.clone()).collect(),
        constants: Vec::new(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        moves: Vec::new(),
        scalars_in: Vec::new(),
        scalars_out: Vec::new(),
        body: Vec::new(),
        work: 0,
        depth,
    };
    let mut writer = Writer {
        chip,
        kernel,
        segment,
        names,
        steps: Steps::default(),
        work: Work::default(),
        params,
        step: 0,
        read: BTreeMap::new(),
        tensors: BTreeMap::new(),
        scalars: BTreeMap::new(),
        declarations: Vec::new(),
        placed: BTreeMap::new(),
        last_use: BTreeMap::new(),
        moved: BTreeMap::new(),
        out,
    };
    writer.place_joined();
    writer.find_last_uses();
    writer.open_outputs().map_err(|e| e.in_segment(segment))?;
    for (step, inst) in segment.insts.iter().enumerate() {
        writer.step = step;
        writer.inst(inst).map_err(|e| e.at(segment, inst))?;
    }
    writer.finish()
}

impl<'a> Writer<'a> {
    fn uses(&self, value: Val) -> impl Iterator<Item = (usize, &'a Inst)> {
        self.segment.insts.iter().enumerate().filter(move |(_, inst)| inst.args.contains(&value))
    }

    fn defining(&self, value: Val) -> Option<&'a Inst> {
        self.segment.insts.iter().find(|inst| inst.results.contains(&value))
    }

    fn lanes(&self, shape: &Shape) -> Made<u64> {
        let elements = shape.elements();
        let known = elements.as_const().and_then(|n| u64::try_from(n).ok());
        known.ok_or_else(|| EmitError::unsupported(format!("{elements} lanes: the buffer plan needs a known length")))
    }

    /// Values that are computed right where a join wants them.
    fn place_joined(&mut self) {
        for inst in self.segment.insts.iter().filter(|i| i.op == InstOp::Cat) {
            let mut start = Some(0);
            for &arg in &inst.args {
                let ty = self.segment.ty(arg);
                let size = u64::from(ty.dtype.bits() / 8);
                let computed = matches!(self.defining(arg).map(|i| &i.op), Some(InstOp::Map(_) | InstOp::Cast { .. }));
                let once = self.uses(arg).count() == 1 && inst.args.iter().filter(|&&a| a == arg).count() == 1;
                if let Some(at) = start
                    && computed
                    && once
                    && (at * size).is_multiple_of(BLOCK)
                {
                    self.placed.insert(arg, (inst.results[0], at));
                }
                start = start.and_then(|at: u64| Some(at + self.lanes(&ty.shape).ok()?));
            }
        }
    }

    /// The value whose storage a value is part of.
    fn root(&self, value: Val) -> Val {
        if let Some(&(whole, _)) = self.placed.get(&value) {
            return self.root(whole);
        }
        match self.defining(value) {
            Some(Inst { op: InstOp::Slice { .. }, args, .. }) => self.root(args[0]),
            _ => value,
        }
    }

    fn find_last_uses(&mut self) {
        for (step, inst) in self.segment.insts.iter().enumerate() {
            for &arg in inst.args.iter().chain(&inst.results) {
                let root = self.root(arg);
                self.last_use.insert(root, step);
            }
        }
    }

    /// Reserves a queue's buffer for every stored value, so that it is computed there.
    fn open_outputs(&mut self) -> Made<()> {
        for inst in &self.segment.insts {
            let InstOp::Store { param, .. } = &inst.op else { continue };
            let value = inst.args[0];
            let loaded = matches!(self.defining(value).map(|i| &i.op), Some(InstOp::Load { .. }));
            if loaded || self.tensors.contains_key(&value) {
                continue;
            }
            let ty = self.segment.ty(value).clone();
            let var = self.names.claim(&format!("{}Out", self.params[param.0 as usize]));
            let (lanes, size) = (self.lanes(&ty.shape)?, u64::from(ty.dtype.bits() / 8));
            self.tensors.insert(value, Tensor { var, offset: 0, lanes, size, work: None });
        }
        Ok(())
    }

    fn store(&mut self, inst: &Inst) -> Made<()> {
        let InstOp::Store { param, index, otherwise: None } = &inst.op else {
            return Err(EmitError::unsupported("a store that writes something else where it is masked"));
        };
        let dtype = self.segment.ty(inst.args[0]).dtype;
        let condition = match inst.args.get(1) {
            None => String::new(),
            Some(&mask) => self
                .expression(mask)
                .ok_or_else(|| EmitError::unsupported("a mask with a lane of its own for every element"))?,
        };
        if let Some(from) = self.moved.remove(&inst.args[0]) {
            // Rows are moved on their own way, before or behind what is computed.
            let overwritten = |p: &crate::kernel::Param| {
                p.alias.is_some_and(|i| self.params[i.0 as usize] == from.buffer)
                    && p.name != self.kernel.param(*param).name
            };
            if let Some(other) = self.kernel.params.iter().find(|p| overwritten(p)) {
                return Err(EmitError::unsupported(format!("a copy of what `{}` overwrites", other.name)));
            }
            let tensor = Tensor { var: from.tensor.clone(), offset: 0, lanes: from.lanes, size: 0, work: None };
            let tensor = Tensor { size: u64::from(dtype.bits() / 8), ..tensor };
            let to = self.queue(&tensor, dtype, param.0, index)?;
            let own = self.kernel.param(*param).alias.is_some_and(|i| self.params[i.0 as usize] == from.buffer);
            if own && from.index != to.index {
                return Err(EmitError::unsupported("a copy to other places of what it overwrites"));
            }
            self.out.moves.push(template::Move { from, to: template::Queue { condition, ..to } });
            return Ok(());
        }
        let tensor = self.tensor(inst.args[0])?;
        let queue = self.queue(&tensor, dtype, param.0, index)?;
        self.out.outputs.push(template::Queue { condition, ..queue });
        Ok(())
    }

    fn queue(&mut self, tensor: &Tensor, dtype: DType, param: u32, index: &Dim) -> Made<template::Queue> {
        let start = self.index_text(&self.start(index)?);
        let element = self.element(dtype)?;
        let bytes = tensor.lanes * tensor.size;
        if !self.chip.ragged_copies && !bytes.is_multiple_of(BLOCK) {
            let what = format!("a copy of {bytes} bytes: this chip copies multiples of {BLOCK}");
            return Err(EmitError::unsupported(what));
        }
        Ok(template::Queue {
            tensor: tensor.var.clone(),
            element,
            buffer: self.buffer(param)?,
            index: start,
            lanes: tensor.lanes,
            bytes: bytes.next_multiple_of(BLOCK).max(BLOCK),
            condition: String::new(),
        })
    }

    /// The first element of a row whose lanes are consecutive.
    fn start(&self, index: &Dim) -> Made<Dim> {
        let split = index.split_linear(LANE).filter(|(slope, _)| *slope == Dim::constant(1) || !index.mentions(LANE));
        split
            .map(|(_, start)| start)
            .ok_or_else(|| EmitError::unsupported(format!("lanes at `{index}`: copies take consecutive elements")))
    }

    /// The type of an element that the chip moves.
    pub fn element(&self, dtype: DType) -> Made<&'static str> {
        let missing = |why: &str| Err(EmitError::unsupported(format!("{dtype} on {}: {why}", self.chip.vendor)));
        match dtype {
            DType::BF16 if !self.chip.bf16 => missing("its vector unit does not convert it"),
            DType::F8E4M3 | DType::F8E5M2 if !self.chip.fp8 => missing("its vector unit does not convert it"),
            _ => text::element(dtype).map_or_else(|| missing("no such element"), Ok),
        }
    }

    fn buffer(&mut self, param: u32) -> Made<String> {
        let declared = &self.kernel.params[param as usize];
        if declared.source != crate::kernel::Source::Memory {
            return Err(EmitError::unsupported(format!("`{}` does not come from memory", declared.name)));
        }
        let name = self.params[param as usize].clone();
        let element = self.element(declared.dtype)?;
        if !self.out.buffers.iter().any(|b| b.name == name) {
            self.out.buffers.push(template::Buffer { name: name.clone(), element });
        }
        Ok(name)
    }

    fn inst(&mut self, inst: &Inst) -> Made<()> {
        let Some(&result) = inst.results.first() else { return self.store(inst) };
        let ty = self.segment.ty(result).clone();
        let whole = !ty.dtype.is_float();
        match (&inst.op, &ty.shape) {
            (InstOp::Literal(Literal::Float(DType::F32, v)), _) => {
                self.scalars.insert(result, Scalar::Literal(*v as f32));
                Ok(())
            }
            (InstOp::Load { .. }, Shape::Row(_)) => self.load_row(inst, result),
            (InstOp::Load { .. }, Shape::Scalar) => self.load_scalar(inst, result),
            (_, Shape::Scalar) if whole => self.integer(inst, result),
            (InstOp::Map(f), Shape::Scalar | Shape::Row(_)) if ty.dtype == DType::F32 => self.map(*f, inst, result),
            (InstOp::Cast { .. }, Shape::Row(_)) => self.cast(inst, result),
            (InstOp::Reduce { .. }, Shape::Scalar) => self.reduce(inst, result),
            (InstOp::Slice { start, step: 1, .. }, Shape::Row(_)) => self.slice(inst, result, start),
            (InstOp::Cat, _) => self.join(inst, result),
            (InstOp::Broadcast(Shape::Row(_)), _) => self.spread(inst, result),
            _ => Err(EmitError::unsupported(format!("`{}` of {ty}", inst.op.name()))),
        }
    }

    fn load_row(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let InstOp::Load { param, index, otherwise: None, .. } = &inst.op else {
            return Err(EmitError::unsupported("a masked load"));
        };
        let ty = self.segment.ty(result).clone();
        let var = self.names.claim(&format!("{}In", self.params[param.0 as usize]));
        let size = u64::from(ty.dtype.bits() / 8);
        let tensor = Tensor { var, offset: 0, lanes: self.lanes(&ty.shape)?, size, work: None };
        let queue = self.queue(&tensor, ty.dtype, param.0, index)?;
        let stores: Vec<&Inst> =
            self.uses(result).map(|(_, i)| i).filter(|i| matches!(i.op, InstOp::Store { .. })).collect();
        if !stores.is_empty() {
            return match (stores.as_slice(), self.uses(result).count()) {
                ([_], 1) => {
                    self.moved.insert(result, queue);
                    Ok(())
                }
                _ => Err(EmitError::unsupported("a loaded row that is stored unchanged and used besides")),
            };
        }
        self.tensors.insert(result, tensor);
        match self.segment.levels()[result.0 as usize] {
            Level::Kernel => self.out.constants.push(queue),
            Level::Outer | Level::Inner => self.out.inputs.push(queue),
        }
        Ok(())
    }

    fn load_scalar(&mut self, inst: &Inst, result: Val) -> Made<()> {
        let InstOp::Load { param, index, otherwise: None, .. } = &inst.op else {
            return Err(EmitError::unsupported("a masked load"));
        };
        let dtype = self.segment.ty(result).dtype;
        let buffer = self.buffer(param.0)?;
        let at = self.index_text(index);
        let name = self.names.claim(&buffer);
        let kind = match dtype {
            DType::F32 => "float",
            DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::U8 | DType::U16 | DType::U32 => "int64_t",
            _ => return Err(EmitError::unsupported(format!("a single {dtype}"))),
        };
        self.declare(result, &name, kind, &format!("{buffer}Gm.GetValue({at})"));
        Ok(())
    }

    /// Declares a scalar of an inner row.
    pub fn declare(&mut self, value: Val, name: &str, kind: &str, expression: &str) {
        self.declarations.push((value, format!("const {kind} {name} = {expression};")));
        self.scalars.insert(value, Scalar::Expression(name.to_owned()));
    }

    /// An index as C++ text.
    pub fn index_text(&self, index: &Dim) -> String {
        text::index(index, &|name| match Val::from_symbol(name) {
            Some(value) => self.expression(value).unwrap_or_else(|| name.to_owned()),
            None => name.to_owned(),
        })
    }

    /// The C++ expression of an integer scalar.
    pub fn expression(&self, value: Val) -> Option<String> {
        match self.scalars.get(&value) {
            Some(Scalar::Expression(text)) => Some(text.clone()),
            _ => None,
        }
    }

    /// Makes an expression stand for a value.
    pub fn express(&mut self, value: Val, expression: String) {
        self.scalars.insert(value, Scalar::Expression(expression));
    }

    /// The scalar that a value is, if it is no tensor.
    pub fn scalar(&self, value: Val) -> Option<&Scalar> {
        self.scalars.get(&value)
    }

    /// The tensor of a value.
    pub fn tensor(&self, value: Val) -> Made<Tensor> {
        let found = self.tensors.get(&value).cloned();
        found.ok_or_else(|| EmitError::unsupported(format!("{value:?} is not in unified buffer")))
    }

    /// Makes `tensor` the place of a value.
    pub fn bind(&mut self, value: Val, tensor: Tensor) {
        self.tensors.insert(value, tensor);
    }

    /// Where to compute a value: its output queue, its place in a join, the place of a dying operand of equal size, or
    /// new bytes.
    pub fn destination(&mut self, value: Val, wish: &str, operands: &[Val]) -> Made<Tensor> {
        if let Some(tensor) = self.tensors.get(&value) {
            return Ok(tensor.clone());
        }
        if let Some(&(whole, start)) = self.placed.get(&value) {
            let lanes = self.lanes(&self.segment.ty(value).shape)?;
            let part = self.destination(whole, "joined", &[])?.part(start, lanes)?;
            self.tensors.insert(value, part.clone());
            return Ok(part);
        }
        let ty = self.segment.ty(value).clone();
        let (lanes, size) = (self.lanes(&ty.shape)?, u64::from(ty.dtype.bits() / 8));
        let last = self.last_use.get(&self.root(value)).copied().unwrap_or(self.step);
        let dying = operands.iter().find_map(|&o| {
            let tensor = self.tensors.get(&o)?;
            let fits = tensor.offset == 0 && tensor.lanes == lanes && tensor.size == size && self.root(o) == o;
            tensor.work.filter(|_| fits)
        });
        let at = match dying {
            Some(at) if self.work.take_over(at, lanes * size, self.step, last) => at,
            _ => self.work.claim(lanes * size, self.step, last),
        };
        let element = self.element(ty.dtype)?;
        let tensor = self.declare_tensor(wish, element, lanes, size, at);
        self.tensors.insert(value, tensor.clone());
        Ok(tensor)
    }

    /// A tensor that only this step uses.
    pub fn scratch(&mut self, wish: &str, element: &str, lanes: u64, size: u64) -> Tensor {
        let at = self.work.claim(lanes * size, self.step, self.step);
        self.declare_tensor(wish, element, lanes, size, at)
    }

    fn declare_tensor(&mut self, wish: &str, element: &str, lanes: u64, size: u64, at: u64) -> Tensor {
        let var = self.names.claim(wish);
        self.steps.plain(format!(
            "LocalTensor<{element}> {var} = work.GetWithOffset<{element}>({}, {at});",
            lanes.max(BLOCK / size)
        ));
        Tensor { var, offset: 0, lanes, size, work: Some(at) }
    }

    fn finish(mut self) -> Made<template::Segment> {
        let inside = |queues: &[template::Queue]| -> Vec<String> {
            queues.iter().flat_map(|q| [q.index.clone(), q.condition.clone()]).collect()
        };
        let (from, to): (Vec<_>, Vec<_>) = self.out.moves.iter().map(|m| (m.from.clone(), m.to.clone())).unzip();
        self.out.scalars_in = self.declared([inside(&self.out.inputs), inside(&from)].concat());
        self.out.scalars_out = self.declared([inside(&self.out.outputs), inside(&to)].concat());
        self.steps.finish();
        let mut body = self.declared(self.steps.lines.clone());
        body.append(&mut self.steps.lines);
        self.out.body = body;
        self.out.work = self.work.bytes;
        let params = self.params;
        self.out.buffers.sort_by_key(|b| params.iter().position(|p| *p == b.name));
        let constants = inside(&self.out.constants);
        let lines = [&self.out.scalars_in, &self.out.scalars_out, &self.out.body, &constants];
        let indices = [inside(&self.out.inputs), inside(&self.out.outputs), inside(&from), inside(&to)];
        let texts: Vec<&String> = lines.into_iter().chain(&indices).flatten().chain([&self.out.inner]).collect();
        self.out.dims.retain(|dim| texts.iter().any(|t| text::mentions(t, dim)));
        let needs = self.out.buffer_bytes();
        if needs > self.chip.buffer_bytes {
            let what = format!(
                "{needs} bytes of unified buffer with {} rows in flight: {} has {}",
                self.out.depth, self.chip.vendor, self.chip.buffer_bytes
            );
            return Err(EmitError::TooLarge(what));
        }
        Ok(self.out)
    }

    /// The declarations that texts need, in order.
    fn declared(&self, mut texts: Vec<String>) -> Vec<String> {
        let mut lines = Vec::new();
        for (value, line) in self.declarations.iter().rev() {
            let Some(Scalar::Expression(name)) = self.scalars.get(value) else { continue };
            if texts.iter().any(|t| text::mentions(t, name)) {
                texts.push(line.clone());
                lines.push(line.clone());
            }
        }
        lines.reverse();
        lines
    }
}
