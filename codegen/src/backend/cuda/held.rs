//! Values that all threads of a block read: they are held in shared memory.

use fusewright_graph::Dim;
use inkwell::values::IntValue;

use super::code::{SHARED, WIDEST};
use super::rows::Rows;
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::{Inst, InstOp, Kernel, Over, Segment, Val};

/// Static shared memory that every architecture offers a block.
const SHARED_LIMIT: i64 = 48 * 1024;

/// Bytes of shared memory that all elements of a value take, up to where the next value may begin.
fn held_bytes(segment: &Segment, value: Val, elements: &Dim) -> Dim {
    let bytes = i64::from(segment.ty(value).dtype.bits().div_ceil(8));
    let unit = Dim::constant(i64::from(WIDEST));
    &(elements * &Dim::constant(bytes)).ceil_div(&unit) * &unit
}

/// Bytes of shared memory that launches of a segment state, whose rows are not in registers.
pub(super) fn stated_bytes(kernel: &Kernel, segment: &Segment) -> Dim {
    let staged = super::hazard::find(kernel, segment).staged;
    let held = segment.insts.iter().enumerate().flat_map(|(i, inst)| {
        let holds = match &inst.op {
            InstOp::TopK { .. } | InstOp::Reduce { over: Over::Group(_), .. } => true,
            _ => staged.contains(&i),
        };
        if holds { inst.results.as_slice() } else { &[] }
    });
    held.fold(Dim::constant(0), |sum, &value| {
        let elements = segment.ty(value).shape.elements();
        if elements.as_const().is_some() { sum } else { &sum + &held_bytes(segment, value, &elements) }
    })
}

impl<'c> Rows<'_, 'c> {
    /// Shared memory for all elements of a value.
    pub fn hold(&mut self, value: Val, elements: &Dim) -> Built<IntValue<'c>> {
        let ty = self.code.type_of(self.segment.ty(value).dtype);
        let bytes = i64::from(self.segment.ty(value).dtype.bits().div_ceil(8));
        let Some(count) = elements.as_const() else { return self.hold_stated(value, elements) };
        self.take_shared(count.saturating_mul(bytes))?;
        let address = self.code.shared_array(&format!("{}.{}", self.segment.name, value.0), ty, count as u32)?;
        self.held.insert(value, address);
        Ok(address)
    }

    /// Counts bytes of shared memory as taken.
    pub fn take_shared(&mut self, bytes: i64) -> Built<()> {
        self.shared_bytes = self.shared_bytes.saturating_add(bytes);
        if self.shared_bytes > SHARED_LIMIT - 2048 {
            let why = format!("{} bytes of shared memory, {SHARED_LIMIT} are there", self.shared_bytes);
            return Err(BuildError::unsupported(why));
        }
        Ok(())
    }

    /// Shared memory for a value whose number of elements is known at launches, behind those before it.
    fn hold_stated(&mut self, value: Val, elements: &Dim) -> Built<IntValue<'c>> {
        let address = match self.stated_end {
            Some(end) => end,
            None => self.code.stated_shared()?,
        };
        let bytes = self.dim(&held_bytes(self.segment, value, elements))?;
        self.stated_end = Some(self.code.add(address, bytes)?);
        self.held.insert(value, address);
        Ok(address)
    }

    /// Copies a load to shared memory, because a store of this row may overwrite what other threads still need.
    pub fn stage(&mut self, inst: &Inst, elements: &Dim) -> Built<()> {
        let value = inst.results[0];
        let end = self.dim(elements)?;
        let step = self.code.i64(i64::from(self.frame.threads));
        let address = self.hold(value, elements)?;
        self.held.remove(&value);
        self.each(self.frame.thread, end, step, Vec::new(), |rows, lane, _| {
            let element = rows.element(value, lane)?;
            rows.put(address, lane, element)?;
            Ok(Vec::new())
        })?;
        self.held.insert(value, address);
        self.code.barrier()
    }

    /// Writes an element of a held value.
    pub fn put(&mut self, address: IntValue<'c>, lane: IntValue<'c>, element: Value<'c>) -> Built<()> {
        let (element, bytes) = self.in_memory(element)?;
        let offset = self.code.mul(lane, self.code.i64(bytes))?;
        self.code.store(element, self.code.add(address, offset)?, SHARED)
    }

    /// An element as it is held in memory, and its bytes: booleans are bytes.
    pub fn in_memory(&self, element: Value<'c>) -> Built<(Value<'c>, i64)> {
        match element {
            Value::IntValue(v) if v.get_type().get_bit_width() == 1 => Ok((self.code.resize(v, 8)?.into(), 1)),
            Value::IntValue(v) => Ok((element, i64::from(v.get_type().get_bit_width() / 8))),
            Value::FloatValue(v) => Ok((element, i64::from(v.get_type().get_bit_width() / 8))),
            _ => Err(BuildError::Llvm("only numbers are stored".into())),
        }
    }
}
