//! What programs ask of a device: memory, and commands that are made once and enqueued again and again.

use std::fmt::Debug;
use std::sync::Arc;

use fusewright_runtime::capture::Recorder;
use fusewright_runtime::{MatMul, RuntimeError};

use crate::Error;
use crate::program::step::CompiledKernel;

/// A device as programs see it. Everything that is enqueued on a stream runs in order; only uploads, downloads and
/// what says so wait.
pub(in crate::program) trait Hardware: Debug + Send + Sync {
    /// Memory of the device; cloning gives another handle of the same.
    type Buffer: Clone + Debug + Send + Sync;
    /// What work is enqueued on.
    type Stream: Debug + Send;
    /// A command that was checked and has all that it needs.
    type Ready: Debug + Send + Sync;

    /// Records what is enqueued.
    type Recorder: Recorder<Buffer = Self::Buffer, Stream = Self::Stream, Graph: Send, Error = RuntimeError> + Send;
    /// A mark on a stream.
    type Mark;

    /// A recorder with a stream of its own.
    fn recorder(&self) -> Result<Self::Recorder, Error>;

    /// Memory of so many bytes, which are not set.
    fn allocate(&self, bytes: usize) -> Result<Self::Buffer, Error>;

    /// A part of memory.
    fn part(&self, buffer: &Self::Buffer, start: usize, bytes: usize) -> Result<Self::Buffer, Error>;

    /// Copies bytes to memory and waits for it.
    fn upload(&self, stream: &Self::Stream, to: &Self::Buffer, from: &[u8]) -> Result<(), Error>;

    /// Copies bytes from the beginning of memory, once what was enqueued before is done.
    fn download(&self, stream: &Self::Stream, from: &Self::Buffer, to: &mut [u8]) -> Result<(), Error>;

    /// Checks a command and makes what it needs.
    fn prepare(&self, order: Order<'_, Self::Buffer>) -> Result<Self::Ready, Error>;

    /// Has the stream do it. Nothing is allocated, and nobody waits.
    fn enqueue(&self, ready: &Self::Ready, stream: &Self::Stream) -> Result<(), Error>;

    /// Marks where a stream has come to.
    fn mark(&self, stream: &Self::Stream) -> Result<Self::Mark, Error>;

    /// Microseconds that the device has between two marks; waits for the later one.
    fn us_between(&self, from: &Self::Mark, to: &Self::Mark) -> Result<f64, Error>;

    /// Waits until all that was enqueued is done.
    fn wait(&self, stream: &Self::Stream) -> Result<(), Error>;
}

/// An argument of a launch, with its memory.
#[derive(Clone, Debug)]
pub(in crate::program) enum Arg<B> {
    In(B),
    Out(B),
    /// The memory of the argument of that index.
    Same(usize),
}

/// A command with its memory.
#[derive(Debug)]
pub(in crate::program) enum Order<'a, B> {
    /// `dependent`: the command before it is a launch too, so that this one may begin while that ends. `distinct`: the caller
    /// says that rows choose different places.
    Launch {
        kernel: &'a Arc<CompiledKernel>,
        args: Vec<Arg<B>>,
        dims: &'a [i64],
        rows: usize,
        dependent: bool,
        distinct: bool,
    },
    MatMul {
        product: &'a MatMul,
        a: B,
        b: B,
        c: B,
    },
    Copy {
        from: B,
        to: B,
    },
    Clear(B),
}
