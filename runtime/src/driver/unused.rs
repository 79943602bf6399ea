//! What is given back to a device once nothing runs on it: waiting for all of a device breaks captures of other threads, so
//! that it is put off while there are any.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is not used any more and not given back yet, and how many captures are underway.
pub(super) struct Unused<T>(Mutex<State<T>>);

struct State<T> {
    captures: usize,
    waiting: Vec<T>,
}

/// A handle of a driver or library, which lets every thread use it.
pub(super) struct Handle<T>(pub T);

// SAFETY: as said; it is no more than a name for what the driver has.
unsafe impl<T> Send for Handle<T> {}

impl<T> Handle<T> {
    pub fn get(self) -> T {
        self.0
    }
}

impl<T> Unused<T> {
    pub fn new() -> Self {
        Unused(Mutex::new(State { captures: 0, waiting: Vec::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A capture begins, once nothing is being given back.
    pub fn begin_capture(&self) {
        self.state().captures += 1;
    }

    /// A capture has ended. The last one has what was put off given back.
    pub fn end_capture(&self, give_back: impl FnOnce(Vec<T>)) {
        let mut state = self.state();
        state.captures -= 1;
        state.settle(give_back);
    }

    /// Has something given back: now, or with the end of the last capture. No capture begins meanwhile.
    pub fn add(&self, thing: T, give_back: impl FnOnce(Vec<T>)) {
        let mut state = self.state();
        state.waiting.push(thing);
        state.settle(give_back);
    }
}

impl<T> State<T> {
    fn settle(&mut self, give_back: impl FnOnce(Vec<T>)) {
        if self.captures == 0 && !self.waiting.is_empty() {
            give_back(std::mem::take(&mut self.waiting));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_given_back_during_captures() {
        let (unused, mut given) = (Unused::new(), Vec::new());
        unused.add(1, |all| given.push(all));
        unused.begin_capture();
        unused.begin_capture();
        unused.add(2, |all| given.push(all));
        unused.end_capture(|all| given.push(all));
        unused.add(3, |all| given.push(all));
        assert_eq!(given, [vec![1]]);
        unused.end_capture(|all| given.push(all));
        assert_eq!(given, [vec![1], vec![2, 3]]);
        unused.begin_capture();
        unused.end_capture(|all| given.push(all));
        assert_eq!(given.len(), 2, "there is nothing more");
    }
}
