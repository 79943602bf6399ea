//! The host recorder: launches of kernels on the host, and calls of functions, as a list that is replayed.
//!
//! It does for the host what graphs do for a device, with the same rules: work goes to buffers that are named when it is
//! recorded and lie where they lie, a launch writes nothing that it is given twice, and a graph holds no other.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Cost, Recorder};
use crate::{Arg, DeviceFailure, Module, RuntimeError};

/// Memory of a [`HostStream`], for as long as that lives. Cloning gives another handle of the same.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostBuffer {
    at: usize,
    bytes: usize,
    stream: u64,
}

impl HostBuffer {
    /// All of it.
    pub fn span(&self) -> HostSpan {
        self.part(0..self.bytes)
    }

    /// Some of its bytes; a launch on bytes that it has not is refused.
    pub fn part(&self, range: Range<usize>) -> HostSpan {
        HostSpan { buffer: self.clone(), range }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// Bytes of a buffer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostSpan {
    buffer: HostBuffer,
    range: Range<usize>,
}

/// A buffer argument of a launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostArg {
    /// Memory that the kernel reads.
    In(HostSpan),
    /// Memory that the kernel writes, or reads and writes in place.
    Out(HostSpan),
    /// The memory of the argument of that index, which is a [`HostArg::Out`].
    Same(usize),
}

/// A launch of a kernel.
#[derive(Clone, Debug)]
pub struct HostLaunch {
    /// The kernel.
    pub module: Arc<dyn Module>,
    /// Buffers, in the order of its parameters.
    pub args: Vec<HostArg>,
    /// Integers, in the order of its dims.
    pub dims: Vec<i64>,
    /// Rows.
    pub rows: usize,
    /// Most threads that it runs on.
    pub threads: usize,
}

/// Bytes that others have too and that nothing writes, such as weights.
type Shared = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A function of the memory.
type Call<E> = Arc<dyn Fn(&mut HostMemory) -> Result<(), E> + Send + Sync>;

enum Slot {
    Own(Vec<u8>),
    Shared(Shared),
}

/// The buffers of a stream. One of another stream has no bytes here.
pub struct HostMemory {
    stream: u64,
    slots: Vec<Slot>,
}

impl HostMemory {
    /// The bytes of a buffer.
    pub fn bytes(&self, buffer: &HostBuffer) -> &[u8] {
        match self.slots.get(buffer.at).filter(|_| buffer.stream == self.stream) {
            Some(Slot::Own(bytes)) => bytes,
            Some(Slot::Shared(bytes)) => (**bytes).as_ref(),
            None => &[],
        }
    }

    /// Takes a buffer out, for a function that needs it beside others; none of those that are shared. What reads it
    /// meanwhile finds nothing there.
    pub fn take(&mut self, buffer: &HostBuffer) -> Vec<u8> {
        self.own(buffer).map_or_else(Vec::new, std::mem::take)
    }

    /// Puts back what was taken. A buffer keeps its length.
    pub fn put_back(&mut self, buffer: &HostBuffer, mut bytes: Vec<u8>) {
        if let Some(own) = self.own(buffer) {
            bytes.resize(buffer.bytes, 0);
            *own = bytes;
        }
    }

    /// The bytes of a buffer, to be written; none of those that are shared.
    pub fn bytes_mut(&mut self, buffer: &HostBuffer) -> &mut [u8] {
        self.own(buffer).map_or(&mut [], Vec::as_mut_slice)
    }

    fn own(&mut self, buffer: &HostBuffer) -> Option<&mut Vec<u8>> {
        match self.slots.get_mut(buffer.at).filter(|_| buffer.stream == self.stream) {
            Some(Slot::Own(bytes)) => Some(bytes),
            _ => None,
        }
    }

    fn launch(&mut self, launch: &HostLaunch) -> Result<(), RuntimeError> {
        let written = |arg: &HostArg| if let HostArg::Out(span) = arg { Some(span.clone()) } else { None };
        let written: Vec<HostSpan> = launch.args.iter().filter_map(written).collect();
        let mut taken: Vec<Vec<u8>> = written.iter().map(|span| self.take(&span.buffer)).collect();
        let mut outs = taken.iter_mut();
        let mut args: Vec<Arg<'_>> = Vec::with_capacity(launch.args.len());
        for arg in &launch.args {
            args.push(match arg {
                HostArg::In(span) => Arg::In(&self.bytes(&span.buffer)[span.range.clone()]),
                HostArg::Out(span) => match outs.next() {
                    Some(out) => Arg::Out(&mut out[span.range.clone()]),
                    None => Arg::Out(&mut []),
                },
                HostArg::Same(other) => Arg::Same(*other),
            });
        }
        let launched = launch.module.launch(&mut args, &launch.dims, launch.rows, launch.threads);
        for (span, bytes) in written.iter().zip(taken) {
            self.put_back(&span.buffer, bytes);
        }
        launched
    }
}

/// One thing that is enqueued.
enum Op<E> {
    Launch(HostLaunch),
    Call(Call<E>),
}

impl<E: From<RuntimeError>> Op<E> {
    fn run(&self, memory: &mut HostMemory) -> Result<(), E> {
        match self {
            Op::Launch(launch) => memory.launch(launch).map_err(E::from),
            Op::Call(call) => call(memory),
        }
    }

    fn bytes(&self) -> usize {
        let own = match self {
            Op::Launch(launch) => size_of_val(launch.args.as_slice()) + size_of_val(launch.dims.as_slice()),
            Op::Call(call) => size_of_val(&**call),
        };
        size_of::<Self>() + own
    }
}

/// Where work of the host is enqueued: it runs at once, or is recorded. It belongs to one thread at a time.
pub struct HostStream<E = RuntimeError> {
    /// Tells buffers of one stream from those of another.
    number: u64,
    inner: RefCell<Inner<E>>,
}

struct Inner<E> {
    memory: HostMemory,
    recording: Option<Vec<Op<E>>>,
}

/// What was recorded. It can be replayed by the recorder that recorded it.
pub struct HostGraph<E = RuntimeError> {
    ops: Vec<Op<E>>,
    stream: u64,
}

impl<E> fmt::Debug for HostStream<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostStream({})", self.number)
    }
}

impl<E> fmt::Debug for HostGraph<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostGraph({} nodes)", self.ops.len())
    }
}

impl<E: From<RuntimeError>> Default for HostStream<E> {
    fn default() -> Self {
        HostStream::new()
    }
}

impl<E: From<RuntimeError>> HostStream<E> {
    /// A stream without memory.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let memory = HostMemory { stream: number, slots: Vec::new() };
        HostStream { number, inner: RefCell::new(Inner { memory, recording: None }) }
    }

    /// Memory of these bytes.
    pub fn buffer(&self, bytes: Vec<u8>) -> HostBuffer {
        let length = bytes.len();
        self.add(Slot::Own(bytes), length)
    }

    /// Bytes that others have too, which nothing writes here.
    pub fn shared(&self, bytes: Shared) -> HostBuffer {
        let length = (*bytes).as_ref().len();
        self.add(Slot::Shared(bytes), length)
    }

    fn add(&self, slot: Slot, bytes: usize) -> HostBuffer {
        let slots = &mut self.inner.borrow_mut().memory.slots;
        slots.push(slot);
        HostBuffer { at: slots.len() - 1, bytes, stream: self.number }
    }

    /// Launches a kernel.
    ///
    /// # Errors
    /// Bytes that a buffer has not; memory of another stream, or that is written and given twice, or that is shared and
    /// written; what the launch fails with.
    pub fn launch(&self, launch: HostLaunch) -> Result<(), E> {
        self.check(&launch.args)?;
        self.enqueue(Op::Launch(launch))
    }

    /// Calls a function of the memory.
    ///
    /// # Errors
    /// What it fails with.
    pub fn call(&self, call: impl Fn(&mut HostMemory) -> Result<(), E> + Send + Sync + 'static) -> Result<(), E> {
        self.enqueue(Op::Call(Arc::new(call)))
    }

    /// The memory, now; not while something is recorded, which has not run yet.
    ///
    /// # Errors
    /// A stream that is being recorded; what `with` fails with.
    pub fn with_memory<T>(&self, with: impl FnOnce(&mut HostMemory) -> Result<T, E>) -> Result<T, E> {
        let mut inner = self.inner.borrow_mut();
        if inner.recording.is_some() {
            return Err(refused("the stream is being recorded: its memory is not yet what it will be").into());
        }
        with(&mut inner.memory)
    }

    fn enqueue(&self, op: Op<E>) -> Result<(), E> {
        let Inner { memory, recording } = &mut *self.inner.borrow_mut();
        match recording {
            Some(ops) => ops.push(op),
            None => op.run(memory)?,
        }
        Ok(())
    }

    fn check(&self, args: &[HostArg]) -> Result<(), E> {
        let inner = self.inner.borrow();
        let mut spans: Vec<(&HostSpan, bool)> = Vec::with_capacity(args.len());
        for arg in args {
            let (span, written) = match arg {
                HostArg::In(span) => (span, false),
                HostArg::Out(span) => (span, true),
                HostArg::Same(_) => continue,
            };
            let HostSpan { buffer, range } = span;
            if buffer.stream != self.number {
                return Err(refused("a buffer is of another stream").into());
            }
            if range.start > range.end || range.end > buffer.bytes {
                let said = format!("bytes {}..{} of a buffer of {}", range.start, range.end, buffer.bytes);
                return Err(refused(&said).into());
            }
            if written && matches!(inner.memory.slots[buffer.at], Slot::Shared(_)) {
                return Err(refused("a buffer is shared with others, and is to be written").into());
            }
            if spans.iter().any(|(other, other_written)| other.buffer == *buffer && (written || *other_written)) {
                return Err(refused("a buffer is written and given twice").into());
            }
            spans.push((span, written));
        }
        Ok(())
    }
}

/// A launch that makes no sense.
fn refused(reason: &str) -> RuntimeError {
    let (action, failure) = ("enqueuing work of the host", DeviceFailure::Refused);
    RuntimeError::Device { action, failure, reason: reason.to_owned() }
}

/// Records work of the host.
#[derive(Debug)]
pub struct HostRecorder<E = RuntimeError> {
    stream: HostStream<E>,
}

impl<E: From<RuntimeError>> HostRecorder<E> {
    /// A recorder with a stream of its own.
    pub fn new() -> Self {
        HostRecorder { stream: HostStream::new() }
    }
}

impl<E: From<RuntimeError>> Default for HostRecorder<E> {
    fn default() -> Self {
        HostRecorder::new()
    }
}

/// Ends a recording, also if what was to enqueue panics.
struct Recording<'s, E> {
    stream: &'s HostStream<E>,
}

impl<E> Drop for Recording<'_, E> {
    fn drop(&mut self) {
        self.stream.inner.borrow_mut().recording = None;
    }
}

impl<E: From<RuntimeError>> Recorder for HostRecorder<E> {
    type Buffer = HostBuffer;
    type Stream = HostStream<E>;
    type Graph = HostGraph<E>;
    type Error = E;

    fn buffer(&self, bytes: usize) -> Result<HostBuffer, E> {
        let mut own = Vec::new();
        let failed = |_| RuntimeError::Device {
            action: "allocating memory",
            failure: DeviceFailure::Memory,
            reason: format!("no {bytes} bytes are free"),
        };
        own.try_reserve_exact(bytes).map_err(failed)?;
        own.resize(bytes, 0);
        Ok(self.stream.buffer(own))
    }

    fn stream(&self) -> &HostStream<E> {
        &self.stream
    }

    fn record<F: From<E>>(
        &mut self,
        enqueue: impl FnOnce(&HostStream<E>) -> Result<(), F>,
    ) -> Result<(HostGraph<E>, Cost), F> {
        let recording = Recording { stream: &self.stream };
        self.stream.inner.borrow_mut().recording = Some(Vec::new());
        enqueue(&self.stream)?;
        let ops = self.stream.inner.borrow_mut().recording.take().unwrap_or_default();
        drop(recording);
        let cost = Cost { nodes: ops.len(), bytes: ops.iter().map(Op::bytes).sum() };
        Ok((HostGraph { ops, stream: self.stream.number }, cost))
    }

    fn replay(&self, graph: &HostGraph<E>) -> Result<(), E> {
        let Inner { memory, recording } = &mut *self.stream.inner.borrow_mut();
        if recording.is_some() {
            return Err(refused("a graph holds no graphs").into());
        }
        if graph.stream != self.stream.number {
            return Err(refused("the graph is of another stream").into());
        }
        graph.ops.iter().try_for_each(|op| op.run(memory))
    }
}
