//! Why nodes do not share a kernel: for each reason a graph in which it fires, and one near it in which it does not.

use std::collections::BTreeSet;

use fusewright_graph::DType::{F32, I64};
use fusewright_graph::prim::Sdpa;
use fusewright_graph::{AllReduce, Graph, NanRule, Op, Prim, ReduceOp, ScalarFn, Value};

use crate::region::{Costs, Keeps, Limits, Refusal, partition};
use crate::samples::{Built, Sample};

/// The reasons of what a graph leaves out of regions or at their ends.
fn refusals(build: impl FnOnce(&Sample) -> Built<Vec<Value>>) -> BTreeSet<Refusal> {
    refusals_within(&Limits::default(), build)
}

fn refusals_within(limits: &Limits, build: impl FnOnce(&Sample) -> Built<Vec<Value>>) -> BTreeSet<Refusal> {
    let g = Sample::new(false);
    let outputs = build(&g).expect("types");
    let graph = g.finish(&outputs);
    let partition = partition(&graph, limits);
    let ends = partition.regions.iter().flat_map(|r| r.ends.iter().map(|e| e.refusal));
    partition.unfused.iter().map(|u| u.refusal).chain(ends).collect()
}

fn rows(g: &Sample, name: &str) -> Value {
    g.input(name, F32, &[-1, 64])
}

fn exp(g: &Sample, x: Value) -> Built {
    g.b.map(ScalarFn::Exp, &[x])
}

fn top_k(g: &Sample, x: Value) -> Built<Vec<Value>> {
    g.b.op(Op::Prim(Prim::TopK { k: 2.into() }), &[x])
}

fn all_reduce(g: &Sample, x: Value) -> Built {
    g.b.prim(Prim::AllReduce(AllReduce { op: ReduceOp::Add, group: "tp".into(), ranks: Some(4) }), &[x])
}

fn sum_of(g: &Sample, count: usize) -> Built<Vec<Value>> {
    let first = rows(g, "x");
    let sum = (0..count).try_fold(first, |sum, i| g.b.add(sum, rows(g, &format!("x{i}"))))?;
    Ok(vec![sum])
}

/// Divided by the sums of its rows, of its columns and of its rows again.
fn turns(g: &Sample, extents: [i64; 2]) -> Built<Vec<Value>> {
    turns_of(g, g.input("x", F32, &[-1, extents[0], extents[1]]), extents, &[2, 1, 2])
}

fn turns_of(g: &Sample, mut x: Value, extents: [i64; 2], axes: &[usize]) -> Built<Vec<Value>> {
    for &axis in axes {
        let mut shape = [-1, extents[0], extents[1]];
        shape[axis] = 1;
        let reduce = Prim::Reduce { op: ReduceOp::Add, axes: vec![axis], nan: NanRule::Propagate };
        let sum = g.view(g.b.prim(reduce, &[x])?, &shape)?;
        x = g.b.div(x, sum)?;
    }
    Ok(vec![x])
}

/// The same turns have one kernel where a product is computed again, and none where a remainder is.
#[test]
fn functions_count_by_their_code() {
    let limits = Limits { keeps: Keeps { row: 0, rows: 0, groups: true }, ..Limits::default() };
    let refused = |f: ScalarFn| {
        let build = |g: &Sample| {
            let x = g.input("x", F32, &[-1, 16, 4]);
            let turned = turns_of(g, g.b.map(f, &[x, x])?, [16, 4], &[1, 2])?[0];
            Ok(vec![(0..20).try_fold(turned, |y, _| g.b.add(y, y))?])
        };
        refusals_within(&limits, build).contains(&Refusal::TooCostly)
    };
    assert_eq!([refused(ScalarFn::Mul), refused(ScalarFn::Rem)], [false, true]);
}

/// Exponentials that the prefixes of a block and its sum read are stored where that takes less than computing them again.
#[test]
fn what_is_stored_takes_less_than_what_is_computed_again() {
    // With five symbols, which are taken to be large, all sizes are beyond 64 bits.
    for symbols in [1, 5] {
        is_as_costs_say(symbols);
    }
}

fn is_as_costs_say(symbols: usize) {
    let (rows, third, fourth) = (vec!["s"; symbols].join(", "), symbols + 1, symbols + 2);
    let text = format!(
        "graph @prefixes(s: 0..; %x: f32[{rows}, 64], %before: bool[4, 4], %within: bool[16, 16]) {{
           %0 = exp %x
           %1 = reshape %0 {{shape = [{rows}, 4, 16]}}
           %2 = reduce %1 {{op = add, axes = [{third}]}}
           %3 = reshape %2 {{shape = [{rows}, 1, 4]}}
           %4 = literal f32 0.0
           %5 = select %before, %3, %4
           %6 = reduce %5 {{op = add, axes = [{third}]}}
           %7 = reshape %0 {{shape = [{rows}, 4, 1, 16]}}
           %8 = select %within, %7, %4
           %9 = reduce %8 {{op = add, axes = [{fourth}]}}
           %10 = reshape %9 {{shape = [{rows}, 4, 16]}}
           %11 = add %6, %10
           %12 = reshape %11 {{shape = [{rows}, 64]}}
           return %12
         }}"
    );
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let refused = |functions: &'static [(ScalarFn, u64)], byte: u64| {
        let limits = Limits { costs: Some(Costs { call: 0, byte, functions }), ..Limits::default() };
        let partition = partition(&graph, &limits);
        partition.regions.iter().flat_map(|region| &region.ends).any(|end| end.refusal == Refusal::TooCostly)
    };
    // A row stores 64 of 4 bytes, or computes some 1000 more.
    let (slow, fast) = (&[(ScalarFn::Exp, 1000)], &[(ScalarFn::Exp, 1)]);
    assert_eq!([refused(slow, 1), refused(slow, 4000), refused(fast, 1), refused(fast, 4)], [true, false, true, false]);
    assert_eq!(partition(&graph, &Limits::default()).regions.len(), 1);
}

/// What makes the outputs of a graph.
type Build<'a> = &'a dyn Fn(&Sample) -> Built<Vec<Value>>;

#[test]
fn every_refusal_fires_and_spares_its_twin() {
    let mut seen = BTreeSet::new();
    let mut fires = |refusal: Refusal, build: Build<'_>, near: Build<'_>| {
        let found = refusals(|g| build(g));
        assert!(found.contains(&refusal), "{refusal:?} is not among {found:?}");
        let found = refusals(|g| near(g));
        assert!(!found.contains(&refusal), "{refusal:?} is among {found:?} of its twin");
        seen.insert(refusal);
    };
    let prim = |g: &Sample, prim: Prim, operands: &[Value]| g.b.prim(prim, operands);
    fires(
        Refusal::MatMul,
        &|g| {
            let y = exp(g, rows(g, "x"))?;
            Ok(vec![g.linear(y, g.input("w", F32, &[8, 64]))?])
        },
        &|g| {
            let y = exp(g, rows(g, "x"))?;
            Ok(vec![g.b.mul(y, g.input("w", F32, &[64]))?])
        },
    );
    fires(
        Refusal::Attention,
        &|g| {
            let q = exp(g, g.input("q", F32, &[1, 2, -1, 8]))?;
            let sdpa = Sdpa { causal: true, wide: false, scale_bits: 1f64.to_bits() };
            Ok(vec![prim(g, Prim::Sdpa(sdpa), &[q, q, q])?])
        },
        &|g| {
            let q = exp(g, g.input("q", F32, &[1, 2, -1, 8]))?;
            Ok(vec![g.softmax(g.b.mul(q, q)?)?])
        },
    );
    fires(
        Refusal::Collective,
        &|g| {
            let y = exp(g, rows(g, "x"))?;
            Ok(vec![exp(g, all_reduce(g, y)?)?])
        },
        &|g| Ok(vec![exp(g, exp(g, rows(g, "x"))?)?]),
    );
    fires(
        Refusal::Opaque,
        &|g| {
            let x = rows(g, "x");
            let results = vec![g.b.ty(x)];
            let opaque = Prim::Opaque { target: "host.op".into(), attrs: Vec::new(), results };
            Ok(vec![exp(g, prim(g, opaque, &[exp(g, x)?])?)?])
        },
        &|g| Ok(vec![exp(g, exp(g, rows(g, "x"))?)?]),
    );
    fires(
        Refusal::Scatter,
        &|g| {
            let (cache, ids) = (g.input("cache", F32, &[1000, 64]), g.input("ids", I64, &[-1]));
            let written = prim(g, Prim::Scatter { axis: 0 }, &[cache, ids, exp(g, rows(g, "x"))?])?;
            Ok(vec![exp(g, written)?])
        },
        &|g| {
            let (cache, ids) = (g.input("cache", F32, &[1000, 64]), g.input("ids", I64, &[-1]));
            Ok(vec![prim(g, Prim::Scatter { axis: 0 }, &[cache, ids, exp(g, rows(g, "x"))?])?])
        },
    );
    let added = |g: &Sample, prim: Prim| {
        let (sums, ids) = (g.input("sums", F32, &[1000, 64]), g.input("ids", I64, &[-1]));
        Ok(vec![g.b.prim(prim, &[sums, ids, exp(g, rows(g, "x"))?])?])
    };
    fires(Refusal::ScatterReduce, &|g| added(g, Prim::ScatterReduce { op: ReduceOp::Add, axis: 0 }), &|g| {
        added(g, Prim::Scatter { axis: 0 })
    });
    // A few of each group are searched one by one.
    let of_groups = |g: &Sample, k: i64| {
        let groups = g.view(g.softmax(g.input("x", F32, &[-1, 128]))?, &[-1, 2, 64])?;
        g.b.op(Op::Prim(Prim::TopK { k: k.into() }), &[groups])
    };
    fires(Refusal::TopK, &|g| of_groups(g, 17), &|g| of_groups(g, 2));
    fires(Refusal::LayoutOnly, &|g| Ok(vec![g.permute(rows(g, "x"), &[1, 0])?]), &|g| {
        Ok(vec![exp(g, g.permute(rows(g, "x"), &[1, 0])?)?])
    });
    let gathered = |g: &Sample| prim(g, Prim::Gather { axis: 0 }, &[rows(g, "x"), g.input("ids", I64, &[-1])]);
    fires(Refusal::CopyOnly, &|g| Ok(vec![gathered(g)?]), &|g| Ok(vec![exp(g, gathered(g)?)?]));
    let one = |g: &Sample| g.input("scale", F32, &[1, 1]);
    // What is returned is stored like any other result.
    fires(Refusal::InMemory, &|g| Ok(vec![g.linear(exp(g, one(g))?, g.input("w", F32, &[8, 1]))?]), &|g| {
        Ok(vec![exp(g, one(g))?, g.b.mul(rows(g, "x"), exp(g, g.input("other", F32, &[1]))?)?])
    });
    fires(Refusal::InMemory, &|g| Ok(vec![g.b.float(F32, 2.0)?]), &|g| {
        Ok(vec![g.b.add(rows(g, "x"), g.b.float(F32, 2.0)?)?])
    });
    fires(
        Refusal::Dead,
        &|g| {
            exp(g, rows(g, "x"))?;
            Ok(Vec::new())
        },
        &|g| Ok(vec![exp(g, rows(g, "x"))?]),
    );
    let reduce = |axes: &[usize]| Prim::Reduce { op: ReduceOp::Add, axes: axes.to_vec(), nan: NanRule::Propagate };
    fires(Refusal::ReductionAxis, &|g| Ok(vec![prim(g, reduce(&[0]), &[rows(g, "x")])?]), &|g| {
        Ok(vec![prim(g, reduce(&[1]), &[rows(g, "x")])?])
    });
    fires(Refusal::WholeTensor, &|g| Ok(vec![prim(g, reduce(&[0, 1]), &[rows(g, "x")])?]), &|g| {
        Ok(vec![prim(g, reduce(&[1, 2]), &[g.input("x", F32, &[-1, 4, 16])])?])
    });
    // One row may be of any length; a line is a tensor.
    fires(Refusal::WholeTensor, &|g| Ok(vec![prim(g, reduce(&[0]), &[g.input("x", F32, &[-1])])?]), &|g| {
        Ok(vec![prim(g, reduce(&[1]), &[g.input("x", F32, &[1, -1])])?])
    });
    // What is in no region has its own of what it reads, unless it takes no rows.
    let counted = |g: &Sample| prim(g, Prim::Iota { dtype: I64, shape: vec![3.into()], axis: 0 }, &[]);
    let chosen = |g: &Sample, at: Value| Ok(vec![prim(g, Prim::Gather { axis: 0 }, &[rows(g, "x"), at])?]);
    fires(Refusal::Constant, &|g| chosen(g, counted(g)?), &|g| chosen(g, g.input("at", I64, &[3])));
    let largest = |g: &Sample, x: Value| {
        let shape = g.b.ty(rows(g, "y")).shape;
        exp(g, prim(g, reduce(&[0, 1]), &[prim(g, Prim::Expand { shape }, &[x])?])?)
    };
    fires(Refusal::OneElement, &|g| Ok(vec![largest(g, exp(g, one(g))?)?]), &|g| Ok(vec![largest(g, one(g))?]));
    fires(
        Refusal::Reshape,
        &|g| {
            let y = exp(g, g.input("x", F32, &[6, 4]))?;
            Ok(vec![exp(g, g.view(y, &[8, 3])?)?])
        },
        &|g| {
            let y = exp(g, g.input("x", F32, &[6, 4]))?;
            Ok(vec![exp(g, g.view(y, &[2, 3, 4])?)?])
        },
    );
    fires(
        Refusal::LaneOrder,
        &|g| {
            let y = top_k(g, g.input("x", F32, &[-1, 8, 16]))?;
            Ok(vec![g.softmax(g.permute(y[0], &[0, 2, 1])?)?])
        },
        &|g| Ok(vec![g.softmax(top_k(g, g.input("x", F32, &[-1, 8, 16]))?[0])?]),
    );
    fires(
        Refusal::LaneCut,
        &|g| {
            let y = g.view(g.softmax(g.input("x", F32, &[-1, 2, 12]))?, &[-1, 6, 4])?;
            Ok(vec![g.softmax(g.b.cat(&[y, g.input("z", F32, &[-1, 6, 4])], 1)?)?])
        },
        &|g| {
            let y = exp(g, g.input("x", F32, &[-1, 4, 16]))?;
            Ok(vec![g.softmax(g.b.cat(&[y, g.input("z", F32, &[-1, 4, 1])], 2)?)?])
        },
    );
    fires(
        Refusal::Diagonal,
        // What is computed of whole rows is no row beside itself as a column; each element of it by itself is.
        &|g| {
            let y = g.softmax(g.input("x", F32, &[-1, 8, 8]))?;
            Ok(vec![g.b.add(y, g.permute(y, &[0, 2, 1])?)?])
        },
        &|g| {
            let y = exp(g, g.input("x", F32, &[-1, 8, 8]))?;
            Ok(vec![g.b.add(y, g.permute(y, &[0, 2, 1])?)?])
        },
    );
    fires(
        Refusal::NoCommonRows,
        &|g| {
            let w = exp(g, g.input("w", F32, &[64]))?;
            Ok(vec![w, g.softmax(g.b.mul(w, g.input("x", F32, &[-1, 64]))?)?])
        },
        &|g| {
            let w = exp(g, g.input("w", F32, &[64]))?;
            Ok(vec![g.softmax(g.b.mul(w, g.input("x", F32, &[-1, 64]))?)?])
        },
    );
    fires(
        Refusal::InnerRows,
        &|g| {
            let table = exp(g, g.input("t", F32, &[-1, 1, 16]))?;
            Ok(vec![table, g.b.mul(table, g.input("x", F32, &[-1, 4, 16]))?])
        },
        &|g| {
            let table = exp(g, g.input("t", F32, &[-1, 4, 16]))?;
            Ok(vec![table, g.b.mul(table, g.input("x", F32, &[-1, 4, 16]))?])
        },
    );
    fires(
        Refusal::GatherComputed,
        &|g| {
            let rows = prim(g, Prim::Gather { axis: 0 }, &[exp(g, rows(g, "x"))?, g.input("ids", I64, &[-1])])?;
            Ok(vec![exp(g, rows)?])
        },
        &|g| {
            let rows = prim(g, Prim::Gather { axis: 0 }, &[rows(g, "x"), g.input("ids", I64, &[-1])])?;
            Ok(vec![exp(g, rows)?])
        },
    );
    let gathered = |g: &Sample, axes: [usize; 2]| {
        let [first, second] = ["ids", "more"].map(|name| g.input(name, I64, &[-1]));
        let once = prim(g, Prim::Gather { axis: axes[0] }, &[g.input("x", F32, &[-1, -1, 64]), first])?;
        let indices = if axes[0] == axes[1] { first } else { second };
        Ok(vec![exp(g, prim(g, Prim::Gather { axis: axes[1] }, &[once, indices])?)?])
    };
    fires(Refusal::GatherComputed, &|g| gathered(g, [0, 0]), &|g| gathered(g, [0, 1]));
    fires(
        Refusal::GatherLanes,
        &|g| Ok(vec![g.softmax(prim(g, Prim::Gather { axis: 1 }, &[rows(g, "x"), g.input("ids", I64, &[64])])?)?]),
        &|g| Ok(vec![g.softmax(prim(g, Prim::Gather { axis: 0 }, &[rows(g, "x"), g.input("ids", I64, &[-1])])?)?]),
    );
    fires(
        Refusal::NotConvex,
        &|g| {
            let y = exp(g, rows(g, "x"))?;
            let product = g.linear(y, g.input("w", F32, &[64, 64]))?;
            Ok(vec![g.b.add(y, product)?])
        },
        &|g| {
            let y = exp(g, rows(g, "x"))?;
            Ok(vec![g.b.add(y, g.b.mul(y, g.input("w", F32, &[64]))?)?])
        },
    );
    fires(Refusal::TooLarge, &|g| sum_of(g, 70), &|g| sum_of(g, 10));
    // Short rows are stored between the turns.
    fires(Refusal::TooCostly, &|g| turns(g, [32, 512]), &|g| turns(g, [4, 4]));
    fires(Refusal::Independent, &|g| Ok(vec![exp(g, rows(g, "x"))?, exp(g, rows(g, "y"))?]), &|g| {
        let y = exp(g, rows(g, "x"))?;
        Ok(vec![y, exp(g, y)?])
    });
    // Of one op each where nothing is to fuse.
    let off = Limits { nodes: 1, ..Limits::default() };
    let two = |g: &Sample| Ok(vec![exp(g, exp(g, rows(g, "x"))?)?]);
    assert_eq!(refusals_within(&off, two), BTreeSet::from([Refusal::Off]));
    assert!(refusals(two).is_empty());
    seen.insert(Refusal::Off);
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), Refusal::ALL);
}

#[test]
fn nothing_is_refused_in_plain_row_work() {
    let plain = |g: &Sample| {
        let y = g.softmax(g.b.add(rows(g, "x"), rows(g, "r"))?)?;
        let groups = g.view(y, &[-1, 4, 16])?;
        let largest = g.b.reduce_last(ReduceOp::Max, groups)?;
        Ok(vec![g.view(g.b.div(groups, largest)?, &[-1, 64])?, y])
    };
    let found = refusals(plain);
    assert!(found.is_empty(), "{found:?}");
}

/// The page on fusion lists every reason in the words of reports, and no other.
#[test]
fn the_page_lists_every_reason() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/fusion.md");
    let page = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let listed: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|row| row.rsplit_once(" | ").map(|(reason, _meaning)| reason.to_owned()))
        .collect();
    let known = Refusal::ALL.map(|r| format!("{}` | {}", r.name(), r.message()));
    assert_eq!(listed, BTreeSet::from(known));
}
