//! What is to happen before a process ends.
#![allow(unsafe_code)]

use std::process::id;
use std::sync::OnceLock;

/// The process that asked, and what is to be called.
static ASKED: OnceLock<(u32, fn())> = OnceLock::new();

/// Calls a function when the process that asks for it ends by returning from `main` or by `exit`, before what is loaded or
/// constructed now is taken down: libraries construct some of what they need when they first run, and who used one since
/// asks again. It may be called more than once. A process that is forked from it has none of its threads and calls
/// nothing. The first function of a process counts.
pub(crate) fn at_exit(call: fn()) {
    let (process, _) = ASKED.get_or_init(|| (id(), call));
    // Under Miri there is no such function, and nothing that needs it; under loom nothing outlives a test.
    if *process == id() && !cfg!(any(miri, loom)) {
        // SAFETY: the function is of the right kind and never unwinds: a panic in it aborts.
        unsafe { libc::atexit(run) };
    }
}

/// Calls the function of [`at_exit`] before anything at all is taken down, if the thread that asks is the first of the
/// process and the one that ends it: what belongs to that thread goes first.
pub(crate) fn at_exit_of_this_thread() {
    thread_local!(static LAST: Last = const { Last });
    // A thread that is ending has nothing of its own any more.
    let _ = LAST.try_with(|_| ());
}

/// Something of a thread.
struct Last;

impl Drop for Last {
    fn drop(&mut self) {
        if is_first_thread() {
            run();
        }
    }
}

/// Whether this thread ends the process when it ends.
fn is_first_thread() -> bool {
    #[cfg(all(target_os = "linux", not(any(miri, loom))))]
    // SAFETY: both take nothing, and always succeed.
    return unsafe { libc::gettid() == libc::getpid() };
    #[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
    return false;
}

extern "C" fn run() {
    if let Some((process, call)) = ASKED.get()
        && *process == id()
    {
        call();
    }
}
