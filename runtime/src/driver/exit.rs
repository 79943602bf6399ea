//! What is to happen before a process ends.
#![allow(unsafe_code)]

use std::process::id;
use std::sync::OnceLock;

/// The process that asked, and what is to be called.
static ASKED: OnceLock<(u32, fn())> = OnceLock::new();

/// Calls a function when the process that asks for it ends by returning from `main` or by `exit`, before the libraries that
/// are loaded now are taken down. A process that is forked from it has none of its threads and calls nothing. The first
/// function of a process counts.
pub(crate) fn at_exit(call: fn()) {
    // Miri has no such function, and its processes no libraries.
    if ASKED.set((id(), call)).is_ok() && !cfg!(miri) {
        // SAFETY: the function is of the right kind and never unwinds: a panic in it aborts.
        unsafe { libc::atexit(run) };
    }
}

extern "C" fn run() {
    if let Some((process, call)) = ASKED.get()
        && *process == id()
    {
        call();
    }
}
