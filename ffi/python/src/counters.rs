//! What this process compiled and launched so far.

use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A number that only grows.
#[derive(Debug)]
pub struct Counter(AtomicU64);

impl Counter {
    const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// Adds so many.
    pub fn add(&self, n: usize) {
        self.0.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// Kernels that were compiled.
pub static COMPILES: Counter = Counter::new();
/// Kernels that were taken from the cache on disk.
pub static CACHE_HITS: Counter = Counter::new();
/// Launches.
pub static LAUNCHES: Counter = Counter::new();
/// Calls, of one launch or several each.
pub static CALLS: Counter = Counter::new();

/// Counts of this process: kernels by `compiles` and `disk_hits`, `calls`, and `launches` of those.
#[pyfunction]
pub fn counters(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let counts = PyDict::new(py);
    let all = [("compiles", &COMPILES), ("disk_hits", &CACHE_HITS), ("calls", &CALLS), ("launches", &LAUNCHES)];
    for (name, Counter(count)) in all {
        counts.set_item(name, count.load(Ordering::Relaxed))?;
    }
    Ok(counts)
}
