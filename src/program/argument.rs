//! What a caller gives a program: tensors to read, and tensors to overwrite.

use std::collections::BTreeSet;

use fusewright_graph::Graph;

use crate::{Error, HostTensor, TensorMut, TensorRef};

/// An input of a call of [`Program::run_in_place`](super::Program::run_in_place).
#[derive(Debug)]
pub enum Argument<'a> {
    /// It is read; what the graph writes to it is a result of its own.
    Read(&'a HostTensor),
    /// It is read and then holds the new value that the graph gives it.
    InOut(&'a mut HostTensor),
    /// As [`Argument::Read`], in memory that somebody else owns.
    Lent(TensorRef<'a>),
    /// As [`Argument::InOut`], in memory that somebody else owns: without gaps between rows.
    LentInOut(TensorMut<'a>),
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
    pub fn tensor(&self) -> TensorRef<'_> {
        match self {
            Argument::Read(tensor) => lent(tensor),
            Argument::InOut(tensor) => lent(tensor),
            Argument::Lent(tensor) => *tensor,
            Argument::LentInOut(TensorMut { dtype, shape, bytes, .. }) => TensorRef { dtype: *dtype, shape, bytes },
        }
    }

    /// Says that it holds a new value after a call.
    fn is_overwritten(&self) -> bool {
        matches!(self, Argument::InOut(_) | Argument::LentInOut(_))
    }

    /// The memory that a call may touch.
    pub(super) fn memory(&mut self) -> UserMemory<'_> {
        match self {
            Argument::Read(tensor) => UserMemory::Read(&tensor.bytes),
            Argument::InOut(tensor) => UserMemory::InOut(&mut tensor.bytes),
            Argument::Lent(tensor) => UserMemory::Read(tensor.bytes),
            Argument::LentInOut(tensor) => UserMemory::LentInOut(tensor.bytes),
        }
    }
}

fn lent(tensor: &HostTensor) -> TensorRef<'_> {
    TensorRef { dtype: tensor.dtype, shape: &tensor.shape, bytes: &tensor.bytes }
}

/// Bytes of the caller during a call.
pub(crate) enum UserMemory<'a> {
    Read(&'a [u8]),
    InOut(&'a mut Vec<u8>),
    /// Memory that cannot be exchanged for other memory.
    LentInOut(&'a mut [u8]),
}

impl UserMemory<'_> {
    /// Its elements as they are now.
    pub fn bytes(&self) -> &[u8] {
        match self {
            UserMemory::Read(bytes) => bytes,
            UserMemory::InOut(bytes) => bytes,
            UserMemory::LentInOut(bytes) => bytes,
        }
    }

    /// The same to be overwritten, if it may be.
    pub fn overwritten(&mut self) -> Option<&mut [u8]> {
        match self {
            UserMemory::Read(_) => None,
            UserMemory::InOut(bytes) => Some(bytes),
            UserMemory::LentInOut(bytes) => Some(bytes),
        }
    }
}

/// Which of the arguments are to be overwritten, by their numbers.
///
/// # Errors
/// An argument that is to be overwritten and that no output of the graph updates, or whose rows lie apart, by name.
pub(super) fn donated(graph: &Graph, arguments: &[Argument<'_>]) -> Result<BTreeSet<usize>, Error> {
    let users = graph.inputs().iter().filter(|i| i.kind.is_given());
    let mut donated = BTreeSet::new();
    for (number, (input, argument)) in users.zip(arguments).enumerate() {
        if argument.is_overwritten() {
            if graph.outputs().iter().all(|o| o.updates.as_ref() != Some(&input.name)) {
                let message = format!("input `{}` is given to be overwritten, but no output updates it", input.name);
                return Err(Error::Call(message));
            }
            if let Argument::LentInOut(TensorMut { stride: Some(_), .. }) = argument {
                let message = format!("input `{}` is given to be overwritten, and its rows lie apart", input.name);
                return Err(Error::Call(message));
            }
            donated.insert(number);
        }
    }
    Ok(donated)
}
