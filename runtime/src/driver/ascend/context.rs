//! A device of this machine, through the context that all libraries of a process share.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

use fusewright_acl_sys as sys;

use super::api::{Api, Failure, api};
use super::facts::{Facts, devices};
use crate::driver::unused::Unused;

/// The device that is used: the first that the process sees.
const DEVICE: i32 = 0;
/// How streams are made: what is launched soon begins soon, and waits are short.
const FAST: u32 = sys::ACL_STREAM_FAST_LAUNCH | sys::ACL_STREAM_FAST_SYNC;

/// Gives something back to the device of the current context.
type GiveBack = Box<dyn FnOnce(&Api) + Send>;

/// A device and its default context.
pub(super) struct Context {
    pub api: &'static Api,
    pub facts: Facts,
    raw: sys::aclrtContext,
    unused: Unused<GiveBack>,
}

// SAFETY: contexts are handles that the runtime lets every thread use.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context({}, {})", self.facts.soc, self.api.file.display())
    }
}

impl Context {
    /// The first device of the first of these files that is a runtime, kept until the process ends.
    ///
    /// # Errors
    /// No runtime, no device, or one that cannot be had, in words.
    pub fn first(files: &[PathBuf]) -> Result<Arc<Context>, String> {
        static OPEN: Mutex<BTreeMap<PathBuf, Arc<Context>>> = Mutex::new(BTreeMap::new());
        let api = api(files)?;
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = open.get(&api.file) {
            return Ok(Arc::clone(context));
        }
        let context = Arc::new(Context::open(api)?);
        open.insert(api.file.clone(), Arc::clone(&context));
        Ok(context)
    }

    fn open(api: &'static Api) -> Result<Context, String> {
        let words = |failure: Failure| failure.to_string();
        if devices(api).map_err(words)? == 0 {
            return Err("no Ascend NPU".to_owned());
        }
        let before = current(api);
        let mut raw = null_mut();
        // SAFETY: the device is there; the second function writes the handle of the context that the first made current.
        unsafe {
            api.said("aclrtSetDevice", (api.acl.aclrtSetDevice)(DEVICE)).map_err(words)?;
            api.said("aclrtGetCurrentContext", (api.acl.aclrtGetCurrentContext)(&mut raw)).map_err(words)?;
        }
        let context = Context { api, facts: Facts::of(api, DEVICE), raw, unused: Unused::new() };
        if let Some(before) = before {
            set_current(api, before).map_err(words)?;
        }
        Ok(context)
    }

    /// A stream of our own.
    pub fn new_stream(&self) -> Result<sys::aclrtStream, Failure> {
        let mut stream = null_mut();
        let _current = self.enter()?;
        // SAFETY: the function writes the stream's handle; a context is current.
        let answer = unsafe { (self.api.acl.aclrtCreateStreamWithConfig)(&mut stream, 0, FAST) };
        self.api.said("aclrtCreateStreamWithConfig", answer).map(|()| stream)
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
        if self.api.said("aclrtSynchronizeDevice", unsafe { (self.api.acl.aclrtSynchronizeDevice)() }).is_ok() {
            all.into_iter().for_each(|give_back| give_back(self.api));
        }
    }

    /// Bytes of the device's memory that nobody has now.
    pub fn free_bytes(&self) -> Result<usize, Failure> {
        let _current = self.enter()?;
        let mut last = Ok(0);
        // Servers have the first kind of memory, smaller devices the second.
        for kind in [sys::ACL_HBM_MEM, sys::ACL_DDR_MEM] {
            let (mut free, mut total) = (0, 0);
            // SAFETY: a context is current; the function writes two numbers.
            let answer = unsafe { (self.api.acl.aclrtGetMemInfo)(kind, &mut free, &mut total) };
            last = self.api.said("aclrtGetMemInfo", answer).map(|()| free);
            if last.is_ok() && total > 0 {
                break;
            }
        }
        last
    }

    /// Makes the context that of this thread until the result is dropped.
    pub fn enter(&self) -> Result<Current<'_>, Failure> {
        let before = current(self.api);
        if before != Some(self.raw) {
            set_current(self.api, self.raw)?;
        }
        let before = before.filter(|before| *before != self.raw);
        Ok(Current { context: self, before, of_this_thread: PhantomData })
    }
}

/// The context of this thread, if it has one.
fn current(api: &Api) -> Option<sys::aclrtContext> {
    let mut raw = null_mut();
    // SAFETY: the function writes the handle, or fails where there is none.
    let answer = unsafe { (api.acl.aclrtGetCurrentContext)(&mut raw) };
    (answer == sys::ACL_SUCCESS && !raw.is_null()).then_some(raw)
}

fn set_current(api: &Api, raw: sys::aclrtContext) -> Result<(), Failure> {
    // SAFETY: the context is alive: it is that of a device that nobody resets, or was this thread's a moment ago.
    api.said("aclrtSetCurrentContext", unsafe { (api.acl.aclrtSetCurrentContext)(raw) })
}

/// That a thread uses a context.
#[derive(Debug)]
pub(super) struct Current<'c> {
    pub context: &'c Context,
    /// Another context that the thread had before.
    before: Option<sys::aclrtContext>,
    /// A context is current to one thread.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // A context that is gone meanwhile cannot be the thread's again.
            let _ = set_current(self.context.api, before);
        }
    }
}
