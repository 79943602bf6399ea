//! The kernel cache in memory: one module per content key, however many regions ask for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use fusewright_abi::ContentKey;

use crate::Module;

/// Loaded kernels by content key. Safe for concurrent use; the lock is not held while a kernel is made, so two threads
/// may make one kernel at once, and the first to finish is kept.
#[derive(Debug, Default)]
pub struct KernelCache {
    modules: Mutex<BTreeMap<ContentKey, Arc<dyn Module>>>,
}

impl KernelCache {
    /// The kernel of that key, made by `make` if it is not there.
    ///
    /// # Errors
    /// The error of `make`; nothing is kept then.
    pub fn get_or_make<E>(
        &self,
        key: ContentKey,
        make: impl FnOnce() -> Result<Arc<dyn Module>, E>,
    ) -> Result<Arc<dyn Module>, E> {
        if let Some(module) = self.lock().get(&key) {
            return Ok(Arc::clone(module));
        }
        let made = make()?;
        Ok(Arc::clone(self.lock().entry(key).or_insert(made)))
    }

    /// Number of kernels held.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no kernel is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ContentKey, Arc<dyn Module>>> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arg, RuntimeError};

    #[derive(Debug)]
    struct Nothing;

    impl Module for Nothing {
        fn launch(&self, _: &mut [Arg<'_>], _: &[i64], _: usize, _: usize) -> Result<(), RuntimeError> {
            Ok(())
        }
    }

    #[test]
    fn one_module_per_key_and_none_after_an_error() {
        let cache = KernelCache::default();
        let key = |n| ContentKey([n; 32]);
        let make = || Ok::<Arc<dyn Module>, ()>(Arc::new(Nothing));
        let first = cache.get_or_make(key(1), make).expect("made");
        let again = cache.get_or_make(key(1), || Err(())).expect("kept");
        assert!(Arc::ptr_eq(&first, &again));
        assert!(cache.get_or_make(key(2), || Err(())).is_err());
        cache.get_or_make(key(2), make).expect("made");
        assert_eq!(cache.len(), 2);
    }

    #[test]
    fn concurrent_makers_agree_on_one() {
        let cache = KernelCache::default();
        let make = || Ok::<Arc<dyn Module>, ()>(Arc::new(Nothing));
        let modules: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| cache.get_or_make(ContentKey([7; 32]), make))).collect();
            threads.into_iter().filter_map(|t| t.join().ok()?.ok()).collect()
        });
        assert_eq!(modules.len(), 8);
        assert!(modules.iter().all(|m| Arc::ptr_eq(m, &modules[0])));
    }
}
