//! Calls of captured steps: which size serves them, what is padded, and what runs uncaptured. Where the steps run is the
//! business of a [`Carrier`].

use fusewright_runtime::capture::{CaptureReport, CaptureSizes, Pieces, Recorder, Steps};

use crate::{Error, HostTensor};

/// Steps of a program on some recorder, with what brings the tensors of a call to them and takes results away. Those of a
/// device are one as those of the host are.
pub(super) trait Carrier<R: Recorder>: Steps<R, Error = Error> {
    /// How many rows a call with these inputs has; those that the carrier keeps are not among them.
    ///
    /// # Errors
    /// Inputs that do not fit the graph or the sizes that were fixed, by name.
    fn rows(&self, inputs: &[&HostTensor]) -> Result<usize, Error>;

    /// Copies the inputs of a call of so many rows into a frame, and fills it up.
    ///
    /// # Errors
    /// Memory that is not there, or a device that refuses.
    fn put(&self, frame: &Self::Frame, recorder: &R, rows: usize, inputs: &[&HostTensor]) -> Result<(), Error>;

    /// Copies results out of a frame, one per output, none for those that stay where they are.
    ///
    /// # Errors
    /// No memory; a device that was lost.
    fn take(&self, frame: &Self::Frame, recorder: &R, rows: usize) -> Result<Vec<Option<HostTensor>>, Error>;

    /// Runs a call without a frame.
    ///
    /// # Errors
    /// As calls of the program.
    fn uncaptured(&self, recorder: &R, inputs: &[&HostTensor]) -> Result<Vec<Option<HostTensor>>, Error>;
}

/// Captured steps on a carrier.
pub(super) struct Captured<R: Recorder, S: Carrier<R>> {
    pieces: Pieces<R, S>,
    uncaptured: u64,
}

impl<R: Recorder<Error = Error>, S: Carrier<R>> Captured<R, S> {
    pub fn new(recorder: R, steps: S, sizes: CaptureSizes) -> Result<Self, Error> {
        Ok(Captured { pieces: Pieces::new(recorder, steps, sizes)?, uncaptured: 0 })
    }

    pub fn prepare(&mut self) -> Result<(), Error> {
        self.pieces.prepare()
    }

    /// Runs a call and gives what `take` makes of its frame, or what the program gives where no size serves it.
    pub fn call(&mut self, inputs: &[&HostTensor], wanted: bool) -> Result<Vec<Option<HostTensor>>, Error> {
        let rows = self.pieces.steps().rows(inputs)?;
        let put = |steps: &S, frame: &S::Frame, recorder: &R| steps.put(frame, recorder, rows, inputs);
        let take = |steps: &S, frame: &S::Frame, recorder: &R| {
            if wanted { steps.take(frame, recorder, rows) } else { Ok(Vec::new()) }
        };
        match self.pieces.run(rows, put, take)? {
            Some(results) => Ok(results),
            None => {
                self.uncaptured += 1;
                self.pieces.steps().uncaptured(self.pieces.recorder(), inputs)
            }
        }
    }

    pub fn pieces(&self) -> &Pieces<R, S> {
        &self.pieces
    }

    pub fn report(&self) -> CaptureReport {
        self.pieces.report()
    }

    /// Calls that no size served.
    pub fn uncaptured(&self) -> u64 {
        self.uncaptured
    }
}
