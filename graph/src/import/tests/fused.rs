//! Vendors' fused ops: which composites they are, with the roundings of their kernels, and the order of their results.

use super::attention::{argument, call, one_node, tensor};
use super::presets::composites;
use super::{meta, model_json, packed};
use crate::graph::{Graph, Node, Op};
use crate::import::pt2;
use crate::interp::{self, Symbols};
use crate::prim::Prim;
use crate::tensor::Tensor;
use crate::{DType, verify};

pub(super) const U8: i64 = 1;
pub(super) const I8: i64 = 2;
pub(super) const I32: i64 = 4;
pub(super) const I64: i64 = 5;
pub(super) const F16: i64 = 6;
pub(super) const F32: i64 = 7;
pub(super) const BF16: i64 = 13;
pub(super) const F8: i64 = 29;

pub(super) type Tensors<'a> = &'a [(&'a str, i64, &'a [i64])];

const NORM: &str = "rms_norm eps=1e-6";
const BOUNDS: &str = "bound=448.0 floor=4.359654e-6 floor_of=scale";

/// A functionalised call of a vLLM op that overwrites the last `written` inputs, in the order of its schema.
fn functional(op: &str, inputs: Tensors<'_>, written: usize, arguments: &[String]) -> Graph {
    functional_of(&format!("_C.{op}"), inputs, written, arguments)
}

/// The same of any vendor's op.
pub(super) fn functional_of(op: &str, inputs: Tensors<'_>, written: usize, arguments: &[String]) -> Graph {
    let value = |name: &str| format!(r#"{{"as_tensor":{{"name":"{name}"}}}}"#);
    let results: Vec<String> = (0..written).map(|i| format!("new{i}")).collect();
    let contiguous = |sizes: &[i64]| (0..sizes.len()).map(|i| sizes[i + 1..].iter().product()).collect::<Vec<i64>>();
    let ty = |name: &str, dtype, sizes: &[i64]| format!(r#""{name}":{}"#, meta(dtype, sizes, &contiguous(sizes), 0));
    let given = inputs.iter().map(|(name, dtype, sizes)| ty(name, *dtype, sizes));
    let overwritten = &inputs[inputs.len() - written..];
    let made = results.iter().zip(overwritten).map(|(name, (_, dtype, sizes))| ty(name, *dtype, sizes));
    let types: Vec<String> = given.chain(made).collect();
    let outputs: Vec<String> = results.iter().map(|name| value(name)).collect();
    let node = format!(
        r#"{{"target":"torch.ops.higher_order.auto_functionalized","inputs":[
        {{"name":"","arg":{{"as_operator":"torch.ops.{op}.default"}}}},{}],
        "outputs":[{{"as_none":true}},{}],"name":"f"}}"#,
        arguments.join(","),
        outputs.join(",")
    );
    let specs: Vec<String> = inputs.iter().map(|i| format!(r#"{{"user_input":{{"arg":{}}}}}"#, value(i.0))).collect();
    let returned: Vec<String> = outputs.iter().map(|v| format!(r#"{{"user_output":{{"arg":{v}}}}}"#)).collect();
    let json = model_json(&specs.join(","), &node, &types.join(","), &returned.join(","));
    let graph = pt2(&packed(&[("models/model.json", json.as_bytes())]).into()).expect("a graph");
    verify::verify(&graph).expect("a valid graph");
    let written: Vec<String> = graph.outputs().iter().map(|o| graph.ty(o.value).to_string()).collect();
    let stated: Vec<String> = overwritten
        .iter()
        .map(|(name, ..)| {
            let input = graph.inputs().iter().find(|i| i.name == *name).expect("an input");
            graph.ty(input.value).to_string()
        })
        .collect();
    assert_eq!(written, stated, "{op}");
    graph
}

pub(super) fn names(arguments: &[(&str, &str)]) -> Vec<String> {
    arguments.iter().map(|(name, of)| tensor(name, of)).collect()
}

pub(super) fn float(name: &str, value: f64) -> String {
    argument(name, &format!(r#"{{"as_float":{value}}}"#))
}

pub(super) fn int(name: &str, value: i64) -> String {
    argument(name, &format!(r#"{{"as_int":{value}}}"#))
}

pub(super) fn none(name: &str) -> String {
    argument(name, r#"{"as_none":true}"#)
}

pub(super) fn opaque(graph: &Graph) -> bool {
    graph.nodes().iter().any(|n| matches!(n.op, Op::Prim(Prim::Opaque { .. })))
}

#[test]
fn fused_norms_of_vllm_round_where_their_kernels_do() {
    let (x, w, one): (&[i64], &[i64], &[i64]) = (&[4, 64], &[64], &[1]);
    let eps = float("epsilon", 1e-6);
    let of = |op: &str, inputs: Tensors<'_>, written, arguments: &[(&str, &str)], rest: &[String]| {
        composites(&functional(
            op,
            inputs,
            written,
            &[&names(arguments)[..], std::slice::from_ref(&eps), rest].concat(),
        ))
    };
    let common = [("result", "q"), ("input", "x"), ("weight", "w"), ("scale", "s")];
    let with_residual = [&common[..], &[("residual", "r")]].concat();
    let fixed = "quantize_static codes=f8e4m3 apply=reciprocal bound=448.0 nan=high";
    let inputs = [("x", BF16, x), ("w", BF16, w), ("s", F32, one), ("q", F8, x)];
    assert_eq!(of("rms_norm_static_fp8_quant", &inputs, 1, &common, &[]), [format!("{NORM} round=once"), fixed.into()]);
    let inputs = [("x", BF16, x), ("w", BF16, w), ("s", F32, one), ("q", F8, x), ("r", BF16, x)];
    let found = of("fused_add_rms_norm_static_fp8_quant", &inputs, 2, &with_residual, &[]);
    assert_eq!(found, [format!("{NORM} round=once"), fixed.into()]);

    let twice = format!("{NORM} round=before_weight");
    let fp8 = format!("quantize_dynamic {BOUNDS} nan=high");
    let int8 = "quantize_dynamic codes=i8 bound=127.0 floor=1.1920929e-7 floor_of=scale apply=reciprocal nan=skip";
    for (codes, expected) in [(F8, &fp8[..]), (I8, int8)] {
        let inputs = [("x", BF16, x), ("w", BF16, w), ("q", codes, x), ("s", F32, &[4, 1]), ("r", BF16, x)];
        let found = of("rms_norm_dynamic_per_token_quant", &inputs, 3, &with_residual, &[none("scale_ub")]);
        assert_eq!(found, [twice.clone(), expected.into()]);
        let found = of("rms_norm_dynamic_per_token_quant", &inputs[..4], 2, &common, &[]);
        assert_eq!(found, [twice.clone(), expected.into()]);
    }
    let inputs = [("x", BF16, x), ("w", BF16, w), ("q", F8, x), ("s", F32, &[4, 4]), ("r", BF16, x)];
    let rest = [none("scale_ub"), int("group_size", 16), argument("is_scale_transposed", r#"{"as_bool":false}"#)];
    let found = of("rms_norm_per_block_quant", &inputs, 3, &with_residual, &rest);
    assert_eq!(found, [twice, format!("quantize_dynamic {BOUNDS} apply=reciprocal nan=high")]);
    let transposed = argument("is_scale_transposed", r#"{"as_bool":true}"#);
    let inputs_of = |scales: &'static [i64]| {
        [("x", BF16, x), ("w", BF16, w), ("u", F32, one), ("q", F8, x), ("s", F32, scales), ("r", BF16, x)]
    };
    for (scales, turns) in [(&[4, 8][..], false), (&[8, 4], true)] {
        let bounded = [names(&[("scale_ub", "u")]), vec![int("group_size", 8), transposed.clone()]].concat();
        let arguments = [&names(&with_residual)[..], std::slice::from_ref(&eps), &bounded].concat();
        let graph = functional("rms_norm_per_block_quant", &inputs_of(scales), 3, &arguments);
        let quantiser = graph.nodes().iter().find(|n| n.op.name() == "quantize_dynamic").expect("a quantiser");
        assert_eq!(quantiser.operands.len(), 2, "the bound is of magnitudes");
        assert_eq!(graph.nodes().iter().any(|n| matches!(n.op, Op::Prim(Prim::Permute { .. }))), turns);
    }
    // The unrounded sum is normalised, unlike that of the static op.
    let arguments = [&names(&with_residual)[..], std::slice::from_ref(&eps), &rest].concat();
    let graph = functional("rms_norm_per_block_quant", &inputs, 3, &arguments);
    let norm = graph.nodes().iter().find(|n| n.op.name() == "rms_norm").expect("a norm");
    assert_eq!(graph.ty(norm.operands[0]).dtype, DType::F32);
}

#[test]
fn gated_activations_of_vllm_and_what_quantises_them() {
    let (x, half): (&[i64], &[i64]) = (&[4, 64], &[4, 32]);
    let into = |out: &str, op: &str, rest: &[String]| {
        let inputs = [("x", BF16, x), ("y", BF16, half)];
        composites(&functional(op, &inputs, 1, &[&names(&[(out, "y"), ("input", "x")])[..], rest].concat()))
    };
    let plain = |op: &str, rest: &[String]| into("out", op, rest);
    assert_eq!(plain("mul_and_silu", &[]), ["silu form=quotient"]);
    assert_eq!(plain("gelu_and_mul", &[]), ["gelu approximate=none"]);
    assert_eq!(plain("gelu_tanh_and_mul", &[]), ["gelu approximate=tanh"]);
    assert_eq!(plain("fatrelu_and_mul", &[float("threshold", 0.5)]), ["fatrelu threshold=0.5 nan=zero"]);
    let clamped = ["clamped_swiglu limit=7.0 alpha=1.0 beta=0.0 act=quotient round=steps"];
    assert_eq!(into("result", "silu_and_mul_with_clamp", &[float("limit", 7.0)]), clamped);
    let late = ["clamped_swiglu limit=7.0 alpha=1.702 beta=1.0 act=late round=once"];
    assert_eq!(plain("swigluoai_and_mul", &[]), late);
    assert_eq!(plain("swiglustep_and_mul", &[]), ["swiglu_step limit=7.0 round=once"]);

    let inputs = [("x", BF16, x), ("s", F32, &[1]), ("y", F8, half)];
    let arguments = names(&[("result", "y"), ("input", "x"), ("scale", "s")]);
    let found = composites(&functional("silu_and_mul_quant", &inputs, 1, &arguments));
    assert_eq!(found[1], "quantize_static codes=f8e4m3 apply=reciprocal bound=448.0 nan=high");
    let inputs = [("x", BF16, x), ("y", F8, half), ("s", F32, &[4, 2])];
    let arguments = names(&[("out", "y"), ("input", "x"), ("scales", "s")]);
    let graph =
        functional("silu_and_mul_per_block_quant", &inputs, 2, &[arguments, vec![int("group_size", 16)]].concat());
    assert_eq!(composites(&graph), ["silu form=product".to_owned(), format!("quantize_dynamic {BOUNDS} nan=high")]);
    let rounds = |graph: &Graph| {
        let cast = |n: &Node| matches!(n.op, Op::Prim(Prim::Cast { .. }));
        graph.nodes().iter().any(|n| cast(n) && graph.ty(n.results[0]).dtype == DType::BF16)
    };
    assert!(!rounds(&graph), "the product is quantised unrounded");
    let inputs = [("x", BF16, x), ("s", F32, &[1]), ("y", U8, &[4, 16]), ("b", I32, &[128, 1])];
    let arguments = names(&[("result", "y"), ("result_block_scale", "b"), ("input", "x"), ("input_global_scale", "s")]);
    let graph = functional("silu_and_mul_nvfp4_quant", &inputs, 2, &arguments);
    assert_eq!(composites(&graph), ["silu form=quotient", "quantize_nvfp4"]);
    assert!(rounds(&graph), "the product is rounded before the blocks");
}

/// Scale and zero point of a row: (10 − (−5)) / 255, and −128 + 5 / scale.
#[test]
fn a_zero_point_per_token_covers_the_range_of_the_row() {
    let inputs: Tensors<'_> = &[("x", F32, &[2, 4]), ("q", I8, &[2, 4]), ("s", F32, &[2, 1]), ("z", I32, &[2, 1])];
    let arguments = names(&[("result", "q"), ("input", "x"), ("scale", "s"), ("azp", "z")]);
    let graph = functional("dynamic_scaled_int8_quant", inputs, 3, &arguments);
    assert_eq!(composites(&graph), ["quantize_asymmetric"]);
    let x = vec![-5.0, 10.0, 0.0, 2.0, 3.0, f64::NAN, 258.0, 130.0];
    let x = Tensor::from_f64(DType::F32, &[2, 4], x).expect("a tensor");
    let empty = |dtype, sizes: &[usize]| Tensor::from_i64(dtype, sizes, vec![0; sizes.iter().product()]).expect("fits");
    let zeros = Tensor::from_f64(DType::F32, &[2, 1], vec![0.0; 2]).expect("fits");
    let inputs = [x, empty(DType::I8, &[2, 4]), zeros, empty(DType::I32, &[2, 1])];
    let results = interp::run(&graph, &inputs, &Symbols::new()).expect("has a value");
    let scale = f64::from(15.0f32 / 255.0);
    assert_eq!(results[1].floats(), Some(&[scale, 1.0][..]));
    assert_eq!(results[2].ints(), Some(&[-43, -131][..]));
    // 10 / scale is 170; 0 is the zero point; 2 / scale is 34. The second row: 3 − 131, NaN as 0 − 131, and so on.
    assert_eq!(results[0].ints(), Some(&[-128, 127, -43, -9, -128, -128, 127, -1][..]));
}

#[test]
fn norms_of_vllms_intermediate_form_normalise_the_unrounded_sum() {
    let (x, w): (&[i64], &[i64]) = (&[4, 64], &[64]);
    let eps = float("epsilon", 1e-6);
    let arguments = [names(&[("x", "x"), ("x_residual", "r"), ("weight", "w")]), vec![eps.clone()]].concat();
    let node = call("vllm_ir.fused_add_rms_norm.default", &arguments);
    let inputs = [("x", BF16, x), ("r", BF16, x), ("w", BF16, w)];
    let graph = one_node(&inputs, &node, &[("y", BF16, x), ("h", BF16, x)]).expect("a graph");
    assert_eq!(composites(&graph), [format!("{NORM} round=before_weight")]);
    let norm = graph.nodes().iter().find(|n| n.op.name() == "rms_norm").expect("a norm");
    assert_eq!(graph.ty(norm.operands[0]).dtype, DType::F32);

    let arguments = [names(&[("x", "x"), ("weight", "w")]), vec![eps, int("variance_size", 16)]].concat();
    let node = call("vllm_ir.rms_norm.default", &arguments);
    let graph = one_node(&[inputs[0], inputs[2]], &node, &[("y", BF16, x)]).expect("a graph");
    assert_eq!(composites(&graph), ["rms_scale eps=1e-6"]);
    let scale = graph.nodes().iter().find(|n| n.op.name() == "rms_scale").expect("a factor");
    assert_eq!(graph.ty(scale.operands[0]).to_string(), "bf16[4, 16]");
}

/// Heads of 4 lanes, of which 2 are turned by a table: against the formula in f64.
#[test]
fn packed_heads_are_normalised_and_turned() {
    let inputs: Tensors<'_> =
        &[("qw", F32, &[4]), ("kw", F32, &[4]), ("c", F32, &[3, 2]), ("p", I64, &[1]), ("qkv", F32, &[1, 16])];
    let tensors =
        [("qkv", "qkv"), ("q_weight", "qw"), ("k_weight", "kw"), ("cos_sin_cache", "c"), ("position_ids", "p")];
    let counts = [("num_heads_q", 2), ("num_heads_k", 1), ("num_heads_v", 1), ("head_dim", 4)];
    let rest = [float("eps", 1e-6), argument("is_neox", r#"{"as_bool":true}"#)];
    let arguments = [&names(&tensors)[..], &counts.map(|(name, n)| int(name, n)), &rest].concat();
    let graph = functional("fused_qk_norm_rope", inputs, 1, &arguments);
    assert_eq!(composites(&graph)[..2], ["rms_scale eps=1e-6", "rope_half_table pairs=neox"]);
    let row: Vec<f64> = (1..=16).map(f64::from).collect();
    let weights = [[1.0, 2.0, 0.5, 1.0], [0.25, 1.0, 1.0, 2.0]];
    let (cos, sin) = (0.5, 0.75);
    let tensor = |shape: &[usize], v: &[f64]| Tensor::from_f64(DType::F32, shape, v.to_vec()).expect("fits");
    let table = tensor(&[3, 2], &[1.0, 0.0, cos, sin, 0.0, 1.0]);
    let position = Tensor::from_i64(DType::I64, &[1], vec![1]).expect("fits");
    let given = [tensor(&[4], &weights[0]), tensor(&[4], &weights[1]), table, position, tensor(&[1, 16], &row)];
    let results = interp::run(&graph, &given, &Symbols::new()).expect("has a value");
    let mut expected = row.clone();
    for (head, weight) in [(0, 0), (1, 0), (2, 1)] {
        let x = &row[head * 4..head * 4 + 4];
        let mean = x.iter().map(|v| v * v).sum::<f64>() / 4.0;
        let y: Vec<f64> = (0..4).map(|i| x[i] * weights[weight][i] / (mean + 1e-6).sqrt()).collect();
        let turned = [y[0] * cos - y[1] * sin, y[1] * cos + y[0] * sin, y[2], y[3]];
        expected[head * 4..head * 4 + 4].copy_from_slice(&turned);
    }
    let found = results[0].floats().expect("floats");
    assert!(found.iter().zip(&expected).all(|(a, b)| (a - b).abs() <= 1e-5), "{found:?}\n{expected:?}");
}

#[test]
fn fused_quantisers_of_ascend_round_once_less() {
    let (x, w, one): (&[i64], &[i64], &[i64]) = (&[4, 64], &[64], &[4]);
    let ascend = "mean=parts root=inverse";
    let node = call("npu.npu_gemma_rms_norm.default", &names(&[("self", "x"), ("gamma", "w")]));
    let graph = one_node(&[("x", BF16, x), ("w", BF16, w)], &node, &[("y", BF16, x), ("r", F32, &[4, 1])]);
    let found = composites(&graph.expect("a graph"));
    assert_eq!(found, [format!("gemma_rms_norm eps=1e-6 {ascend}"), format!("rms_scale eps=1e-6 {ascend}")]);

    let sums = names(&[("x1", "x"), ("x2", "z"), ("gamma", "w")]);
    let node = call("npu.npu_add_rms_norm_quant.default", &[&sums[..], &names(&[("scales1", "s")])].concat());
    for (dtype, round, sum) in [(BF16, "once", "f32[4, 64]"), (F16, "before_weight", "f16[4, 64]")] {
        let inputs = [("x", dtype, x), ("z", dtype, x), ("w", dtype, w), ("s", F32, w)];
        let graph = one_node(&inputs, &node, &[("q", I8, x), ("q2", I8, x), ("h", dtype, x)]).expect("a graph");
        let norm = format!("rms_norm eps=1e-6 round={round} {ascend}");
        assert_eq!(composites(&graph), [norm, "quantize_static codes=i8 apply=divide bound=127.0".into()]);
        let norm = graph.nodes().iter().find(|n| n.op.name() == "rms_norm").expect("a norm");
        assert_eq!(graph.ty(norm.operands[0]).to_string(), sum);
    }
    let node =
        call("npu.npu_add_rms_norm_dynamic_quant.default", &[&sums[..], &names(&[("smooth_scale1", "s")])].concat());
    let inputs = [("x", F16, x), ("z", F16, x), ("w", F16, w), ("s", F32, w)];
    let results = [("q", I8, x), ("q2", I8, x), ("h", F16, x), ("s1", F32, one), ("s2", F32, one)];
    let found = composites(&one_node(&inputs, &node, &results).expect("a graph"));
    let token = "quantize_dynamic codes=i8 bound=127.0 scale=inverse apply=factor nan=skip";
    assert_eq!(found, [format!("rms_norm eps=1e-6 round=once {ascend}"), token.into()]);
}

/// The reason of the only op that was not taken apart.
#[track_caller]
pub(super) fn reason(graph: &Graph) -> String {
    let of = |n: &Node| match &n.op {
        Op::Prim(Prim::Opaque { attrs, .. }) => attrs.iter().find(|(name, _)| name == "reason").cloned(),
        _ => None,
    };
    graph.nodes().iter().find_map(of).expect("an opaque op with a reason").1
}

#[test]
fn arguments_that_change_more_than_is_known_are_named() {
    let (x, w, token): (&[i64], &[i64], &[i64]) = (&[4, 64], &[64], &[4]);
    let inputs = [("x", F16, x), ("z", F16, x), ("w", F16, w), ("s", F32, w)];
    let sums = names(&[("x1", "x"), ("x2", "z"), ("gamma", "w")]);
    let refused = |op: &str, rest: &[String], results: Tensors<'_>| {
        let node = call(&format!("{op}.default"), &[&sums[..], rest].concat());
        reason(&one_node(&inputs, &node, results).expect("a graph"))
    };
    let codes = [("q", I8, x), ("q2", I8, x), ("h", F16, x)];
    let scaled = |rest: &[(&str, &str)]| names(&[&[("scales1", "s")], rest].concat());
    let found = refused("npu.npu_add_rms_norm_quant", &scaled(&[("beta", "w")]), &codes);
    assert_eq!(found, "`beta`: where it is rounded in f16 is not known");
    let found = refused("npu.npu_add_rms_norm_quant", &[scaled(&[]), vec![int("dst_type", 290)]].concat(), &codes);
    assert_eq!(found, "`dst_type`: codes other than int8");
    let dynamic = [codes[0], codes[1], codes[2], ("s1", F32, token), ("s2", F32, token)];
    let mask = argument("output_mask", r#"{"as_bools":[true,false]}"#);
    let found = refused("npu.npu_add_rms_norm_dynamic_quant", &[mask], &dynamic);
    assert_eq!(found, "`output_mask`: what it leaves unwritten is not known");
    let found = refused("npu.npu_add_rms_norm_dynamic_quant", &names(&[("beta", "w")]), &dynamic);
    assert_eq!(found, "`beta`: where it is rounded is not known");
    let norm = [("y", F16, x), ("r", F32, &[4, 1]), ("h", F16, x)];
    let found = refused("_C_ascend.npu_add_rms_norm_bias", &names(&[("beta", "w")]), &norm);
    assert_eq!(found, "`beta`: where it is rounded is not known");
}

/// `npu_add_rms_norm_quant` under a weight in f32, which is a bias too (`ascend.add_rms_norm_quant_f16` and `_bf16`): f16 rounds the norm before the weight and the
/// product behind it; bf16 with a bias normalises the stored sum and rounds nothing behind it.
#[test]
fn codes_of_ascend_behind_a_norm_are_those_of_its_roundings() {
    const LANES: usize = 64;
    const STEP: f32 = 0.0173;
    const ADDED: f32 = 3.0 / 128.0;
    // Sums of squares are exact.
    let x: Vec<f32> = (0..LANES).map(|i| (i * 37 % 101) as f32 / 16.0 - 3.0).collect();
    let weight: Vec<f32> = (0..LANES).map(|i| 0.6 + i as f32 / 97.0).collect();
    let run = |dtype: i64, kind: DType, bias: bool| {
        let (row, lanes): (&[i64], &[i64]) = (&[1, LANES as i64], &[LANES as i64]);
        let mut arguments = names(&[("x1", "x"), ("x2", "z"), ("gamma", "w"), ("scales1", "s")]);
        arguments.extend(bias.then(|| tensor("beta", "w")));
        let node = call("npu.npu_add_rms_norm_quant.default", &arguments);
        let inputs = [("x", dtype, row), ("z", dtype, row), ("w", F32, lanes), ("s", F32, &[1][..])];
        let graph = one_node(&inputs, &node, &[("q", I8, row), ("q2", I8, row), ("h", dtype, row)]).expect("a graph");
        let of = |dtype, shape: &[usize], v: &[f32]| {
            Tensor::from_f64(dtype, shape, v.iter().map(|&x| f64::from(x)).collect()).expect("fits")
        };
        let added = of(kind, &[1, LANES], &[ADDED; LANES]);
        let given =
            [of(kind, &[1, LANES], &x), added, of(DType::F32, &[LANES], &weight), of(DType::F32, &[1], &[STEP])];
        let results = interp::run(&graph, &given, &Symbols::new()).expect("has a value");
        results[0].ints().expect("codes").to_vec()
    };
    let want = |stored: &dyn Fn(f32) -> f32, round: &dyn Fn(f32) -> f32, bias: f32| -> Vec<i64> {
        let z: Vec<f32> = x.iter().map(|x| stored(x + ADDED)).collect();
        let mean: f32 = z.iter().map(|z| z * z * (1.0 / LANES as f32)).sum();
        let k = 1.0 / (mean + 1e-6f32).sqrt();
        let code = |(z, w): (&f32, &f32)| {
            let y = round(round(z * k) * w) + bias * w;
            i64::from((y / STEP).round_ties_even().clamp(-128.0, 127.0) as i8)
        };
        z.iter().zip(&weight).map(code).collect()
    };
    let (f16, bf16) = (|x: f32| half::f16::from_f32(x).to_f32(), |x: f32| half::bf16::from_f32(x).to_f32());
    let same = |x: f32| x;
    assert_eq!(run(F16, DType::F16, false), want(&f16, &f16, 0.0));
    assert_ne!(want(&f16, &f16, 0.0), want(&f16, &same, 0.0), "the roundings show");
    assert_eq!(run(BF16, DType::BF16, true), want(&bf16, &same, 1.0));
    assert_ne!(want(&bf16, &same, 1.0), want(&same, &same, 1.0), "the rounding of the sum shows");
    assert_eq!(run(BF16, DType::BF16, false), want(&same, &same, 0.0));
}

/// `npu_add_rms_norm_cast` gives the norm unrounded and rounded; the sum is the fourth result.
#[test]
fn a_norm_of_ascend_in_two_dtypes_is_one_norm() {
    let (x, w): (&[i64], &[i64]) = (&[4, 64], &[64]);
    let node = call("npu.npu_add_rms_norm_cast.default", &names(&[("x1", "x"), ("x2", "z"), ("gamma", "w")]));
    let inputs = [("x", BF16, x), ("z", BF16, x), ("w", BF16, w)];
    let results = [("y", F32, x), ("t", BF16, x), ("r", F32, &[4, 1][..]), ("h", BF16, x)];
    let graph = one_node(&inputs, &node, &results).expect("a graph");
    assert_eq!(composites(&graph).len(), 2);
    let value = |i: usize| graph.outputs()[i].value;
    let rounded = graph.def_node(value(1)).expect("a node");
    assert!(matches!(rounded.op, Op::Prim(Prim::Cast { to: DType::BF16, .. })) && rounded.operands == [value(0)]);
}

/// Eight codes of four bits to an i32, the first in the lowest bits.
#[test]
fn codes_of_four_bits_fill_words() {
    let mode = argument("div_mode", r#"{"as_bool":false}"#);
    let arguments = [names(&[("self", "x"), ("scales", "s")]), vec![none("zero_points"), int("dtype", 16), mode]];
    let node = call("npu.npu_quantize.default", &arguments.concat());
    let inputs: Tensors<'_> = &[("x", F32, &[1, 8]), ("s", F32, &[1])];
    let graph = one_node(inputs, &node, &[("q", I32, &[1, 1])]).expect("a graph");
    let of = |shape: &[usize], v: &[f64]| Tensor::from_f64(DType::F32, shape, v.to_vec()).expect("fits");
    let x = of(&[1, 8], &[1.0, 2.5, -1.0, 100.0, -100.0, 0.0, 3.0, 3.5]);
    let results = interp::run(&graph, &[x, of(&[1], &[1.0])], &Symbols::new()).expect("has a value");
    assert_eq!(results[0].ints(), Some(&[i64::from(0x4308_7f21u32 as i32)][..]));
}

/// The bound of a gate's block scales is one of the scale: `max(min(2 / 448, bound), least)`.
#[test]
fn a_bound_of_block_scales_behind_a_gate_is_one_of_the_scale() {
    let inputs: Tensors<'_> = &[("x", F32, &[1, 8]), ("u", F32, &[1]), ("y", F8, &[1, 4]), ("s", F32, &[1, 2])];
    let arguments = names(&[("out", "y"), ("input", "x"), ("scales", "s"), ("scale_ub", "u")]);
    let graph =
        functional("silu_and_mul_per_block_quant", inputs, 2, &[arguments, vec![int("group_size", 2)]].concat());
    let of = |shape: &[usize], v: &[f64]| Tensor::from_f64(DType::F32, shape, v.to_vec()).expect("fits");
    let codes = Tensor::from_f64(DType::F8E4M3, &[1, 4], vec![0.0; 4]).expect("fits");
    let bound = f64::from(0.001f32);
    let x = of(&[1, 8], &[40.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
    let results = interp::run(&graph, &[x, of(&[1], &[bound]), codes, of(&[1, 2], &[0.0; 2])], &Symbols::new());
    let results = results.expect("has a value");
    assert_eq!(results[1].floats(), Some(&[bound, f64::from((1.0 / (448.0 * 512.0)) as f32)][..]));
    assert_eq!(results[0].floats(), Some(&[448.0, 0.0, 0.0, 0.0][..]), "40 by the bound is beyond the codes");
}

#[test]
fn blocks_of_ascend_lie_in_pairs_and_norms_before_them_are_rounded() {
    const E8M0: i64 = 33;
    let (x, w): (&[i64], &[i64]) = (&[4, 96], &[96]);
    let pairs = ("k", E8M0, &[4, 2, 2][..]);
    let mx = |rest: &[String], codes: (&'static str, i64, &'static [i64])| {
        let node = call("npu.npu_dynamic_mx_quant.default", &[&names(&[("input", "x")])[..], rest].concat());
        one_node(&[("x", BF16, x)], &node, &[codes, pairs]).expect("a graph")
    };
    let wide = ("q", F8, &[4, 96][..]);
    let graph = mx(&[], wide);
    assert_eq!(composites(&graph), ["quantize_mx codes=f8e4m3 scale=floor least=zero nan=block"]);
    let narrow = mx(&[], ("q", U8, &[4, 48]));
    assert_eq!(composites(&narrow), ["quantize_mx codes=f4e2m1 scale=floor least=zero nan=block"]);
    assert_eq!(composites(&mx(&[int("scale_alg", 1)], wide)), ["quantize_mx codes=f8e4m3 scale=ceil nan=block"]);
    for other in [int("scale_alg", 2), int("block_size", 64), int("axis", 0)] {
        assert!(opaque(&mx(&[other], wide)));
    }

    let sums = names(&[("x1", "x"), ("x2", "z"), ("gamma", "w"), ("beta", "w")]);
    let node = call("npu.npu_add_rms_norm_dynamic_mx_quant.default", &sums);
    let results = [wide, ("h", BF16, x), pairs, ("r", F32, &[4, 1])];
    let graph = one_node(&[("x", BF16, x), ("z", BF16, x), ("w", BF16, w)], &node, &results).expect("a graph");
    let scale = "eps=1e-6 mean=parts root=inverse";
    let found = composites(&graph);
    assert_eq!(found[0], "rms_norm eps=1e-6 round=once mean=parts root=inverse");
    assert!(found.contains(&format!("rms_scale {scale}")) && found.len() == 3, "{found:?}");
    let blocks = graph.nodes().iter().find(|n| n.op.name() == "quantize_mx").expect("blocks");
    let norm = graph.nodes().iter().find(|n| n.op.name() == "rms_norm").expect("a norm");
    let dtype = |node: &Node| graph.ty(node.operands[0]).dtype;
    assert_eq!((dtype(norm), dtype(blocks)), (DType::F32, DType::BF16));
    let node = call("npu.npu_rms_norm_dynamic_mx_quant.default", &names(&[("x", "x"), ("gamma", "w")]));
    let graph = one_node(&[("x", BF16, x), ("w", BF16, w)], &node, &[wide, pairs, ("r", F32, &[4, 1])]);
    assert_eq!(composites(&graph.expect("a graph")).len(), 3);
}

#[test]
fn swiglu_of_ascend_activates_the_second_half_unless_told_otherwise() {
    let half: &[i64] = &[4, 32];
    let of = |rest: &[String]| {
        let inputs: Tensors<'_> = &[("x", BF16, &[4, 64]), ("s", F32, &[32]), ("z", F32, &[32])];
        let node = call("npu.npu_swiglu_quant.default", &[&names(&[("x", "x")])[..], rest].concat());
        one_node(inputs, &node, &[("q", I8, half), ("f", F32, &[4])]).expect("a graph")
    };
    let gate = |graph: &Graph| {
        let silu = graph.nodes().iter().find(|n| n.op.name() == "silu").expect("an activation");
        let cut = graph.def_node(silu.operands[0]).expect("a node").op.clone();
        let Op::Prim(Prim::Slice { start, .. }) = cut else { panic!("{cut:?}") };
        start.as_const()
    };
    let dynamic = of(&[int("quant_mode", 1)]);
    let factor = "quantize_dynamic codes=i8 bound=127.0 scale=factor apply=factor nan=skip";
    assert_eq!((composites(&dynamic)[1].as_str(), gate(&dynamic)), (factor, Some(32)));
    let left = of(&[int("quant_mode", 1), argument("activate_left", r#"{"as_bool":true}"#)]);
    assert_eq!(gate(&left), Some(0));
    let offset = of(&names(&[("smooth_scales", "s"), ("offsets", "z")]));
    assert_eq!(composites(&offset)[1], "quantize_affine apply=multiply offset=before_rounding bound=127.0");
    assert!(opaque(&of(&[])), "a static mode without a scale");
}
