//! Loads and stores: elements in memory and lanes in vectors.
//!
//! Lanes that follow each other in memory are one access, as are those in runs and every other one; where some lanes of
//! a chunk do not exist or a predicate leaves some out, the access is masked. All others go lane by lane.

use fusewright_abi::DType;
use fusewright_graph::Dim;
use inkwell::types::BasicTypeEnum;
use inkwell::values::{BasicValue, BasicValueEnum, IntValue};
use inkwell::{AddressSpace, IntPredicate};

use super::address::Pos;
use super::eval::{CHUNK, Eval};
use super::parts::Part;
use crate::backend::host::index::{consecutive, parity, runs_by_one};
use crate::backend::host::short_run;
use crate::backend::llvm::cast::literal;
use crate::backend::llvm::ops::{lanes, widened};
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::{Inst, InstOp, LANE, ParamId, Shape};

/// Ordinary memory.
pub(super) const MEMORY: u16 = 0;

/// How the lanes of a chunk lie in memory.
enum Layout {
    /// One after the other.
    Contiguous,
    /// Every other one.
    Alternate,
    /// In no such order.
    Scattered,
}

impl<'c> Eval<'_, '_, 'c> {
    /// The type of an element in memory: booleans are bytes.
    pub fn memory_type(&self, dtype: DType) -> BasicTypeEnum<'c> {
        if dtype == DType::Bool { self.code.int_type(8).into() } else { self.code.type_of(dtype) }
    }

    pub fn to_memory(&self, value: Value<'c>, dtype: DType) -> Built<Value<'c>> {
        if dtype == DType::Bool { self.code.extend(value, 8, false) } else { Ok(value) }
    }

    pub fn loaded(&self, value: Value<'c>, dtype: DType) -> Built<Value<'c>> {
        if dtype == DType::Bool { self.code.icmp_const(IntPredicate::NE, value, 0) } else { Ok(value) }
    }

    /// Consecutive elements from an address.
    pub fn load_lanes(&self, dtype: DType, address: IntValue<'c>, width: u32) -> Built<Value<'c>> {
        let stored = self.code.load(widened(self.memory_type(dtype), width), address, MEMORY)?;
        self.loaded(stored, dtype)
    }

    /// Writes consecutive elements to an address.
    pub fn store_lanes(&self, dtype: DType, value: Value<'c>, address: IntValue<'c>) -> Built<()> {
        let stored = self.to_memory(value, dtype)?;
        self.code.store(stored, address, MEMORY)
    }

    /// Fresh stack memory, which is the function's for as long as it runs.
    pub fn stack(&self, bytes: i64) -> Built<IntValue<'c>> {
        let pointer = self.variable(self.code.ctx.i8_type().array_type(bytes.max(1) as u32).into())?;
        let here = self.code.here()?;
        // The address is taken where the memory is made, so that it can be used everywhere.
        let entry = self.code.function.get_first_basic_block().and_then(|b| b.get_terminator());
        let entry = entry.ok_or_else(|| BuildError::Llvm("the function has no entry".into()))?;
        self.code.b.position_before(&entry);
        let address = self.code.b.build_ptr_to_int(pointer, self.code.ctx.i64_type(), "")?;
        self.code.b.position_at_end(here);
        Ok(address)
    }

    /// A variable of a type, which becomes a register where nothing takes its address.
    pub fn variable(&self, ty: BasicTypeEnum<'c>) -> Built<inkwell::values::PointerValue<'c>> {
        let here = self.code.here()?;
        let entry = self.code.function.get_first_basic_block().and_then(|b| b.get_terminator());
        let entry = entry.ok_or_else(|| BuildError::Llvm("the function has no entry".into()))?;
        self.code.b.position_before(&entry);
        let pointer = self.code.b.build_alloca(ty, "")?;
        if let Some(alloca) = pointer.as_instruction_value() {
            alloca.set_alignment(64).map_err(|e| BuildError::Llvm(e.to_string()))?;
        }
        self.code.b.position_at_end(here);
        Ok(pointer)
    }

    fn layout(&self, index: &Dim, pos: &Pos<'c>, width: u32) -> Layout {
        match consecutive(index) {
            1 => Layout::Contiguous,
            2 => Layout::Alternate,
            0 if width == CHUNK && self.starts_at_chunk(pos) && runs_by_one(index, i64::from(CHUNK)) => {
                Layout::Contiguous
            }
            _ => Layout::Scattered,
        }
    }

    /// The elements of a load at so many lanes.
    pub fn load(&mut self, inst: &Inst, shape: &Shape, pos: Option<&Pos<'c>>, width: u32) -> Built<Value<'c>> {
        let InstOp::Load { param, index, otherwise, .. } = &inst.op else {
            return Err(BuildError::unsupported("not a load"));
        };
        let dtype = self.kernel.param(*param).dtype;
        let predicate = inst.args.first().copied();
        if predicate.is_some() && dtype.bits() < 8 {
            return Err(BuildError::unsupported(format!("a predicated load of {dtype} elements")));
        }
        let by_lane = predicate.is_some_and(|p| *self.shape(p) != Shape::Scalar);
        if width > 1 && !by_lane && !index.mentions(LANE) {
            let one = self.load(inst, shape, pos, 1)?;
            return self.code.splat(one, width);
        }
        let (Some(pos), true) = (pos, width > 1) else {
            let Some((predicate, otherwise)) = predicate.zip(otherwise.as_ref()) else {
                return self.load_one(*param, index, pos);
            };
            let holds = self.value(predicate, shape, pos, 1)?;
            let other = literal(self.code, otherwise)?;
            return self.branch(holds, |eval| eval.load_one(*param, index, pos), |_| Ok(other));
        };
        let mask = self.mask(predicate, shape, pos, width)?;
        match (self.layout(index, pos, width), mask, dtype.bits()) {
            (Layout::Contiguous, None, 4) if self.starts_even(index, pos) => {
                self.load_nibbles(*param, index, pos, width)
            }
            (Layout::Contiguous, None, 8..) => {
                let address = self.address(*param, index, Some(pos))?;
                self.prefetch_run(dtype, address, index)?;
                self.load_consecutive(dtype, address, width)
            }
            (Layout::Contiguous, Some(mask), 8..) => {
                let address = self.address(*param, index, Some(pos))?;
                let other = match otherwise {
                    Some(constant) => self.to_memory(literal(self.code, constant)?, dtype)?,
                    None => self.zero(dtype),
                };
                let other = self.code.splat(other, width)?;
                self.load_masked(dtype, address, mask, other)
            }
            (Layout::Alternate, None, 8..) => {
                let low = self.address(*param, index, Some(pos))?;
                let bytes = i64::from(dtype.bits() / 8);
                // The last lane read is the last lane needed.
                let high = self.code.add(low, self.code.i64(bytes * i64::from(width - 1)))?;
                let (low, high) = (self.load_lanes(dtype, low, width)?, self.load_lanes(dtype, high, width)?);
                self.every_other(low, high)
            }
            _ => self.by_single_lanes(pos, width, &mut |eval, pos| eval.load(inst, shape, Some(pos), 1)),
        }
    }

    /// Asks for the same lanes of a later row, where a loop reads a short run of each.
    fn prefetch_run(&self, dtype: DType, address: IntValue<'c>, index: &Dim) -> Built<()> {
        let Some(pass) = self.pass.as_ref().filter(|pass| pass.part != Some(Part::Odd)) else { return Ok(()) };
        let distance = pass.lanes.as_ref().and_then(|lanes| short_run::distance(index, lanes, dtype.bits() / 8));
        let Some(distance) = distance else { return Ok(()) };
        let code = self.code;
        let pointer = code.ctx.ptr_type(AddressSpace::from(MEMORY));
        let later = code.b.build_int_to_ptr(code.add(address, code.i64(distance))?, pointer, "")?;
        // To read, to be kept in every cache, as data.
        let how = [0, 3, 1].map(|n| Value::from(code.int_type(32).const_int(n, false)));
        code.effect("llvm.prefetch", &[pointer.into()], &[later.into(), how[0], how[1], how[2]])
    }

    fn zero(&self, dtype: DType) -> Value<'c> {
        self.memory_type(dtype).const_zero()
    }

    /// Which lanes a chunk has: those that exist, and for which the predicate holds. `None` if that is all.
    fn mask(
        &mut self,
        predicate: Option<crate::kernel::Val>,
        shape: &Shape,
        pos: &Pos<'c>,
        width: u32,
    ) -> Built<Option<Value<'c>>> {
        let there = self.pass.as_ref().and_then(|pass| pass.mask);
        let holds = match predicate {
            Some(p) => Some(self.value(p, shape, Some(pos), width)?),
            None => None,
        };
        Ok(match (there, holds) {
            (Some(a), Some(b)) => Some(self.code.and(a, b)?),
            (a, b) => a.or(b),
        })
    }

    fn load_masked(&self, dtype: DType, address: IntValue<'c>, mask: Value<'c>, other: Value<'c>) -> Built<Value<'c>> {
        let pointer = self.code.ctx.ptr_type(AddressSpace::from(MEMORY));
        let at = self.code.b.build_int_to_ptr(address, pointer, "")?;
        let stored =
            self.code.call("llvm.masked.load", &[other.get_type(), pointer.into()], &[at.into(), mask, other])?;
        self.loaded(stored, dtype)
    }

    fn load_one(&mut self, param: ParamId, index: &Dim, pos: Option<&Pos<'c>>) -> Built<Value<'c>> {
        let dtype = self.kernel.param(param).dtype;
        if dtype.bits() >= 8 {
            let address = self.address(param, index, pos)?;
            return self.load_lanes(dtype, address, 1);
        }
        let (address, place) = self.nibble(param, index, pos)?;
        let byte = self.code.load(self.code.int_type(8).into(), address, MEMORY)?;
        let code = self.code.op(inkwell::values::InstructionOpcode::LShr, byte, place)?;
        self.code.masked(code, 15)
    }

    /// The address of the byte that holds a 4-bit element, and where in it that is.
    fn nibble(&mut self, param: ParamId, index: &Dim, pos: Option<&Pos<'c>>) -> Built<(IntValue<'c>, Value<'c>)> {
        let element = self.element(index, pos)?;
        let byte = self.code.sar(element.into(), 1)?.into_int_value();
        let address = self.code.add(self.buffers[param.0 as usize], byte)?;
        let odd = self.code.masked(self.code.extend(element.into(), 8, false)?, 1)?;
        Ok((address, self.code.shl(odd, 2)?))
    }

    fn load_nibbles(&mut self, param: ParamId, index: &Dim, pos: &Pos<'c>, width: u32) -> Built<Value<'c>> {
        let (address, _) = self.nibble(param, index, Some(pos))?;
        let bytes = self.code.load(widened(self.code.int_type(8).into(), width / 2), address, MEMORY)?;
        let (low, high) = (self.code.masked(bytes, 15)?, self.code.shr(bytes, 4)?);
        self.interleave(low, high)
    }

    /// Whether consecutive elements start at an even one.
    fn starts_even(&self, index: &Dim, pos: &Pos<'c>) -> bool {
        let start = index.split_linear(LANE).map(|(_, rest)| &rest + &pos.offset);
        (pos.scale % 2 == 0 || self.even_base(pos.base)) && start.is_some_and(|start| parity(&start) == Some(false))
    }

    /// Says whether a position is a multiple of a chunk in every pass.
    fn starts_at_chunk(&self, pos: &Pos<'c>) -> bool {
        let whole = |lanes: i64| lanes % i64::from(CHUNK) == 0;
        let starts_whole = self.pass.as_ref().is_some_and(|pass| pass.base == pos.base && whole(pass.multiple));
        starts_whole && pos.scale == 1 && pos.offset.as_const().is_some_and(whole)
    }

    /// Writes lanes; predicate and padding are the store's.
    pub fn store(&mut self, inst: &Inst, value: Value<'c>, pos: Option<&Pos<'c>>) -> Built<()> {
        let InstOp::Store { param, index, otherwise } = &inst.op else {
            return Err(BuildError::unsupported("not a store"));
        };
        let (dtype, shape) = (self.kernel.param(*param).dtype, self.shape(inst.args[0]));
        let width = lanes(value);
        if dtype.bits() < 8 {
            return self.store_packed(inst, value, pos);
        }
        let predicate = inst.args.get(1).copied();
        let (mut value, mut predicate) = (self.to_memory(value, dtype)?, predicate);
        if let (Some(p), Some(padding)) = (predicate, otherwise) {
            let holds = self.value(p, shape, pos, width)?;
            let padding = self.to_memory(literal(self.code, padding)?, dtype)?;
            value = self.code.select(holds, value, self.code.splat(padding, width)?)?;
            predicate = None;
        }
        let (Some(pos), true) = (pos, width > 1) else {
            let address = self.address(*param, index, pos)?;
            let Some(p) = predicate else { return self.code.store(value, address, MEMORY) };
            let holds = self.value(p, shape, pos, 1)?;
            return self.when(holds, |eval| eval.code.store(value, address, MEMORY));
        };
        let mask = self.mask(predicate, shape, pos, width)?;
        // Masks that may be known when compiling have to be of more than one lane; see the loops over lanes.
        let lone = predicate.is_some() && pos.base.is_const() && dtype.bits() < 32;
        match (self.layout(index, pos, width), mask) {
            (Layout::Contiguous, Some(_)) if lone => self.store_each(*param, index, value, pos, mask),
            (Layout::Contiguous, None) => {
                let address = self.address(*param, index, Some(pos))?;
                self.code.store(value, address, MEMORY)
            }
            (Layout::Contiguous, Some(mask)) => {
                let address = self.address(*param, index, Some(pos))?;
                self.store_masked(value, address, mask)
            }
            (_, mask) => self.store_each(*param, index, value, pos, mask),
        }
    }

    /// Writes those of consecutive lanes that a mask has.
    pub fn store_masked(&self, value: Value<'c>, address: IntValue<'c>, mask: Value<'c>) -> Built<()> {
        let pointer = self.code.ctx.ptr_type(AddressSpace::from(MEMORY));
        let at = self.code.b.build_int_to_ptr(address, pointer, "")?;
        self.code.effect("llvm.masked.store", &[value.get_type(), pointer.into()], &[value, at.into(), mask])
    }

    /// Writes lanes one by one, or those that the mask has.
    fn store_each(
        &mut self,
        param: ParamId,
        index: &Dim,
        value: Value<'c>,
        pos: &Pos<'c>,
        mask: Option<Value<'c>>,
    ) -> Built<()> {
        for i in 0..lanes(value) {
            let address = self.address(param, index, Some(&pos.plus(i64::from(i))))?;
            let one = self.extract(value, i)?;
            match mask {
                None => self.code.store(one, address, MEMORY)?,
                Some(mask) => {
                    let holds = self.extract(mask, i)?;
                    self.when(holds, |eval| eval.code.store(one, address, MEMORY))?;
                }
            }
        }
        Ok(())
    }

    /// Elements of four bits: two make a byte, so those of a row have to fill whole bytes.
    fn store_packed(&mut self, inst: &Inst, value: Value<'c>, pos: Option<&Pos<'c>>) -> Built<()> {
        let InstOp::Store { param, index, .. } = &inst.op else {
            return Err(BuildError::unsupported("not a store"));
        };
        let dtype = self.kernel.param(*param).dtype;
        if inst.args.len() > 1 {
            return Err(BuildError::unsupported(format!("a predicated store of {dtype} elements")));
        }
        let elements = self.shape(inst.args[0]).elements();
        let start = index.split_linear(LANE).map(|(_, rest)| rest);
        let whole = |dim: &Dim| parity(dim) == Some(false);
        let own = consecutive(index) == 1 && whole(&elements) && start.is_some_and(|start| whole(&start));
        let Some(pos) = pos.filter(|_| own) else {
            return Err(BuildError::unsupported(format!("rows of {dtype} elements that share bytes")));
        };
        let width = lanes(value);
        if width > 1 && self.starts_even(index, pos) {
            let (address, _) = self.nibble(*param, index, Some(pos))?;
            let bytes = self.join_nibbles(value)?;
            return self.code.store(bytes, address, MEMORY);
        }
        for i in 0..width {
            let one = if width == 1 { value } else { self.extract(value, i)? };
            let (address, place) = self.nibble(*param, index, Some(&pos.plus(i64::from(i))))?;
            let both = self.code.load(self.code.int_type(8).into(), address, MEMORY)?;
            let moved = self.code.op(inkwell::values::InstructionOpcode::Shl, one, place)?;
            let taken = self.code.op(inkwell::values::InstructionOpcode::Shl, self.code.int(one, 15), place)?;
            let kept = self.code.and(both, self.code.not(taken)?)?;
            self.code.store(self.code.or(kept, moved)?, address, MEMORY)?;
        }
        Ok(())
    }

    /// One lane of a vector.
    pub fn extract(&self, value: Value<'c>, lane: u32) -> Built<Value<'c>> {
        match value {
            BasicValueEnum::VectorValue(v) => {
                Ok(self.code.b.build_extract_element(v, self.code.i64(i64::from(lane)), "")?)
            }
            one => Ok(one),
        }
    }
}
