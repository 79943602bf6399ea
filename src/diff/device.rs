//! A graph on a device that is not the host.

use fusewright_abi::Target;
use fusewright_graph::Graph;

use super::chain::Chain;
use super::{Agreement, Case, Difference, inside, options, run, same};
use crate::{Compiler, compile};

/// The program of a target in every case: against its kernels in the interpreter where it has nothing else, and what they
/// may give.
pub(super) fn agree(graph: &Graph, target: &Target, cases: &[Case<'_>]) -> Result<Agreement, Difference> {
    let failed = |e| Difference::new("compiling fails", format!("{target}: {e}"));
    let compiled = compile(graph, target, &options()).map_err(failed)?;
    let compiler = Compiler::new(target).map_err(failed)?;
    let fused = compiled.fused.partition.regions.iter().filter(|r| r.nodes.len() > 1).count();
    let fallbacks = compiled.fallbacks.iter().map(|f| format!("{}: {}", f.label, f.reason)).collect();
    let mut agreement = Agreement { fused, fallbacks, ..Agreement::default() };
    for (symbols, inputs, ranges) in cases {
        let here = |found: Difference| found.of(target);
        let got = run(&compiled, inputs, 1, symbols).map_err(here)?;
        // A library on the device sums in an order of its own.
        if agreement.fallbacks.is_empty() && compiled.program.counts().matmuls == 0 {
            let chain = Chain::of(&compiled.fused, &compiler, symbols)?;
            same("device code is not its kernel", symbols, &got, &chain.run(inputs)?).map_err(here)?;
        }
        inside("outside its interval", symbols, &got, ranges, &mut agreement).map_err(here)?;
    }
    Ok(agreement)
}
