//! Steps in pieces, each recorded once per size.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use super::{CaptureSizes, Cost, MemoryPool, Piece, Recorder, Steps, split};
use crate::RuntimeError;

/// Steps in pieces, and the graphs that were recorded of them. Calls follow each other, since they share memory.
pub struct Pieces<R: Recorder, S: Steps<R>> {
    recorder: R,
    steps: S,
    pieces: Vec<Piece>,
    sizes: CaptureSizes,
    pool: MemoryPool<R::Buffer>,
    /// Bytes that the sizes would take if they shared none.
    apart: usize,
    frames: BTreeMap<usize, Framed<S::Frame, R::Graph>>,
    recorded: Vec<GraphReport>,
    dropped: usize,
    replays: u64,
}

/// One size.
struct Framed<F, G> {
    frame: F,
    /// Of the steps, when the frame was made.
    generation: u64,
    /// One per piece, if it is recorded.
    graphs: Vec<Option<G>>,
}

/// One recorded graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GraphReport {
    /// Its size.
    pub rows: usize,
    /// Its steps.
    pub steps: Range<usize>,
    /// Microseconds that recording took, with whatever the recorder does to make it ready.
    pub us: u64,
    /// What it costs.
    pub cost: Cost,
}

/// What was recorded so far, and what it takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureReport {
    /// The pieces, in order.
    pub pieces: Vec<Piece>,
    /// Bytes of memory that all sizes share.
    pub pool_bytes: usize,
    /// Bytes that they would take if each had its own.
    pub apart_bytes: usize,
    /// Graphs in the order in which they were recorded, those that were dropped since included.
    pub graphs: Vec<GraphReport>,
    /// How many of them were dropped, since what they use had moved.
    pub dropped: usize,
    /// How often a graph was replayed.
    pub replays: u64,
}

impl<R: Recorder, S: Steps<R>> Pieces<R, S> {
    /// Splits the steps and gets memory for the sizes, the largest first. Nothing is recorded yet.
    ///
    /// # Errors
    /// A size that the steps do not take; memory that cannot be had.
    pub fn new(recorder: R, steps: S, sizes: CaptureSizes) -> Result<Self, S::Error> {
        let needs = sizes.all().iter().rev().map(|&rows| steps.needs(rows)).collect::<Result<Vec<_>, _>>()?;
        let apart = needs.iter().flatten().sum();
        let pool = MemoryPool::new(needs, |bytes| recorder.buffer(bytes))?;
        let pieces = split(steps.parts());
        let (frames, recorded) = (BTreeMap::new(), Vec::new());
        Ok(Pieces { recorder, steps, pieces, sizes, pool, apart, frames, recorded, dropped: 0, replays: 0 })
    }

    /// Records every piece for every size, the largest first, so that no later call records anything.
    ///
    /// # Errors
    /// A piece that cannot be recorded. What was recorded before stays.
    pub fn prepare(&mut self) -> Result<(), S::Error> {
        for rows in self.sizes.all().to_vec().into_iter().rev() {
            self.make_frame(rows)?;
            for piece in 0..self.pieces.len() {
                self.record(rows, piece)?;
            }
        }
        Ok(())
    }

    /// Runs all steps for so many rows: `before` puts a call's operands into the frame, whose last rows are padding, and
    /// `after` takes its results out, of which the first `rows` rows are those of the call. They are overwritten by the next
    /// call, of whatever size. `None`, and nothing is done, where no size serves the number of rows: there are more than the
    /// largest has, or none.
    ///
    /// # Errors
    /// A step that fails or cannot be recorded. What the frame holds is then not specified, and the next call may be made.
    pub fn run<T>(
        &mut self,
        rows: usize,
        before: impl FnOnce(&S, &S::Frame, &R) -> Result<(), S::Error>,
        after: impl FnOnce(&S, &S::Frame, &R) -> Result<T, S::Error>,
    ) -> Result<Option<T>, S::Error> {
        let Some(size) = self.sizes.fit(rows) else { return Ok(None) };
        self.make_frame(size)?;
        for piece in 0..self.pieces.len() {
            self.record(size, piece)?;
        }
        let Pieces { recorder, steps, pieces, frames, replays, .. } = self;
        let framed = frames.get(&size).ok_or_else(missing)?;
        before(steps, &framed.frame, recorder)?;
        for (piece, graph) in pieces.iter().zip(&framed.graphs) {
            match graph {
                Some(graph) => {
                    recorder.replay(graph)?;
                    *replays += 1;
                }
                None => steps.enqueue(&framed.frame, piece.steps.clone(), rows, recorder.stream())?,
            }
        }
        after(steps, &framed.frame, recorder).map(Some)
    }

    /// What is enqueued.
    pub fn steps(&self) -> &S {
        &self.steps
    }

    /// The same, to change what it uses beside the frames; [`Steps::generation`] says whether graphs notice.
    pub fn steps_mut(&mut self) -> (&mut S, &R) {
        (&mut self.steps, &self.recorder)
    }

    /// What records.
    pub fn recorder(&self) -> &R {
        &self.recorder
    }

    /// What was recorded so far, and what it takes.
    pub fn report(&self) -> CaptureReport {
        CaptureReport {
            pieces: self.pieces.clone(),
            pool_bytes: self.pool.bytes(),
            apart_bytes: self.apart,
            graphs: self.recorded.clone(),
            dropped: self.dropped,
            replays: self.replays,
        }
    }

    /// The frame of a size, anew if what its graphs use has moved.
    fn make_frame(&mut self, rows: usize) -> Result<(), S::Error> {
        let generation = self.steps.generation();
        if let Some(framed) = self.frames.get(&rows) {
            if framed.generation == generation {
                return Ok(());
            }
            self.dropped += framed.graphs.iter().flatten().count();
            self.frames.remove(&rows);
        }
        let buffers = self.pool.lend(&self.steps.needs(rows)?).ok_or_else(missing)?;
        let frame = self.steps.frame(rows, &buffers, &self.recorder)?;
        let graphs = self.pieces.iter().map(|_| None).collect();
        self.frames.insert(rows, Framed { frame, generation, graphs });
        Ok(())
    }

    /// Records a piece, unless it is recorded or is to be enqueued by every call.
    fn record(&mut self, rows: usize, piece: usize) -> Result<(), S::Error> {
        let Pieces { recorder, steps, pieces, frames, recorded, .. } = self;
        let framed = frames.get_mut(&rows).ok_or_else(missing)?;
        let (piece, graph) = (&pieces[piece], &mut framed.graphs[piece]);
        if !piece.captured || graph.is_some() {
            return Ok(());
        }
        let start = Instant::now();
        let (made, cost) = recorder.record(|stream| steps.enqueue(&framed.frame, piece.steps.clone(), rows, stream))?;
        *graph = Some(made);
        let us = start.elapsed().as_micros() as u64;
        recorded.push(GraphReport { rows, steps: piece.steps.clone(), us, cost });
        Ok(())
    }
}

/// A frame or memory that is there by construction is not: steps that need more than they said.
fn missing<E: From<R>, R: From<RuntimeError>>() -> E {
    let reason = "the steps need other memory than they said at first".to_owned();
    let failure = crate::DeviceFailure::Refused;
    R::from(RuntimeError::Device { action: "capturing steps", failure, reason }).into()
}
