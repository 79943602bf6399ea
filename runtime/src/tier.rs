//! Kernels that get better: code that was made quickly answers at once, and code that takes longer to make takes its place
//! when enough was computed to be worth it.
//!
//! A launch never waits: it runs what is there. The new code is put in place by one exchange of a pointer, and the old code
//! is freed when the last launch that runs it returns.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

use crate::background;
use crate::sync::{AtomicU64, Exchanged, Mutex};
use crate::{Arg, Module, RuntimeError};

/// Makes the better code of a kernel. It knows the compiler; this crate does not.
pub type Make = Box<dyn FnOnce() -> Result<Arc<dyn Module>, String> + Send>;

/// What became of the kernels of a program.
#[derive(Debug, Default)]
pub struct Counters {
    /// Kernels whose code a compiler was asked for.
    compiled: AtomicU64,
    /// Kernels whose code was there from an earlier process.
    kept: AtomicU64,
    /// Kernels whose better code was asked for.
    asked: AtomicU64,
    /// Kernels whose better code took the place of the first.
    swapped: AtomicU64,
    /// Kernels whose better code could not be made.
    refused: AtomicU64,
}

/// Values of [`Counters`] at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TierCounts {
    /// Kernels that did enough work for better code to be asked for.
    pub asked: u64,
    /// Kernels that run it.
    pub swapped: u64,
    /// Kernels that stay as they were, because it could not be made.
    pub refused: u64,
}

/// Where the code of a program's kernels came from so far. A call that leaves `compiled` as it was had nothing compiled.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CodeCounts {
    /// Times that a compiler was asked for code, of whatever tier, whether it took the kernel or not.
    pub compiled: u64,
    /// Times that code was there, from an earlier compiler or process.
    pub kept: u64,
}

impl Counters {
    /// Notes that a compiler is asked for code.
    pub fn add_compiled(&self) {
        self.compiled.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that code was there.
    pub fn add_kept(&self) {
        self.kept.fetch_add(1, Ordering::Relaxed);
    }

    /// Where code came from.
    pub fn code(&self) -> CodeCounts {
        CodeCounts { compiled: self.compiled.load(Ordering::Relaxed), kept: self.kept.load(Ordering::Relaxed) }
    }

    /// The values now.
    pub fn counts(&self) -> TierCounts {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TierCounts { asked: value(&self.asked), swapped: value(&self.swapped), refused: value(&self.refused) }
    }
}

/// A kernel in two tiers.
pub struct Tiered {
    current: Exchanged<Tier>,
    /// Rows that launches have computed, each launch at least one.
    rows: AtomicU64,
    /// How many rows are worth better code.
    budget: u64,
    /// How that is made; taken by who makes it.
    make: Mutex<Option<Make>>,
    counters: Arc<Counters>,
    /// This kernel, for the work behind its launches, which keeps it no longer than its users do.
    me: Weak<Tiered>,
}

/// The code that launches run.
struct Tier {
    module: Arc<dyn Module>,
    /// Whether there will be no better.
    last: bool,
}

impl Tiered {
    /// A kernel that runs `first` until launches have computed `budget` rows, and then what `make` makes, as soon as that
    /// is made. Both must compute the same for the same arguments.
    pub fn new(first: Arc<dyn Module>, budget: u64, make: Make, counters: Arc<Counters>) -> Arc<Tiered> {
        Arc::new_cyclic(|me| Tiered {
            current: Exchanged::from_pointee(Tier { module: first, last: false }),
            rows: AtomicU64::new(0),
            budget,
            make: Mutex::new(Some(make)),
            counters,
            me: me.clone(),
        })
    }

    /// Whether no better code will come.
    pub fn is_last(&self) -> bool {
        self.current.load().last
    }

    fn put(&self, made: Result<Arc<dyn Module>, String>) {
        let counter = if made.is_ok() { &self.counters.swapped } else { &self.counters.refused };
        let module = made.unwrap_or_else(|_| Arc::clone(&self.current.load().module));
        self.current.store(Arc::new(Tier { module, last: true }));
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Has the better code made behind the launches.
    fn ask(&self) {
        let me = Weak::clone(&self.me);
        background::submit(Box::new(move || {
            if let Some(kernel) = me.upgrade() {
                kernel.promote();
            }
        }));
    }
}

impl Module for Tiered {
    fn launch(&self, args: &mut [Arg<'_>], dims: &[i64], rows: usize, threads: usize) -> Result<(), RuntimeError> {
        let tier = self.current.load();
        if !tier.last {
            let computed = (rows as u64).max(1);
            let before = self.rows.fetch_add(computed, Ordering::Relaxed);
            // One launch crosses the line, and asks.
            if before < self.budget && before.saturating_add(computed) >= self.budget {
                self.ask();
            }
        }
        tier.module.launch(args, dims, rows, threads)
    }

    fn promote(&self) {
        let make = self.make.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(make) = make {
            self.counters.asked.fetch_add(1, Ordering::Relaxed);
            self.put(make());
        }
    }
}

impl fmt::Debug for Tiered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tier = self.current.load();
        write!(f, "Tiered({:?}, last: {}, budget: {} rows)", tier.module, tier.last, self.budget)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};
    use std::time::{Duration, Instant};

    use super::*;

    /// Code that says which it is, and notices being freed while it runs.
    #[derive(Debug)]
    struct Code {
        number: u8,
        freed: Arc<AtomicBool>,
        running: AtomicUsize,
    }

    impl Code {
        fn watched(number: u8) -> (Arc<dyn Module>, Arc<AtomicBool>) {
            let freed = Arc::new(AtomicBool::new(false));
            (Arc::new(Code { number, freed: Arc::clone(&freed), running: AtomicUsize::new(0) }), freed)
        }
    }

    impl Module for Code {
        fn launch(&self, args: &mut [Arg<'_>], _: &[i64], _: usize, _: usize) -> Result<(), RuntimeError> {
            self.running.fetch_add(1, Ordering::SeqCst);
            if let [Arg::Out(out)] = args {
                out.fill(self.number);
            }
            assert!(!self.freed.load(Ordering::SeqCst), "code that runs is there");
            self.running.fetch_sub(1, Ordering::SeqCst);
            Ok(())
        }
    }

    impl Drop for Code {
        fn drop(&mut self) {
            assert_eq!(self.running.load(Ordering::SeqCst), 0, "nobody runs what is freed");
            self.freed.store(true, Ordering::SeqCst);
        }
    }

    fn launch(module: &dyn Module, rows: usize) -> u8 {
        let mut out = [0; 4];
        module.launch(&mut [Arg::Out(&mut out)], &[], rows, 1).expect("nothing can fail");
        out[0]
    }

    #[test]
    fn the_budget_decides_when_and_the_old_code_is_freed() {
        let ((first, freed), (second, _)) = (Code::watched(1), Code::watched(2));
        let counters = Arc::new(Counters::default());
        let kernel = Tiered::new(first, 10, Box::new(move || Ok(second)), Arc::clone(&counters));
        assert_eq!([0, 4, 4].map(|rows| launch(&*kernel, rows)), [1, 1, 1]);
        background::settle();
        assert_eq!(counters.counts(), TierCounts::default(), "nine rows, of which a launch of none is one");
        assert_eq!(launch(&*kernel, 0), 1, "it asks, and does not wait");
        background::settle();
        assert_eq!(counters.counts(), TierCounts { asked: 1, swapped: 1, refused: 0 });
        assert_eq!((launch(&*kernel, 1), freed.load(Ordering::SeqCst), kernel.is_last()), (2, true, true));
    }

    #[test]
    fn what_cannot_be_made_leaves_the_first() {
        for panics in [false, true] {
            let (first, freed) = Code::watched(1);
            let counters = Arc::new(Counters::default());
            let make = move || if panics { panic!("on purpose") } else { Err("not here".to_owned()) };
            let kernel = Tiered::new(first, 1, Box::new(make), Arc::clone(&counters));
            assert_eq!(launch(&*kernel, 5), 1);
            background::settle();
            assert_eq!((launch(&*kernel, 5), freed.load(Ordering::SeqCst)), (1, false));
            assert_eq!(counters.counts().swapped, 0);
        }
    }

    #[test]
    fn a_kernel_that_is_dropped_is_not_made_better() {
        let made = Arc::new(AtomicBool::new(false));
        let (kernel, freed) = {
            let ((first, freed), (second, _)) = (Code::watched(1), Code::watched(2));
            let mark = Arc::clone(&made);
            let make = move || {
                mark.store(true, Ordering::SeqCst);
                Ok(second)
            };
            (Tiered::new(first, 1, Box::new(make), Arc::default()), freed)
        };
        // What is done before keeps the thread until the kernel is gone.
        let (gate, wait) = std::sync::mpsc::channel::<()>();
        background::submit(Box::new(move || wait.iter().for_each(drop)));
        assert_eq!(launch(&*kernel, 1), 1);
        drop(kernel);
        assert!(freed.load(Ordering::SeqCst));
        drop(gate);
        background::settle();
        assert!(!made.load(Ordering::SeqCst));
    }

    #[test]
    fn launches_go_on_while_better_code_is_made_and_put_in_place() {
        const SLOW: Duration = Duration::from_millis(if cfg!(miri) { 1 } else { 150 });
        let ((first, freed), (second, _)) = (Code::watched(1), Code::watched(2));
        let make = move || {
            std::thread::sleep(SLOW);
            Ok(second)
        };
        let kernel = Tiered::new(first, 1, Box::new(make), Arc::default());
        let start = Instant::now();
        // Code of the first tier answers until that of the second does; no launch takes as long as making that did.
        let mut launches = 0;
        while launch(&*kernel, 1) == 1 {
            launches += 1;
            assert!(start.elapsed() < Duration::from_secs(60), "the second tier never came");
        }
        assert!(launches > 1, "{launches}");
        assert!(cfg!(miri) || start.elapsed() >= SLOW);
        background::settle();
        assert!(freed.load(Ordering::SeqCst));
    }

    #[test]
    fn swaps_under_launches_of_many_threads_free_nothing_that_runs() {
        let rounds = if cfg!(miri) { 3 } else { 300 };
        for _ in 0..rounds {
            let ((first, freed), (second, kept)) = (Code::watched(1), Code::watched(2));
            let kernel = Tiered::new(first, 40, Box::new(move || Ok(second)), Arc::default());
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let answers: Vec<u8> = (0..60).map(|_| launch(&*kernel, 1)).collect();
                        assert!(answers.is_sorted(), "the first tier never comes back: {answers:?}");
                    });
                }
            });
            background::settle();
            assert!(freed.load(Ordering::SeqCst) && !kept.load(Ordering::SeqCst));
            drop(kernel);
            assert!(kept.load(Ordering::SeqCst));
        }
    }
}
