//! How long a kernel takes for a row, measured on its first small launches.
//!
//! Whether a launch of few bytes is worth a second thread depends on the kernel, its code and the machine. What is measured
//! decides on how many threads rows are computed, never what they are.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

/// How many launches are measured. The least counts: what else happens only adds.
const SAMPLES: usize = 16;

/// The time of a row, as far as it is known. Threads that measure at once may lose each other's sample, which does no harm.
#[derive(Debug)]
pub(super) struct Pace {
    picos_per_row: AtomicU64,
    /// Most rows of a measured launch.
    rows: AtomicUsize,
    samples: AtomicUsize,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { picos_per_row: AtomicU64::new(u64::MAX), rows: AtomicUsize::new(0), samples: AtomicUsize::new(0) }
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

    fn add(&self, rows: usize, nanos: u64) {
        if rows / 2 > self.rows.load(Ordering::Relaxed) {
            self.samples.store(0, Ordering::Relaxed);
        }
        self.rows.fetch_max(rows, Ordering::Relaxed);
        self.picos_per_row.fetch_min(nanos.saturating_mul(1000) / rows.max(1) as u64, Ordering::Relaxed);
        self.samples.fetch_add(1, Ordering::Relaxed);
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
        pace.add(60, 60);
        assert_eq!(pace.nanos(6), None, "it is measured anew");
        (1..SAMPLES).for_each(|_| pace.measure(60, || ()));
        assert!(pace.nanos(60).is_some_and(|nanos| nanos <= 60));
    }
}
