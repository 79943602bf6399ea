//! Work that stays on a GPU: memory there, kernels launched on it, and sequences of launches that are recorded once and
//! replayed.
//!
//! Memory and kernels live as long as a recording that uses them. Launches are checked when they are recorded: replaying
//! costs one call.

use std::sync::Arc;

use fusewright_abi::{KernelArtifact, RowOrder};
use fusewright_cuda_sys as sys;

use super::api::Failure;
use super::context::{Context, Current};
use super::module::CudaModule;
use crate::RuntimeError;

/// A GPU of this machine, with a stream of its own for work that stays there. Its methods are for one thread at a time.
#[derive(Debug)]
pub struct Queue {
    context: Arc<Context>,
}

/// Memory of a GPU, given back when the last recording that uses it is gone.
#[derive(Debug)]
pub struct DeviceMemory {
    context: Arc<Context>,
    address: sys::CUdeviceptr,
    bytes: usize,
}

/// A kernel on a GPU.
#[derive(Debug)]
pub struct DeviceKernel {
    module: CudaModule,
}

/// How kernels of a recording follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Follow {
    /// Each begins when the one ahead of it is done.
    InTurn,
    /// Each may begin when the one ahead of it says so, and waits for it by itself. The first of a recording does not.
    Overlapping,
}

/// Launches in the order in which they are asked for, until [`Recorder::finish`].
#[derive(Debug)]
pub struct Recorder<'q> {
    queue: &'q Queue,
    current: Current<'q>,
    stream: Stream,
    launches: usize,
    kernels: Vec<Arc<DeviceKernel>>,
    memory: Vec<Arc<DeviceMemory>>,
}

/// Recorded launches, ready to be replayed.
#[derive(Debug)]
pub struct Recording {
    context: Arc<Context>,
    executable: sys::CUgraphExec,
    /// What the launches use.
    _kernels: Vec<Arc<DeviceKernel>>,
    _memory: Vec<Arc<DeviceMemory>>,
}

#[derive(Debug)]
struct Stream {
    context: Arc<Context>,
    raw: sys::CUstream,
}

// SAFETY: what these hold are handles and addresses, which the driver lets every thread use.
unsafe impl Send for Recording {}
// SAFETY: as above.
unsafe impl Sync for Recording {}

impl Queue {
    /// The first device of this machine.
    ///
    /// # Errors
    /// No driver, one that is too old, or no device, in words.
    pub fn first() -> Result<Queue, String> {
        Ok(Queue { context: Context::first()? })
    }

    /// What the driver calls the device.
    pub fn name(&self) -> &str {
        &self.context.name
    }

    /// Loads a kernel: PTX, which the driver compiles.
    ///
    /// # Errors
    /// An artifact of another kind, or one that the driver refuses.
    pub fn load(&self, artifact: &KernelArtifact) -> Result<Arc<DeviceKernel>, RuntimeError> {
        Ok(Arc::new(DeviceKernel { module: CudaModule::load(Arc::clone(&self.context), artifact)? }))
    }

    /// Memory of so many bytes that repeats these, or holds them if they are as many.
    ///
    /// # Errors
    /// Too little memory; a fault of an earlier kernel.
    pub fn repeated(&self, pattern: &[u8], bytes: usize) -> Result<Arc<DeviceMemory>, RuntimeError> {
        let memory = self.unset(bytes)?;
        let first = &pattern[..pattern.len().min(bytes)];
        let mut done = first.len();
        if done > 0 {
            self.call("cuMemcpyHtoDAsync", |driver, stream| {
                // SAFETY: the memory is at least of that many bytes; the source is read at the return.
                unsafe { driver.cuMemcpyHtoDAsync_v2(memory.address, first.as_ptr().cast(), first.len(), stream) }
            })?;
        }
        while done > 0 && done < bytes {
            let (to, more) = (memory.address + done as u64, done.min(bytes - done));
            // SAFETY: so many bytes are there from the start, and are free behind what is done.
            self.call("cuMemcpyDtoDAsync", |driver, stream| unsafe {
                driver.cuMemcpyDtoDAsync_v2(to, memory.address, more, stream)
            })?;
            done += more;
        }
        Ok(memory)
    }

    /// Memory of so many bytes, all of one value.
    ///
    /// # Errors
    /// As [`Queue::repeated`].
    pub fn filled(&self, bytes: usize, value: u8) -> Result<Arc<DeviceMemory>, RuntimeError> {
        let memory = self.unset(bytes)?;
        self.fill(&memory, value)?;
        Ok(memory)
    }

    /// Sets every byte.
    ///
    /// # Errors
    /// A fault of an earlier kernel.
    pub fn fill(&self, memory: &DeviceMemory, value: u8) -> Result<(), RuntimeError> {
        if memory.bytes == 0 {
            return Ok(());
        }
        // SAFETY: the memory is of that many bytes.
        self.call("cuMemsetD8Async", |driver, stream| unsafe {
            driver.cuMemsetD8Async(memory.address, value, memory.bytes, stream)
        })
    }

    /// The bytes of memory, when all that was asked for before is done.
    ///
    /// # Errors
    /// A fault of an earlier kernel.
    pub fn read(&self, memory: &DeviceMemory) -> Result<Vec<u8>, RuntimeError> {
        let mut bytes = vec![0; memory.bytes];
        if !bytes.is_empty() {
            self.call("cuMemcpyDtoHAsync", |driver, stream| {
                // SAFETY: both are of that many bytes, and the copy is waited for below.
                unsafe { driver.cuMemcpyDtoHAsync_v2(bytes.as_mut_ptr().cast(), memory.address, memory.bytes, stream) }
            })?;
        }
        self.wait()?;
        Ok(bytes)
    }

    /// Waits until all that was asked for is done.
    ///
    /// # Errors
    /// A fault of a kernel.
    pub fn wait(&self) -> Result<(), RuntimeError> {
        let current = self.context.enter().map_err(error)?;
        current.wait().map_err(error)
    }

    /// Begins to record launches.
    ///
    /// # Errors
    /// What the driver says.
    pub fn record(&self) -> Result<Recorder<'_>, RuntimeError> {
        let current = self.context.enter().map_err(error)?;
        let stream = Stream::new(&self.context).map_err(error)?;
        let api = self.context.api;
        // SAFETY: the stream is ours alone, so that nothing else is asked of it while it records.
        let status =
            unsafe { api.driver.cuStreamBeginCapture_v2(stream.raw, sys::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) };
        api.said("cuStreamBeginCapture", status).map_err(error)?;
        Ok(Recorder { queue: self, current, stream, launches: 0, kernels: Vec::new(), memory: Vec::new() })
    }

    /// Replays a recording behind what was asked for before.
    ///
    /// # Errors
    /// What the driver says.
    pub fn replay(&self, recording: &Recording) -> Result<(), RuntimeError> {
        // SAFETY: the graph is instantiated, and holds what its launches use.
        self.call("cuGraphLaunch", |driver, stream| unsafe { driver.cuGraphLaunch(recording.executable, stream) })
    }

    /// Microseconds that replays take on the device, each behind a replay of `before` if there is one, which is not counted.
    ///
    /// # Errors
    /// What the driver says; a fault of a kernel.
    pub fn time(
        &self,
        recording: &Recording,
        before: Option<&Recording>,
        times: usize,
    ) -> Result<Vec<f64>, RuntimeError> {
        let mut marks = Vec::new();
        for _ in 0..times {
            before.map_or(Ok(()), |before| self.replay(before))?;
            let start = self.mark()?;
            self.replay(recording)?;
            marks.push((start, self.mark()?));
        }
        self.wait()?;
        marks.iter().map(|(start, end)| self.between(start, end)).collect()
    }

    fn mark(&self) -> Result<Event, RuntimeError> {
        let event = Event::new(&self.context).map_err(error)?;
        // SAFETY: the event is ours, and the stream is the context's.
        self.call("cuEventRecord", |driver, stream| unsafe { driver.cuEventRecord(event.raw, stream) })?;
        Ok(event)
    }

    fn between(&self, start: &Event, end: &Event) -> Result<f64, RuntimeError> {
        let mut milliseconds = 0.0;
        // SAFETY: both are recorded and done; the function writes the time.
        self.call("cuEventElapsedTime", |driver, _| unsafe {
            driver.cuEventElapsedTime(&mut milliseconds, start.raw, end.raw)
        })?;
        Ok(f64::from(milliseconds) * 1e3)
    }

    fn unset(&self, bytes: usize) -> Result<Arc<DeviceMemory>, RuntimeError> {
        let mut address = 0;
        if bytes > 0 {
            // SAFETY: the function writes the address.
            self.call("cuMemAllocAsync", |driver, stream| unsafe {
                driver.cuMemAllocAsync(&mut address, bytes, stream)
            })?;
        }
        Ok(Arc::new(DeviceMemory { context: Arc::clone(&self.context), address, bytes }))
    }

    fn call(
        &self,
        function: &'static str,
        call: impl FnOnce(&sys::Driver, sys::CUstream) -> sys::CUresult,
    ) -> Result<(), RuntimeError> {
        let current = self.context.enter().map_err(error)?;
        let api = current.context.api;
        api.said(function, call(&api.driver, current.context.stream)).map_err(error)
    }
}

impl DeviceMemory {
    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Ok(current) = self.context.enter()
            && self.address != 0
        {
            let (api, stream) = (current.context.api, current.context.stream);
            // SAFETY: the memory is ours; it goes back when what the stream still does with it is done.
            unsafe { api.driver.cuMemFreeAsync(self.address, stream) };
        }
    }
}

impl DeviceKernel {
    /// Registers of a thread, and bytes that it has in memory because they are too few.
    ///
    /// # Errors
    /// What the driver says.
    pub fn resources(&self, rows: usize) -> Result<[i32; 2], RuntimeError> {
        let attributes = [sys::CU_FUNC_ATTRIBUTE_NUM_REGS, sys::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES];
        let mut found = [0; 2];
        for (value, attribute) in found.iter_mut().zip(attributes) {
            *value = self.module.attribute(rows, attribute).map_err(error)?;
        }
        Ok(found)
    }
}

impl Recorder<'_> {
    /// Launches a kernel over all its rows. `rows_are_apart` says that no two rows write the same element, where they
    /// choose the places that they write; of other kernels it says nothing.
    ///
    /// # Errors
    /// Arguments of a wrong number or buffers shorter than the shapes that `dims` imply; rows that must be computed one
    /// after the other.
    pub fn launch(
        &mut self,
        kernel: &Arc<DeviceKernel>,
        buffers: &[Arc<DeviceMemory>],
        dims: &[i64],
        follow: Follow,
        rows_are_apart: bool,
    ) -> Result<(), RuntimeError> {
        let module = &kernel.module;
        let signature = &module.signature;
        let sizes: Vec<usize> = buffers.iter().map(|memory| memory.bytes).collect();
        signature.check_sizes(&sizes, dims)?;
        let apart = match signature.order {
            RowOrder::Any => true,
            RowOrder::Chosen { .. } => rows_are_apart,
            RowOrder::Ascending => false,
        };
        if !apart {
            let reason = "its rows are computed one after the other, which is not recorded".to_owned();
            return Err(RuntimeError::Arguments { kernel: signature.name.clone(), reason });
        }
        let addresses: Vec<sys::CUdeviceptr> = buffers.iter().map(|memory| memory.address).collect();
        let overlaps = follow == Follow::Overlapping && self.launches > 0;
        let rows = [0, signature.rows.count(dims)];
        module.enqueue(&self.current, self.stream.raw, &addresses, dims, rows, overlaps).map_err(error)?;
        self.launches += 1;
        self.kernels.push(Arc::clone(kernel));
        self.memory.extend(buffers.iter().cloned());
        Ok(())
    }

    /// Copies all bytes of one memory to another of that size.
    ///
    /// # Errors
    /// Memory of another size.
    pub fn copy(&mut self, from: &Arc<DeviceMemory>, to: &Arc<DeviceMemory>) -> Result<(), RuntimeError> {
        if from.bytes != to.bytes {
            let reason = format!("a copy of {} bytes to {}", from.bytes, to.bytes);
            return Err(RuntimeError::Arguments { kernel: "copy".to_owned(), reason });
        }
        let api = self.queue.context.api;
        // SAFETY: both are of that many bytes, and live as long as the recording.
        let status = unsafe { api.driver.cuMemcpyDtoDAsync_v2(to.address, from.address, from.bytes, self.stream.raw) };
        api.said("cuMemcpyDtoDAsync", status).map_err(error)?;
        self.launches += 1;
        self.memory.extend([Arc::clone(from), Arc::clone(to)]);
        Ok(())
    }

    /// What was recorded, ready to be replayed.
    ///
    /// # Errors
    /// What the driver says.
    pub fn finish(self) -> Result<Recording, RuntimeError> {
        let Recorder { queue, current, stream, kernels, memory, .. } = self;
        let api = queue.context.api;
        let (mut graph, mut executable) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the stream records; the functions write the handles whose addresses they are given, and a graph is not
        // needed once it is instantiated.
        let made = unsafe {
            let ended = api.said("cuStreamEndCapture", api.driver.cuStreamEndCapture(stream.raw, &mut graph));
            let made = ended.and_then(|()| {
                let status = api.driver.cuGraphInstantiateWithFlags(&mut executable, graph, 0);
                api.said("cuGraphInstantiateWithFlags", status)
            });
            if !graph.is_null() {
                api.driver.cuGraphDestroy(graph);
            }
            made
        };
        made.map_err(error)?;
        let context = Arc::clone(&queue.context);
        let recording = Recording { context, executable, _kernels: kernels, _memory: memory };
        // SAFETY: the graph is instantiated; the stream is the context's.
        let status = unsafe { api.driver.cuGraphUpload(recording.executable, current.context.stream) };
        api.said("cuGraphUpload", status).map_err(error)?;
        Ok(recording)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        if let Ok(current) = self.context.enter() {
            // Replays may be under way; what they said of themselves was for who asked.
            let _ = current.wait();
            // SAFETY: the graph is ours, and no replay of it is under way.
            unsafe { self.context.api.driver.cuGraphExecDestroy(self.executable) };
        }
    }
}

impl Stream {
    fn new(context: &Arc<Context>) -> Result<Stream, Failure> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: a context is current; the function writes the handle.
        let status = unsafe { context.api.driver.cuStreamCreate(&mut raw, super::context::NON_BLOCKING) };
        context.api.said("cuStreamCreate", status)?;
        Ok(Stream { context: Arc::clone(context), raw })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: the stream is ours; what it recorded is a graph of its own by now, or given up.
        unsafe { self.context.api.driver.cuStreamDestroy_v2(self.raw) };
    }
}

/// A point of a stream.
struct Event {
    context: Arc<Context>,
    raw: sys::CUevent,
}

impl Event {
    fn new(context: &Arc<Context>) -> Result<Event, Failure> {
        let _current = context.enter()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a context is current; the function writes the handle.
        context.api.said("cuEventCreate", unsafe { context.api.driver.cuEventCreate(&mut raw, 0) })?;
        Ok(Event { context: Arc::clone(context), raw })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is ours.
        unsafe { self.context.api.driver.cuEventDestroy_v2(self.raw) };
    }
}

/// What a failure means where no kernel is to blame.
fn error(failure: Failure) -> RuntimeError {
    super::module::error("work on the device", &failure)
}
