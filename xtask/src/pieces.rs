//! Work in pieces, on all processors of a small machine: for tests that look at many things, and for those that wait for tools.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

/// Most threads: tests of a binary run beside each other too.
const MOST: usize = 4;

/// Runs a piece of work for each of some things, and gives what they make in the order of the things.
///
/// # Panics
/// As a piece does.
pub fn each<T: Sync, R: Send>(things: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let threads = available_parallelism().map_or(1, usize::from).min(MOST);
    let run = || {
        let mut made = Vec::new();
        while let Some((at, thing)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, things.get(at)?)))
        {
            made.push((at, work(thing)));
        }
        made
    };
    let mut made: Vec<(usize, R)> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let finished = running.into_iter().map(|thread| match thread.join() {
            Ok(made) => made,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        finished.flatten().collect()
    });
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::each;

    #[test]
    fn results_are_in_the_order_of_the_things() {
        let things: Vec<u32> = (0..1000).collect();
        assert_eq!(each(&things, |n| n * 2), things.iter().map(|n| n * 2).collect::<Vec<_>>());
        assert!(each(&[] as &[u32], |n| *n).is_empty());
    }

    #[test]
    fn a_panic_of_a_piece_is_one_of_all() {
        let all = std::panic::catch_unwind(|| each(&[1, 2, 3], |n| assert!(*n != 3, "of three")));
        assert_eq!(all.expect_err("a piece panics").downcast_ref(), Some(&"of three"));
    }
}
