//! Reports to a caller while kernels are compiled.

use std::fmt;
use std::sync::Arc;

/// The kernel that a compiler begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compiling<'a> {
    /// Name of the region that it computes.
    pub name: &'a str,
    /// Its number among those that are compiled together, from 1 on, in the order in which they begin.
    pub number: usize,
    /// How many those are.
    pub of: usize,
}

type Listener = dyn Fn(Compiling<'_>) + Send + Sync;

/// A function that is told of every kernel as its compilation begins, on the thread that compiles it; none by default.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Listener>>);

impl Progress {
    /// Tells a function.
    pub fn to(listener: impl Fn(Compiling<'_>) + Send + Sync + 'static) -> Self {
        Progress(Some(Arc::new(listener)))
    }

    pub(crate) fn begins(&self, compiling: Compiling<'_>) {
        if let Some(listener) = &self.0 {
            listener(compiling);
        }
    }
}

/// Equal if both tell the same function, or none.
impl PartialEq for Progress {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Progress(to a listener)" } else { "Progress(to nobody)" })
    }
}
