//! The buffers of a run: elements by their index, and who wrote what.

use std::collections::BTreeMap;

use fusewright_abi::{DType, ParamAccess};

use super::elements::{bits_at, put_bits};
use super::{Buffer, RunError};
use crate::kernel::Kernel;

struct Bound {
    dtype: DType,
    /// The buffer that holds the memory.
    buffer: usize,
}

/// Why an element cannot be touched.
pub(super) enum Refused {
    Missing,
    WrittenBy(i64),
}

pub(super) struct Memory<'a> {
    buffers: &'a mut [Buffer],
    params: Vec<Bound>,
    /// For every buffer that is written: one more than the outer row that wrote each element, or [`NOBODY`].
    writers: BTreeMap<usize, Vec<u32>>,
}

const NOBODY: u32 = 0;

/// An outer row as a writer; rows that do not fit are one.
fn mark(row: i64) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX).saturating_add(1)
}

impl<'a> Memory<'a> {
    pub(super) fn new(kernel: &Kernel, buffers: &'a mut [Buffer]) -> Result<Self, RunError> {
        let mut params = Vec::with_capacity(kernel.params.len());
        for (i, param) in kernel.params.iter().enumerate() {
            let refuse = |message: &str| RunError::Buffer { param: param.name.clone(), message: message.to_owned() };
            let buffer = match buffers.get(i) {
                Some(Buffer::Same(other)) => *other,
                Some(_) => i,
                None => return Err(refuse("has no buffer")),
            };
            if !matches!(buffers.get(buffer), Some(Buffer::Bytes(_))) {
                return Err(refuse("shares the memory of a parameter that has none of its own"));
            }
            if kernel.params.get(buffer).is_none_or(|other| other.dtype != param.dtype) {
                return Err(refuse("shares the memory of another dtype"));
            }
            params.push(Bound { dtype: param.dtype, buffer });
        }
        let mut memory = Memory { buffers, params, writers: BTreeMap::new() };
        for (i, param) in kernel.params.iter().enumerate() {
            if param.access != ParamAccess::In {
                memory.track(memory.params[i].buffer, param.dtype);
            }
        }
        Ok(memory)
    }

    fn track(&mut self, buffer: usize, dtype: DType) {
        let elements = self.buffers[buffer].bytes().len() * 8 / dtype.bits() as usize;
        self.writers.entry(buffer).or_insert_with(|| vec![NOBODY; elements]);
    }

    /// Whether the kernel writes a parameter's memory.
    pub(super) fn is_written(&self, param: usize) -> bool {
        self.writers.contains_key(&self.params[param].buffer)
    }

    /// The bits of an element, as outer row `row` reads them.
    pub(super) fn load(&self, param: usize, index: i64, row: i64) -> Result<u64, Refused> {
        let Bound { dtype, buffer } = self.params[param];
        let element = usize::try_from(index).map_err(|_| Refused::Missing)?;
        let bits = bits_at(dtype, self.buffers[buffer].bytes(), element).ok_or(Refused::Missing)?;
        if let Some(writers) = self.writers.get(&buffer) {
            let writer = writers.get(element).copied().unwrap_or(NOBODY);
            if writer != NOBODY && writer != mark(row) {
                return Err(Refused::WrittenBy(i64::from(writer) - 1));
            }
        }
        Ok(bits)
    }

    /// Writes an element for outer row `row`; a place that was `chosen` may have been written before.
    pub(super) fn store(&mut self, param: usize, index: i64, bits: u64, row: i64, chosen: bool) -> Result<(), Refused> {
        let Bound { dtype, buffer } = self.params[param];
        let element = usize::try_from(index).map_err(|_| Refused::Missing)?;
        let Buffer::Bytes(bytes) = &mut self.buffers[buffer] else { return Err(Refused::Missing) };
        if !put_bits(dtype, bytes, element, bits) {
            return Err(Refused::Missing);
        }
        let place = self.writers.get_mut(&buffer).and_then(|writers| writers.get_mut(element));
        let writer = std::mem::replace(place.ok_or(Refused::Missing)?, mark(row));
        if writer == NOBODY || chosen { Ok(()) } else { Err(Refused::WrittenBy(i64::from(writer) - 1)) }
    }
}
