//! The threads that launches run on.

use std::sync::Arc;

use fusewright_runtime::{Pool, shared_pool};

/// Where launches find other threads: the pool of this process, unless the caller brings another.
#[derive(Clone, Debug)]
pub struct ThreadPool(Arc<dyn Pool>);

impl ThreadPool {
    /// A pool of the caller.
    pub fn of(pool: impl Pool + 'static) -> ThreadPool {
        ThreadPool(Arc::new(pool))
    }

    pub(crate) fn shared(&self) -> Arc<dyn Pool> {
        Arc::clone(&self.0)
    }
}

impl Default for ThreadPool {
    fn default() -> Self {
        ThreadPool(shared_pool())
    }
}

impl PartialEq for ThreadPool {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for ThreadPool {}
