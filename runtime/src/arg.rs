//! Buffer arguments of a launch.

/// A buffer argument: borrowed memory, alignment as it comes.
#[derive(Debug)]
pub enum Arg<'a> {
    /// Memory that the kernel reads.
    In(&'a [u8]),
    /// Memory that the kernel writes, or reads and writes in place.
    Out(&'a mut [u8]),
    /// The memory of the argument of that index, which is an [`Arg::Out`] and which the artifact lets this one share.
    Same(usize),
}

impl Arg<'_> {
    /// Length in bytes; zero of another argument's memory.
    pub fn len(&self) -> usize {
        match self {
            Arg::In(bytes) => bytes.len(),
            Arg::Out(bytes) => bytes.len(),
            Arg::Same(_) => 0,
        }
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
