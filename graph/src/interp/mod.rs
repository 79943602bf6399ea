//! The reference interpreter: what a graph means.
//!
//! [`run`] evaluates a graph on tensors. Every op is computed from the exact values of its operands and rounded once to
//! its dtype; sums, matrix products and attention are accumulated in `f64` (integers in 64 bits) and rounded once at
//! the end. Composites are evaluated by their expansion. [`enclose`] evaluates the same graph on intervals: every
//! element becomes the range of values that a right implementation may give, so that foreign results are judged by
//! computed bounds.
//!
//! Ops of the host framework have no meaning here; a caller that can compute them passes a [`Host`].

mod bind;
mod domain;
mod fault;
mod grouped;
mod interval;
mod layout;
mod machine;
mod point;
mod scatter_reduce;
mod walk;

use std::collections::BTreeMap;

use fusewright_abi::DType;

use crate::graph::{Graph, Origin};
use crate::infer::TypeError;
use crate::prim::AllReduce;
use crate::tensor::{NoMemory, Tensor, TensorError};

pub use bind::{Binding, solve};
pub use interval::{Enclosure, IntRange, Interval, Intervals, Outside, Report, enclose, enclose_with};

/// Values of symbols, by name.
pub type Symbols = BTreeMap<String, i64>;

/// Why a graph cannot be evaluated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InterpError {
    /// The number of tensors is not the number of user inputs.
    #[error("graph `{graph}` takes {expected} inputs, got {got}")]
    InputCount {
        /// Name of the graph.
        graph: String,
        /// Number of user inputs.
        expected: usize,
        /// Number of tensors given.
        got: usize,
    },
    /// An input does not fit its type, or a weight has no data.
    #[error("input `{name}`: {message}")]
    Input {
        /// Name of the input.
        name: String,
        /// What does not fit.
        message: String,
    },
    /// A symbol has no value or one outside its range.
    #[error("symbol `{name}`: {message}")]
    Symbol {
        /// Name of the symbol.
        name: String,
        /// What is wrong.
        message: String,
    },
    /// A node has no value on its operands.
    #[error("{op} of node {origin}: {message}")]
    Node {
        /// Name of the op.
        op: String,
        /// Where the node came from.
        origin: Box<Origin>,
        /// What is wrong.
        message: String,
    },
    /// The machine has no memory for a value.
    #[error("{what}: {lack}")]
    Memory {
        /// The input, or the op and where its node came from.
        what: String,
        /// The value.
        lack: NoMemory,
    },
    /// A composite does not expand.
    #[error(transparent)]
    Type(#[from] TypeError),
}

/// A call of an op that the graph does not take apart.
#[derive(Debug)]
pub struct OpaqueCall<'a> {
    /// Name in the framework.
    pub target: &'a str,
    /// Arguments other than tensors.
    pub attrs: &'a [(String, String)],
    /// Tensor operands.
    pub operands: &'a [&'a Tensor],
    /// Types that the results must have.
    pub results: &'a [(DType, Vec<usize>)],
}

/// What the caller computes for the interpreter.
pub trait Host {
    /// The results of an opaque op.
    ///
    /// # Errors
    /// Why there are none, in words.
    fn opaque(&self, call: &OpaqueCall<'_>) -> Result<Vec<Tensor>, String>;

    /// What the ranks of a group make of their tensors; this one's is `x`. A group of one rank is not asked for.
    ///
    /// # Errors
    /// Why there is none, in words; without a host there are no other ranks.
    fn all_reduce(&self, all: &AllReduce, _x: &Tensor) -> Result<Tensor, String> {
        Err(format!("combines the tensors of {}, and the other ranks are absent", all.described()))
    }
}

/// A host without opaque ops and with one rank.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl Host for NoHost {
    fn opaque(&self, call: &OpaqueCall<'_>) -> Result<Vec<Tensor>, String> {
        Err(format!("`{}` belongs to the host framework, which is absent", call.target))
    }
}

/// The outputs of a graph on tensors for its user inputs, in order. Symbols are bound by the shapes of the inputs;
/// `symbols` gives those that no shape determines.
///
/// # Errors
/// Inputs that do not fit, weights without data, and ops without a value here; the error names the input or the node.
pub fn run(graph: &Graph, inputs: &[Tensor], symbols: &Symbols) -> Result<Vec<Tensor>, InterpError> {
    run_with(graph, inputs, symbols, &NoHost)
}

/// As [`run`], with a host for opaque ops and collectives.
///
/// # Errors
/// As [`run`], and what the host refuses.
pub fn run_with(
    graph: &Graph,
    inputs: &[Tensor],
    symbols: &Symbols,
    host: &dyn Host,
) -> Result<Vec<Tensor>, InterpError> {
    let binding = Binding::of(graph, inputs, symbols)?;
    machine::Machine { domain: &point::Points { host }, binding: &binding }.run(&graph.expanded()?, inputs)
}

impl From<TensorError> for String {
    fn from(error: TensorError) -> String {
        error.to_string()
    }
}

#[cfg(test)]
mod tests;
