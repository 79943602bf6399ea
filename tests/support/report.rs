//! Running a file's commands, comparing with what is expected, and writing what is.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::file::{Case, Invocation, TestFile, split_errors};
use super::{LineError, Outcome};

/// What came of a file.
pub struct Report {
    /// What is not as expected.
    pub failures: Vec<String>,
    /// Failures that blessing cannot mend.
    pub unblessable: Vec<String>,
    /// The file with expected outputs and errors as they are.
    pub blessed: String,
}

/// Lines of a file to replace.
type Edits = Vec<(Range<usize>, Vec<String>)>;

impl TestFile {
    /// Runs all commands on all cases.
    pub fn run(&self) -> Report {
        let mut report = Report { failures: Vec::new(), unblessable: Vec::new(), blessed: String::new() };
        let mut edits = Edits::new();
        for case in &self.cases {
            let outcomes: Vec<(&Invocation, Outcome)> =
                self.invocations.iter().map(|i| (i, (i.command.run)(case, &i.arguments))).collect();
            let place = |line: usize| format!("{}:{}", self.name, case.offset + line);
            self.compare_errors(case, &outcomes, &place, &mut report, &mut edits);
            compare_outputs(case, &outcomes, &place, &mut report, &mut edits);
        }
        report.blessed = apply(&self.lines, edits);
        report
    }

    fn compare_errors(
        &self,
        case: &Case,
        outcomes: &[(&Invocation, Outcome)],
        place: &dyn Fn(usize) -> String,
        report: &mut Report,
        edits: &mut Edits,
    ) {
        let actual: BTreeSet<&LineError> = outcomes.iter().filter_map(|(_, o)| o.as_ref().err()).flatten().collect();
        let mut missing: Vec<&(usize, String)> = case.errors.iter().collect();
        let mut right = true;
        for error in &actual {
            match missing.iter().position(|(line, text)| *line == error.line && error.message.contains(text)) {
                Some(i) => drop(missing.remove(i)),
                None => {
                    right = false;
                    report.failures.push(format!("{}: unexpected error: {}", place(error.line), error.message));
                }
            }
        }
        for (line, text) in &missing {
            report.failures.push(format!("{}: no such error: {text}", place(*line)));
        }
        if right && missing.is_empty() {
            return;
        }
        let mut lines: BTreeMap<usize, Vec<&str>> = case.errors.iter().map(|(line, _)| (*line, Vec::new())).collect();
        for error in actual {
            lines.entry(error.line).or_default().push(&error.message);
        }
        for (line, messages) in lines {
            let at = case.offset + line - 1;
            let mut text = split_errors(&self.lines[at]).0.trim_end().to_owned();
            messages.iter().for_each(|m| text += &format!("  ; error: {m}"));
            edits.push((at..at + 1, vec![text]));
        }
    }
}

fn compare_outputs(
    case: &Case,
    outcomes: &[(&Invocation, Outcome)],
    place: &dyn Fn(usize) -> String,
    report: &mut Report,
    edits: &mut Edits,
) {
    let outputs: Vec<(&Invocation, &String)> =
        outcomes.iter().filter_map(|(i, o)| o.as_ref().ok().map(|text| (*i, text))).collect();
    let unmatched = compare_checks(case, outputs.iter().map(|(_, text)| text.as_str()));
    if let Some(check) = unmatched {
        let all: String = outputs.iter().map(|(_, text)| text.as_str()).collect();
        let failure = format!("{}: no further line with `{check}` in\n{all}", place(1));
        report.unblessable.push(failure.clone());
        report.failures.push(failure);
    }
    let mut appended = Vec::new();
    for (invocation, actual) in &outputs {
        let block = || {
            let lines = actual.lines().map(|l| if l.is_empty() { ";".to_owned() } else { format!(";   {l}") });
            [format!("; {}:", invocation.text)].into_iter().chain(lines).collect::<Vec<_>>()
        };
        match case.outputs.get(&invocation.text) {
            Some((_, expected)) if expected == *actual => {}
            Some((range, expected)) => {
                let difference = difference(expected, actual);
                report.failures.push(format!("{}: `{}` prints\n{difference}", place(1), invocation.text));
                edits.push((range.clone(), block()));
            }
            None if invocation.command.has_output && case.checks.is_empty() => {
                let failure = format!("{}: no expected output of `{}`", place(1), invocation.text);
                report.failures.push(failure);
                appended.extend(block());
            }
            None => {}
        }
    }
    // An output expected of a command that reports errors instead is stale.
    for (text, (range, _)) in &case.outputs {
        if outputs.iter().all(|(i, _)| i.text != *text) {
            report.failures.push(format!("{}: `{text}` has errors and prints nothing", place(1)));
            edits.push((range.clone(), Vec::new()));
        }
    }
    if !appended.is_empty() {
        edits.push((case.code_end..case.code_end, appended));
    }
}

/// The first check that no line matches after the line of the check before it.
fn compare_checks<'a>(case: &Case, outputs: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut lines = outputs.flat_map(str::lines);
    case.checks.iter().find(|check| !lines.any(|line| line.contains(check.as_str()))).cloned()
}

/// Both texts line by line; `-` was expected, `+` is there.
fn difference(expected: &str, actual: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (expected.lines().collect(), actual.lines().collect());
    let same_start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - same_start;
    let same_end = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let mut text = String::new();
    let mut push = |mark: char, lines: &[&str]| lines.iter().for_each(|l| text += &format!("{mark}{l}\n"));
    push(' ', &old[..same_start]);
    push('-', &old[same_start..old.len() - same_end]);
    push('+', &new[same_start..new.len() - same_end]);
    push(' ', &old[old.len() - same_end..]);
    text
}

fn apply(lines: &[String], mut edits: Edits) -> String {
    let mut lines = lines.to_vec();
    edits.sort_by_key(|(range, _)| std::cmp::Reverse((range.start, range.end)));
    for (range, replacement) in edits {
        lines.splice(range, replacement);
    }
    lines.join("\n") + "\n"
}
