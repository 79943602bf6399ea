//! Piecewise capture: steps that are recorded once per number of rows, and replayed.
//!
//! A list of steps is split at those that cannot be recorded or that a caller names ([`split()`]). What lies between is
//! recorded as a graph, one per piece and size ([`CaptureSizes`]), when a call first needs it or beforehand; a call takes
//! the next size, and its last rows are padding. All sizes share memory ([`MemoryPool`]).
//!
//! ```text
//! steps      norm  qkv  rope │ attention │ o  norm  up  gate  down
//! pieces     graph 0         │ enqueued  │ graph 2
//! a call of 5 rows:  replay(0, of 8 rows) · attention over 5 rows · replay(2, of 8 rows)
//! ```
//!
//! What records is a [`Recorder`]: [`GraphRecorder`](crate::cuda::GraphRecorder) makes CUDA graphs, [`HostRecorder`] keeps
//! a list of launches. What the steps are is the business of [`Steps`].

mod host;
mod pieces;
mod pool;
mod sizes;
mod split;

use std::ops::Range;

use crate::RuntimeError;

pub use host::{HostArg, HostBuffer, HostGraph, HostLaunch, HostMemory, HostRecorder, HostSpan, HostStream};
pub use pieces::{CaptureReport, GraphReport, Pieces};
pub use pool::MemoryPool;
pub use sizes::{CaptureSizes, SizesError};
pub use split::{Part, Piece, split};

/// What a recorded graph costs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cost {
    /// What it enqueues: launches, copies and calls.
    pub nodes: usize,
    /// Memory that it takes, beside the buffers that it uses. On a device it is what the driver says is gone, which may be
    /// none: it gets memory in large parts.
    pub bytes: usize,
}

/// Records what is enqueued on a stream, and replays it. It belongs to one thread at a time.
pub trait Recorder {
    /// Memory that work reads and writes. Cloning gives another handle of the same.
    type Buffer: Clone;
    /// Where work is enqueued.
    type Stream;
    /// Recorded work, which keeps what it uses.
    type Graph;
    /// What goes wrong.
    type Error: From<RuntimeError>;

    /// Memory of so many bytes, which are not set.
    ///
    /// # Errors
    /// Too little memory.
    fn buffer(&self, bytes: usize) -> Result<Self::Buffer, Self::Error>;

    /// The stream, for work that is not recorded.
    fn stream(&self) -> &Self::Stream;

    /// Records what `enqueue` enqueues, which does not run. Whatever becomes of it, the stream can be used afterwards.
    ///
    /// # Errors
    /// What `enqueue` fails with; what cannot be recorded.
    fn record<E: From<Self::Error>>(
        &mut self,
        enqueue: impl FnOnce(&Self::Stream) -> Result<(), E>,
    ) -> Result<(Self::Graph, Cost), E>;

    /// Enqueues what was recorded.
    ///
    /// # Errors
    /// A driver that refuses; a step that fails where work runs at once.
    fn replay(&self, graph: &Self::Graph) -> Result<(), Self::Error>;
}

/// Steps that can be enqueued on a recorder's stream, by their numbers.
///
/// A row of a result of recorded steps must not depend on other rows, nor on how many there are: then what the last rows of
/// a size hold is nobody's concern. Steps of which that is not true are to be split off, and are enqueued with the number of
/// rows that a call has, over the same memory. Padding rows must write to nothing that outlives a call: what chooses places
/// must be told that they choose none.
pub trait Steps<R: Recorder> {
    /// Everything that the steps need at one size: what lies where in which buffers.
    type Frame;
    /// What goes wrong.
    type Error: From<R::Error>;

    /// What becomes of each step.
    fn parts(&self) -> &[Part];

    /// Bytes of each buffer that the steps need for so many rows. No two overlap; what they hold is not kept from call to
    /// call.
    ///
    /// # Errors
    /// A number of rows that the steps do not take.
    fn needs(&self, rows: usize) -> Result<Vec<usize>, Self::Error>;

    /// Gets ready for so many rows, in buffers of at least what [`Steps::needs`] said.
    ///
    /// # Errors
    /// A number of rows that the steps do not take; memory that cannot be had.
    fn frame(&self, rows: usize, buffers: &[R::Buffer], recorder: &R) -> Result<Self::Frame, Self::Error>;

    /// Enqueues some of the steps for the first `rows` rows of a frame.
    ///
    /// # Errors
    /// A step that fails, by name.
    fn enqueue(
        &self,
        frame: &Self::Frame,
        steps: Range<usize>,
        rows: usize,
        stream: &R::Stream,
    ) -> Result<(), Self::Error>;

    /// Changes when memory that graphs use beside a frame's has moved, such as weights: graphs that were recorded before
    /// are recorded anew when they are needed.
    fn generation(&self) -> u64 {
        0
    }
}
