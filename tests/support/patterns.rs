//! `test patterns`: replaces what the patterns of the `; run:` lines find, after the default passes, and prints the graph
//! and what became of each pattern.

use fusewright::{Options, UserPatterns, fuse_graph};

use super::print::parse;
use super::{Case, Command, LineError, Outcome};

pub const COMMAND: Command = Command { name: "patterns", has_output: true, run };

fn run(case: &Case, _: &[String]) -> Outcome {
    let graph = parse(case)?.graph;
    let mut options = Options::default();
    let texts: Vec<&str> = case.runs.iter().map(|(_, text)| text.as_str()).collect();
    let line = case.runs.first().map_or(1, |(line, _)| *line);
    let patterns = UserPatterns::parse(&texts.join("\n")).map_err(|e| {
        let message = e.message.lines().next().unwrap_or_default().to_owned();
        vec![LineError::new(line + e.line - 1, message)]
    })?;
    options.pipeline.set_patterns(patterns);
    let fused = fuse_graph(&graph, &options).map_err(|e| vec![LineError::new(1, e.to_string())])?;
    let reports = fused.user_patterns.iter().map(|r| {
        let why = r.unmatched.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        format!("{} × {}{why}\n", r.times, r.name)
    });
    Ok(format!("{}{}", fused.graph, reports.collect::<String>()))
}
