//! Programs in pieces that are recorded once per number of rows and replayed: see `docs/capture.md`.
//!
//! Which steps may be recorded follows from the graph: those that keep rows apart (`rows.rs`), at places that do not depend
//! on how many there are (`parts.rs`). The others are enqueued by every call for the rows that it has, in the same memory
//! (`resize.rs`), so that no choice of a caller makes a result wrong. `steps.rs` is a program on the host recorder;
//! `carrier.rs` is what calls of any recorder have in common.

mod carrier;
mod host;
mod parts;
mod resize;
mod rows;
mod steps;
mod unsteady;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fusewright_graph::tensor::check_memory;
use fusewright_graph::{Dim, Input, Symbol};
use fusewright_runtime::capture::{CaptureReport, CaptureSizes, HostRecorder, Recorder};

use self::carrier::Captured;
use self::rows::Rows;
use self::steps::HostSteps;
use super::{Program, claims, state};
use crate::{Error, HostTensor};

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
    /// Most threads of a launch.
    pub threads: usize,
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
        }
    }
}

/// A program whose steps are recorded in pieces and replayed, on the host.
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
    captured: Mutex<Captured<HostRecorder<Error>, HostSteps>>,
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
    /// a kept input with rows; buffers of the model without data; no memory; a program whose values lie on a GPU.
    pub fn new(program: Arc<Program>, options: &CaptureOptions) -> Result<CapturedProgram, Error> {
        if program.device.is_some() {
            let name = program.graph.name();
            return Err(Error::Unavailable(format!(
                "`{name}` runs on a GPU, and programs are captured on the host alone"
            )));
        }
        let symbol = checked_symbols(&program, options)?;
        let sizes = sizes(&program, options, symbol)?;
        let parts = parts::parts(&program, &options.rows, &options.split_at)?;
        let recorder: HostRecorder<Error> = HostRecorder::new();
        let kept = kept_numbers(&program, options)?;
        let updated = |name: &str| program.graph.outputs().iter().any(|o| o.updates.as_deref() == Some(name));
        let users: Vec<&Input> = users(&program).collect();
        let inputs = users.len();
        let mut donated: BTreeSet<usize> = kept.iter().copied().filter(|&n| updated(&users[n].name)).collect();
        let mut buffers = BTreeMap::new();
        for number in kept {
            let tensor = program.tensor_of(users[number], &options.dims)?;
            buffers.insert(number, recorder.stream().buffer(tensor.bytes));
        }
        for ((_, tensor), number) in program.state()?.buffers().zip(inputs..) {
            donated.insert(number);
            buffers.insert(number, recorder.stream().buffer(tensor.bytes.clone()));
        }
        let shared = |bytes: &bytes::Bytes| recorder.stream().shared(Arc::new(bytes.clone()));
        let steps = HostSteps {
            weights: program.weights.iter().map(|bytes| bytes.as_ref().map(shared)).collect(),
            program: Arc::clone(&program),
            parts: parts.parts,
            choosers: parts.choosers,
            spread: parts.spread,
            symbol: options.rows.clone(),
            dims: options.dims.clone(),
            kept: buffers,
            donated,
            inputs,
            threads: options.threads.max(1),
        };
        let captured = Captured::new(recorder, steps, sizes)?;
        Ok(CapturedProgram { captured: Mutex::new(captured), split: parts.split })
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

    /// Gives a kept input, or a buffer of the model that its graph updates, a new value. Kept inputs hold zeros before.
    ///
    /// # Errors
    /// A name of nothing that is kept, or a tensor of another type.
    pub fn set(&self, name: &str, tensor: &HostTensor) -> Result<(), Error> {
        let captured = self.lock();
        let pieces = captured.pieces();
        pieces.steps().set(pieces.recorder(), name, tensor)
    }

    /// The value of a kept input, or of a buffer of the model that its graph updates.
    ///
    /// # Errors
    /// A name of nothing that is kept.
    pub fn get(&self, name: &str) -> Result<HostTensor, Error> {
        let captured = self.lock();
        let pieces = captured.pieces();
        pieces.steps().get(pieces.recorder(), name)
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

    fn lock(&self) -> MutexGuard<'_, Captured<HostRecorder<Error>, HostSteps>> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn users(program: &Program) -> impl Iterator<Item = &Input> {
    program.graph.inputs().iter().filter(|input| input.kind.is_given())
}

/// The symbol that counts rows, when every other one has a value.
fn checked_symbols<'p>(program: &'p Program, options: &CaptureOptions) -> Result<&'p Symbol, Error> {
    let (name, symbols) = (program.graph.name(), program.graph.symbols());
    let known = |wanted: &str| symbols.iter().find(|symbol| symbol.name == *wanted);
    let rows = known(&options.rows);
    let rows = rows.ok_or_else(|| Error::Call(format!("`{name}` has no symbol `{}` to count rows", options.rows)))?;
    for (dim, &value) in &options.dims {
        let symbol = known(dim).filter(|symbol| symbol.name != rows.name);
        let symbol = symbol.ok_or_else(|| Error::Call(format!("`{name}` has no symbol `{dim}` beside its rows")))?;
        if !symbol.admits(value) {
            return Err(Error::Call(format!("symbol `{dim}` is {value}, outside {}", symbol.range())));
        }
    }
    match symbols.iter().find(|symbol| symbol.name != rows.name && !options.dims.contains_key(&symbol.name)) {
        Some(open) => Err(Error::Call(format!("the options do not say what symbol `{}` is", open.name))),
        None => Ok(rows),
    }
}

/// The sizes that the graph takes.
fn sizes(program: &Program, options: &CaptureOptions, symbol: &Symbol) -> Result<CaptureSizes, Error> {
    let takes = |&size: &usize| {
        let Ok(value) = i64::try_from(size) else { return false };
        let mut binding = options.dims.clone();
        binding.insert(options.rows.clone(), value);
        symbol.admits(value) && claims::check(&program.claims, &binding).is_ok()
    };
    let taken = CaptureSizes::new(options.sizes.all().iter().copied().filter(takes));
    taken
        .map_err(|e| Error::Call(format!("`{}` with {} in {}: {e}", program.graph.name(), symbol.name, symbol.range())))
}

/// The numbers of the inputs that are kept.
fn kept_numbers(program: &Program, options: &CaptureOptions) -> Result<Vec<usize>, Error> {
    let number = |name: &String| {
        let found = users(program).enumerate().find(|(_, input)| input.name == *name);
        let (number, input) = found.ok_or_else(|| Error::Call(format!("there is no input `{name}` to be kept")))?;
        let ty = program.graph.ty(input.value);
        match Rows::of(ty, &options.rows) {
            Rows::None => Ok(number),
            _ => Err(Error::Call(format!("input `{name}` is {ty}: it has rows, and every call brings them"))),
        }
    };
    options.kept.iter().map(number).collect()
}

impl Program {
    /// A tensor of the type of an input, of zeros.
    fn tensor_of(&self, input: &Input, dims: &BTreeMap<String, i64>) -> Result<HostTensor, Error> {
        let tensor = self.shape_of(input, dims)?;
        let bytes = tensor.dtype.bytes_for(tensor.elements());
        check_memory::<u8>(bytes, tensor.dtype, &tensor.shape)?;
        Ok(HostTensor { bytes: vec![0; bytes], ..tensor })
    }

    /// The same without its bytes.
    fn shape_of(&self, input: &Input, dims: &BTreeMap<String, i64>) -> Result<HostTensor, Error> {
        let ty = self.graph.ty(input.value);
        let extent = |dim: &Dim| {
            let value = dim.eval(&|symbol| dims.get(symbol).copied()).map_err(|e| Error::Call(e.to_string()))?;
            usize::try_from(value).map_err(|_| Error::Call(format!("input `{}`: extent {dim} is {value}", input.name)))
        };
        let shape = ty.shape.iter().map(extent).collect::<Result<Vec<usize>, Error>>()?;
        let elements = shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent));
        elements.ok_or_else(|| Error::Call(format!("input `{}` does not fit the address space", input.name)))?;
        Ok(HostTensor { dtype: ty.dtype, shape, bytes: Vec::new() })
    }

    /// The tensors that are kept, by their numbers, with their names: inputs, and behind those the buffers of a state.
    fn keepable(&self) -> impl Iterator<Item = (usize, &Input)> {
        users(self).chain(state::buffers(&self.graph).map(|(_, input)| input)).enumerate()
    }
}
