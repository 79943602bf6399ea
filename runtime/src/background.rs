//! Work behind the calls of a program: one thread of this process, which compiles what is better had later.
//!
//! Nobody waits for it but those who ask to. Its priority is low, so that it takes what callers leave of the processor. A
//! process that ends lets it finish what it is at, because a compiler must not run while its own libraries are taken down,
//! and drops the rest. That is certain where the first thread of the process gave work and ends it; where another one did,
//! not while the compiler is at what it has not met before.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};

use crate::driver::{at_exit, at_exit_of_this_thread};

type Job = Box<dyn FnOnce() + Send>;

/// What is open, and who waits for it.
struct Progress {
    /// Jobs that are not done. Who adds one takes no lock.
    open: AtomicUsize,
    waiting: Mutex<()>,
    changed: Condvar,
    /// Set when the process ends: no job begins any more.
    ended: AtomicBool,
}

static PROGRESS: Progress = Progress {
    open: AtomicUsize::new(0),
    waiting: Mutex::new(()),
    changed: Condvar::new(),
    ended: AtomicBool::new(false),
};

impl Progress {
    fn wait(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while self.open.load(Ordering::SeqCst) > 0 {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self) {
        if self.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            // Who waits is either before the look at `open` or asleep.
            drop(self.waiting.lock());
            self.changed.notify_all();
        }
    }
}

/// Does a job when all that were given before are done. It is dropped undone if the process has no thread for it, or ends.
pub(crate) fn submit(job: Job) {
    if let Some(jobs) = jobs() {
        at_exit_of_this_thread();
        PROGRESS.open.fetch_add(1, Ordering::SeqCst);
        if jobs.send(job).is_err() {
            PROGRESS.done();
        }
    }
}

/// Waits until nothing is left to be compiled behind the calls of this process.
pub fn settle() {
    PROGRESS.wait();
}

/// The way to the thread, which is started first.
fn jobs() -> Option<&'static Sender<Job>> {
    static JOBS: OnceLock<Option<Sender<Job>>> = OnceLock::new();
    let start = || {
        let (send, receive) = channel();
        at_exit(end);
        let thread = std::thread::Builder::new().name("fusewright-compile".to_owned());
        thread.spawn(move || serve(&receive)).ok().map(|_| send)
    };
    JOBS.get_or_init(start).as_ref()
}

fn serve(jobs: &Receiver<Job>) {
    // On Linux the priority is the thread's own; where it is not to be had, the work is in the way a little more.
    #[cfg(all(target_os = "linux", not(miri)))]
    let _ = rustix::process::setpriority_process(None, 10);
    for (job, before) in jobs.iter().zip(0u32..) {
        if !PROGRESS.ended.load(Ordering::SeqCst) {
            // A job that panics is one that was not done.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
            // A compiler constructs more of itself the more it has met, less and less often.
            if (before + 1).is_power_of_two() {
                at_exit(end);
            }
        }
        PROGRESS.done();
    }
}

/// Waits for the job at hand, when the process ends.
fn end() {
    PROGRESS.ended.store(true, Ordering::SeqCst);
    PROGRESS.wait();
}
