//! Which streams use what is on a device.
//!
//! Whatever may go back to a device (memory, code) notes the streams that work was enqueued on which uses it. When nobody
//! has it any more, a mark is set on each of these streams, behind that work, and it goes back when all marks are passed
//! (`freeing.rs`). So nobody waits, and no stream waits for another.

use std::collections::BTreeMap;
use std::fmt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fusewright_cuda_sys as sys;

use super::context::Context;

/// Events without a time.
const UNTIMED: u32 = 2;
/// Names of streams that every caller has: the default stream, by its two names, and that of each thread.
const DEFAULT: usize = 1;
const OF_EACH_THREAD: usize = 2;
/// The name of no stream.
const NONE: u64 = u64::MAX;
/// Most streams that are noted before it is looked which of them are done.
const MOST_LINES: usize = 8;

/// A stream as those know it that were used on it. It outlives the stream.
pub(super) struct Line {
    /// No other line has had it.
    id: u64,
    state: Mutex<State>,
}

enum State {
    /// The stream is there.
    Open(Raw),
    /// The stream was destroyed; the mark is behind its last work.
    Closed(Arc<Mark>),
    /// Where its work has come to is not to be had.
    Unknown,
}

/// The handle of a stream.
#[derive(Clone, Copy)]
struct Raw(sys::CUstream);

// SAFETY: streams are handles that the driver lets every thread use.
unsafe impl Send for Raw {}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line({})", self.id)
    }
}

/// An event that was recorded on a stream.
pub(super) struct Mark {
    context: Arc<Context>,
    raw: sys::CUevent,
}

// SAFETY: an event is a handle that the driver lets every thread use.
unsafe impl Send for Mark {}
// SAFETY: as above.
unsafe impl Sync for Mark {}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mark on {:?}", self.context)
    }
}

/// What became of setting a mark.
pub(super) enum Marked {
    /// It is behind all that uses what is to go back.
    Set(Arc<Mark>),
    /// The stream is being captured: a mark would become part of the graph.
    Captured,
    /// There is none to be had.
    Lost,
}

/// What became of something that was to be enqueued.
pub(super) enum Appended {
    /// It is.
    Done,
    /// The stream is being captured.
    Captured,
    /// The stream is not there any more.
    Gone,
}

impl Mark {
    /// Sets one where a stream has come to. The stream is alive and not being captured, and its context is current.
    fn set(context: &Arc<Context>, stream: sys::CUstream) -> Option<Mark> {
        let (api, mut raw) = (context.api, null_mut());
        // SAFETY: the function writes one handle; a context is current.
        let made = unsafe { api.driver.cuEventCreate(&mut raw, UNTIMED) };
        if made != sys::CUDA_SUCCESS {
            return None;
        }
        let mark = Mark { context: Arc::clone(context), raw };
        // SAFETY: the event and the stream are alive and of one context.
        let set = unsafe { api.driver.cuEventRecord(mark.raw, stream) };
        (set == sys::CUDA_SUCCESS).then_some(mark)
    }

    /// Whether the stream has passed it. The context is current, beside what is captured.
    pub fn is_passed(&self) -> bool {
        // SAFETY: the event is alive, and was recorded.
        unsafe { self.context.api.driver.cuEventQuery(self.raw) == sys::CUDA_SUCCESS }
    }

    /// Has a stream of its context, which is current, wait for it; whether it does.
    pub fn holds_up(&self, stream: sys::CUstream) -> bool {
        // SAFETY: both are alive and of the current context.
        unsafe { self.context.api.driver.cuStreamWaitEvent(stream, self.raw, 0) == sys::CUDA_SUCCESS }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Ok(_current) = self.context.enter() {
            // SAFETY: the event is ours; what waits for it goes on doing so.
            unsafe { self.context.api.driver.cuEventDestroy_v2(self.raw) };
        }
    }
}

impl Line {
    fn new(id: u64, state: State) -> Arc<Line> {
        Arc::new(Line { id, state: Mutex::new(state) })
    }

    /// Of a stream of our own.
    pub fn own(raw: sys::CUstream) -> Arc<Line> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        // Handles of callers' streams are even.
        Line::new(NEXT.fetch_add(1, Ordering::Relaxed) << 1 | 1, State::Open(Raw(raw)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A mark behind all that was enqueued so far. The context is current, beside what is captured.
    pub fn mark(&self, context: &Arc<Context>) -> Marked {
        // Held while the stream is used: who destroys it waits.
        match &*self.state() {
            State::Open(raw) => mark(context, raw.0),
            State::Closed(mark) => Marked::Set(Arc::clone(mark)),
            State::Unknown => Marked::Lost,
        }
    }

    /// Has the stream do something behind all that was enqueued so far, if it is there and not being captured. The context is
    /// current, beside what is captured.
    pub fn append(&self, context: &Context, enqueue: impl FnOnce(sys::CUstream)) -> Appended {
        match &*self.state() {
            State::Open(raw) if is_captured(context, raw.0) => Appended::Captured,
            State::Open(raw) => {
                enqueue(raw.0);
                Appended::Done
            }
            State::Closed(_) | State::Unknown => Appended::Gone,
        }
    }

    /// The stream is about to be destroyed. The context is current.
    pub fn close(self: &Arc<Self>, context: &Arc<Context>) {
        let mut state = self.state();
        let State::Open(raw) = *state else { return };
        // Where nobody else has the line, there is nobody to ask for the mark.
        let asked = Arc::strong_count(self) > 1;
        *state = match mark(context, raw.0) {
            Marked::Set(mark) if asked => State::Closed(mark),
            _ => State::Unknown,
        };
    }

    /// Whether the stream is gone and its work is done.
    fn is_done(&self) -> bool {
        let State::Closed(mark) = &*self.state() else { return false };
        mark.context.enter_beside_captures().is_ok_and(|_aside| mark.is_passed())
    }
}

/// Whether a stream is being captured.
fn is_captured(context: &Context, stream: sys::CUstream) -> bool {
    let mut status = sys::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream is alive; the function writes one number. Of the default stream it says by its status that a
    // capture of another is in its way.
    let said = unsafe { context.api.driver.cuStreamIsCapturing(stream, &mut status) };
    said != sys::CUDA_SUCCESS || status != sys::CU_STREAM_CAPTURE_STATUS_NONE
}

/// Sets a mark on a stream, unless it is being captured.
fn mark(context: &Arc<Context>, stream: sys::CUstream) -> Marked {
    if is_captured(context, stream) {
        return Marked::Captured;
    }
    Mark::set(context, stream).map_or(Marked::Lost, |mark| Marked::Set(Arc::new(mark)))
}

/// The lines of the streams of callers, by their handles.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<BTreeMap<u64, Arc<Line>>>);

/// How a stream's work is followed.
#[derive(Clone, Debug)]
pub(super) enum Following {
    /// It is a stream of our own.
    Own(Arc<Line>),
    /// It is a caller's that stays for as long as anything that was used on it.
    Shared(usize),
    /// It is a caller's who keeps everything until its work is done.
    Never,
}

impl Following {
    /// A number that tells streams that are followed from each other.
    pub fn id(&self) -> u64 {
        match self {
            Following::Own(line) => line.id,
            Following::Shared(DEFAULT) => 0,
            Following::Shared(raw) => *raw as u64,
            Following::Never => NONE,
        }
    }

    fn line(&self, lines: &Lines) -> Option<Arc<Line>> {
        match self {
            Following::Own(line) => Some(Arc::clone(line)),
            Following::Never => None,
            Following::Shared(raw) => {
                let mut lines = lines.0.lock().unwrap_or_else(PoisonError::into_inner);
                let handle = std::ptr::with_exposed_provenance_mut(*raw);
                let state = match *raw {
                    // It is another stream in another thread, which nobody can name there.
                    OF_EACH_THREAD => State::Unknown,
                    _ => State::Open(Raw(handle)),
                };
                let id = self.id();
                Some(Arc::clone(lines.entry(id).or_insert_with(|| Line::new(id, state))))
            }
        }
    }
}

/// The streams that something was used on.
#[derive(Debug)]
pub(super) struct Uses {
    /// That of the last use, by its number.
    last: AtomicU64,
    lines: Mutex<Vec<Arc<Line>>>,
}

impl Default for Uses {
    fn default() -> Self {
        Uses { last: AtomicU64::new(NONE), lines: Mutex::default() }
    }
}

impl Uses {
    /// Whether the last use was on the stream of a number, so that there is nothing to note.
    #[inline]
    pub fn was_last_on(&self, id: u64) -> bool {
        self.last.load(Ordering::Relaxed) == id
    }

    /// Notes a use on a stream of a context, before it is enqueued.
    #[cold]
    pub fn note(&self, stream: &Following, context: &Context) {
        if let Some(line) = stream.line(&context.lines) {
            self.add(&line);
        }
    }

    /// Notes a use on a line.
    pub fn add(&self, line: &Arc<Line>) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if !lines.iter().any(|known| known.id == line.id) {
            if lines.len() >= MOST_LINES {
                lines.retain(|line| !line.is_done());
            }
            lines.push(Arc::clone(line));
        }
        self.last.store(line.id, Ordering::Relaxed);
    }

    /// All of them; none are left.
    pub fn take(&mut self) -> Vec<Arc<Line>> {
        *self.last.get_mut() = NONE;
        std::mem::take(self.lines.get_mut().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What work on a device uses and must live as long as it.
pub(super) trait Used: Send + Sync {
    /// Notes a use on a line.
    fn used_on(&self, line: &Arc<Line>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_told_apart() {
        let (first, second) = (Line::own(null_mut()), Line::own(null_mut()));
        let all = [
            Following::Own(first),
            Following::Own(second),
            Following::Shared(0),
            Following::Shared(4096),
            Following::Shared(OF_EACH_THREAD),
            Following::Never,
        ];
        let mut ids: Vec<u64> = all.iter().map(Following::id).collect();
        assert_eq!(Following::Shared(DEFAULT).id(), Following::Shared(0).id());
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all.len());
    }

    #[test]
    fn a_stream_is_noted_once() {
        let mut uses = Uses::default();
        let (a, b) = (Line::own(null_mut()), Line::own(null_mut()));
        for line in [&a, &a, &b, &a, &b] {
            uses.add(line);
        }
        assert_eq!(uses.take().iter().map(|line| line.id).collect::<Vec<_>>(), [a.id, b.id]);
        assert!(uses.take().is_empty());
    }
}
