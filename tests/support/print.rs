//! `test print [types]`: parses the graph, prints it, and requires that the printed text is the same graph.

use fusewright_graph::Graph;
use fusewright_graph::text::{ParsedGraph, PrintOptions, parse_graphs, print_graph};

use super::{Case, Command, LineError, Outcome};

pub const COMMAND: Command = Command { name: "print", has_output: true, run };

fn run(case: &Case, arguments: &[String]) -> Outcome {
    let graph = parse(case)?.graph;
    let types = arguments.iter().any(|a| a == "types");
    let text = print_graph(&graph, PrintOptions { types, hide_origins: false });
    match text.parse::<Graph>() {
        Ok(again) if again.same_as(&graph) => Ok(text),
        Ok(_) => Err(vec![LineError::new(1, "the printed text is another graph")]),
        Err(error) => Err(vec![LineError::new(1, format!("the printed text does not parse: {}", error.message))]),
    }
}

/// The case's only graph.
pub fn parse(case: &Case) -> Result<ParsedGraph, Vec<LineError>> {
    let mut graphs = parse_graphs(&case.source).map_err(|e| vec![LineError::new(e.line, e.message)])?;
    match graphs.pop() {
        Some(graph) if graphs.is_empty() => Ok(graph),
        _ => Err(vec![LineError::new(1, "a case is one graph")]),
    }
}
