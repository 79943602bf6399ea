//! Where the buffers of a plan lie in one memory of the device.
//!
//! A plan has values whose lives do not overlap share a buffer; here the buffers lie behind each other, and behind them what
//! lives for one step alone, which the next steps overwrite.

use crate::program::plan::Buffer;

/// What every buffer's place is a multiple of, so that all vectors and matrices are aligned.
pub(super) const ALIGNMENT: usize = 256;

/// The memory of one plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Arena {
    /// Places of the plan's buffers.
    pub places: Vec<usize>,
    /// Where the scratch memory begins.
    scratch: usize,
    /// Bytes that the current step has of it.
    used: usize,
    /// The most that any step has.
    most: usize,
}

impl Arena {
    /// With the buffers of a plan. Sizes that a device does not have are left to the driver to refuse.
    pub fn of(buffers: &[Buffer]) -> Arena {
        let mut end = 0usize;
        let mut place = |buffer: &Buffer| {
            let start = end;
            end = aligned(end.saturating_add(buffer.bytes));
            start
        };
        let places = buffers.iter().map(&mut place).collect();
        Arena { places, scratch: end, used: 0, most: 0 }
    }

    /// Memory for the whole call behind the buffers, before any step has taken scratch memory.
    pub fn keep(&mut self, bytes: usize) -> usize {
        let start = self.scratch;
        self.scratch = aligned(start.saturating_add(bytes));
        start
    }

    /// Begins another step: what the steps before it had as scratch memory is free.
    pub fn next_step(&mut self) {
        self.used = 0;
    }

    /// Memory for the current step alone.
    pub fn take(&mut self, bytes: usize) -> usize {
        let start = self.scratch.saturating_add(self.used);
        self.used = aligned(self.used.saturating_add(bytes));
        self.most = self.most.max(self.used);
        start
    }

    /// Where the memory begins that steps have for themselves alone.
    pub fn scratch(&self) -> usize {
        self.scratch
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.scratch.saturating_add(self.most)
    }
}

/// The next place that buffers may have.
pub(super) fn aligned(place: usize) -> usize {
    place.checked_next_multiple_of(ALIGNMENT).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use fusewright_abi::DType;

    use super::*;

    #[test]
    fn buffers_are_aligned_and_scratch_memory_is_used_again() {
        let buffer = |bytes| Buffer { bytes, largest: (DType::U8, vec![bytes]) };
        let mut arena = Arena::of(&[buffer(1), buffer(0), buffer(256), buffer(300)]);
        assert_eq!((arena.places.as_slice(), arena.bytes()), ([0, 256, 256, 512].as_slice(), 1024));
        assert_eq!((arena.keep(10), arena.bytes()), (1024, 1280));
        assert_eq!([arena.take(5), arena.take(600)], [1280, 1536]);
        arena.next_step();
        assert_eq!((arena.take(100), arena.bytes()), (1280, 1280 + 256 + 768));
    }
}
