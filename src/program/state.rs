//! What a model keeps from call to call: the buffers that its graph updates, such as caches and running means.

use fusewright_graph::{Graph, Input, InputKind};

use super::argument::UserMemory;
use crate::{Error, HostTensor};

/// The values of the buffers of a model that its graph updates, for one sequence of calls.
///
/// A program holds no values that change: calls with one state follow each other, those with different states are
/// independent. [`Program::state`](super::Program::state) makes one with the values that the model's file has.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    buffers: Vec<(String, HostTensor)>,
}

impl State {
    pub(super) fn new(buffers: Vec<(String, HostTensor)>) -> Self {
        State { buffers }
    }

    /// The buffers and their values, in the order of the graph's inputs.
    pub fn buffers(&self) -> impl Iterator<Item = (&str, &HostTensor)> {
        self.buffers.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// The value of a buffer, by the name of the graph's input.
    pub fn get(&self, name: &str) -> Option<&HostTensor> {
        self.buffers().find(|(buffer, _)| *buffer == name).map(|(_, tensor)| tensor)
    }

    /// The same, to give it another value of the same type.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut HostTensor> {
        self.buffers.iter_mut().find(|(buffer, _)| buffer == name).map(|(_, tensor)| tensor)
    }

    /// The buffers themselves.
    pub(super) fn into_buffers(self) -> impl Iterator<Item = (String, HostTensor)> {
        self.buffers.into_iter()
    }

    /// The memory that a call may touch.
    pub(super) fn memory(&mut self) -> impl Iterator<Item = UserMemory<'_>> {
        self.buffers.iter_mut().map(|(_, tensor)| UserMemory::InOut(&mut tensor.bytes))
    }

    /// Checks that the state is one of a graph.
    ///
    /// # Errors
    /// Another number of buffers, or one of another name or type, by name.
    pub(super) fn check(&self, graph: &Graph) -> Result<(), Error> {
        let expected: Vec<&Input> = buffers(graph).map(|(_, input)| input).collect();
        if expected.len() != self.buffers.len() {
            let (expected, got) = (expected.len(), self.buffers.len());
            return Err(Error::Call(format!("`{}` updates {expected} buffers, the state has {got}", graph.name())));
        }
        for (input, (name, tensor)) in expected.into_iter().zip(&self.buffers) {
            let ty = graph.ty(input.value);
            let extents = ty.shape.iter().map(|extent| extent.as_const().and_then(|n| usize::try_from(n).ok()));
            let alike =
                input.name == *name && ty.dtype == tensor.dtype && extents.eq(tensor.shape.iter().map(|&n| Some(n)));
            if !alike || tensor.bytes.len() != tensor.dtype.bytes_for(tensor.elements()) {
                let (dtype, shape, bytes) = (tensor.dtype, &tensor.shape, tensor.bytes.len());
                let message =
                    format!("buffer `{}` is {ty}, the state has {dtype}{shape:?} of {bytes} bytes", input.name);
                return Err(Error::Call(message));
            }
        }
        Ok(())
    }
}

/// The weights that a graph updates, in order, by their positions among its inputs.
pub(super) fn buffers(graph: &Graph) -> impl Iterator<Item = (usize, &Input)> {
    let updated = |name: &str| graph.outputs().iter().any(|output| output.updates.as_deref() == Some(name));
    let weights = graph.inputs().iter().enumerate().filter(|(_, input)| matches!(input.kind, InputKind::Weight(_)));
    weights.filter(move |(_, input)| updated(&input.name))
}
