//! Mutated texts of graphs and kernels.

use fusewright_abi::Target;
use fusewright_codegen::kernel::{parse_kernels, verify};
use fusewright_codegen::lower::lower;
use fusewright_codegen::schedule::Schedule;
use fusewright_graph::text::parse_graphs;
use fusewright_graph::{DType, Graph, TensorType, ops};

use crate::{Reader, mutate, pipeline};

/// A graph of every composite in every variant, over 16-bit and 32-bit activations, as composite and as primitives.
fn graphs() -> Vec<Graph> {
    let mut graphs = Vec::new();
    for spec in ops::LIST {
        for dtype in [DType::BF16, DType::F32] {
            for types in spec.samples(dtype) {
                let types: Vec<&TensorType> = types.iter().collect();
                for variant in (spec.variants)() {
                    let body = variant.body(&types).expect("a variant fits its own operands");
                    graphs.push(body.expanded().expect("the body is well-typed"));
                    graphs.push(body);
                }
            }
        }
    }
    assert!(graphs.len() > 20, "the list of composites is not empty");
    graphs
}

/// The reader of graphs.
pub const GRAPHS: Reader = Reader { name: "graph", ending: "fw", read: read_graphs };
/// The reader of kernels.
pub const KERNELS: Reader = Reader { name: "kernel", ending: "fw", read: read_kernels };

fn read_graphs(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let Ok(parsed) = parse_graphs(text) else { return false };
    parsed.iter().for_each(|parsed| pipeline::graph(&parsed.graph));
    true
}

fn read_kernels(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let Ok(kernels) = parse_kernels(text) else { return false };
    for kernel in &kernels {
        let again = parse_kernels(&kernel.to_string()).expect("what is printed parses");
        assert_eq!(again.as_slice(), std::slice::from_ref(kernel), "the printed kernel is another one");
    }
    kernels.iter().all(|kernel| verify(kernel).is_ok())
}

#[test]
fn graph_texts() {
    let texts: Vec<String> = graphs().iter().map(ToString::to_string).collect();
    GRAPHS.run(6000, |random| mutate::text(random, &texts));
}

#[test]
fn kernel_texts() {
    let lowered = graphs().into_iter().filter_map(|graph| {
        let body = graph.expanded().expect("the body is well-typed");
        lower("k", &body, &Schedule::of(&Target::Cpu)).ok()
    });
    let texts: Vec<String> = lowered.map(|kernel| kernel.to_string()).collect();
    assert!(texts.len() > 10, "composites lower to kernels");
    KERNELS.run(6000, |random| mutate::text(random, &texts));
}
