//! The tensors of calls on the host: copied into a frame and out of it, or given to the program as it is.

use std::borrow::Cow;

use fusewright_graph::{DType, Input};
use fusewright_runtime::capture::{HostRecorder, Recorder};

use super::carrier::Carrier;
use super::steps::{HostFrame, HostSteps};
use super::users;
use crate::program::plan::bind;
use crate::program::{Argument, Run, State, claims};
use crate::{Error, HostTensor};

/// What padding is filled with: places that choose none, else zeros.
const NOWHERE: u8 = 0xff;
const ZERO: u8 = 0;

impl HostSteps {
    /// Gives what is kept under a name a new value.
    pub fn set(&self, recorder: &HostRecorder<Error>, name: &str, tensor: &HostTensor) -> Result<(), Error> {
        let (number, input) = self.kept_as(name)?;
        let own = self.program.tensor_of(input, &self.dims)?;
        if (own.dtype, &own.shape, own.bytes.len()) != (tensor.dtype, &tensor.shape, tensor.bytes.len()) {
            let (is, got) = (format!("{}{:?}", own.dtype, own.shape), format!("{}{:?}", tensor.dtype, tensor.shape));
            return Err(Error::Call(format!("`{name}` is {is}, got {got} of {} bytes", tensor.bytes.len())));
        }
        recorder.stream().with_memory(|memory| {
            memory.bytes_mut(&self.kept[&number]).copy_from_slice(&tensor.bytes);
            Ok(())
        })
    }

    /// The value of what is kept under a name.
    pub fn get(&self, recorder: &HostRecorder<Error>, name: &str) -> Result<HostTensor, Error> {
        let (number, input) = self.kept_as(name)?;
        let mut tensor = self.program.tensor_of(input, &self.dims)?;
        recorder.stream().with_memory(|memory| {
            tensor.bytes.copy_from_slice(memory.bytes(&self.kept[&number]));
            Ok(())
        })?;
        Ok(tensor)
    }

    fn kept_as(&self, name: &str) -> Result<(usize, &Input), Error> {
        let found =
            self.program.keepable().find(|(number, input)| input.name == name && self.kept.contains_key(number));
        found.ok_or_else(|| Error::Call(format!("the captured program keeps nothing of the name `{name}`")))
    }

    /// The inputs that calls bring, with their numbers.
    fn called(&self) -> impl Iterator<Item = (usize, &Input)> {
        users(&self.program).enumerate().filter(|(number, _)| !self.kept.contains_key(number))
    }
}

impl Carrier<HostRecorder<Error>> for HostSteps {
    fn rows(&self, inputs: &[&HostTensor]) -> Result<usize, Error> {
        let graph = &self.program.graph;
        let count = self.called().count();
        if inputs.len() != count {
            return Err(Error::Call(format!("captured `{}` takes {count} inputs, got {}", graph.name(), inputs.len())));
        }
        let mut given = inputs.iter();
        let mut all: Vec<Cow<'_, HostTensor>> = Vec::with_capacity(self.inputs);
        for (number, input) in users(&self.program).enumerate() {
            all.push(match self.kept.contains_key(&number) {
                true => Cow::Owned(self.program.shape_of(input, &self.dims)?),
                false => Cow::Borrowed(given.next().ok_or_else(|| Error::Call("an input is missing".to_owned()))?),
            });
        }
        for tensor in inputs {
            tensor.check()?;
        }
        let shapes: Vec<(DType, &[usize])> = all.iter().map(|t| (t.dtype, t.shape.as_slice())).collect();
        let binding = bind(graph, &shapes)?;
        for (name, value) in &self.dims {
            if let Some(got) = binding.get(name).filter(|got| *got != value) {
                return Err(Error::Call(format!("symbol `{name}` is {got}, captured for {value}")));
            }
        }
        let rows = binding.get(&self.symbol).and_then(|&rows| usize::try_from(rows).ok());
        rows.ok_or_else(|| Error::Call(format!("the inputs do not say what symbol `{}` is", self.symbol)))
    }

    fn put(
        &self,
        frame: &HostFrame,
        recorder: &HostRecorder<Error>,
        rows: usize,
        inputs: &[&HostTensor],
    ) -> Result<(), Error> {
        // What calls claim is checked here, since a plan of more rows says nothing of theirs.
        claims::check(&self.program.claims, &self.binding(rows)?)?;
        recorder.stream().with_memory(|memory| {
            for ((number, input), tensor) in self.called().zip(inputs) {
                let buffer = frame.input(number).ok_or_else(|| Error::Internal(format!("no input {number}")))?;
                let size = frame.plan.get(input.value)?.bytes;
                let place =
                    memory.bytes_mut(buffer).get_mut(..size).and_then(|p| p.split_at_mut_checked(tensor.bytes.len()));
                let larger = || Error::Call(format!("input `{}` is larger for fewer rows", input.name));
                let (given, padding) = place.ok_or_else(larger)?;
                given.copy_from_slice(&tensor.bytes);
                padding.fill(if self.choosers.contains(&number) { NOWHERE } else { ZERO });
            }
            Ok(())
        })
    }

    fn take(
        &self,
        frame: &HostFrame,
        recorder: &HostRecorder<Error>,
        rows: usize,
    ) -> Result<Vec<Option<HostTensor>>, Error> {
        let plan = self.at(frame, rows)?;
        recorder
            .stream()
            .with_memory(|memory| self.with(&frame.memory, &plan, memory, |memory| self.program.collect(&plan, memory)))
    }

    fn uncaptured(
        &self,
        recorder: &HostRecorder<Error>,
        inputs: &[&HostTensor],
    ) -> Result<Vec<Option<HostTensor>>, Error> {
        recorder.stream().with_memory(|memory| {
            let kept = self.program.keepable().filter(|(number, _)| self.kept.contains_key(number));
            let shape = |(number, input): (usize, &Input)| -> Result<_, Error> {
                Ok((number, input.name.clone(), self.program.shape_of(input, &self.dims)?))
            };
            let mut kept = kept.map(shape).collect::<Result<Vec<(usize, String, HostTensor)>, Error>>()?;
            kept.iter_mut().for_each(|(number, _, tensor)| tensor.bytes = memory.take(&self.kept[number]));
            let of_model = kept.split_off(kept.partition_point(|(number, ..)| *number < self.inputs));
            let mut state = State::new(of_model.into_iter().map(|(_, name, tensor)| (name, tensor)).collect());
            let (mut own, mut given) = (kept.iter_mut().peekable(), inputs.iter());
            let mut arguments: Vec<Argument<'_>> = Vec::with_capacity(self.inputs);
            for number in 0..self.inputs {
                if let Some((_, _, tensor)) = own.next_if(|(kept, ..)| *kept == number) {
                    let written = self.donated.contains(&number);
                    arguments.push(if written { Argument::InOut(tensor) } else { Argument::Read(tensor) });
                } else if let Some(tensor) = given.next() {
                    arguments.push(Argument::Read(tensor));
                }
            }
            let run = Run { threads: self.threads, guarded: false };
            let results = self
                .program
                .call(&mut arguments, Some(&mut state), run, |planned, memory| self.program.outputs(planned, memory));
            drop(arguments);
            for (number, _, tensor) in kept {
                memory.put_back(&self.kept[&number], tensor.bytes);
            }
            for (number, (_, tensor)) in (self.inputs..).zip(state.into_buffers()) {
                memory.put_back(&self.kept[&number], tensor.bytes);
            }
            results
        })
    }
}

impl HostTensor {
    /// Whether it has as many bytes as its type takes.
    fn check(&self) -> Result<(), Error> {
        let (expected, got) = (self.dtype.bytes_for(self.elements()), self.bytes.len());
        if expected == got {
            return Ok(());
        }
        Err(Error::Call(format!("a tensor {}{:?} takes {expected} bytes, has {got}", self.dtype, self.shape)))
    }
}
