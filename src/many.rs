//! Kernels that are compiled beside each other, where a compiler takes long enough for that: those of LLVM do, and what
//! stands behind them is a process per kernel.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, available_parallelism, scope};

use fusewright_graph::Graph;

use crate::compiler::{Compilation, CompileError, Compiler, Made};
use crate::map::is_free;

/// What becomes of one body.
type Outcome = Result<(Made, Compilation), CompileError>;

impl Compiler {
    /// As [`Compiler::make`] of each of these bodies by its name, in their order, on as many threads as there are
    /// processors and memory for. The log has them in their order, whichever was done first.
    pub(crate) fn make_all(&self, bodies: &[(&str, &Graph)]) -> Vec<Result<Made, CompileError>> {
        let outcomes: Vec<Mutex<Option<Outcome>>> = bodies.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(((name, body), outcome)) = bodies.iter().zip(&outcomes).nth(next.fetch_add(1, Ordering::Relaxed))
            {
                let made = self.make_timed(name, body);
                *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
            }
        };
        scope(|scope| {
            for number in 1..self.compilers(bodies.len()) {
                // Where there is no thread to be had, the others do its work.
                let _ = Builder::new().name(format!("fusewright-compile-{number}")).spawn_scoped(scope, work);
            }
            work();
        });
        let noted = |outcome: Mutex<Option<Outcome>>| {
            let (made, done) = outcome.into_inner().unwrap_or_else(PoisonError::into_inner).expect("every body had its turn")?;
            self.note(done);
            Ok(made)
        };
        outcomes.into_iter().map(noted).collect()
    }

    /// How many threads compile so many bodies. A backend that asks for no memory is done before a thread has begun.
    fn compilers(&self, bodies: usize) -> usize {
        let memory = self.backend().memory();
        let processors = available_parallelism().map_or(1, NonZero::get);
        let most = if memory == 0 { 1 } else { processors.min(bodies) };
        (1..=most).rev().find(|&threads| is_free(memory.saturating_mul(threads))).unwrap_or(1)
    }
}
