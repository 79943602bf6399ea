//! Programs whose values lie on a device.
//!
//! For each binding of the symbols the steps become commands (`command.rs`): launches, products and copies between places of
//! one arena, of the weights, which are uploaded once, and of the caller's tensors. Commands are bound to addresses once,
//! which is where memory is allocated and where algorithms are searched; from then on a call enqueues them in order on a
//! stream, and neither allocates nor waits. Views cost nothing. Steps that no device has code for run on the host
//! (`reference.rs`), which waits; they are listed as fallbacks.
//!
//! All command buffers of a program share its arena and its library's workspace, so that they are enqueued on one stream, or
//! on streams that wait for each other.

mod arena;
mod call;
mod command;
mod command_buffer;
mod gpu;
mod hardware;
#[cfg(test)]
mod host;
mod product;
mod reference;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use fusewright_abi::{DType, Target};

pub(super) use command::on_host;
pub use command_buffer::{CommandBuffer, DeviceArgument, DeviceTensor, OnGpu};

use self::command::{Action, Command, Commands, KernelArg, Memory, Places, Region};
use self::gpu::Cuda;
use self::hardware::{Arg, Hardware, Order};
use self::reference::HostStep;
use super::build::check_weight;
use super::layout::Home;
use super::plan::{Place, Plan};
use super::plans::Plans;
use super::step::Work;
use super::{PlanKey, Program};
use crate::Error;

/// A program on a device.
#[derive(Debug)]
pub(super) struct Core<H: Hardware> {
    hardware: H,
    state: Mutex<State<H>>,
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
    ready: Ready<H>,
}

#[derive(Debug)]
enum Ready<H: Hardware> {
    Device(H::Ready),
    Host(Box<HostStep<H::Buffer>>),
}

/// A result on the device, in row-major order.
#[derive(Clone, Debug)]
struct Output<B> {
    dtype: DType,
    shape: Vec<usize>,
    buffer: B,
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
        Core { hardware, state: Mutex::new(State { stream, weights, arena: None, kept }) }
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
        let commands = Commands::of(program, plan)?;
        let arena = self.arena(state, commands.arena)?;
        let constants = self.hardware.allocate(commands.constants.len())?;
        self.hardware.upload(&state.stream, &constants, &commands.constants)?;
        let mut binding =
            Binding { core: self, state, program, users: &users, arena, constants, distinct: launches.distinct };
        let mut pieces = Vec::with_capacity(commands.commands.len());
        let mut follows_launch = false;
        for command in commands.commands.iter().filter(|command| wanted(command.step)) {
            let label = program.steps.get(command.step).map_or("results", |step| step.label.as_str());
            let ready = binding.ready(plan, command, follows_launch).map_err(|error| in_step(label, error))?;
            follows_launch = launches.overlapping && matches!(command.action, Action::Launch { .. });
            pieces.push(Piece { label: label.to_owned(), ready });
        }
        let mut outputs = Vec::with_capacity(commands.outputs.len());
        for (output, region) in program.graph.outputs().iter().zip(&commands.outputs) {
            let slot = plan.get(output.value)?;
            let buffer = region.map(|region| binding.memory(region)).transpose()?;
            outputs.push(buffer.map(|buffer| Output { dtype: slot.dtype, shape: slot.shape.clone(), buffer }));
        }
        Ok(Bound { pieces, users, outputs })
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
        for Piece { label, ready } in &bound.pieces[pieces] {
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
    users: &'a [H::Buffer],
    arena: H::Buffer,
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
        let whole = match region.memory {
            Memory::Arena => Some(&self.arena),
            Memory::Constants => Some(&self.constants),
            Memory::Weight(weight) => self.state.weights.get(&weight),
            Memory::User(user) => self.users.get(user),
        };
        let whole = whole.ok_or_else(|| Error::Internal(format!("{:?} is not on the device", region.memory)))?;
        self.core.hardware.part(whole, region.start, region.bytes)
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

/// A program on a GPU.
#[derive(Debug)]
pub(super) struct DeviceProgram(pub Core<Cuda>);

impl DeviceProgram {
    /// The program on the device of a target, if that is no host.
    ///
    /// # Errors
    /// No such device; no library where the program multiplies, with what was looked for.
    pub fn of(target: &Target, program: &Program) -> Result<Option<DeviceProgram>, Error> {
        if Home::of(target) == Home::Host {
            return Ok(None);
        }
        let multiplies = program.steps.iter().any(|step| matches!(step.work, Work::MatMul { .. }));
        let cuda = Cuda::open(target, multiplies)?;
        let stream = cuda.gpu().stream()?;
        Ok(Some(DeviceProgram(Core::new(cuda, stream))))
    }
}
