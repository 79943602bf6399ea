//! Every invariant broken once, and graphs that satisfy all.

use bytes::Bytes;
use fusewright_abi::DType::{self, BF16, F32, I64};

use super::verify;
use crate::builder::Builder;
use crate::dim::{Dim, DimFn};
use crate::graph::{Graph, InputKind, Op, Origin, Output, Symbol, Value, Weight};
use crate::ops::{self, Composite, RmsNorm, RmsRounding};
use crate::prim::{Literal, Prim};
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

fn row(dtype: DType) -> TensorType {
    TensorType::new(dtype, [Dim::symbol("s"), Dim::constant(8)])
}

/// A graph with the input `x: f32[s, 8]`, changed by `edit`; its violations as `code: message`.
fn violations(edit: impl FnOnce(&mut Graph, Value)) -> Vec<String> {
    let mut graph = Graph::new("test");
    graph.push_symbol(Symbol { name: "s".into(), min: 2, max: Some(64) });
    let x = graph.push_input("x", row(F32), InputKind::User);
    edit(&mut graph, x);
    let found = verify(&graph).err().unwrap_or_default();
    found.iter().map(|d| format!("{}: {}", d.code, d.message)).collect()
}

fn push(graph: &mut Graph, prim: Prim, operands: &[Value], results: Vec<TensorType>) -> Vec<Value> {
    graph.push_node(Op::Prim(prim), operands, results, Origin::default())
}

fn check(expected: &str, edit: impl FnOnce(&mut Graph, Value)) {
    let found = violations(edit);
    assert_eq!(found, [expected], "one violation is expected");
}

#[test]
fn operands_are_defined_before_use() {
    check("verify.order: operand 0 of `neg` is not defined before it", |g, _| {
        push(g, Prim::Map(ScalarFn::Neg), &[Value(1)], vec![row(F32)]);
    });
    check("verify.order: operand 1 of `add` is not defined before it", |g, x| {
        push(g, Prim::Map(ScalarFn::Add), &[x, Value(99)], vec![row(F32)]);
    });
}

#[test]
fn types_are_inferred_again() {
    check("verify.operands: add: takes 2 operands, got 1", |g, x| {
        push(g, Prim::Map(ScalarFn::Add), &[x], vec![row(F32)]);
    });
    check("verify.results: `neg` yields [f32[s, 8]], the graph says [bf16[s, 8]]", |g, x| {
        push(g, Prim::Map(ScalarFn::Neg), &[x], vec![row(BF16)]);
    });
    check("verify.results: `neg` yields [f32[s, 8]], the graph says []", |g, x| {
        push(g, Prim::Map(ScalarFn::Neg), &[x], Vec::new());
    });
    check("verify.operands: rms_norm: takes 1 to 2 operands, got 3", |g, x| {
        let norm = Composite::new(RmsNorm::new(1.0, RmsRounding::Once));
        g.push_node(Op::Composite(norm), &[x, x, x], vec![row(F32)], Origin::default());
    });
}

#[test]
fn symbols_are_declared_with_a_range() {
    check("verify.symbol: symbol `t` has the empty range 5..4", |g, _| {
        g.push_symbol(Symbol { name: "t".into(), min: 5, max: Some(4) });
    });
    check("verify.symbol: `a b` is no name of a symbol", |g, _| {
        g.push_symbol(Symbol { name: "a b".into(), min: 0, max: None });
    });
    check("verify.undeclared: input `y`: symbol `t` of t is not declared", |g, _| {
        g.push_input("y", TensorType::new(F32, [Dim::symbol("t")]), InputKind::User);
    });
    check("verify.undeclared: `size_of`: symbol `t` of t is not declared", |g, _| {
        push(g, Prim::SizeOf(Dim::symbol("t")), &[], vec![TensorType::scalar(I64)]);
    });
}

#[test]
fn extents_are_not_negative() {
    check("verify.extent: input `y`: extent -1 is negative", |g, _| {
        g.push_input("y", TensorType::new(F32, [Dim::constant(-1)]), InputKind::User);
    });
    check("verify.extent: input `y`: a tensor of more than 2^60 elements", |g, _| {
        let large = [Dim::constant(1 << 32), Dim::symbol("s"), Dim::constant(1 << 29)];
        g.push_input("y", TensorType::new(F32, large), InputKind::User);
    });
    check("verify.rank: input `y`: a tensor of 65 axes, more than 64", |g, _| {
        g.push_input("y", TensorType::new(F32, vec![Dim::constant(1); 65]), InputKind::User);
    });
    check("verify.extent: input `y`: extent s - 65 is negative", |g, _| {
        let extent = &Dim::symbol("s") - &Dim::constant(65);
        g.push_input("y", TensorType::new(F32, [extent]), InputKind::User);
    });
    check("verify.extent: input `y`: floordiv(s, 0) divides by zero", |g, _| {
        let extent = Dim::function(DimFn::FloorDiv, &Dim::symbol("s"), &Dim::constant(0));
        g.push_input("y", TensorType::new(F32, [extent]), InputKind::User);
    });
}

#[test]
fn input_names_are_distinct() {
    check("verify.input: two inputs are named `x`", |g, _| {
        g.push_input("x", row(F32), InputKind::User);
    });
    check("verify.input: an input has an empty name", |g, _| {
        g.push_input("", row(F32), InputKind::User);
    });
}

#[test]
fn outputs_and_updates_name_what_exists() {
    let output = |value, updates: Option<&str>| Output { value, updates: updates.map(str::to_owned) };
    check("verify.output: output 0 is no value of the graph", |g, _| g.push_output(output(Value(7), None)));
    check("verify.update: output 0 updates `z`, which is no input", |g, x| g.push_output(output(x, Some("z"))));
    check("verify.update: the input `x` is updated twice", |g, x| {
        g.push_output(output(x, Some("x")));
        g.push_output(output(x, Some("x")));
    });
    check("verify.update: output 0 is f32[s, 8], the input `y` bf16[s, 8]", |g, x| {
        g.push_input("y", row(BF16), InputKind::User);
        g.push_output(output(x, Some("y")));
    });
}

#[test]
fn literals_are_values_of_their_dtype() {
    for (literal, dtype) in [
        (Literal::Float(F32, 0.1), F32),
        (Literal::Float(BF16, 1.001), BF16),
        (Literal::Int(DType::I8, 128), DType::I8),
        (Literal::Int(F32, 1), F32),
        (Literal::Float(I64, 1.0), I64),
    ] {
        let found = violations(|g, _| drop(push(g, Prim::Literal(literal), &[], vec![TensorType::scalar(dtype)])));
        assert!(matches!(found.as_slice(), [one] if one.starts_with("verify.literal")), "{found:?}");
    }
}

#[test]
fn slices_lie_inside_as_far_as_ranges_tell() {
    let slice =
        |start: i64, end: i64| Prim::Slice { axis: 0, start: Dim::constant(start), end: Dim::constant(end), step: 1 };
    let cut = |n: i64| TensorType::new(F32, [Dim::constant(n), Dim::constant(8)]);
    check("verify.slice: `slice` takes [0..65] of extent s", |g, x| drop(push(g, slice(0, 65), &[x], vec![cut(65)])));
    assert!(violations(|g, x| drop(push(g, slice(0, 64), &[x], vec![cut(64)]))).is_empty(), "s may be 64");
    check("verify.slice: `top_k` takes 9 elements of an axis of 8", |g, x| {
        let shape = || vec![Dim::symbol("s"), Dim::constant(9)];
        let results = vec![TensorType::new(F32, shape()), TensorType::new(I64, shape())];
        push(g, Prim::TopK { k: Dim::constant(9) }, &[x], results);
    });
}

#[test]
fn weights_lie_inside_their_storage() {
    let weight = |bytes: usize, offset: usize, strides: &[usize]| {
        InputKind::Weight(Some(Weight {
            storage: Bytes::from(vec![0; bytes]),
            offset,
            strides: strides.to_vec(),
            checksum: None,
        }))
    };
    let ty = || TensorType::new(BF16, [Dim::constant(3), Dim::constant(4)]);
    let add = |kind: InputKind, ty: TensorType| {
        violations(move |g, _| {
            g.push_input("w", ty, kind);
        })
    };
    assert!(add(weight(24, 0, &[4, 1]), ty()).is_empty());
    assert!(add(weight(10, 4, &[0, 0]), ty()).is_empty());
    assert_eq!(
        add(weight(23, 0, &[4, 1]), ty()),
        ["verify.weight: weight `w`: elements of bf16[3, 4] lie outside of 23 bytes"]
    );
    assert_eq!(add(weight(24, 1, &[4, 1]), ty()).len(), 1);
    assert_eq!(add(weight(24, 0, &[usize::MAX, 1]), ty()).len(), 1);
    assert_eq!(add(weight(24, 0, &[1]), ty()), ["verify.weight: weight `w`: 1 strides for bf16[3, 4]"]);
    assert_eq!(add(weight(24, 0, &[8, 1]), row(BF16)), ["verify.weight: weight `w`: bf16[s, 8] is not static"]);
    assert!(add(weight(0, 0, &[8, 1]), TensorType::new(BF16, [Dim::constant(0), Dim::constant(8)])).is_empty());
}

#[test]
fn expansions_are_verified() {
    check("verify.expansion: expansion of `rms_norm`: `f32 0.1` is no value of its dtype (verify.literal)", |g, x| {
        let w = g.push_input("w", TensorType::new(F32, [Dim::constant(8)]), InputKind::User);
        let norm = Composite::new(RmsNorm::new(0.1, RmsRounding::Once));
        g.push_node(Op::Composite(norm), &[x, w], vec![row(F32)], Origin::default());
    });
}

#[test]
fn all_violations_are_reported_with_their_nodes() {
    let mut graph = Graph::new("test");
    let origin = Origin { node: Some("bad_0".into()), ..Origin::default() };
    graph.push_node(Op::Prim(Prim::Map(ScalarFn::Neg)), &[Value(5)], vec![row(F32)], origin.clone());
    graph.push_node(Op::Prim(Prim::Literal(Literal::Float(F32, 0.1))), &[], vec![row(F32)], Origin::default());
    let found = verify(&graph).expect_err("four violations");
    let codes: Vec<_> = found.iter().map(|d| (d.node.map(|n| n.0), d.code)).collect();
    let expected = [
        (Some(0), "verify.order"),
        (Some(0), "verify.undeclared"),
        (Some(1), "verify.results"),
        (Some(1), "verify.literal"),
        (Some(1), "verify.undeclared"),
    ];
    assert_eq!(codes, expected);
    assert_eq!(found[0].origin, origin);
}

#[test]
fn bodies_of_all_composites_verify() {
    let mut count = 0;
    for spec in ops::LIST {
        for types in [BF16, DType::F16, F32].into_iter().flat_map(|dtype| spec.samples(dtype)) {
            for composite in (spec.variants)() {
                let b = Builder::new("whole");
                b.symbol("s", 0, None);
                let inputs: Vec<Value> =
                    types.iter().enumerate().map(|(i, ty)| b.input(&format!("x{i}"), ty.clone())).collect();
                let results = b.composite(composite, &inputs).unwrap_or_else(|e| panic!("{e}"));
                results.into_iter().for_each(|v| b.output(v));
                let found = verify(&b.finish()).err().unwrap_or_default();
                assert!(found.is_empty(), "{}: {}", spec.name, found[0]);
                count += 1;
            }
        }
    }
    assert!(ops::LIST.len() >= 5 && count >= 24, "{count}");
}
