//! What is to happen before a process ends.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::path::PathBuf;
use std::process::id;
use std::sync::{Mutex, OnceLock, PoisonError};

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

/// Folders to be removed, and the process that each is of.
static FOLDERS: Mutex<Vec<(u32, PathBuf)>> = Mutex::new(Vec::new());

/// Removes a folder when the process that asks for it ends by returning from `main` or by `exit`. A process that is forked
/// from it leaves it.
pub fn remove_at_exit(folder: PathBuf) {
    let mut folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    if folders.is_empty() && !cfg!(any(miri, loom)) {
        // SAFETY: the function is of the right kind and never unwinds.
        unsafe { libc::atexit(remove) };
    }
    folders.push((id(), folder));
}

extern "C" fn remove() {
    let folders = FOLDERS.lock().unwrap_or_else(PoisonError::into_inner);
    for (_, folder) in folders.iter().filter(|(process, _)| *process == id()) {
        // What cannot be removed is for the system to clear.
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// How a thread ends: what belongs to it goes first, before anything of the process is taken down.
#[cfg_attr(not(all(target_os = "linux", not(any(miri, loom)))), allow(dead_code, reason = "threads have no numbers"))]
pub(crate) enum End {
    /// It is the first of the process, which ends with it.
    Process,
    /// It is another one: it ends alone, and is gone soon, or it ends the process, and stays until that is done.
    Thread(ThreadId),
}

/// The system's number of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ThreadId(pub i32);

/// Calls a function when the thread that asks ends. Only where threads have numbers: on Linux.
pub(crate) fn at_end_of_this_thread(call: fn(End)) {
    thread_local!(static LAST: Last = const { Last(Cell::new(None)) });
    // A thread that is ending has nothing of its own any more.
    let _ = LAST.try_with(|last| last.0.set(Some((id(), call))));
}

/// The process that asked, and what is to be called.
type Asked = (u32, fn(End));

/// Something of a thread.
struct Last(Cell<Option<Asked>>);

impl Drop for Last {
    fn drop(&mut self) {
        if let (Some((process, call)), Some(end)) = (self.0.get(), end_of_this_thread())
            && process == id()
        {
            call(end);
        }
    }
}

fn end_of_this_thread() -> Option<End> {
    #[cfg(all(target_os = "linux", not(any(miri, loom))))]
    {
        // SAFETY: both take nothing, and always succeed.
        let (this, first) = unsafe { (libc::gettid(), libc::getpid()) };
        Some(if this == first { End::Process } else { End::Thread(ThreadId(this)) })
    }
    #[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
    None
}

impl ThreadId {
    /// Whether the thread has not ended.
    pub fn lives(self) -> bool {
        #[cfg(all(target_os = "linux", not(any(miri, loom))))]
        // SAFETY: no signal is sent; the call says whether one could be.
        return unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0, 0) } == 0;
        #[cfg(not(all(target_os = "linux", not(any(miri, loom)))))]
        return false;
    }
}

extern "C" fn run() {
    if let Some((process, call)) = ASKED.get()
        && *process == id()
    {
        call();
    }
}
