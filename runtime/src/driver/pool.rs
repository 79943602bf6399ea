//! Threads that launches share: the pool that waits for them, and what a caller may bring in its place.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::sync::{AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, spin_loop, start_thread};

/// Runs a launch on several threads. What a pool does decides how fast a launch is, never what it computes: `work` hands
/// out ranges of rows by itself, so that too few, too many or late calls of it do no harm.
pub trait Pool: fmt::Debug + Send + Sync {
    /// Calls `work` on this thread and on up to `others` more at once, and returns when all calls have returned.
    fn run(&self, others: usize, work: &(dyn Fn() + Sync));

    /// How many bytes a launch must read and write for each thread, at least, so that it is faster with than without.
    fn bytes_per_thread(&self) -> usize {
        CUT_OVER
    }

    /// How many nanoseconds of work a launch of fewer bytes must have for each thread, at least; none if bytes alone count.
    /// How long a launch takes is measured, since bytes say nothing of what is bound by arithmetic.
    fn nanos_per_thread(&self) -> Option<u64> {
        None
    }

    /// As [`Pool::run`], for so many nanoseconds of work, which is too little to wake threads for.
    fn run_small(&self, others: usize, _nanos: u64, work: &(dyn Fn() + Sync)) {
        self.run(others, work);
    }
}

/// What a thread must have to do to be worth waking. Measured (`benches/launch.rs`, `pool`), a second thread costs a launch
/// 1 µs if it has just worked and 7 µs and more if it sleeps, in which one thread moves some 64 KiB.
const CUT_OVER: usize = 128 << 10;
/// What a thread that looks for work must have to do, in nanoseconds: twice what it costs the launch.
const JOIN_NANOS: u64 = 2000;
/// What waking a thread costs a launch, in nanoseconds.
const WAKE_NANOS: u64 = 8000;
/// Launches that are no farther apart come one after another: a thread that the first wakes still looks for work at the next.
const BESIDE: Duration = Duration::from_micros(30);
/// How often a thread looks for work, or for the end of it, before it sleeps: some tens of microseconds, in which the next
/// launch of a model comes.
const LOOKS: usize = if cfg!(loom) { 1 } else { 2000 };

/// The pool of this process, whose threads start when a launch first asks for them.
pub fn shared() -> Arc<dyn Pool> {
    static SHARED: OnceLock<Arc<Threads>> = OnceLock::new();
    Arc::clone(SHARED.get_or_init(Arc::default)) as Arc<dyn Pool>
}

/// Starts threads for each launch, however small it is: what tests split launches with.
#[derive(Clone, Copy, Debug)]
pub struct EachTime;

impl Pool for EachTime {
    fn run(&self, others: usize, work: &(dyn Fn() + Sync)) {
        std::thread::scope(|scope| {
            (0..others).for_each(|_| drop(scope.spawn(work)));
            work();
        });
    }

    fn bytes_per_thread(&self) -> usize {
        0
    }
}

/// Threads that wait for launches. One launch at a time has them; another that comes meanwhile runs on its own thread alone,
/// rather than wait.
#[derive(Debug, Default)]
pub struct Threads {
    shared: Arc<Shared>,
    /// Held by the launch that has the threads.
    turn: Mutex<Spared>,
}

/// What small launches that come one after another would have spared, had a thread been awake.
#[derive(Debug, Default)]
struct Spared {
    nanos: u64,
    last: Option<Instant>,
}

impl Spared {
    /// Adds a launch. Whether they would have spared what waking a thread costs: then it is woken, so that all of them
    /// together lose at most as much again, and the next ones gain.
    fn pays(&mut self, nanos: u64) -> bool {
        let now = Instant::now();
        let follows = self.last.is_some_and(|last| now.duration_since(last) < BESIDE + Duration::from_nanos(nanos));
        self.last = Some(now);
        self.nanos = nanos.saturating_add(if follows { self.nanos } else { 0 });
        let pays = self.nanos >= WAKE_NANOS;
        if pays {
            self.nanos = 0;
        }
        pays
    }
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Counts launches, so that a thread sees a new one without the lock.
    posted: AtomicU64,
    /// Threads that are in a launch. It grows under the lock only.
    active: AtomicUsize,
    /// Threads that look for work.
    looking: AtomicUsize,
    wake: Condvar,
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    job: Option<Job>,
    /// How many more threads may join.
    wanted: usize,
    threads: usize,
    closing: bool,
}

/// The work of a launch, which outlives every thread's call of it: [`Turn`] ends no earlier.
#[derive(Clone, Copy, Debug)]
struct Job(*const (dyn Fn() + Sync));

// SAFETY: what is pointed to may be called from any thread.
unsafe impl Send for Job {}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for launches and takes part in them until the pool is dropped.
    fn serve(&self) {
        let mut seen = 0;
        loop {
            self.looking.fetch_add(1, Ordering::Relaxed);
            (0..LOOKS).take_while(|_| self.posted.load(Ordering::Relaxed) == seen).for_each(|_| spin_loop());
            self.looking.fetch_sub(1, Ordering::Relaxed);
            let mut state = self.lock();
            let job = loop {
                let posted = self.posted.load(Ordering::Relaxed);
                match state.job.filter(|_| state.wanted > 0) {
                    Some(job) => break Some(job),
                    None if state.closing => return,
                    // It comes too late for a launch, which another may follow.
                    None if posted != seen => break None,
                    None => state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            seen = self.posted.load(Ordering::Relaxed);
            let Some(job) = job else { continue };
            state.wanted -= 1;
            self.active.fetch_add(1, Ordering::Relaxed);
            drop(state);
            let _leaves = Leaves(self);
            // SAFETY: the launch that posted the job returns only after it took the job back, under the lock under which it
            // was taken here, and `active` is zero, which the guard above makes it, also if the call panics.
            unsafe { (*job.0)() };
        }
    }
}

/// A thread's part in a launch, which ends when this is dropped.
struct Leaves<'a>(&'a Shared);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        if self.0.active.fetch_sub(1, Ordering::Release) == 1 {
            // The launch is either before its look at `active` or waits.
            drop(self.0.lock());
            self.0.done.notify_one();
        }
    }
}

/// A launch that has the threads. Dropping it, also by a panic, takes the job back and waits for those who have it.
struct Turn<'a>(&'a Shared);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let shared = self.0;
        {
            let mut state = shared.lock();
            (state.job, state.wanted) = (None, 0);
        }
        let active = || shared.active.load(Ordering::Acquire) > 0;
        (0..LOOKS).take_while(|_| active()).for_each(|_| spin_loop());
        if active() {
            let mut state = shared.lock();
            while active() {
                state = shared.done.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Threads {
    /// The turn of a launch, unless another has it. One that panicked left nothing undone.
    fn turn(&self) -> Option<MutexGuard<'_, Spared>> {
        match self.turn.try_lock() {
            Ok(turn) => Some(turn),
            Err(TryLockError::Poisoned(turn)) => Some(turn.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Runs a launch whose turn it is on up to `others` threads more, which are woken if they may sleep.
    fn post(&self, others: usize, wakes: bool, work: &(dyn Fn() + Sync)) {
        let shared = &self.shared;
        // SAFETY: the lifetime is forgotten, not the borrow: `Turn` is dropped before this function returns, and from then
        // on no thread has or finds the job.
        let job = unsafe { std::mem::transmute::<*const (dyn Fn() + Sync), *const (dyn Fn() + Sync + 'static)>(work) };
        let _turn = Turn(shared);
        {
            let mut state = shared.lock();
            while wakes && state.threads < others && start(shared) {
                state.threads += 1;
            }
            (state.job, state.wanted) = (Some(Job(job)), others);
            shared.posted.fetch_add(1, Ordering::Relaxed);
        }
        match others {
            _ if !wakes => {}
            1 => shared.wake.notify_one(),
            _ => shared.wake.notify_all(),
        }
        work();
    }
}

impl Pool for Threads {
    fn run(&self, others: usize, work: &(dyn Fn() + Sync)) {
        match self.turn() {
            Some(_turn) if others > 0 => self.post(others, true, work),
            _ => work(),
        }
    }

    fn nanos_per_thread(&self) -> Option<u64> {
        Some(JOIN_NANOS)
    }

    fn run_small(&self, others: usize, nanos: u64, work: &(dyn Fn() + Sync)) {
        let Some(mut turn) = self.turn() else { return work() };
        let looking = self.shared.looking.load(Ordering::Relaxed);
        if looking > 0 {
            return self.post(others.min(looking), false, work);
        }
        let spared = nanos - nanos / (others as u64 + 1);
        if others > 0 && turn.pays(spared) {
            return self.post(others, true, work);
        }
        drop(turn);
        work();
    }
}

/// Starts a thread of the pool; without it launches have fewer.
fn start(shared: &Arc<Shared>) -> bool {
    let own = Arc::clone(shared);
    start_thread("fusewright", None, move || own.serve())
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.shared.lock().closing = true;
        self.shared.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of `parts` is done once, by whom does not matter.
    fn check(pool: &dyn Pool, others: usize, parts: usize) {
        let (next, done) = (AtomicUsize::new(0), Mutex::new(vec![0; parts]));
        let work = || {
            loop {
                let part = next.fetch_add(1, Ordering::Relaxed);
                if part >= parts {
                    return;
                }
                done.lock().unwrap_or_else(PoisonError::into_inner)[part] += 1;
            }
        };
        pool.run(others, &work);
        assert_eq!(done.into_inner().unwrap_or_else(PoisonError::into_inner), vec![1; parts]);
    }

    #[test]
    fn all_work_is_done_when_a_launch_returns() {
        let pool = Threads::default();
        for round in 0..if cfg!(miri) { 20 } else { 2000 } {
            check(&pool, round % 5, 7);
        }
        assert!(pool.shared.lock().threads <= 4);
        check(&EachTime, 3, 7);
    }

    #[test]
    fn small_launches_wake_a_thread_when_enough_come_one_after_another() {
        let mut spared = Spared::default();
        let each = WAKE_NANOS / 4;
        let pays: Vec<bool> = (0..9).map(|_| spared.pays(each)).collect();
        let late = spared.last.map(|last| last.elapsed() > BESIDE);
        assert!(late == Some(true) || pays == [false, false, false, true, false, false, false, true, false]);
        spared.last = Instant::now().checked_sub(Duration::from_millis(10));
        spared.nanos = WAKE_NANOS - 1;
        assert!(!spared.pays(each), "the last was long ago");
        assert!(spared.pays(WAKE_NANOS), "one alone is worth it");
    }

    #[test]
    fn small_launches_do_all_of_their_work() {
        let pool = Threads::default();
        for round in 0..if cfg!(miri) { 20 } else { 2000 } {
            let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let work = || {
                while next.fetch_add(1, Ordering::Relaxed) < 7 {
                    done.fetch_add(1, Ordering::Relaxed);
                }
            };
            match round % 3 {
                0 => pool.run(2, &work),
                _ => pool.run_small(round % 5, 2000, &work),
            }
            assert_eq!(done.load(Ordering::Relaxed), 7);
        }
        assert!(pool.shared.lock().threads <= 4);
    }

    #[test]
    fn launches_at_once_and_within_each_other_wait_for_none() {
        let pool = Threads::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..if cfg!(miri) { 5 } else { 500 }).for_each(|_| check(&pool, 2, 5)));
            }
        });
        pool.run(2, &|| check(&pool, 2, 3));
    }

    /// The caller does not return from its call until another thread has called.
    fn others_take_part(pool: &Threads) {
        let (met, this) = (Mutex::new(false), std::thread::current().id());
        pool.run(1, &|| {
            let here = std::thread::current().id();
            *met.lock().unwrap_or_else(PoisonError::into_inner) |= here != this;
            while here == this && !*met.lock().unwrap_or_else(PoisonError::into_inner) {
                std::thread::yield_now();
            }
        });
        assert!(*met.lock().unwrap_or_else(PoisonError::into_inner));
    }

    #[test]
    fn other_threads_take_part() {
        others_take_part(&Threads::default());
    }

    #[test]
    fn a_panic_leaves_the_pool_as_it_was() {
        let pool = Threads::default();
        for _ in 0..3 {
            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let this = std::thread::current().id();
                pool.run(2, &|| assert_ne!(std::thread::current().id(), this, "on purpose"));
            }));
            assert!(failed.is_err());
            check(&pool, 2, 9);
        }
        others_take_part(&pool);
    }
}
