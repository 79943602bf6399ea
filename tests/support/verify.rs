//! `test verify`: parses and verifies the graph. Violations of a node are on its line, those of outputs on the line of
//! `return`, all others on the first line.

use fusewright_graph::NodeId;
use fusewright_graph::verify::verify;

use super::print::parse;
use super::{Case, Command, LineError, Outcome};

pub const COMMAND: Command = Command { name: "verify", has_output: false, run };

fn run(case: &Case, _: &[String]) -> Outcome {
    let parsed = parse(case)?;
    let violations = verify(&parsed.graph).err().unwrap_or_default();
    if violations.is_empty() {
        return Ok(String::new());
    }
    let line = |node: Option<NodeId>, code: &str| match node {
        Some(NodeId(id)) => parsed.nodes[id as usize],
        None if matches!(code, "verify.output" | "verify.update") => parsed.outputs,
        None => parsed.header,
    };
    Err(violations.iter().map(|d| LineError::new(line(d.node, d.code), format!("{}: {}", d.code, d.message))).collect())
}
