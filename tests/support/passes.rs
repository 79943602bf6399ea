//! `test passes`: verifies the graph and prints it as the default passes leave it.

use fusewright::{Options, fuse_graph};
use fusewright_graph::verify::verify;

use super::print::parse;
use super::{Case, Command, LineError, Outcome};

pub const COMMAND: Command = Command { name: "passes", has_output: true, run };

fn run(case: &Case, _: &[String]) -> Outcome {
    let graph = parse(case)?.graph;
    if let Err(violations) = verify(&graph) {
        return Err(vec![LineError::new(1, &violations[0].message)]);
    }
    let fused = fuse_graph(&graph, &Options::default()).map_err(|e| vec![LineError::new(1, e.to_string())])?;
    Ok(fused.graph.to_string())
}
