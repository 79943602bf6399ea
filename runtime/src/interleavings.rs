//! What threads share, under every order in which they may go on, and every value that a relaxed load may have. Built and
//! run by `.ci/interleavings`.
//!
//! `Arc` counts as it does outside of loom and switches no threads; every other access of what is shared does. That a
//! reader of [`crate::sync::Exchanged`] keeps what it has is what `arc-swap` promises, and taken from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize as Count, Ordering};

use fusewright_abi::ContentKey;
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::thread::spawn;

use crate::background::{Background, settle};
use crate::{Arg, Counters, KernelCache, Make, Module, Pool, RuntimeError, Threads, TierCounts, Tiered};

/// Every order, but those in which threads are stopped more often than `stops` times where they could go on.
fn explore(stops: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut all = loom::model::Builder::new();
    all.preemption_bound = stops;
    let (orders, counted) = (Arc::new(Count::new(0)), Arc::new(model));
    let counter = Arc::clone(&orders);
    all.check(move || {
        counter.fetch_add(1, Ordering::Relaxed);
        counted();
    });
    let orders = orders.load(Ordering::Relaxed);
    println!("{orders} orders");
    assert!(orders > 1, "threads met");
}

/// Code that says which it is, and notices being freed while it runs.
#[derive(Debug)]
struct Code {
    number: u8,
    freed: Arc<AtomicBool>,
}

impl Code {
    fn watched(number: u8) -> (Arc<dyn Module>, Arc<AtomicBool>) {
        let freed = Arc::new(AtomicBool::new(false));
        (Arc::new(Code { number, freed: Arc::clone(&freed) }), freed)
    }

    fn runs(&self) {
        assert!(!self.freed.load(Ordering::SeqCst), "code that runs is there");
    }
}

impl Module for Code {
    fn launch(&self, args: &mut [Arg<'_>], _: &[i64], _: usize, _: usize) -> Result<(), RuntimeError> {
        self.runs();
        if let [Arg::Out(out)] = args {
            out.fill(self.number);
        }
        self.runs();
        Ok(())
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        self.freed.store(true, Ordering::SeqCst);
    }
}

fn launch(module: &dyn Module) -> u8 {
    let mut out = [0];
    module.launch(&mut [Arg::Out(&mut out)], &[], 1, 1).expect("nothing can fail");
    out[0]
}

/// A kernel whose better code comes from `make` after `budget` launches.
fn tiered(
    budget: u64,
    make: impl FnOnce() -> Result<Arc<dyn Module>, String> + Send + 'static,
) -> (Arc<Tiered>, Arc<AtomicBool>, Arc<Counters>) {
    let ((first, freed), counters) = (Code::watched(1), Arc::new(Counters::default()));
    let make: Make = Box::new(make);
    (Tiered::new(first, budget, make, Arc::clone(&counters)), freed, counters)
}

const SWAPPED: TierCounts = TierCounts { asked: 1, swapped: 1, refused: 0 };

#[test]
fn launches_run_the_old_code_or_the_new_and_the_old_is_freed_behind_the_last() {
    explore(None, || {
        let (second, kept) = Code::watched(2);
        let (kernel, freed, counters) = tiered(u64::MAX, move || Ok(second));
        let shared = Arc::clone(&kernel);
        let swap = spawn(move || shared.promote());
        let answers = [launch(&*kernel), launch(&*kernel)];
        assert!(answers.is_sorted(), "the first tier never comes back: {answers:?}");
        swap.join().expect("nothing panics");
        assert_eq!((launch(&*kernel), counters.counts(), kernel.is_last()), (2, SWAPPED, true));
        assert!(freed.load(Ordering::SeqCst) && !kept.load(Ordering::SeqCst));
        drop(kernel);
        assert!(kept.load(Ordering::SeqCst));
    });
}

#[test]
fn launches_of_two_threads_meet_a_swap() {
    explore(Some(3), || {
        let (second, _) = Code::watched(2);
        let (kernel, freed, counters) = tiered(u64::MAX, move || Ok(second));
        let launches = [(); 2].map(|()| {
            let kernel = Arc::clone(&kernel);
            spawn(move || [launch(&*kernel), launch(&*kernel)])
        });
        kernel.promote();
        assert_eq!(launch(&*kernel), 2);
        let answers = launches.map(|thread| thread.join().expect("nothing panics"));
        assert!(answers.iter().all(|answers| answers.is_sorted()), "the first tier never comes back: {answers:?}");
        assert_eq!(counters.counts(), SWAPPED);
        assert!(freed.load(Ordering::SeqCst));
    });
}

#[test]
fn two_launches_that_spend_the_budget_together_ask_once() {
    explore(Some(3), || {
        let (second, _) = Code::watched(2);
        let (kernel, freed, counters) = tiered(2, move || Ok(second));
        let shared = Arc::clone(&kernel);
        let other = spawn(move || launch(&*shared));
        launch(&*kernel);
        other.join().expect("nothing panics");
        settle();
        assert_eq!((launch(&*kernel), counters.counts()), (2, SWAPPED));
        assert!(freed.load(Ordering::SeqCst));
    });
}

#[test]
fn two_threads_that_want_the_best_code_at_once_have_it_made_once() {
    explore(None, || {
        let made = Arc::new(Count::new(0));
        let (count, (second, _)) = (Arc::clone(&made), Code::watched(2));
        let (kernel, freed, counters) = tiered(1, move || {
            count.fetch_add(1, Ordering::Relaxed);
            Ok(second)
        });
        let shared = Arc::clone(&kernel);
        let other = spawn(move || shared.promote());
        kernel.promote();
        other.join().expect("nothing panics");
        assert_eq!((made.load(Ordering::Relaxed), counters.counts(), launch(&*kernel)), (1, SWAPPED, 2));
        assert!(freed.load(Ordering::SeqCst));
    });
}

#[test]
fn code_that_cannot_be_made_leaves_the_first() {
    explore(None, || {
        let (kernel, freed, counters) = tiered(u64::MAX, || Err("not here".to_owned()));
        let shared = Arc::clone(&kernel);
        let swap = spawn(move || shared.promote());
        assert_eq!(launch(&*kernel), 1);
        swap.join().expect("nothing panics");
        assert_eq!((launch(&*kernel), kernel.is_last()), (1, true));
        assert_eq!(counters.counts(), TierCounts { asked: 1, swapped: 0, refused: 1 });
        assert!(!freed.load(Ordering::SeqCst));
    });
}

#[test]
fn a_kernel_dropped_while_its_code_is_made_frees_both() {
    explore(Some(3), || {
        let (second, kept) = Code::watched(2);
        let (begun, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Count::new(0)));
        let (mark, count) = (Arc::clone(&begun), Arc::clone(&seen));
        let (kernel, freed, counters) = tiered(1, move || {
            // The threads may switch while this is at work.
            mark.store(true, Ordering::SeqCst);
            count.fetch_add(1, Ordering::Relaxed);
            Ok(second)
        });
        assert_eq!(launch(&*kernel), 1);
        let was_begun = begun.load(Ordering::SeqCst);
        drop(kernel);
        settle();
        let made = seen.load(Ordering::Relaxed) as u64;
        assert!(made == 1 || !was_begun);
        assert_eq!(counters.counts(), TierCounts { asked: made, swapped: made, refused: 0 });
        assert!(freed.load(Ordering::SeqCst) && kept.load(Ordering::SeqCst));
    });
}

#[test]
fn work_behind_the_calls_is_done_when_it_settles_and_none_begins_behind_the_end() {
    explore(Some(3), || {
        let (background, begun) = (Background::start(), Arc::new(AtomicUsize::new(0)));
        let submit = || {
            let begun = Arc::clone(&begun);
            background.submit(Box::new(move || {
                begun.fetch_add(1, Ordering::Relaxed);
            }));
        };
        submit();
        background.settle();
        assert_eq!(begun.load(Ordering::Relaxed), 1);
        submit();
        background.end();
        let until_end = begun.load(Ordering::Relaxed);
        submit();
        background.settle();
        assert_eq!(begun.load(Ordering::Relaxed), until_end);
    });
}

#[test]
fn a_kernel_that_two_threads_ask_for_is_made_once() {
    explore(None, || {
        let (cache, made) = (Arc::new(KernelCache::default()), Arc::new(AtomicUsize::new(0)));
        let ask = |cache: &KernelCache, made: &AtomicUsize| {
            let make = || {
                made.fetch_add(1, Ordering::SeqCst);
                Ok::<_, ()>(Code::watched(1).0)
            };
            cache.get_or_make(ContentKey([7; 32]), make).expect("nothing fails")
        };
        let (shared, count) = (Arc::clone(&cache), Arc::clone(&made));
        let other = spawn(move || ask(&shared, &count));
        let own = ask(&cache, &made);
        let other = other.join().expect("nothing panics");
        assert!(Arc::ptr_eq(&own, &other));
        assert_eq!((made.load(Ordering::SeqCst), cache.len()), (1, 1));
    });
}

#[test]
fn a_kernel_that_one_thread_fails_to_make_another_makes() {
    explore(None, || {
        let cache = Arc::new(KernelCache::default());
        let key = ContentKey([7; 32]);
        let shared = Arc::clone(&cache);
        let other = spawn(move || shared.get_or_make(key, || Err("no memory")).map(|code| launch(&*code)));
        let own = cache.get_or_make(key, || Ok::<_, ()>(Code::watched(1).0)).expect("made, or kept");
        let other = other.join().expect("nothing panics");
        assert_eq!((launch(&*own), cache.len()), (1, 1));
        assert!(matches!(other, Ok(1) | Err("no memory")));
    });
}

/// Parts of a launch, and whether it has returned.
struct Parts {
    next: AtomicUsize,
    done: [AtomicUsize; 2],
    returned: AtomicBool,
}

impl Parts {
    fn work(&self) {
        assert!(!self.returned.load(Ordering::SeqCst), "no thread is in a launch that returned");
        while let Some(part) = self.done.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            part.store(part.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Runs a launch of two parts; when it returns, both were done once.
    fn run(pool: &Threads) {
        Parts::run_by(&|work| pool.run(1, work));
    }

    /// As [`Parts::run`], for threads that look for work.
    fn run_small(pool: &Threads) {
        Parts::run_by(&|work| pool.run_small(1, 1, work));
    }

    fn run_by(run: &dyn Fn(&(dyn Fn() + Sync))) {
        let parts = Parts {
            next: AtomicUsize::new(0),
            done: [AtomicUsize::new(0), AtomicUsize::new(0)],
            returned: AtomicBool::new(false),
        };
        run(&|| parts.work());
        parts.returned.store(true, Ordering::SeqCst);
        assert_eq!(parts.done.each_ref().map(|part| part.load(Ordering::Relaxed)), [1, 1]);
    }
}

#[test]
fn a_launch_returns_when_the_threads_that_it_was_given_to_have() {
    explore(Some(3), || {
        let pool = Threads::default();
        Parts::run(&pool);
        Parts::run(&pool);
    });
}

#[test]
fn small_launches_are_done_whether_threads_look_for_work_or_sleep() {
    explore(Some(2), || {
        let pool = Threads::default();
        Parts::run(&pool);
        Parts::run_small(&pool);
        Parts::run_small(&pool);
    });
}

#[test]
fn launches_of_two_threads_share_a_pool() {
    explore(Some(3), || {
        let pool = Arc::new(Threads::default());
        let shared = Arc::clone(&pool);
        let other = spawn(move || Parts::run(&shared));
        Parts::run(&pool);
        other.join().expect("nothing panics");
    });
}
