//! Functions of many elements in place of a few, as layout was moved in front of them.
//!
//! A row program has its layout where it reads ([`super::hoist`]). A function whose result is repeated is then a function of
//! what is repeated, and a kernel computes it for every element that reads it, where one kernel per op computes it once and
//! stores it. Which of the two takes longer depends on the target: it states what it takes for both ([`Costs`]).

use fusewright_graph::{Dim, Graph, Op, Prim, ScalarFn};

use super::cost::UNKNOWN;

/// Kernels of a target take so long for parts of their work, in picoseconds on one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// One call of a kernel.
    pub call: u64,
    /// One byte that is written to memory, or read from it.
    pub byte: u64,
    /// One element of a function, of f32 where it is a function of floats.
    pub functions: &'static [(ScalarFn, u64)],
}

impl Costs {
    fn function(&self, f: ScalarFn) -> u64 {
        self.functions.iter().find(|(of, _)| *of == f).map_or(0, |(_, cost)| *cost)
    }

    /// The time to store values for another kernel: its call, and one writing and one reading of each.
    pub(super) fn stored(&self, bytes: f64) -> f64 {
        self.call as f64 + 2.0 * bytes * self.byte as f64
    }

    /// The time of the functions that a kernel computes beyond those of its body. It computes another body with the same results.
    pub(super) fn moved(&self, body: &Graph, computed: &Graph) -> f64 {
        (self.functions_of(computed) - self.functions_of(body)).max(0.0)
    }

    /// All functions of a body but those of constants, which kernels compute once or not at all.
    fn functions_of(&self, body: &Graph) -> f64 {
        let mut constant = vec![false; body.value_count()];
        let mut sum = 0.0;
        for node in body.nodes() {
            let is_constant = match &node.op {
                op if super::is_constant(op) => true,
                op => {
                    let pure = super::is_layout(op) || matches!(op, Op::Prim(Prim::Map(_) | Prim::Cast { .. }));
                    pure && node.operands.iter().all(|v| constant[v.0 as usize])
                }
            };
            node.results.iter().for_each(|v| constant[v.0 as usize] = is_constant);
            if let (Op::Prim(Prim::Map(f)), [result]) = (&node.op, &node.results[..])
                && !is_constant
            {
                sum += elements(&body.ty(*result).shape) * self.function(*f) as f64;
            }
        }
        sum
    }
}

/// The number of elements, symbols taken to be large.
pub(super) fn elements(shape: &[Dim]) -> f64 {
    let extent = |dim: &Dim| dim.eval(&|_| Some(UNKNOWN as i64)).map_or(UNKNOWN, |extent| extent.max(0) as f64);
    shape.iter().map(extent).product()
}
