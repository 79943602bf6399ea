//! What threads share, as the standard library and `arc-swap` have it.
//!
//! Built with `--cfg loom` it is what loom has in its place, which runs a test under every order in which its threads may go
//! on; the crate is otherwise the same. `Arc` and `Weak` are the standard library's in both.

#[cfg(loom)]
pub(crate) use self::modelled::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Exchanged, Mutex, MutexGuard, Receiver, Sender, channel, shared,
    spin_loop, start_thread,
};
#[cfg(not(loom))]
pub(crate) use self::plain::{
    AtomicBool, AtomicU64, AtomicUsize, Condvar, Exchanged, Mutex, MutexGuard, Receiver, Sender, channel, shared,
    spin_loop, start_thread,
};

#[cfg(not(loom))]
mod plain {
    pub(crate) use std::hint::spin_loop;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
    pub(crate) use std::sync::mpsc::{Receiver, Sender, channel};
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

    /// A value that readers hold on to while another takes its place.
    pub(crate) type Exchanged<T> = arc_swap::ArcSwap<T>;

    /// Starts a thread, or says that there is none to be had.
    pub(crate) fn start_thread(name: &str, stack: Option<usize>, body: impl FnOnce() + Send + 'static) -> bool {
        let named = std::thread::Builder::new().name(name.to_owned());
        stack.into_iter().fold(named, std::thread::Builder::stack_size).spawn(body).is_ok()
    }

    /// A static of the process that is made when it is first used.
    macro_rules! shared {
        (static $name:ident: $ty:ty = $make:expr;) => {
            static $name: std::sync::LazyLock<$ty> = std::sync::LazyLock::new($make);
        };
    }
    pub(crate) use shared;
}

#[cfg(loom)]
mod modelled {
    use std::collections::VecDeque;
    use std::sync::{Arc, PoisonError};

    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};

    /// What `arc-swap` promises: a reader has the old value or the new one, and keeps what it has.
    #[derive(Debug)]
    pub(crate) struct Exchanged<T>(Mutex<Arc<T>>);

    impl<T> Exchanged<T> {
        pub fn from_pointee(value: T) -> Self {
            Exchanged(Mutex::new(Arc::new(value)))
        }

        pub fn load(&self) -> Arc<T> {
            Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
        }

        pub fn store(&self, value: Arc<T>) {
            let old = std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), value);
            drop(old);
        }
    }

    pub(crate) fn start_thread(name: &str, _: Option<usize>, body: impl FnOnce() + Send + 'static) -> bool {
        loom::thread::Builder::new().name(name.to_owned()).spawn(body).is_ok()
    }

    macro_rules! shared {
        (static $name:ident: $ty:ty = $make:expr;) => {
            loom::lazy_static! {
                static ref $name: $ty = $make();
            }
        };
    }
    pub(crate) use shared;

    /// A channel that ends for its receiver when the sender is dropped, which loom's does not.
    pub(crate) fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let channel = Arc::new(Channel { state: Mutex::new((VecDeque::new(), true)), changed: Condvar::new() });
        (Sender(Arc::clone(&channel)), Receiver(channel))
    }

    struct Channel<T> {
        /// What was sent, and whether the sender is there.
        state: Mutex<(VecDeque<T>, bool)>,
        changed: Condvar,
    }

    pub(crate) struct Sender<T>(Arc<Channel<T>>);

    pub(crate) struct Receiver<T>(Arc<Channel<T>>);

    impl<T> Channel<T> {
        fn change(&self, change: impl FnOnce(&mut (VecDeque<T>, bool))) {
            change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_one();
        }
    }

    impl<T> Sender<T> {
        pub fn send(&self, value: T) -> Result<(), T> {
            self.0.change(|(sent, _)| sent.push_back(value));
            Ok(())
        }
    }

    impl<T> Drop for Sender<T> {
        fn drop(&mut self) {
            self.0.change(|(_, open)| *open = false);
        }
    }

    impl<T> Receiver<T> {
        pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
            std::iter::from_fn(|| {
                let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
                while state.0.is_empty() && state.1 {
                    state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                state.0.pop_front()
            })
        }
    }
}
