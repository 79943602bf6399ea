//! Reading a test file: `test` lines, cases and what their comments expect. Lines of a case count from 1.

use std::collections::BTreeMap;
use std::ops::Range;

use super::{COMMANDS, Command};

/// Words that begin a case at the start of a line.
pub const KEYWORDS: [&str; 3] = ["graph", "kernel", "rule"];

/// A file of cases.
pub struct TestFile {
    /// Name in messages.
    pub name: String,
    /// All lines.
    pub lines: Vec<String>,
    /// The `test` lines.
    pub invocations: Vec<Invocation>,
    /// The cases.
    pub cases: Vec<Case>,
}

/// A `test` line.
pub struct Invocation {
    /// The line without `test`.
    pub text: String,
    /// What it calls.
    pub command: &'static Command,
    /// Words after the command's name.
    pub arguments: Vec<String>,
}

/// One case.
pub struct Case {
    /// Lines of the file before the case.
    pub offset: usize,
    /// Its text, comments included.
    pub source: String,
    /// `; check:` texts in order.
    pub checks: Vec<String>,
    /// `; run:` texts with their lines.
    pub runs: Vec<(usize, String)>,
    /// `; error:` texts with their lines.
    pub errors: Vec<(usize, String)>,
    /// Whole outputs by the text of the `test` line, with the lines they take in the file, from 0.
    pub outputs: BTreeMap<String, (Range<usize>, String)>,
    /// Line of the file after the last one of code or `; run:`, from 0.
    pub code_end: usize,
}

impl TestFile {
    /// Reads a file.
    pub fn parse(name: &str, text: &str) -> Result<TestFile, String> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let starts: Vec<usize> = (0..lines.len()).filter(|&i| begins_case(&lines[i])).collect();
        let first = *starts.first().ok_or_else(|| format!("{name}: no case"))?;
        let mut invocations = Vec::new();
        for (i, line) in lines[..first].iter().enumerate() {
            if line.trim().is_empty() || line.starts_with(';') {
                continue;
            }
            let parsed = line.strip_prefix("test ").ok_or_else(|| "expected `test COMMAND`".to_owned());
            let invocation = parsed.and_then(Invocation::parse);
            invocations.push(invocation.map_err(|e| format!("{name}:{}: {e}", i + 1))?);
        }
        if invocations.is_empty() {
            return Err(format!("{name}: no `test` line"));
        }
        let ends = starts.iter().skip(1).copied().chain([lines.len()]);
        let cases = starts.iter().copied().zip(ends).map(|(start, end)| Case::parse(&lines, start..end, &invocations));
        Ok(TestFile { name: name.to_owned(), cases: cases.collect(), invocations, lines })
    }
}

impl Invocation {
    fn parse(text: &str) -> Result<Invocation, String> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let word = words.next().unwrap_or_default();
        let known = || COMMANDS.iter().map(|c| c.name).collect::<Vec<_>>().join(", ");
        let found = COMMANDS.iter().find(|c| c.name == word);
        let command = found.ok_or_else(|| format!("no command `{word}`; there are {}", known()))?;
        Ok(Invocation { text: text.trim().to_owned(), command, arguments: words.collect() })
    }
}

impl Case {
    fn parse(lines: &[String], range: Range<usize>, invocations: &[Invocation]) -> Case {
        let mut case = Case {
            offset: range.start,
            source: lines[range.clone()].join("\n") + "\n",
            checks: Vec::new(),
            runs: Vec::new(),
            errors: Vec::new(),
            outputs: BTreeMap::new(),
            code_end: range.start + 1,
        };
        let mut at = range.start;
        while at < range.end {
            let line = &lines[at];
            at += 1;
            let inside = at - range.start;
            if let Some(text) = line.strip_prefix("; check:") {
                case.checks.push(text.trim().to_owned());
            } else if let Some(text) = line.strip_prefix("; run:") {
                let (given, errors) = split_errors(text);
                case.runs.push((inside, given.trim().to_owned()));
                case.errors.extend(errors.into_iter().map(|e| (inside, e)));
                case.code_end = at;
            } else if let Some(invocation) = invocations.iter().find(|i| *line == format!("; {}:", i.text)) {
                let start = at - 1;
                let mut output = String::new();
                while at < range.end && (lines[at] == ";" || lines[at].starts_with(";   ")) {
                    output += lines[at].get(4..).unwrap_or_default();
                    output += "\n";
                    at += 1;
                }
                case.outputs.insert(invocation.text.clone(), (start..at, output));
            } else {
                let (code, errors) = split_errors(line);
                case.errors.extend(errors.into_iter().map(|e| (inside, e)));
                if !code.trim().is_empty() && !code.starts_with(';') {
                    case.code_end = at;
                }
            }
        }
        case
    }
}

fn begins_case(line: &str) -> bool {
    KEYWORDS.iter().any(|word| line.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '@'])))
}

/// A line without its `; error:` comments, and their texts.
pub fn split_errors(line: &str) -> (&str, Vec<String>) {
    let mut parts = line.split("; error:");
    let code = parts.next().unwrap_or_default();
    (code, parts.map(|p| p.trim().to_owned()).collect())
}
