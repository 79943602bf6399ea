//! Calls of captured steps: which size serves them, what is padded, and what runs uncaptured. Where the steps run is the
//! business of a [`Carrier`].

use std::cell::OnceCell;
use std::sync::{Arc, Mutex, PoisonError};

use fusewright_runtime::capture::{CaptureReport, CaptureSizes, Pieces, Recorder, Steps};

use super::calls::Calls;
use crate::{Error, HostTensor};

/// Steps of a program on some recorder, with what brings the tensors of a call to them and takes results away. Those of a
/// device are one as those of the host are.
pub(in crate::program) trait Carrier<R: Recorder>: Steps<R, Error = Error> {
    /// A mark on the recorder's stream.
    type Mark;

    /// What calls are.
    fn calls(&self) -> &Calls;

    /// Copies the inputs of a call of so many rows into a frame, and fills it up.
    ///
    /// # Errors
    /// Memory that is not there, or a device that refuses.
    fn put(&self, frame: &Self::Frame, recorder: &R, rows: usize, inputs: &[&HostTensor]) -> Result<(), Error>;

    /// Brings new values of what is kept to their places and copies results out of a frame, one per output, none for those
    /// that stay where they are.
    ///
    /// # Errors
    /// No memory; a device that was lost.
    fn take(&self, frame: &Self::Frame, recorder: &R, rows: usize) -> Result<Vec<Option<HostTensor>>, Error>;

    /// Runs a call of so many rows without a frame.
    ///
    /// # Errors
    /// As calls of the program.
    fn uncaptured(&self, recorder: &R, rows: usize, inputs: &[&HostTensor]) -> Result<Vec<Option<HostTensor>>, Error>;

    /// Gives what is kept under a number a new value, which is of its type.
    ///
    /// # Errors
    /// A device that was lost.
    fn set(&self, recorder: &R, number: usize, tensor: &HostTensor) -> Result<(), Error>;

    /// Reads what is kept under a number into a tensor of its type.
    ///
    /// # Errors
    /// A device that was lost.
    fn get(&self, recorder: &R, number: usize, tensor: &mut HostTensor) -> Result<(), Error>;

    /// Waits until all that was enqueued is done.
    ///
    /// # Errors
    /// A device that was lost.
    fn wait(&self, recorder: &R) -> Result<(), Error>;

    /// Marks where the recorder's stream has come to.
    ///
    /// # Errors
    /// A device that was lost.
    fn mark(&self, recorder: &R) -> Result<Self::Mark, Error>;

    /// Microseconds between two marks, once the later one is reached, which is waited for.
    ///
    /// # Errors
    /// A device that was lost.
    fn us_between(&self, from: &Self::Mark, to: &Self::Mark) -> Result<f64, Error>;
}

/// Captured steps on a carrier.
pub(super) struct Captured<R: Recorder, S: Carrier<R>> {
    pieces: Pieces<R, S>,
    uncaptured: u64,
    /// Held by a call until the device is done with it: others use the same memory or library.
    turns: Arc<Mutex<()>>,
}

/// Captured steps, wherever they run.
pub(super) trait Runs: Send {
    /// Records all graphs.
    fn prepare(&mut self) -> Result<(), Error>;

    /// Runs a call and gives its results, none if they are not wanted.
    fn call(&mut self, inputs: &[&HostTensor], wanted: bool) -> Result<Vec<Option<HostTensor>>, Error>;

    /// Microseconds of a call between its inputs and its results.
    fn time(&mut self, inputs: &[&HostTensor]) -> Result<f64, Error>;

    fn set(&self, name: &str, tensor: &HostTensor) -> Result<(), Error>;

    fn get(&self, name: &str) -> Result<HostTensor, Error>;

    fn report(&self) -> CaptureReport;

    /// Calls that no size served.
    fn uncaptured(&self) -> u64;
}

impl<R: Recorder, S: Carrier<R>> Captured<R, S>
where
    Error: From<R::Error>,
{
    pub fn new(recorder: R, steps: S, sizes: CaptureSizes, turns: Arc<Mutex<()>>) -> Result<Self, Error> {
        Ok(Captured { pieces: Pieces::new(recorder, steps, sizes)?, uncaptured: 0, turns })
    }

    /// Does what needs the device for itself. Nothing that was enqueued runs any more when others have their turn.
    fn in_turn<T>(&mut self, call: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        let turns = Arc::clone(&self.turns);
        let _turn = turns.lock().unwrap_or_else(PoisonError::into_inner);
        let done = call(self);
        let waited = self.pieces.steps().wait(self.pieces.recorder());
        done.and_then(|done| waited.map(|()| done))
    }
}

impl<R, S> Runs for Captured<R, S>
where
    R: Recorder + Send,
    R::Buffer: Send,
    R::Graph: Send,
    S: Carrier<R> + Send,
    S::Frame: Send,
    Error: From<R::Error>,
{
    fn prepare(&mut self) -> Result<(), Error> {
        self.pieces.prepare()
    }

    fn call(&mut self, inputs: &[&HostTensor], wanted: bool) -> Result<Vec<Option<HostTensor>>, Error> {
        let rows = self.pieces.steps().calls().rows(inputs)?;
        self.in_turn(|own| {
            let put = |steps: &S, frame: &S::Frame, recorder: &R| steps.put(frame, recorder, rows, inputs);
            let take = |steps: &S, frame: &S::Frame, recorder: &R| {
                if wanted { steps.take(frame, recorder, rows) } else { Ok(Vec::new()) }
            };
            if let Some(results) = own.pieces.run(rows, put, take)? {
                return Ok(results);
            }
            own.uncaptured += 1;
            own.pieces.steps().uncaptured(own.pieces.recorder(), rows, inputs)
        })
    }

    fn time(&mut self, inputs: &[&HostTensor]) -> Result<f64, Error> {
        let rows = self.pieces.steps().calls().rows(inputs)?;
        self.in_turn(|own| {
            let start = OnceCell::new();
            let put = |steps: &S, frame: &S::Frame, recorder: &R| {
                steps.put(frame, recorder, rows, inputs)?;
                start.set(steps.mark(recorder)?).map_err(|_| Error::Internal("a call is put twice".to_owned()))
            };
            let take = |steps: &S, _: &S::Frame, recorder: &R| {
                let end = steps.mark(recorder)?;
                let start = start.get().ok_or_else(|| Error::Internal("a call is taken first".to_owned()))?;
                steps.us_between(start, &end)
            };
            let us = own.pieces.run(rows, put, take)?;
            us.ok_or_else(|| Error::Call(format!("no size of the captured program serves {rows} rows")))
        })
    }

    fn set(&self, name: &str, tensor: &HostTensor) -> Result<(), Error> {
        let steps = self.pieces.steps();
        let (number, own) = steps.calls().kept_as(name)?;
        if (own.dtype, &own.shape, own.bytes.len()) != (tensor.dtype, &tensor.shape, tensor.bytes.len()) {
            let (is, got) = (format!("{}{:?}", own.dtype, own.shape), format!("{}{:?}", tensor.dtype, tensor.shape));
            return Err(Error::Call(format!("`{name}` is {is}, got {got} of {} bytes", tensor.bytes.len())));
        }
        steps.set(self.pieces.recorder(), number, tensor)
    }

    fn get(&self, name: &str) -> Result<HostTensor, Error> {
        let steps = self.pieces.steps();
        let (number, mut tensor) = steps.calls().kept_as(name)?;
        steps.get(self.pieces.recorder(), number, &mut tensor)?;
        Ok(tensor)
    }

    fn report(&self) -> CaptureReport {
        self.pieces.report()
    }

    fn uncaptured(&self) -> u64 {
        self.uncaptured
    }
}
