//! What a caller gives a program: tensors to read, and tensors to overwrite.

use std::collections::BTreeSet;

use fusewright_graph::Graph;

use crate::{Error, HostTensor};

/// An input of a call of [`Program::run_in_place`](super::Program::run_in_place).
#[derive(Debug)]
pub enum Argument<'a> {
    /// It is read; what the graph writes to it is a result of its own.
    Read(&'a HostTensor),
    /// It is read and then holds the new value that the graph gives it.
    InOut(&'a mut HostTensor),
}

impl<'a> From<&'a HostTensor> for Argument<'a> {
    fn from(tensor: &'a HostTensor) -> Self {
        Argument::Read(tensor)
    }
}

impl<'a> From<&'a mut HostTensor> for Argument<'a> {
    fn from(tensor: &'a mut HostTensor) -> Self {
        Argument::InOut(tensor)
    }
}

impl Argument<'_> {
    /// The tensor.
    pub fn tensor(&self) -> &HostTensor {
        match self {
            Argument::Read(tensor) => tensor,
            Argument::InOut(tensor) => tensor,
        }
    }

    /// The memory that a call may touch.
    pub(super) fn memory(&mut self) -> UserMemory<'_> {
        match self {
            Argument::Read(tensor) => UserMemory::Read(&tensor.bytes),
            Argument::InOut(tensor) => UserMemory::InOut(&mut tensor.bytes),
        }
    }
}

/// Bytes of the caller during a call.
pub(crate) enum UserMemory<'a> {
    Read(&'a [u8]),
    InOut(&'a mut Vec<u8>),
}

/// Which of the arguments are to be overwritten, by their numbers.
///
/// # Errors
/// An argument that is to be overwritten and that no output of the graph updates, by name.
pub(super) fn donated(graph: &Graph, arguments: &[Argument<'_>]) -> Result<BTreeSet<usize>, Error> {
    let users = graph.inputs().iter().filter(|i| i.kind.is_given());
    let mut donated = BTreeSet::new();
    for (number, (input, argument)) in users.zip(arguments).enumerate() {
        if let Argument::InOut(_) = argument {
            if graph.outputs().iter().all(|o| o.updates.as_ref() != Some(&input.name)) {
                let message = format!("input `{}` is given to be overwritten, but no output updates it", input.name);
                return Err(Error::Call(message));
            }
            donated.insert(number);
        }
    }
    Ok(donated)
}
