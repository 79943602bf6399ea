//! Launches as the driver takes them: which blocks they have, and what they are given.

use std::ffi::c_void;

use fusewright_cuda_sys as sys;

use super::api::{Api, Failure};

/// Most blocks of a launch along its first axis.
const MOST_BLOCKS: usize = i32::MAX as usize;

/// Rows of one launch, and its blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    pub rows: [i64; 2],
    pub blocks: u32,
    /// Whether it is run by the code for many rows.
    pub many: bool,
}

/// Blocks of each row, and how many of them share one of threads.
#[derive(Clone, Copy)]
pub(super) struct Blocks {
    pub per_row: usize,
    pub shares: usize,
}

/// The launches of rows of such blocks, or from a number of rows on of others.
pub(super) fn ranges(
    few: Blocks,
    many: Option<(usize, Blocks)>,
    rows: usize,
    at_once: bool,
) -> impl Iterator<Item = Range> + use<> {
    let most = many.map_or(few.per_row, |(_, many)| few.per_row.max(many.per_row));
    let together = match rows.checked_mul(most) {
        _ if !at_once => 1,
        Some(blocks) if blocks <= MOST_BLOCKS => rows,
        _ => (MOST_BLOCKS / most.max(1)).max(1),
    };
    let rows = if few.per_row == 0 { 0 } else { rows };
    let mut next = 0;
    std::iter::from_fn(move || {
        let begin = next;
        if begin == rows {
            return None;
        }
        let end = (begin + together).min(rows);
        next = end;
        let many = many.filter(|(from, _)| end - begin >= *from);
        let Blocks { per_row, shares } = many.map_or(few, |(_, many)| many);
        let blocks = ((end - begin) * per_row).div_ceil(shares);
        Some(Range { rows: [begin as i64, end as i64], blocks: blocks as u32, many: many.is_some() })
    })
}

/// The shape of a launch on a stream.
pub(super) fn config(blocks: u32, threads: u32, shared: u32, stream: sys::CUstream) -> sys::CUlaunchConfig {
    sys::CUlaunchConfig {
        gridDimX: blocks,
        gridDimY: 1,
        gridDimZ: 1,
        blockDimX: threads,
        blockDimY: 1,
        blockDimZ: 1,
        sharedMemBytes: shared,
        hStream: stream,
        attrs: std::ptr::null_mut(),
        numAttrs: 0,
    }
}

/// The addresses of the arguments of a launch: buffers and integers, then the range.
pub(super) fn pointers(values: &[u64], range: &[i64; 2]) -> Vec<*mut c_void> {
    let values = values.iter().map(|value| std::ptr::from_ref(value).cast_mut().cast::<c_void>());
    values.chain(range.iter().map(|value| std::ptr::from_ref(value).cast_mut().cast::<c_void>())).collect()
}

/// What lets a launch begin while what precedes it on the stream ends.
pub(super) fn overlapping() -> sys::CUlaunchAttribute {
    let mut attribute = sys::CUlaunchAttribute {
        id: sys::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { pad: [0; 64] },
    };
    attribute.value.programmaticStreamSerializationAllowed = 1;
    attribute
}

/// Enqueues a launch.
///
/// # Safety
/// The arguments are those of the kernel, in number, order and width, and its buffers as large as they say; the addresses
/// are valid through the call, as is the stream; and the context is current.
pub(super) unsafe fn launch(
    api: &Api,
    config: &sys::CUlaunchConfig,
    function: sys::CUfunction,
    arguments: *const *mut c_void,
) -> Result<(), Failure> {
    // SAFETY: as the caller says. The driver writes none of the arguments.
    let status = unsafe { api.driver.cuLaunchKernelEx(config, function, arguments.cast_mut(), std::ptr::null_mut()) };
    api.said("cuLaunchKernelEx", status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_launched_together_as_far_as_blocks_go() {
        let all = |few, many, rows, at_once| ranges(few, many, rows, at_once).collect::<Vec<Range>>();
        let range = |begin, end, blocks| Range { rows: [begin, end], blocks, many: false };
        let blocks = |per_row, shares| Blocks { per_row, shares };
        assert_eq!(all(blocks(3, 1), None, 5, true), [range(0, 5, 15)]);
        assert_eq!(all(blocks(3, 1), None, 2, false), [range(0, 1, 3), range(1, 2, 3)]);
        assert_eq!(all(blocks(3, 1), None, 0, true), []);
        assert_eq!(all(blocks(0, 1), None, 5, true), []);
        let half = MOST_BLOCKS / 2;
        let big = half as u32;
        assert_eq!(all(blocks(half, 1), None, 3, true), [range(0, 2, 2 * big), range(2, 3, big)]);
        // Four rows' blocks share one of threads, and the last has fewer; many rows have code of their own.
        let many = Some((8, blocks(9, 2)));
        assert_eq!(all(blocks(18, 4), many, 7, true), [range(0, 7, 32)]);
        assert_eq!(all(blocks(18, 4), many, 9, true), [Range { many: true, ..range(0, 9, 41) }]);
        // More blocks of many rows than of few: as many rows together as either code can have.
        let wide = Some((2, blocks(half, 1)));
        assert_eq!(all(blocks(1, 1), wide, 3, true), [Range { many: true, ..range(0, 2, 2 * big) }, range(2, 3, 1)]);
    }

    #[test]
    fn attributes_of_launches_are_laid_out_as_the_driver_reads_them() {
        assert_eq!(std::mem::size_of::<sys::CUlaunchAttribute>(), 72);
        assert_eq!(std::mem::offset_of!(sys::CUlaunchAttribute, value), 8);
        assert_eq!(std::mem::size_of::<sys::CUlaunchConfig>(), 56);
        assert_eq!(std::mem::offset_of!(sys::CUlaunchConfig, hStream), 32);
    }
}
