//! Memory of a device that stays there between launches.
//!
//! Launches and graphs that use a buffer share it, and memory goes back only when nothing on the device runs any more, so
//! that no work outlives what it reads or writes. Work on different streams is not ordered: who writes a buffer on one and
//! reads it on another waits in between.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;

use fusewright_acl_sys as sys;

use super::api::Failure;
use super::context::Context;
use super::stream::Stream;
use crate::driver::unused::Handle;
use crate::{DeviceFailure, RuntimeError};

/// Bytes on a device: memory of its own, or a part of other memory. Cloning gives another handle of the same bytes.
#[derive(Clone, Debug)]
pub struct DeviceBuffer {
    pub(super) memory: Arc<Memory>,
    /// Where in the memory it begins.
    start: usize,
    bytes: usize,
}

/// Memory of the device.
#[derive(Debug)]
pub(super) struct Memory {
    context: Arc<Context>,
    /// Where it is; zero if it has no bytes.
    address: u64,
}

impl DeviceBuffer {
    pub(super) fn new(context: &Arc<Context>, bytes: usize) -> Result<DeviceBuffer, RuntimeError> {
        let address = allocate(context, bytes).map_err(|failure| failure.during("allocating device memory"))?;
        Ok(DeviceBuffer { memory: Arc::new(Memory { context: Arc::clone(context), address }), start: 0, bytes })
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
        if self.bytes == 0 { 0 } else { self.memory.address + self.start as u64 }
    }

    fn pointer(&self) -> *mut c_void {
        std::ptr::with_exposed_provenance_mut(self.address() as usize)
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
        Ok(DeviceBuffer { memory: Arc::clone(&self.memory), start: self.start + range.start, bytes: range.len() })
    }

    /// Whether both have bytes in common.
    pub(super) fn overlaps(&self, other: &DeviceBuffer) -> bool {
        let span = |buffer: &DeviceBuffer| buffer.start..buffer.start + buffer.bytes;
        let (a, b) = (span(self), span(other));
        Arc::ptr_eq(&self.memory, &other.memory) && a.start < b.end && b.start < a.end
    }

    /// Sets every byte, when the stream gets there.
    ///
    /// # Errors
    /// A runtime that refuses; a device that was lost.
    pub fn fill(&self, stream: &Stream, byte: u8) -> Result<(), RuntimeError> {
        const ACTION: &str = "setting device memory";
        stream.keep(&self.memory, ACTION)?;
        if self.is_empty() {
            return Ok(());
        }
        stream.call(ACTION, "aclrtMemsetAsync", |api, raw| {
            // SAFETY: the memory is of that many bytes, and of the stream's context.
            unsafe { (api.acl.aclrtMemsetAsync)(self.pointer(), self.bytes, byte.into(), self.bytes, raw) }
        })
    }

    /// Copies bytes of the host to the beginning of the buffer and waits for that, and for what the stream did before.
    ///
    /// # Errors
    /// More bytes than the buffer has; a stream that is being captured; a device that was lost.
    pub fn upload(&self, stream: &Stream, from: &[u8]) -> Result<(), RuntimeError> {
        const ACTION: &str = "copying to the device";
        self.check(ACTION, from.len(), stream)?;
        stream.wait()?;
        if from.is_empty() {
            return Ok(());
        }
        // Memory of callers is not locked, which copies on a stream need; those that wait take any.
        stream.call(ACTION, "aclrtMemcpy", |api, _| {
            let kind = sys::ACL_MEMCPY_HOST_TO_DEVICE;
            // SAFETY: both are of that many bytes, and the copy is done when the function returns.
            unsafe { (api.acl.aclrtMemcpy)(self.pointer(), self.bytes, from.as_ptr().cast(), from.len(), kind) }
        })
    }

    /// Copies bytes from a place of the buffer to the host, once what the stream did before is done. `from` counts bytes.
    ///
    /// # Errors
    /// Bytes behind the end of the buffer; a stream that is being captured; a device that was lost.
    pub fn download(&self, stream: &Stream, from: usize, to: &mut [u8]) -> Result<(), RuntimeError> {
        const ACTION: &str = "copying from the device";
        self.check(ACTION, from.saturating_add(to.len()), stream)?;
        stream.wait()?;
        if to.is_empty() {
            return Ok(());
        }
        let source = std::ptr::with_exposed_provenance::<c_void>(self.address() as usize + from);
        stream.call(ACTION, "aclrtMemcpy", |api, _| {
            let kind = sys::ACL_MEMCPY_DEVICE_TO_HOST;
            // SAFETY: both are of that many bytes, and the copy is done when the function returns.
            unsafe { (api.acl.aclrtMemcpy)(to.as_mut_ptr().cast(), to.len(), source, to.len(), kind) }
        })
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
        stream.call(ACTION, "aclrtMemcpyAsync", |api, raw| {
            let (to, room, source, count) = (self.pointer(), self.bytes, from.pointer(), from.bytes);
            // SAFETY: both are of that many bytes, do not overlap, and are of the stream's context.
            unsafe { (api.acl.aclrtMemcpyAsync)(to, room, source, count, sys::ACL_MEMCPY_DEVICE_TO_DEVICE, raw) }
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
}

/// A call that makes no sense.
pub(super) fn refused(action: &'static str, reason: String) -> RuntimeError {
    RuntimeError::Device { action, failure: DeviceFailure::Refused, reason }
}

/// Memory that every stream may use.
fn allocate(context: &Context, bytes: usize) -> Result<u64, Failure> {
    if bytes == 0 {
        return Ok(0);
    }
    let current = context.enter()?;
    let (api, mut address) = (current.context.api, null_mut());
    // SAFETY: a context is current; the function writes one address.
    let answer = unsafe { (api.acl.aclrtMalloc)(&mut address, bytes, sys::ACL_MEM_MALLOC_HUGE_FIRST) };
    api.said("aclrtMalloc", answer).map(|()| address.expose_provenance() as u64)
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.address == 0 {
            return;
        }
        let address = Handle(std::ptr::with_exposed_provenance_mut::<c_void>(self.address as usize));
        self.context.give_back(move |api| {
            // SAFETY: the memory is ours, and nothing runs any more.
            unsafe { (api.acl.aclrtFree)(address.get()) };
        });
    }
}
