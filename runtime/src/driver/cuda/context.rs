//! The GPUs of this machine, each through the context that all libraries of a process share.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use fusewright_cuda_sys as sys;

use super::api::{Api, Failure, api};
use super::following::Lines;
use super::freeing::Freeing;

/// Streams that do not wait for the default stream.
pub(super) const NON_BLOCKING: u32 = 1;

/// A device, its primary context and a stream of our own.
pub(super) struct Context {
    pub api: &'static Api,
    /// The number that the driver knows the device by in this process, from 0.
    pub ordinal: usize,
    /// What the driver calls the device.
    pub name: String,
    /// Compute capability.
    pub capability: (i32, i32),
    /// Its multiprocessors.
    pub processors: u32,
    /// Bytes of its second-level cache.
    pub cache_bytes: usize,
    /// Where copies and launches of one after the other go.
    pub stream: sys::CUstream,
    /// What is not used any more.
    pub freeing: Freeing,
    /// The streams of callers that were worked on.
    pub lines: Lines,
    raw: sys::CUcontext,
    device: sys::CUdevice,
}

// SAFETY: contexts and streams are handles that the driver lets every thread use.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Context { name, ordinal, capability: (major, minor), .. } = self;
        write!(f, "Context(cuda:{ordinal}, {name}, sm_{major}{minor})")
    }
}

impl Context {
    /// The device of a number among those that the driver shows to this process, kept until the process ends.
    ///
    /// # Errors
    /// No driver, no such device, or a context that cannot be had, in words.
    pub fn at(ordinal: usize) -> Result<Arc<Context>, String> {
        // A failure is kept: what is not there now does not come while a process runs.
        static OPEN: Mutex<BTreeMap<usize, Result<Arc<Context>, String>>> = Mutex::new(BTreeMap::new());
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        open.entry(ordinal).or_insert_with(|| Context::open(ordinal).map(Arc::new)).clone()
    }

    /// How many devices the driver shows to this process.
    ///
    /// # Errors
    /// No driver, in words.
    pub fn count() -> Result<usize, String> {
        let (api, mut count) = (api()?, 0);
        // SAFETY: the function writes one number.
        let counted = api.said("cuDeviceGetCount", unsafe { api.driver.cuDeviceGetCount(&mut count) });
        counted.map(|()| usize::try_from(count).unwrap_or(0)).map_err(|failure| failure.to_string())
    }

    fn open(ordinal: usize) -> Result<Context, String> {
        let api = api()?;
        let words = |failure: Failure| failure.to_string();
        let count = Context::count()?;
        let Some(number) = i32::try_from(ordinal).ok().filter(|_| ordinal < count) else {
            let there = if count == 1 { "is one".to_owned() } else { format!("are {count}") };
            return Err(format!("no NVIDIA GPU of number {ordinal}, counted from 0: there {there}"));
        };
        let mut device = 0;
        // SAFETY: the function writes the one value whose address it is given, which lives through the call.
        api.said("cuDeviceGet", unsafe { api.driver.cuDeviceGet(&mut device, number) }).map_err(words)?;
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: as above.
            let status = unsafe { api.driver.cuDeviceGetAttribute(&mut value, which, device) };
            api.said("cuDeviceGetAttribute", status).map(|()| value).map_err(words)
        };
        let capability = (
            attribute(sys::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            attribute(sys::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let processors = attribute(sys::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.unsigned_abs();
        let cache_bytes = attribute(sys::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.unsigned_abs() as usize;
        let mut raw = std::ptr::null_mut();
        // SAFETY: as above. The context is released when this value is dropped.
        let status = unsafe { api.driver.cuDevicePrimaryCtxRetain(&mut raw, device) };
        api.said("cuDevicePrimaryCtxRetain", status).map_err(words)?;
        let name = name(api, device);
        let stream = std::ptr::null_mut();
        let (freeing, lines) = (Freeing::default(), Lines::default());
        let mut context =
            Context { api, ordinal, name, capability, processors, cache_bytes, stream, freeing, lines, raw, device };
        context.stream = context.new_stream().map_err(words)?;
        context.freeing = Freeing::new(context.new_stream().map_err(words)?);
        Ok(context)
    }

    /// A stream that does not wait for the default stream, nor that for it.
    pub fn new_stream(&self) -> Result<sys::CUstream, Failure> {
        let mut stream = std::ptr::null_mut();
        let _current = self.enter()?;
        // SAFETY: the function writes the stream's handle; a context is current.
        let status = unsafe { self.api.driver.cuStreamCreate(&mut stream, NON_BLOCKING) };
        self.api.said("cuStreamCreate", status).map(|()| stream)
    }

    /// Bytes of the device's memory that nobody has now.
    pub fn free_bytes(&self) -> Result<usize, Failure> {
        let _current = self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: a context is current; the function writes two numbers.
        let status = unsafe { self.api.driver.cuMemGetInfo_v2(&mut free, &mut total) };
        self.api.said("cuMemGetInfo", status).map(|()| free)
    }

    /// Makes the context that of this thread until the result is dropped.
    pub fn enter(&self) -> Result<Current<'_>, Failure> {
        let mut now = std::ptr::null_mut();
        // SAFETY: the function writes one handle. Of a thread without a context it is null.
        let known = unsafe { self.api.driver.cuCtxGetCurrent(&mut now) };
        // Frameworks have it current where they call: that is all there is to do then.
        let pushed = known != sys::CUDA_SUCCESS || now != self.raw;
        if pushed {
            // SAFETY: the context is retained for as long as this value lives.
            let status = unsafe { self.api.driver.cuCtxPushCurrent_v2(self.raw) };
            self.api.said("cuCtxPushCurrent", status)?;
        }
        Ok(Current { context: self, pushed, of_this_thread: PhantomData })
    }

    /// As [`Context::enter`], for calls that are no part of a stream's work, such as loading: somebody may be capturing
    /// another stream meanwhile, which they do not concern.
    pub fn enter_beside_captures(&self) -> Result<Aside<'_>, Failure> {
        let current = self.enter()?;
        let mode = self.exchange_mode(sys::CU_STREAM_CAPTURE_MODE_RELAXED)?;
        Ok(Aside { current, mode })
    }

    /// Says how the calls of this thread stand to captures; gives what was said before.
    fn exchange_mode(&self, mut mode: i32) -> Result<i32, Failure> {
        // SAFETY: the function reads and writes one number.
        let status = unsafe { self.api.driver.cuThreadExchangeStreamCaptureMode(&mut mode) };
        self.api.said("cuThreadExchangeStreamCaptureMode", status).map(|()| mode)
    }

    /// Whether a stream is of this context, as far as the driver says.
    pub fn has(&self, stream: sys::CUstream) -> bool {
        let mut of = std::ptr::null_mut();
        // SAFETY: the stream is alive; the function writes one handle.
        let status = unsafe { self.api.driver.cuStreamGetCtx(stream, &mut of) };
        status != sys::CUDA_SUCCESS || of == self.raw
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Ok(_current) = self.enter() {
            for stream in [self.stream, self.freeing.stream()].into_iter().filter(|stream| !stream.is_null()) {
                // SAFETY: the stream is ours, and nothing uses it any more.
                unsafe { self.api.driver.cuStreamDestroy_v2(stream) };
            }
        }
        // SAFETY: it was retained once, and nothing of ours uses it any more.
        unsafe { self.api.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// That a thread uses a context.
#[derive(Debug)]
pub(super) struct Current<'c> {
    pub context: &'c Context,
    /// Whether it was not the thread's before.
    pushed: bool,
    /// A context is current to one thread.
    of_this_thread: PhantomData<*const ()>,
}

impl Current<'_> {
    /// Waits until all that was asked of the stream is done.
    pub fn wait(&self) -> Result<(), Failure> {
        let (api, stream) = (self.context.api, self.context.stream);
        // SAFETY: the stream is the context's, which is current.
        api.said("cuStreamSynchronize", unsafe { api.driver.cuStreamSynchronize(stream) })
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = std::ptr::null_mut();
            // SAFETY: this thread pushed the context, and the values that do so are dropped in the opposite order.
            unsafe { self.context.api.driver.cuCtxPopCurrent_v2(&mut popped) };
        }
    }
}

/// That a thread uses a context beside what is captured.
#[derive(Debug)]
pub(super) struct Aside<'c> {
    pub current: Current<'c>,
    /// What the thread had said of captures before.
    mode: i32,
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        // The same call has just succeeded.
        let _ = self.current.context.exchange_mode(self.mode);
    }
}

fn name(api: &Api, device: sys::CUdevice) -> String {
    let mut name = [0; 256];
    // SAFETY: the function writes a terminated string of at most so many bytes.
    let status = unsafe { api.driver.cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device) };
    if status != sys::CUDA_SUCCESS {
        return "an NVIDIA GPU".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
}
