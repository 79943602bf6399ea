//! What nobody has any more and streams may still use: it goes back to the device when they are done with it.
//!
//! Memory goes back in order of the stream that used it; if several did, of a stream that waits for a mark on each of them.
//! Code goes back when it is found that all marks are passed. Where a stream is being captured nothing can be enqueued on it,
//! and where a stream of ours is, no code goes back: that is put off till later. Nothing here waits.

use std::collections::VecDeque;
use std::fmt;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fusewright_cuda_sys as sys;

use super::context::Context;
use super::following::{Appended, Line, Mark, Marked};

/// What waits to go back to a device.
pub(super) struct Freeing {
    /// Where memory goes back that several streams used; no other work is on it.
    stream: sys::CUstream,
    state: Mutex<State>,
}

// SAFETY: streams are handles that the driver lets every thread use.
unsafe impl Send for Freeing {}
// SAFETY: as above.
unsafe impl Sync for Freeing {}

#[derive(Default)]
struct State {
    /// Captures of streams of our own.
    captures: usize,
    /// What used streams on which no mark could be set.
    unmarked: Vec<(Thing, Vec<Arc<Line>>)>,
    /// Code by the time at which it was given up.
    marked: VecDeque<(Module, Vec<Arc<Mark>>)>,
}

/// What goes back.
#[derive(Clone, Copy)]
pub(super) enum Thing {
    Memory(sys::CUdeviceptr),
    Code(Module),
}

/// The handle of a module.
#[derive(Clone, Copy)]
pub(super) struct Module(pub sys::CUmodule);

// SAFETY: modules are handles that the driver lets every thread use.
unsafe impl Send for Module {}

impl Default for Freeing {
    fn default() -> Self {
        Freeing::new(null_mut())
    }
}

impl fmt::Debug for Freeing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        write!(f, "Freeing({} unmarked, {} marked)", state.unmarked.len(), state.marked.len())
    }
}

impl Freeing {
    /// With a stream of its own.
    pub fn new(stream: sys::CUstream) -> Freeing {
        Freeing { stream, state: Mutex::default() }
    }

    /// The stream.
    pub fn stream(&self) -> sys::CUstream {
        self.stream
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    /// Gives something back once the streams that it was used on are done with it. Where that cannot be known, it is lost,
    /// which harms nobody; what is given back too early does.
    pub fn give_back(self: &Arc<Self>, thing: Thing, lines: Vec<Arc<Line>>) {
        let Ok(_aside) = self.enter_beside_captures() else { return };
        let mut state = self.freeing.state();
        self.mark(&mut state, thing, lines);
        self.settle_marked(&mut state);
    }

    /// Gives back what was put off and can go now.
    pub fn settle(self: &Arc<Self>) {
        let mut state = self.freeing.state();
        if state.unmarked.is_empty() && state.marked.is_empty() {
            return;
        }
        let Ok(_aside) = self.enter_beside_captures() else { return };
        for (thing, lines) in std::mem::take(&mut state.unmarked) {
            self.mark(&mut state, thing, lines);
        }
        self.settle_marked(&mut state);
    }

    /// A capture of a stream of our own begins.
    pub fn begin_capture(&self) {
        self.freeing.state().captures += 1;
    }

    /// A capture of a stream of our own has ended.
    pub fn end_capture(self: &Arc<Self>) {
        self.freeing.state().captures -= 1;
        self.settle();
    }

    /// Sets the marks that something waits for. The context is current, beside what is captured.
    fn mark(self: &Arc<Self>, state: &mut State, thing: Thing, lines: Vec<Arc<Line>>) {
        if let (Thing::Memory(address), [line]) = (thing, lines.as_slice()) {
            match line.append(self, |stream| self.free(address, stream)) {
                Appended::Done => return,
                Appended::Captured => return state.unmarked.push((thing, lines)),
                Appended::Gone => {}
            }
        }
        let mut marks = Vec::with_capacity(lines.len());
        for line in &lines {
            match line.mark(self) {
                Marked::Set(mark) => marks.push(mark),
                Marked::Captured => return state.unmarked.push((thing, lines)),
                Marked::Lost => return,
            }
        }
        marks.retain(|mark| !mark.is_passed());
        match thing {
            Thing::Code(module) => state.marked.push_back((module, marks)),
            // Nothing holds up the stream of allocations.
            Thing::Memory(address) if marks.is_empty() => self.free(address, self.stream),
            Thing::Memory(address) => {
                let stream = self.freeing.stream;
                if marks.iter().all(|mark| mark.holds_up(stream)) {
                    self.free(address, stream);
                }
            }
        }
    }

    /// Frees memory behind what is on a stream of the context, which is current.
    fn free(&self, address: sys::CUdeviceptr, stream: sys::CUstream) {
        // SAFETY: the memory is ours, and all that uses it is ahead on the stream.
        unsafe { self.api.driver.cuMemFreeAsync(address, stream) };
    }

    /// Gives code back whose marks are passed, in the order in which it was given up. The context is current, beside what is
    /// captured.
    fn settle_marked(&self, state: &mut State) {
        while state.captures == 0
            && state.marked.front().is_some_and(|(_, marks)| marks.iter().all(|mark| mark.is_passed()))
        {
            if let Some((module, _)) = state.marked.pop_front() {
                // SAFETY: the module is ours, and all streams that ran its code have passed that.
                unsafe { self.api.driver.cuModuleUnload(module.0) };
            }
        }
    }
}
