//! A chain at given sizes: how large each tensor is, and what each launch is given.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use fusewright_graph::Value;
use fusewright_runtime::{Module, cuda};

use super::Chain;
use crate::Error;
use crate::program::claims;
use crate::program::plan::{Binding, Place, Plan, Slot};
use crate::program::step::{Step, Work};

/// What calls of a chain at given sizes need.
#[derive(Debug)]
pub struct Fitted {
    symbols: Vec<i64>,
    inputs: Vec<usize>,
    outputs: Vec<usize>,
    pub(super) temporaries: Vec<usize>,
    /// Where the temporaries are in memory that the caller brings.
    pub(super) places: Vec<Range<usize>>,
    pub(super) constants: Vec<Vec<u8>>,
    pub(super) launches: Vec<Launch>,
    /// Temporaries of calls that ended.
    pub(super) workspaces: Mutex<Vec<Vec<Vec<u8>>>>,
}

/// One launch.
#[derive(Debug)]
pub(super) struct Launch {
    pub label: String,
    pub module: Arc<dyn Module>,
    /// The same for memory of a device.
    pub on_device: Option<cuda::Kernel>,
    pub reads: Vec<(Read, Range<usize>)>,
    /// What it writes, each once: outputs, and behind those temporaries.
    pub writes: Vec<(usize, usize)>,
    pub dims: Vec<i64>,
    pub rows: usize,
    /// Whether each row writes to one place at most of whatever it overwrites.
    pub writes_once: bool,
}

/// What a launch reads bytes of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Read {
    Input(usize),
    /// An output, or behind those a temporary.
    Made(usize),
    /// What the launch overwrites a part of: its own argument of that number.
    Same(usize),
    Constant(usize),
}

/// How far apart temporaries begin in memory that the caller brings.
const ALIGNMENT: usize = 256;

impl Fitted {
    /// The values of the symbols.
    pub fn symbols(&self) -> &[i64] {
        &self.symbols
    }

    /// Bytes of each input; none of one that is given as an output.
    pub fn inputs(&self) -> &[usize] {
        &self.inputs
    }

    /// Bytes of each output.
    pub fn outputs(&self) -> &[usize] {
        &self.outputs
    }

    /// Bytes of memory that calls on a device need beside inputs and outputs.
    pub fn scratch(&self) -> usize {
        self.places.last().map_or(0, |place| place.end)
    }

    pub(super) fn of(chain: &Chain, symbols: &[i64]) -> Result<Fitted, Error> {
        let program = &chain.program;
        let declared = program.graph.symbols();
        if declared.len() != symbols.len() {
            return Err(Error::Call(format!("{} sizes for {} symbols", symbols.len(), declared.len())));
        }
        if let Some((symbol, value)) = declared.iter().zip(symbols).find(|(symbol, value)| !symbol.admits(**value)) {
            return Err(Error::Call(format!("symbol `{}` is {value}, outside {}", symbol.name, symbol.span())));
        }
        let binding: Binding = declared.iter().map(|symbol| symbol.name.clone()).zip(symbols.iter().copied()).collect();
        claims::check(&program.claims, &binding)?;
        let plan = Plan::of(&program.graph, &program.steps, &program.layouts, binding, &Default::default())?;
        let bytes = |value: Value| plan.get(value).map(|slot| slot.bytes);
        let mut inputs =
            program.graph.inputs().iter().map(|input| bytes(input.value)).collect::<Result<Vec<_>, _>>()?;
        chain.overwritten.iter().flatten().for_each(|&input| inputs[input] = 0);
        let outputs: Vec<usize> =
            program.graph.outputs().iter().map(|output| bytes(output.value)).collect::<Result<_, _>>()?;
        let mut fitting =
            Fitting { chain, plan: &plan, made: BTreeMap::new(), temporaries: Vec::new(), free: Vec::new() };
        fitting.made.extend(chain.bases.iter().enumerate().map(|(i, &base)| (base, i)));
        let kernels: Vec<(usize, &Step)> =
            program.steps.iter().enumerate().filter(|(_, step)| matches!(step.work, Work::Kernel(_))).collect();
        let mut launches = Vec::with_capacity(kernels.len());
        for (at, step) in kernels {
            launches.push(fitting.launch(at, step)?);
        }
        let temporaries = fitting.temporaries;
        let mut at = 0;
        let place = |&bytes: &usize| {
            let place = at..at + bytes;
            at = place.end.next_multiple_of(ALIGNMENT);
            place
        };
        Ok(Fitted {
            places: temporaries.iter().map(place).collect(),
            symbols: symbols.to_vec(),
            inputs,
            outputs,
            temporaries,
            launches,
            constants: plan.constants,
            workspaces: Mutex::default(),
        })
    }
}

/// Launches in the making.
struct Fitting<'a> {
    chain: &'a Chain,
    plan: &'a Plan,
    /// What holds each value that a kernel has made and that something still reads.
    made: BTreeMap<Value, usize>,
    temporaries: Vec<usize>,
    /// Temporaries that hold nothing.
    free: Vec<usize>,
}

impl Fitting<'_> {
    fn launch(&mut self, at: usize, step: &Step) -> Result<Launch, Error> {
        let Work::Kernel(kernel) = &step.work else {
            return Err(Error::Internal(format!("{} is no kernel", step.label)));
        };
        let mut reads = step.inputs.iter().map(|&value| self.read(step, value)).collect::<Result<Vec<_>, _>>()?;
        for alias in kernel.in_place.aliases().filter(|alias| alias.begins) {
            reads[alias.input] = (Read::Same(step.inputs.len() + alias.output), 0..0);
        }
        let mut writes = Vec::with_capacity(step.outputs.len());
        for &value in &step.outputs {
            let bytes = self.plan.get(value)?.bytes;
            writes.push((self.write(value, bytes), bytes));
        }
        self.end(at)?;
        let slots = step.inputs.iter().chain(&step.outputs).map(|&value| self.plan.get(value));
        let slots: Vec<&Slot> = slots.collect::<Result<_, _>>()?;
        let shapes: Vec<&[usize]> = slots.iter().map(|slot| slot.shape.as_slice()).collect();
        let resolved = kernel.dims.resolve(&shapes, &self.plan.binding);
        let (dims, rows) = resolved.map_err(|message| Error::Call(format!("{}: {message}", step.label)))?;
        let module = kernel.module.clone();
        let module = module.ok_or_else(|| Error::Internal(format!("{}: its code is not loaded", step.label)))?;
        let writes_once = step.kernel.is_some_and(|kernel| self.chain.once.contains(&kernel));
        let (label, on_device) = (step.label.clone(), module.on_device());
        Ok(Launch { label, on_device, module, reads, writes, dims, rows, writes_once })
    }

    /// Where a launch reads a value.
    fn read(&self, step: &Step, value: Value) -> Result<(Read, Range<usize>), Error> {
        let slot = self.plan.get(value)?;
        let start = slot.strided.offset * slot.dtype.bits() as usize;
        if !slot.strided.is_contiguous() || !start.is_multiple_of(8) {
            return Err(Error::Internal(format!("{} reads strides", step.label)));
        }
        let read = match slot.place {
            Place::User(i) => Read::Input(i),
            Place::Constant(i) => Read::Constant(i),
            Place::Buffer(_) | Place::Weight(_) => {
                let base = self.chain.program.layouts.get(value)?.base;
                let made = self.made.get(&base);
                Read::Made(*made.ok_or_else(|| Error::Internal(format!("{} reads what nothing wrote", step.label)))?)
            }
        };
        Ok((read, start / 8..start / 8 + slot.bytes))
    }

    /// Where a launch writes a value: its output, else a temporary.
    fn write(&mut self, value: Value, bytes: usize) -> usize {
        if let Some(&made) = self.made.get(&value) {
            return made;
        }
        let fits = |i: &usize| self.temporaries[*i] >= bytes;
        let found = self.free.iter().copied().filter(fits).min_by_key(|&i| self.temporaries[i]);
        let found = found.or_else(|| self.free.last().copied());
        let temporary = match found {
            Some(i) => {
                self.free.retain(|&free| free != i);
                self.temporaries[i] = self.temporaries[i].max(bytes);
                i
            }
            None => {
                self.temporaries.push(bytes);
                self.temporaries.len() - 1
            }
        };
        let made = self.chain.bases.len() + temporary;
        self.made.insert(value, made);
        made
    }

    /// Frees the temporaries that no later step reads.
    fn end(&mut self, at: usize) -> Result<(), Error> {
        let program = &self.chain.program;
        let later = program.steps[at + 1..].iter().filter(|step| matches!(step.work, Work::Kernel(_)));
        let mut wanted = Vec::new();
        for &value in later.flat_map(|step| &step.inputs) {
            wanted.push(program.layouts.get(value)?.base);
        }
        let outputs = self.chain.bases.len();
        let (free, made) = (&mut self.free, &mut self.made);
        made.retain(|value, &mut at| {
            let kept = at < outputs || wanted.contains(value);
            if !kept {
                free.push(at - outputs);
            }
            kept
        });
        Ok(())
    }
}
