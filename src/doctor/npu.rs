//! Ascend NPUs: their runtime, the compiler for them, and the host model.

use fusewright_abi::Target;
use fusewright_runtime::RuntimeError;

use super::{Finding, Section, settings};
use crate::Error;
use crate::ascend::{Maker, ToolkitChoice};
use crate::knobs::{self, Knob};
use crate::npu;

pub(super) fn findings() -> Vec<Finding> {
    if !cfg!(feature = "ascend") {
        let found = fusewright_codegen::backend::lacks("ascend");
        return vec![ascend("Ascend C", found, "no kernels for Ascend NPUs")];
    }
    let Ok(model) = "ascend-sim".parse::<Target>() else { return Vec::new() };
    vec![runtime(), compiler(), simulator(&model)]
}

fn ascend(subject: &str, found: impl Into<String>, used: impl Into<String>) -> Finding {
    Finding::new(Section::Ascend, subject, found, used)
}

/// The runtime of CANN and the first NPU, of whatever chip.
fn runtime() -> Finding {
    let knob = knobs::ACL;
    match npu::open_any() {
        Ok(npu) => {
            let library = npu.library().display();
            let found = format!("{} with {} vector cores, through {library}", npu.name(), npu.cores());
            let used = format!("target `{}`: loads and launches kernels; never tried on a real one", npu.target());
            ascend("NPU", found, used)
        }
        Err(RuntimeError::Unavailable { reason, .. }) => {
            let used = "kernels for `ascend` are written and do not run here";
            let finding = ascend("NPU", one_line(&reason), used);
            match knob.path() {
                None if !npu::is_installed() => Finding { found: nowhere("no runtime of CANN", &knob), ..finding },
                Some(_) => {
                    finding.failing(format!("name `libascendcl.so` or its folder by {}, or unset it", knob.name))
                }
                None => finding,
            }
        }
        Err(error) => {
            ascend("NPU", one_line(&error.to_string()), "not used").advising("see what `npu-smi info` says of it")
        }
    }
}

fn compiler() -> Finding {
    let knob = knobs::ASCEND_TOOLKIT;
    match Maker::find(&ToolkitChoice::Environment) {
        Ok(Some(maker)) => ascend("compiler", maker.words(), "compiles kernels for `ascend` before they are loaded"),
        Ok(None) if knob.path().is_some() => ascend("compiler", format!("off, by {}", knob.name), SOURCES),
        Ok(None) => ascend("compiler", nowhere("no CANN", &knob), SOURCES),
        Err(error) => ascend("compiler", reason(&error), "kernels for `ascend` are not compiled")
            .failing(format!("name the folder of CANN by {}, or unset it", knob.name)),
    }
}

/// Says that a part of CANN is in none of the usual places.
fn nowhere(what: &str, knob: &Knob) -> String {
    format!("{what} in ASCEND_HOME_PATH, ASCEND_TOOLKIT_HOME or the usual folders; {} may name one", knob.name)
}

/// The consequence of having no compiler of CANN.
const SOURCES: &str = "kernels for `ascend` are written as sources, to be compiled elsewhere";

fn simulator(target: &Target) -> Finding {
    if let Some(spoiled) = settings::spoiled(&[knobs::TOOL_SECONDS, knobs::OVERRIDE_DIR, knobs::DUMP_DIR]) {
        return ascend("host model", spoiled, "runs kernels of target `ascend-sim`, slowly, to check them");
    }
    match npu::simulator(target) {
        Ok(said) => ascend("host model", said, "runs kernels of target `ascend-sim`, slowly, to check them"),
        Err(said) => {
            let finding = ascend("host model", one_line(&said), "target `ascend-sim` does not run");
            let remedy = "install a compiler of C++, or name one by CXX";
            if knobs::CXX.read().is_some() { finding.failing(remedy) } else { finding.advising(remedy) }
        }
    }
}

fn reason(error: &Error) -> String {
    one_line(&error.to_string())
}

/// A text of several lines as one.
fn one_line(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_in_lines_is_one() {
        assert_eq!(one_line("no toolkit; looked at\n  a\n\n  b\n"), "no toolkit; looked at; a; b");
    }
}
