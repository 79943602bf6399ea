//! The kernel cache in memory: one module per content key, however many regions ask for it.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use fusewright_abi::ContentKey;

use crate::Module;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Loaded kernels by content key. Safe for concurrent use: a kernel is made by one thread, and others that ask for it
/// meanwhile wait; the lock is not held while it is made, so that other kernels are had at once.
#[derive(Debug, Default)]
pub struct KernelCache {
    /// None for a kernel that is being made.
    modules: Mutex<BTreeMap<ContentKey, Option<Arc<dyn Module>>>>,
    changed: Condvar,
}

impl KernelCache {
    /// The kernel of that key, made by `make` if it is not there. `make` must not ask for the same key.
    ///
    /// # Errors
    /// The error of `make`; nothing is kept then, and the next who asks makes it.
    pub fn get_or_make<E>(
        &self,
        key: ContentKey,
        make: impl FnOnce() -> Result<Arc<dyn Module>, E>,
    ) -> Result<Arc<dyn Module>, E> {
        let mut modules = self.lock();
        loop {
            match modules.get(&key) {
                Some(Some(module)) => return Ok(Arc::clone(module)),
                Some(None) => modules = self.changed.wait(modules).unwrap_or_else(PoisonError::into_inner),
                None => break,
            }
        }
        modules.insert(key, None);
        drop(modules);
        let mut making = Making { cache: self, key, made: None };
        let made = make()?;
        making.made = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Number of kernels held.
    pub fn len(&self) -> usize {
        self.lock().values().flatten().count()
    }

    /// Whether no kernel is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ContentKey, Option<Arc<dyn Module>>>> {
        self.modules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A kernel's place in the cache while it is made. Dropping it, also by a panic, fills the place or leaves it to others.
struct Making<'a> {
    cache: &'a KernelCache,
    key: ContentKey,
    made: Option<Arc<dyn Module>>,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut modules = self.cache.lock();
        match self.made.take() {
            Some(made) => modules.insert(self.key, Some(made)),
            None => modules.remove(&self.key),
        };
        drop(modules);
        self.cache.changed.notify_all();
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
        let panicked = std::panic::AssertUnwindSafe(|| cache.get_or_make::<()>(key(3), || panic!("on purpose")));
        assert!(std::panic::catch_unwind(panicked).is_err());
        cache.get_or_make(key(3), make).expect("made after a panic");
    }

    #[test]
    fn of_threads_that_ask_at_once_one_makes() {
        let (cache, made) = (KernelCache::default(), std::sync::atomic::AtomicUsize::new(0));
        let make = || {
            made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok::<Arc<dyn Module>, ()>(Arc::new(Nothing))
        };
        let modules: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| cache.get_or_make(ContentKey([7; 32]), make))).collect();
            threads.into_iter().filter_map(|t| t.join().ok()?.ok()).collect()
        });
        assert_eq!((modules.len(), made.into_inner()), (8, 1));
        assert!(modules.iter().all(|m| Arc::ptr_eq(m, &modules[0])));
    }
}
