//! Memory of a device that stays there between launches.
//!
//! Launches and graphs that use a buffer share it, and memory goes back only when the streams that it was used on have
//! passed what uses it (`following.rs`), so that no work outlives what it reads or writes. Work on different streams is not ordered: who writes a buffer on one and
//! reads it on another waits in between.

use std::ops::Range;
use std::sync::Arc;

use fusewright_cuda_sys as sys;

use super::api::Failure;
use super::context::Context;
use super::following::{Line, Used, Uses};
use super::freeing::Thing;
use super::stream::Stream;
use crate::{DeviceFailure, RuntimeError};

/// Bytes on a device: memory of its own, or a part of other memory. Cloning gives another handle of the same bytes.
#[derive(Clone, Debug)]
pub struct DeviceBuffer {
    pub(super) memory: Arc<Memory>,
    /// Where it begins, in that memory; zero if it has no bytes.
    address: sys::CUdeviceptr,
    bytes: usize,
}

/// Memory from the device's pool.
#[derive(Debug)]
pub(super) struct Memory {
    context: Arc<Context>,
    /// Where it is; zero if it has no bytes.
    address: sys::CUdeviceptr,
    /// Whether it goes back to the pool.
    own: bool,
    uses: Uses,
}

impl DeviceBuffer {
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<DeviceBuffer, RuntimeError> {
        let address = allocate(context, bytes).map_err(|failure| failure.during("allocating device memory"))?;
        let memory = Memory { context: Arc::clone(context), address, own: true, uses: Uses::default() };
        Ok(DeviceBuffer { memory: Arc::new(memory), address, bytes })
    }

    /// Memory that somebody else allocated and frees.
    pub(super) fn adopted(context: &Arc<Context>, address: sys::CUdeviceptr, bytes: usize) -> DeviceBuffer {
        let memory = Memory { context: Arc::clone(context), address, own: false, uses: Uses::default() };
        DeviceBuffer { memory: Arc::new(memory), address: if bytes == 0 { 0 } else { address }, bytes }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The address on the device, for libraries that take one; zero of a buffer without bytes.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// A part of the buffer, which keeps all of its memory.
    ///
    /// # Errors
    /// Bytes behind the end of the buffer.
    pub fn part(&self, range: Range<usize>) -> Result<DeviceBuffer, RuntimeError> {
        if range.start > range.end || range.end > self.bytes {
            let reason = format!("bytes {} to {} of a buffer that has {}", range.start, range.end, self.bytes);
            return Err(refused("taking a part of device memory", reason));
        }
        let address = if range.is_empty() { 0 } else { self.address + range.start as u64 };
        Ok(DeviceBuffer { memory: Arc::clone(&self.memory), address, bytes: range.len() })
    }

    /// Whether both have bytes in common.
    fn overlaps(&self, other: &DeviceBuffer) -> bool {
        let span = |buffer: &DeviceBuffer| buffer.address..buffer.address + buffer.bytes as u64;
        let (a, b) = (span(self), span(other));
        Arc::ptr_eq(&self.memory, &other.memory) && a.start < b.end && b.start < a.end
    }

    /// Sets every byte, when the stream gets there.
    ///
    /// # Errors
    /// A driver that refuses; a device that was lost.
    pub fn fill(&self, stream: &Stream, byte: u8) -> Result<(), RuntimeError> {
        const ACTION: &str = "setting device memory";
        stream.keep(&self.memory, ACTION)?;
        if self.is_empty() {
            return Ok(());
        }
        stream.call(ACTION, "cuMemsetD8Async", |api, raw| {
            // SAFETY: the memory is of that many bytes, and of the stream's context.
            unsafe { api.driver.cuMemsetD8Async(self.address(), byte, self.bytes, raw) }
        })
    }

    /// Copies bytes of the host to the beginning of the buffer and waits for that, and for what the stream did before.
    ///
    /// # Errors
    /// More bytes than the buffer has; a stream that is being captured; a device that was lost.
    pub fn upload(&self, stream: &Stream, from: &[u8]) -> Result<(), RuntimeError> {
        const ACTION: &str = "copying to the device";
        self.check(ACTION, from.len(), stream)?;
        if from.is_empty() {
            return Ok(());
        }
        let copied = stream.call(ACTION, "cuMemcpyHtoDAsync", |api, raw| {
            // SAFETY: both are of that many bytes, and the copy is waited for while the source is borrowed.
            unsafe { api.driver.cuMemcpyHtoDAsync_v2(self.address(), from.as_ptr().cast(), from.len(), raw) }
        });
        let waited = stream.wait();
        copied.and(waited)
    }

    /// Copies bytes from a place of the buffer to the host and waits for that. `from` counts bytes.
    ///
    /// # Errors
    /// Bytes behind the end of the buffer; a stream that is being captured; a device that was lost.
    pub fn download(&self, stream: &Stream, from: usize, to: &mut [u8]) -> Result<(), RuntimeError> {
        const ACTION: &str = "copying from the device";
        self.check(ACTION, from.saturating_add(to.len()), stream)?;
        if to.is_empty() {
            return Ok(());
        }
        let copied = stream.call(ACTION, "cuMemcpyDtoHAsync", |api, raw| {
            let address = self.address() + from as u64;
            // SAFETY: both are of that many bytes, and the copy is waited for while the destination is borrowed.
            unsafe { api.driver.cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), address, to.len(), raw) }
        });
        let waited = stream.wait();
        copied.and(waited)
    }

    /// Copies all bytes of another buffer to the beginning of this one, when the stream gets there.
    ///
    /// # Errors
    /// A longer buffer, or one that has bytes in common with this; a device that was lost.
    pub fn copy_from(&self, stream: &Stream, from: &DeviceBuffer) -> Result<(), RuntimeError> {
        const ACTION: &str = "copying on the device";
        if from.len() > self.len() || from.overlaps(self) {
            return Err(refused(ACTION, format!("{} bytes do not go into {} others", from.len(), self.len())));
        }
        stream.keep(&self.memory, ACTION)?;
        stream.keep(&from.memory, ACTION)?;
        if from.is_empty() {
            return Ok(());
        }
        stream.call(ACTION, "cuMemcpyDtoDAsync", |api, raw| {
            // SAFETY: both are of that many bytes, do not overlap, and are of the stream's context.
            unsafe { api.driver.cuMemcpyDtoDAsync_v2(self.address(), from.address(), from.len(), raw) }
        })
    }

    fn check(&self, action: &'static str, bytes: usize, stream: &Stream) -> Result<(), RuntimeError> {
        if bytes > self.len() {
            return Err(refused(action, format!("{bytes} bytes, and the buffer has {}", self.len())));
        }
        if stream.is_captured() {
            return Err(refused(action, "a graph holds no copies from or to the host".to_owned()));
        }
        stream.is_of(&self.memory.context, action)
    }
}

impl Memory {
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Notes a use on a stream, before it is enqueued.
    pub fn used_by(&self, stream: &Stream) {
        // What is a caller's goes back when the caller says so.
        if self.own {
            stream.uses(&self.uses);
        }
    }
}

impl Used for Memory {
    fn used_on(&self, line: &Arc<Line>) {
        if self.own {
            self.uses.add(line);
        }
    }
}

/// A call that makes no sense.
pub(super) fn refused(action: &'static str, reason: String) -> RuntimeError {
    RuntimeError::Device { action, failure: DeviceFailure::Refused, reason }
}

/// Memory that every stream may use.
fn allocate(context: &Arc<Context>, bytes: usize) -> Result<sys::CUdeviceptr, Failure> {
    if bytes == 0 {
        return Ok(0);
    }
    context.settle();
    let aside = context.enter_beside_captures()?;
    let mut address = 0;
    // SAFETY: the function writes the address; the stream is the current context's.
    let status = unsafe { context.api.driver.cuMemAllocAsync(&mut address, bytes, context.stream) };
    context.api.said("cuMemAllocAsync", status)?;
    // Other streams may use it once this one has it.
    aside.current.wait().map(|()| address)
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.address != 0 && self.own {
            let lines = self.uses.take();
            self.context.give_back(Thing::Memory(self.address), lines);
        }
    }
}
