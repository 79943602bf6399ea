//! A whole graph, ready to run.
//!
//! A program is a list of steps over values: launches of generated kernels, matrix products and attention by a library,
//! views that cost nothing, and reference ops for the rest. What a call of a new shape needs is planned once per binding of
//! the symbols and kept.
//!
//! On the CPU the values lie in memory of the host; `device/` has programs whose values lie on a GPU or an NPU.
//!
//! A caller may give an input that the graph updates to be overwritten ([`Argument::InOut`]). Its new value is then
//! written where the old one lies, wherever nothing still reads that. The buffers of the model that the graph updates are
//! overwritten in the same way in a [`State`] that the caller keeps from call to call; a call without one reads them as
//! the model's file has them.

mod argument;
mod build;
mod capture;
mod chain;
mod claims;
mod copies;
mod device;
mod in_place;
mod layout;
mod plan;
mod plans;
mod prepare;
mod state;
mod step;
mod strided;
mod words;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use fusewright_abi::DType;
use fusewright_graph::interp::Symbols;
use fusewright_graph::tensor::check_memory;
use fusewright_graph::{Dim, Graph, Input, NodeId, Output};
use fusewright_runtime::{CodeCounts, Counters, TierCounts};

use crate::guard;
use crate::host::zeroed;
use crate::{Error, HostTensor};

pub use argument::Argument;
use argument::UserMemory;
use build::check_weight;
pub use build::{Fallback, OpCounts};
pub(crate) use build::{build, made_by, outline, single};
pub use capture::{CaptureOptions, CapturedProgram, SplitStep};
pub use chain::{Attempt, Chain, ChainOutput, ChainRegion, Fitted, Outside};
use claims::{Claim, claims};
use device::DeviceProgram;
pub(crate) use device::Launches;
pub use device::{CommandBuffer, DeviceArgument, DeviceTensor, OnGpu};
pub(crate) use in_place::{InPlace, Overwrite};
pub use in_place::{Placement, Update, UpdateCopy};
pub(crate) use layout::Home;
use layout::Layouts;
pub(crate) use plan::{Binding, bind, bind_told, miscounted};
use plan::{Buffer, Landing, Plan};
use plans::Plans;
pub use state::State;
use step::Memory;
pub(crate) use step::{CompiledKernel, LaunchDims, Step, Work};
pub(crate) use words::name as value_name;

/// How many steps of each kind a program has.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StepCounts {
    /// Launches of generated kernels.
    pub kernels: usize,
    /// Matrix products.
    pub matmuls: usize,
    /// Attention.
    pub attentions: usize,
    /// Ops evaluated by the reference interpreter.
    pub references: usize,
    /// Ops that cannot be run here, for which [`crate::model::check_runnable`] refuses the graph.
    pub not_run: usize,
    /// Layout ops whose elements are copied, because no strides give what their reader takes.
    pub copies: usize,
}

/// A compiled graph.
#[derive(Debug)]
pub struct Program {
    graph: Graph,
    steps: Vec<Step>,
    layouts: Layouts,
    weights: Vec<Option<Bytes>>,
    /// What the graph before all passes claims of the sizes of a call.
    claims: Vec<Claim>,
    /// The nodes that attention was taken apart into, if it was.
    attention: BTreeSet<NodeId>,
    planned: Mutex<Plans<PlanKey, Arc<Planned>>>,
    counters: Arc<Counters>,
    /// Where the values lie if not in memory of the host.
    device: Option<DeviceProgram>,
}

/// What a plan is made for: the values of the symbols, and the numbers of the inputs that may be overwritten.
/// The buffers of a state are numbered behind the inputs.
type PlanKey = (Binding, BTreeSet<usize>);

#[derive(Debug)]
struct Planned {
    plan: Plan,
    /// Workspaces not in use; each concurrent call takes its own.
    workspaces: Mutex<Vec<Vec<Vec<u8>>>>,
}

/// Workspaces kept per shape; more concurrent calls than that allocate.
const KEPT_WORKSPACES: usize = 4;

impl Program {
    /// The same program, whose calls must fit what this graph says of sizes: the one before all passes.
    pub(crate) fn claiming(self, graph: &Graph) -> Program {
        Program { claims: claims(graph), ..self }
    }

    /// The same program, in whose graph these nodes are what attention was taken apart into.
    pub(crate) fn attending(self, nodes: &BTreeSet<NodeId>) -> Program {
        Program { attention: nodes.clone(), ..self }
    }

    /// The chip whose host model computes what the program does, if its results are SIMULATED.
    pub fn simulated(&self) -> Option<&str> {
        self.device.as_ref()?.simulated()
    }

    /// The graph that the program computes, after all passes.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How many steps of each kind there are.
    pub fn counts(&self) -> StepCounts {
        let mut counts = StepCounts::default();
        for step in &self.steps {
            match step.work {
                Work::Kernel(_) => counts.kernels += 1,
                Work::MatMul { .. } | Work::GroupedMatMul => counts.matmuls += 1,
                Work::Attention(_) => counts.attentions += 1,
                Work::Reference(_) if step.not_run().is_some() => counts.not_run += 1,
                Work::Reference(_) => counts.references += 1,
                Work::Copy(_) => counts.copies += 1,
                Work::View | Work::Constant(_) => {}
            }
        }
        counts
    }

    /// What became of the kernels' tiers so far.
    pub fn tiers(&self) -> TierCounts {
        self.counters.counts()
    }

    /// Where the code of the kernels came from so far, whenever that was: calls that leave the count of what was compiled
    /// as it was compiled nothing.
    pub fn code(&self) -> CodeCounts {
        self.counters.code()
    }

    /// Makes the best code there is of every kernel now, rather than behind later calls.
    pub fn promote(&self) {
        let kernel = |step: &Step| match &step.work {
            Work::Kernel(kernel) => kernel.module.clone(),
            _ => None,
        };
        self.steps.iter().filter_map(kernel).for_each(|module| module.promote());
    }

    /// Runs the program on `threads` threads, 0 as on one. Results do not depend on the number of threads or of rows.
    ///
    /// # Errors
    /// Inputs that do not fit the graph, named; weights without data; a step that fails.
    pub fn run(&self, inputs: &[&HostTensor], threads: usize) -> Result<Vec<HostTensor>, Error> {
        self.run_at(&Binding::new(), inputs, threads)
    }

    /// As [`Program::run`], at these values of the symbols that no input tells.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run_at(&self, told: &Symbols, inputs: &[&HostTensor], threads: usize) -> Result<Vec<HostTensor>, Error> {
        let outputs = self.results(&mut read_only(inputs), None, Run { told, threads, guarded: false })?;
        Ok(outputs.into_iter().flatten().collect())
    }

    /// Runs the program and leaves the new values of [`Argument::InOut`] inputs in their tensors, to the same bits as
    /// [`Program::run`] gives them. The result is one tensor per output of the graph, `None` for those.
    ///
    /// No element is copied for them, unless something still reads the old value; [`Program::placement`] says where and
    /// why. A call that does not fit changes no tensor. If a step fails, what the tensors hold is not specified.
    ///
    /// A tensor cannot be given twice and overwritten:
    ///
    /// ```compile_fail
    /// # use fusewright::{Argument, DType, HostTensor};
    /// let mut cache = HostTensor::zeros(DType::F32, &[4, 8]);
    /// let inputs = [Argument::InOut(&mut cache), Argument::Read(&cache)];
    /// # drop(inputs);
    /// ```
    ///
    /// # Errors
    /// As [`Program::run`], and an input that is given to be overwritten and that no output updates.
    pub fn run_in_place(&self, inputs: &mut [Argument<'_>], threads: usize) -> Result<Vec<Option<HostTensor>>, Error> {
        self.results(inputs, None, Run::new(threads))
    }

    /// The buffers of the model that the graph updates, with the values that the model's file has: what a sequence of
    /// calls of [`Program::run_with_state`] begins with.
    ///
    /// # Errors
    /// A buffer without data or with damaged data, by name; no memory.
    pub fn state(&self) -> Result<State, Error> {
        let tensor = |(i, input): (usize, &Input)| -> Result<(String, HostTensor), Error> {
            let ty = self.graph.ty(input.value);
            let missing = || Error::Call(format!("weight `{}` has no data in the file of the model", input.name));
            let bytes = self.weights[i].as_ref().ok_or_else(missing)?;
            check_weight(input)?;
            let extent = |e: &Dim| e.as_const().and_then(|n| usize::try_from(n).ok());
            let shape: Option<Vec<usize>> = ty.shape.iter().map(extent).collect();
            let shape = shape.ok_or_else(|| Error::Internal(format!("weight `{}` is {ty}", input.name)))?;
            check_memory::<u8>(bytes.len(), ty.dtype, &shape)?;
            Ok((input.name.clone(), HostTensor { dtype: ty.dtype, shape, bytes: bytes.to_vec() }))
        };
        Ok(State::new(state::buffers(&self.graph).map(tensor).collect::<Result<_, _>>()?))
    }

    /// As [`Program::run_in_place`], with the buffers of the model as `state` has them, which then has their new values:
    /// written in place under the same conditions, and `None` among the results.
    ///
    /// # Errors
    /// As [`Program::run_in_place`], and a state of another model.
    pub fn run_with_state(
        &self,
        state: &mut State,
        inputs: &mut [Argument<'_>],
        threads: usize,
    ) -> Result<Vec<Option<HostTensor>>, Error> {
        self.results(inputs, Some(state), Run::new(threads))
    }

    /// As [`Program::run_at`], on tensors of which those that the graph updates are overwritten, as are the buffers of the
    /// model in a state of this call; all outputs, wherever they were written, and where that was.
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn run_overwriting(
        &self,
        told: &Symbols,
        mut inputs: Vec<HostTensor>,
        threads: usize,
    ) -> Result<(Vec<HostTensor>, Placement), Error> {
        let users: Vec<&str> =
            self.graph.inputs().iter().filter(|i| i.kind.is_given()).map(|i| i.name.as_str()).collect();
        let updates = |name: &str| self.graph.outputs().iter().any(|o| o.updates.as_deref() == Some(name));
        let mut arguments: Vec<Argument<'_>> = Vec::with_capacity(inputs.len());
        for (i, tensor) in inputs.iter_mut().enumerate() {
            let overwritten = users.get(i).is_some_and(|name| updates(name));
            arguments.push(if overwritten { Argument::InOut(tensor) } else { Argument::Read(tensor) });
        }
        // A buffer may be overwritten whole, and have no data.
        let known = state::buffers(&self.graph).all(|(i, _)| self.weights[i].is_some());
        let mut state = known.then(|| self.state()).transpose()?;
        let placement = self.planned(told, &arguments, known)?.1.plan.placement.clone();
        let results = self.results(&mut arguments, state.as_mut(), Run { told, threads, guarded: true })?;
        drop(arguments);
        let taken = |(output, result): (&Output, Option<HostTensor>)| {
            let name = output.updates.as_deref();
            let user = name.and_then(|name| users.iter().position(|user| *user == name)).map(|user| &inputs[user]);
            result.or_else(|| user.or_else(|| state.as_ref()?.get(name?)).cloned())
        };
        Ok((self.graph.outputs().iter().zip(results).filter_map(taken).collect(), placement))
    }

    /// As [`Program::run`], with guard bytes behind every buffer that a kernel writes, checked after its launch, and inputs
    /// that are read one element behind an address that vectors divide; on a device there are neither.
    pub(crate) fn run_guarded(
        &self,
        told: &Symbols,
        inputs: &[&HostTensor],
        threads: usize,
    ) -> Result<Vec<HostTensor>, Error> {
        let outputs = self.results(&mut read_only(inputs), None, Run { told, threads, guarded: true })?;
        Ok(outputs.into_iter().flatten().collect())
    }

    /// As [`Program::run`], and leaves the results in its workspace, for measurements.
    pub fn run_discarding(&self, inputs: &[&HostTensor], threads: usize) -> Result<(), Error> {
        self.run_discarding_at(&Binding::new(), inputs, threads)
    }

    /// As [`Program::run_discarding`], at these values of the symbols that no input tells.
    pub(crate) fn run_discarding_at(
        &self,
        told: &Symbols,
        inputs: &[&HostTensor],
        threads: usize,
    ) -> Result<(), Error> {
        let inputs = &mut read_only(inputs);
        if let Some(device) = &self.device {
            let (key, planned) = self.planned(told, inputs, false)?;
            return device.discard(self, (&planned.plan, &key), &mut user_memory(inputs, None));
        }
        self.call(inputs, None, Run { told, threads, guarded: false }, |_, _| Ok(()))
    }

    /// Microseconds of one call: on a device its own, without the way of inputs and results, else those of [`Program::run_at`].
    ///
    /// # Errors
    /// As [`Program::run`].
    pub fn time(&self, told: &Symbols, inputs: &[&HostTensor], threads: usize) -> Result<f64, Error> {
        if let Some(device) = &self.device {
            let inputs = &mut read_only(inputs);
            let (key, planned) = self.planned(told, inputs, false)?;
            return device.time(self, (&planned.plan, &key), &mut user_memory(inputs, None));
        }
        let start = Instant::now();
        self.run_at(told, inputs, threads)?;
        Ok(start.elapsed().as_secs_f64() * 1e6)
    }

    /// Where a call with these inputs writes the new values of inputs, and what it copies. Nothing is run.
    ///
    /// # Errors
    /// Inputs that do not fit, as for [`Program::run_in_place`].
    pub fn placement(&self, inputs: &[Argument<'_>]) -> Result<Placement, Error> {
        Ok(self.planned(&Binding::new(), inputs, false)?.1.plan.placement.clone())
    }

    /// As [`Program::placement`], of calls of [`Program::run_with_state`].
    ///
    /// # Errors
    /// As [`Program::placement`].
    pub fn placement_with_state(&self, inputs: &[Argument<'_>]) -> Result<Placement, Error> {
        Ok(self.planned(&Binding::new(), inputs, true)?.1.plan.placement.clone())
    }

    /// What is run, in order.
    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Where calls at these values of the symbols write the new values of inputs if all of those are given to be
    /// overwritten, and buffers in a state, and what each kernel overwrites.
    ///
    /// # Errors
    /// Sizes that do not fit the graph.
    pub(crate) fn overwrites(&self, binding: &Binding) -> Result<(Placement, Vec<Overwrite>), Error> {
        let users = self.graph.inputs().iter().filter(|i| i.kind.is_given()).enumerate();
        let updated = |name: &str| self.graph.outputs().iter().any(|o| o.updates.as_deref() == Some(name));
        let given = users.filter(|(_, input)| updated(&input.name)).map(|(number, _)| number);
        let donated = given.chain(self.state_numbers()).collect();
        let plan = Plan::of(&self.graph, &self.steps, &self.layouts, binding.clone(), &donated)?;
        Ok((plan.placement, plan.overwrites))
    }

    /// Runs a call; one tensor for each output, none for those that lie in the caller's tensors.
    fn results(
        &self,
        inputs: &mut [Argument<'_>],
        state: Option<&mut State>,
        run: Run<'_>,
    ) -> Result<Vec<Option<HostTensor>>, Error> {
        let Some(device) = &self.device else {
            return self.call(inputs, state, run, |planned, memory| self.outputs(planned, memory));
        };
        state.as_ref().map_or(Ok(()), |state| state.check(&self.graph))?;
        let (key, planned) = self.planned(run.told, inputs, state.is_some())?;
        device.call(self, (&planned.plan, &key), &mut user_memory(inputs, state))
    }

    fn call<R>(
        &self,
        inputs: &mut [Argument<'_>],
        mut state: Option<&mut State>,
        Run { told, threads, guarded }: Run<'_>,
        finish: impl FnOnce(&Planned, &mut Memory<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        state.as_ref().map_or(Ok(()), |state| state.check(&self.graph))?;
        let (_, planned) = self.planned(told, inputs, state.is_some())?;
        let mut buffers = planned.workspace()?;
        // What is overwritten stays where it is: the caller looks for it there.
        let moved = |argument: &Argument<'_>| match argument {
            Argument::Read(tensor) if guarded => Some(guard::moved(tensor)),
            _ => None,
        };
        let moved: Vec<Option<(Vec<u8>, usize)>> = inputs.iter().map(moved).collect();
        let mut users = Vec::with_capacity(inputs.len());
        for (argument, moved) in inputs.iter_mut().zip(&moved) {
            users.push(match moved {
                Some((bytes, start)) => UserMemory::Read(&bytes[*start..]),
                None => argument.memory(),
            });
        }
        users.extend(state.iter_mut().flat_map(|state| state.memory()));
        let mut memory = Memory {
            users,
            weights: &self.weights,
            inputs: self.graph.inputs(),
            buffers: &mut buffers,
            constants: &planned.plan.constants,
            threads: threads.max(1),
            guarded,
        };
        for step in &self.steps {
            step.run(&planned.plan, &mut memory)?;
        }
        let result = finish(&planned, &mut memory)?;
        planned.give_back(buffers);
        Ok(result)
    }

    fn outputs(&self, planned: &Planned, memory: &mut Memory<'_>) -> Result<Vec<Option<HostTensor>>, Error> {
        self.collect(&planned.plan, memory)
    }

    /// The results under a plan, none for those that lie in the caller's tensors, which are written now if they have not been.
    fn collect(&self, plan: &Plan, memory: &mut Memory<'_>) -> Result<Vec<Option<HostTensor>>, Error> {
        let mut outputs = Vec::with_capacity(plan.landings.len());
        for (output, landing) in self.graph.outputs().iter().zip(&plan.landings) {
            let slot = plan.get(output.value)?;
            if let Landing::There(_) = landing {
                outputs.push(None);
                continue;
            }
            check_memory::<u8>(slot.dtype.bytes_for(slot.elements()), slot.dtype, &slot.shape)?;
            let bytes = memory.elements(slot)?.into_owned();
            outputs.push(Some(HostTensor { dtype: slot.dtype, shape: slot.shape.clone(), bytes }));
        }
        // Only now: until here an output may have been read from another's tensor.
        for (output, landing) in outputs.iter_mut().zip(&plan.landings) {
            if let Landing::Copied(user) = landing
                && let Some(tensor) = output.take()
            {
                memory.overwrite(*user, &tensor.bytes);
            }
        }
        Ok(outputs)
    }

    /// The numbers of a state's buffers among what may be overwritten.
    fn state_numbers(&self) -> std::ops::Range<usize> {
        let users = self.graph.inputs().iter().filter(|i| i.kind.is_given()).count();
        users..users + state::buffers(&self.graph).count()
    }

    /// Whether calls of a plan have a state.
    fn has_state(&self, (_, donated): &PlanKey) -> bool {
        self.state_numbers().any(|number| donated.contains(&number))
    }

    fn planned(
        &self,
        told: &Symbols,
        inputs: &[Argument<'_>],
        with_state: bool,
    ) -> Result<(PlanKey, Arc<Planned>), Error> {
        let tensors = || inputs.iter().map(Argument::tensor);
        let given: Vec<(DType, &[usize])> = tensors().map(|t| (t.dtype, t.shape)).collect();
        for (number, tensor) in tensors().enumerate() {
            let (dtype, shape, got) = (tensor.dtype, tensor.shape, tensor.bytes.len());
            let expected = dtype.bytes_of(shape);
            if expected != Some(got) {
                let takes = expected.map_or("more bytes than there are".to_owned(), |n| format!("{n} bytes"));
                let name = self.graph.inputs().iter().filter(|input| input.kind.is_given()).nth(number);
                let name = name.map_or("", |input| &input.name);
                return Err(Error::Call(format!(
                    "input `{name}` is a tensor {dtype}{shape:?}, which takes {takes}; it has {got}"
                )));
            }
        }
        let mut key = (bind_told(&self.graph, told, &given)?, argument::donated(&self.graph, inputs)?);
        key.1.extend(self.state_numbers().filter(|_| with_state));
        let planned = self.plan(key.clone())?;
        Ok((key, planned))
    }

    fn plan(&self, key: PlanKey) -> Result<Arc<Planned>, Error> {
        let known = || self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(planned) = known().get(&key) {
            return Ok(planned);
        }
        claims::check(&self.claims, &key.0)?;
        let plan = Plan::of(&self.graph, &self.steps, &self.layouts, key.0.clone(), &key.1)?;
        let planned = Arc::new(Planned { plan, workspaces: Mutex::new(Vec::new()) });
        known().insert(key, Arc::clone(&planned));
        Ok(planned)
    }
}

/// How a call runs.
#[derive(Clone, Copy)]
struct Run<'s> {
    /// Values of the symbols that no input tells.
    told: &'s Symbols,
    threads: usize,
    /// Whether guard bytes stand behind what kernels write.
    guarded: bool,
}

impl Run<'_> {
    /// A call whose inputs tell all symbols.
    fn new(threads: usize) -> Self {
        const NONE: &Symbols = &Symbols::new();
        Run { told: NONE, threads, guarded: false }
    }
}

fn read_only<'a>(inputs: &[&'a HostTensor]) -> Vec<Argument<'a>> {
    inputs.iter().copied().map(Argument::Read).collect()
}

/// The memory of the tensors of a call.
fn user_memory<'a>(inputs: &'a mut [Argument<'_>], state: Option<&'a mut State>) -> Vec<UserMemory<'a>> {
    let mut users: Vec<UserMemory<'a>> = inputs.iter_mut().map(Argument::memory).collect();
    users.extend(state.into_iter().flat_map(State::memory));
    users
}

impl Planned {
    fn workspace(&self) -> Result<Vec<Vec<u8>>, Error> {
        let kept = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let made = |buffer: &Buffer| {
            let (dtype, shape) = &buffer.largest;
            check_memory::<u8>(buffer.bytes, *dtype, shape)?;
            zeroed(buffer.bytes)
        };
        kept.map_or_else(|| self.plan.buffers.iter().map(made).collect(), Ok)
    }

    fn give_back(&self, buffers: Vec<Vec<u8>>) {
        let mut kept = self.workspaces.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT_WORKSPACES {
            kept.push(buffers);
        }
    }
}
