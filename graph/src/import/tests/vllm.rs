//! vLLM's caches, routing and activations, and SGLang's kernels, on values: against their kernels' formulas in f32.

use super::ascend::{bf16, flag, floats, ints, run, same_floats, word};
use super::attention::{call, one_node};
use super::fused::{BF16, F8, F32, I8, I32, I64, Tensors, U8, float, functional_of, int, names, reason};
use crate::DType;
use crate::graph::Graph;
use crate::num;
use crate::tensor::Tensor;

const BOOL: i64 = 12;

/// The graph of a functionalised call that overwrites the last `written` inputs.
#[track_caller]
fn op(target: &str, inputs: Tensors<'_>, written: usize, arguments: &[&[String]]) -> Graph {
    functional_of(target, inputs, written, &arguments.concat())
}

fn wave(count: usize, step: f32) -> Vec<f32> {
    (0..count).map(|i| bf16((i as f32 * step).sin() * 3.0)).collect()
}

fn fp8(x: f32) -> f32 {
    let code = num::encode(DType::F8E4M3, f64::from(x.clamp(-448.0, 448.0)));
    num::decode(DType::F8E4M3, code) as f32
}

/// Rows `[tokens, 2, 2]` of keys and values; the second token has no slot.
struct Paged {
    key: Vec<f32>,
    value: Vec<f32>,
    slots: [i64; 3],
}

fn paged() -> Paged {
    Paged { key: wave(12, 0.7), value: wave(12, 1.1), slots: [5, -1, 2] }
}

fn auto(cache: &str) -> [String; 1] {
    [word("kv_cache_dtype", cache)]
}

#[test]
fn keys_and_values_go_to_slots_of_heads() {
    let Paged { key, value, slots } = paged();
    for (dtype, kind, cache) in [(BF16, DType::BF16, "auto"), (F8, DType::F8E4M3, "fp8"), (U8, DType::U8, "fp8_e4m3")] {
        let inputs: [(&str, i64, &[i64]); 7] = [
            ("k", BF16, &[3, 2, 2]),
            ("v", BF16, &[3, 2, 2]),
            ("m", I64, &[3]),
            ("ks", F32, &[1]),
            ("vs", F32, &[]),
            ("kc", dtype, &[2, 4, 2, 2]),
            ("vc", dtype, &[2, 4, 2, 2]),
        ];
        let given = names(&[("key", "k"), ("value", "v"), ("key_cache", "kc"), ("value_cache", "vc")]);
        let rest = names(&[("slot_mapping", "m"), ("k_scale", "ks"), ("v_scale", "vs")]);
        let graph = op("_C_cache_ops.reshape_and_cache_flash", &inputs, 2, &[&given, &rest, &auto(cache)]);
        let empty = if kind == DType::U8 {
            ints(kind, &[2, 4, 2, 2], &[1; 32])
        } else {
            floats(kind, &[2, 4, 2, 2], &[1.0; 32])
        };
        let of = |x: &[f32]| floats(DType::BF16, &[3, 2, 2], x);
        let scales = [floats(DType::F32, &[1], &[0.013]), floats(DType::F32, &[], &[0.5])];
        let [ks, vs] = scales;
        let got = run(&graph, &[of(&key), of(&value), ints(DType::I64, &[3], &slots), ks, vs, empty.clone(), empty]);
        for (got, (rows, scale)) in got.iter().zip([(&key, 0.013f32), (&value, 0.5)]) {
            let mut want = vec![1.0; 32];
            for (row, slot) in rows.chunks(4).zip(slots).filter(|(_, slot)| *slot >= 0) {
                let stored = |x: &f32| if cache == "auto" { *x } else { fp8(x / scale) };
                row.iter().enumerate().for_each(|(i, x)| want[slot as usize * 4 + i] = stored(x));
            }
            if kind == DType::U8 {
                let at = |i: usize, x: f32| {
                    let held = slots.contains(&(i as i64 / 4));
                    if held { num::encode(DType::F8E4M3, f64::from(x)) as i64 } else { 1 }
                };
                let codes: Vec<i64> = want.iter().enumerate().map(|(i, &x)| at(i, x)).collect();
                assert_eq!(got.ints(), Some(&codes[..]), "{cache}");
            } else {
                same_floats(got, &want);
            }
        }
    }
}

/// Keys in pieces of two lanes, slots inside of both: `[1, 2, 1, 8, 2]` and `[1, 2, 2, 8]`.
#[test]
fn keys_and_values_go_to_pieces_with_slots_inside() {
    let Paged { key, value, slots } = paged();
    let inputs: [(&str, i64, &[i64]); 6] = [
        ("k", BF16, &[3, 2, 2]),
        ("v", BF16, &[3, 2, 2]),
        ("m", I64, &[3]),
        ("s", F32, &[1]),
        ("kc", BF16, &[1, 2, 1, 8, 2]),
        ("vc", BF16, &[1, 2, 2, 8]),
    ];
    let given = names(&[("key", "k"), ("value", "v"), ("key_cache", "kc"), ("value_cache", "vc")]);
    let rest = names(&[("slot_mapping", "m"), ("k_scale", "s"), ("v_scale", "s")]);
    let graph = op("_C_cache_ops.reshape_and_cache", &inputs, 2, &[&given, &rest, &auto("auto")]);
    let of = |shape: &[usize], x: &[f32]| floats(DType::BF16, shape, x);
    let (kc, vc) = (of(&[1, 2, 1, 8, 2], &[9.0; 32]), of(&[1, 2, 2, 8], &[9.0; 32]));
    let s = floats(DType::F32, &[1], &[1.0]);
    let got =
        run(&graph, &[of(&[3, 2, 2], &key), of(&[3, 2, 2], &value), ints(DType::I64, &[3], &slots), s.clone(), kc, vc]);
    let (mut keys, mut values) = (vec![9.0; 32], vec![9.0; 32]);
    for (token, slot) in slots.iter().enumerate().filter(|(_, slot)| **slot >= 0) {
        for (head, lane) in (0..2).flat_map(|head| [(head, 0), (head, 1)]) {
            keys[(head * 8 + *slot as usize) * 2 + lane] = key[token * 4 + head * 2 + lane];
            values[(head * 2 + lane) * 8 + *slot as usize] = value[token * 4 + head * 2 + lane];
        }
    }
    same_floats(&got[0], &keys);
    same_floats(&got[1], &values);
}

#[test]
fn compressed_rows_and_their_rotated_part_are_one_row_of_a_cache() {
    let inputs: [(&str, i64, &[i64]); 5] =
        [("c", BF16, &[3, 4]), ("p", BF16, &[3, 1, 2]), ("m", I64, &[3]), ("s", F32, &[1]), ("k", F8, &[2, 2, 6])];
    let given = names(&[("kv_c", "c"), ("k_pe", "p"), ("kv_cache", "k"), ("slot_mapping", "m"), ("scale", "s")]);
    let graph = op("_C_cache_ops.concat_and_cache_mla", &inputs, 1, &[&given, &auto("fp8")]);
    let (c, p, slots) = (wave(12, 0.3), wave(6, 0.9), [3, 0, -1]);
    let of = |shape: &[usize], x: &[f32]| floats(DType::BF16, shape, x);
    let cache = floats(DType::F8E4M3, &[2, 2, 6], &[0.5; 24]);
    let scale = floats(DType::F32, &[1], &[0.0031]);
    let got = run(&graph, &[of(&[3, 4], &c), of(&[3, 1, 2], &p), ints(DType::I64, &[3], &slots), scale, cache]);
    let mut want = [0.5; 24];
    for (token, slot) in slots.iter().enumerate().filter(|(_, slot)| **slot >= 0) {
        let row = c[token * 4..][..4].iter().chain(&p[token * 2..][..2]);
        row.enumerate().for_each(|(i, x)| want[*slot as usize * 6 + i] = fp8(x / 0.0031));
    }
    same_floats(&got[0], &want);
    let node = call("_C_cache_ops.concat_and_cache_mla.default", &[&given[..], &auto("fp8_ds_mla")].concat());
    assert_eq!(
        reason(&one_node(&inputs, &node, &[]).expect("a graph")),
        "`kv_cache_dtype` is \"fp8_ds_mla\": codes that are not known"
    );
}

/// Ties go to the first expert; the last row has one expert alone.
#[test]
fn experts_are_the_largest_of_a_softmax_by_a_reciprocal() {
    const LOGITS: [[f32; 4]; 3] = [[0.5, 2.0, 2.0, -1.0], [0.0; 4], [100.0, -100.0, 0.0, 1.0]];
    let inputs: [(&str, i64, &[i64]); 4] =
        [("x", F32, &[3, 4]), ("w", F32, &[3, 2]), ("i", I32, &[3, 2]), ("r", I32, &[3, 2])];
    let given =
        names(&[("topk_weights", "w"), ("topk_indices", "i"), ("token_expert_indices", "r"), ("gating_output", "x")]);
    for renormalised in [false, true] {
        let rest: Vec<String> = renormalised.then(|| flag("renormalize")).into_iter().collect();
        let graph = op("_moe_C.topk_softmax", &inputs, 3, &[&given, &rest]);
        let codes = || ints(DType::I32, &[3, 2], &[0; 6]);
        let x = floats(DType::F32, &[3, 4], LOGITS.as_flattened());
        let got = run(&graph, &[x, floats(DType::F32, &[3, 2], &[0.0; 6]), codes(), codes()]);
        let weights = |row: &[f32; 4], [a, b]: [usize; 2]| {
            let most = row.iter().copied().fold(f32::MIN, f32::max);
            let power = row.map(|x| f64::from(x - most).exp() as f32);
            let sum = power.iter().map(|&p| f64::from(p)).sum::<f64>() as f32;
            let p = power.map(|p| p * (1.0 / sum));
            let of = if renormalised { (f64::from(p[a]) + f64::from(p[b])) as f32 } else { 1.0 };
            [p[a] / of, p[b] / of]
        };
        let chosen = [[1, 2], [0, 1], [0, 3]];
        let want: Vec<f32> = LOGITS.iter().zip(chosen).flat_map(|(row, at)| weights(row, at)).collect();
        same_floats(&got[0], &want);
        assert_eq!(got[1].ints(), Some(&[1, 2, 0, 1, 0, 3][..]));
        assert_eq!(got[2].ints(), Some(&[0, 3, 1, 4, 2, 5][..]), "all first choices, then all second ones");
    }
}

/// Three rows are added step by step in bf16, five in f32.
#[test]
fn rows_of_experts_are_summed_as_their_number_says() {
    for experts in [3usize, 5] {
        let shape = [2, experts as i64, 4];
        let inputs: [(&str, i64, &[i64]); 2] = [("x", BF16, &shape), ("y", BF16, &[2, 4])];
        let graph = op("_moe_C.moe_sum", &inputs, 1, &[&names(&[("input", "x"), ("output", "y")])]);
        let x: Vec<f32> =
            (0..2 * experts * 4).map(|i| bf16([1.0, 0.0039, -0.9961][i / 4 % 3] * (1 + i % 4) as f32)).collect();
        let given = [floats(DType::BF16, &[2, experts, 4], &x), floats(DType::BF16, &[2, 4], &[0.0; 8])];
        let sum = |token: usize, lane: usize| {
            let rows = (0..experts).map(|e| x[(token * experts + e) * 4 + lane]);
            if experts == 3 { rows.fold(0.0, |sum, x| bf16(sum + x)) } else { bf16(rows.sum::<f32>()) }
        };
        let want: Vec<f32> = (0..8).map(|i| sum(i / 4, i % 4)).collect();
        same_floats(&run(&graph, &given)[0], &want);
    }
}

#[test]
fn penalties_divide_positive_logits_that_were_seen_and_multiply_others() {
    let inputs: [(&str, i64, &[i64]); 4] =
        [("p", BOOL, &[2, 3]), ("o", BOOL, &[2, 3]), ("r", F32, &[2]), ("x", F32, &[2, 3])];
    let given = names(&[("logits", "x"), ("prompt_mask", "p"), ("output_mask", "o"), ("repetition_penalties", "r")]);
    let graph = op("_C.apply_repetition_penalties_", &inputs, 1, &[&given]);
    let x = [3.0, -3.0, 1.0, f32::NAN, 0.0, -0.0];
    let mask = |bits: [i64; 6]| ints(DType::Bool, &[2, 3], &bits);
    let penalties = floats(DType::F32, &[2], &[1.3, 0.7]);
    let got =
        run(&graph, &[mask([1, 0, 0, 1, 1, 0]), mask([0, 1, 0, 1, 0, 1]), penalties, floats(DType::F32, &[2, 3], &x)]);
    same_floats(&got[0], &[3.0 / 1.3, -3.0 * 1.3, 1.0, f32::NAN, 0.0, -0.0]);
}

/// Groups of four; the last group is of zeros, and codes of integers are cut off.
#[test]
fn groups_of_tokens_have_codes_that_are_cut_off_or_exponents_in_words() {
    let x: Vec<f32> = [wave(20, 0.37), vec![0.0; 4]].concat();
    let row = floats(DType::BF16, &[1, 24], &x);
    let inputs: [(&str, i64, &[i64]); 3] = [("x", BF16, &[1, 24]), ("q", I8, &[1, 24]), ("s", F32, &[1, 6])];
    let groups = names(&[("input", "x"), ("output_q", "q"), ("output_s", "s")]);
    let size = [int("group_size", 4), float("eps", 1e-10)];
    let bounds = [float("int8_min", -128.0), float("int8_max", 127.0)];
    let graph = op("_C.per_token_group_quant_int8", &inputs, 2, &[&groups, &size, &bounds]);
    let empty = |dtype| floats(dtype, &[1, 24], &[0.0; 24]);
    let got = run(&graph, &[row.clone(), ints(DType::I8, &[1, 24], &[0; 24]), floats(DType::F32, &[1, 6], &[0.0; 6])]);
    let largest = |g: &[f32]| g.iter().fold(1e-10f32, |m, x| m.max(x.abs()));
    let scales: Vec<f32> = x.chunks(4).map(|g| largest(g) / 127.0).collect();
    let cut: Vec<i64> = (0..24).map(|i| (x[i] * (1.0 / scales[i / 4])).clamp(-128.0, 127.0) as i64).collect();
    assert_eq!(got[0].ints(), Some(&cut[..]));
    same_floats(&got[1], &scales);

    let inputs: [(&str, i64, &[i64]); 3] = [("x", BF16, &[1, 24]), ("q", F8, &[1, 24]), ("s", I32, &[1, 2])];
    let words = names(&[("input", "x"), ("output_q", "q"), ("output_s_packed", "s")]);
    let bounds = [float("fp8_min", -448.0), float("fp8_max", 448.0)];
    let graph = op("_C.per_token_group_fp8_quant_packed", &inputs, 2, &[&words, &size, &bounds]);
    let got = run(&graph, &[row, empty(DType::F8E4M3), ints(DType::I32, &[1, 2], &[0; 2])]);
    // The least power of two that is no less than the quotient, which is at least 1e-10.
    let exponent = |g: &[f32]| {
        let bits = (largest(g) / 448.0).max(1e-10).to_bits();
        (bits >> 23) + u32::from(bits & 0x7f_ffff != 0)
    };
    let exponents: Vec<u32> = x.chunks(4).map(exponent).chain([0, 0]).collect();
    let word = |four: &[u32]| i64::from(four.iter().rev().fold(0, |word, e| word << 8 | e) as i32);
    assert_eq!(got[1].ints(), Some(&exponents.chunks(4).map(word).collect::<Vec<i64>>()[..]));
    let codes: Vec<f32> = (0..24).map(|i| fp8(x[i] * (1.0 / f32::from_bits(exponents[i / 4] << 23)))).collect();
    same_floats(&got[0], &codes);
}

fn exp(x: f32) -> f32 {
    f64::from(x).exp() as f32
}

fn tanh(x: f32) -> f32 {
    f64::from(x).tanh() as f32
}

#[test]
fn gelus_of_older_models_round_where_their_kernels_do() {
    const EDGES: [f32; 8] = [0.0, -0.0, 1.0, -2.5, 30.0, -30.0, f32::INFINITY, 3.0e-39];
    let x: Vec<f32> = EDGES.iter().map(|&x| bf16(x)).chain(wave(24, 0.61)).collect();
    let inputs: [(&str, i64, &[i64]); 2] = [("x", BF16, &[1, 32]), ("y", BF16, &[1, 32])];
    let of = |target: &str| {
        let graph = op(target, &inputs, 1, &[&names(&[("out", "y"), ("input", "x")])]);
        run(&graph, &[floats(DType::BF16, &[1, 32], &x), floats(DType::BF16, &[1, 32], &[0.0; 32])]).swap_remove(0)
    };
    let t = |x: f32| bf16(x);
    let new = |x: f32| {
        let cube = t(t(x * x) * x);
        let bend = t(tanh(t(0.797_884_6 * t(x + t(0.044_715 * cube)))));
        t(t(0.5 * x) * t(1.0 + bend))
    };
    let fast = |x: f32| {
        let bend = t(tanh(t(t(x * 0.797_884_6) * t(1.0 + t(t(x * 0.044_715) * x)))));
        t(t(0.5 * x) * t(1.0 + bend))
    };
    let quick = |x: f32| t(x / (1.0 + exp(-1.702 * x)));
    same_floats(&of("_C.gelu_new"), &x.iter().map(|&x| new(x)).collect::<Vec<_>>());
    same_floats(&of("_C.gelu_fast"), &x.iter().map(|&x| fast(x)).collect::<Vec<_>>());
    same_floats(&of("_C.gelu_quick"), &x.iter().map(|&x| quick(x)).collect::<Vec<_>>());
}

/// `Σ x² / 8` of numbers whose squares are exact.
fn rstd(z: &[f32]) -> f32 {
    let mean = z.iter().map(|z| z * z).sum::<f32>() / 8.0 + 1e-6;
    (1.0 / f64::from(mean).sqrt()) as f32
}

#[test]
fn norms_of_sglang_are_of_the_unrounded_sum_and_round_once() {
    let x: Vec<f32> = (0..8).map(|i| i as f32 / 4.0 - 1.0).collect();
    let r: Vec<f32> = (0..8).map(|i| (i * 5 % 8) as f32 / 512.0).collect();
    let w: Vec<f32> = (0..8).map(|i| bf16(0.3 + i as f32 / 7.0)).collect();
    let of = |x: &[f32]| floats(DType::BF16, &[1, 8], x);
    let weight = || floats(DType::BF16, &[8], &w);
    let row: &[i64] = &[1, 8];
    for (gemma, name) in [(0.0, "rmsnorm"), (1.0, "gemma_rmsnorm")] {
        let inputs: [(&str, i64, &[i64]); 3] = [("x", BF16, row), ("w", BF16, &[8]), ("y", BF16, row)];
        let given = names(&[("output", "y"), ("input", "x"), ("weight", "w")]);
        let rest = [float("eps", 1e-6), flag("enable_pdl")];
        let graph = op(&format!("sgl_kernel.{name}"), &inputs, 1, &[&given, &rest]);
        let want: Vec<f32> = (0..8).map(|i| bf16(x[i] * rstd(&x) * (gemma + w[i]))).collect();
        same_floats(&run(&graph, &[of(&x), weight(), of(&x)])[0], &want);
    }
    for (gemma, name) in [(0.0, "fused_add_rmsnorm"), (1.0, "gemma_fused_add_rmsnorm")] {
        let inputs: [(&str, i64, &[i64]); 3] = [("w", BF16, &[8]), ("x", BF16, row), ("r", BF16, row)];
        let given = names(&[("input", "x"), ("residual", "r"), ("weight", "w")]);
        let rest = [float("eps", 1e-6), flag("enable_pdl")];
        let graph = op(&format!("sgl_kernel.{name}"), &inputs, 2, &[&given, &rest]);
        let z: Vec<f32> = x.iter().zip(&r).map(|(x, r)| x + r).collect();
        let got = run(&graph, &[weight(), of(&x), of(&r)]);
        same_floats(&got[0], &(0..8).map(|i| bf16(z[i] * rstd(&z) * (gemma + w[i]))).collect::<Vec<_>>());
        let stored: Vec<f32> = z.iter().map(|&z| bf16(z)).collect();
        assert_ne!(stored, z, "the sum is not what is stored");
        same_floats(&got[1], &stored);
    }
}

#[test]
fn gates_of_sglang_round_once() {
    let x = wave(32, 0.77);
    let inputs: [(&str, i64, &[i64]); 2] = [("x", BF16, &[1, 32]), ("y", BF16, &[1, 16])];
    let of = |name: &str| {
        let graph = op(&format!("sgl_kernel.{name}"), &inputs, 1, &[&names(&[("out", "y"), ("input", "x")])]);
        run(&graph, &[floats(DType::BF16, &[1, 32], &x), floats(DType::BF16, &[1, 16], &[0.0; 16])]).swap_remove(0)
    };
    let want = |act: &dyn Fn(f32) -> f32| (0..16).map(|i| bf16(act(x[i]) * x[16 + i])).collect::<Vec<_>>();
    let bent = |x: f32| {
        let cube = 0.044_715f32 * x * x * x;
        x * (0.5 * (1.0 + tanh(0.797_884_6 * (x + cube))))
    };
    same_floats(&of("silu_and_mul"), &want(&|x| x / (1.0 + exp(-x))));
    same_floats(&of("gelu_tanh_and_mul"), &want(&bent));
}

/// A row of zeros has the scale 0 and codes of 0; NaN is the largest code.
#[test]
fn codes_of_sglang_have_no_least_scale() {
    let x = [0.0, -0.0, 0.0, 0.0, 1.0, f32::NAN, -7.0, 3.3];
    let inputs: [(&str, i64, &[i64]); 3] = [("x", F32, &[2, 4]), ("q", F8, &[2, 4]), ("s", F32, &[2, 1])];
    let node = call(
        "sgl_kernel.sgl_per_token_quant_fp8.default",
        &names(&[("input", "x"), ("output_q", "q"), ("output_s", "s")]),
    );
    let graph = one_node(&inputs, &node, &[]).expect("a graph");
    let values = [
        floats(DType::F32, &[2, 4], &x),
        floats(DType::F8E4M3, &[2, 4], &[0.0; 8]),
        floats(DType::F32, &[2, 1], &[0.0; 2]),
    ];
    let got: Vec<Tensor> = run(&graph, &values);
    let factor = 1.0 / (7.0f32 / 448.0);
    same_floats(&got[0], &[0.0, -0.0, 0.0, 0.0, fp8(factor), 448.0, fp8(-7.0 * factor), fp8(3.3 * factor)]);
    same_floats(&got[1], &[0.0, 7.0 / 448.0]);
}

/// Groups of SGLang are divided by their scale; integers are cut off.
#[test]
fn groups_of_sglang_are_quotients() {
    let x = wave(8, 0.37);
    let of = |codes: i64, high: f64, low: f64, power: bool| {
        let inputs: [(&str, i64, &[i64]); 3] = [("x", F32, &[1, 8]), ("q", codes, &[1, 8]), ("s", F32, &[1, 2])];
        let mut node = names(&[("input", "x"), ("output_q", "q"), ("output_s", "s")]);
        node.extend([int("group_size", 4), float("eps", 1e-10), float("fp8_min", low), float("fp8_max", high)]);
        node.extend(power.then(|| flag("scale_ue8m0")));
        one_node(&inputs, &call("sgl_kernel.sgl_per_token_group_quant_8bit.default", &node), &[]).expect("a graph")
    };
    let largest = |i: usize| x[i / 4 * 4..][..4].iter().fold(1e-10f32, |m, x| m.max(x.abs()));
    let scaled = |bound: f32| (0..8).map(|i| x[i] / (largest(i) / bound)).collect::<Vec<f32>>();
    let run = |graph: &Graph, dtype: DType| {
        let codes = if dtype == DType::I8 { ints(dtype, &[1, 8], &[0; 8]) } else { floats(dtype, &[1, 8], &[0.0; 8]) };
        run(graph, &[floats(DType::F32, &[1, 8], &x), codes, floats(DType::F32, &[1, 2], &[0.0; 2])])
    };
    let got = run(&of(F8, 448.0, -448.0, false), DType::F8E4M3);
    same_floats(&got[0], &scaled(448.0).into_iter().map(fp8).collect::<Vec<_>>());
    same_floats(&got[1], &[largest(0) / 448.0, largest(4) / 448.0]);
    let got = run(&of(I8, 127.0, -128.0, false), DType::I8);
    assert_eq!(got[0].ints(), Some(&scaled(127.0).into_iter().map(|x| x as i64).collect::<Vec<_>>()[..]));
    let refused = of(F8, 448.0, -448.0, true);
    assert_eq!(reason(&refused), "`scale_ue8m0` is true: powers of two by the GPU's logarithm, four to a word");
}

#[test]
fn ops_whose_kernels_are_not_one_function_say_so() {
    let node = call("_C.poly_norm.default", &names(&[("out", "y"), ("input", "x"), ("weight", "w"), ("bias", "b")]));
    let inputs: [(&str, i64, &[i64]); 4] =
        [("x", F32, &[2, 4]), ("w", F32, &[3]), ("b", F32, &[1]), ("y", F32, &[2, 4])];
    assert_eq!(reason(&one_node(&inputs, &node, &[]).expect("a graph")), "where it rounds is not known");
    let node = call("npu.npu_moe_gating_top_k_softmax.default", &names(&[("x", "x")]));
    let results: [(&str, i64, &[i64]); 3] = [("t", F32, &[2, 1]), ("e", I32, &[2, 1]), ("r", I32, &[2, 1])];
    assert!(reason(&one_node(&inputs, &node, &results).expect("a graph")).contains("reciprocal"));
}
