//! Compiling that others watch: spans of `tracing` of level DEBUG, and ranges of NVTX. The runtime does the same for launches.
//!
//! ```text
//! compile {graph, target}                       a graph
//!   kernel {kernel, target, compiler, from}     one of its kernels; `from` is `compiled`, `disk`, `memory` or `changed`
//! launch {kernel, rows}                         of level TRACE
//! ```

use fusewright_abi::Target;
use fusewright_graph::Graph;
use fusewright_runtime::trace::{self, Range, TARGET};
use tracing::field::Empty;
use tracing::span::{EnteredSpan, Span};

use crate::knobs;

/// Where the code of a kernel comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum From {
    /// A compiler made it now.
    Compiled,
    /// The cache on disk had it.
    Disk,
    /// A region of the same graph has it.
    Memory,
    /// A person changed a stage of it.
    Changed,
}

impl From {
    fn word(self) -> &'static str {
        match self {
            From::Compiled => "compiled",
            From::Disk => "disk",
            From::Memory => "memory",
            From::Changed => "changed",
        }
    }
}

/// Something that is watched until it is dropped.
#[must_use]
pub(crate) struct Watched {
    span: EnteredSpan,
    _range: Option<Range>,
}

impl Watched {
    /// Says where the code of a kernel came from.
    pub fn came(&self, from: From) {
        self.span.record("from", from.word());
    }
}

/// Opens the span of a graph that is compiled.
pub(crate) fn graph(graph: &Graph, target: &Target) -> Watched {
    let span = tracing::debug_span!(target: TARGET, "compile", graph = graph.name(), target = %target);
    Watched { span: span.entered(), _range: trace::range(|| format!("compile {}", graph.name())) }
}

/// Notes that a region has a kernel that another one of its graph had made.
pub(crate) fn known(name: &str, target: &Target, compiler: &str) {
    opened(name, target, compiler).record("from", From::Memory.word());
}

/// Opens the span of a kernel that is made for a target, by a compiler if its code is not kept.
pub(crate) fn kernel(name: &str, target: &Target, compiler: &str) -> Watched {
    let span = opened(name, target, compiler);
    Watched { span: span.entered(), _range: trace::range(|| format!("compile kernel {name}")) }
}

fn opened(name: &str, target: &Target, compiler: &str) -> Span {
    tracing::debug_span!(target: TARGET, "kernel", kernel = name, target = %target, compiler, from = Empty)
}

/// The span that is open on this thread, for work that other threads do for it.
pub(crate) fn here() -> Span {
    Span::current()
}

/// Lets the profiler that the environment names attach, the first time; why it does not, if it does not.
pub(crate) fn attach() -> Option<String> {
    let knob = knobs::NVTX_INJECTION;
    let library = knob.path()?;
    trace::attach(&library).err().map(|reason| format!("{}: {reason}; no profiler sees names of kernels", knob.name))
}
