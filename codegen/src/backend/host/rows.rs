//! The segments that a kernel for CPUs consists of, and which of its rows each of them runs over.

use fusewright_graph::Dim;

use super::{Forms, abreast, filled};
use crate::kernel::{Kernel, Segment};

/// The rows of a call that a segment runs over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in crate::backend) enum Rows {
    All,
    /// Those ahead of one.
    Before(Dim),
    /// That one and those behind it.
    From(Dim),
    /// As many times [`abreast::ROWS`] from the first on as there are.
    Blocks,
    /// Those behind the blocks.
    BehindBlocks,
}

/// The kernel in the segments that run, the kernel's own first, and the rows of each. `looked_up` says of which of its own
/// segments tables hold values: these stay as they are.
pub(in crate::backend) fn split(
    kernel: &Kernel,
    looked_up: impl Fn(usize) -> bool,
    forms: &dyn Forms,
) -> (Kernel, Vec<Rows>) {
    let (mut kernel, mut rows) = filled::split(kernel);
    let short = |(number, segment): (usize, &Segment)| {
        let all = rows[number] == Rows::All && !looked_up(number);
        all.then(|| Some((number, abreast::abreast(&kernel, segment, forms)?))).flatten()
    };
    let blocks: Vec<(usize, Segment)> = kernel.segments.iter().enumerate().filter_map(short).collect();
    for (number, segment) in blocks {
        rows[number] = Rows::BehindBlocks;
        rows.push(Rows::Blocks);
        kernel.segments.push(segment);
    }
    (kernel, rows)
}
