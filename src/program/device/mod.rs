//! Programs whose values lie on a device.
//!
//! For each binding of the symbols the steps become commands (`command.rs`): launches, products and copies between places of
//! one arena, of the weights, which are uploaded once, and of the caller's tensors. Commands are bound to addresses once,
//! which is where memory is allocated and where algorithms are searched; from then on a call enqueues them in order on a
//! stream, and neither allocates nor waits. Views cost nothing. Steps that no device has code for run on the host
//! (`reference.rs`), which waits; they are listed as fallbacks.
//!
//! All command buffers of a program share its arena and its library's workspace, so that they are enqueued on one stream, or
//! on streams that wait for each other. Calls on tensors of the host and captured calls (`captured.rs`), which have memory of
//! their own and the same library, take turns.

mod arena;
mod call;
mod captured;
mod command;
mod command_buffer;
mod dependent;
mod gpu;
mod hardware;
#[cfg(test)]
mod host;
mod npu;
mod npu_product;
mod product;
mod reference;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_captured;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use fusewright_abi::DType;

pub(super) use captured::DeviceSteps;
pub(super) use command::{on_host, runs_on_host};
pub use command_buffer::{CommandBuffer, DeviceArgument, DeviceTensor, OnGpu};
pub(super) use hardware::Hardware;

use self::command::{Action, Command, Commands, KernelArg, Memory, Places, Region};
use self::dependent::dependent;
use self::gpu::Cuda;
use self::hardware::{Arg, Order};
use self::npu::Ascend;
use self::reference::HostStep;
use super::argument::UserMemory;
use super::build::check_weight;
use super::plan::{Place, Plan};
use super::plans::Plans;
use super::step::Work;
use super::strided::Strided;
use super::{PlanKey, Program};
use crate::compiler::Compiler;
use crate::{Error, HostTensor};
use fusewright_abi::Target;

/// A program on a device.
#[derive(Debug)]
pub(super) struct Core<H: Hardware> {
    hardware: H,
    state: Mutex<State<H>>,
    /// Held by whoever has something on the device, before the state.
    turns: Arc<Mutex<()>>,
}

/// What a program has on its device.
#[derive(Debug)]
struct State<H: Hardware> {
    /// Where calls on tensors of the host run.
    stream: H::Stream,
    /// By the positions of the graph's inputs.
    weights: BTreeMap<usize, H::Buffer>,
    /// The largest arena so far, and its size.
    arena: Option<(usize, H::Buffer)>,
    /// The command buffers of calls on tensors of the host.
    kept: Plans<PlanKey, Arc<Bound<H>>>,
}

/// The commands of a plan with their memory.
#[derive(Debug)]
pub(super) struct Bound<H: Hardware> {
    pieces: Vec<Piece<H>>,
    /// The caller's tensors.
    users: Vec<H::Buffer>,
    /// By the outputs of the graph; none of those that lie in the caller's tensors.
    outputs: Vec<Option<Output<H::Buffer>>>,
}

/// A command that can be enqueued.
#[derive(Debug)]
struct Piece<H: Hardware> {
    /// What the step is called that it is for.
    label: String,
    /// Its number; beyond the last one, it brings results to their places.
    step: usize,
    ready: Ready<H>,
}

#[derive(Debug)]
enum Ready<H: Hardware> {
    Device(H::Ready),
    Host(Box<HostStep<H::Buffer>>),
}

/// A result on the device.
#[derive(Clone, Debug)]
struct Output<B> {
    dtype: DType,
    shape: Vec<usize>,
    buffer: B,
    /// Where its elements lie, if not in row-major order: so they may in captured calls of fewer rows than a size has.
    apart: Option<Strided>,
}

/// The memory that commands are bound to, beside weights.
struct Memories<B> {
    /// The caller's tensors.
    users: Vec<B>,
    arena: B,
    /// Scratch memory that is not in the arena, and where in the arena it would begin.
    scratch: Option<(usize, B)>,
}

/// How launches may run.
struct Launching<'a> {
    /// No two rows choose the same place to write to.
    distinct: bool,
    /// Whether a launch of the second step may begin while one of the first ends.
    joined: &'a dyn Fn(usize, usize) -> bool,
}

/// How the launches of a program may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Launches {
    /// No two rows choose the same place to write to.
    pub distinct: bool,
    /// A launch behind another may begin while that ends.
    pub overlapping: bool,
}

impl<H: Hardware> Core<H> {
    fn new(hardware: H, stream: H::Stream) -> Core<H> {
        let (weights, kept) = (BTreeMap::new(), Plans::default());
        let state = Mutex::new(State { stream, weights, arena: None, kept });
        Core { hardware, state, turns: Arc::default() }
    }

    /// The commands of a plan on these tensors of the caller: its inputs, and behind those the buffers of its state.
    fn bind(
        &self,
        state: &mut State<H>,
        program: &Program,
        plan: &Plan,
        (users, distinct): (Vec<H::Buffer>, bool),
    ) -> Result<Bound<H>, Error> {
        let launches = Launches { distinct, overlapping: true };
        self.bind_steps(state, program, plan, (users, launches), &|_| true)
    }

    /// As [`Core::bind`], the commands of some steps alone: what the others compute is not there.
    fn bind_steps(
        &self,
        state: &mut State<H>,
        program: &Program,
        plan: &Plan,
        (users, launches): (Vec<H::Buffer>, Launches),
        wanted: &dyn Fn(usize) -> bool,
    ) -> Result<Bound<H>, Error> {
        let commands = Commands::of(program, plan, wanted)?;
        let arena = self.arena(state, commands.arena)?;
        let memories = Memories { users, arena, scratch: None };
        let launching = Launching { distinct: launches.distinct, joined: &|_, _| launches.overlapping };
        self.bind_in(state, program, (plan, &commands), memories, &launching)
    }

    /// Commands of a plan in memory that is given.
    fn bind_in(
        &self,
        state: &mut State<H>,
        program: &Program,
        (plan, commands): (&Plan, &Commands),
        memories: Memories<H::Buffer>,
        launching: &Launching<'_>,
    ) -> Result<Bound<H>, Error> {
        let constants = self.hardware.allocate(commands.constants.len())?;
        self.hardware.upload(&state.stream, &constants, &commands.constants)?;
        let distinct = launching.distinct;
        let mut binding = Binding { core: self, state, program, memories: &memories, constants, distinct };
        let mut pieces = Vec::with_capacity(commands.commands.len());
        let dependent = dependent(&commands.commands, launching.joined);
        for (command, dependent) in commands.commands.iter().zip(dependent) {
            let label = program.steps.get(command.step).map_or("results", |step| step.label.as_str());
            let ready = binding.ready(plan, command, dependent).map_err(|error| in_step(label, error))?;
            pieces.push(Piece { label: label.to_owned(), step: command.step, ready });
        }
        let mut outputs = Vec::with_capacity(commands.outputs.len());
        for (output, region) in program.graph.outputs().iter().zip(&commands.outputs) {
            let slot = plan.get(output.value)?;
            let buffer = region.map(|region| binding.memory(region)).transpose()?;
            let (dtype, shape) = (slot.dtype, slot.shape.clone());
            let apart = (!slot.strided.is_contiguous()).then(|| Strided { offset: 0, ..slot.strided.clone() });
            outputs.push(buffer.map(|buffer| Output { dtype, shape, buffer, apart }));
        }
        Ok(Bound { pieces, users: memories.users, outputs })
    }

    /// An arena of at least so many bytes: the program's, or a larger one that takes its place. What is bound to the old one
    /// keeps it.
    fn arena(&self, state: &mut State<H>, bytes: usize) -> Result<H::Buffer, Error> {
        match &state.arena {
            Some((size, arena)) if *size >= bytes => Ok(arena.clone()),
            _ => {
                let arena = self.hardware.allocate(bytes)?;
                state.arena = Some((bytes, arena.clone()));
                Ok(arena)
            }
        }
    }

    /// Enqueues some of the commands, in order.
    fn enqueue(&self, bound: &Bound<H>, pieces: Range<usize>, stream: &H::Stream) -> Result<(), Error> {
        for Piece { label, ready, .. } in &bound.pieces[pieces] {
            let done = match ready {
                Ready::Device(ready) => self.hardware.enqueue(ready, stream),
                Ready::Host(step) => step.run(&self.hardware, stream),
            };
            done.map_err(|error| in_step(label, error))?;
        }
        Ok(())
    }
}

/// What commands are bound with.
struct Binding<'a, H: Hardware> {
    core: &'a Core<H>,
    state: &'a mut State<H>,
    program: &'a Program,
    memories: &'a Memories<H::Buffer>,
    constants: H::Buffer,
    distinct: bool,
}

impl<H: Hardware> Binding<'_, H> {
    fn ready(&mut self, plan: &Plan, command: &Command, dependent: bool) -> Result<Ready<H>, Error> {
        let order = match &command.action {
            Action::Launch { kernel, args, dims, rows } => {
                let mut bound = Vec::with_capacity(args.len());
                for arg in args {
                    bound.push(match arg {
                        KernelArg::In(region) => Arg::In(self.memory(*region)?),
                        KernelArg::Out(region) => Arg::Out(self.memory(*region)?),
                        KernelArg::Same(other) => Arg::Same(*other),
                    });
                }
                Order::Launch { kernel, args: bound, dims, rows: *rows, dependent, distinct: self.distinct }
            }
            Action::MatMul { product, a, b, c } => {
                Order::MatMul { product, a: self.memory(*a)?, b: self.memory(*b)?, c: self.memory(*c)? }
            }
            Action::Copy { from, to } => Order::Copy { from: self.memory(*from)?, to: self.memory(*to)? },
            Action::Clear(region) => Order::Clear(self.memory(*region)?),
            Action::Host(step) => return self.host(plan, *step),
        };
        Ok(Ready::Device(self.core.hardware.prepare(order)?))
    }

    fn host(&mut self, plan: &Plan, step: usize) -> Result<Ready<H>, Error> {
        let places = Places::of(plan);
        let step = &self.program.steps[step];
        for &value in &step.inputs {
            if let Place::Weight(weight) = plan.get(value)?.place {
                check_weight(&self.program.graph.inputs()[weight])?;
            }
        }
        let memory = |place: Place, start: usize, bytes: usize| {
            let at = places.at(place);
            self.there(Region { start: at.start + start, bytes, ..at })
        };
        Ok(Ready::Host(Box::new(HostStep::new(step, plan, &self.program.weights, memory)?)))
    }

    /// The memory of a region; a weight is uploaded the first time.
    fn memory(&mut self, region: Region) -> Result<H::Buffer, Error> {
        if let Memory::Weight(weight) = region.memory
            && !self.state.weights.contains_key(&weight)
        {
            let input = &self.program.graph.inputs()[weight];
            let missing = || Error::Call(format!("weight `{}` has no data in the file of the model", input.name));
            let bytes = self.program.weights[weight].as_ref().ok_or_else(missing)?;
            check_weight(input)?;
            let hardware = &self.core.hardware;
            let named = |error| in_step(&format!("weight `{}`", input.name), error);
            let buffer = hardware.allocate(bytes.len()).map_err(named)?;
            hardware.upload(&self.state.stream, &buffer, bytes).map_err(named)?;
            self.state.weights.insert(weight, buffer);
        }
        self.there(region)
    }

    /// The memory of a region that is on the device already.
    fn there(&self, region: Region) -> Result<H::Buffer, Error> {
        let Memories { users, arena, scratch } = self.memories;
        let (whole, begins) = match (region.memory, scratch) {
            (Memory::Arena, Some((begins, scratch))) if region.start >= *begins => (Some(scratch), *begins),
            (Memory::Arena, _) => (Some(arena), 0),
            (Memory::Constants, _) => (Some(&self.constants), 0),
            (Memory::Weight(weight), _) => (self.state.weights.get(&weight), 0),
            (Memory::User(user), _) => (users.get(user), 0),
        };
        let whole = whole.ok_or_else(|| Error::Internal(format!("{:?} is not on the device", region.memory)))?;
        self.core.hardware.part(whole, region.start - begins, region.bytes)
    }
}

impl<H: Hardware> Bound<H> {
    /// The commands of some steps.
    fn of_steps(&self, steps: Range<usize>) -> Range<usize> {
        let before = |step: usize| self.pieces.partition_point(|piece| piece.step < step);
        before(steps.start)..before(steps.end)
    }
}

/// An error of a step, by its name.
fn in_step(label: &str, error: Error) -> Error {
    match error {
        Error::Device(message) => Error::Device(format!("{label}: {message}")),
        Error::Call(message) if message.starts_with(label) => Error::Call(message),
        other => other.about(label),
    }
}

/// A program on a device.
#[derive(Debug)]
pub(super) enum DeviceProgram {
    Gpu(Arc<Core<Cuda>>),
    Npu(Arc<Core<Ascend>>),
}

impl DeviceProgram {
    /// The program on the device of a compiler's target, if that is no host.
    ///
    /// # Errors
    /// No such device; no library where the program multiplies, with what was looked for.
    pub fn of(compiler: &Compiler, program: &Program) -> Result<Option<DeviceProgram>, Error> {
        let product = program.steps.iter().find(|step| matches!(step.work, Work::MatMul { .. }));
        Ok(Some(match compiler.target() {
            Target::Cuda { .. } => {
                let cuda = Cuda::open(compiler.gpu()?, product.is_some())?;
                let stream = cuda.gpu().stream()?;
                DeviceProgram::Gpu(Arc::new(Core::new(cuda, stream)))
            }
            target @ (Target::Ascend { .. } | Target::AscendSim { .. }) => {
                let npu = compiler.npu()?;
                if let Some(step) = product.filter(|_| !npu.is_simulated()) {
                    let reason = "this version calls no library for products on an NPU; regions between them run";
                    return Err(Error::Unavailable(format!("target `{target}`: {}: {reason}", step.label)));
                }
                let stream = npu.stream()?;
                DeviceProgram::Npu(Arc::new(Core::new(Ascend::new(npu), stream)))
            }
            Target::Cpu | Target::CpuLlvm { .. } => return Ok(None),
        }))
    }

    /// As [`Core::prepare`].
    pub fn prepare(&self, program: &Program, plan: &Plan, key: &PlanKey) -> Result<(), Error> {
        match self {
            DeviceProgram::Gpu(core) => core.prepare(program, plan, key),
            DeviceProgram::Npu(core) => core.prepare(program, plan, key),
        }
    }

    /// As [`Core::call`].
    pub fn call(
        &self,
        program: &Program,
        (plan, key): (&Plan, &PlanKey),
        users: &mut [UserMemory<'_>],
    ) -> Result<Vec<Option<HostTensor>>, Error> {
        match self {
            DeviceProgram::Gpu(core) => core.call(program, plan, key, users),
            DeviceProgram::Npu(core) => core.call(program, plan, key, users),
        }
    }

    /// As [`Core::discard`].
    pub fn discard(
        &self,
        program: &Program,
        (plan, key): (&Plan, &PlanKey),
        users: &mut [UserMemory<'_>],
    ) -> Result<(), Error> {
        match self {
            DeviceProgram::Gpu(core) => core.discard(program, plan, key, users),
            DeviceProgram::Npu(core) => core.discard(program, plan, key, users),
        }
    }

    /// As [`Core::time`].
    pub fn time(
        &self,
        program: &Program,
        (plan, key): (&Plan, &PlanKey),
        users: &mut [UserMemory<'_>],
    ) -> Result<f64, Error> {
        match self {
            DeviceProgram::Gpu(core) => core.time(program, plan, key, users),
            DeviceProgram::Npu(core) => core.time(program, plan, key, users),
        }
    }

    /// What stands for the device, if its results are those of a host model.
    pub fn simulated(&self) -> Option<&str> {
        match self {
            DeviceProgram::Gpu(_) => None,
            DeviceProgram::Npu(core) => {
                Some(core.hardware.npu()).filter(|npu| npu.is_simulated()).map(|npu| npu.name())
            }
        }
    }
}
