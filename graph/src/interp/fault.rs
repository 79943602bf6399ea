//! Why an op has no value, before it is known which op it was.

use crate::tensor::TensorError;

/// Why an op has no value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// What is wrong, in words.
    Wrong(String),
    /// The machine has no memory for that many bytes.
    Memory(usize),
}

impl Fault {
    /// The same of an op of the host framework.
    pub fn about(self, target: &str) -> Self {
        match self {
            Fault::Wrong(message) => Fault::Wrong(format!("`{target}`: {message}")),
            memory @ Fault::Memory(_) => memory,
        }
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Fault::Wrong(message)
    }
}

impl From<&str> for Fault {
    fn from(message: &str) -> Self {
        Fault::Wrong(message.to_owned())
    }
}

impl From<TensorError> for Fault {
    fn from(error: TensorError) -> Self {
        match error {
            TensorError::Memory(lack) => Fault::Memory(lack.bytes),
            other => Fault::Wrong(other.to_string()),
        }
    }
}
