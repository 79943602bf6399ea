//! Tests that cannot run on a machine say so by name.

use std::fmt::Display;
use std::io::{Write, stderr};

/// Says that a test is not run, and why: past what the test runner keeps to itself of tests that pass.
pub fn skipped(test: &str, why: impl Display) {
    // Without a standard error there is nobody to tell.
    let _ = writeln!(stderr(), "skipped: {test} ({why})");
}
