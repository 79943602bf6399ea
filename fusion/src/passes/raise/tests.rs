//! Every composite is recognised from its expansion.

use fusewright_graph::ops::LIST;
use fusewright_graph::{Builder, DType, Dim, Op, ScalarFn, TensorType};

use super::*;
use crate::pass::PassManager;
use crate::passes::{cse, dce};
use crate::samples::{self, TINY};

/// Every variant of every composite with the types of its sample operands.
fn bodies() -> Vec<(Composite, Graph)> {
    let mut all = Vec::new();
    for spec in LIST {
        for composite in (spec.variants)() {
            for dtype in [DType::F32, DType::BF16, DType::F16] {
                for types in spec.samples(dtype) {
                    let body = composite.body(&types.iter().collect::<Vec<_>>()).expect("sample operands fit");
                    all.push((composite.clone(), cse(&body).expect("merges").0));
                }
            }
        }
    }
    assert!(all.len() >= 3 * LIST.len());
    all
}

fn raised(graph: &Graph) -> Graph {
    raise(graph).expect("raises").0
}

fn composites(graph: &Graph) -> Vec<&Composite> {
    let ops = graph.nodes().iter().map(|node| &node.op);
    ops.filter_map(|op| if let Op::Composite(c) = op { Some(c) } else { None }).collect()
}

/// The graph in primitives, equal and unused nodes gone.
fn flat(graph: &Graph) -> Graph {
    dce(&cse(&graph.expanded().expect("expands")).expect("merges").0).0
}

#[test]
fn every_expansion_is_raised() {
    for (composite, body) in bodies() {
        for graph in [body.clone(), flat(&body)] {
            let out = raised(&graph);
            // Variants that differ in roundings alone are one function in f32.
            let names: Vec<&str> = composites(&out).iter().map(|c| c.name()).collect();
            assert_eq!(names, [composite.name()], "{composite:?}");
            assert_eq!(out.nodes().len(), 1, "{composite:?}");
            assert!(same_function(&flat(&out), &flat(&graph)), "{composite:?}");
        }
    }
}

#[test]
fn what_others_read_stays() {
    let b = Builder::new("g");
    let lanes = Dim::constant(64);
    let x = b.input("x", TensorType::new(DType::BF16, [Dim::symbol("s"), lanes.clone()]));
    let w = b.input("w", TensorType::new(DType::BF16, [lanes]));
    let x32 = b.cast(x, DType::F32).expect("cast");
    let mean = b.mean_last(b.mul(x32, x32).expect("mul")).expect("mean");
    let eps = b.float(DType::F32, f64::from(1e-3f32)).expect("eps");
    let r = b.map(ScalarFn::Rsqrt, &[b.add(eps, mean).expect("add")]).expect("rsqrt");
    let normal = b.cast(b.mul(r, x32).expect("mul"), DType::BF16).expect("cast");
    b.output(b.mul(normal, w).expect("mul"));
    b.output(normal);
    let graph = b.finish();
    let out = raised(&graph);
    let found = composites(&out);
    assert_eq!(found.len(), 2, "the norm without its weight is returned");
    let operands: Vec<usize> = out.nodes().iter().map(|node| node.operands.len()).collect();
    assert_eq!(operands, [1, 2]);
    assert!(found.iter().all(|c| c.attrs().text("eps") == Ok("0.001")));
    assert!(same_function(&flat(&out), &graph));
}

#[test]
fn a_rotation_of_the_first_lanes_is_raised() {
    let text = "graph @p(s: 1..; %x: bf16[s, 3, 24], %cos: bf16[s, 1, 16], %sin: bf16[s, 1, 16]) {
        %r = slice %x {axis = 2, start = AT, end = 16 + AT}
        %a = slice %r {axis = 2, start = 0, end = 8}
        %b = slice %r {axis = 2, start = 8, end = 16}
        %n = neg %b
        %t = cat %n, %a {axis = 2}
        %p = mul %r, %cos
        %q = mul %t, %sin
        %y = add %p, %q
        return %y
      }";
    for at in [0, 8] {
        let text = text.replace("16 + AT", &(16 + at).to_string()).replace("AT", &at.to_string());
        let graph: Graph = text.parse().expect("a graph");
        // Rewriting makes slices of `x` of the slices of `%r`.
        let (found, _) = PassManager::default().run(&graph, &mut Cx::default(), &mut []).expect("runs");
        let names: Vec<&str> = composites(&found).iter().map(|c| c.name()).collect();
        assert_eq!(names, ["rope_neox"], "{found}");
    }
}

#[test]
fn halves_of_one_tensor_between_unlike_bounds_are_no_clamped_gate() {
    let gate = |low: &str| {
        let text = format!(
            "graph @gate(s: 1..; %x: bf16[s, 128]) {{
               %g = slice %x {{axis = 1, start = 0, end = 64}}
               %u = slice %x {{axis = 1, start = 64, end = 128}}
               %limit = literal bf16 7.0
               %low = literal bf16 {low}
               %b = min %g, %limit
               %a = silu %b {{form = quotient}}
               %c = max %u, %low
               %d = min %c, %limit
               %y = mul %a, %d
               return %y
             }}"
        );
        text.parse::<Graph>().unwrap_or_else(|e| panic!("{e}\n{text}"))
    };
    let names = |graph: &Graph| composites(graph).iter().map(|c| c.name()).collect::<Vec<_>>();
    assert_eq!(names(&raised(&gate("-7.0"))), ["clamped_swiglu"]);
    for low in ["-15.0", "7.0"] {
        assert_eq!(names(&raised(&gate(low))), ["silu"], "{low}");
    }
}

#[test]
fn both_forms_of_a_layer_hold_the_same_composites() {
    let count = |core: bool| {
        let graph = samples::qwen3_layer(core, &TINY).expect("types");
        let out = raised(&graph);
        assert!(same_function(&flat(&out), &flat(&graph)));
        let mut counts: BTreeMap<&'static str, usize> = BTreeMap::new();
        composites(&out).iter().for_each(|c| *counts.entry(c.name()).or_default() += 1);
        counts
    };
    let (train, core) = (count(false), count(true));
    assert_eq!(train, BTreeMap::from([("rms_norm", 4), ("rope_neox", 2), ("silu", 1)]));
    // The core form takes attention apart, so it may hold more.
    assert!(train.iter().all(|(name, n)| core.get(name) == Some(n)), "{core:?}");
}
