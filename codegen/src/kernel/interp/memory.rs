//! The buffers of a run: element addresses of every source, and who wrote what.

use std::collections::BTreeMap;

use fusewright_abi::{DType, ParamAccess};
use fusewright_graph::dim;

use super::elements::{bits_at, put_bits};
use super::machine::eval;
use super::{Buffer, RunError};
use crate::kernel::{Kernel, Source};

/// How a parameter's elements lie in its buffer.
enum Place {
    Memory,
    /// Result columns, first column and width of the tile.
    Tile(i64, i64, i64),
    /// Elements of one rank.
    Peer(i64),
}

struct Bound {
    dtype: DType,
    /// The buffer that holds the memory.
    buffer: usize,
    place: Place,
}

/// Why an element cannot be touched.
pub(super) enum Refused {
    Missing,
    WrittenBy(i64),
}

pub(super) struct Memory<'a> {
    buffers: &'a mut [Buffer],
    params: Vec<Bound>,
    /// For every buffer and rank that is written: one more than the outer row that wrote each element, or [`NOBODY`].
    writers: BTreeMap<(usize, usize), Vec<u32>>,
}

const NOBODY: u32 = 0;

/// An outer row as a writer; rows that do not fit are one.
fn mark(row: i64) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX).saturating_add(1)
}

impl<'a> Memory<'a> {
    pub(super) fn new(
        kernel: &Kernel,
        buffers: &'a mut [Buffer],
        dims: &BTreeMap<String, i64>,
    ) -> Result<Self, RunError> {
        let mut params = Vec::with_capacity(kernel.params.len());
        for (i, param) in kernel.params.iter().enumerate() {
            let refuse = |message: &str| RunError::Buffer { param: param.name.clone(), message: message.to_owned() };
            let buffer = match buffers.get(i) {
                Some(Buffer::Same(other)) => *other,
                Some(_) => i,
                None => return Err(refuse("has no buffer")),
            };
            let place = format!("param %{}", param.name);
            let (memory, place) = match &param.source {
                Source::Memory => (matches!(buffers.get(buffer), Some(Buffer::Bytes(_))), Place::Memory),
                Source::Producer { column, width, .. } => {
                    let columns = param.shape.last().map_or(Ok(1), |last| eval(last, dims, &place))?;
                    let tile = Place::Tile(columns, eval(column, dims, &place)?, eval(width, dims, &place)?);
                    (matches!(buffers.get(buffer), Some(Buffer::Bytes(_))), tile)
                }
                Source::Peer { ranks } => {
                    let ranks = eval(ranks, dims, &place)?;
                    let own = matches!(&buffers[i], Buffer::Peers(all) if i64::try_from(all.len()) == Ok(ranks));
                    (own, Place::Peer(eval(&dim::product(&param.shape), dims, &place)?))
                }
            };
            if !memory {
                return Err(refuse("its buffer is of the wrong kind, or there is not one per rank"));
            }
            if kernel.params.get(buffer).is_none_or(|other| other.dtype != param.dtype) {
                return Err(refuse("shares the memory of another dtype"));
            }
            params.push(Bound { dtype: param.dtype, buffer, place });
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
        let lengths: Vec<usize> = match &self.buffers[buffer] {
            Buffer::Bytes(bytes) => vec![bytes.len()],
            Buffer::Peers(all) => all.iter().map(Vec::len).collect(),
            Buffer::Same(_) => Vec::new(),
        };
        for (rank, length) in lengths.into_iter().enumerate() {
            self.writers.entry((buffer, rank)).or_insert_with(|| vec![NOBODY; length * 8 / dtype.bits() as usize]);
        }
    }

    /// Whether the kernel writes a parameter's memory.
    pub(super) fn is_written(&self, param: usize) -> bool {
        self.writers.contains_key(&(self.params[param].buffer, 0))
    }

    /// Buffer, rank and element of an index.
    fn locate(&self, param: usize, index: i64) -> Option<(usize, usize, usize)> {
        let bound = &self.params[param];
        let (rank, element) = match bound.place {
            Place::Memory => (0, index),
            Place::Tile(columns, first, width) => {
                let column = index.checked_rem_euclid(columns)?.checked_sub(first)?;
                let row = index.checked_div_euclid(columns)?;
                (0, (0..width).contains(&column).then(|| row.checked_mul(width)?.checked_add(column))??)
            }
            Place::Peer(elements) => (index.checked_div_euclid(elements)?, index.checked_rem_euclid(elements)?),
        };
        Some((bound.buffer, usize::try_from(rank).ok()?, usize::try_from(element).ok()?))
    }

    /// The bits of an element, as outer row `row` reads them.
    pub(super) fn load(&self, param: usize, index: i64, row: i64) -> Result<u64, Refused> {
        let (buffer, rank, element) = self.locate(param, index).ok_or(Refused::Missing)?;
        let dtype = self.params[param].dtype;
        let bytes = match &self.buffers[buffer] {
            Buffer::Bytes(bytes) => bytes,
            Buffer::Peers(all) => all.get(rank).ok_or(Refused::Missing)?,
            Buffer::Same(_) => return Err(Refused::Missing),
        };
        let bits = bits_at(dtype, bytes, element).ok_or(Refused::Missing)?;
        if let Some(writers) = self.writers.get(&(buffer, rank)) {
            let writer = writers.get(element).copied().unwrap_or(NOBODY);
            if writer != NOBODY && writer != mark(row) {
                return Err(Refused::WrittenBy(i64::from(writer) - 1));
            }
        }
        Ok(bits)
    }

    /// Writes an element for outer row `row`; a place that was `chosen` may have been written before.
    pub(super) fn store(&mut self, param: usize, index: i64, bits: u64, row: i64, chosen: bool) -> Result<(), Refused> {
        let (buffer, rank, element) = self.locate(param, index).ok_or(Refused::Missing)?;
        let dtype = self.params[param].dtype;
        let bytes = match &mut self.buffers[buffer] {
            Buffer::Bytes(bytes) => bytes,
            Buffer::Peers(all) => all.get_mut(rank).ok_or(Refused::Missing)?,
            Buffer::Same(_) => return Err(Refused::Missing),
        };
        if !put_bits(dtype, bytes, element, bits) {
            return Err(Refused::Missing);
        }
        let place = self.writers.get_mut(&(buffer, rank)).and_then(|writers| writers.get_mut(element));
        let writer = std::mem::replace(place.ok_or(Refused::Missing)?, mark(row));
        if writer == NOBODY || chosen { Ok(()) } else { Err(Refused::WrittenBy(i64::from(writer) - 1)) }
    }
}
