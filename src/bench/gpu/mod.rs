//! Measuring kernels on a GPU: recorded sequences of launches over buffers of their own, with cold and warm caches, one
//! after the other and overlapping, beside copies of as many bytes.
//!
//! A figure is the median of replays of a recording, divided by its launches. *Cold* recordings go over so many sets of
//! buffers that none is in the cache, and each replay comes behind one that reads [`SWEPT`] bytes; *warm* ones go over few
//! sets, which stay in the cache.

mod cases;
mod work;

use fusewright_abi::Target;
use fusewright_runtime::driver::cuda::{Follow, Queue, Recording};

pub use self::cases::{GpuCase, gpu_suite};
use self::work::Work;
use crate::{Compiler, Error};

/// Bytes that are read before a cold replay: several caches full.
const SWEPT: usize = 256 << 20;
/// Bytes of all sets of a cold recording.
const COLD_BYTES: usize = 1_500_000_000;
/// Bytes of all sets of a warm recording, which a cache of 50 MB holds whatever else is in it.
const WARM_BYTES: usize = 16_000_000;
/// Most sets and launches of a recording.
const MOST_SETS: usize = 96;
/// Launches of a warm recording.
const WARM_LAUNCHES: usize = 64;
/// Replays of a figure, and of one that takes long.
const REPLAYS: [usize; 2] = [11, 7];
/// Bytes from which on a figure takes long.
const LONG: usize = 300_000_000;
/// What outputs hold before a replay that has to change them.
const POISON: u8 = 0x11;

/// Figures of one case at one number of rows: medians, in microseconds a launch.
#[derive(Clone, PartialEq, Debug)]
pub struct GpuRow {
    /// Name of the case.
    pub name: String,
    /// Row length that sets the case's shapes.
    pub dim: usize,
    /// Number of rows.
    pub rows: usize,
    /// Bytes that a launch reads and writes, each once.
    pub bytes: usize,
    /// Launched one after the other.
    pub plain: GpuTimes,
    /// Each launch beginning before the one ahead of it ends.
    pub overlapping: GpuTimes,
    /// The best copy of as many bytes.
    pub copy: GpuTimes,
    /// Registers of a thread.
    pub registers: i32,
    /// Bytes of a thread in memory for want of registers.
    pub spilled: i32,
}

/// A figure with a cold and, where few sets of buffers lie in a cache, with a warm one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GpuTimes {
    /// Nothing is in the cache.
    pub cold: f64,
    /// All is in the cache.
    pub warm: Option<f64>,
}

/// Measures on the first GPU of this machine.
#[derive(Debug)]
pub struct GpuBench {
    queue: Queue,
    compiler: Compiler,
    sweep: Recording,
}

/// Sets of buffers that a cold recording goes over, for launches of so many bytes.
fn cold_sets(bytes: usize) -> usize {
    (COLD_BYTES / (bytes + 4096)).clamp(3, MOST_SETS)
}

/// Sets of buffers that a warm recording goes over, if so many bytes fit.
fn warm_sets(bytes: usize) -> Option<usize> {
    (bytes <= WARM_BYTES).then(|| (WARM_BYTES / bytes.max(1)).clamp(1, cold_sets(bytes)))
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

impl GpuBench {
    /// Of kernels for a target.
    ///
    /// # Errors
    /// A target that is no GPU, or that this build or machine does not have.
    pub fn new(target: &Target) -> Result<GpuBench, Error> {
        let compiler = Compiler::new(target)?;
        compiler.device(target).map_err(Error::from)?;
        let queue = Queue::first().map_err(Error::Unavailable)?;
        let graph = cases::sweep(SWEPT)?;
        let work = Work::new(&graph, 0, &compiler, &queue)?;
        let set = work.set(&queue)?;
        let sweep = work.record(&queue, &[set], 1, Follow::InTurn)?;
        Ok(GpuBench { queue, compiler, sweep })
    }

    /// What the driver calls the device.
    pub fn device(&self) -> &str {
        self.queue.name()
    }

    /// Measures a case at a number of rows.
    ///
    /// # Errors
    /// A graph that is more than one kernel, or takes no such number of rows; too little memory; a launch that fails or
    /// writes nothing.
    pub fn measure(&self, case: &GpuCase, rows: usize) -> Result<GpuRow, Error> {
        let work = Work::new(&case.graph, rows, &self.compiler, &self.queue)?;
        let sets = self.sets(&work)?;
        let plain = self.times(&work, &sets, Follow::InTurn)?;
        let overlapping = self.times(&work, &sets, Follow::Overlapping)?;
        drop(sets);
        let [registers, spilled] = work.resources()?;
        let copy = self.copy(work.bytes)?;
        let (name, dim, bytes) = (case.name.clone(), case.dim, work.bytes);
        Ok(GpuRow { name, dim, rows, bytes, plain, overlapping, copy, registers, spilled })
    }

    fn sets(&self, work: &Work) -> Result<Vec<work::Set>, Error> {
        (0..cold_sets(work.bytes)).map(|_| work.set(&self.queue)).collect()
    }

    fn times(&self, work: &Work, sets: &[work::Set], follow: Follow) -> Result<GpuTimes, Error> {
        let cold = work.record(&self.queue, sets, sets.len().max(4), follow)?;
        work.check_that_it_writes(&self.queue, &cold, &sets[0], POISON)?;
        let few = warm_sets(work.bytes).map(|few| &sets[..few]);
        let warm = few.map(|few| work.record(&self.queue, few, WARM_LAUNCHES, follow)).transpose()?;
        self.figures(&cold, sets.len().max(4), warm.as_ref(), work.bytes)
    }

    fn figures(
        &self,
        cold: &Recording,
        launches: usize,
        warm: Option<&Recording>,
        bytes: usize,
    ) -> Result<GpuTimes, Error> {
        let times = REPLAYS[usize::from(bytes >= LONG)];
        let of = |recording: &Recording, before: Option<&Recording>, launches: usize| -> Result<f64, Error> {
            // The first replay finds the device idle.
            self.queue.time(recording, before, 1)?;
            Ok(median(self.queue.time(recording, before, times)?) / launches as f64)
        };
        let cold = of(cold, Some(&self.sweep), launches)?;
        let warm = warm.map(|warm| of(warm, None, WARM_LAUNCHES)).transpose()?;
        Ok(GpuTimes { cold, warm })
    }

    /// The better of the driver's copy and a kernel that only negates.
    fn copy(&self, bytes: usize) -> Result<GpuTimes, Error> {
        let work = Work::new(&cases::copy(bytes)?, 0, &self.compiler, &self.queue)?;
        let sets = self.sets(&work)?;
        let by_kernel = self.times(&work, &sets, Follow::InTurn)?;
        let record = |sets: &[work::Set], launches: usize| -> Result<Recording, Error> {
            let mut recorder = self.queue.record()?;
            for set in sets.iter().cycle().take(launches) {
                let [from, to] = set.ends();
                recorder.copy(from, to)?;
            }
            Ok(recorder.finish()?)
        };
        let launches = sets.len().max(4);
        let warm = warm_sets(work.bytes).map(|few| record(&sets[..few], WARM_LAUNCHES)).transpose()?;
        let by_driver = self.figures(&record(&sets, launches)?, launches, warm.as_ref(), work.bytes)?;
        let better = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a.min(b));
        Ok(GpuTimes { cold: by_kernel.cold.min(by_driver.cold), warm: better(by_kernel.warm, by_driver.warm) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_are_as_long_as_their_bytes_allow() {
        assert_eq!([0, 100 << 10, 16 << 20, 1 << 30].map(cold_sets), [96, 96, 89, 3]);
        assert_eq!([0, 100 << 10, 10_000_000, 1 << 30].map(warm_sets), [Some(96), Some(96), Some(1), None]);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn a_machine_without_a_gpu_says_so() {
        let target: Target = "cuda:sm_90".parse().expect("a target");
        match GpuBench::new(&target) {
            Ok(bench) => assert!(!bench.device().is_empty()),
            Err(error) => println!("skipped: GPU figures ({error})"),
        }
    }
}
