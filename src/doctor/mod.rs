//! A report for people and programs: it says what this machine has, what of it is used, and why.
//!
//! Everything is found by the code that compilers and programs find it with, so that the report says what they do. The report
//! leaves the machine as it is: files and folders that are made to try a place are removed again. Kernels that are
//! compiled on trial are kept nowhere, but for their stages in the folder that [`crate::knobs::DUMP_DIR`] names.

mod cache;
mod gpu;
mod machine;
mod npu;
mod render;
mod settings;
mod trial;

/// The topic of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Section {
    /// Version, system, processor and threads.
    Machine,
    /// Compilers for the processor, each tried on a kernel.
    Cpu,
    /// NVIDIA GPUs, and the tools and libraries around them.
    Nvidia,
    /// Ascend NPUs, their compiler and their host model.
    Ascend,
    /// The kernel cache.
    Cache,
    /// Environment variables that are set.
    Settings,
    /// The findings of the Python package.
    Python,
}

impl Section {
    /// Every section, in the order of reports.
    pub const ALL: [Section; 7] = [
        Section::Machine,
        Section::Cpu,
        Section::Nvidia,
        Section::Ascend,
        Section::Cache,
        Section::Settings,
        Section::Python,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Section::Machine => "machine",
            Section::Cpu => "cpu",
            Section::Nvidia => "nvidia",
            Section::Ascend => "ascend",
            Section::Cache => "cache",
            Section::Settings => "settings",
            Section::Python => "python",
        }
    }
}

/// A thing that was looked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Where it belongs.
    pub section: Section,
    /// The thing.
    pub subject: String,
    /// The finding, in words.
    pub found: String,
    /// The use of it, or what happens without it.
    pub used: String,
    /// The fault of it, if there is one.
    pub problem: Option<Problem>,
}

/// That a finding is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The remedy.
    pub remedy: String,
    /// A variable asks for something that is missing, or kernels do not run on this processor.
    pub fails: bool,
}

impl Finding {
    /// A finding that is as it should be.
    pub fn new(section: Section, subject: &str, found: impl Into<String>, used: impl Into<String>) -> Finding {
        Finding { section, subject: subject.to_owned(), found: found.into(), used: used.into(), problem: None }
    }

    /// The same as a problem that hinders nothing that was asked for.
    #[must_use]
    pub fn advising(self, remedy: impl Into<String>) -> Finding {
        Finding { problem: Some(Problem { remedy: remedy.into(), fails: false }), ..self }
    }

    /// The same as a problem: what a variable asks for is missing, or kernels do not run.
    #[must_use]
    pub fn failing(self, remedy: impl Into<String>) -> Finding {
        Finding { problem: Some(Problem { remedy: remedy.into(), fails: true }), ..self }
    }
}

/// All findings of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The findings, in the order of sections.
    pub findings: Vec<Finding>,
}

impl Report {
    /// Says that kernels compile and run on this processor, and that nothing is missing that a variable asks for.
    pub fn is_well(&self) -> bool {
        !self.problems().any(|problem| problem.fails)
    }

    /// Lists the faults, in the order of findings.
    pub fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.findings.iter().filter_map(|finding| finding.problem.as_ref())
    }

    /// The command line's exit status.
    pub fn exit_status(&self) -> u8 {
        u8::from(!self.is_well())
    }
}

/// Looks at this machine. `more` is what a caller found that this crate cannot look at, such as packages of Python.
pub fn examine(more: Vec<Finding>) -> Report {
    let mut findings = machine::findings();
    findings.extend(trial::of_processor());
    findings.extend(gpu::findings());
    findings.extend(npu::findings());
    findings.extend(cache::findings());
    findings.extend(settings::findings());
    findings.extend(more);
    findings.sort_by_key(|finding| finding.section);
    Report { findings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_in_the_order_of_sections_and_holds_what_a_caller_found() {
        let report = examine(vec![Finding::new(Section::Python, "python", "3.12.1", "runs this")]);
        assert!(report.findings.is_sorted_by_key(|finding| finding.section));
        for section in Section::ALL.into_iter().filter(|section| *section != Section::Settings) {
            assert!(report.findings.iter().any(|finding| finding.section == section), "{section:?} is empty");
        }
        for finding in &report.findings {
            let Finding { subject, found, .. } = finding;
            assert!(!subject.is_empty() && !found.is_empty() && !finding.used.is_empty(), "{finding:?}");
            assert!(![subject, found, &finding.used].iter().any(|text| text.contains('\n')), "{finding:?}");
        }
    }

    #[test]
    fn only_what_was_asked_for_fails() {
        let well = Finding::new(Section::Nvidia, "ptxas", "none", "the driver compiles PTX");
        let advised = well.clone().advising("install it");
        let failing = well.clone().failing("unset it");
        let status =
            |findings: &[&Finding]| Report { findings: findings.iter().copied().cloned().collect() }.exit_status();
        assert_eq!(
            [status(&[]), status(&[&well]), status(&[&well, &advised]), status(&[&advised, &failing])],
            [0, 0, 0, 1]
        );
    }
}
