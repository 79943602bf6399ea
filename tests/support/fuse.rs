//! `test fuse`: the kernels that the graph becomes, what is left out and why, and whether every way to run it gives the
//! same bits.

use std::fmt::Write;

use fusewright::diff::Verdict;
use fusewright::inputs::{DEFAULT_SEED, Sizes};
use fusewright::model::check_runnable;
use fusewright::text_tool::diff_graph;
use fusewright::{Options, Target, fuse_graph};
use fusewright_fusion::region::Refusal;
use fusewright_graph::verify::verify;

use super::print::parse;
use super::{Case, Command, LineError, Outcome};

pub const COMMAND: Command = Command { name: "fuse", has_output: true, run };

fn run(case: &Case, _: &[String]) -> Outcome {
    let graph = parse(case)?.graph;
    if let Err(violations) = verify(&graph) {
        return Err(vec![LineError::new(1, &violations[0].message)]);
    }
    let failed = |error: fusewright::Error| vec![LineError::new(1, error.to_string())];
    let partition = fuse_graph(&graph, &Options::default()).map_err(failed)?;
    let mut text = String::new();
    for region in &partition.partition.regions {
        let ops: Vec<&str> = region.body.nodes().iter().map(|node| node.op.name()).collect();
        writeln!(text, "kernel {}: {}", region.name, ops.join(" ")).expect("a string takes all");
        for end in region.ends.iter().filter(|end| end.refusal == Refusal::TooCostly) {
            let op = partition.graph.node(end.node).op.name();
            writeln!(text, "  ends at {op}: {}", end.refusal).expect("a string takes all");
        }
    }
    for unfused in &partition.partition.unfused {
        let op = partition.graph.node(unfused.node).op.name();
        writeln!(text, "not fused, {op}: {}", unfused.refusal).expect("a string takes all");
    }
    if let Err(error) = check_runnable(&graph) {
        error.to_string().lines().for_each(|line| writeln!(text, "{line}").expect("a string takes all"));
        return Ok(text);
    }
    let compared = diff_graph(&graph, &Target::Cpu, &Sizes::default(), DEFAULT_SEED).map_err(failed)?;
    match compared.verdict {
        Verdict::Differ(difference) => return Err(vec![LineError::new(1, difference.to_string())]),
        Verdict::Equal(agreement) => {
            agreement.fallbacks.iter().for_each(|f| writeln!(text, "by reference: {f}").expect("a string takes all"));
        }
    }
    text += "equal\n";
    Ok(text)
}
