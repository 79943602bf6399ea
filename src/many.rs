//! Kernels that are compiled beside each other, where a compiler takes long enough for that: those of LLVM do, and what
//! stands behind them is a process per kernel.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, available_parallelism, scope};

use fusewright_graph::Graph;
use fusewright_runtime::COMPILE_STACK;

use crate::Compiling;
use crate::compiler::{Compilation, CompileError, Compiler, Made};
use crate::map::is_free;
use crate::watch;

/// What becomes of one body.
type Outcome = Result<(Made, Compilation), CompileError>;

impl Compiler {
    /// As [`Compiler::make`] of each of these bodies by its name, in their order, on as many threads as there are
    /// processors and memory for. The log has them in their order, whichever was done first.
    pub(crate) fn make_all(&self, bodies: &[(&str, &Graph)]) -> Vec<Result<Made, CompileError>> {
        self.prepare(bodies);
        let outcomes: Vec<Mutex<Option<Outcome>>> = bodies.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let watched = watch::here();
        let work = || {
            let _watched = watched.enter();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(((name, body), outcome)) = bodies.iter().zip(&outcomes).nth(at) else { break };
                self.progress.begins(Compiling { name, number: at + 1, of: bodies.len() });
                let made = self.make_timed(name, body);
                *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
            }
        };
        let threads = self.compilers(bodies.len());
        scope(|scope| {
            let named = |number| Builder::new().name(format!("fusewright-compile-{number}")).stack_size(COMPILE_STACK);
            let deep = self.backend().about().memory > 0 && !bodies.is_empty();
            let started =
                (0..if deep { threads } else { 0 }).filter(|&number| named(number).spawn_scoped(scope, work).is_ok());
            // Where there is no thread to be had, the others do its work, or this one.
            if started.count() == 0 {
                work();
            }
        });
        let noted = |outcome: Mutex<Option<Outcome>>| {
            let (made, done) =
                outcome.into_inner().unwrap_or_else(PoisonError::into_inner).expect("every body had its turn")?;
            self.note(done);
            Ok(made)
        };
        outcomes.into_iter().map(noted).collect()
    }

    /// How many threads compile so many bodies. A backend that asks for no memory is done before a thread has begun.
    fn compilers(&self, bodies: usize) -> usize {
        let memory = self.backend().about().memory;
        let processors = available_parallelism().map_or(1, NonZero::get);
        let most = if memory == 0 { 1 } else { processors.min(bodies) };
        (1..=most).rev().find(|&threads| is_free(memory.saturating_mul(threads))).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use fusewright_abi::Target;

    use super::*;

    fn bodies(count: usize) -> Vec<(String, Graph)> {
        let body = |lanes: usize| {
            let text = format!("graph @g(s: 1..; %x: f32[s, {lanes}]) {{\n  %y = exp %x\n  return %y\n}}\n");
            (format!("k{lanes}"), text.parse().unwrap_or_else(|e| panic!("{e}")))
        };
        (1..=count).map(body).collect()
    }

    #[test]
    fn beside_each_other_is_as_one_by_one() {
        let targets = ["cpu", "cpu-llvm", "cuda:sm_90"].map(|name| name.parse::<Target>().expect("a target"));
        for target in targets {
            // A build has the compilers of its features.
            let Ok(compiler) = Compiler::new(&target) else { continue };
            let bodies = bodies(9);
            let given: Vec<(&str, &Graph)> = bodies.iter().map(|(name, body)| (name.as_str(), body)).collect();
            let made = compiler.make_all(&given);
            let names: Vec<String> = compiler.log().into_iter().map(|kernel| kernel.name).collect();
            assert!(names.iter().eq(bodies.iter().map(|(name, _)| name)), "{target}: {names:?}");
            assert_eq!(compiler.counters().code().compiled, 9, "{target}");
            for (made, (name, body)) in made.into_iter().zip(&bodies) {
                let alone = compiler.artifact(name, body).unwrap_or_else(|e| panic!("{target}: {e}"));
                assert_eq!(made.unwrap_or_else(|e| panic!("{target}: {e}")).artifact, alone, "{target}: {name}");
            }
        }
    }

    /// As many functions as a region may have, on threads of tests, whose stacks are small.
    #[test]
    #[cfg(feature = "llvm")]
    fn long_chains_have_room_on_the_stack() {
        let chain = |length: usize| -> Graph {
            let nodes: String = (0..length).map(|i| format!("  %v{} = exp %v{i}\n", i + 1)).collect();
            let text = format!("graph @g(s: 1..; %v0: f32[s, 8]) {{\n{nodes}  return %v{length}\n}}\n");
            text.parse().unwrap_or_else(|e| panic!("{e}"))
        };
        let compiler = Compiler::new(&Target::CPU_LLVM).unwrap_or_else(|e| panic!("{e}"));
        let (long, other) = (chain(256), chain(255));
        let made = compiler.make_all(&[("long", &long), ("other", &other)]);
        assert!(made.iter().all(Result::is_ok));
    }

    #[test]
    fn one_that_has_no_kernel_is_no_matter_for_the_others() {
        let compiler = Compiler::new(&Target::Cpu).unwrap_or_else(|e| panic!("{e}"));
        let text =
            "graph @m(s: 1..; %x: f32[s, 4], %w: f32[4, 4]) {\n  %y = matmul %x, %w {out = f32}\n  return %y\n}\n";
        let product: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let bodies = bodies(2);
        let given = [("a", &bodies[0].1), ("m", &product), ("b", &bodies[1].1)];
        let outcomes: Vec<bool> = compiler.make_all(&given).iter().map(Result::is_ok).collect();
        assert_eq!((outcomes, compiler.log().len()), (vec![true, false, true], 2));
        assert!(compiler.make_all(&[]).is_empty());
    }
}
