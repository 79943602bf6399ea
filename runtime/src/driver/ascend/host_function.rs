//! Functions of the host that a stream calls, on memory of a device that only stands for one: what a library of the vendor
//! would compute. Memory of a real device is not the host's, so that there they are refused.

use std::ffi::c_void;
use std::sync::Arc;

use fusewright_acl_sys as sys;

use super::buffer::{DeviceBuffer, refused};
use super::npu::Npu;
use super::stream::{Kept, Stream};
use crate::RuntimeError;

/// What a function computes: from the bytes of its operands those of its result.
pub type Compute = Box<dyn Fn(&[&[u8]], &mut [u8]) + Send + Sync>;

/// A function with its memory, which can be enqueued again and again.
#[derive(Clone, Debug)]
pub struct HostFunction {
    npu: Npu,
    work: Arc<Work>,
}

struct Work {
    operands: Vec<DeviceBuffer>,
    result: DeviceBuffer,
    compute: Compute,
    /// Tells the stand-in what was written.
    written: Option<sys::Simulated>,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} operands of {} bytes", self.operands.len(), self.result.len())
    }
}

impl HostFunction {
    /// A function of some memory of a device.
    ///
    /// # Errors
    /// A real device; a runtime that calls no functions; a result that has memory in common with an operand.
    pub fn new(
        npu: &Npu,
        operands: Vec<DeviceBuffer>,
        result: DeviceBuffer,
        compute: Compute,
    ) -> Result<HostFunction, RuntimeError> {
        const ACTION: &str = "preparing a function of the host";
        if !npu.is_simulated() {
            return Err(refused(ACTION, format!("the memory of {} is not the host's", npu.name())));
        }
        if npu.context.api.acl.aclrtLaunchHostFunc.is_none() {
            return Err(refused(ACTION, "the runtime has no aclrtLaunchHostFunc".to_owned()));
        }
        if operands.iter().any(|operand| operand.overlaps(&result)) {
            return Err(refused(ACTION, "the result has memory in common with an operand".to_owned()));
        }
        let elsewhere = |buffer: &DeviceBuffer| !Arc::ptr_eq(buffer.memory.context(), &npu.context);
        if operands.iter().any(elsewhere) || elsewhere(&result) {
            return Err(refused(ACTION, "memory is on another device".to_owned()));
        }
        let written = npu.context.api.acl.simulated();
        Ok(HostFunction { npu: npu.clone(), work: Arc::new(Work { operands, result, compute, written }) })
    }

    /// Has the stream call it, when it gets there.
    ///
    /// # Errors
    /// A stream of another device, or one that is captured where the runtime captures no such calls.
    pub fn enqueue(&self, stream: &Stream) -> Result<(), RuntimeError> {
        const ACTION: &str = "calling a function of the host";
        stream.is_of(&self.npu.context, ACTION)?;
        let Some(launch) = self.npu.context.api.acl.aclrtLaunchHostFunc else {
            return Err(refused(ACTION, "the runtime has no aclrtLaunchHostFunc".to_owned()));
        };
        // A graph calls it as often as it is launched, and keeps it; a stream calls it once.
        let (captured, work) = (stream.is_captured(), Arc::clone(&self.work));
        let data = if captured {
            Arc::as_ptr(&work).cast_mut().cast::<c_void>()
        } else {
            Arc::into_raw(Arc::clone(&work)).cast_mut().cast::<c_void>()
        };
        let function = if captured { call_kept } else { call_once };
        let enqueued = stream.call(ACTION, "aclrtLaunchHostFunc", |_, raw| {
            // SAFETY: the data is what the function takes, and lives until it was called the last time: the graph keeps it,
            // or the stream has a handle of its own.
            unsafe { launch(raw, Some(function), data) }
        });
        if enqueued.is_err() && !captured {
            // SAFETY: the handle was made above, and nobody calls.
            drop(unsafe { Arc::from_raw(data.cast::<Work>()) });
        }
        enqueued?;
        stream.keep_function(|| work as Kept);
        Ok(())
    }
}

/// # Safety
/// The data is a handle of work that is given away.
unsafe extern "C" fn call_once(data: *mut c_void) {
    // SAFETY: as the caller says.
    unsafe { Arc::from_raw(data.cast::<Work>()) }.call();
}

/// # Safety
/// The data is work that somebody keeps.
unsafe extern "C" fn call_kept(data: *mut c_void) {
    // SAFETY: as the caller says.
    unsafe { &*data.cast::<Work>() }.call();
}

impl Work {
    fn call(&self) {
        let pointer = |buffer: &DeviceBuffer| std::ptr::with_exposed_provenance_mut::<u8>(buffer.address() as usize);
        let read = |buffer: &DeviceBuffer| -> &[u8] {
            if buffer.is_empty() {
                return &[];
            }
            // SAFETY: the memory is of so many bytes of this process, and is kept by the work; the stream writes nothing
            // meanwhile, since it calls functions in its order.
            unsafe { std::slice::from_raw_parts(pointer(buffer), buffer.len()) }
        };
        let operands: Vec<&[u8]> = self.operands.iter().map(read).collect();
        if self.result.is_empty() {
            return;
        }
        // SAFETY: as above; it has nothing in common with an operand.
        let result = unsafe { std::slice::from_raw_parts_mut(pointer(&self.result), self.result.len()) };
        (self.compute)(&operands, result);
        if let Some(written) = self.written {
            // SAFETY: the stand-in notes that these bytes of its own were written.
            unsafe { written(result.as_ptr().cast(), result.len()) };
        }
    }
}
