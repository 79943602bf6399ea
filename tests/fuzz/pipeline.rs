//! What must hold of every graph that a reader accepts, all the way to kernels.

use fusewright_abi::Target;
use fusewright_codegen::kernel::{parse_kernels, verify};
use fusewright_codegen::lower::lower;
use fusewright_codegen::schedule::Schedule;
use fusewright_fusion::{Cx, Limits, PassManager, explain, partition, pass};
use fusewright_graph::{Graph, verify as graph_verify};

/// Prints and parses `graph`; if it is valid, runs the passes, divides it into regions and lowers those.
pub fn graph(graph: &Graph) {
    let text = graph.to_string();
    let again: Graph = text.parse().unwrap_or_else(|e| panic!("what is printed parses: {e}\n{text}"));
    assert!(again.same_as(graph), "the printed graph is another one:\n{text}");
    if graph_verify::verify(graph).is_err() {
        return;
    }
    let passes = PassManager::default();
    let run = passes.run(graph, &mut Cx::default(), &mut [&mut pass::Verify]);
    let (graph, reports) = run.unwrap_or_else(|e| panic!("the passes take valid graphs: {e}\n{text}"));
    graph_verify::verify(&graph).unwrap_or_else(|e| panic!("the passes keep graphs valid: {e:?}\n{text}\n{graph}"));
    let partition = partition(&graph, &Limits::default());
    explain(&graph, &partition, &reports).unwrap_or_else(|e| panic!("every partition can be explained: {e}\n{text}"));
    for region in &partition.regions {
        let body = region.body.expanded().unwrap_or_else(|e| panic!("a region's body is valid: {e}\n{text}"));
        let Ok(kernel) = lower("k", &body, &Schedule::of(&Target::Cpu)) else { continue };
        verify(&kernel).unwrap_or_else(|e| panic!("lowering makes valid kernels: {e}\n{text}"));
        let printed = parse_kernels(&kernel.to_string()).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
        assert_eq!(printed.as_slice(), std::slice::from_ref(&kernel), "the printed kernel is another one");
    }
}
