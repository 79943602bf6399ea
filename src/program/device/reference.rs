//! Steps that no device has code for: the host carries them out on copies of their operands. The device is waited for, so
//! that such a step is listed wherever a program is explained.

use std::collections::BTreeMap;

use bytes::Bytes;
use fusewright_graph::Value;

use super::hardware::Hardware;
use crate::Error;
use crate::host::zeroed;
use crate::program::argument::UserMemory;
use crate::program::in_place::Placement;
use crate::program::plan::{Buffer, Place, Plan, Slot};
use crate::program::step::{Memory, Step, Work};
use crate::program::strided::Strided;

/// A step on the host, and where its operands and results lie on the device.
#[derive(Debug)]
pub(super) struct HostStep<B> {
    step: Step,
    /// Operands and results in row-major order, in memory of the host.
    plan: Plan,
    operands: Vec<Operand<B>>,
    results: Vec<Elements<B>>,
}

/// Where the elements of an operand are.
#[derive(Debug)]
enum Operand<B> {
    /// In a weight, of which the host has the bytes.
    Here(Bytes, Slot),
    There(Elements<B>),
}

/// Elements in memory of the device.
#[derive(Debug)]
struct Elements<B> {
    buffer: B,
    bytes: usize,
    slot: Slot,
}

impl<B: Clone> HostStep<B> {
    /// A step of a plan; `memory` gives a part of a place on the device: bytes from a byte on.
    ///
    /// # Errors
    /// Values that were not planned; weights without data.
    pub fn new(
        step: &Step,
        plan: &Plan,
        weights: &[Option<Bytes>],
        memory: impl Fn(Place, usize, usize) -> Result<B, Error>,
    ) -> Result<HostStep<B>, Error> {
        let elements = |slot: &Slot| -> Result<Elements<B>, Error> {
            let (slot, start, bytes) = covered(slot)?;
            Ok(Elements { buffer: memory(slot.place, start, bytes)?, bytes, slot })
        };
        let mut slots = vec![None; plan.slots.len()];
        let mut operands = Vec::with_capacity(step.inputs.len());
        let mut copies = BTreeMap::new();
        for &value in &step.inputs {
            let source = match (&step.work, plan.copies.get(&step.outputs[0])) {
                (Work::Copy(_), Some(source)) => source,
                _ => plan.get(value)?,
            };
            let place = Place::User(operands.len());
            operands.push(match source.place {
                Place::Weight(weight) => {
                    let bytes = weights[weight].clone();
                    let bytes = bytes.ok_or_else(|| Error::Internal(format!("weight {weight} has no data")))?;
                    Operand::Here(bytes, source.clone())
                }
                _ => Operand::There(elements(source)?),
            });
            set(&mut slots, value, row_major(source, place));
            if matches!(step.work, Work::Copy(_)) {
                copies.insert(step.outputs[0], row_major(source, place));
            }
        }
        let (mut results, mut buffers) = (Vec::with_capacity(step.outputs.len()), Vec::new());
        for &value in &step.outputs {
            let slot = plan.get(value)?;
            results.push(elements(slot)?);
            set(&mut slots, value, row_major(slot, Place::Buffer(buffers.len())));
            buffers.push(Buffer { bytes: slot.bytes, largest: (slot.dtype, slot.shape.clone()) });
        }
        let plan = Plan {
            binding: plan.binding.clone(),
            slots,
            copies,
            buffers,
            constants: Vec::new(),
            landings: Vec::new(),
            placement: Placement::default(),
            overwrites: Vec::new(),
        };
        Ok(HostStep { step: step.clone(), plan, operands, results })
    }

    /// Carries the step out, once what was enqueued before is done.
    ///
    /// # Errors
    /// A device that was lost; what the step fails with, naming it.
    pub fn run<H: Hardware<Buffer = B>>(&self, hardware: &H, stream: &H::Stream) -> Result<(), Error> {
        let mut tensors = Vec::with_capacity(self.operands.len());
        for operand in &self.operands {
            tensors.push(match operand {
                Operand::Here(bytes, slot) => slot.strided.gather(slot.dtype.bits(), bytes)?,
                Operand::There(Elements { buffer, bytes, slot }) => {
                    let mut memory = zeroed(*bytes)?;
                    hardware.download(stream, buffer, &mut memory)?;
                    slot.strided.gather(slot.dtype.bits(), &memory)?
                }
            });
        }
        let buffers = self.plan.buffers.iter().map(|buffer| zeroed(buffer.bytes));
        let mut buffers: Vec<Vec<u8>> = buffers.collect::<Result<_, _>>()?;
        let mut memory = Memory {
            users: tensors.iter().map(|bytes| UserMemory::Read(bytes)).collect(),
            weights: &[],
            inputs: &[],
            buffers: &mut buffers,
            constants: &[],
            threads: 1,
            guarded: false,
        };
        self.step.run(&self.plan, &mut memory)?;
        for (Elements { buffer, bytes, slot }, elements) in self.results.iter().zip(&buffers) {
            let mut memory = zeroed(*bytes)?;
            slot.strided.scatter(slot.dtype.bits(), &elements[..slot.bytes], &mut memory);
            hardware.upload(stream, buffer, &memory)?;
        }
        Ok(())
    }
}

fn set(slots: &mut [Option<Slot>], value: Value, slot: Slot) {
    if let Some(there) = slots.get_mut(value.0 as usize) {
        *there = Some(slot);
    }
}

/// The same elements in row-major order in another place.
fn row_major(slot: &Slot, place: Place) -> Slot {
    Slot { place, strided: Strided::contiguous(&slot.shape), ..slot.clone() }
}

/// The bytes of its place that a slot covers, where they begin, and the slot counted from there.
fn covered(slot: &Slot) -> Result<(Slot, usize, usize), Error> {
    let end = slot.strided.end().ok_or_else(|| Error::Internal("a view leaves the address space".to_owned()))?;
    let bits = slot.dtype.bits() as usize;
    // Whole bytes, where elements are parts of them.
    let per_byte = (8 / bits).max(1);
    let first = if end == 0 { 0 } else { slot.strided.offset / per_byte * per_byte };
    let (start, bytes) = (first * bits / 8, ((end - first) * bits).div_ceil(8));
    let strided = Strided { offset: slot.strided.offset.saturating_sub(first), ..slot.strided.clone() };
    Ok((Slot { strided, ..slot.clone() }, start, bytes))
}
