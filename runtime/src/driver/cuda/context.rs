//! A GPU of this machine, through the context that all libraries of a process share.

use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

use fusewright_cuda_sys as sys;

use super::api::{Api, Failure, api};
use crate::driver::unused::Unused;

/// Streams that do not wait for the default stream.
pub(super) const NON_BLOCKING: u32 = 1;

/// Gives something back to the device of the current context.
type GiveBack = Box<dyn FnOnce(&Api) + Send>;

/// A device, its primary context and a stream of our own.
pub(super) struct Context {
    pub api: &'static Api,
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
    raw: sys::CUcontext,
    device: sys::CUdevice,
    unused: Unused<GiveBack>,
}

// SAFETY: contexts and streams are handles that the driver lets every thread use.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({}, sm_{}{})", self.name, self.capability.0, self.capability.1)
    }
}

impl Context {
    /// The first device that the driver shows to this process, kept until the process ends.
    ///
    /// # Errors
    /// No driver, no device, or a context that cannot be had, in words.
    pub fn first() -> Result<Arc<Context>, String> {
        static FIRST: OnceLock<Result<Arc<Context>, String>> = OnceLock::new();
        FIRST.get_or_init(|| Context::open(0).map(Arc::new)).clone()
    }

    fn open(ordinal: i32) -> Result<Context, String> {
        let api = api()?;
        let words = |failure: Failure| failure.to_string();
        let (mut count, mut device) = (0, 0);
        // SAFETY: each function writes the one value whose address it is given, which lives through the call.
        unsafe {
            api.said("cuDeviceGetCount", api.driver.cuDeviceGetCount(&mut count)).map_err(words)?;
            if ordinal >= count {
                return Err(format!("no NVIDIA GPU of number {ordinal}: there are {count}"));
            }
            api.said("cuDeviceGet", api.driver.cuDeviceGet(&mut device, ordinal)).map_err(words)?;
        }
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
        let unused = Unused::new();
        let mut context = Context { api, name, capability, processors, cache_bytes, stream, raw, device, unused };
        context.stream = context.new_stream().map_err(words)?;
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

    /// Gives something back once nothing runs on the device any more that any library asked for in this context, and no
    /// stream of ours is captured. Where that cannot be known, it is lost, which harms nobody; what is given back too early
    /// does.
    pub fn give_back(&self, give_back: impl FnOnce(&Api) + Send + 'static) {
        self.unused.add(Box::new(give_back), |all| self.give_all_back(all));
    }

    /// A capture of a stream begins.
    pub fn begin_capture(&self) {
        self.unused.begin_capture();
    }

    /// A capture of a stream has ended.
    pub fn end_capture(&self) {
        self.unused.end_capture(|all| self.give_all_back(all));
    }

    fn give_all_back(&self, all: Vec<GiveBack>) {
        let Ok(_current) = self.enter() else { return };
        // SAFETY: a context is current.
        if self.api.said("cuCtxSynchronize", unsafe { self.api.driver.cuCtxSynchronize() }).is_ok() {
            all.into_iter().for_each(|give_back| give_back(self.api));
        }
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
        // SAFETY: the context is retained for as long as this value lives.
        let status = unsafe { self.api.driver.cuCtxPushCurrent_v2(self.raw) };
        self.api.said("cuCtxPushCurrent", status)?;
        Ok(Current { context: self, of_this_thread: PhantomData })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Ok(_current) = self.enter()
            && !self.stream.is_null()
        {
            // SAFETY: the stream is ours, and nothing uses it any more.
            unsafe { self.api.driver.cuStreamDestroy_v2(self.stream) };
        }
        // SAFETY: it was retained once, and nothing of ours uses it any more.
        unsafe { self.api.driver.cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// That a thread uses a context.
#[derive(Debug)]
pub(super) struct Current<'c> {
    pub context: &'c Context,
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
        let mut popped = std::ptr::null_mut();
        // SAFETY: this thread pushed the context, and the values that do so are dropped in the opposite order.
        unsafe { self.context.api.driver.cuCtxPopCurrent_v2(&mut popped) };
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
