//! Programs in pieces that are recorded once per number of rows and replayed: see `docs/capture.md`.
//!
//! Which steps may be recorded follows from the graph: those that keep rows apart (`rows.rs`), at places that do not depend
//! on how many there are (`parts.rs`). The others are enqueued by every call for the rows that it has, in the same memory
//! (`resize.rs`), so that no choice of a caller makes a result wrong. `calls.rs` is what calls are and `carrier.rs` what they
//! do, on any recorder; `steps.rs` and `host.rs` are a program on the host's, `../device/captured.rs` is one on a device.

mod calls;
mod carrier;
mod host;
mod parts;
mod resize;
mod rows;
mod steps;
mod unsteady;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fusewright_graph::Input;
use fusewright_runtime::capture::{CaptureReport, CaptureSizes, HostRecorder, Recorder};

use self::carrier::{Captured, Runs};
use self::steps::HostSteps;
use super::Program;
use super::device::{Core, DeviceProgram, DeviceSteps, Hardware};
use super::layout::Home;
use crate::{Error, HostTensor};

pub(super) use calls::Calls;
pub(super) use carrier::Carrier;
pub use parts::SplitStep;

/// How a program is captured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureOptions {
    /// The symbol that counts rows.
    pub rows: String,
    /// The values of all other symbols.
    pub dims: BTreeMap<String, i64>,
    /// The numbers of rows that graphs are recorded for; those that the graph does not take are left out.
    pub sizes: CaptureSizes,
    /// Ops and regions whose steps are not recorded, by name, beside those that cannot be.
    pub split_at: Vec<String>,
    /// Inputs that calls do not bring: they lie in the captured program, are read and written there, and are set by
    /// [`CapturedProgram::set`]. None of them has rows.
    pub kept: Vec<String>,
    /// Most threads of a launch on the host.
    pub threads: usize,
    /// On a GPU, no two rows of a call choose the same place to write to, such as slots of a cache, so that such rows may be
    /// written at once. Nobody looks whether that is so.
    pub distinct: bool,
}

impl CaptureOptions {
    /// With rows that a symbol counts, the usual sizes, and one thread.
    pub fn new(rows: &str) -> CaptureOptions {
        CaptureOptions {
            rows: rows.to_owned(),
            dims: BTreeMap::new(),
            sizes: CaptureSizes::default(),
            split_at: Vec::new(),
            kept: Vec::new(),
            threads: 1,
            distinct: false,
        }
    }
}

/// A program whose steps are recorded in pieces and replayed, where its values lie: on the host or on a GPU.
///
/// Calls may come from several threads; one runs at a time, since all sizes share memory. Inputs are copied in and results
/// out, so that callers may give other tensors every time. What the graph updates of the model's buffers, and of the inputs
/// that are kept, stays from call to call.
///
/// ```
/// # use std::sync::Arc;
/// use fusewright::graph::Graph;
/// use fusewright::{CaptureOptions, CapturedProgram, DType, HostTensor, Options, Target, compile};
///
/// let text = "graph @g(s: 1..; %x: f32[s, 4]) {\n  %y = exp %x\n  %z = add %y, %x\n  return %z\n}\n";
/// let graph: Graph = text.parse().map_err(|e| fusewright::Error::Input(format!("{e}")))?;
/// let program = compile(&graph, &Target::Cpu, &Options::default())?.program;
/// let captured = CapturedProgram::new(Arc::new(program), &CaptureOptions::new("s"))?;
/// let x = HostTensor::zeros(DType::F32, &[5, 4]);
/// let results = captured.run(&[&x])?;
/// assert_eq!(results[0].as_ref().map(|z| z.shape.clone()), Some(vec![5, 4]));
/// // Five rows took the graph of eight.
/// assert_eq!(captured.report().graphs.iter().map(|graph| graph.rows).collect::<Vec<_>>(), [8]);
/// # Ok::<(), fusewright::Error>(())
/// ```
pub struct CapturedProgram {
    captured: Mutex<Box<dyn Runs>>,
    split: Vec<SplitStep>,
}

impl std::fmt::Debug for CapturedProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CapturedProgram({:?})", self.report().pieces)
    }
}

impl CapturedProgram {
    /// Divides the steps of a program and gets memory for the sizes. Graphs are recorded when calls first need them, or by
    /// [`CapturedProgram::prepare`].
    ///
    /// # Errors
    /// A symbol that the graph has not or that has no value, a size that it does not take, a name that no step or input has,
    /// a kept input with rows; buffers of the model without data; no memory.
    pub fn new(program: Arc<Program>, options: &CaptureOptions) -> Result<CapturedProgram, Error> {
        if let Some(device) = &program.device {
            return match device {
                DeviceProgram::Gpu(core) => CapturedProgram::on(Arc::clone(core), Arc::clone(&program), options),
                DeviceProgram::Npu(core) => CapturedProgram::on(Arc::clone(core), Arc::clone(&program), options),
            };
        }
        let (calls, sizes, split) = Calls::of(program, options, Home::Host)?;
        let recorder: HostRecorder<Error> = HostRecorder::new();
        let shared = |bytes: &bytes::Bytes| recorder.stream().shared(Arc::new(bytes.clone()));
        let weights = calls.program.weights.iter().map(|bytes| bytes.as_ref().map(shared)).collect();
        let kept = calls.first_values()?.into_iter();
        let kept = kept.map(|(number, tensor)| (number, recorder.stream().buffer(tensor.bytes))).collect();
        let steps = HostSteps { calls, kept, weights, threads: options.threads.max(1) };
        let captured = Captured::new(recorder, steps, sizes, Arc::default())?;
        Ok(CapturedProgram { captured: Mutex::new(Box::new(captured)), split })
    }

    /// As [`CapturedProgram::new`], on a device.
    pub(super) fn on<H: Hardware + 'static>(
        core: Arc<Core<H>>,
        program: Arc<Program>,
        options: &CaptureOptions,
    ) -> Result<CapturedProgram, Error> {
        let (calls, sizes, split) = Calls::of(program, options, Home::Device)?;
        let (recorder, turns) = (core.recorder()?, core.turns());
        let steps = DeviceSteps::new(core, calls, &recorder, options.distinct)?;
        let captured = Captured::new(recorder, steps, sizes, turns)?;
        Ok(CapturedProgram { captured: Mutex::new(Box::new(captured)), split })
    }

    /// Records all graphs now, the largest size first, so that no call records anything.
    ///
    /// # Errors
    /// A step that cannot be recorded, by name.
    pub fn prepare(&self) -> Result<(), Error> {
        self.lock().prepare()
    }

    /// Runs a call: the inputs that are not kept, in the order of the graph. One result per output of the graph, `None` for
    /// those that are the new values of what stays here. The bits are those of [`Program::run`]. Calls of more rows than the
    /// largest size, or of none, run uncaptured.
    ///
    /// # Errors
    /// As [`Program::run`]; sizes other than those that were fixed. If a step fails, what the program keeps is not specified.
    pub fn run(&self, inputs: &[&HostTensor]) -> Result<Vec<Option<HostTensor>>, Error> {
        self.lock().call(inputs, true)
    }

    /// As [`CapturedProgram::run`], and leaves the results where they are, for measurements.
    ///
    /// # Errors
    /// As [`CapturedProgram::run`].
    pub fn run_discarding(&self, inputs: &[&HostTensor]) -> Result<(), Error> {
        self.lock().call(inputs, false).map(drop)
    }

    /// Microseconds of a call between its inputs and its results: on a GPU, which measures it, of its graphs and of what lies
    /// between them. The inputs are copied before, and results stay where they are.
    ///
    /// # Errors
    /// As [`CapturedProgram::run`], and calls that no size serves.
    pub fn time(&self, inputs: &[&HostTensor]) -> Result<f64, Error> {
        self.lock().time(inputs)
    }

    /// Gives a kept input, or a buffer of the model that its graph updates, a new value. Kept inputs hold zeros before.
    ///
    /// # Errors
    /// A name of nothing that is kept, or a tensor of another type.
    pub fn set(&self, name: &str, tensor: &HostTensor) -> Result<(), Error> {
        self.lock().set(name, tensor)
    }

    /// The value of a kept input, or of a buffer of the model that its graph updates.
    ///
    /// # Errors
    /// A name of nothing that is kept.
    pub fn get(&self, name: &str) -> Result<HostTensor, Error> {
        self.lock().get(name)
    }

    /// The steps that every call enqueues, and why they are not recorded.
    pub fn split(&self) -> &[SplitStep] {
        &self.split
    }

    /// The pieces, what was recorded of them, how long that took, and what it takes.
    pub fn report(&self) -> CaptureReport {
        self.lock().report()
    }

    /// Calls that ran uncaptured.
    pub fn uncaptured(&self) -> u64 {
        self.lock().uncaptured()
    }

    fn lock(&self) -> MutexGuard<'_, Box<dyn Runs>> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn users(program: &Program) -> impl Iterator<Item = &Input> {
    program.graph.inputs().iter().filter(|input| input.kind.is_given())
}
