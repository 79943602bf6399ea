//! Attention and block quantisers of vendors, by shapes and by numbers.

use super::{meta, model_json, packed};
use crate::diag::Diagnostic;
use crate::graph::Graph;
use crate::import::pt2;
use crate::interp::{self, Symbols};
use crate::tensor::Tensor;
use crate::{DType, Op, Prim};

/// A model of one node on inputs of the given dtypes and sizes.
pub(super) fn one_node(
    inputs: &[(&str, i64, &[i64])],
    node: &str,
    results: &[(&str, i64, &[i64])],
) -> Result<Graph, Diagnostic> {
    pt2(&packed(&[("models/model.json", one_node_json(inputs, node, results).as_bytes())]).into())
}

/// The same as text.
pub(super) fn one_node_json(inputs: &[(&str, i64, &[i64])], node: &str, results: &[(&str, i64, &[i64])]) -> String {
    let contiguous = |sizes: &[i64]| (0..sizes.len()).map(|i| sizes[i + 1..].iter().product()).collect::<Vec<i64>>();
    let ty = |(name, dtype, sizes): &(&str, i64, &[i64])| {
        format!(r#""{name}":{}"#, meta(*dtype, sizes, &contiguous(sizes), 0))
    };
    let value = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
    let specs: Vec<String> = inputs.iter().map(|i| format!(r#"{{"user_input":{{"arg":{}}}}}"#, value(i.0))).collect();
    let types: Vec<String> = inputs.iter().chain(results).map(ty).collect();
    let outputs: Vec<String> =
        results.iter().map(|r| format!(r#"{{"user_output":{{"arg":{}}}}}"#, value(r.0))).collect();
    let names: Vec<String> = results.iter().map(|r| value(r.0)).collect();
    let node = format!(r#"{{{node},"outputs":[{}],"name":"n"}}"#, names.join(","));
    model_json(&specs.join(","), &node, &types.join(","), &outputs.join(","))
}

pub(super) fn argument(name: &str, value: &str) -> String {
    format!(r#"{{"name":"{name}","arg":{value}}}"#)
}

pub(super) fn tensor(name: &str, of: &str) -> String {
    argument(name, &format!(r#"{{"as_tensor":{{"name":"{of}"}}}}"#))
}

pub(super) fn call(target: &str, arguments: &[String]) -> String {
    format!(r#""target":"torch.ops.{target}","inputs":[{}]"#, arguments.join(","))
}

fn sdpa(extra: &[String]) -> String {
    let mut arguments = vec![tensor("query", "q"), tensor("key", "k"), tensor("value", "v")];
    arguments.extend_from_slice(extra);
    call("aten.scaled_dot_product_attention.default", &arguments)
}

/// The operands of the only attention of a graph, as shapes.
#[track_caller]
fn attention_shapes(graph: &Graph) -> Vec<String> {
    let mut found = graph.nodes().iter().filter(|n| matches!(n.op, Op::Prim(Prim::Sdpa(_))));
    let node = found.next().expect("attention");
    assert!(found.next().is_none());
    node.operands.iter().map(|&v| graph.ty(v).to_string()).collect()
}

#[test]
fn operands_of_attention_have_four_axes_and_masks_broadcast() {
    let heads: (&[i64], &[i64]) = (&[2, 4, 3, 8], &[2, 2, 5, 8]);
    let gqa = argument("enable_gqa", r#"{"as_bool":true}"#);
    let graph = one_node(
        &[("q", 7, heads.0), ("k", 7, heads.1), ("v", 7, heads.1), ("m", 12, &[3, 5])],
        &sdpa(&[tensor("attn_mask", "m"), gqa]),
        &[("y", 7, heads.0)],
    );
    let shapes = attention_shapes(&graph.expect("a graph"));
    assert_eq!(shapes, ["f32[2, 4, 3, 8]", "f32[2, 2, 5, 8]", "f32[2, 2, 5, 8]", "bool[3, 5]"]);
    // Three axes: the first is the heads. The key has one head, which stretches.
    let graph = one_node(
        &[("q", 7, &[4, 3, 8]), ("k", 7, &[1, 5, 8]), ("v", 7, &[1, 5, 6]), ("m", 7, &[4, 1, 5])],
        &sdpa(&[tensor("attn_mask", "m")]),
        &[("y", 7, &[4, 3, 6])],
    );
    let shapes = attention_shapes(&graph.expect("a graph"));
    assert_eq!(shapes, ["f32[1, 4, 3, 8]", "f32[1, 4, 5, 8]", "f32[1, 4, 5, 6]", "f32[1, 4, 3, 5]"]);
}

#[test]
fn calls_of_attention_that_are_not_understood_stay_opaque_with_a_reason() {
    let shape: &[i64] = &[1, 2, 3, 8];
    let inputs = [("q", 7, shape), ("k", 7, shape), ("v", 7, shape), ("m", 4, &[3, 3][..])];
    let both = [tensor("attn_mask", "m"), argument("is_causal", r#"{"as_bool":true}"#)];
    for (extra, reason) in [
        (both.to_vec(), "a mask beside the causal one"),
        (vec![tensor("attn_mask", "m")], "a mask of i32"),
        (vec![argument("dropout_p", r#"{"as_float":0.5}"#)], "dropout"),
    ] {
        let graph = one_node(&inputs, &sdpa(&extra), &[("y", 7, shape)]).expect("a graph");
        let Op::Prim(Prim::Opaque { attrs, .. }) = &graph.nodes()[0].op else { panic!("{reason}") };
        assert!(attrs.contains(&("reason".to_owned(), reason.to_owned())), "{attrs:?}");
    }
}

#[test]
fn a_layer_of_vllm_is_causal_attention_by_its_head_width() {
    let layer = |name: &str| {
        let arguments = [tensor("query", "q"), tensor("key", "k"), tensor("value", "v")];
        let name = argument("layer_name", &format!(r#"{{"as_string":"{name}"}}"#));
        let arguments: Vec<String> = arguments.into_iter().chain([name]).collect();
        let inputs: [(&str, i64, &[i64]); 3] = [("q", 13, &[5, 32]), ("k", 13, &[5, 16]), ("v", 13, &[5, 16])];
        let node = call("vllm.unified_attention.default", &arguments);
        one_node(&inputs, &node, &[("y", 13, &[5, 32])]).expect("a graph")
    };
    let graph = layer("layers.0.attn:8");
    assert_eq!(attention_shapes(&graph), ["bf16[1, 4, 5, 8]", "bf16[1, 2, 5, 8]", "bf16[1, 2, 5, 8]"]);
    assert!(graph.nodes().iter().any(|n| matches!(&n.op, Op::Prim(Prim::Sdpa(s)) if s.causal)));
    assert!(matches!(layer("layers.0.attn").nodes()[0].op, Op::Prim(Prim::Opaque { .. })));
}

/// Attention that writes into an argument, with the arguments behind the layer's name; its reason if it stays opaque.
fn with_output(dtype: i64, extra: &[String]) -> Result<Graph, String> {
    let layer = argument("layer_name", r#"{"as_string":"layers.0.attn:8"}"#);
    let arguments = [tensor("query", "q"), tensor("key", "k"), tensor("value", "v"), tensor("output", "y"), layer];
    let given = [&arguments[..], extra].concat();
    let inputs = [
        ("q", 13, &[5, 32][..]),
        ("k", 13, &[5, 16]),
        ("v", 13, &[5, 16]),
        ("y", dtype, &[5, 4, 8]),
        ("s", 7, &[1]),
        ("b", 29, &[5, 4]),
    ];
    let graph = one_node(&inputs, &call("vllm.unified_attention_with_output.default", &given), &[]).expect("a graph");
    crate::verify::verify(&graph).expect("a valid graph");
    match graph
        .nodes()
        .iter()
        .find_map(|node| if let Op::Prim(Prim::Opaque { attrs, .. }) = &node.op { Some(attrs) } else { None })
    {
        None => Ok(graph),
        Some(attrs) => {
            Err(attrs.iter().find(|(name, _)| name == "reason").map_or_else(String::new, |(_, r)| r.clone()))
        }
    }
}

#[test]
fn attention_into_an_argument_is_rounded_once_to_codes_where_a_scale_is_given() {
    let plain = with_output(13, &[]).expect("taken apart");
    assert_eq!(attention_shapes(&plain), ["bf16[1, 4, 5, 8]", "bf16[1, 2, 5, 8]", "bf16[1, 2, 5, 8]"]);
    assert_eq!(plain.outputs()[0].updates.as_deref(), Some("y"));
    let scale = [tensor("output_scale", "s")];
    let codes = with_output(29, &scale).expect("taken apart");
    assert_eq!(attention_shapes(&codes), ["f32[1, 4, 5, 8]", "f32[1, 2, 5, 8]", "f32[1, 2, 5, 8]"]);
    assert_eq!(codes.nodes().last().map(|n| n.op.name()), Some("quantize_static"));
    let types = "`output`: bf16[5, 4, 8], where the op writes f8e4m3[5, 4, 8]";
    assert_eq!(with_output(13, &scale).expect_err("no codes"), types);
    let blocks = [scale[0].clone(), tensor("output_block_scale", "b")];
    assert_eq!(
        with_output(29, &blocks).expect_err("not known"),
        "`output_block_scale` is f8e4m3[5, 4]: a scale per block"
    );
}

/// Scales in row order and in tiles, of 130 rows of five blocks.
#[test]
fn swizzled_scales_lie_where_the_formula_says() {
    let (rows, blocks) = (130usize, 5usize);
    let lanes = blocks * 16;
    let run = |arguments: &[String], scales: (i64, &[i64])| {
        let inputs: [(&str, i64, &[i64]); 2] = [("x", 7, &[130, 80]), ("s", 7, &[])];
        let node = call("_C.scaled_fp4_quant.default", arguments);
        let graph = one_node(&inputs, &node, &[("q", 1, &[130, 40]), ("sf", scales.0, scales.1)]).expect("a graph");
        crate::verify::verify(&graph).expect("a valid graph");
        let x = (0..rows * lanes).map(|i| ((i / 16) % 97) as f64 + 1.0).collect();
        let x = Tensor::from_f64(DType::F32, &[rows, lanes], x).expect("a tensor");
        let s = Tensor::from_f64(DType::F32, &[], vec![1.0]).expect("a tensor");
        let results = interp::run(&graph, &[x, s], &Symbols::new()).expect("has a value");
        (results[0].to_bytes(), results[1].to_bytes())
    };
    let given = [tensor("input", "x"), tensor("input_scale", "s")];
    let flag = |on: bool| argument("is_sf_swizzled_layout", &format!(r#"{{"as_bool":{on}}}"#));
    let plain = run(&[given.to_vec(), vec![flag(false)]].concat(), (29, &[130, 5]));
    let tiled = run(&[given.to_vec(), vec![flag(true)]].concat(), (4, &[256, 2]));
    assert_eq!(plain.0, tiled.0);
    let mut expected = vec![0; 256 * 8];
    for m in 0..rows {
        for k in 0..blocks {
            let tile = (m >> 7) * 2 + (k >> 2);
            expected[(tile << 9) | ((m & 31) << 4) | (((m >> 5) & 3) << 2) | (k & 3)] = plain.1[m * blocks + k];
        }
    }
    assert_eq!(tiled.1, expected);
}
