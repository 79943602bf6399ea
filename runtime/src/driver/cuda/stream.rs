//! Streams, events, and graphs of what was enqueued on a stream.

use std::cell::RefCell;
use std::ptr::null_mut;
use std::sync::Arc;

use fusewright_cuda_sys as sys;

use super::api::{Api, Failure};
use super::buffer::refused;
use super::context::Context;
use super::following::{Following, Line, Used, Uses};
use crate::RuntimeError;

/// What work on the device uses and must live as long as it.
pub(super) type Kept = Arc<dyn Used>;

/// A stream: what is enqueued on it runs in order. It belongs to one thread at a time.
pub struct Stream {
    context: Arc<Context>,
    raw: sys::CUstream,
    following: Following,
    /// The number of what is followed.
    id: u64,
    /// What a graph that is being captured uses.
    captured: RefCell<Option<Vec<Kept>>>,
}

// SAFETY: a stream is a handle that the driver lets every thread use; what a capture keeps may move too.
unsafe impl Send for Stream {}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Stream of {:?}", self.context)
    }
}

impl Stream {
    /// A stream that is ours from now on.
    pub(super) fn own(context: Arc<Context>, raw: sys::CUstream) -> Stream {
        Stream::of_caller(context, raw, Following::Own(Line::own(raw)))
    }

    /// A caller's.
    pub(super) fn of_caller(context: Arc<Context>, raw: sys::CUstream, following: Following) -> Stream {
        Stream { context, raw, id: following.id(), following, captured: RefCell::new(None) }
    }

    pub(super) fn raw(&self) -> sys::CUstream {
        self.raw
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Notes that something is used on the stream, before that is enqueued.
    #[inline]
    pub(super) fn uses(&self, uses: &Uses) {
        // Most things are used on one stream over and over.
        if !uses.was_last_on(self.id) {
            uses.note(&self.following, &self.context);
        }
    }

    /// Calls a function of the driver in the stream's context.
    pub(super) fn call(
        &self,
        action: &'static str,
        function: &'static str,
        call: impl FnOnce(&Api, sys::CUstream) -> sys::CUresult,
    ) -> Result<(), RuntimeError> {
        let current = self.context.enter().map_err(|failure| failure.during(action))?;
        let api = current.context.api;
        api.said(function, call(api, self.raw)).map_err(|failure| failure.during(action))
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
        let (stream, other) = (self.context.ordinal, context.ordinal);
        Err(refused(action, format!("the stream is of cuda:{stream}, and what it is to work on of cuda:{other}")))
    }

    /// Whether somebody else captures a graph of the stream, which keeps nothing of ours.
    pub(super) fn is_captured_elsewhere(&self) -> Result<bool, Failure> {
        if matches!(self.following, Following::Own(_)) || self.is_captured() {
            return Ok(false);
        }
        let (api, mut status) = (self.context.api, sys::CU_STREAM_CAPTURE_STATUS_NONE);
        // SAFETY: the stream is alive, as who gave it promised; the function writes one number.
        let said = unsafe { api.driver.cuStreamIsCapturing(self.raw, &mut status) };
        api.said("cuStreamIsCapturing", said)?;
        Ok(status != sys::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Has memory stay for as long as the stream uses it, and a graph that is being captured keep it.
    pub(super) fn keep(&self, memory: &Arc<super::buffer::Memory>, action: &'static str) -> Result<(), RuntimeError> {
        self.is_of(memory.context(), action)?;
        memory.used_by(self);
        if let Some(kept) = self.captured.borrow_mut().as_mut() {
            kept.push(Arc::clone(memory) as Kept);
        }
        Ok(())
    }

    /// Has a graph that is being captured keep what `kept` gives.
    pub(super) fn keep_with(&self, kept: impl FnOnce() -> Kept) {
        if let Some(all) = self.captured.borrow_mut().as_mut() {
            all.push(kept());
        }
    }

    /// Waits until all that was enqueued is done.
    ///
    /// # Errors
    /// A kernel that faulted; a stream that is being captured.
    pub fn wait(&self) -> Result<(), RuntimeError> {
        // SAFETY: the stream is of the current context and alive.
        self.call("waiting for the device", "cuStreamSynchronize", |api, raw| unsafe {
            api.driver.cuStreamSynchronize(raw)
        })?;
        self.context.settle();
        Ok(())
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
        // SAFETY: the stream is of the current context and alive. In this mode a library may load a kernel when it is first
        // launched, and other threads are not concerned.
        let begun = self.call(ACTION, "cuStreamBeginCapture", |api, raw| unsafe {
            api.driver.cuStreamBeginCapture_v2(raw, sys::CU_STREAM_CAPTURE_MODE_RELAXED)
        });
        if begun.is_err() {
            self.context.end_capture();
        }
        begun?;
        *self.captured.borrow_mut() = Some(Vec::new());
        // Ends the capture if `enqueue` panics, too.
        let capture = Capture { stream: self };
        let enqueued = enqueue(capture.stream);
        let (template, kept) = capture.end()?;
        enqueued?;
        Graph::new(&self.context, &template, kept)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if let Following::Own(line) = &self.following
            && let Ok(_aside) = self.context.enter_beside_captures()
        {
            line.close(&self.context);
            // SAFETY: the stream is ours; the driver lets it end what it has begun.
            unsafe { self.context.api.driver.cuStreamDestroy_v2(self.raw) };
        }
    }
}

/// A capture that has begun.
struct Capture<'s> {
    stream: &'s Stream,
}

impl Capture<'_> {
    /// The graph, and what it uses.
    fn end(self) -> Result<(Template, Vec<Kept>), RuntimeError> {
        let ended = self.finish();
        // `finish` is what a drop would do.
        std::mem::forget(self);
        ended
    }

    fn finish(&self) -> Result<(Template, Vec<Kept>), RuntimeError> {
        let mut raw = null_mut();
        // SAFETY: the stream is being captured; the function writes the graph's handle, or null.
        let ended = self.stream.call("capturing a graph", "cuStreamEndCapture", |api, stream| unsafe {
            api.driver.cuStreamEndCapture(stream, &mut raw)
        });
        self.stream.context.end_capture();
        let kept = self.stream.captured.borrow_mut().take().unwrap_or_default();
        let template = Template { context: Arc::clone(&self.stream.context), raw };
        ended.map(|()| (template, kept))
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        // The graph is not wanted.
        let _ = self.finish();
    }
}

/// A graph that was captured and cannot be launched yet.
struct Template {
    context: Arc<Context>,
    raw: sys::CUgraph,
}

impl Drop for Template {
    fn drop(&mut self) {
        if !self.raw.is_null()
            && let Ok(_current) = self.context.enter()
        {
            // SAFETY: the graph is ours.
            unsafe { self.context.api.driver.cuGraphDestroy(self.raw) };
        }
    }
}

/// Work that was captured and can be launched again and again. It keeps the kernels and buffers that it uses.
pub struct Graph {
    context: Arc<Context>,
    raw: sys::CUgraphExec,
    nodes: usize,
    kept: Vec<Kept>,
    uses: Uses,
}

// SAFETY: an executable graph is a handle; the driver wants it used by one thread at a time, which no sharing of
// references breaks since it is not `Sync`.
unsafe impl Send for Graph {}

impl std::fmt::Debug for Graph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Graph on {:?}", self.context)
    }
}

impl Graph {
    fn new(context: &Arc<Context>, template: &Template, kept: Vec<Kept>) -> Result<Graph, RuntimeError> {
        const ACTION: &str = "making a graph";
        let (mut raw, mut nodes) = (null_mut(), 0);
        let _current = context.enter().map_err(|failure| failure.during(ACTION))?;
        let api = context.api;
        // SAFETY: the graph is captured and alive; without an array the function writes the number of nodes alone.
        let status = unsafe { api.driver.cuGraphGetNodes(template.raw, null_mut(), &mut nodes) };
        api.said("cuGraphGetNodes", status).map_err(|failure| failure.during(ACTION))?;
        // SAFETY: the graph is captured and alive; the function writes one handle.
        let status = unsafe { api.driver.cuGraphInstantiateWithFlags(&mut raw, template.raw, 0) };
        api.said("cuGraphInstantiate", status).map_err(|failure| failure.during(ACTION))?;
        Ok(Graph { context: Arc::clone(context), raw, nodes, kept, uses: Uses::default() })
    }

    /// Launches, copies and settings of memory that it holds.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Sends the graph to the device, which its first launch would else do.
    ///
    /// # Errors
    /// Too little memory; a device that was lost.
    pub fn upload(&self, stream: &Stream) -> Result<(), RuntimeError> {
        stream.is_of(&self.context, "sending a graph")?;
        // SAFETY: the graph and the stream are alive and of one context.
        stream.call("sending a graph", "cuGraphUpload", |api, stream| unsafe {
            api.driver.cuGraphUpload(self.raw, stream)
        })
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
        stream.uses(&self.uses);
        // SAFETY: the graph and the stream are alive and of one context; what the graph uses is kept by it, and given back
        // only when the stream has passed this launch.
        stream.call(ACTION, "cuGraphLaunch", |api, stream| unsafe { api.driver.cuGraphLaunch(self.raw, stream) })
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: the graph is ours; the driver lets a launch that is under way end.
            unsafe { self.context.api.driver.cuGraphExecDestroy(self.raw) };
        }
        for line in self.uses.take() {
            self.kept.iter().for_each(|kept| kept.used_on(&line));
        }
    }
}

/// A mark in a stream that knows when the stream passed it.
pub struct Event {
    context: Arc<Context>,
    raw: sys::CUevent,
}

// SAFETY: an event is a handle that the driver lets every thread use.
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
        // SAFETY: the function writes one handle; a context is current. No flags: the event is timed.
        let status = unsafe { context.api.driver.cuEventCreate(&mut raw, 0) };
        context.api.said("cuEventCreate", status).map_err(|failure| failure.during(action))?;
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
        stream.call(ACTION, "cuEventRecord", |api, stream| unsafe { api.driver.cuEventRecord(self.raw, stream) })
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
            api.said("cuEventSynchronize", api.driver.cuEventSynchronize(later.raw))
                .and_then(|()| {
                    let status = api.driver.cuEventElapsedTime(&mut milliseconds, self.raw, later.raw);
                    api.said("cuEventElapsedTime", status)
                })
                .map_err(|failure| failure.during(action))?;
        }
        Ok(f64::from(milliseconds) * 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: the event is ours; the driver waits for what still uses it.
            unsafe { self.context.api.driver.cuEventDestroy_v2(self.raw) };
        }
    }
}
