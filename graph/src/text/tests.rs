//! Round trips, errors and hostile texts.

use fusewright_abi::DType;

use super::{PrintOptions, parse_graphs, print_graph};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::{Graph, InputKind, Op, Origin};
use crate::ops;
use crate::prim::{AllReduce, Literal, NanBits, NanRule, Prim, ReduceOp, Rounding, Sdpa};
use crate::scalar::ScalarFn;
use crate::ty::TensorType;

const BLOCK: &str = r#"graph @block(s: 1..8192; %x: bf16[s, 4096], %r: bf16[s, 4096], %w: weight bf16[4096]) {
  %h = add %x, %r  @"model.layers.0/residual" op "aten.add.Tensor" at "model.py:12 (forward)"
  %y = rms_norm %h, %w {eps = 1e-5, round = once}
  %0 = literal bf16 -0.0
  %1 = mul %y, %0
  return %1, %h updates %r
}
"#;

/// Prints, parses, compares and prints again.
fn round_trip(graph: &Graph) {
    for types in [false, true] {
        let text = print_graph(graph, PrintOptions { types, hide_origins: false });
        let again: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert!(again.same_as(graph), "{text}");
        assert_eq!(print_graph(&again, PrintOptions { types, hide_origins: false }), text);
        let origins = |g: &Graph| g.nodes().iter().map(|n| n.origin.clone()).collect::<Vec<_>>();
        assert_eq!(origins(&again), origins(graph));
    }
}

#[test]
fn the_canonical_text_is_kept() {
    let graph: Graph = BLOCK.parse().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(graph.to_string(), BLOCK);
    round_trip(&graph);
    let origin = &graph.nodes()[0].origin;
    assert_eq!(origin.op.as_deref(), Some("aten.add.Tensor"));
    assert_eq!(graph.value_name(graph.nodes()[0].results[0]), Some("h"));
    assert_eq!(graph.value_name(graph.nodes()[2].results[0]), None);
}

/// A graph with every primitive, odd names and every kind of attribute.
fn everything() -> Graph {
    let b = Builder::new("odd name");
    let s = b.symbol("s", 1, Some(8192));
    let n = b.symbol("n", 0, None);
    let dim = Dim::constant;
    let x = b.input("x.0", TensorType::new(DType::F32, [s.clone(), dim(8)]));
    let i = b.input("12", TensorType::new(DType::I64, [n.clone()]));
    let w = b.add_input("p \"w\"\n", TensorType::new(DType::F32, [dim(8), dim(8)]), InputKind::Weight(None));
    let q = TensorType::new(DType::BF16, [dim(1), dim(4), s.clone(), dim(64)]);
    let q = b.add_input("q", q, InputKind::Settled);
    let one = |prim: Prim, operands: &[_]| b.prim(prim, operands).unwrap_or_else(|e| panic!("{e}"));
    for v in [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::from(f32::MIN_POSITIVE) / 8.0, 0.1f32.into()]
    {
        one(Prim::Literal(Literal::Float(DType::F32, v)), &[]);
        one(Prim::Literal(Literal::Float(DType::F64, v / 3.0)), &[]);
    }
    one(Prim::Literal(Literal::Int(DType::U64, -1)), &[]);
    one(Prim::Literal(Literal::Int(DType::I64, i64::MIN)), &[]);
    let yes = one(Prim::Literal(Literal::Int(DType::Bool, 1)), &[]);
    one(Prim::SizeOf(&(&s * &dim(4096)) + &n), &[]);
    one(Prim::Iota { dtype: DType::I32, shape: vec![s.clone(), dim(8)], axis: 1 }, &[]);
    b.set_origin(Origin { source: Some("a.py:1".into()), ..Origin::default() });
    one(Prim::Map(ScalarFn::Select), &[yes, x, x]);
    for round in Rounding::ALL {
        for saturate in [false, true] {
            one(Prim::Cast { to: DType::F8E4M3, round, saturate }, &[x]);
        }
    }
    b.set_origin(Origin { node: Some("a \"quoted\" node".into()), ..Origin::default() });
    let bits = one(Prim::Bitcast { to: DType::I32, nan: NanBits::Kept }, &[x]);
    b.name(bits, "x.0");
    for nan in [NanRule::Propagate, NanRule::Ignore] {
        let reduced = one(Prim::Reduce { op: ReduceOp::Max, axes: vec![0, 1], nan }, &[x]);
        b.name(reduced, "r");
    }
    one(Prim::ArgReduce { op: ReduceOp::Min, axis: 1 }, &[x]);
    let top = b.op(Op::Prim(Prim::TopK { k: dim(2) }), &[x]).unwrap_or_else(|e| panic!("{e}"));
    b.name(top[1], "indices");
    one(Prim::Reshape { shape: vec![&s * &dim(2), dim(4)] }, &[x]);
    one(Prim::Permute { perm: vec![1, 0] }, &[x]);
    one(Prim::Expand { shape: vec![dim(3), s.clone(), dim(8)] }, &[x]);
    one(Prim::Slice { axis: 1, start: dim(1), end: dim(7), step: 3 }, &[x]);
    one(Prim::Slice { axis: 0, start: dim(0), end: s.clone(), step: 1 }, &[x]);
    one(Prim::Cat { axis: 1 }, &[x, x, x]);
    let gathered = one(Prim::Gather { axis: 0 }, &[x, i]);
    let scattered = one(Prim::Scatter { axis: 0 }, &[x, i, gathered]);
    for op in ReduceOp::ALL {
        one(Prim::ScatterReduce { op, axis: 0 }, &[x, i, gathered]);
    }
    let codes = one(Prim::Cast { to: DType::F4E2M1, round: Rounding::NearestEven, saturate: true }, &[x]);
    one(Prim::Pack { ways: 2, to: DType::U8 }, &[codes]);
    one(Prim::MatMul { transpose_b: true, out: DType::BF16 }, &[x, w]);
    one(Prim::MatMul { transpose_b: false, out: DType::F32 }, &[x, w]);
    let experts = b.input("experts", TensorType::new(DType::F32, [dim(4), dim(8), dim(16)]));
    let ends = b.input("ends", TensorType::new(DType::I32, [dim(4)]));
    one(Prim::GroupedMatMul { out: DType::F32 }, &[x, experts, ends]);
    for causal in [false, true] {
        one(Prim::Sdpa(Sdpa { causal, wide: causal, scale_bits: 0.088_388_347_648_318_45f64.to_bits() }), &[q, q, q]);
    }
    for (op, ranks) in [(ReduceOp::Add, None), (ReduceOp::Max, Some(8))] {
        one(Prim::AllReduce(AllReduce { op, group: "tp 0".into(), ranks }), &[x]);
    }
    let opaque = |results| {
        let attrs = vec![("scale".into(), "0.5".into()), ("a key".into(), "}, {\"\\".into())];
        Op::Prim(Prim::Opaque { target: "vllm.unified_attention".into(), attrs, results })
    };
    let types = vec![TensorType::scalar(DType::F32), TensorType::new(DType::BF16, [s.clone(), dim(8)])];
    let two = b.op(opaque(types), &[x, q]).unwrap_or_else(|e| panic!("{e}"));
    b.op(opaque(Vec::new()), &[x]).unwrap_or_else(|e| panic!("{e}"));
    b.add_output(two[1], None);
    b.add_output(scattered, Some("x.0".into()));
    b.add_output(scattered, Some("p \"w\"\n".into()));
    b.finish()
}

#[test]
fn every_primitive_reads_back() {
    let graph = everything();
    let names: std::collections::BTreeSet<&str> = graph.nodes().iter().map(|n| n.op.name()).collect();
    assert!(names.len() >= 21, "{names:?}");
    assert!(names.iter().all(|name| super::is_op_name(name)));
    round_trip(&graph);
    let b = Builder::new("empty");
    round_trip(&b.finish());
}

#[test]
fn bodies_of_all_composites_read_back() {
    let mut count = 0;
    for spec in ops::LIST {
        for sample in [DType::BF16, DType::F16, DType::F32].into_iter().flat_map(|dtype| spec.samples(dtype)) {
            for composite in (spec.variants)() {
                let types: Vec<&TensorType> = sample.iter().collect();
                let body = composite.body(&types).unwrap_or_else(|e| panic!("{e}"));
                round_trip(&body);
                let attrs = composite.attrs();
                assert_eq!((spec.parse)(attrs).as_ref(), Ok(&composite), "{attrs:?}");
                assert_eq!(super::op_from_text(spec.name, &attrs.0), Ok(Op::Composite(composite)));
                count += 1;
            }
        }
    }
    assert!(ops::LIST.len() >= 5 && count >= 24, "{count}");
}

#[test]
fn differences_are_seen() {
    let graph: Graph = BLOCK.parse().unwrap_or_else(|e| panic!("{e}"));
    for (from, to) in [
        ("@block", "@other"),
        ("1..8192", "1.."),
        ("1e-5", "1e-6"),
        ("-0.0", "0.0"),
        ("mul %y, %0", "mul %0, %y"),
        (" updates %r", ""),
        ("weight ", ""),
        ("return %1, ", "return %y, "),
    ] {
        let text = BLOCK.replace(from, to);
        let other: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        assert!(!other.same_as(&graph), "{text}");
    }
    let renamed: Graph =
        BLOCK.replace("%h", "%sum").replace("model.layers.0", "x").parse().unwrap_or_else(|e| panic!("{e}"));
    assert!(renamed.same_as(&graph));
}

#[test]
fn errors_show_place_and_reason() {
    let line = |body: &str| format!("graph @g(s: 0.., %x: bf16[s, 8], %w: f32[8]) {{\n  {body}\n  return %y\n}}");
    for (body, column, part) in [
        ("%y = ad %x, %x", 8, "unknown op `ad`"),
        ("retu", 3, "expected an op, `%` and a name, or `return`, found `retu`"),
        ("%y = add %x, %z", 16, "unknown value `%z`"),
        ("%y = add %x %x", 15, "the end of the line, found `%x`"),
        ("%y = add %x, %w", 8, "operands are bf16 and f32"),
        ("%x = neg %x", 3, "`%x` is defined already on line 1"),
        ("%y = cast %x {to = f99}", 22, "expected a dtype, found `f99`"),
        ("%y = cast %x {round = rne}", 8, "`cast` needs an attribute `to`"),
        ("%y = cast %x {to = f32, to = f16}", 32, "given twice"),
        ("%y = cast %x {to = f32, speed = 1}", 35, "no attribute `speed`; it has to, round, saturate"),
        ("%y = neg %x {speed = 1}", 24, "has no attributes"),
        // A wrong name is said in place of the attribute that is missing for it, or that is never read.
        (
            "%y = reduce %x {op = add, axis = [1]}",
            36,
            "`reduce` has no attribute `axis`, the nearest is `axes`; it has op",
        ),
        (
            "%y = cast %x {tp = f32}",
            22,
            "`cast` has no attribute `tp`, the nearest is `to`; it has to, round, saturate",
        ),
        (
            "%y = rms_norm %x, %x {epz = 1e-6, round = once}",
            31,
            "no attribute `epz`, the nearest is `eps`; it has eps, round",
        ),
        ("%y = softmaxx %x", 8, "unknown op `softmaxx`, the nearest is `softmax`"),
        ("%y = reduce %x {op = plus, axes = [0]}", 24, "`reduce`: attribute `op`: expected `add`"),
        (
            "%y = rms_norm %x, %x {eps = 1, round = up}",
            42,
            "`rms_norm`: attribute `round`: `up` is none of once, before_weight",
        ),
        (
            "%y = rms_norm %x, %x {eps = 1e999, round = once}",
            31,
            "`rms_norm`: attribute `eps`: `1e999` is beyond the range of f32",
        ),
        ("%y = rms_norm %x, %x {eps = 1}", 8, "`rms_norm`: needs an attribute `round`, one of once, before_weight"),
        ("%y = rms_norm %x, %x {round = once}", 8, "`rms_norm`: needs an attribute `eps`, a number"),
        (
            "%y, %z = quantize_dynamic %x {bound = 7, speed = 1}",
            52,
            "no attribute `speed`; it has bound, apply, floor, floor_of",
        ),
        ("%y, %z = quantize_dynamic %x {bound = 7, floor = 1}", 52, "attribute `floor` says nothing beside the others"),
        ("%y = reduce %x {axes = [0]}", 8, "`reduce` needs an attribute `op`, one of add, mul, max, min"),
        ("%y: f32[s, 8] = neg %x", 3, "`%y` is bf16[s, 8], not f32[s, 8]"),
        ("%y, %z = neg %x", 12, "`neg` has 1 results, 2 are named"),
        ("%y = reshape %x {shape = [t, 8]}", 8, "symbol `t` is not declared"),
        ("%y = slice %x {axis = 1, start = 0, end = 9}", 8, "[0..9] of extent 8"),
        ("%y = literal f8e4m3 500", 23, "500 is not a value of f8e4m3"),
        ("%y = cast %x {to = }", 22, "expected a value, found `}`"),
    ] {
        let text = line(body);
        let error = text.parse::<Graph>().expect_err(body);
        assert!(error.message.contains(part), "{body}\n{error}");
        assert_eq!((error.line, error.column), (2, column), "{error}");
        assert!(error.to_string().contains(body), "{error}");
    }
}

#[test]
fn an_attribute_may_say_what_is_usual() {
    let graph = |attrs: &str| -> Graph {
        let text = format!(
            "graph @g(s: 0.., %x: bf16[s, 8]) {{\n  %y, %z = quantize_dynamic %x {{{attrs}}}\n  return %y, %z\n}}"
        );
        text.parse().unwrap_or_else(|e| panic!("{e}"))
    };
    let usual = graph("bound = 448.0");
    let said = graph("bound = 448.0, apply = divide, scale = quotient, codes = f8e4m3, floor_of = none");
    assert!(said.same_as(&usual));
    assert_eq!(said.to_string(), usual.to_string());
    assert!(!graph("bound = 448.0, apply = reciprocal").same_as(&usual));
}

#[test]
fn several_graphs_keep_their_lines() {
    let graphs = parse_graphs(&format!("; a comment\n{BLOCK}\n{BLOCK}")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(graphs.len(), 2);
    assert_eq!((graphs[1].header, graphs[1].outputs), (10, 15));
    assert_eq!(graphs[1].nodes, [11, 12, 13, 14]);
    assert!(parse_graphs("").is_ok_and(|g| g.is_empty()));
}

/// A small generator of reproducible numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }
}

#[test]
fn mutated_texts_never_panic() {
    let seeds = [BLOCK.to_owned(), everything().to_string()];
    let pieces: Vec<&str> =
        ";%@\"{}[](),:=-..->s*9223372036854775807 nan inf -1 1e999 graph return literal opaque weight updates é \0 true 0x"
            .split(' ')
            .chain(["%", "@", "\"", "{", "}", "[", "]", "(", ")", ",", ":", "=", "-", "..", "\n", ";", " ;", "*", "0"])
            .collect();
    let mut numbers = Numbers(7);
    let mut parsed = 0;
    for round in 0..6000 {
        let mut text: Vec<char> = seeds[round % 2].chars().collect();
        for _ in 0..=numbers.below(4) {
            let (at, length) = (numbers.below(text.len()), numbers.below(12));
            let end = (at + length).min(text.len());
            let piece: Vec<char> = match numbers.below(3) {
                0 => pieces[numbers.below(pieces.len())].chars().collect(),
                1 => text[at..end].to_vec(),
                _ => Vec::new(),
            };
            let keep = numbers.below(2) == 0;
            text.splice(at..if keep { at } else { end }, piece);
        }
        let text: String = text.into_iter().collect();
        if let Ok(graph) = text.parse::<Graph>() {
            parsed += 1;
            round_trip(&graph);
        }
    }
    assert!(parsed > 100, "{parsed}");
}

#[test]
fn hostile_texts_are_refused_in_linear_time() {
    let many = |n: usize, item: &dyn Fn(usize) -> String| (0..n).map(item).collect::<Vec<_>>();
    let symbols = many(1000, &|i| format!("s{i}: 0..")).join(", ");
    let wide = many(40, &|i| format!("s{i} + 1")).join(", ");
    let sums = many(8, &|axis| many(100, &|i| format!("s{}", axis * 100 + i)).join(" + ")).join(", ");
    for text in [
        format!("graph @g({}) {{ return }}", many(100_000, &|i| format!("s{i}: 0..")).join(", ")),
        format!("graph @g({symbols}; %x: f32[{wide}]) {{ return }}"),
        format!("graph @g({symbols}; %x: f32[{sums}]) {{ return }}"),
        format!("graph @g(%x: f32[{}", "[".repeat(200_000)),
        format!("graph @g() {{ %x = opaque {{a = {}", "{".repeat(200_000)),
        format!("graph @g() {{ %x = cast {{{}}} }}", many(100_000, &|i| format!("a{i}")).join(", ")),
        "graph ".repeat(100_000),
        "\"".repeat(100_001),
    ] {
        assert!(text.parse::<Graph>().is_err());
    }
    // Each doubling of the axis is one node; the extent saturates instead of overflowing.
    let doublings = many(20_000, &|i| format!("%{} = cat %{i}, %{i} {{axis = 0}}\n", i + 1)).concat();
    let text = format!("graph @g(s: 0.., %x: f32[s]) {{\n%0 = neg %x\n{doublings}return %20000\n}}");
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(graph.nodes().len(), 20_001);
    let cats = many(5_000, &|i| {
        format!("%n{} = cat %{}, %y {{axis = 0}}\n", i, if i == 0 { "x".into() } else { format!("n{}", i - 1) })
    });
    let text = format!("graph @g(s: 0.., t: 0.., %x: f32[s], %y: f32[t]) {{\n{}return %x\n}}", cats.concat());
    assert!(text.parse::<Graph>().is_ok());
}
