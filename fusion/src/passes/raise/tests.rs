//! Every composite is recognised from its expansion; no near twin is.

use fusewright_graph::ops::LIST;
use fusewright_graph::prim::Literal;
use fusewright_graph::{Builder, DType, Dim, NanRule, Node, Op, Prim, ReduceOp, Rounding, ScalarFn, TensorType};

use super::*;
use crate::passes::{cse, dce};
use crate::samples::{self, TINY};

/// Every variant of every composite with the types of its sample operands.
fn bodies() -> Vec<(Composite, Graph)> {
    let mut all = Vec::new();
    for spec in LIST {
        for composite in (spec.variants)() {
            for dtype in [DType::F32, DType::BF16, DType::F16] {
                let types = (spec.operands)(dtype);
                let body = composite.body(&types.iter().collect::<Vec<_>>()).expect("sample operands fit");
                all.push((composite.clone(), cse(&body).expect("merges").0));
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

/// The graph with one node replaced.
fn with_node(graph: &Graph, at: NodeId, op: Op, operands: &[usize]) -> Option<Graph> {
    graph
        .rebuild(|b: &Builder, id, node: &Node, values: &[Value]| {
            if id != at {
                return b.op(node.op.clone(), values).map_err(|_| ());
            }
            let chosen: Vec<Value> = operands.iter().map(|&i| values[i]).collect();
            b.op(op.clone(), &chosen).map_err(|_| ())
        })
        .ok()
}

/// Ops that differ from a node's in one thing, with the order of its operands.
fn twins(graph: &Graph, node: &Node) -> Vec<(Op, Vec<usize>)> {
    let same: Vec<usize> = (0..node.operands.len()).collect();
    let reversed: Vec<usize> = same.iter().rev().copied().collect();
    let Op::Prim(prim) = &node.op else { return Vec::new() };
    let mut out: Vec<(Prim, Vec<usize>)> = Vec::new();
    match prim {
        Prim::Literal(Literal::Float(dtype, v)) => {
            for other in [-v, v * 2.0, v + 1.0, 0.0] {
                out.push((Prim::Literal(Literal::Float(*dtype, other)), same.clone()));
            }
        }
        Prim::Map(f) => {
            let others = ScalarFn::ALL.iter().filter(|g| g.arity() == f.arity() && *g != f);
            out.extend(others.map(|&g| (Prim::Map(g), same.clone())));
            if !f.spec().commutative && f.arity() == 2 {
                out.push((prim.clone(), reversed));
            }
        }
        Prim::Cast { to, round, saturate } => {
            for round in Rounding::ALL.into_iter().filter(|r| r != round) {
                out.push((Prim::Cast { to: *to, round, saturate: *saturate }, same.clone()));
            }
            out.push((Prim::Cast { to: *to, round: *round, saturate: !saturate }, same.clone()));
            for to in [DType::F64, DType::F32, DType::BF16, DType::F16, DType::F8E5M2] {
                out.push((Prim::Cast { to, round: *round, saturate: *saturate }, same.clone()));
            }
        }
        Prim::Reduce { op, axes, nan } => {
            for other in ReduceOp::ALL.into_iter().filter(|o| o != op) {
                out.push((Prim::Reduce { op: other, axes: axes.clone(), nan: *nan }, same.clone()));
            }
            out.push((Prim::Reduce { op: *op, axes: vec![0], nan: *nan }, same.clone()));
            out.push((Prim::Reduce { op: *op, axes: axes.clone(), nan: NanRule::Ignore }, same.clone()));
        }
        Prim::Slice { axis, start, end, step } => {
            let one = Dim::constant(1);
            let moved = [(start + &one, end + &one), (&Dim::constant(0) + start, end.clone())];
            for (start, end) in moved {
                out.push((Prim::Slice { axis: *axis, start, end, step: *step }, same.clone()));
            }
            let from = &graph.ty(node.operands[0]).shape[*axis];
            out.push((Prim::Slice { axis: *axis, start: from - &(end - start), end: from.clone(), step: 1 }, same));
        }
        Prim::Cat { .. } => out.push((prim.clone(), reversed)),
        _ => {}
    }
    out.retain(|(other, order)| other != prim || order.iter().copied().ne(0..node.operands.len()));
    out.into_iter().map(|(prim, order)| (Op::Prim(prim), order)).collect()
}

#[test]
fn no_near_twin_is_raised_as_the_composite() {
    let mut tried = 0;
    for (composite, body) in bodies() {
        let body = flat(&body);
        for id in body.node_ids() {
            for (op, operands) in twins(&body, body.node(id)) {
                let Some(twin) = with_node(&body, id, op.clone(), &operands) else { continue };
                let twin = flat(&twin);
                if same_function(&twin, &body) {
                    continue;
                }
                tried += 1;
                let graph = raised(&twin);
                assert!(same_function(&flat(&graph), &twin), "{composite:?} with {op:?}: another function");
                let inputs: Vec<Value> = graph.inputs().iter().map(|i| i.value).collect();
                let is_it = |n: &Node| n.op == Op::Composite(composite.clone()) && n.operands == inputs;
                assert!(!graph.nodes().iter().any(is_it), "{composite:?} with {op:?} is a twin");
            }
        }
    }
    assert!(tried > 1000, "{tried} twins");
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
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].attrs().text("eps"), Ok("0.001"));
    assert!(out.nodes().len() > 5, "the norm without its weight is returned");
    assert!(same_function(&flat(&out), &graph));
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
