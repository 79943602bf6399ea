//! How long a kernel takes for a row, measured on its small launches.
//!
//! Whether a launch of few bytes is worth a second thread depends on the kernel, its code, the machine and what else runs
//! there. So launches on one thread are measured, and those on several against them. What is measured decides on how many
//! threads rows are computed, never what they are. Threads that measure at once may lose each other's figures, which does no
//! harm.

use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// How many launches on one thread come first. The least counts: what else happens only adds.
const SAMPLES: usize = 16;
/// Of how many launches one is on one thread, since data may lie in a cache or not.
const AGAIN: u64 = 64;
/// Of how many launches on several threads one is measured: to ask for the time takes some of it.
const COMPARED: u64 = 4;
/// Nanoseconds that the measured launches on several threads may take longer, all in all, than on one: some threads are started
/// and woken in it. What was gained counts up to the second number, so that an interruption now and then is paid for.
const MOST_LOST: i64 = 200_000;
const MOST_GAINED: i64 = 10 * MOST_LOST;
/// How many launches are on one thread when that is reached; each time twice as many, up to the most.
const PAUSE: u64 = 1 << 10;
const LONGEST_PAUSE: u64 = 1 << 20;

/// The time of a row, as far as it is known, and what threads have gained.
#[derive(Debug)]
pub(super) struct Pace {
    picos_per_row: AtomicU64,
    /// Most rows of a measured launch.
    rows: AtomicUsize,
    samples: AtomicUsize,
    /// Launches that might have had several threads.
    launches: AtomicU64,
    /// Nanoseconds by which launches on several threads took longer than on one would have.
    lost: AtomicI64,
    /// How many launches are still to be on one thread.
    paused: AtomicU64,
    pause: AtomicU64,
}

/// On how many threads a launch is, and whether its time is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// On one.
    Alone { measured: bool },
    /// On several.
    Shared { measured: bool },
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            picos_per_row: AtomicU64::new(u64::MAX),
            rows: AtomicUsize::new(0),
            samples: AtomicUsize::new(0),
            launches: AtomicU64::new(0),
            lost: AtomicI64::new(0),
            paused: AtomicU64::new(0),
            pause: AtomicU64::new(PAUSE),
        }
    }
}

impl Pace {
    /// How many nanoseconds so many rows take on one thread. None while that is being measured, and of more than twice as many
    /// rows as were measured: of few, what a launch costs beside its rows is too much.
    pub fn nanos(&self, rows: usize) -> Option<u64> {
        let known = self.samples.load(Ordering::Relaxed) >= SAMPLES && rows / 2 <= self.rows.load(Ordering::Relaxed);
        known.then(|| self.picos_per_row.load(Ordering::Relaxed).saturating_mul(rows as u64) / 1000)
    }

    /// Measures a launch of so many rows on one thread.
    pub fn measure(&self, rows: usize, launch: impl FnOnce()) {
        let start = Instant::now();
        launch();
        self.add(rows, u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    /// What a launch is that may have several threads. Where they have lost time, because others have the processors, the next
    /// launches have one.
    pub fn next(&self) -> Next {
        let (launch, paused) = (self.launches.fetch_add(1, Ordering::Relaxed), self.paused.load(Ordering::Relaxed));
        if paused > 0 {
            self.paused.store(paused - 1, Ordering::Relaxed);
        }
        match launch % AGAIN {
            0 => Next::Alone { measured: true },
            _ if paused > 0 => Next::Alone { measured: false },
            at => Next::Shared { measured: at % COMPARED == 1 },
        }
    }

    /// Measures a launch on several threads, which would take so many nanoseconds on one.
    pub fn compare(&self, nanos: u64, launch: impl FnOnce()) {
        let start = Instant::now();
        launch();
        self.weigh(nanos, u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }

    fn weigh(&self, alone: u64, shared: u64) {
        let lost = i64::try_from(shared).unwrap_or(i64::MAX).saturating_sub(i64::try_from(alone).unwrap_or(i64::MAX));
        let sum = self.lost.load(Ordering::Relaxed).saturating_add(lost);
        if sum <= -MOST_LOST {
            self.pause.store(PAUSE, Ordering::Relaxed);
        }
        let over = sum >= MOST_LOST;
        if over {
            let pause = self.pause.load(Ordering::Relaxed);
            self.paused.store(pause, Ordering::Relaxed);
            self.pause.store((pause * 2).min(LONGEST_PAUSE), Ordering::Relaxed);
        }
        // What was gained long ago pays for little.
        self.lost.store(if over { 0 } else { sum.max(-MOST_GAINED) }, Ordering::Relaxed);
    }

    fn add(&self, rows: usize, nanos: u64) {
        if rows / 2 > self.rows.load(Ordering::Relaxed) {
            self.samples.store(0, Ordering::Relaxed);
        }
        self.rows.fetch_max(rows, Ordering::Relaxed);
        let (picos, old) =
            (nanos.saturating_mul(1000) / rows.max(1) as u64, self.picos_per_row.load(Ordering::Relaxed));
        if self.samples.fetch_add(1, Ordering::Relaxed) < SAMPLES {
            self.picos_per_row.fetch_min(picos, Ordering::Relaxed);
        } else {
            // The time of late, in which an interruption counts for little.
            self.picos_per_row.store(old - old / 8 + picos.min(old.saturating_mul(4)) / 8, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_enough_launches_counts_for_up_to_twice_their_rows() {
        let pace = Pace::default();
        for nanos in (0..SAMPLES as u64).map(|i| 9000 - i * 10) {
            assert_eq!(pace.nanos(6), None);
            pace.add(6, nanos);
        }
        assert_eq!((pace.nanos(6), pace.nanos(3)), (Some(8850), Some(4425)));
        assert_eq!((pace.nanos(13).is_some(), pace.nanos(14)), (true, None));
        (0..80).for_each(|_| pace.add(6, 20_000));
        assert!(pace.nanos(6).is_some_and(|nanos| (19_000..21_000).contains(&nanos)), "data lies farther away");
        pace.add(6, u64::MAX);
        assert!(pace.nanos(6).is_some_and(|nanos| nanos < 30_000), "an interruption counts for little");
        pace.add(60, 60);
        assert_eq!(pace.nanos(6), None, "it is measured anew");
        (1..SAMPLES).for_each(|_| pace.measure(60, || ()));
        assert!(pace.nanos(60).is_some_and(|nanos| nanos <= 60));
    }

    #[test]
    fn where_threads_lose_time_launches_have_one_for_longer_and_longer() {
        let pace = Pace::default();
        let paused = || {
            let alone = |next: &Next| matches!(next, Next::Alone { .. });
            let counted = (0..).map(|_| pace.next()).take_while(alone);
            counted.filter(|next| *next == Next::Alone { measured: false }).count() as u64
        };
        let unmeasured = |pause: u64| pause - pause / AGAIN..=pause;
        (0..10).for_each(|_| pace.weigh(5000, 3000));
        assert_eq!(paused(), 0);
        // What was gained is lost again, and more.
        pace.weigh(5000, 224_999);
        assert_eq!(paused(), 0);
        pace.weigh(5000, 5001);
        assert!(unmeasured(PAUSE).contains(&paused()));
        pace.weigh(5000, u64::MAX);
        assert!(unmeasured(2 * PAUSE).contains(&paused()));
        (0..100).for_each(|_| pace.weigh(5000, 3000));
        pace.weigh(5000, 1 << 30);
        assert!(unmeasured(PAUSE).contains(&paused()), "threads had gained again");
        for _ in 0..20 {
            pace.weigh(5000, 1 << 30);
            assert!(paused() <= LONGEST_PAUSE);
        }
    }

    #[test]
    fn most_launches_are_not_measured() {
        let pace = Pace::default();
        let launches: Vec<Next> = (0..640).map(|_| pace.next()).collect();
        let count = |what: Next| launches.iter().filter(|next| **next == what).count();
        assert_eq!(count(Next::Alone { measured: true }), 10);
        assert_eq!(count(Next::Shared { measured: true }), 160);
        assert_eq!(count(Next::Alone { measured: false }), 0);
    }
}
