//! Calls on tensors of the host: they are copied to the device, and results back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::hardware::Hardware;
use super::{Bound, Core, Output, State};
use crate::host::zeroed;
use crate::program::argument::UserMemory;
use crate::program::plan::{Landing, Plan};
use crate::program::{PlanKey, Program, state};
use crate::{Error, HostTensor};

impl<H: Hardware> Core<H> {
    pub(super) fn lock(&self) -> MutexGuard<'_, State<H>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is held by whoever has something on the device.
    pub(in crate::program) fn turns(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.turns)
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command buffer of a key, with memory for the caller's tensors.
    fn bound(
        &self,
        state: &mut State<H>,
        program: &Program,
        plan: &Plan,
        key: &PlanKey,
    ) -> Result<Arc<Bound<H>>, Error> {
        if let Some(bound) = state.kept.get(key) {
            return Ok(bound);
        }
        let inputs = program.graph.inputs();
        let users = inputs.iter().filter(|input| input.kind.is_given());
        let buffers = state::buffers(&program.graph).map(|(_, input)| input).filter(|_| program.has_state(key));
        let mut memory = Vec::new();
        for input in users.chain(buffers) {
            memory.push(self.hardware.allocate(plan.get(input.value)?.bytes)?);
        }
        // Two rows may choose one place: nobody has looked.
        let bound = Arc::new(self.bind(state, program, plan, (memory, false))?);
        state.kept.insert(key.clone(), Arc::clone(&bound));
        Ok(bound)
    }

    /// Makes what calls of a key need.
    ///
    /// # Errors
    /// Too little memory; weights without data.
    pub fn prepare(&self, program: &Program, plan: &Plan, key: &PlanKey) -> Result<(), Error> {
        self.bound(&mut self.lock(), program, plan, key).map(drop)
    }

    /// Runs a call on the caller's tensors, and leaves new values in those that may be overwritten. The result is one tensor
    /// for each output, none for those.
    ///
    /// # Errors
    /// Too little memory; weights without data; a device that was lost; a step on the host that fails.
    pub fn call(
        &self,
        program: &Program,
        plan: &Plan,
        key: &PlanKey,
        users: &mut [UserMemory<'_>],
    ) -> Result<Vec<Option<HostTensor>>, Error> {
        let (_turn, mut state) = (self.turn(), self.lock());
        let bound = self.bound(&mut state, program, plan, key)?;
        self.upload(&state, &bound, users)?;
        self.enqueue(&bound, 0..bound.pieces.len(), &state.stream)?;
        let mut results = Vec::with_capacity(bound.outputs.len());
        for output in &bound.outputs {
            results.push(output.as_ref().map(|output| self.download(&state.stream, output)).transpose()?);
        }
        for landing in &plan.landings {
            if let Landing::There(user) | Landing::Copied(user) = landing
                && let Some(tensor) = users[*user].overwritten()
            {
                self.hardware.download(&state.stream, &bound.users[*user], tensor)?;
            }
        }
        Ok(results)
    }

    /// Runs a call and waits for it, without results.
    ///
    /// # Errors
    /// As [`Core::call`].
    pub fn discard(
        &self,
        program: &Program,
        plan: &Plan,
        key: &PlanKey,
        users: &mut [UserMemory<'_>],
    ) -> Result<(), Error> {
        let (_turn, mut state) = (self.turn(), self.lock());
        let bound = self.bound(&mut state, program, plan, key)?;
        self.upload(&state, &bound, users)?;
        self.enqueue(&bound, 0..bound.pieces.len(), &state.stream)?;
        self.hardware.wait(&state.stream)
    }

    /// Microseconds of a call on the device, its inputs and results left out.
    ///
    /// # Errors
    /// As [`Core::call`].
    pub fn time(
        &self,
        program: &Program,
        plan: &Plan,
        key: &PlanKey,
        users: &mut [UserMemory<'_>],
    ) -> Result<f64, Error> {
        let (_turn, mut state) = (self.turn(), self.lock());
        let bound = self.bound(&mut state, program, plan, key)?;
        self.upload(&state, &bound, users)?;
        let start = self.hardware.mark(&state.stream)?;
        self.enqueue(&bound, 0..bound.pieces.len(), &state.stream)?;
        self.hardware.us_between(&start, &self.hardware.mark(&state.stream)?)
    }

    fn upload(&self, state: &State<H>, bound: &Bound<H>, users: &[UserMemory<'_>]) -> Result<(), Error> {
        for (buffer, user) in bound.users.iter().zip(users) {
            self.hardware.upload(&state.stream, buffer, user.bytes())?;
        }
        Ok(())
    }

    /// A result, once it is there.
    pub(super) fn download(&self, stream: &H::Stream, output: &Output<H::Buffer>) -> Result<HostTensor, Error> {
        let mut tensor = HostTensor::zeros(output.dtype, &output.shape);
        match &output.apart {
            Some(apart) => {
                let end = apart.end().ok_or_else(|| Error::Internal("a result leaves the address space".to_owned()))?;
                let mut memory = zeroed(output.dtype.bytes_for(end))?;
                self.hardware.download(stream, &output.buffer, &mut memory)?;
                tensor.bytes = apart.gather(output.dtype.bits(), &memory)?;
            }
            None => self.hardware.download(stream, &output.buffer, &mut tensor.bytes)?,
        }
        Ok(tensor)
    }
}
