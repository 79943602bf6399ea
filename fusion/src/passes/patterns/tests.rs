//! Matches, near misses, guards, and where a replacement stands.

use fusewright_graph::Graph;
use fusewright_graph::verify::verify;

use super::*;
use crate::pass::{NearMiss, PassManager, Pipeline, Stage, Unmatched, Verify};
use crate::passes::PIPELINE;
use crate::rewrites::UserPatterns;

fn graph(inputs: &str, nodes: &str) -> Graph {
    let text = format!("graph @g(s: 1..; {inputs}) {{\n{}\n}}\n", nodes.replace("; ", "\n"));
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn patterns(text: &str) -> UserPatterns {
    UserPatterns::parse(text).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs the pass alone; the nodes that are left, by name, and the report of each pattern.
fn replaced(graph: &Graph, patterns: &UserPatterns, relaxed: bool) -> (Vec<String>, Vec<PatternReport>) {
    let mut cx = Cx { relaxed, patterns: patterns.clone(), ..Cx::default() };
    let (out, outcome) = run(graph, &mut cx).expect("runs");
    verify(&out).unwrap_or_else(|e| panic!("{e:?}\n{out}"));
    assert_eq!(outcome.changed, cx.pattern_reports.iter().map(|r| r.times).sum::<usize>());
    (out.nodes().iter().map(|n| n.op.name().to_owned()).collect(), cx.pattern_reports)
}

fn times(graph: &Graph, text: &str) -> usize {
    replaced(graph, &patterns(text), false).1[0].times
}

/// The near miss of a pattern that matches nowhere.
fn miss(graph: &Graph, text: &str) -> NearMiss {
    let (_, reports) = replaced(graph, &patterns(text), false);
    assert_eq!(reports[0].times, 0, "{reports:?}");
    near(&reports[0])
}

fn near(report: &PatternReport) -> NearMiss {
    match &report.unmatched {
        Some(Unmatched::Near(near)) => near.clone(),
        other => panic!("a pattern without a match says why, not {other:?}"),
    }
}

const SUB: &str =
    "exact negated_sum: (x: float, y: float) n = neg y; z = add x, n; yield z => (x, y) z = sub x, y; yield z";

#[test]
fn every_match_is_replaced_and_counted() {
    let g = graph(
        "%x: f32[s, 8], %y: f32[s, 8]",
        "%n = neg %y; %a = add %x, %n; %m = neg %x; %b = add %m, %y; %c = mul %a, %b; return %c",
    );
    let (nodes, reports) = replaced(&g, &patterns(SUB), false);
    assert_eq!(nodes, ["sub", "sub", "mul"]);
    assert_eq!((reports[0].times, reports[0].unmatched.clone()), (2, None));
}

#[test]
fn both_orders_of_all_operands_are_tried_together() {
    // The inner sum has to be turned for the outer operand to fit.
    let text = "exact twice: (x: float, y: float) a = add x, y; z = mul a, x; yield z => (x, y) a = add y, x; z = mul x, a; yield z";
    for nodes in ["%a = add %x, %y; %z = mul %a, %y; return %z", "%a = add %x, %y; %z = mul %x, %a; return %z"] {
        assert_eq!(times(&graph("%x: f32[s], %y: f32[s]", nodes), text), 1, "{nodes}");
    }
}

#[test]
fn a_value_that_others_read_is_not_crossed() {
    let read = "%n = neg %y; %a = add %x, %n; %b = exp %n; %c = mul %a, %b; return %c";
    let near = miss(&graph("%x: f32[s], %y: f32[s]", read), SUB);
    assert_eq!((near.matched, near.nodes), (2, 2));
    assert_eq!(near.expected, "no reader of `n` outside, or `yield n`");
    assert_eq!(near.found, "`exp` that reads it too");
    let returned = "%n = neg %y; %a = add %x, %n; return %a, %n";
    let near = miss(&graph("%x: f32[s], %y: f32[s]", returned), SUB);
    assert_eq!(near.found, "an output of the graph");
    let both = "exact both: (x: float, y: float) n = neg y; z = add x, n; yield z, n \
                => (x, y) n = neg y; z = sub x, y; yield z, n";
    let (nodes, reports) = replaced(&graph("%x: f32[s], %y: f32[s]", read), &patterns(both), false);
    assert_eq!((nodes.len(), reports[0].times), (4, 1));
    assert!(nodes.contains(&"sub".to_owned()) && !nodes.contains(&"add".to_owned()), "{nodes:?}");
}

#[test]
fn outputs_without_a_common_reader_are_found() {
    let text = "exact pair: (x: float, y: float, z: float) a = mul x, y; b = mul x, z; yield a, b \
                => (x, y, z) a = mul y, x; b = mul z, x; yield a, b where y != z";
    let g = graph("%x: f32[s], %y: f32[s], %z: f32[s]", "%a = mul %x, %y; %b = mul %x, %z; return %a, %b");
    assert_eq!(times(&g, text), 1);
    // One product is not two.
    let one = graph("%x: f32[s], %y: f32[s]", "%a = mul %x, %y; %b = exp %a; return %b");
    assert_eq!(times(&one, text), 0);
}

#[test]
fn guards_decide() {
    let lanes = |n: u32| graph(&format!("%x: f32[s, {n}], %y: f32[s, {n}]"), "%n = neg %y; %a = add %x, %n; return %a");
    let alike = graph("%x: f32[s, 8]", "%n = neg %x; %a = add %x, %n; return %a");
    for (guard, graph, holds) in [
        ("x != y", lanes(8), true),
        ("x != y", alike, false),
        ("dim(x, -1) % 8 == 0", lanes(16), true),
        ("dim(x, -1) % 8 == 0", lanes(12), false),
        ("dim(x, 0) >= 1", lanes(8), true),
        ("dim(x, 0) >= 2", lanes(8), false),
        ("dim(x, 0) == dim(y, 0), dim(x, 1) != 9", lanes(8), true),
        ("rank(z) == 2, rank(x) < 3", lanes(8), true),
        ("dim(x, 2) == 3", lanes(8), false),
        ("shape(x) == shape(y)", lanes(8), true),
        ("dtype(n) == f32", lanes(8), true),
        ("dtype(n) != f32", lanes(8), false),
    ] {
        // What is guarded away from all sampled operands needs a sample.
        let sample = if holds { "sample x: f32[4, 16], y: f32[4, 16]" } else { "" };
        let text = format!("{SUB} where {guard} {sample}");
        match UserPatterns::parse(&text) {
            Ok(patterns) => assert_eq!(replaced(&graph, &patterns, false).1[0].times == 1, holds, "{guard}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn guards_look_at_attributes() {
    let text = |guard: &str| {
        format!(
            "exact norm: (x: bf16, w: bf16) y = rms_norm x, w {{eps = $e, round = $r}}; z = neg y; n = neg z; yield n \
             => (x, w) y = rms_norm x, w {{eps = $e, round = $r}}; yield y where {guard}"
        )
    };
    let g = graph(
        "%x: bf16[s, 64], %w: bf16[64]",
        "%y = rms_norm %x, %w {eps = 1e-6, round = once}; %z = neg %y; %n = neg %z; return %n",
    );
    for (guard, holds) in [("$e <= 1e-5", true), ("$e > 1e-5", false), ("$r == once", true), ("$e == 1e-6", true)] {
        let sample = " sample x: bf16[4, 64], w: bf16[64], $e = 2e-5, $r = once";
        let patterns = patterns(&(text(guard) + sample));
        assert_eq!(replaced(&g, &patterns, false).1[0].times == 1, holds, "{guard}");
    }
}

#[test]
fn a_guard_in_rust_is_part_of_the_key() {
    let pattern = || UserPattern::parse(SUB).unwrap_or_else(|e| panic!("{e}"));
    let mut narrow = UserPatterns::default();
    let short = |found: &crate::rewrites::Found<'_>| found.ty("x").is_some_and(|ty| ty.rank() < 2);
    narrow.add(pattern().guard("short", short)).unwrap_or_else(|e| panic!("{e}"));
    let nodes = "%n = neg %y; %a = add %x, %n; return %a";
    assert_eq!(replaced(&graph("%x: f32[s], %y: f32[s]", nodes), &narrow, false).1[0].times, 1);
    let (_, reports) = replaced(&graph("%x: f32[s, 8], %y: f32[s, 8]", nodes), &narrow, false);
    let near = near(&reports[0]);
    assert_eq!((near.expected.as_str(), near.matched), ("`short`", 2));
    let key = |patterns: UserPatterns| {
        let mut pipeline = Pipeline::default();
        pipeline.set_patterns(patterns);
        pipeline.key(false)
    };
    let keys = [UserPatterns::default(), patterns(SUB), narrow].map(key);
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2]);
}

#[test]
fn a_near_miss_names_the_first_node_that_breaks_it() {
    let norm = "exact scaled: (x: bf16, w: bf16) y = rms_norm x, w {eps = 1e-5, round = once}; n = neg y; z = abs n; yield z \
                => (x, w) y = rms_norm x, w {eps = 1e-5, round = once}; z = abs y; yield z";
    let on = |dtype: &str, nodes: &str| miss(&graph(&format!("%x: {dtype}[s, 64], %w: {dtype}[64]"), nodes), norm);
    for (dtype, nodes, matched, expected, found) in [
        ("bf16", "%y = exp %x; return %y", 0, "`rms_norm`, `neg`, `abs`", "no such op in the graph"),
        (
            "bf16",
            "%y = rms_norm %x, %w {eps = 1e-6, round = once}; %n = neg %y; %z = abs %n; return %z",
            2,
            "`rms_norm` with eps = 1e-5",
            "eps = 1e-6",
        ),
        (
            "f16",
            "%y = rms_norm %x, %w {eps = 1e-5, round = once}; %n = neg %y; %z = abs %n; return %z",
            3,
            "`x` of bf16",
            "f16",
        ),
        (
            "bf16",
            "%y = rms_norm %x, %w {eps = 1e-5, round = once}; %n = neg %y; %z = exp %n; return %z",
            2,
            "`abs` that reads `n`",
            "`exp`",
        ),
        (
            "bf16",
            "%y = rms_norm %x, %w {eps = 1e-5, round = once}; return %y",
            1,
            "`neg` that reads `y`",
            "an output of the graph",
        ),
        ("bf16", "%y = exp %x; %n = neg %y; %z = abs %n; return %z", 2, "`rms_norm`", "`exp`"),
        ("bf16", "%n = neg %x; %z = abs %n; return %z", 2, "`rms_norm`", "an input of the graph"),
    ] {
        let near = on(dtype, nodes);
        assert_eq!((near.matched, near.nodes), (matched, 3), "{near}");
        assert_eq!((near.expected.as_str(), near.found.as_str()), (expected, found), "{nodes}");
    }
    let same = "exact same: (x: float) a = neg x; z = mul a, x; yield z => (x) a = mul x, x; z = neg a; yield z";
    let near = miss(&graph("%x: f32[s], %y: f32[s]", "%a = neg %x; %z = mul %a, %y; return %z"), same);
    assert_eq!((near.matched, near.expected.as_str()), (2, "the value that `x` stands for"));
    let half = "exact half: (x: float) y = mul x, 0.5; yield y => (x) y = div x, 2; yield y";
    let near = miss(&graph("%x: f32[s]", "%c = literal f32 0.25; %y = mul %x, %c; return %y"), half);
    assert_eq!((near.matched, near.expected.as_str(), near.found.as_str()), (1, "the constant 0.5", "f32 0.25"));
}

#[test]
fn of_equally_near_places_the_one_with_more_of_the_pattern_around_is_told() {
    let gate = "exact gate: (x: float, y: float) a = tanh x; l = neg y; z = mul a, l; yield z \
                => (x, y) a = tanh x; p = mul a, y; z = neg p; yield z";
    let g = graph(
        "%x: f32[s], %y: f32[s]",
        "%u = mul %x, %y; %v = mul %u, %x; %a = erf %v; %l = neg %y; %z = mul %a, %l; %w = mul %z, %x; return %w",
    );
    let near = miss(&g, gate);
    assert_eq!((near.expected.as_str(), near.found.as_str()), ("`tanh`", "`erf`"), "{near}");
    // Nothing tells these apart but their order.
    let g = graph("%x: f32[s], %y: f32[s]", "%u = mul %x, %y; %v = mul %u, %x; return %v");
    assert_eq!(miss(&g, gate).origin.as_deref(), Some("input `x`"));
}

#[test]
fn the_order_of_operands_that_does_not_match_is_no_reason() {
    let pattern = "exact p: (x: f32) y = mul x, 3; n = neg y; yield n => (x) n = mul x, -3; yield n";
    for product in ["mul %x, %k", "mul %k, %x"] {
        let nodes = format!("%k = literal f32 3.0; %a = {product}; %e = exp %a; return %e");
        let near = miss(&graph("%x: f32[s, 4]", &nodes), pattern);
        let said = (near.matched, near.expected.as_str(), near.found.as_str());
        assert_eq!(said, (1, "`neg` that reads `y`", "`exp`"), "{near}");
    }
}

#[test]
fn a_guard_that_fails_says_what_it_saw_and_where() {
    let g = graph("%x: f32[s, 64]", "%a = neg %x; %b = abs %a; return %b");
    for (guard, said) in [
        ("dim(x, 1) % 128 == 0", "expected `dim(x, 1) % 128 == 0`, found `x` of f32[s, 64], at `b`"),
        ("dim(x, 0) <= 4", "expected `dim(x, 0) <= 4`, found `x` of f32[s, 64], at `b`"),
        ("shape(x) == shape(z), rank(z) == 3", "expected `rank(z) == 3`, found `z` of f32[s, 64], at `b`"),
        (
            "dim(x, 0) == dim(z, 1)",
            "expected `dim(x, 0) == dim(z, 1)`, found `x` of f32[s, 64] and `z` of f32[s, 64], at `b`",
        ),
    ] {
        let text = format!(
            "exact p: (x: f32) y = neg x; z = abs y; yield z => (x) z = abs x; yield z where {guard} \
             sample x: f32[4, 128] sample x: f32[4, 4] sample x: f32[4, 4, 4]"
        );
        assert_eq!(miss(&g, &text).to_string(), format!("2 of 2 nodes match; {said}"));
    }
}

#[test]
fn the_origin_of_the_breaking_node_is_told() {
    let g = graph("%x: f32[s], %y: f32[s]", "%n = abs %y @\"layer/abs\"; %a = add %x, %n @\"layer/add\"; return %a");
    let near = miss(&g, SUB);
    assert_eq!(near.origin.as_deref(), Some("layer/abs"), "{near}");
    assert_eq!(near.to_string(), "1 of 2 nodes match; expected `neg`, found `abs`, at layer/abs");
}

#[test]
fn a_replacement_waits_for_its_operands_and_never_for_itself() {
    let both = "exact both: (x: float, y: float, w: float) s = neg x; z = mul s, w; yield s, z \
                => (x, y, w) s = neg x; z = mul w, s; yield s, z";
    let text = both.replace(", y: float", "").replace("(x, y, w)", "(x, w)");
    // `w` is computed behind the node that yields first.
    let late = graph("%x: f32[s], %v: f32[s]", "%s = neg %x; %w = exp %v; %z = mul %s, %w; return %s, %z");
    let found = UserPatterns::parse(&text).unwrap_or_else(|e| panic!("{e}"));
    let (_, reports) = replaced(&late, &found, false);
    assert_eq!(reports[0].times, 1);
    // Here it is computed from what the pattern yields.
    let circle = graph("%x: f32[s]", "%s = neg %x; %w = exp %s; %z = mul %s, %w; return %s, %z");
    let near = miss(&circle, &text);
    assert_eq!(near.found, "an operand that does");
}

#[test]
fn fast_patterns_wait_for_relaxed_mode() {
    let text = "fast merge: (x: f32) y = cast x {to = bf16}; z = cast y {to = f32}; yield z => (x) yield x";
    let g = graph("%x: f32[s]", "%y = cast %x {to = bf16}; %z = cast %y {to = f32}; return %z");
    let (nodes, reports) = replaced(&g, &patterns(text), false);
    assert_eq!((nodes.len(), reports[0].unmatched.clone()), (2, Some(Unmatched::NeedsRelaxed)));
    let (nodes, reports) = replaced(&g, &patterns(text), true);
    assert!(nodes.is_empty() && reports[0].unmatched.is_none() && reports[0].times == 1);
}

#[test]
fn several_results_of_one_node_match_by_place() {
    let text = "exact swap: (x: f32) v, i = top_k x {k = 2, ..}; n = neg v; a = abs n; yield a, i \
                => (x) v, i = top_k x {k = 2}; a = abs v; yield a, i";
    let sample = format!("{} sample x: f32[4, 8]", text.replace(", ..", ""));
    let g = |last: &str| {
        graph("%x: f32[s, 8]", &format!("%v, %i = top_k %x {{k = 2}}; %n = neg %v; %a = abs %n; return %a, {last}"))
    };
    let (nodes, reports) = replaced(&g("%i"), &patterns(&sample), false);
    assert_eq!((nodes, reports[0].times), (vec!["top_k".to_owned(), "abs".to_owned()], 1));
}

#[test]
fn the_pass_stops_where_bisection_says() {
    let g = graph("%x: f32[s]", "%a = neg %x; %b = neg %a; %c = exp %b; %d = neg %c; %e = neg %d; return %e");
    let text = "exact twice: (x) y = neg x; z = neg y; yield z => (x) yield x";
    for fuel in 0..3 {
        let mut cx = Cx { fuel: Some(fuel), patterns: patterns(text), ..Cx::default() };
        assert_eq!(run(&g, &mut cx).expect("runs").1.changed, fuel);
    }
}

#[test]
fn patterns_meet_composites_in_every_spelling_and_can_be_switched_off() {
    let text =
        "exact even: (x: f32) a = abs x; y = sigmoid a; yield y => (x) b = abs x; a = abs b; y = sigmoid a; yield y";
    let spelled =
        "%a = abs %x; %n = neg %a; %e = exp %n; %c = literal f32 1; %d = add %c, %e; %y = div %c, %d; return %y";
    let g = graph("%x: f32[s, 8]", spelled);
    let mut pipeline = Pipeline::default();
    pipeline.set_patterns(patterns(text));
    for on in [true, false] {
        pipeline.switch("patterns", on).expect("it is optional");
        let mut cx = Cx::default();
        PassManager::new(pipeline.clone()).run(&g, &mut cx, &mut [&mut Verify]).expect("runs");
        let [report] = cx.pattern_reports.as_slice() else { panic!("{:?}", cx.pattern_reports) };
        let unmatched = if on { None } else { Some(Unmatched::Off) };
        assert_eq!((report.times, report.unmatched.clone()), (usize::from(on), unmatched));
    }
    let early = PIPELINE.iter().copied().filter(|p| p.name != "patterns");
    let early = PIPELINE.iter().copied().filter(|p| p.name == "patterns").chain(early);
    let error = Pipeline::new(early.map(Stage::new).collect()).expect_err("it comes too early").to_string();
    assert!(error.contains("`patterns` may not come before `raise`"), "{error}");
}
