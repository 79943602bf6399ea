//! The tensors of calls on the host: copied into a frame and out of it, or given to the program as it is.

use std::time::Instant;

use fusewright_graph::Input;
use fusewright_runtime::capture::{HostRecorder, Recorder};

use super::calls::Calls;
use super::carrier::Carrier;
use super::steps::{HostFrame, HostSteps};
use crate::program::{Argument, Run, State};
use crate::{Error, HostTensor};

impl Carrier<HostRecorder<Error>> for HostSteps {
    type Mark = Instant;

    fn calls(&self) -> &Calls {
        &self.calls
    }

    fn put(
        &self,
        frame: &HostFrame,
        recorder: &HostRecorder<Error>,
        rows: usize,
        inputs: &[&HostTensor],
    ) -> Result<(), Error> {
        self.calls.claimed(rows)?;
        recorder.stream().with_memory(|memory| {
            for ((number, input), tensor) in self.calls.called().zip(inputs) {
                let buffer = frame.input(number).ok_or_else(|| Error::Internal(format!("no input {number}")))?;
                let size = frame.plan.get(input.value)?.bytes;
                let place =
                    memory.bytes_mut(buffer).get_mut(..size).and_then(|p| p.split_at_mut_checked(tensor.bytes.len()));
                let larger = || Error::Call(format!("input `{}` is larger for fewer rows", input.name));
                let (given, padding) = place.ok_or_else(larger)?;
                given.copy_from_slice(&tensor.bytes);
                padding.fill(self.calls.padding(number));
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
        recorder.stream().with_memory(|memory| {
            self.with(&frame.memory, &plan, memory, |memory| self.calls.program.collect(&plan, memory))
        })
    }

    fn uncaptured(
        &self,
        recorder: &HostRecorder<Error>,
        _: usize,
        inputs: &[&HostTensor],
    ) -> Result<Vec<Option<HostTensor>>, Error> {
        let Calls { program, dims, donated, .. } = &self.calls;
        recorder.stream().with_memory(|memory| {
            let kept = self.calls.tensors().filter(|(number, _)| self.kept.contains_key(number));
            let shape = |(number, input): (usize, &Input)| -> Result<_, Error> {
                Ok((number, input.name.clone(), program.shape_of(input, dims)?))
            };
            let mut kept = kept.map(shape).collect::<Result<Vec<(usize, String, HostTensor)>, Error>>()?;
            kept.iter_mut().for_each(|(number, _, tensor)| tensor.bytes = memory.take(&self.kept[number]));
            let of_model = kept.split_off(kept.partition_point(|(number, ..)| *number < self.calls.inputs));
            let mut state = State::new(of_model.into_iter().map(|(_, name, tensor)| (name, tensor)).collect());
            let (mut own, mut given) = (kept.iter_mut().peekable(), inputs.iter());
            let mut arguments: Vec<Argument<'_>> = Vec::with_capacity(self.calls.inputs);
            for number in 0..self.calls.inputs {
                if let Some((_, _, tensor)) = own.next_if(|(kept, ..)| *kept == number) {
                    let written = donated.contains(&number);
                    arguments.push(if written { Argument::InOut(tensor) } else { Argument::Read(tensor) });
                } else if let Some(tensor) = given.next() {
                    arguments.push(Argument::Read(tensor));
                }
            }
            let run = Run::new(self.threads);
            let results =
                program.call(&mut arguments, Some(&mut state), run, |planned, memory| program.outputs(planned, memory));
            drop(arguments);
            for (number, _, tensor) in kept {
                memory.put_back(&self.kept[&number], tensor.bytes);
            }
            for (number, (_, tensor)) in (self.calls.inputs..).zip(state.into_buffers()) {
                memory.put_back(&self.kept[&number], tensor.bytes);
            }
            results
        })
    }
    fn set(&self, recorder: &HostRecorder<Error>, number: usize, tensor: &HostTensor) -> Result<(), Error> {
        recorder.stream().with_memory(|memory| {
            memory.bytes_mut(&self.kept[&number]).copy_from_slice(&tensor.bytes);
            Ok(())
        })
    }

    fn get(&self, recorder: &HostRecorder<Error>, number: usize, tensor: &mut HostTensor) -> Result<(), Error> {
        recorder.stream().with_memory(|memory| {
            tensor.bytes.copy_from_slice(memory.bytes(&self.kept[&number]));
            Ok(())
        })
    }

    /// What is enqueued runs at once.
    fn wait(&self, _: &HostRecorder<Error>) -> Result<(), Error> {
        Ok(())
    }

    fn mark(&self, _: &HostRecorder<Error>) -> Result<Instant, Error> {
        Ok(Instant::now())
    }

    fn us_between(&self, from: &Instant, to: &Instant) -> Result<f64, Error> {
        Ok((*to - *from).as_secs_f64() * 1e6)
    }
}
