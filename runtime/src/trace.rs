//! Launches that others watch: spans of `tracing`, for a subscriber of the process, and ranges of NVTX, for NVIDIA's profilers.
//!
//! A launch that nobody watches pays for one relaxed load, and on a GPU for one more: no name is made and nothing is
//! allocated.

use tracing::level_filters::LevelFilter;
use tracing::span::EnteredSpan;

pub use crate::driver::nvtx::{Range, attach, range};

/// The target of every span and event of this project, by which a subscriber may choose them.
pub const TARGET: &str = "fusewright";

/// A launch that somebody watches, until it is dropped.
#[must_use]
pub(crate) struct Watched {
    _span: Option<EnteredSpan>,
    _range: Option<Range>,
}

/// Opens the span of a launch on this processor, if a subscriber wants spans of level TRACE.
#[inline]
pub(crate) fn launch(kernel: &str, rows: usize) -> Option<Watched> {
    spans().then(|| Watched { _span: Some(span(kernel, rows)), _range: None })
}

/// Opens the span and the range of a launch on a device, each if somebody wants it.
#[inline]
pub(crate) fn launch_on_device(kernel: &str, rows: usize) -> Option<Watched> {
    let spans = spans();
    if !spans && !crate::driver::nvtx::is_attached() {
        return None;
    }
    Some(Watched { _span: spans.then(|| span(kernel, rows)), _range: range(|| kernel.to_owned()) })
}

/// Says that a subscriber takes spans of level TRACE. One number that all of them share tells this.
#[inline]
fn spans() -> bool {
    LevelFilter::current() >= LevelFilter::TRACE
}

#[cold]
fn span(kernel: &str, rows: usize) -> EnteredSpan {
    tracing::trace_span!(target: TARGET, "launch", kernel, rows).entered()
}
