//! Norms: what is normalised, and where the result is rounded.

use fusewright::graph::{DType, Tensor};

use crate::oracle::{bf16, e4m3, f16};
use crate::ways::{Functions, Random, coded, differ, exact, floats, near};

rows! {
    "norm.rms.native" => native;
    "norm.rms.native_f32_weight" => native_f32_weight;
    "norm.rms.native_prefix" => native_prefix;
    "norm.rms.no_weight" => no_weight;
    "norm.rms.kernel", "norm.rms.pytorch" => kernel;
    "norm.rms.hf" => hf;
    "norm.add_rms.native" => add_native;
    "norm.add_rms.kernel" => add_kernel;
    "norm.add_rms.sglang" => add_sglang;
    "norm.rms.static_fp8" => static_fp8;
    "norm.rms.dynamic_fp8" => dynamic_fp8;
    "norm.gemma.vllm" => gemma_vllm;
    "norm.gemma.sglang" => gemma_sglang;
    "norm.gated.after" => gated_after;
    "norm.gated.before" => gated_before;
    "norm.gated.model_after" => gated_model_after;
    "norm.gated.model_before" => gated_model_before;
    "norm.layer" => layer;
    "norm.layer.moments" => layer_moments;
    "norm.eps" => eps;
}

/// Rows and lanes.
const SHAPE: [usize; 2] = [3, 32];
const COUNT: usize = SHAPE[0] * SHAPE[1];

/// An activation dtype and its rounding.
#[derive(Clone, Copy)]
struct T {
    dtype: DType,
    round: fn(f32) -> f32,
}

const TYPES: [T; 2] = [T { dtype: DType::BF16, round: bf16 }, T { dtype: DType::F16, round: f16 }];

/// Values whose squares sum without rounding.
fn row_values(seed: u64) -> Vec<f32> {
    Random::new(seed).steps(COUNT, 255, 1.0 / 32.0)
}

fn weights(seed: u64) -> Vec<f32> {
    Random::new(seed).steps(SHAPE[1], 127, 1.0 / 64.0)
}

/// `1 / √(mean of squares + eps)` for each row.
fn rstd(z: &[f32], lanes: usize, functions: Functions) -> Vec<f32> {
    let of = |row: &[f32]| {
        let squares: f64 = row[..lanes].iter().map(|&x| f64::from(x) * f64::from(x)).sum();
        assert_eq!(f64::from(squares as f32), squares, "the sum takes no rounding");
        (functions.rsqrt)(squares as f32 / lanes as f32 + 1e-6)
    };
    z.chunks(SHAPE[1]).map(of).collect()
}

/// `z · rstd` and the weight of the lane, combined.
fn normed(z: &[f32], w: &[f32], functions: Functions, combine: impl Fn(f32, f32) -> f32) -> Vec<f32> {
    let scales = rstd(z, SHAPE[1], functions);
    z.iter().enumerate().map(|(i, &z)| combine(z * scales[i / SHAPE[1]], w[i % SHAPE[1]])).collect()
}

fn with(t: T, weight: DType, body: &str) -> String {
    let t = t.dtype;
    format!("graph @norm(s: 0..; %x: {t}[s, 32], %r: {t}[s, 32], %w: {weight}[32]) {{\n{body}\n}}")
        .replace("{T}", t.name())
}

fn inputs(t: T, weight: DType) -> [Tensor; 3] {
    let of = |values: &[f32]| floats(t.dtype, &SHAPE, values);
    [of(&row_values(1)), of(&row_values(2)), floats(weight, &SHAPE[1..], &weights(3))]
}

/// One rounded result of the norm of `x`.
#[track_caller]
fn plain(t: T, weight: DType, body: &str, combine: impl Fn(f32, f32) -> f32) {
    exact(&with(t, weight, body), &inputs(t, weight), |functions| {
        vec![floats(t.dtype, &SHAPE, &normed(&row_values(1), &weights(3), functions, &combine))]
    });
}

const NATIVE: &str = "%y = rms_norm %x, %w {eps = 1e-6, round = before_weight}\nreturn %y";
const ONCE: &str = "%y = rms_norm %x, %w {eps = 1e-6, round = once}\nreturn %y";

fn native() {
    for t in TYPES {
        plain(t, t.dtype, NATIVE, |n, w| (t.round)((t.round)(n) * w));
    }
}

fn native_f32_weight() {
    let body = "%n = rms_norm %x, %w {eps = 1e-6, round = before_weight}\n%y = cast %n {to = {T}}\nreturn %y";
    for t in TYPES {
        // The composite's result is in the weight's dtype, where the first rounding is none.
        let body = body.replace("rms_norm %x", "rms_norm %x32").replace("%n =", "%x32 = cast %x {to = f32}\n%n =");
        plain(t, DType::F32, &body, |n, w| (t.round)(n * w));
    }
}

fn native_prefix() {
    let body = "%x32 = cast %x {to = f32}
        %p = slice %x32 {axis = 1, start = 0, end = 8, step = 1}
        %sq = mul %p, %p
        %sum = reduce %sq {op = add, axes = [1]}
        %n = literal f32 8
        %mean = div %sum, %n
        %e = literal f32 1e-6
        %v = add %mean, %e
        %k = rsqrt %v
        %z = mul %x32, %k
        %zt = cast %z {to = {T}}
        %y = mul %zt, %w
        return %y";
    for t in TYPES {
        exact(&with(t, t.dtype, body), &inputs(t, t.dtype), |functions| {
            let (x, w) = (row_values(1), weights(3));
            let scales = rstd(&x, 8, functions);
            let y = |(i, &x): (usize, &f32)| (t.round)((t.round)(x * scales[i / 32]) * w[i % 32]);
            vec![floats(t.dtype, &SHAPE, &x.iter().enumerate().map(y).collect::<Vec<_>>())]
        });
    }
}

fn no_weight() {
    let body = "%y = rms_norm %x {eps = 1e-6, round = once}\nreturn %y";
    for t in TYPES {
        plain(t, t.dtype, body, |n, _| (t.round)(n));
    }
}

fn kernel() {
    for t in TYPES {
        plain(t, t.dtype, ONCE, |n, w| (t.round)(n * w));
        plain(t, DType::F32, ONCE, |n, w| (t.round)(n * w));
        differ(&with(t, t.dtype, ONCE), &with(t, t.dtype, NATIVE), &inputs(t, t.dtype));
    }
}

/// The product with the weight in the activation's dtype, as exported graphs spell it.
fn hf() {
    let body = "%x32 = cast %x {to = f32}
        %sq = mul %x32, %x32
        %sum = reduce %sq {op = add, axes = [1]}
        %n = literal f32 32
        %mean = div %sum, %n
        %e = literal f32 1e-6
        %v = add %mean, %e
        %k = rsqrt %v
        %z = mul %x32, %k
        %zt = cast %z {to = {T}}
        %y = mul %w, %zt
        return %y";
    for t in TYPES {
        plain(t, t.dtype, body, |n, w| (t.round)(w * (t.round)(n)));
    }
}

const UNROUNDED: &str = "%x32 = cast %x {to = f32}
    %r32 = cast %r {to = f32}
    %z = add %x32, %r32
    %h = cast %z {to = {T}}\n";

/// `x + r` in f32.
fn sums() -> Vec<f32> {
    row_values(1).iter().zip(row_values(2)).map(|(x, r)| x + r).collect()
}

/// The norm of the sum and the sum, from the values that are normalised.
#[track_caller]
fn added(t: T, body: &str, z: impl Fn(f32) -> f32, combine: impl Fn(f32, f32) -> f32) {
    exact(&with(t, t.dtype, body), &inputs(t, t.dtype), |functions| {
        let z: Vec<f32> = sums().into_iter().map(&z).collect();
        let stored: Vec<f32> = sums().into_iter().map(t.round).collect();
        let y = normed(&z, &weights(3), functions, &combine);
        vec![floats(t.dtype, &SHAPE, &y), floats(t.dtype, &SHAPE, &stored)]
    });
}

fn add_native() {
    let body = format!("{UNROUNDED}%y = rms_norm %z, %w {{eps = 1e-6, round = before_weight}}\nreturn %y, %h");
    for t in TYPES {
        added(t, &body, |z| z, |n, w| (t.round)((t.round)(n) * w));
    }
}

const ADD_KERNEL: &str = "%h = add %x, %r\n%y = rms_norm %h, %w {eps = 1e-6, round = once}\nreturn %y, %h";

fn add_kernel() {
    for t in TYPES {
        added(t, ADD_KERNEL, t.round, |n, w| (t.round)(n * w));
    }
}

fn add_sglang() {
    let once = format!("{UNROUNDED}%n = rms_norm %z, %w {{eps = 1e-6, round = once}}\n%y = cast %n {{to = {{T}}}}\n");
    let body = format!("{once}return %y, %h");
    for t in TYPES {
        added(t, &body, |z| z, |n, w| (t.round)(n * w));
    }
    // The residual may be kept in f32.
    let (t, wide) = (TYPES[0], format!("{once}return %y, %z"));
    exact(&with(t, t.dtype, &wide), &inputs(t, t.dtype), |functions| {
        let y = normed(&sums(), &weights(3), functions, |n, w| bf16(n * w));
        vec![floats(t.dtype, &SHAPE, &y), floats(DType::F32, &SHAPE, &sums())]
    });
    differ(&with(t, t.dtype, &body), &with(t, t.dtype, ADD_KERNEL), &inputs(t, t.dtype));
}

/// The norm is rounded before it is scaled, so that ties are those of the two kernels run one after the other.
fn static_fp8() {
    let quantise = "%q = quantize_static %y, %s {codes = f8e4m3, apply = reciprocal, bound = 448.0, nan = high}";
    let scale = 0.037f32;
    for t in TYPES {
        for add in [false, true] {
            let norm = if add { ADD_KERNEL } else { ONCE };
            let body = norm.replace("return %y", &format!("{quantise}\nreturn %q"));
            let text = with(t, t.dtype, &body).replace("%w: ", "%s: f32[], %w: ");
            let [x, r, w] = inputs(t, t.dtype);
            exact(&text, &[x, r, floats(DType::F32, &[], &[scale]), w], |functions| {
                let sums: Vec<f32> = sums().into_iter().map(t.round).collect();
                let z = if add { sums.clone() } else { row_values(1) };
                let y = normed(&z, &weights(3), functions, |n, w| (t.round)(n * w));
                let codes: Vec<u64> = y.iter().map(|y| e4m3((y * (1.0 / scale)).clamp(-448.0, 448.0))).collect();
                let mut want = vec![coded(DType::F8E4M3, &SHAPE, &codes)];
                want.extend(add.then(|| floats(t.dtype, &SHAPE, &sums)));
                want
            });
        }
    }
}

/// Scale and codes are made from the norm as rounded twice; the sum is normalised unrounded.
fn dynamic_fp8() {
    let body = format!(
        "{UNROUNDED}%y = rms_norm %z, %w {{eps = 1e-6, round = before_weight}}
         %q, %k = quantize_dynamic %y {{bound = 448.0, floor = 4.359654e-6, floor_of = scale, nan = high}}
         return %q, %k, %h"
    );
    for t in TYPES {
        exact(&with(t, t.dtype, &body), &inputs(t, t.dtype), |functions| {
            let y = normed(&sums(), &weights(3), functions, |n, w| (t.round)((t.round)(n) * w));
            let scale = |row: &[f32]| {
                (row.iter().fold(0f32, |m, y| m.max(y.abs())) / 448.0).max((1.0 / (448.0 * 512.0)) as f32)
            };
            let scales: Vec<f32> = y.chunks(SHAPE[1]).map(scale).collect();
            let code = |(i, y): (usize, &f32)| e4m3((y / scales[i / SHAPE[1]]).clamp(-448.0, 448.0));
            let codes: Vec<u64> = y.iter().enumerate().map(code).collect();
            let stored: Vec<f32> = sums().into_iter().map(t.round).collect();
            let q = coded(DType::F8E4M3, &SHAPE, &codes);
            vec![q, floats(DType::F32, &[3, 1], &scales), floats(t.dtype, &SHAPE, &stored)]
        });
    }
}

fn gemma_vllm() {
    let plain_body = "%y = gemma_rms_norm %x, %w {eps = 1e-6}\nreturn %y";
    let added_body =
        format!("{UNROUNDED}%n = gemma_rms_norm %z, %w {{eps = 1e-6}}\n%y = cast %n {{to = {{T}}}}\nreturn %y, %h");
    for t in TYPES {
        plain(t, t.dtype, plain_body, |n, w| (t.round)(n * (w + 1.0)));
        added(t, &added_body, |z| z, |n, w| (t.round)(n * (w + 1.0)));
    }
}

fn gemma_sglang() {
    let body = "%h = add %x, %r\n%y = gemma_rms_norm %h, %w {eps = 1e-6}\nreturn %y, %h";
    for t in TYPES {
        added(t, body, t.round, |n, w| (t.round)(n * (1.0 + w)));
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + f64::from(-x).exp() as f32)
}

/// An activation.
type Act = fn(f32) -> f32;

fn silu(z: f32) -> f32 {
    z / (1.0 + f64::from(-z).exp() as f32)
}

/// The gates of a norm, in f32.
const GATES: [(&str, Act); 2] = [("silu %r32 {form = product}", |x| x * sigmoid(x)), ("sigmoid %r32", sigmoid)];

fn gated_after() {
    for (gate, act) in GATES {
        let body = format!(
            "%x32 = cast %x {{to = f32}}
             %r32 = cast %r {{to = f32}}
             %n = rms_norm %x32, %w {{eps = 1e-6, round = once}}
             %g = {gate}
             %z = mul %n, %g
             %y = cast %z {{to = {{T}}}}
             return %y"
        );
        for t in TYPES {
            near(&with(t, DType::F32, &body), &inputs(t, DType::F32), |functions| {
                let n = normed(&row_values(1), &weights(3), functions, |n, w| n * w);
                let y: Vec<f32> = n.iter().zip(row_values(2)).map(|(n, z)| (t.round)(n * act(z))).collect();
                vec![floats(t.dtype, &SHAPE, &y)]
            });
        }
    }
}

/// The norm of `x · act(z)` in groups of eight lanes.
fn gated_before() {
    for (gate, act) in GATES {
        let body = format!(
            "%x32 = cast %x {{to = f32}}
             %r32 = cast %r {{to = f32}}
             %g = {gate}
             %p = mul %x32, %g
             %groups = reshape %p {{shape = [s, 4, 8]}}
             %n = rms_norm %groups {{eps = 1e-6, round = once}}
             %flat = reshape %n {{shape = [s, 32]}}
             %m = mul %flat, %w
             %y = cast %m {{to = {{T}}}}
             return %y"
        );
        for t in TYPES {
            near(&with(t, DType::F32, &body), &inputs(t, DType::F32), |functions| {
                let gated: Vec<f32> = row_values(1).iter().zip(row_values(2)).map(|(x, z)| x * act(z)).collect();
                let scale = |group: &[f32]| {
                    let squares: f64 = group.iter().map(|x| f64::from(x * x)).sum();
                    (functions.rsqrt)(squares as f32 / 8.0 + 1e-6)
                };
                let scales: Vec<f32> = gated.chunks(8).map(scale).collect();
                let w = weights(3);
                let y = |(i, x): (usize, &f32)| (t.round)(x * scales[i / 8] * w[i % 32]);
                vec![floats(t.dtype, &SHAPE, &gated.iter().enumerate().map(y).collect::<Vec<_>>())]
            });
        }
    }
}

/// The norm is rounded before its weight and behind it, then gated in f32.
fn gated_model_after() {
    let body = "%y = gated_rms_norm %x, %r, %w {eps = 1e-6, round = before_weight}\nreturn %y";
    for t in TYPES {
        near(&with(t, t.dtype, body), &inputs(t, t.dtype), |functions| {
            let n = normed(&row_values(1), &weights(3), functions, |n, w| (t.round)((t.round)(n) * w));
            let y: Vec<f32> = n.iter().zip(row_values(2)).map(|(n, z)| (t.round)(n * silu(z))).collect();
            vec![floats(t.dtype, &SHAPE, &y)]
        });
    }
}

/// Rows that are gated in f32 are normalised.
fn gated_model_before() {
    let body = "%y = gated_rms_norm %x, %r, %w {eps = 1e-6, first = gate, round = before_weight}\nreturn %y";
    for t in TYPES {
        near(&with(t, t.dtype, body), &inputs(t, t.dtype), |functions| {
            let gated: Vec<f32> = row_values(1).iter().zip(row_values(2)).map(|(x, z)| x * silu(z)).collect();
            let scale = |row: &[f32]| {
                let squares: f64 = row.iter().map(|x| f64::from(x * x)).sum();
                (functions.rsqrt)(squares as f32 / 32.0 + 1e-6)
            };
            let scales: Vec<f32> = gated.chunks(32).map(scale).collect();
            let w = weights(3);
            let y = |(i, x): (usize, &f32)| (t.round)((t.round)(x * scales[i / 32]) * w[i % 32]);
            vec![floats(t.dtype, &SHAPE, &gated.iter().enumerate().map(y).collect::<Vec<_>>())]
        });
    }
}

fn layer() {
    let body = "graph @layer(s: 0..; %x: {T}[s, 32], %w: {T}[32], %b: {T}[32]) {
        %y = layer_norm %x, %w, %b {eps = 1e-5}
        return %y
      }";
    for t in TYPES {
        let x = Random::new(4).steps(COUNT, 8, 0.5);
        let [w, b] = [5, 6].map(weights);
        let given = [floats(t.dtype, &SHAPE, &x), floats(t.dtype, &SHAPE[1..], &w), floats(t.dtype, &SHAPE[1..], &b)];
        exact(&body.replace("{T}", t.dtype.name()), &given, |functions| {
            let mut y = Vec::new();
            for row in x.chunks(32) {
                let mean = row.iter().sum::<f32>() / 32.0;
                let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / 32.0;
                let scale = (functions.rsqrt)(variance + 1e-5);
                y.extend(row.iter().enumerate().map(|(i, x)| (t.round)((x - mean) * scale * w[i] + b[i])));
            }
            vec![floats(t.dtype, &SHAPE, &y)]
        });
    }
}

/// Rows far from zero, whose mean f32 rounds: about that, the variance would be another.
fn layer_moments() {
    let body = "graph @layer(s: 0..; %x: f32[s, 32]) {
        %y = layer_norm %x {eps = 1e-5, moments = wide}
        return %y
      }";
    let x: Vec<f32> = (0..COUNT).map(|i| 1000.0 + (i * i % 37) as f32 / 8192.0).collect();
    let given = [floats(DType::F32, &SHAPE, &x)];
    exact(body, &given, |functions| {
        let mut y = Vec::new();
        for row in x.chunks(32) {
            let mean = row.iter().map(|&x| f64::from(x)).sum::<f64>() / 32.0;
            let variance = row.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / 32.0;
            let scale = (functions.rsqrt)(variance as f32 + 1e-5);
            y.extend(row.iter().map(|x| (x - mean as f32) * scale));
        }
        vec![floats(DType::F32, &SHAPE, &y)]
    });
    differ(body, &body.replace(", moments = wide", ""), &given);
}

/// Squares of the size of eps: another eps in the last bit would show.
fn eps() {
    let text = "graph @eps(s: 0..; %x: f32[s, 32]) {\n%y = rms_norm %x {eps = 1e-6, round = once}\nreturn %y\n}";
    let x: Vec<f32> = (0..COUNT).map(|i| 2f32.powi(-10 - (i % 3) as i32)).collect();
    exact(text, &[floats(DType::F32, &SHAPE, &x)], |functions| {
        let scales = rstd(&x, SHAPE[1], functions);
        let y: Vec<f32> = x.iter().enumerate().map(|(i, x)| x * scales[i / 32]).collect();
        vec![floats(DType::F32, &SHAPE, &y)]
    });
}
