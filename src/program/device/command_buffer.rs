//! Calls of programs on tensors that lie on a GPU.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use fusewright_abi::DType;
use fusewright_graph::{Graph, Input};
use fusewright_runtime::cuda::{DeviceBuffer, Gpu, Stream};

use super::gpu::Cuda;
use super::{Bound, Core, DeviceProgram, Launches, Output, Piece, Ready};
use crate::Error;
use crate::program::{Planned, Program, bind, state};

/// A tensor in memory of a GPU, in row-major order.
#[derive(Clone, Debug)]
pub struct DeviceTensor {
    /// Element type.
    pub dtype: DType,
    /// Extents, outermost first.
    pub shape: Vec<usize>,
    /// Its elements, from the first byte on.
    pub buffer: DeviceBuffer,
}

/// An input of a call on a GPU.
#[derive(Clone, Copy, Debug)]
pub enum DeviceArgument<'a> {
    /// It is read.
    Read(&'a DeviceTensor),
    /// It is read and then holds the new value that the graph gives it.
    InOut(&'a DeviceTensor),
}

impl DeviceArgument<'_> {
    fn tensor(&self) -> &DeviceTensor {
        match self {
            DeviceArgument::Read(tensor) | DeviceArgument::InOut(tensor) => tensor,
        }
    }
}

/// A program for a GPU, whose calls stay there.
#[derive(Clone, Copy, Debug)]
pub struct OnGpu<'p> {
    program: &'p Program,
    core: &'p Core<Cuda>,
}

/// The commands of a program for tensors at fixed addresses, enqueued as often as one likes: what the tensors hold then is
/// what a call reads. All command buffers of a program share memory: they are enqueued on one stream, or on streams that wait
/// for each other, and results hold until any of them is enqueued again.
#[derive(Debug)]
pub struct CommandBuffer<'p> {
    on: OnGpu<'p>,
    bound: Bound<Cuda>,
    outputs: Vec<Option<DeviceTensor>>,
}

impl Program {
    /// The program for calls on memory of its GPU, if its target is one.
    pub fn on_gpu(&self) -> Option<OnGpu<'_>> {
        match &self.device {
            Some(DeviceProgram::Gpu(core)) => Some(OnGpu { program: self, core }),
            _ => None,
        }
    }
}

impl<'p> OnGpu<'p> {
    /// The device.
    pub fn gpu(&self) -> &'p Gpu {
        self.core.hardware.gpu()
    }

    /// The commands of calls on these tensors: the graph's inputs in order, and behind them, all or none, the buffers of the
    /// model that the graph updates, which without that are read as the model's file has them. Memory is allocated and
    /// weights are uploaded here, as far as no call before needed them.
    ///
    /// `distinct` says that no two rows of a call choose the same place to write to, such as slots of a cache, so that such
    /// rows may be written at once.
    ///
    /// # Errors
    /// Tensors that do not fit the graph, by name; a tensor to be overwritten that no output updates; too little memory.
    pub fn bind(&self, arguments: &[DeviceArgument<'_>], distinct: bool) -> Result<CommandBuffer<'p>, Error> {
        self.bind_steps(arguments, Launches { distinct, overlapping: true }, &|_| true)
    }

    /// As [`OnGpu::bind`], the commands of some steps alone, in the same memory, for measurements: what other steps compute
    /// is what calls left there.
    ///
    /// # Errors
    /// As [`OnGpu::bind`].
    pub(crate) fn bind_steps(
        &self,
        arguments: &[DeviceArgument<'_>],
        launches: Launches,
        wanted: &dyn Fn(usize) -> bool,
    ) -> Result<CommandBuffer<'p>, Error> {
        let planned = planned(self.program, arguments)?;
        let users = arguments.iter().map(|argument| argument.tensor().buffer.clone()).collect();
        let mut state = self.core.lock();
        let bound = self.core.bind_steps(&mut state, self.program, &planned.plan, (users, launches), wanted)?;
        let tensor = |output: &Output<DeviceBuffer>| {
            let Output { dtype, shape, buffer, .. } = output.clone();
            DeviceTensor { dtype, shape, buffer }
        };
        let outputs = bound.outputs.iter().map(|output| output.as_ref().map(tensor)).collect();
        Ok(CommandBuffer { on: *self, bound, outputs })
    }
}

impl CommandBuffer<'_> {
    /// How many commands there are.
    pub fn len(&self) -> usize {
        self.bound.pieces.len()
    }

    /// Whether a call does nothing.
    pub fn is_empty(&self) -> bool {
        self.bound.pieces.is_empty()
    }

    /// What the step is called that a command is for; none beyond the last.
    pub fn label(&self, command: usize) -> Option<&str> {
        self.bound.pieces.get(command).map(|piece| piece.label.as_str())
    }

    /// Whether a command runs on the host and waits for the stream, so that no capture may hold it.
    pub fn waits(&self, command: usize) -> bool {
        matches!(self.bound.pieces.get(command), Some(Piece { ready: Ready::Host(_), .. }))
    }

    /// Enqueues all commands: one call of the program.
    ///
    /// # Errors
    /// A device that was lost; a step on the host that fails, by name.
    pub fn enqueue(&self, stream: &Stream) -> Result<(), Error> {
        self.enqueue_part(0..self.len(), stream)
    }

    /// Enqueues some commands, such as those between two that are not to be captured.
    ///
    /// # Errors
    /// As [`CommandBuffer::enqueue`], and commands beyond the last.
    pub fn enqueue_part(&self, commands: Range<usize>, stream: &Stream) -> Result<(), Error> {
        if commands.start > commands.end || commands.end > self.len() {
            let message = format!("commands {} to {} of {}", commands.start, commands.end, self.len());
            return Err(Error::Call(message));
        }
        self.on.core.enqueue(&self.bound, commands, stream)
    }

    /// The results by the outputs of the graph; none of those that are new values of tensors given to be overwritten.
    pub fn outputs(&self) -> &[Option<DeviceTensor>] {
        &self.outputs
    }
}

/// The plan of a call on these tensors.
fn planned(program: &Program, arguments: &[DeviceArgument<'_>]) -> Result<Arc<Planned>, Error> {
    let graph = &program.graph;
    let users: Vec<&Input> = graph.inputs().iter().filter(|input| input.kind.is_given()).collect();
    let buffers: Vec<&Input> = state::buffers(graph).map(|(_, input)| input).collect();
    let (given, of_state) = arguments.split_at(users.len().min(arguments.len()));
    if !of_state.is_empty() && of_state.len() != buffers.len() {
        let (got, name, users, buffers) = (arguments.len(), graph.name(), users.len(), buffers.len());
        return Err(Error::Call(format!(
            "`{name}` takes {users} inputs, and {buffers} buffers or none, got {got} tensors"
        )));
    }
    let types: Vec<(DType, &[usize])> =
        given.iter().map(|argument| (argument.tensor().dtype, argument.tensor().shape.as_slice())).collect();
    let binding = bind(graph, &types)?;
    let mut donated = BTreeSet::new();
    for (number, (input, argument)) in users.iter().chain(&buffers).zip(arguments).enumerate() {
        let tensor = argument.tensor();
        let needed = tensor.dtype.bytes_of(&tensor.shape);
        if needed.is_none_or(|needed| tensor.buffer.len() < needed) {
            let (name, got) = (&input.name, tensor.buffer.len());
            let takes = needed.map_or("more bytes than there are".to_owned(), |n| format!("{n} bytes"));
            return Err(Error::Call(format!("input `{name}` takes {takes}, its memory has {got}")));
        }
        if number >= users.len() {
            check_buffer(graph, input, tensor)?;
        }
        if let DeviceArgument::InOut(_) = argument {
            if graph.outputs().iter().all(|output| output.updates.as_ref() != Some(&input.name)) {
                let message = format!("input `{}` is given to be overwritten, but no output updates it", input.name);
                return Err(Error::Call(message));
            }
            donated.insert(number);
        } else if number >= users.len() {
            return Err(Error::Call(format!("buffer `{}` of a state is given to be read only", input.name)));
        }
    }
    program.plan((binding, donated))
}

/// Refuses a tensor that is not of the type of a buffer of the model.
fn check_buffer(graph: &Graph, input: &Input, tensor: &DeviceTensor) -> Result<(), Error> {
    let ty = graph.ty(input.value);
    let extents = ty.shape.iter().map(|extent| extent.as_const().and_then(|n| usize::try_from(n).ok()));
    if ty.dtype == tensor.dtype && extents.eq(tensor.shape.iter().map(|&n| Some(n))) {
        return Ok(());
    }
    let (dtype, shape) = (tensor.dtype, &tensor.shape);
    Err(Error::Call(format!("buffer `{}` is {ty}, got {dtype}{shape:?}", input.name)))
}
