//! The report of `doctor`, with what Python found besides.

use fusewright::doctor::{Finding, Section, examine};
use pyo3::prelude::*;

/// A finding of Python: subject, what was found, what it is used for, and what to do about it if something is wrong, with
/// whether a variable asks for it.
type Found = (String, String, String, Option<(String, bool)>);

/// A report as text, or as JSON, and the exit status that goes with it.
#[pyfunction]
#[pyo3(signature = (found, *, json = false))]
pub fn doctor(py: Python<'_>, found: Vec<Found>, json: bool) -> (String, u8) {
    let finding = |(subject, found, used, problem): Found| {
        let finding = Finding::new(Section::Python, &subject, found, used);
        match problem {
            None => finding,
            Some((remedy, true)) => finding.failing(remedy),
            Some((remedy, false)) => finding.advising(remedy),
        }
    };
    let report = py.detach(|| examine(found.into_iter().map(finding).collect()));
    let text = if json { report.json().to_string() } else { report.text() };
    (text, report.exit_status())
}
