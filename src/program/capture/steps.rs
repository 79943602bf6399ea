//! The steps of a program as the host recorder takes them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use fusewright_runtime::capture::{
    HostArg, HostBuffer, HostLaunch, HostMemory, HostRecorder, HostSpan, HostStream, Part, Steps,
};

use super::calls::Calls;
use crate::Error;
use crate::program::Program;
use crate::program::argument::UserMemory;
use crate::program::build::check_weight;
use crate::program::plan::{Place, Plan, Slot};
use crate::program::step::{Memory, Step, Work};

/// A program whose steps are enqueued on a stream of the host.
pub(super) struct HostSteps {
    pub calls: Calls,
    /// What stays where it is from call to call, by the numbers of the caller's tensors.
    pub kept: BTreeMap<usize, HostBuffer>,
    /// The weights, by their places among the graph's inputs.
    pub weights: Vec<Option<HostBuffer>>,
    pub threads: usize,
}

/// Where everything of one size lies.
pub(super) struct HostFrame {
    pub plan: Arc<Plan>,
    pub memory: Arc<FrameMemory>,
    rows: usize,
    /// Plans of calls of fewer rows.
    smaller: Mutex<BTreeMap<usize, Arc<Plan>>>,
}

/// The buffers of a frame.
pub(super) struct FrameMemory {
    /// By the numbers of the caller's tensors, and whether each may be written.
    users: Vec<(HostBuffer, bool)>,
    /// Of the workspace.
    buffers: Vec<HostBuffer>,
}

impl HostSteps {
    /// The plan of a call in a frame.
    pub fn at(&self, frame: &HostFrame, rows: usize) -> Result<Arc<Plan>, Error> {
        if rows == frame.rows {
            return Ok(Arc::clone(&frame.plan));
        }
        let mut smaller = frame.smaller.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = smaller.get(&rows) {
            return Ok(Arc::clone(plan));
        }
        let plan = Arc::new(self.calls.smaller(&frame.plan, rows)?);
        smaller.insert(rows, Arc::clone(&plan));
        Ok(plan)
    }

    /// Calls with the memory of a frame as steps see it.
    pub fn with<T>(
        &self,
        frame: &FrameMemory,
        plan: &Plan,
        memory: &mut HostMemory,
        call: impl FnOnce(&mut Memory<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        with_memory(&self.calls.program, frame, plan, self.threads, memory, call)
    }

    /// A kernel as a launch of its own, where all of its buffers lie in order.
    fn launch(&self, step: &Step, plan: &Plan, frame: &FrameMemory) -> Result<Option<HostLaunch>, Error> {
        let Work::Kernel(kernel) = &step.work else { return Ok(None) };
        let Some(module) = &kernel.module else { return Ok(None) };
        let slots = |values: &[_]| values.iter().map(|&v| plan.get(v)).collect::<Result<Vec<&Slot>, _>>();
        let (inputs, outputs) = (slots(&step.inputs)?, slots(&step.outputs)?);
        let mut args = Vec::with_capacity(inputs.len() + outputs.len());
        for (i, slot) in inputs.iter().enumerate() {
            let alias = kernel.in_place.aliases().find(|a| a.input == i);
            let same = alias.filter(|alias| outputs[alias.output].place == slot.place);
            match (alias, same, self.span(slot, frame)?) {
                (_, Some(alias), _) => args.push(HostArg::Same(inputs.len() + alias.output)),
                // What an output holds before is copied there.
                (Some(alias), None, _) if alias.begins => return Ok(None),
                (_, None, Some(span)) => args.push(HostArg::In(span)),
                (_, None, None) => return Ok(None),
            }
        }
        for slot in &outputs {
            match self.span(slot, frame)? {
                Some(span) => args.push(HostArg::Out(span)),
                None => return Ok(None),
            }
        }
        let shapes: Vec<&[usize]> = inputs.iter().chain(&outputs).map(|slot| slot.shape.as_slice()).collect();
        let dims = kernel.dims.resolve(&shapes, &plan.binding);
        let (dims, rows) = dims.map_err(|message| Error::Call(format!("{}: {message}", step.label)))?;
        Ok(Some(HostLaunch { module: Arc::clone(module), args, dims, rows, threads: self.threads }))
    }

    /// The bytes of a slot; none if they are not in order, or lie in none of the buffers.
    fn span(&self, slot: &Slot, frame: &FrameMemory) -> Result<Option<HostSpan>, Error> {
        let buffer = match slot.place {
            Place::User(user) => frame.users.get(user).map(|(buffer, _)| buffer),
            Place::Buffer(buffer) => frame.buffers.get(buffer),
            Place::Weight(weight) => {
                check_weight(&self.calls.program.graph.inputs()[weight])?;
                self.weights.get(weight).and_then(Option::as_ref)
            }
            Place::Constant(_) => None,
        };
        let start = slot.strided.offset * slot.dtype.bits() as usize;
        let in_order = slot.strided.is_contiguous() && start.is_multiple_of(8);
        Ok(buffer.filter(|_| in_order).map(|buffer| buffer.part(start / 8..start / 8 + slot.bytes)))
    }
}

impl Steps<HostRecorder<Error>> for HostSteps {
    type Frame = HostFrame;
    type Error = Error;

    fn parts(&self) -> &[Part] {
        &self.calls.parts
    }

    /// The inputs that calls bring, then the workspace.
    fn needs(&self, rows: usize) -> Result<Vec<usize>, Error> {
        let plan = self.calls.plan(rows)?;
        let called = self.calls.called().map(|(_, input)| plan.get(input.value).map(|slot| slot.bytes));
        called.chain(plan.buffers.iter().map(|buffer| Ok(buffer.bytes))).collect()
    }

    fn frame(&self, rows: usize, buffers: &[HostBuffer], _: &HostRecorder<Error>) -> Result<HostFrame, Error> {
        let plan = Arc::new(self.calls.plan(rows)?);
        let mut lent = buffers.iter().cloned();
        let short = || Error::Internal("a frame has fewer buffers than it needs".to_owned());
        let mut users = Vec::new();
        for (number, _) in self.calls.tensors() {
            users.push(match self.kept.get(&number) {
                Some(buffer) => (buffer.clone(), self.calls.donated.contains(&number)),
                None => (lent.next().ok_or_else(short)?, false),
            });
        }
        let memory = Arc::new(FrameMemory { users, buffers: lent.collect() });
        Ok(HostFrame { plan, memory, rows, smaller: Mutex::default() })
    }

    fn enqueue(
        &self,
        frame: &HostFrame,
        steps: Range<usize>,
        rows: usize,
        stream: &HostStream<Error>,
    ) -> Result<(), Error> {
        let plan = self.at(frame, rows)?;
        for number in steps {
            let step = &self.calls.program.steps[number];
            if matches!(step.work, Work::View | Work::Constant(_)) {
                continue;
            }
            let about = |error: Error| error.about(&step.label);
            if let Some(launch) = self.launch(step, &plan, &frame.memory)? {
                stream.launch(launch).map_err(about)?;
                continue;
            }
            let (program, plan, threads) = (Arc::clone(&self.calls.program), Arc::clone(&plan), self.threads);
            let buffers = Arc::clone(&frame.memory);
            stream.call(move |memory| {
                let step = &program.steps[number];
                with_memory(&program, &buffers, &plan, threads, memory, |memory| step.run(&plan, memory))
            })?;
        }
        Ok(())
    }
}

impl HostFrame {
    /// The buffer of an input that calls bring.
    pub fn input(&self, number: usize) -> Option<&HostBuffer> {
        self.memory.users.get(number).map(|(buffer, _)| buffer)
    }
}

/// Calls with memory as steps see it: what may be written is taken out, and put back.
fn with_memory<T>(
    program: &Program,
    frame: &FrameMemory,
    plan: &Plan,
    threads: usize,
    memory: &mut HostMemory,
    call: impl FnOnce(&mut Memory<'_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut buffers: Vec<Vec<u8>> = frame.buffers.iter().map(|buffer| memory.take(buffer)).collect();
    let mut written: Vec<Option<Vec<u8>>> =
        frame.users.iter().map(|(buffer, written)| written.then(|| memory.take(buffer))).collect();
    let users = frame.users.iter().zip(&mut written);
    let users = users.map(|((buffer, _), written)| match written {
        Some(bytes) => UserMemory::InOut(bytes),
        None => UserMemory::Read(memory.bytes(buffer)),
    });
    let mut seen = Memory {
        users: users.collect(),
        weights: &program.weights,
        inputs: program.graph.inputs(),
        buffers: &mut buffers,
        constants: &plan.constants,
        threads,
        guarded: false,
    };
    let done = call(&mut seen);
    drop(seen);
    frame.buffers.iter().zip(buffers).for_each(|(buffer, bytes)| memory.put_back(buffer, bytes));
    for ((buffer, _), bytes) in frame.users.iter().zip(written) {
        if let Some(bytes) = bytes {
            memory.put_back(buffer, bytes);
        }
    }
    done
}
