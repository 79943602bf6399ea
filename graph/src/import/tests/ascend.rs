//! Ascend's ops on values: codes with an offset per token, quantised products, rotations and caches, against their
//! kernels' formulas in f32.

use super::attention::{argument, call, one_node, tensor};
use super::fused::{BF16, F16, F32, I8, I32, I64, Tensors, float, int, names, reason};
use crate::DType;
use crate::graph::Graph;
use crate::interp::{self, Symbols};
use crate::tensor::Tensor;

pub(super) fn flag(name: &str) -> String {
    argument(name, r#"{"as_bool":true}"#)
}

pub(super) fn word(name: &str, value: &str) -> String {
    argument(name, &format!(r#"{{"as_string":"{value}"}}"#))
}

pub(super) fn floats(dtype: DType, shape: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_f64(dtype, shape, values.iter().map(|&x| f64::from(x)).collect()).expect("as many values")
}

pub(super) fn ints(dtype: DType, shape: &[usize], values: &[i64]) -> Tensor {
    Tensor::from_i64(dtype, shape, values.to_vec()).expect("as many values")
}

/// The graph of one op on values.
#[track_caller]
pub(super) fn run(graph: &Graph, inputs: &[Tensor]) -> Vec<Tensor> {
    crate::verify::verify(graph).expect("a valid graph");
    interp::run(graph, inputs, &Symbols::new()).unwrap_or_else(|e| panic!("{e}\n{graph}"))
}

#[track_caller]
fn op(target: &str, inputs: Tensors<'_>, arguments: &[&[String]], results: Tensors<'_>) -> Graph {
    one_node(inputs, &call(&format!("{target}.default"), &arguments.concat()), results).expect("a graph")
}

#[track_caller]
pub(super) fn same_floats(got: &Tensor, want: &[f32]) {
    let bits = |x: f64| if x.is_nan() { f64::NAN.to_bits() } else { x.to_bits() };
    let got: Vec<u64> = got.floats().expect("floats").iter().map(|&x| bits(x)).collect();
    let want: Vec<u64> = want.iter().map(|&x| bits(f64::from(x))).collect();
    assert_eq!(got, want);
}

fn half(x: f32) -> f32 {
    half::f16::from_f32(x).to_f32()
}

pub(super) fn bf16(x: f32) -> f32 {
    half::bf16::from_f32(x).to_f32()
}

/// The nearest whole number within the codes; NaN is 0, as Rust converts it.
fn code(x: f32) -> i64 {
    i64::from(x.round_ties_even().clamp(-128.0, 127.0) as i8)
}

/// A row that spans numbers, a constant one, one of zeros, one with NaN, and one of magnitudes that overflow its span.
#[test]
fn an_offset_per_token_is_not_rounded_and_is_added_before_the_codes_are() {
    const ROWS: [[f32; 4]; 5] = [
        [-5.0, 10.0, 0.3, 2.7],
        [3.5, 3.5, 3.5, 3.5],
        [0.0, -0.0, 0.0, 0.0],
        [1.0, f32::NAN, -2.0, 0.25],
        [3.0e38, -3.0e38, 0.0, 1.0],
    ];
    let (x, rows): (&[i64], &[i64]) = (&[5, 4], &[5]);
    for smooth in [None, Some([1.0f32, 0.5, 3.0, 1.1])] {
        let inputs = [("x", F32, x), ("m", F32, &[4][..])];
        let mut given = names(&[("input", "x")]);
        given.extend(smooth.map(|_| tensor("smooth_scales", "m")));
        let results = [("q", I8, x), ("s", F32, rows), ("z", F32, rows)];
        let graph = op("npu.npu_dynamic_quant_asymmetric", &inputs, &[&given], &results);
        let m = smooth.unwrap_or([1.0; 4]);
        let got = run(&graph, &[floats(DType::F32, &[5, 4], ROWS.as_flattened()), floats(DType::F32, &[4], &m)]);
        let (mut codes, mut scales, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
        for row in ROWS {
            let row: Vec<f32> = row.iter().zip(&m).map(|(x, m)| x * m).collect();
            let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let least = row.iter().copied().fold(f32::INFINITY, f32::min);
            let scale = ((most - least) / 255.0).max(1e-12);
            let offset = 127.0 - most / scale;
            let back = 1.0 / scale;
            codes.extend(row.iter().map(|x| code(x * back + offset)));
            scales.push(scale);
            offsets.push(offset);
        }
        assert_eq!(got[0].ints(), Some(&codes[..]));
        same_floats(&got[1], &scales);
        same_floats(&got[2], &offsets);
    }
}

/// What is quantised is rounded to f16 once: 2.5005 becomes 2.5 and goes to 2.
#[test]
fn codes_behind_a_norm_alone_are_of_what_f16_holds() {
    const LANES: usize = 64;
    let x: Vec<f32> = (0..LANES).map(|i| (i * 37 % 101) as f32 / 16.0 - 3.0).collect();
    let gamma: Vec<f32> = (0..LANES).map(|i| half(0.6 + i as f32 / 97.0)).collect();
    let beta: Vec<f32> = (0..LANES).map(|i| half(0.01 * i as f32 - 0.3)).collect();
    let (row, lanes, one): (&[i64], &[i64], &[i64]) = (&[1, 64], &[64], &[1]);
    let inputs = [("x", F16, row), ("g", F16, lanes), ("b", F16, lanes), ("s", F16, one), ("z", I8, one)];
    let given = names(&[("x", "x"), ("gamma", "g"), ("beta", "b"), ("scale", "s"), ("offset", "z")]);
    let graph = op("npu.npu_rms_norm_quant", &inputs, &[&given], &[("q", I8, row)]);
    let of = |shape: &[usize], v: &[f32]| floats(DType::F16, shape, v);
    let k = 1.0 / (x.iter().map(|x| x * x * (1.0 / LANES as f32)).sum::<f32>() + 1e-6).sqrt();
    let mut shows = 0;
    for step in 0..16 {
        let s = half(0.0173 + step as f32 / 512.0);
        let given = [of(&[1, LANES], &x), of(&[LANES], &gamma), of(&[LANES], &beta), of(&[1], &[s])];
        let got = run(&graph, &[&given[..], &[ints(DType::I8, &[1], &[-3])]].concat());
        let scaled = |i: usize| (x[i] * k * gamma[i] + beta[i]) * (1.0 / s) + -3.0;
        let want: Vec<i64> = (0..LANES).map(|i| code(half(scaled(i)))).collect();
        shows += (0..LANES).filter(|&i| code(scaled(i)) != want[i]).count();
        assert_eq!(got[0].ints(), Some(&want[..]));
    }
    assert!(shows > 0, "the rounding to f16 shows");
}

const SUMS: [i64; 8] = [120, -340, 77, 5, -2, 900, 41, -63];
const CHANNELS: [f32; 8] = [0.01, 0.02, 0.03, 0.015, 0.011, 0.007, 0.05, 0.033];

/// What is quantised of one row of sums: the second half is the gate.
fn gated(sums: &[i64], token: f32, bias: &[f32], left: bool) -> Vec<f32> {
    let x: Vec<f32> = (0..8).map(|i| sums[i] as f32 * CHANNELS[i] * token + bias[i]).collect();
    let (gate, up) = if left { (&x[..4], &x[4..]) } else { (&x[4..], &x[..4]) };
    gate.iter().zip(up).map(|(g, u)| g / (1.0 + (-f64::from(*g)).exp() as f32) * u).collect()
}

#[test]
fn sums_of_integers_are_scaled_gated_and_coded() {
    const BIAS: [f32; 8] = [0.5, -0.25, 0.125, 0.0, 1.0, -1.0, 0.5, 0.25];
    const WHOLE: [i64; 8] = [3, -7, 11, 0, 20, -1, 8, 2];
    let (x, y, lanes): (&[i64], &[i64], &[i64]) = (&[2, 8], &[2, 4], &[8]);
    let inputs = [
        ("x", I32, x),
        ("w", F32, &[1, 8][..]),
        ("t", F32, &[2, 1][..]),
        ("f", F32, lanes),
        ("i", I32, lanes),
        ("c", F32, &[1, 4][..]),
        ("o", F32, &[1, 4][..]),
        ("s", F32, &[1][..]),
        ("z", F32, &[1][..]),
    ];
    let tokens = [1.0f32, 0.7];
    let rows: Vec<i64> = SUMS.iter().copied().chain([0; 8]).collect();
    let channel: Vec<f32> = (0..4).map(|i| 0.05 + 0.01 * i as f32).collect();
    let offset: Vec<f32> = (0..4).map(|i| i as f32 - 1.5).collect();
    let of = |shape: &[usize], v: &[f32]| floats(DType::F32, shape, v);
    let given = [
        ints(DType::I32, &[2, 8], &rows),
        of(&[1, 8], &CHANNELS),
        of(&[2, 1], &tokens),
        of(&[8], &BIAS),
        ints(DType::I32, &[8], &WHOLE),
        of(&[1, 4], &channel),
        of(&[1, 4], &offset),
        of(&[1], &[0.07]),
        of(&[1], &[0.3]),
    ];
    let results = [("q", I8, y), ("v", F32, &[2][..])];
    let scales = names(&[("x", "x"), ("weight_scale", "w"), ("activation_scale", "t")]);
    let at = |rest: &[&[String]]| {
        let arguments = [&[&scales[..]], rest].concat();
        run(&op("npu.npu_dequant_swiglu_quant", &inputs, &arguments, &results), &given)
    };
    let products = |rows: &[i64], bias: &[f32], left| -> Vec<Vec<f32>> {
        rows.chunks(8).zip(tokens).map(|(row, token)| gated(row, token, bias, left)).collect()
    };

    // One number per token: `absmax / 127`, its reciprocal the factor; the second row, of zeros, has both zero.
    let got = at(&[&[int("quant_mode", 1)]]);
    for (row, y) in products(&rows, &[0.0; 8], false).iter().enumerate() {
        let scale = y.iter().fold(0.0f32, |most, y| most.max(y.abs())) / 127.0;
        let want: Vec<i64> = y.iter().map(|y| code(y * (1.0 / scale))).collect();
        assert_eq!(got[0].ints().expect("codes")[row * 4..row * 4 + 4], want);
        assert_eq!(got[1].floats().expect("scales")[row], f64::from(scale));
    }
    // A bias of floats comes last, and the left half may be the gate; a scale per channel divides.
    let got = at(&[&names(&[("bias", "f"), ("quant_scale", "c"), ("quant_offset", "o")]), &[flag("activate_left")]]);
    let per_channel = |y: &[f32]| (0..4).map(|i| code(y[i] / channel[i] + offset[i])).collect::<Vec<i64>>();
    let want: Vec<i64> = products(&rows, &BIAS, true).iter().flat_map(|y| per_channel(y)).collect();
    assert_eq!(got[0].ints(), Some(&want[..]));
    // A bias of integers comes first, and one scale is a factor.
    let got = at(&[&names(&[("bias", "i"), ("quant_scale", "s"), ("quant_offset", "z")])]);
    let moved: Vec<i64> = rows.iter().enumerate().map(|(i, x)| x + WHOLE[i % 8]).collect();
    let one = |y: &f32| code(y * (1.0 / 0.07f32) + 0.3);
    let want: Vec<i64> = products(&moved, &[0.0; 8], false).iter().flatten().map(one).collect();
    assert_eq!(got[0].ints(), Some(&want[..]));

    let refused = |rest: &[&[String]]| {
        let arguments = [&[&scales[..]], rest].concat();
        reason(&op("npu.npu_dequant_swiglu_quant", &inputs, &arguments, &results))
    };
    assert_eq!(refused(&[&names(&[("group_index", "i")])]), "`group_index`: groups of tokens");
    assert_eq!(refused(&[&[int("swiglu_mode", 1)]]), "`swiglu_mode`: a clamped gate");
    assert_eq!(refused(&[&[int("quant_mode", 0)]]), "`quant_mode` is 0: no `quant_scale` with a `quant_offset`");
}

/// Heads of 4 lanes, of which 2 are turned.
#[test]
fn a_rotation_by_positions_is_in_f32_and_rounded_once() {
    let (q, k): (&[i64], &[i64]) = (&[2, 8], &[2, 4]);
    let inputs = [("p", I64, &[2][..]), ("q", BF16, q), ("k", BF16, k), ("c", BF16, &[3, 2][..])];
    let given = names(&[("positions", "p"), ("query", "q"), ("key", "k"), ("cos_sin_cache", "c")]);
    let sizes = [int("head_size", 4), int("rotary_dim", 2)];
    let table = [1.0, 0.0, bf16(0.54), bf16(0.84), bf16(-0.41), bf16(0.91)];
    let row: Vec<f32> = (0..16).map(|i| bf16(i as f32 * 0.37 - 2.0)).collect();
    let of = |shape: &[usize], v: &[f32]| floats(DType::BF16, shape, v);
    let values = [ints(DType::I64, &[2], &[2, 1]), of(&[2, 8], &row), of(&[2, 4], &row[..8]), of(&[3, 2], &table)];
    let results = [("y", BF16, q), ("z", BF16, k)];
    for neox in ["true", "false"] {
        let style = argument("is_neox_style", &format!(r#"{{"as_bool":{neox}}}"#));
        let graph = op("vllm.npu_rotary_embedding", &inputs, &[&given, &sizes, &[style]], &results);
        let got = run(&graph, &values);
        // One pair of lanes is the same pair in both styles.
        let turned = |x: &[f32], heads: usize| -> Vec<f32> {
            let at = |head: usize| if head / heads == 0 { (table[4], table[5]) } else { (table[2], table[3]) };
            let head = |(n, x): (usize, &[f32])| {
                let (c, s) = at(n);
                [bf16(x[0] * c - x[1] * s), bf16(x[1] * c + x[0] * s), x[2], x[3]]
            };
            x.chunks(4).enumerate().flat_map(head).collect()
        };
        same_floats(&got[0], &turned(&row, 2));
        same_floats(&got[1], &turned(&row[..8], 1));
    }
    let narrow = [int("head_size", 4), int("rotary_dim", 4)];
    let graph = op("vllm.npu_rotary_embedding", &inputs, &[&given, &narrow, &[flag("is_neox_style")]], &results);
    assert_eq!(reason(&graph), "`rotary_dim` is 4: not the width of `cos_sin_cache`");
    let wide = [inputs[0], inputs[1], inputs[2], ("c", F32, &[3, 2][..])];
    let graph = op("vllm.npu_rotary_embedding", &wide, &[&given, &sizes, &[flag("is_neox_style")]], &results);
    assert!(reason(&graph).contains("where it is rounded is not known"));
}

/// Pairs are neighbours in the operand and halves in the result.
fn halves(x: &[f32], cos: &[f32], sin: &[f32]) -> Vec<f32> {
    let n = x.len() / 2;
    let low = (0..n).map(|i| bf16(x[2 * i] * cos[i] + -x[2 * i + 1] * sin[i]));
    let high = (0..n).map(|i| bf16(x[2 * i + 1] * cos[n + i] + x[2 * i] * sin[n + i]));
    low.chain(high).collect()
}

fn wave(count: usize, step: f32) -> Vec<f32> {
    (0..count).map(|i| bf16((i as f32 * step).sin() * 2.0)).collect()
}

#[test]
fn neighbours_that_are_turned_come_out_as_halves() {
    let (x, table): (&[i64], &[i64]) = (&[1, 2, 3, 8], &[1, 1, 3, 8]);
    let inputs = [("x", BF16, x), ("c", BF16, table), ("s", BF16, table)];
    let given = names(&[("x", "x"), ("cos", "c"), ("sin", "s")]);
    let graph = op("npu.npu_interleave_rope", &inputs, &[&given], &[("y", BF16, x)]);
    let (rows, cos, sin) = (wave(48, 0.7), wave(24, 0.3), wave(24, 0.9));
    let of = |shape: &[usize], v: &[f32]| floats(DType::BF16, shape, v);
    let got = run(&graph, &[of(&[1, 2, 3, 8], &rows), of(&[1, 1, 3, 8], &cos), of(&[1, 1, 3, 8], &sin)]);
    let row = |(n, x): (usize, &[f32])| halves(x, &cos[n % 3 * 8..][..8], &sin[n % 3 * 8..][..8]);
    same_floats(&got[0], &rows.chunks(8).enumerate().flat_map(row).collect::<Vec<f32>>());
}

const KV: Tensors<'_> = &[
    ("kv", BF16, &[2, 1, 2, 12]),
    ("g", BF16, &[8]),
    ("c", BF16, &[2, 1, 2, 4]),
    ("s", BF16, &[2, 1, 2, 4]),
    ("i", I64, &[4]),
    ("j", I64, &[2, 2]),
    ("p", BF16, &[3, 2, 1, 4]),
    ("v", BF16, &[3, 2, 1, 8]),
    ("pn", BF16, &[2, 1, 3, 4]),
    ("vn", BF16, &[2, 1, 3, 8]),
];

/// A batch of two with two tokens each, of which one has no slot: to pages, and to a cache per request.
#[test]
fn a_compressed_row_is_normalised_turned_and_written_to_two_caches() {
    let (kv, cos, sin) = (wave(48, 0.7), wave(16, 0.3), wave(16, 0.9));
    let gamma: Vec<f32> = (0..8).map(|i| bf16(0.5 + i as f32 / 8.0)).collect();
    let of = |shape: &[usize], v: &[f32]| floats(DType::BF16, shape, v);
    let index = [4, -1, 0, 3];
    let by_request = [2, -1, 0, 1];
    let (p, v) = (wave(24, 1.3), wave(48, 1.7));
    let given = [
        of(&[2, 1, 2, 12], &kv),
        of(&[8], &gamma),
        of(&[2, 1, 2, 4], &cos),
        of(&[2, 1, 2, 4], &sin),
        ints(DType::I64, &[4], &index),
        ints(DType::I64, &[2, 2], &by_request),
        of(&[3, 2, 1, 4], &p),
        of(&[3, 2, 1, 8], &v),
        of(&[2, 1, 3, 4], &p),
        of(&[2, 1, 3, 8], &v),
    ];
    let rows: Vec<[Vec<f32>; 2]> = (0..4)
        .map(|n| {
            let x = &kv[n * 12..n * 12 + 12];
            let root = (x[..8].iter().map(|x| x * x).sum::<f32>() / 8.0 + 1e-5).sqrt();
            let normal = (0..8).map(|i| bf16(x[i] / root * gamma[i])).collect();
            [halves(&x[8..], &cos[n * 4..][..4], &sin[n * 4..][..4]), normal]
        })
        .collect();
    let values = [("kv", "kv"), ("gamma", "g"), ("cos", "c"), ("sin", "s")];
    for (mode, inputs, slots) in [
        ("PA_BNSD", [("index", "i"), ("k_cache", "p"), ("ckv_cache", "v")], index),
        ("Norm", [("index", "j"), ("k_cache", "pn"), ("ckv_cache", "vn")], [2, -1, 3, 4]),
    ] {
        let shapes: [&[i64]; 2] =
            if mode == "Norm" { [&[2, 1, 3, 4], &[2, 1, 3, 8]] } else { [&[3, 2, 1, 4], &[3, 2, 1, 8]] };
        let results = [
            ("kc", BF16, shapes[0]),
            ("vc", BF16, shapes[1]),
            ("k", BF16, &[2, 1, 2, 4][..]),
            ("y", BF16, &[2, 1, 2, 8][..]),
        ];
        let arguments = [names(&values), names(&inputs), vec![word("cache_mode", mode), flag("is_output_kv")]];
        let graph = op("npu.npu_kv_rmsnorm_rope_cache", KV, &[&arguments.concat()], &results);
        let got = run(&graph, &given);
        for (part, cache) in [&p, &v].into_iter().enumerate() {
            let width = [4, 8][part];
            let mut want = cache.clone();
            for (row, &slot) in rows.iter().zip(&slots) {
                if slot >= 0 {
                    want[slot as usize * width..][..width].copy_from_slice(&row[part]);
                }
            }
            same_floats(&got[part], &want);
            let all: Vec<f32> = rows.iter().flat_map(|row| row[part].clone()).collect();
            same_floats(&got[2 + part], &all);
        }
    }
}

#[test]
fn writes_to_caches_that_no_result_shows_are_refused() {
    let values = names(&[("kv", "kv"), ("gamma", "g"), ("cos", "c"), ("sin", "s"), ("index", "i")]);
    let caches = names(&[("k_cache", "p"), ("ckv_cache", "v")]);
    let of = |first: &'static str, rest: &[String]| {
        let results = [
            (first, BF16, &[3, 2, 1, 4][..]),
            ("vc", BF16, &[3, 2, 1, 8][..]),
            ("k", BF16, &[2, 1, 2, 4][..]),
            ("y", BF16, &[2, 1, 2, 8][..]),
        ];
        reason(&op("npu.npu_kv_rmsnorm_rope_cache", KV, &[&values, &caches, rest], &results))
    };
    let paged = word("cache_mode", "PA");
    assert_eq!(
        of("n_unused_0", std::slice::from_ref(&paged)),
        "`k_cache` and `ckv_cache` are written, but not read from the results"
    );
    assert_eq!(of("kc", &[word("cache_mode", "PA_NZ")]), "`cache_mode` is \"PA_NZ\": a layout that is not known");
    assert_eq!(of("kc", &[paged, tensor("k_rope_scale", "g")]), "`k_rope_scale`: codes in the cache");
    assert_eq!(of("kc", &[float("epsilon", 1e-6)]), "`k_cache` is bf16[3, 2, 1, 4]: a cache of other heads");
}
