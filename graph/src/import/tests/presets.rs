//! Vendors' ops are composites with the attributes of their kernels.

use super::attention::{argument, call, one_node, tensor};
use super::{meta, model_json, packed};
use crate::graph::{Graph, Op};
use crate::import::pt2;

const BF16: i64 = 13;
const F32: i64 = 7;
const I8: i64 = 2;
const F8: i64 = 29;

/// The composites of a graph with their attributes.
pub(super) fn composites(graph: &Graph) -> Vec<String> {
    let mut found = Vec::new();
    for node in graph.nodes() {
        if let Op::Composite(composite) = &node.op {
            let attrs = composite.attrs().0.iter().map(|(k, v)| format!(" {k}={v}")).collect::<String>();
            found.push(format!("{}{attrs}", composite.name()));
        }
    }
    found
}

/// A functionalised call of a vLLM op that overwrites one argument, `q` of `q_type` sizes [4, 8].
fn overwriting(op: &str, arguments: &[String], q_type: i64) -> Graph {
    let value = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
    let node = format!(
        r#"{{"target":"torch.ops.higher_order.auto_functionalized","inputs":[
        {{"name":"","arg":{{"as_operator":"torch.ops._C.{op}.default"}}}},{}],
        "outputs":[{{"as_none":true}},{}],"name":"f"}}"#,
        arguments.join(","),
        value("y")
    );
    let inputs = ["x", "q", "s", "z"].map(|name| format!(r#"{{"user_input":{{"arg":{}}}}}"#, value(name)));
    let (row, one) = (|dtype| meta(dtype, &[4, 8], &[8, 1], 0), |dtype| meta(dtype, &[1], &[1], 0));
    let types = format!(r#""x":{},"q":{},"y":{},"s":{},"z":{}"#, row(BF16), row(q_type), row(q_type), one(F32), one(4));
    let json = model_json(&inputs.join(","), &node, &types, &format!(r#"{{"user_output":{{"arg":{}}}}}"#, value("y")));
    pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).expect("a graph")
}

#[test]
fn norms_of_ascend_give_what_they_multiply_by() {
    let ascend = "mean=parts root=inverse";
    let (x, w): (&[i64], &[i64]) = (&[4, 8], &[8]);
    let node = call("npu.npu_rms_norm.default", &[tensor("self", "x"), tensor("gamma", "w")]);
    let graph = one_node(&[("x", BF16, x), ("w", BF16, w)], &node, &[("y", BF16, x), ("r", F32, &[4, 1])]);
    let found = composites(&graph.expect("a graph"));
    assert_eq!(found, [format!("rms_norm eps=1e-6 round=once {ascend}"), format!("rms_scale eps=1e-6 {ascend}")]);

    let arguments = [tensor("x1", "x"), tensor("x2", "z"), tensor("gamma", "w")];
    let node = call("npu.npu_add_rms_norm.default", &arguments);
    // bf16 normalises the unrounded sum, f16 the rounded one.
    for (dtype, sum) in [(BF16, "f32[4, 8]"), (6, "f16[4, 8]")] {
        let inputs = [("x", dtype, x), ("z", dtype, x), ("w", dtype, w)];
        let results: &[(&str, i64, &[i64])] = &[("y", dtype, x), ("r", F32, &[4, 1]), ("h", dtype, x)];
        let graph = one_node(&inputs, &node, results).expect("a graph");
        assert_eq!(composites(&graph)[0], format!("rms_norm eps=1e-6 round=before_weight {ascend}"));
        let norm = graph.nodes().iter().find(|n| n.op.name() == "rms_norm").expect("a norm");
        assert_eq!(graph.ty(norm.operands[0]).to_string(), sum);
    }
}

#[test]
fn quantisers_of_ascend_keep_how_they_scale() {
    let x: &[i64] = &[4, 8];
    let node = call("npu.npu_dynamic_quant.default", &[tensor("input", "x")]);
    let graph = one_node(&[("x", BF16, x)], &node, &[("q", I8, x), ("s", F32, &[4])]).expect("a graph");
    assert_eq!(composites(&graph), ["quantize_dynamic codes=i8 bound=127.0 scale=inverse apply=factor nan=skip"]);

    for (divides, apply) in [("true", "divide"), ("false", "multiply")] {
        let mode = argument("div_mode", &format!(r#"{{"as_bool":{divides}}}"#));
        let rest = [argument("dtype", r#"{"as_int":1}"#), argument("axis", r#"{"as_int":1}"#), mode];
        let plain = [tensor("self", "x"), tensor("scales", "s"), argument("zero_points", r#"{"as_none":true}"#)];
        let offset = [tensor("self", "x"), tensor("scales", "s"), tensor("zero_points", "z")];
        let of = |arguments: [String; 3]| {
            let node = call("npu.npu_quantize.default", &[&arguments[..], &rest].concat());
            let inputs: &[(&str, i64, &[i64])] = &[("x", BF16, x), ("s", F32, &[8]), ("z", F32, &[8])];
            composites(&one_node(inputs, &node, &[("q", I8, x)]).expect("a graph"))
        };
        assert_eq!(of(plain), [format!("quantize_static codes=i8 apply={apply} bound=127.0")]);
        assert_eq!(of(offset), [format!("quantize_affine apply={apply} offset=before_rounding bound=127.0")]);
    }
}

#[test]
fn quantisers_of_vllm_keep_their_bounds_and_offsets() {
    let scaled = [tensor("result", "q"), tensor("input", "x"), tensor("scale", "s")];
    let graph = overwriting("static_scaled_fp8_quant", &scaled, F8);
    assert_eq!(composites(&graph), ["quantize_static codes=f8e4m3 apply=reciprocal bound=448.0 nan=high"]);
    let graph = overwriting("static_scaled_int8_quant", &scaled, I8);
    assert_eq!(composites(&graph), ["quantize_static codes=i8 apply=divide bound=127.0"]);
    let graph = overwriting("static_scaled_int8_quant", &[&scaled[..], &[tensor("azp", "z")]].concat(), I8);
    assert_eq!(composites(&graph), ["quantize_affine apply=reciprocal offset=after_rounding bound=127.0"]);
}
