//! Times on one GPU: replays of a graph of launches over buffer sets of their own.
//!
//! *Cold*: a read of 256 MB leaves nothing else in the caches before every replay, and each set is touched once. *Hot*: few
//! sets, which stay in the second-level cache, as a kernel finds what the one before it wrote. One figure is the median
//! over replays of the time between two events, divided by the launches of the graph.

use fusewright_runtime::cuda::{DeviceArg, DeviceBuffer, Event, Gpu, Graph, LaunchOptions, Prepared, Stream};

use super::ops::{CaseKernel, copy_case, sweep_case};
use crate::{Compiler, Error};

/// Most bytes of all sets together for the hot figure.
pub(super) const HOT_BYTES: f64 = 16e6;
/// Bytes of all sets together for the cold figure, and most sets.
const SET_BYTES: f64 = 1.5e9;
const MAX_SETS: usize = 96;
/// Launches of a graph for the hot figure, of ops and of copies.
const HOT_LAUNCHES: usize = 64;
const HOT_COPIES: usize = 96;
/// Bytes that the sweep reads.
const SWEEP_BYTES: usize = 256 << 20;
/// Sweeps that bring the clocks up.
const WARM_UP: usize = 3000;
/// Replays of a figure; of a large op, and of a copy.
const REPLAYS: usize = 11;
const FEW_REPLAYS: usize = 7;
const COPY_REPLAYS: usize = 9;
/// Replays of a figure of a model.
pub(super) const MODEL_REPLAYS: usize = 51;
/// Bytes of an op from which on there are fewer replays.
const LARGE: usize = 300_000_000;
/// What outputs hold before a replay that must change them, and how many bytes of them are looked at.
const POISON: u8 = 0x11;
pub(super) const PROBED: usize = 64 << 20;

/// Number of buffer sets for the cold figure of an op that moves so many bytes.
pub(super) fn set_count(bytes: usize) -> usize {
    ((SET_BYTES / (bytes as f64 + 4096.0)) as usize).clamp(3, MAX_SETS)
}

/// Number of those sets that the hot figure uses, if the op fits the cache.
pub(super) fn hot_sets(bytes: usize, sets: usize) -> Option<usize> {
    (bytes as f64 <= HOT_BYTES).then(|| ((HOT_BYTES / bytes.max(1) as f64) as usize).clamp(1, sets.max(1)))
}

/// The middle one of some figures, the upper of two; NaN of none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Launches that take turns, in microseconds each: with empty caches, and where the op fits, with its inputs in the cache.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Times {
    pub us: f64,
    pub hot_us: Option<f64>,
}

/// What enqueues one launch.
type Enqueue<'a> = Box<dyn Fn(&Stream) -> Result<(), fusewright_runtime::RuntimeError> + 'a>;

/// How a graph is timed.
struct Plan {
    launches: usize,
    replays: usize,
    cold: bool,
}

/// A stream, and what is needed to time what runs on it.
pub(super) struct Timer {
    pub gpu: Gpu,
    pub stream: Stream,
    sweep: Prepared,
    events: Vec<(Event, Event)>,
    copy: CaseKernel,
    /// Times of copies by bytes that are read.
    copies: Vec<(usize, Times)>,
}

impl Timer {
    /// Gets a device ready, clocks included.
    ///
    /// # Errors
    /// A kernel of the bench that does not compile or load; too little memory.
    pub fn new(gpu: Gpu) -> Result<Timer, Error> {
        let stream = gpu.stream()?;
        let compiler = Compiler::new(gpu.target())?;
        let kernel = CaseKernel::of(&sweep_case()?, &compiler)?;
        let rows = SWEEP_BYTES / (4096 * 4);
        let sized = kernel.at(&[(super::ops::ROWS.to_owned(), rows as i64)].into())?;
        let (from, to) = (gpu.buffer(SWEEP_BYTES)?, gpu.buffer(rows * 4)?);
        from.fill(&stream, 0)?;
        let args = [DeviceArg::In(&from), DeviceArg::Out(&to)];
        let sweep = gpu.load(&kernel.artifact)?.prepare(&args, &sized.dims, sized.rows, LaunchOptions::default())?;
        let events = (0..MODEL_REPLAYS).map(|_| Ok((gpu.event()?, gpu.event()?))).collect::<Result<_, Error>>()?;
        for _ in 0..WARM_UP {
            sweep.enqueue(&stream)?;
        }
        stream.wait()?;
        let copy = CaseKernel::of(&copy_case()?, &compiler)?;
        Ok(Timer { gpu, stream, sweep, events, copy, copies: Vec::new() })
    }

    /// Times launches over sets that together are one op each. `probe` is an output of the first set.
    ///
    /// # Errors
    /// A device that fails; a replay that leaves the output as it was.
    pub fn times(&mut self, sets: &[Prepared], bytes: usize, probe: &DeviceBuffer) -> Result<Times, Error> {
        let launches: Vec<Enqueue<'_>> = sets.iter().map(|set| Box::new(|s: &Stream| set.enqueue(s)) as _).collect();
        let us = self.cold_us_of(&launches, bytes, probe)?;
        let hot = Plan { launches: HOT_LAUNCHES, replays: REPLAYS, cold: false };
        let few = hot_sets(bytes, sets.len()).and_then(|few| launches.get(..few));
        let hot_us = few.map(|few| self.graph_us(few, &hot, None)).transpose()?;
        Ok(Times { us, hot_us })
    }

    /// Microseconds of a launch over sets that together are one op each, with empty caches. `probe` is an output of the first
    /// set.
    ///
    /// # Errors
    /// As [`Timer::times`].
    pub fn cold_us(&mut self, sets: &[Prepared], bytes: usize, probe: &DeviceBuffer) -> Result<f64, Error> {
        let launches: Vec<Enqueue<'_>> = sets.iter().map(|set| Box::new(|s: &Stream| set.enqueue(s)) as _).collect();
        self.cold_us_of(&launches, bytes, probe)
    }

    fn cold_us_of(&mut self, launches: &[Enqueue<'_>], bytes: usize, probe: &DeviceBuffer) -> Result<f64, Error> {
        let replays = if bytes < LARGE { REPLAYS } else { FEW_REPLAYS };
        let cold = Plan { launches: launches.len().max(4), replays, cold: true };
        self.graph_us(launches, &cold, Some(probe))
    }

    /// The best copy that moves so many bytes, half read and half written: the driver's, or a kernel of ours.
    ///
    /// # Errors
    /// A device that fails; too little memory.
    pub fn copy(&mut self, bytes: usize) -> Result<Times, Error> {
        // Rows of the kernel are of this many bytes.
        let row = 2048 * 4;
        let rows = ((bytes / 2 + row / 2) / row).max(1);
        let half = rows * row;
        if let Some((_, times)) = self.copies.iter().find(|(known, _)| *known == half) {
            return Ok(*times);
        }
        let sized = self.copy.at(&[(super::ops::ROWS.to_owned(), rows as i64)].into())?;
        let kernel = self.gpu.load(&self.copy.artifact)?;
        let count = set_count(2 * half);
        let mut sets = Vec::with_capacity(count);
        for _ in 0..count {
            let (from, to) = (self.gpu.buffer(half)?, self.gpu.buffer(half)?);
            from.fill(&self.stream, 1)?;
            let args = [DeviceArg::In(&from), DeviceArg::Out(&to)];
            let prepared = kernel.prepare(&args, &sized.dims, sized.rows, LaunchOptions::default())?;
            sets.push((from, to, prepared));
        }
        let by_driver: Vec<Enqueue<'_>> =
            sets.iter().map(|(from, to, _)| Box::new(|s: &Stream| to.copy_from(s, from)) as _).collect();
        let by_kernel: Vec<Enqueue<'_>> =
            sets.iter().map(|(_, _, kernel)| Box::new(|s: &Stream| kernel.enqueue(s)) as _).collect();
        let mut best = Times { us: f64::INFINITY, hot_us: None };
        for launches in [by_driver, by_kernel] {
            let cold = Plan { launches: count.max(4), replays: COPY_REPLAYS, cold: true };
            best.us = best.us.min(self.graph_us(&launches, &cold, None)?);
            let hot = Plan { launches: HOT_COPIES, replays: COPY_REPLAYS, cold: false };
            if let Some(few) = hot_sets(2 * half, count).and_then(|few| launches.get(..few)) {
                let us = self.graph_us(few, &hot, None)?;
                best.hot_us = Some(best.hot_us.map_or(us, |best| best.min(us)));
            }
        }
        self.copies.push((half, best));
        Ok(best)
    }

    /// Microseconds of a launch, the median over replays of a graph of launches that rotate over the sets.
    fn graph_us(&mut self, sets: &[Enqueue<'_>], plan: &Plan, probe: Option<&DeviceBuffer>) -> Result<f64, Error> {
        for launch in sets.iter().take(2) {
            launch(&self.stream)?;
        }
        self.stream.wait()?;
        let graph = self
            .stream
            .capture(|stream| sets.iter().cycle().take(plan.launches).try_for_each(|launch| launch(stream)))?;
        let stream = &self.stream;
        graph.upload(stream)?;
        graph.launch(stream)?;
        graph.launch(stream)?;
        if let Some(output) = probe.filter(|output| !output.is_empty()) {
            output.fill(stream, POISON)?;
            graph.launch(stream)?;
            let mut bytes = vec![0; output.len().min(PROBED)];
            output.download(stream, 0, &mut bytes)?;
            if bytes.iter().all(|&byte| byte == POISON) {
                return Err(Error::Device("a replay of the captured launches wrote nothing".to_owned()));
            }
        }
        Ok(self.replay_us(&graph, plan.replays, plan.cold)? / plan.launches as f64)
    }

    /// Microseconds of a replay of a graph, the median of some: with empty caches, or as the replay before left them.
    ///
    /// # Errors
    /// A device that fails.
    pub fn replay_us(&self, graph: &Graph, replays: usize, cold: bool) -> Result<f64, Error> {
        let stream = &self.stream;
        let events = self.events.get(..replays).unwrap_or(&self.events);
        if !cold {
            // Lets this thread run ahead of the device; the replay behind it fills the cache again.
            (0..(events.len() / 4).max(2)).try_for_each(|_| self.sweep.enqueue(stream))?;
            graph.launch(stream)?;
        }
        for (begin, end) in events {
            if cold {
                self.sweep.enqueue(stream)?;
            }
            begin.record(stream)?;
            graph.launch(stream)?;
            end.record(stream)?;
        }
        stream.wait()?;
        let us = |(begin, end): &(Event, Event)| Ok(begin.us_until(end)?);
        Ok(median(events.iter().map(us).collect::<Result<_, Error>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_fill_the_memory_that_is_set_aside_and_no_more() {
        assert_eq!([0, 30_720, 20_000_000, 83_000_000, 3_000_000_000].map(set_count), [96, 96, 74, 18, 3]);
        assert_eq!(hot_sets(30_720, 96), Some(96));
        assert_eq!(hot_sets(5_000_000, 96), Some(3));
        assert_eq!(hot_sets(15_900_000, 96), Some(1));
        assert_eq!(hot_sets(16_000_001, 96), None);
    }

    #[test]
    fn the_median_is_a_figure_that_was_measured() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), 3.0);
        assert!(median(Vec::new()).is_nan());
    }
}
