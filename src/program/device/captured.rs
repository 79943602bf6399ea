//! The steps of a program on a device as recorders take them: commands bound once per size, in memory that all sizes share.
//!
//! A frame has the commands of a whole size. Those of steps that are recorded are enqueued once, into graphs; the others by
//! every call, and where a call has fewer rows they are bound anew for it, over the same memory, together with what brings
//! results to their places. Weights are those of the program.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use fusewright_runtime::capture::{Part, Recorder, Steps};

use super::command::Commands;
use super::hardware::Hardware;
use super::{Bound, Core, Launching, Memories};
use crate::program::capture::{Calls, Carrier};
use crate::program::plan::Plan;
use crate::program::plans::Plans;
use crate::{Error, HostTensor};

/// A program whose steps are enqueued on a stream of a device.
pub(in crate::program) struct DeviceSteps<H: Hardware> {
    calls: Calls,
    core: Arc<Core<H>>,
    /// What stays where it is from call to call, by the numbers of the caller's tensors.
    kept: BTreeMap<usize, H::Buffer>,
    /// No two rows of a call choose the same place to write to.
    distinct: bool,
    /// The commands of calls that no size serves, by their rows.
    unserved: Mutex<Plans<usize, Arc<Bound<H>>>>,
}

/// Where everything of one size lies, and its commands.
pub(in crate::program) struct DeviceFrame<H: Hardware> {
    plan: Plan,
    rows: usize,
    /// The caller's tensors.
    users: Vec<H::Buffer>,
    /// What the steps compute, and its length in bytes.
    arena: (usize, H::Buffer),
    whole: Arc<Bound<H>>,
    /// What calls of fewer rows enqueue.
    smaller: Mutex<BTreeMap<usize, Arc<Bound<H>>>>,
}

impl<H: Hardware> Core<H> {
    /// A recorder with a stream of its own.
    ///
    /// # Errors
    /// A device that was lost.
    pub(in crate::program) fn recorder(&self) -> Result<H::Recorder, Error> {
        self.hardware.recorder()
    }
}

impl<H: Hardware> DeviceSteps<H> {
    /// With memory for what is kept.
    ///
    /// # Errors
    /// Buffers of the model without data; too little memory.
    pub fn new(core: Arc<Core<H>>, calls: Calls, recorder: &H::Recorder, distinct: bool) -> Result<Self, Error> {
        let mut kept = BTreeMap::new();
        for (number, tensor) in calls.first_values()? {
            let buffer = core.hardware.allocate(tensor.bytes.len())?;
            core.hardware.upload(recorder.stream(), &buffer, &tensor.bytes)?;
            kept.insert(number, buffer);
        }
        Ok(DeviceSteps { calls, core, kept, distinct, unserved: Mutex::default() })
    }

    /// Whether one graph, or one call, holds the launches of both steps behind each other. What lies between graphs is not
    /// begun before they end, and the other way about.
    fn joined(&self, before: usize, after: usize) -> bool {
        let part = self.calls.parts.get(before);
        let between = self.calls.parts.get(before..=after);
        between.is_some_and(|parts| parts.iter().all(|other| *other == Part::Idle || Some(other) == part))
    }

    /// The commands of a call in a frame.
    fn at(&self, frame: &DeviceFrame<H>, rows: usize) -> Result<Arc<Bound<H>>, Error> {
        if rows == frame.rows {
            return Ok(Arc::clone(&frame.whole));
        }
        let mut smaller = frame.smaller.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bound) = smaller.get(&rows) {
            return Ok(Arc::clone(bound));
        }
        let plan = self.calls.smaller(&frame.plan, rows)?;
        let enqueued = |step| self.calls.parts.get(step) != Some(&Part::Captured);
        let commands = Commands::of(&self.calls.program, &plan, &enqueued)?;
        let (bytes, arena) = &frame.arena;
        if commands.scratch > *bytes {
            let reason = "results take more memory for fewer rows: capture sizes that are calls'";
            return Err(Error::Call(reason.to_owned()));
        }
        // An operand may lie worse for these rows than it does for the size, and be moved.
        let scratch = if commands.arena > *bytes {
            Some((commands.scratch, self.core.hardware.allocate(commands.arena - commands.scratch)?))
        } else {
            None
        };
        let memories = Memories { users: frame.users.clone(), arena: arena.clone(), scratch };
        let bound = Arc::new(self.bind((&plan, &commands), memories)?);
        smaller.insert(rows, Arc::clone(&bound));
        Ok(bound)
    }

    fn bind(&self, planned: (&Plan, &Commands), memories: Memories<H::Buffer>) -> Result<Bound<H>, Error> {
        let joined = |before, after| self.joined(before, after);
        let launching = Launching { distinct: self.distinct, joined: &joined };
        self.core.bind_in(&mut self.core.lock(), &self.calls.program, planned, memories, &launching)
    }

    /// The commands of a call that no size serves.
    fn unserved(&self, rows: usize) -> Result<Arc<Bound<H>>, Error> {
        let mut unserved = self.unserved.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bound) = unserved.get(&rows) {
            return Ok(bound);
        }
        let plan = self.calls.plan(rows)?;
        let mut users = Vec::new();
        for (number, input) in self.calls.tensors() {
            users.push(match self.kept.get(&number) {
                Some(buffer) => buffer.clone(),
                None => self.core.hardware.allocate(plan.get(input.value)?.bytes)?,
            });
        }
        let tensors = (users, self.distinct);
        let bound = Arc::new(self.core.bind(&mut self.core.lock(), &self.calls.program, &plan, tensors)?);
        unserved.insert(rows, Arc::clone(&bound));
        Ok(bound)
    }

    /// Enqueues what brings results to their places, and copies them to the host.
    fn results(&self, bound: &Bound<H>, stream: &H::Stream) -> Result<Vec<Option<HostTensor>>, Error> {
        let behind = self.calls.program.steps.len();
        self.core.enqueue(bound, bound.of_steps(behind..usize::MAX), stream)?;
        let result = |output: &Option<_>| output.as_ref().map(|output| self.core.download(stream, output)).transpose();
        bound.outputs.iter().map(result).collect()
    }
}

impl<H: Hardware> Steps<H::Recorder> for DeviceSteps<H> {
    type Frame = DeviceFrame<H>;
    type Error = Error;

    fn parts(&self) -> &[Part] {
        &self.calls.parts
    }

    /// The inputs that calls bring, then the arena.
    fn needs(&self, rows: usize) -> Result<Vec<usize>, Error> {
        let plan = self.calls.plan(rows)?;
        let arena = Commands::of(&self.calls.program, &plan, &|_| true)?.arena;
        let called = self.calls.called().map(|(_, input)| plan.get(input.value).map(|slot| slot.bytes));
        called.chain([Ok(arena)]).collect()
    }

    fn frame(&self, rows: usize, buffers: &[H::Buffer], _: &H::Recorder) -> Result<DeviceFrame<H>, Error> {
        let plan = self.calls.plan(rows)?;
        let commands = Commands::of(&self.calls.program, &plan, &|_| true)?;
        let mut lent = buffers.iter().cloned();
        let short = || Error::Internal("a frame has fewer buffers than it needs".to_owned());
        let mut users = Vec::new();
        for (number, _) in self.calls.tensors() {
            let kept = self.kept.get(&number).cloned();
            users.push(kept.or_else(|| lent.next()).ok_or_else(short)?);
        }
        let arena = (commands.arena, lent.next().ok_or_else(short)?);
        let memories = Memories { users: users.clone(), arena: arena.1.clone(), scratch: None };
        let whole = Arc::new(self.bind((&plan, &commands), memories)?);
        Ok(DeviceFrame { plan, rows, users, arena, whole, smaller: Mutex::default() })
    }

    fn enqueue(
        &self,
        frame: &DeviceFrame<H>,
        steps: Range<usize>,
        rows: usize,
        stream: &H::Stream,
    ) -> Result<(), Error> {
        let bound = self.at(frame, rows)?;
        self.core.enqueue(&bound, bound.of_steps(steps), stream)
    }
}

impl<H: Hardware> Carrier<H::Recorder> for DeviceSteps<H> {
    type Mark = H::Mark;

    fn calls(&self) -> &Calls {
        &self.calls
    }

    fn put(
        &self,
        frame: &DeviceFrame<H>,
        recorder: &H::Recorder,
        rows: usize,
        inputs: &[&HostTensor],
    ) -> Result<(), Error> {
        self.calls.claimed(rows)?;
        // What allocates and waits comes before what is timed.
        self.at(frame, rows)?;
        for ((number, input), tensor) in self.calls.called().zip(inputs) {
            let size = frame.plan.get(input.value)?.bytes;
            if tensor.bytes.len() > size {
                return Err(Error::Call(format!("input `{}` is larger for fewer rows", input.name)));
            }
            let mut filled = Vec::with_capacity(size);
            filled.extend_from_slice(&tensor.bytes);
            filled.resize(size, self.calls.padding(number));
            self.core.hardware.upload(recorder.stream(), &frame.users[number], &filled)?;
        }
        Ok(())
    }

    fn take(
        &self,
        frame: &DeviceFrame<H>,
        recorder: &H::Recorder,
        rows: usize,
    ) -> Result<Vec<Option<HostTensor>>, Error> {
        self.results(&*self.at(frame, rows)?, recorder.stream())
    }

    fn uncaptured(
        &self,
        recorder: &H::Recorder,
        rows: usize,
        inputs: &[&HostTensor],
    ) -> Result<Vec<Option<HostTensor>>, Error> {
        let (bound, stream) = (self.unserved(rows)?, recorder.stream());
        for ((number, _), tensor) in self.calls.called().zip(inputs) {
            self.core.hardware.upload(stream, &bound.users[number], &tensor.bytes)?;
        }
        self.core.enqueue(&bound, bound.of_steps(0..self.calls.program.steps.len()), stream)?;
        self.results(&bound, stream)
    }

    fn set(&self, recorder: &H::Recorder, number: usize, tensor: &HostTensor) -> Result<(), Error> {
        self.core.hardware.upload(recorder.stream(), &self.kept[&number], &tensor.bytes)
    }

    fn get(&self, recorder: &H::Recorder, number: usize, tensor: &mut HostTensor) -> Result<(), Error> {
        self.core.hardware.download(recorder.stream(), &self.kept[&number], &mut tensor.bytes)
    }

    fn wait(&self, recorder: &H::Recorder) -> Result<(), Error> {
        self.core.hardware.wait(recorder.stream())
    }

    fn mark(&self, recorder: &H::Recorder) -> Result<H::Mark, Error> {
        self.core.hardware.mark(recorder.stream())
    }

    fn us_between(&self, from: &H::Mark, to: &H::Mark) -> Result<f64, Error> {
        self.core.hardware.us_between(from, to)
    }
}
