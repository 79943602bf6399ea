//! The steps of a program as the host recorder takes them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use fusewright_graph::Value;
use fusewright_runtime::capture::{
    HostArg, HostBuffer, HostLaunch, HostMemory, HostRecorder, HostSpan, HostStream, Part, Steps,
};

use super::resize::resized;
use crate::Error;
use crate::program::argument::UserMemory;
use crate::program::build::check_weight;
use crate::program::plan::{Binding, Place, Plan, Slot};
use crate::program::step::{Memory, Step, Work};
use crate::program::{Program, claims};

/// A program whose steps are enqueued on a stream of the host.
pub(super) struct HostSteps {
    pub program: Arc<Program>,
    pub parts: Vec<Part>,
    /// Counts rows.
    pub symbol: String,
    /// The other symbols.
    pub dims: Binding,
    /// The caller's tensors that stay where they are from call to call, by their numbers; behind the inputs, the buffers of
    /// the model that its graph updates.
    pub kept: BTreeMap<usize, HostBuffer>,
    /// Those of them that the graph updates.
    pub donated: BTreeSet<usize>,
    /// Those whose elements choose places to write to: padding chooses none.
    pub choosers: BTreeSet<usize>,
    /// Values whose rows lie in calls of fewer rows where a whole size has them.
    pub spread: BTreeSet<Value>,
    /// How many inputs the caller has.
    pub inputs: usize,
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
    /// The values of the symbols for so many rows.
    pub fn binding(&self, rows: usize) -> Result<Binding, Error> {
        let mut binding = self.dims.clone();
        let rows = i64::try_from(rows).map_err(|_| Error::Call(format!("{rows} rows")))?;
        binding.insert(self.symbol.clone(), rows);
        Ok(binding)
    }

    fn plan(&self, rows: usize) -> Result<Plan, Error> {
        let Program { graph, steps, layouts, claims, .. } = &*self.program;
        let binding = self.binding(rows)?;
        claims::check(claims, &binding)?;
        Plan::of(graph, steps, layouts, binding, &self.donated)
    }

    /// The plan of a call in a frame.
    pub fn at(&self, frame: &HostFrame, rows: usize) -> Result<Arc<Plan>, Error> {
        if rows == frame.rows {
            return Ok(Arc::clone(&frame.plan));
        }
        let mut smaller = frame.smaller.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plan) = smaller.get(&rows) {
            return Ok(Arc::clone(plan));
        }
        let plan = Arc::new(resized(&self.program, &frame.plan, self.binding(rows)?, &self.spread)?);
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
        with_memory(&self.program, frame, plan, self.threads, memory, call)
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
                check_weight(&self.program.graph.inputs()[weight])?;
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
        &self.parts
    }

    /// The inputs that calls bring, then the workspace.
    fn needs(&self, rows: usize) -> Result<Vec<usize>, Error> {
        let plan = self.plan(rows)?;
        let users = self.program.graph.inputs().iter().filter(|i| i.kind.is_given());
        let called = users.enumerate().filter(|(number, _)| !self.kept.contains_key(number));
        let called = called.map(|(_, input)| plan.get(input.value).map(|slot| slot.bytes));
        called.chain(plan.buffers.iter().map(|buffer| Ok(buffer.bytes))).collect()
    }

    fn frame(&self, rows: usize, buffers: &[HostBuffer], _: &HostRecorder<Error>) -> Result<HostFrame, Error> {
        let plan = Arc::new(self.plan(rows)?);
        let mut lent = buffers.iter().cloned();
        let short = || Error::Internal("a frame has fewer buffers than it needs".to_owned());
        let kept = self.kept.keys().next_back().map_or(0, |last| last + 1);
        let mut users = Vec::new();
        for number in 0..self.inputs.max(kept) {
            users.push(match self.kept.get(&number) {
                Some(buffer) => (buffer.clone(), self.donated.contains(&number)),
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
            let step = &self.program.steps[number];
            if matches!(step.work, Work::View | Work::Constant(_)) {
                continue;
            }
            let about = |error: Error| error.about(&step.label);
            if let Some(launch) = self.launch(step, &plan, &frame.memory)? {
                stream.launch(launch).map_err(about)?;
                continue;
            }
            let (program, plan, threads) = (Arc::clone(&self.program), Arc::clone(&plan), self.threads);
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
