//! Streams, events, and graphs of what was enqueued on a stream, which the vendor calls instances of models.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fusewright_acl_sys as sys;

use super::api::Api;
use super::buffer::{Memory, refused};
use super::context::Context;
use crate::RuntimeError;
use crate::driver::unused::Handle;

/// What work on the device uses and must live as long as it.
pub(super) type Kept = Arc<dyn Any + Send + Sync>;

/// What a graph uses.
#[derive(Default)]
struct Captured {
    /// Kernels and memory, which go back only when nothing on the device runs any more.
    device: Vec<Kept>,
    /// Functions of the host.
    functions: Vec<Kept>,
}

/// A stream: what is enqueued on it runs in order. It belongs to one thread at a time.
pub struct Stream {
    context: Arc<Context>,
    raw: sys::aclrtStream,
    own: bool,
    /// What a graph that is being captured uses.
    captured: RefCell<Option<Captured>>,
    /// How many things were enqueued.
    enqueued: Cell<usize>,
}

// SAFETY: a stream is a handle that the runtime lets every thread use; what a capture keeps may move too.
unsafe impl Send for Stream {}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream of {:?}", self.context)
    }
}

impl Stream {
    pub(super) fn new(context: Arc<Context>, raw: sys::aclrtStream, own: bool) -> Stream {
        Stream { context, raw, own, captured: RefCell::new(None), enqueued: Cell::new(0) }
    }

    pub(super) fn raw(&self) -> sys::aclrtStream {
        self.raw
    }

    /// Calls a function of the runtime in the stream's context.
    pub(super) fn call(
        &self,
        action: &'static str,
        function: &'static str,
        call: impl FnOnce(&Api, sys::aclrtStream) -> sys::aclError,
    ) -> Result<(), RuntimeError> {
        let current = self.context.enter().map_err(|failure| failure.during(action))?;
        let api = current.context.api;
        self.count();
        api.said(function, call(api, self.raw)).map_err(|failure| failure.during(action))
    }

    /// One more thing is enqueued.
    pub(super) fn count(&self) {
        self.enqueued.set(self.enqueued.get() + 1);
    }

    /// Whether what is enqueued becomes part of a graph.
    pub(super) fn is_captured(&self) -> bool {
        self.captured.borrow().is_some()
    }

    /// Refuses what belongs to another device.
    pub(super) fn is_of(&self, context: &Arc<Context>, action: &'static str) -> Result<(), RuntimeError> {
        if Arc::ptr_eq(context, &self.context) {
            return Ok(());
        }
        Err(refused(action, "the stream is of another device".to_owned()))
    }

    /// Has a graph that is being captured keep memory.
    pub(super) fn keep(&self, memory: &Arc<Memory>, action: &'static str) -> Result<(), RuntimeError> {
        self.is_of(memory.context(), action)?;
        self.keep_with(|| Arc::clone(memory) as Kept);
        Ok(())
    }

    /// Has a graph that is being captured keep what `kept` gives.
    pub(super) fn keep_with(&self, kept: impl FnOnce() -> Kept) {
        if let Some(all) = self.captured.borrow_mut().as_mut() {
            all.device.push(kept());
        }
    }

    /// Has a graph that is being captured keep a function that it calls.
    pub(super) fn keep_function(&self, kept: impl FnOnce() -> Kept) {
        if let Some(all) = self.captured.borrow_mut().as_mut() {
            all.functions.push(kept());
        }
    }

    /// Waits until all that was enqueued is done.
    ///
    /// # Errors
    /// A kernel that faulted; a stream that is being captured.
    pub fn wait(&self) -> Result<(), RuntimeError> {
        const ACTION: &str = "waiting for the device";
        if self.is_captured() {
            return Err(refused(ACTION, "the stream is being captured: nothing of it has run".to_owned()));
        }
        // SAFETY: the stream is of the current context and alive.
        self.call(ACTION, "aclrtSynchronizeStream", |api, raw| unsafe { (api.acl.aclrtSynchronizeStream)(raw) })
    }

    /// Makes a graph of what `enqueue` enqueues on this stream, which does not run.
    ///
    /// # Errors
    /// What `enqueue` fails with; a capture within a capture; what a graph cannot hold.
    pub fn capture(
        &mut self,
        enqueue: impl FnOnce(&Stream) -> Result<(), RuntimeError>,
    ) -> Result<Graph, RuntimeError> {
        const ACTION: &str = "capturing a graph";
        if self.is_captured() {
            return Err(refused(ACTION, "the stream is being captured already".to_owned()));
        }
        self.context.begin_capture();
        // SAFETY: the stream is of the current context and alive. In this mode other threads may copy as they like.
        let begun = self.call(ACTION, "aclmdlRICaptureBegin", |api, raw| unsafe {
            (api.acl.aclmdlRICaptureBegin)(raw, sys::ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        });
        if begun.is_err() {
            self.context.end_capture();
        }
        begun?;
        *self.captured.borrow_mut() = Some(Captured::default());
        let before = self.enqueued.get();
        // Ends the capture if `enqueue` panics, too.
        let capture = Capture { stream: self };
        let enqueued = enqueue(capture.stream);
        let nodes = capture.stream.enqueued.get() - before;
        let graph = capture.end(nodes)?;
        enqueued?;
        Ok(graph)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.own {
            let raw = Handle(self.raw);
            // What it has begun ends first.
            self.context.give_back(move |api| {
                // SAFETY: the stream is ours, and nothing runs any more.
                unsafe { (api.acl.aclrtDestroyStream)(raw.get()) };
            });
        }
    }
}

/// A capture that has begun.
struct Capture<'s> {
    stream: &'s Stream,
}

impl Capture<'_> {
    /// The graph, which keeps what it uses.
    fn end(self, nodes: usize) -> Result<Graph, RuntimeError> {
        let ended = self.finish(nodes);
        // `finish` is what a drop would do.
        std::mem::forget(self);
        ended
    }

    fn finish(&self, nodes: usize) -> Result<Graph, RuntimeError> {
        let mut raw = null_mut();
        // SAFETY: the stream is being captured; the function writes the graph's handle, or null.
        let ended = self.stream.call("capturing a graph", "aclmdlRICaptureEnd", |api, stream| unsafe {
            (api.acl.aclmdlRICaptureEnd)(stream, &mut raw)
        });
        self.stream.context.end_capture();
        let kept = self.stream.captured.borrow_mut().take().unwrap_or_default();
        let graph = Graph { context: Arc::clone(&self.stream.context), raw, nodes, kept };
        ended.map(|()| graph)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        // The graph is not wanted.
        let _ = self.finish(0);
    }
}

/// Work that was captured and can be launched again and again. It keeps the kernels and buffers that it uses.
pub struct Graph {
    context: Arc<Context>,
    raw: sys::aclmdlRI,
    nodes: usize,
    /// Dropped with it.
    kept: Captured,
}

// SAFETY: a graph is a handle; one thread at a time uses it, which no sharing of references breaks since it is not `Sync`.
unsafe impl Send for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Graph on {:?}", self.context)
    }
}

impl Graph {
    /// Launches, copies and settings of memory that it holds.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Runs the graph, when the stream gets there.
    ///
    /// # Errors
    /// A stream that is being captured; a device that was lost.
    pub fn launch(&self, stream: &Stream) -> Result<(), RuntimeError> {
        const ACTION: &str = "launching a graph";
        stream.is_of(&self.context, ACTION)?;
        if stream.is_captured() {
            return Err(refused(ACTION, "a graph holds no graphs".to_owned()));
        }
        // SAFETY: the graph and the stream are alive and of one context; what the graph uses is kept by it, and given back
        // only when nothing runs any more.
        stream.call(ACTION, "aclmdlRIExecuteAsync", |api, stream| unsafe {
            (api.acl.aclmdlRIExecuteAsync)(self.raw, stream)
        })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.raw.is_null() {
            return;
        }
        let (raw, gone) = (Handle(self.raw), Arc::new(AtomicBool::new(false)));
        // A launch may still be under way.
        let destroyed = Arc::clone(&gone);
        self.context.give_back(move |api| {
            // SAFETY: the graph is ours, and nothing runs any more.
            unsafe { (api.acl.aclmdlRIDestroy)(raw.get()) };
            destroyed.store(true, Ordering::Relaxed);
        });
        if !gone.load(Ordering::Relaxed) {
            // It is put off, and the launch may call them until then.
            std::mem::forget(std::mem::take(&mut self.kept.functions));
        }
    }
}

/// A mark in a stream that knows when the stream passed it.
pub struct Event {
    context: Arc<Context>,
    raw: sys::aclrtEvent,
}

// SAFETY: an event is a handle that the runtime lets every thread use.
unsafe impl Send for Event {}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Event on {:?}", self.context)
    }
}

impl Event {
    pub(super) fn new(context: &Arc<Context>) -> Result<Event, RuntimeError> {
        let action = "making an event";
        let mut raw = null_mut();
        let _current = context.enter().map_err(|failure| failure.during(action))?;
        // SAFETY: the function writes one handle; a context is current.
        let answer = unsafe { (context.api.acl.aclrtCreateEventWithFlag)(&mut raw, sys::ACL_EVENT_TIME_LINE) };
        context.api.said("aclrtCreateEventWithFlag", answer).map_err(|failure| failure.during(action))?;
        Ok(Event { context: Arc::clone(context), raw })
    }

    /// Marks the place that the stream has come to.
    ///
    /// # Errors
    /// A stream that is being captured; a device that was lost.
    pub fn record(&self, stream: &Stream) -> Result<(), RuntimeError> {
        const ACTION: &str = "recording an event";
        stream.is_of(&self.context, ACTION)?;
        if stream.is_captured() {
            return Err(refused(ACTION, "a graph holds no events that are timed".to_owned()));
        }
        // SAFETY: the event and the stream are alive and of one context.
        stream.call(ACTION, "aclrtRecordEvent", |api, stream| unsafe { (api.acl.aclrtRecordEvent)(self.raw, stream) })
    }

    /// Microseconds between two events that were recorded, once the later one is reached, which is waited for.
    ///
    /// # Errors
    /// An event that was not recorded; a device that was lost.
    pub fn us_until(&self, later: &Event) -> Result<f64, RuntimeError> {
        let action = "timing the device";
        let _current = self.context.enter().map_err(|failure| failure.during(action))?;
        let api = self.context.api;
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive; the function writes one number.
        unsafe {
            api.said("aclrtSynchronizeEvent", (api.acl.aclrtSynchronizeEvent)(later.raw))
                .and_then(|()| {
                    let answer = (api.acl.aclrtEventElapsedTime)(&mut milliseconds, self.raw, later.raw);
                    api.said("aclrtEventElapsedTime", answer)
                })
                .map_err(|failure| failure.during(action))?;
        }
        Ok(f64::from(milliseconds) * 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let raw = Handle(self.raw);
        // A stream may not have come to it.
        self.context.give_back(move |api| {
            // SAFETY: the event is ours, and nothing runs any more.
            unsafe { (api.acl.aclrtDestroyEvent)(raw.get()) };
        });
    }
}
