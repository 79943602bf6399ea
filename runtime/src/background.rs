//! Work behind the calls of a program: one thread of this process, which compiles what is better had later.
//!
//! Nobody waits for it but those who ask to. Its priority is low, so that it takes what callers leave of the processor. A
//! process that ends lets it finish what it is at, because a compiler must not run while its own libraries are taken down,
//! and drops the rest. It is certain, on Linux, where a thread ends the process that gave work: what belongs to that thread
//! goes before all libraries. A thread that only ends itself waits for the job at hand too, for nothing tells the two
//! apart; the next job begins when that thread is gone.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::driver::{End, ThreadId, at_end_of_this_thread, at_exit};
use crate::sync::{AtomicBool, AtomicUsize, Condvar, Mutex, Receiver, Sender, channel, shared, start_thread};

/// How often a job that may not begin looks whether it may.
const PATIENCE: Duration = Duration::from_millis(2);

/// Bytes of stack that a thread has which compiles: compilers follow values to what they are computed of, and a kernel may
/// be a chain of hundreds of functions, each of many instructions. What is not used takes no memory.
pub const COMPILE_STACK: usize = 256 << 20;

type Job = Box<dyn FnOnce() + Send>;

shared! {
    static BACKGROUND: Background = Background::start;
}

/// Does a job when all that were given before are done. It is dropped undone if the process has no thread for it, or ends.
pub(crate) fn submit(job: Job) {
    let background = &*BACKGROUND;
    at_end_of_this_thread(end_of_thread);
    background.submit(job);
}

/// Waits until nothing is left to be compiled behind the calls of this process.
pub fn settle() {
    BACKGROUND.settle();
}

/// Waits for the job at hand, when the process ends.
fn end() {
    BACKGROUND.end();
}

/// Waits for the job at hand, when a thread ends that gave work.
fn end_of_thread(how: End) {
    match how {
        End::Process => BACKGROUND.end(),
        End::Thread(thread) => BACKGROUND.pause(thread),
    }
}

/// The thread, and the way to it.
pub(crate) struct Background {
    progress: Arc<Progress>,
    /// None where there is no thread to be had.
    jobs: Option<Sender<Job>>,
}

impl Background {
    pub fn start() -> Background {
        let (progress, (send, receive)) = (Arc::new(Progress::default()), channel());
        let own = Arc::clone(&progress);
        at_exit(end);
        let started = start_thread("fusewright-compile", Some(COMPILE_STACK), move || serve(&own, &receive));
        Background { progress, jobs: started.then_some(send) }
    }

    pub fn submit(&self, job: Job) {
        let Some(jobs) = &self.jobs else { return };
        self.progress.open.fetch_add(1, Ordering::SeqCst);
        if jobs.send(job).is_err() {
            self.progress.done();
        }
    }

    pub fn settle(&self) {
        self.progress.wait();
    }

    /// Waits for the job at hand; no other begins while the thread lives.
    fn pause(&self, thread: ThreadId) {
        *self.progress.ending.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
        drop(self.progress.at_hand.lock());
    }

    pub fn end(&self) {
        self.progress.ended.store(true, Ordering::SeqCst);
        self.progress.wait();
    }
}

/// What is open, and who waits for it.
#[derive(Default)]
struct Progress {
    /// Jobs that are not done. Who adds one takes no lock.
    open: AtomicUsize,
    waiting: Mutex<()>,
    changed: Condvar,
    /// Set when the process ends: no job begins any more.
    ended: AtomicBool,
    /// Held while a job is done.
    at_hand: Mutex<()>,
    /// A thread that may be ending the process.
    ending: Mutex<Option<ThreadId>>,
}

impl Progress {
    fn wait(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while self.open.load(Ordering::SeqCst) > 0 {
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether no thread may be ending the process.
    fn may_begin(&self) -> bool {
        let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        *ending = ending.filter(|thread| thread.lives());
        ending.is_none()
    }

    /// Does a job, when no thread may be ending the process, unless one did.
    fn begin(&self, job: Job, again: bool) {
        loop {
            let at_hand = self.at_hand.lock();
            if self.ended.load(Ordering::SeqCst) {
                return;
            }
            if self.may_begin() {
                // A job that panics is one that was not done.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
                if again {
                    at_exit(end);
                }
                return;
            }
            drop(at_hand);
            std::thread::sleep(PATIENCE);
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

fn serve(progress: &Progress, jobs: &Receiver<Job>) {
    // On Linux the priority is the thread's own; where it is not to be had, the work is in the way a little more.
    #[cfg(all(target_os = "linux", not(any(miri, loom))))]
    let _ = rustix::process::setpriority_process(None, 10);
    for (job, before) in jobs.iter().zip(0u32..) {
        // A compiler constructs more of itself the more it has met, less and less often.
        progress.begin(job, (before + 1).is_power_of_two());
        progress.done();
    }
}
