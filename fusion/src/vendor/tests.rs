//! Which regions each op replaces, and near twins that it must not.

use fusewright_graph::Graph;

use super::{Replaced, replaced};
use crate::pass::{Cx, PassManager, Pipeline};
use crate::patterns::name_regions;
use crate::region::{Limits, partition};

/// The replacements in a graph with every op on.
fn all(text: &str, relaxed: bool) -> Replaced {
    with(text, "all", relaxed)
}

fn with(text: &str, op: &str, relaxed: bool) -> Replaced {
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut pipeline = Pipeline::default();
    pipeline.switch_vendor_op(op, true).unwrap_or_else(|e| panic!("{e}"));
    let mut cx = Cx { relaxed, ..Cx::default() };
    let (graph, _) = PassManager::new(pipeline.clone()).run(&graph, &mut cx, &mut []).unwrap_or_else(|e| panic!("{e}"));
    let mut partition = partition(&graph, &Limits::default());
    name_regions(&graph, &mut partition);
    replaced(&partition, &pipeline, relaxed)
}

#[track_caller]
fn calls(text: &str) -> Vec<String> {
    all(text, false).calls.values().map(ToString::to_string).collect()
}

fn graph(params: &str, body: &str) -> String {
    format!("graph @g(s: 1..; {params}) {{\n{body}\n}}")
}

const ROWS: &str = "%x: f16[s, 64], %r: f16[s, 64], %w: f16[64]";
const NORM: &str =
    "  %h = add %x, %r\n  %y = rms_norm %h, %w {eps = 1e-5, round = before_weight, mean = parts, root = inverse}\n";

#[test]
fn the_norm_of_a_sum_is_the_op_that_rounds_alike() {
    let text = graph(ROWS, &format!("{NORM}  return %y, %h"));
    let expected = "out1, _, out0 = torch_npu.npu_add_rms_norm(x1=x0, x2=x1, gamma=x2, epsilon=1e-5)";
    let found = calls(&text);
    assert_eq!(found.len(), 1, "{found:?}");
    let swapped = expected.replace("out1, _, out0", "out0, _, out1");
    assert!(found[0] == expected || found[0] == swapped, "{}", found[0]);
    // A norm that rounds once, of another mean or another epsilon in the same place.
    for (from, to) in [("before_weight", "once"), ("mean = parts, ", ""), (", root = inverse", "")] {
        let other = all(&text.replace(from, to), false);
        assert!(other.calls.is_empty(), "{to}: {other:?}");
    }
}

#[test]
fn what_differs_in_roundings_alone_is_said_and_taken_in_relaxed_mode() {
    let text = graph(ROWS, &format!("{}  return %y, %h", NORM.replace("before_weight", "once")));
    let found = with(&text, "npu_add_rms_norm", false);
    assert!(found.calls.is_empty());
    assert_eq!(found.reports[0].but_for_rounding, [0], "{found:?}");
    assert_eq!(with(&text, "npu_add_rms_norm", true).calls.len(), 1);
}

#[test]
fn quantisers_behind_norms_are_one_op() {
    let params = format!("{ROWS}, %k: f32[64]");
    for (apply, mode) in [("divide", "True"), ("multiply", "False")] {
        let codes = format!("  %q = quantize_static %y, %k {{codes = i8, apply = {apply}, bound = 127}}\n");
        let found = calls(&graph(&params, &format!("{NORM}{codes}  return %q, %h")));
        assert_eq!(found.len(), 1, "{apply}: {found:?}");
        assert!(
            found[0].contains("npu_add_rms_norm_quant(") && found[0].contains(&format!("div_mode={mode}")),
            "{}",
            found[0]
        );
    }
}

#[test]
fn codes_of_a_token_and_gates_are_found() {
    let codes = "  %q, %scale = quantize_dynamic %x {codes = i8, bound = 127, scale = inverse, apply = factor, nan = skip}\n  return %q, %scale";
    let found = calls(&graph("%x: f16[s, 64]", codes));
    assert_eq!(found, ["out0, out1 = torch_npu.npu_dynamic_quant(input=x0)"]);
    let gate = "  %a = slice %x {axis = 1, start = 0, end = 32}\n  %b = slice %x {axis = 1, start = 32, end = 64}\n  %af = cast %a {to = f32}\n  \
                %bf = cast %b {to = f32}\n  %c = silu %af {form = quotient}\n  %d = mul %c, %bf\n  %y = cast %d {to = f16}\n  return %y";
    assert_eq!(calls(&graph("%x: f16[s, 64]", gate)), ["out0 = torch_npu.npu_swiglu(self=x0)"]);
}

#[test]
fn nothing_is_replaced_unless_it_is_switched_on() {
    let text = graph(ROWS, &format!("{NORM}  return %y, %h"));
    let parsed: Graph = text.parse().expect("parses");
    let found = replaced(&partition(&parsed, &Limits::default()), &Pipeline::default(), false);
    assert_eq!(found, Replaced::default());
    assert!(with(&text, "npu_rotary_mul", false).calls.is_empty());
    let error = Pipeline::default().switch_vendor_op("npu_norm", true).expect_err("no such op").to_string();
    assert!(error.contains("npu_norm") && error.contains("npu_add_rms_norm_quant"), "{error}");
    let file = Pipeline::from_toml("vendor_ops = [\"npu_rotary_mul\", \"npu_swiglu\"]").expect("a pipeline");
    assert_eq!(file.vendor_ops().iter().copied().collect::<Vec<_>>(), ["npu_rotary_mul", "npu_swiglu"]);
    assert_ne!(file.key(false), Pipeline::default().key(false));
}

#[test]
fn gates_with_codes_and_rotations_are_found() {
    let gate = "  %xf = cast %x {to = f32}\n  %a = slice %xf {axis = 1, start = 0, end = 32}\n  %b = slice %xf {axis = 1, start = 32, end = 64}\n  \
                %c = silu %a {form = quotient}\n  %d = mul %c, %b\n  \
                %q, %k = quantize_dynamic %d {codes = i8, bound = 127, scale = factor, apply = factor, nan = skip}\n  return %q, %k";
    let found = calls(&graph("%x: bf16[s, 64]", gate));
    let expected = "out0, out1 = torch_npu.npu_swiglu_quant(x=x0, activate_left=True, quant_mode=1)";
    assert_eq!(found, [expected]);
    let right = gate.replace("silu %a", "silu %b").replace("mul %c, %b", "mul %c, %a");
    assert_eq!(
        calls(&graph("%x: bf16[s, 64]", &right)),
        [expected.replace("activate_left=True", "activate_left=False")]
    );
    // The inverse of the factor is not what this op returns.
    assert!(calls(&graph("%x: bf16[s, 64]", &gate.replace("scale = factor", "scale = inverse"))).is_empty());
    let turn = "  %xf = cast %x {to = f32}\n  %cf = cast %c {to = f32}\n  %nf = cast %n {to = f32}\n  %t = rope_neox %xf, %cf, %nf\n  \
                %y = cast %t {to = bf16}\n  return %y";
    let params = "%x: bf16[s, 4, 64], %c: bf16[s, 1, 64], %n: bf16[s, 1, 64]";
    assert_eq!(
        calls(&graph(params, turn)),
        ["out0 = torch_npu.npu_rotary_mul(self=x0, r1=x1, r2=x2, rotary_mode='half')"]
    );
}

/// What each op says of the regions of a graph that it does not replace.
fn nears(text: &str, op: &str) -> Vec<String> {
    with(text, op, false).reports[0].near.values().map(ToString::to_string).collect()
}

/// bf16 that is rounded between a norm and its codes is not what the fused op computes, whose norm is not rounded.
#[test]
fn what_a_graph_rounds_between_ops_is_named() {
    let text = |between: &str| {
        let body = format!(
            "  %a = cast %x {{to = f32}}\n  %b = cast %r {{to = f32}}\n  %z = add %a, %b\n  %h = cast %z {{to = bf16}}\n  \
             %y = rms_norm %z, %w {{eps = 1e-6, round = {between}, mean = parts, root = inverse}}\n  \
             %q = quantize_static %y, %k {{codes = i8, apply = divide, bound = 127}}\n  return %q, %h"
        );
        graph("%x: bf16[s, 64], %r: bf16[s, 64], %w: bf16[64], %k: f32[64]", &body)
    };
    let found = nears(&text("before_weight"), "npu_add_rms_norm_quant");
    let [said] = found.as_slice() else { panic!("{found:?}") };
    assert!(said.contains("gives out0, out1, if roundings do not count; the graph rounds more at"), "{said}");
    // The norm and the sum are those of the op that quantises nothing.
    let found = nears(&text("before_weight"), "npu_add_rms_norm");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("the op gives out") && found[0].contains(", not out"), "{}", found[0]);
    assert!(nears(&text("before_weight"), "npu_swiglu").is_empty());
}

/// The scale of one op is the inverse of the factor, that of another the factor.
#[test]
fn another_scale_is_another_result() {
    let gate = "  %xf = cast %x {to = f32}\n  %a = slice %xf {axis = 1, start = 0, end = 32}\n  %b = slice %xf {axis = 1, start = 32, end = 64}\n  \
                %c = silu %a {form = quotient}\n  %d = mul %c, %b\n  \
                %q, %k = quantize_dynamic %d {codes = i8, bound = 127, scale = inverse, apply = factor, nan = skip}\n  return %q, %k";
    let text = graph("%x: bf16[s, 64]", gate);
    assert_eq!(nears(&text, "npu_swiglu_quant"), ["the op gives out0, not out1"]);
    let replaced = with(&text.replace("scale = inverse", "scale = factor"), "npu_swiglu_quant", false);
    assert!(replaced.calls.len() == 1 && replaced.reports[0].near.is_empty(), "{replaced:?}");
}
