//! No near twin of a composite is raised as the composite.
//!
//! Of the expansion of every variant, in every dtype, twins are generated: one constant, one function, the order of
//! operands, one operand, one axis, one bound of a slice or one rounding differs. A twin may be raised as the composite
//! with the same attributes and operands only if it is the same function, which is decided by evaluating both; whatever
//! it is raised as must compute what the twin computes.

use fusewright_fusion::passes::raise::raise;
use fusewright_fusion::passes::{cse, dce};
use fusewright_graph::interp::{Symbols, run};
use fusewright_graph::operands::{Values, tensors};
use fusewright_graph::ops::{Composite, LIST};
use fusewright_graph::{
    Builder, DType, Dim, Graph, Literal, NanRule, Node, NodeId, Op, Prim, ReduceOp, Rounding, ScalarFn, Tensor, Value,
};

/// Value of every symbol.
const ROWS: i64 = 3;

/// The graph in primitives, equal and unused nodes gone.
fn flat(graph: &Graph) -> Graph {
    dce(&cse(&graph.expanded().expect("expands")).expect("merges").0).0
}

/// Every variant of every composite in primitives.
fn bodies() -> Vec<(Composite, Graph)> {
    let mut all = Vec::new();
    for composite in LIST.iter().flat_map(|spec| (spec.variants)()) {
        for dtype in [DType::F32, DType::BF16] {
            for types in composite.spec().samples(dtype) {
                let body = composite.body(&types.iter().collect::<Vec<_>>()).expect("sample operands fit");
                all.push((composite.clone(), flat(&body)));
            }
        }
    }
    assert!(all.len() >= 2 * LIST.len());
    all
}

/// The results on edge values, random codes and ordinary numbers.
fn results(graph: &Graph) -> Vec<Vec<Tensor>> {
    let value =
        |values| run(graph, &tensors(graph, ROWS, values), &Symbols::new()).unwrap_or_else(|e| panic!("{e}\n{graph}"));
    [Values::Edges, Values::Codes, Values::Positive].map(value).to_vec()
}

/// The graph with one node replaced.
fn with_node(graph: &Graph, at: NodeId, op: &Op, operands: &[Value]) -> Option<Graph> {
    let mut map: Vec<(Value, Value)> = Vec::new();
    let inputs = graph.inputs().iter().map(|input| input.value).collect::<Vec<_>>();
    graph
        .rebuild(|b: &Builder, id, node: &Node, values: &[Value]| {
            // Inputs keep their numbers.
            let new =
                |v: &Value| map.iter().find(|(old, _)| old == v).map(|(_, new)| *new).filter(|_| !inputs.contains(v));
            let results = if id == at {
                let chosen: Vec<Value> = operands.iter().map(|v| new(v).unwrap_or(*v)).collect();
                b.op(op.clone(), &chosen)
            } else {
                b.op(node.op.clone(), values)
            };
            let results = results.map_err(|_| ())?;
            map.extend(node.results.iter().copied().zip(results.iter().copied()));
            Ok::<_, ()>(results)
        })
        .ok()
}

/// Ops that differ from a node's in one thing.
fn other_ops(graph: &Graph, node: &Node) -> Vec<Prim> {
    let Op::Prim(prim) = &node.op else { return Vec::new() };
    let rank = node.operands.first().map_or(0, |&v| graph.ty(v).rank());
    match prim {
        Prim::Literal(Literal::Float(dtype, v)) => {
            [-v, v * 2.0, v + 1.0, 0.0].map(|other| Prim::Literal(Literal::Float(*dtype, other))).to_vec()
        }
        Prim::Map(f) => ScalarFn::ALL.iter().filter(|g| g.arity() == f.arity()).map(|&g| Prim::Map(g)).collect(),
        Prim::Cast { to, round, saturate } => {
            let rounds = Rounding::ALL.map(|round| Prim::Cast { to: *to, round, saturate: *saturate });
            let types = [DType::F64, DType::F32, DType::BF16, DType::F16, DType::F8E5M2, DType::I16];
            let types = types.map(|to| Prim::Cast { to, round: *round, saturate: *saturate });
            let turned = Prim::Cast { to: *to, round: *round, saturate: !saturate };
            [&rounds[..], &types[..], &[turned]].concat()
        }
        Prim::Reduce { op, axes, nan } => {
            let ops = ReduceOp::ALL.map(|op| Prim::Reduce { op, axes: axes.clone(), nan: *nan });
            let every = (0..rank).map(|axis| vec![axis]).chain([(0..rank).collect()]);
            let axes_of = every.map(|axes| Prim::Reduce { op: *op, axes, nan: *nan });
            let ignoring = Prim::Reduce { op: *op, axes: axes.clone(), nan: NanRule::Ignore };
            ops.into_iter().chain(axes_of).chain([ignoring]).collect()
        }
        Prim::Slice { axis, start, end, step } => {
            let one = Dim::constant(1);
            let from = &graph.ty(node.operands[0]).shape[*axis];
            let length = end - start;
            let cut = |start: Dim, end: Dim, step| Prim::Slice { axis: *axis, start, end, step };
            let moved = [cut(start + &one, end + &one, *step), cut(start - &one, end - &one, *step)];
            let edges = [cut(Dim::constant(0), length.clone(), *step), cut(from - &length, from.clone(), *step)];
            let steps = [cut(Dim::constant(0), from.clone(), 2), cut(one, from.clone(), 2)];
            [moved, edges, steps].concat()
        }
        Prim::Cat { .. } => (0..rank).map(|axis| Prim::Cat { axis }).collect(),
        _ => Vec::new(),
    }
}

/// The graph with one node changed, for every node and every change.
fn twins(graph: &Graph) -> Vec<(String, Graph)> {
    let mut all = Vec::new();
    for id in graph.node_ids() {
        let node = graph.node(id);
        let mut changes: Vec<(Op, Vec<Value>)> =
            other_ops(graph, node).into_iter().map(|prim| (Op::Prim(prim), node.operands.clone())).collect();
        changes.push((node.op.clone(), node.operands.iter().rev().copied().collect()));
        // Another value of the same type in place of an operand.
        let earlier = (0..graph.value_count() as u32).map(Value).filter(|v| *v < node.results[0]);
        for value in earlier {
            for i in (0..node.operands.len()).filter(|&i| graph.ty(node.operands[i]) == graph.ty(value)) {
                let mut operands = node.operands.clone();
                operands[i] = value;
                changes.push((node.op.clone(), operands));
            }
        }
        changes.retain(|(op, operands)| *op != node.op || *operands != node.operands);
        for (op, operands) in changes {
            if let Some(twin) = with_node(graph, id, &op, &operands) {
                all.push((
                    format!("{op:?} of {operands:?} in place of {:?} of {:?}", node.op, node.operands),
                    flat(&twin),
                ));
            }
        }
    }
    all
}

#[test]
fn no_near_twin_is_raised_as_the_composite() {
    let (mut tried, mut same) = (0, 0);
    for (composite, body) in bodies() {
        let expected = results(&body);
        let inputs: Vec<Value> = body.inputs().iter().map(|i| i.value).collect();
        let is_it = |n: &Node| n.op == Op::Composite(composite.clone()) && n.operands == inputs;
        for (what, twin) in twins(&body) {
            tried += 1;
            let (raised, outcome) = raise(&twin).expect("raises");
            if outcome.changed == 0 {
                continue;
            }
            let computed = results(&twin);
            assert_eq!(results(&raised), computed, "{composite:?} with {what}: another function\n{twin}\n{raised}");
            if raised.nodes().iter().any(is_it) && twin.outputs().len() == raised.outputs().len() {
                let all = raised.nodes().len() == 1;
                assert!(!all || computed == expected, "{composite:?} with {what} is a twin\n{twin}");
                same += usize::from(all);
            }
        }
    }
    assert!(tried > 3000, "{tried} twins");
    // Some changes change nothing: the rounding of a cast that widens, or a zero that is added.
    assert!(same > 0 && same * 20 < tried, "{same} of {tried} twins are the same function");
}
