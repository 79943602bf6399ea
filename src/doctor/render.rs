//! A report as text for people, and as JSON for programs.

use serde_json::{Value, json};

use super::{Finding, Report, Section};

/// How far the findings of a section are indented; the mark of a problem stands there.
const INDENT: usize = 2;

impl Report {
    /// Lines for people: a section each, under it the findings, and at the end what is wrong.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for section in Section::ALL {
            let of_section = || self.findings.iter().filter(|finding| finding.section == section);
            let width = of_section().map(|finding| finding.subject.chars().count()).max().unwrap_or(0);
            let lines: Vec<String> = of_section().flat_map(|finding| lines(finding, width)).collect();
            if !lines.is_empty() {
                text += &format!("{}\n{}\n\n", section.name(), lines.join("\n"));
            }
        }
        text + &self.summary()
    }

    /// Sums the report up in a line.
    fn summary(&self) -> String {
        let failing = self.problems().filter(|problem| problem.fails).count();
        let others = self.problems().count() - failing;
        let counted = |count: usize| if count == 1 { "1 problem".to_owned() } else { format!("{count} problems") };
        match (failing, others) {
            (0, 0) => "all is well".to_owned(),
            (0, others) => format!("what was asked for works; {} of less weight", counted(others)),
            (failing, 0) => format!("{}; what was asked for does not work", counted(failing)),
            (failing, others) => {
                format!("{}; what was asked for does not work; {} of less weight", counted(failing), counted(others))
            }
        }
    }

    /// An object for programs; its keys stay as they are.
    pub fn json(&self) -> Value {
        let finding = |finding: &Finding| {
            let problem = finding.problem.as_ref();
            json!({
                "section": finding.section.name(),
                "subject": finding.subject,
                "found": finding.found,
                "used": finding.used,
                "problem": problem.map(|problem| json!({ "remedy": problem.remedy, "fails": problem.fails })),
            })
        };
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "well": self.is_well(),
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
        })
    }
}

/// A finding as a line, and its remedy as another where something is wrong.
fn lines(finding: &Finding, width: usize) -> Vec<String> {
    let Finding { subject, found, used, problem, .. } = finding;
    let mark = if problem.is_some() { "!" } else { "" };
    let mut lines = vec![format!("{mark:<INDENT$}{subject:<width$}  {found} → {used}")];
    if let Some(problem) = problem {
        lines.push(format!("{:<INDENT$}{:<width$}  remedy: {}", "", "", problem.remedy));
    }
    lines
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn report() -> Report {
        Report {
            findings: vec![
                Finding::new(Section::Machine, "threads", "4", "the most that a launch is worth giving"),
                Finding::new(Section::Nvidia, "ptxas", "none there", "no code for GPUs")
                    .failing("unset FUSEWRIGHT_PTXAS"),
                Finding::new(Section::Cache, "folder", "cannot be made", "kernels are not kept")
                    .advising("name another"),
            ],
        }
    }

    #[test]
    fn people_see_sections_with_marks_and_remedies() {
        let shown = expect![[r#"
            machine
              threads  4 → the most that a launch is worth giving

            nvidia
            ! ptxas  none there → no code for GPUs
                     remedy: unset FUSEWRIGHT_PTXAS

            cache
            ! folder  cannot be made → kernels are not kept
                      remedy: name another

            1 problem; what was asked for does not work; 1 problem of less weight"#]];
        shown.assert_eq(&report().text());
        assert_eq!(Report { findings: Vec::new() }.text(), "all is well");
    }

    #[test]
    fn programs_see_the_same() {
        let json = report().json();
        assert_eq!(json["well"], false);
        assert_eq!(json["findings"][0]["problem"], Value::Null);
        assert_eq!(json["findings"][1]["problem"], json!({ "remedy": "unset FUSEWRIGHT_PTXAS", "fails": true }));
        assert_eq!(json["findings"][2]["problem"]["fails"], false);
        let of_first = json!({
            "section": "machine", "subject": "threads", "found": "4",
            "used": "the most that a launch is worth giving", "problem": null,
        });
        assert_eq!(json["findings"][0], of_first);
    }
}
