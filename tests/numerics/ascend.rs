//! Ascend's kernels: where they round, what they multiply by and what they return.

use fusewright::graph::{DType, Tensor};

use crate::oracle::{bf16, f16};
use crate::ways::{Random, differ, exact, floats, ints, near};

rows! {
    "ascend.rms_norm" => rms_norm;
    "ascend.add_rms_norm" => add_rms_norm;
    "ascend.add_rms_norm_cast" => add_rms_norm_cast;
    "ascend.quantize" => quantize;
    "ascend.add_rms_norm_quant_f16" => add_rms_norm_quant_f16;
    "ascend.add_rms_norm_quant_bf16" => add_rms_norm_quant_bf16;
    "ascend.codes_by_half" => codes_by_half;
    "ascend.dynamic_quant" => dynamic_quant;
    "ascend.swiglu_quant_static" => swiglu_quant_static;
    "ascend.swiglu_quant_dynamic" => swiglu_quant_dynamic;
    "ascend.rotary_mul" => rotary_mul;
    "ascend.dynamic_quant_asymmetric" => dynamic_quant_asymmetric;
    "ascend.rms_norm_quant" => rms_norm_quant;
    "ascend.dequant_swiglu_quant" => dequant_swiglu_quant;
}

type Round = fn(f32) -> f32;

const BF16: (DType, Round) = (DType::BF16, bf16);
const F16: (DType, Round) = (DType::F16, f16);
const SHAPE: [usize; 2] = [3, 32];
const COUNT: usize = SHAPE[0] * SHAPE[1];

fn rows_of(dtype: DType, values: &[f32]) -> Tensor {
    floats(dtype, &[SHAPE[0], values.len() / SHAPE[0]], values)
}

/// Values whose squares, and squares by 1/32, sum without rounding.
fn values(seed: u64) -> Vec<f32> {
    Random::new(seed).steps(COUNT, 255, 1.0 / 32.0)
}

fn weights() -> Vec<f32> {
    Random::new(53).steps(SHAPE[1], 127, 1.0 / 64.0)
}

/// `1 / √(Σ z²·(1/n) + eps)`: the factor before the sum, root and reciprocal rounded apart.
fn rstd(z: &[f32]) -> Vec<f32> {
    let of = |row: &[f32]| 1.0 / (row.iter().map(|z| z * z * (1.0 / 32.0)).sum::<f32>() + 1e-6).sqrt();
    z.chunks(SHAPE[1]).map(of).collect()
}

fn normed(z: &[f32], combine: impl Fn(f32, f32) -> f32) -> Vec<f32> {
    let (scales, w) = (rstd(z), weights());
    z.iter().enumerate().map(|(i, z)| combine(z * scales[i / SHAPE[1]], w[i % SHAPE[1]])).collect()
}

const FORM: &str = "mean = parts, root = inverse";

fn with(dtype: DType, params: &str, body: &str) -> String {
    format!("graph @ascend(s: 0..; %x: {dtype}[s, 32], %r: {dtype}[s, 32], %w: {dtype}[32]{params}) {{\n{body}\n}}")
        .replace("{T}", dtype.name())
        .replace("{F}", FORM)
}

fn given(dtype: DType) -> Vec<Tensor> {
    vec![rows_of(dtype, &values(51)), rows_of(dtype, &values(52)), floats(dtype, &SHAPE[1..], &weights())]
}

fn sums() -> Vec<f32> {
    values(51).iter().zip(values(52)).map(|(x, r)| x + r).collect()
}

/// The norm and what it multiplies by.
fn rms_norm() {
    let body =
        "%y = rms_norm %x, %w {eps = 1e-6, round = once, {F}}\n%k = rms_scale %x {eps = 1e-6, {F}}\nreturn %y, %k";
    for (dtype, round) in [BF16, F16] {
        exact(&with(dtype, "", body), &given(dtype), |_| {
            let x = values(51);
            vec![rows_of(dtype, &normed(&x, |n, w| round(n * w))), rows_of(DType::F32, &rstd(&x))]
        });
    }
}

const UNROUNDED: &str = "%x32 = cast %x {to = f32}
    %r32 = cast %r {to = f32}
    %z = add %x32, %r32
    %h = cast %z {to = {T}}\n";

/// bf16 normalises the unrounded sum, f16 the rounded one; the norm is rounded before the weight; the sum comes last.
fn add_rms_norm() {
    let end = "%k = rms_scale %z {eps = 1e-6, {F}}\nreturn %y, %k, %h";
    let norm = "%y = rms_norm %z, %w {eps = 1e-6, round = before_weight, {F}}\n";
    exact(&with(DType::BF16, "", &format!("{UNROUNDED}{norm}{end}")), &given(DType::BF16), |_| {
        let z = sums();
        let y = normed(&z, |n, w| bf16(bf16(n) * w));
        let stored: Vec<f32> = z.iter().map(|z| bf16(*z)).collect();
        vec![rows_of(DType::BF16, &y), rows_of(DType::F32, &rstd(&z)), rows_of(DType::BF16, &stored)]
    });
    let rounded = "%z = add %x, %r\n%h = add %x, %r\n";
    exact(&with(DType::F16, "", &format!("{rounded}{norm}{end}")), &given(DType::F16), |_| {
        let z: Vec<f32> = sums().iter().map(|z| f16(*z)).collect();
        let y = normed(&z, |n, w| f16(f16(n) * w));
        vec![rows_of(DType::F16, &y), rows_of(DType::F32, &rstd(&z)), rows_of(DType::F16, &z)]
    });
}

/// The norm twice, in f32 and rounded.
fn add_rms_norm_cast() {
    let body = format!(
        "{UNROUNDED}%n = rms_norm %z {{eps = 1e-6, round = once, {{F}}}}
         %nt = cast %n {{to = {{T}}}}
         %n32 = cast %nt {{to = f32}}
         %w32 = cast %w {{to = f32}}
         %a = mul %n32, %w32
         %b = cast %a {{to = {{T}}}}
         %k = rms_scale %z {{eps = 1e-6, {{F}}}}
         return %a, %b, %k, %h"
    );
    exact(&with(DType::BF16, "", &body), &given(DType::BF16), |_| {
        let z = sums();
        let wide = normed(&z, |n, w| bf16(n) * w);
        let round = |values: &[f32]| rows_of(DType::BF16, &values.iter().map(|x| bf16(*x)).collect::<Vec<_>>());
        vec![rows_of(DType::F32, &wide), round(&wide), rows_of(DType::F32, &rstd(&z)), round(&z)]
    });
}

fn code(y: f32) -> i64 {
    y.round_ties_even().clamp(-128.0, 127.0) as i64
}

/// Scales per channel that divide or multiply; the offset is added before rounding.
fn quantize() {
    let (channel, x) = (Random::new(54).steps(SHAPE[1], 15, 1.0 / 64.0), values(51));
    let scales: Vec<f32> = channel.iter().map(|s| s.abs() + 0.0175).collect();
    let offsets: Vec<f32> = (0..SHAPE[1]).map(|i| (i % 5) as f32 - 2.0).collect();
    let text = |apply: &str| {
        let op =
            format!("%q = quantize_affine %x, %k, %z {{apply = {apply}, offset = before_rounding, bound = 127.0}}");
        with(DType::BF16, ", %k: f32[32], %z: f32[32]", &format!("{op}\nreturn %q"))
    };
    let inputs = |scales: &[f32]| {
        let mut inputs = given(DType::BF16);
        inputs.extend([floats(DType::F32, &SHAPE[1..], scales), floats(DType::F32, &SHAPE[1..], &offsets)]);
        inputs
    };
    let want = |scaled: &dyn Fn(f32, f32) -> f32| {
        let code = |(i, x): (usize, &f32)| code(scaled(*x, scales[i % SHAPE[1]]) + offsets[i % SHAPE[1]]);
        vec![ints(DType::I8, &SHAPE, &x.iter().enumerate().map(code).collect::<Vec<_>>())]
    };
    exact(&text("divide"), &inputs(&scales), |_| want(&|x, k| x / k));
    let inverses: Vec<f32> = scales.iter().map(|k| 1.0 / k).collect();
    exact(&text("multiply"), &inputs(&inverses), |_| want(&|x, k| x * (1.0 / k)));
    // One op divides by scales, the other multiplies by their reciprocals: up to a code apart at ties.
    let mut ties = inputs(&[0.3; 32]);
    ties[0] = floats(DType::F32, &SHAPE, &(0..COUNT).map(|i| (i as f32 / 2.0 - 24.0) * 0.3).collect::<Vec<_>>());
    let wide = |apply| text(apply).replace("%x: bf16", "%x: f32");
    differ(&wide("divide"), &wide("reciprocal"), &ties);
}

/// Codes by scales of channels, behind a norm.
fn quantised(y: &[f32], scale: f32) -> Tensor {
    ints(DType::I8, &SHAPE, &y.iter().map(|y| code(y / scale)).collect::<Vec<_>>())
}

const QUANTISE: &str = "%q = quantize_static %y, %k {codes = i8, apply = divide, bound = 127.0}\nreturn %q, %h";

/// Sum and product with the weight in f16, the norm rounded before the latter.
fn add_rms_norm_quant_f16() {
    let body =
        format!("%h = add %x, %r\n%y = rms_norm %h, %w {{eps = 1e-6, round = before_weight, {{F}}}}\n{QUANTISE}");
    let mut inputs = given(DType::F16);
    inputs.push(floats(DType::F32, &[], &[0.0173]));
    exact(&with(DType::F16, ", %k: f32[]", &body), &inputs, |_| {
        let z: Vec<f32> = sums().iter().map(|z| f16(*z)).collect();
        vec![quantised(&normed(&z, |n, w| f16(f16(n) * w)), 0.0173), rows_of(DType::F16, &z)]
    });
    // The same under a weight in f32.
    let wide = format!(
        "%h = add %x, %r
         %z = cast %h {{to = f32}}
         %n = rms_norm %z {{eps = 1e-6, round = once, {{F}}}}
         %nt = cast %n {{to = f16}}
         %n32 = cast %nt {{to = f32}}
         %p = mul %n32, %w
         %y = cast %p {{to = f16}}\n{QUANTISE}"
    );
    let weight: Vec<f32> = weights().iter().map(|w| w * 1.01).collect();
    inputs[2] = floats(DType::F32, &SHAPE[1..], &weight);
    exact(&with(DType::F16, ", %k: f32[]", &wide).replace("%w: f16", "%w: f32"), &inputs, |_| {
        let z: Vec<f32> = sums().iter().map(|z| f16(*z)).collect();
        let y = normed(&z, |n, _| f16(n));
        let y: Vec<f32> = y.iter().enumerate().map(|(i, n)| f16(n * weight[i % SHAPE[1]])).collect();
        vec![quantised(&y, 0.0173), rows_of(DType::F16, &z)]
    });
}

/// The unrounded sum is normalised and stays in f32 up to its codes.
fn add_rms_norm_quant_bf16() {
    let body = format!(
        "{UNROUNDED}%w32 = cast %w {{to = f32}}\n%y = rms_norm %z, %w32 {{eps = 1e-6, round = once, {{F}}}}\n{QUANTISE}"
    );
    let mut inputs = given(DType::BF16);
    inputs.push(floats(DType::F32, &[], &[0.0173]));
    let text = with(DType::BF16, ", %k: f32[]", &body);
    exact(&text, &inputs, |_| {
        let stored: Vec<f32> = sums().iter().map(|z| bf16(*z)).collect();
        vec![quantised(&normed(&sums(), |n, w| n * w), 0.0173), rows_of(DType::BF16, &stored)]
    });
    // With a bias the kernel normalises the sum as it was stored.
    let stored = body.replace("rms_norm %z,", "rms_norm %z2,").replace("%w32 =", "%z2 = cast %h {to = f32}\n%w32 =");
    differ(&text, &with(DType::BF16, ", %k: f32[]", &stored), &inputs);
}

/// Over int32 and half to int8: what half rounds is beyond int8 anyway.
fn codes_by_half() {
    let text = "graph @codes(s: 0..; %x: f32[s, 14]) {
        %a = cast %x {to = i32, saturate}
        %b = cast %a {to = f16, saturate}
        %y = cast %b {to = i8, round = trunc, saturate}
        return %y
      }";
    let x = [0.5, 1.5, -2.5, 126.5, 127.5, -128.5, -129.0, 2049.0, -70000.0, 1e20, -1e20, f32::NAN, f32::INFINITY, 3.0];
    exact(text, &[floats(DType::F32, &[1, 14], &x)], |_| {
        vec![ints(DType::I8, &[1, 14], &x.map(|x| if x.is_nan() { 0 } else { code(x) }))]
    });
}

/// The factor is 127/max, and the scale its reciprocal, so that it is rounded twice.
fn dynamic_quant() {
    let op = "%q, %k = quantize_dynamic %x {codes = i8, bound = 127.0, scale = inverse, apply = factor, nan = skip}";
    let text = with(DType::BF16, "", &format!("{op}\nreturn %q, %k"));
    exact(&text, &given(DType::BF16), |_| {
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        for row in values(51).chunks(SHAPE[1]) {
            let factor = 127.0 / row.iter().fold(0f32, |m, x| m.max(x.abs()));
            codes.extend(row.iter().map(|x| code(x * factor)));
            scales.push(1.0 / factor);
        }
        vec![ints(DType::I8, &SHAPE, &codes), rows_of(DType::F32, &scales)]
    });
    let seeds = floats(DType::BF16, &[64, 32], &Random::new(55).wide(64 * 32));
    let inputs = [seeds.clone(), seeds, floats(DType::BF16, &SHAPE[1..], &weights())];
    differ(&text, &text.replace("scale = inverse, ", ""), &inputs);
}

fn gate(a: f32) -> f32 {
    a / (1.0 + f64::from(-a).exp() as f32)
}

/// `A / (1 + e^−A) · B` in f32, of which `A` is the half that the op is told: the second, unless it says so.
fn swiglu(left: bool) -> (String, Vec<f32>) {
    let cut = |name: &str, first: bool| {
        let (start, end) = if first { (0, 16) } else { (16, 32) };
        format!("%{name} = slice %x32 {{axis = 1, start = {start}, end = {end}, step = 1}}\n")
    };
    let body = format!(
        "%x32 = cast %x {{to = f32}}\n{}{}%g = silu %a {{form = quotient}}\n%y = mul %g, %b\n",
        cut("a", left),
        cut("b", !left)
    );
    let x = values(51);
    let of = |row: &[f32], i: usize| if left { gate(row[i]) * row[i + 16] } else { gate(row[i + 16]) * row[i] };
    (body, x.chunks(32).flat_map(|row| (0..16).map(|i| of(row, i)).collect::<Vec<_>>()).collect())
}

/// The scale multiplies, and the offset is added before rounding.
fn swiglu_quant_static() {
    for left in [false, true] {
        let (body, y) = swiglu(left);
        let op =
            "%q = quantize_affine %y, %k, %z {apply = multiply, offset = before_rounding, bound = 127.0}\nreturn %q";
        let mut inputs = given(DType::BF16);
        inputs.extend([floats(DType::F32, &[], &[3.7]), floats(DType::F32, &[], &[-2.0])]);
        near(&with(DType::BF16, ", %k: f32[], %z: f32[]", &(body + op)), &inputs, |_| {
            vec![ints(DType::I8, &[3, 16], &y.iter().map(|y| code(y * 3.7 + -2.0)).collect::<Vec<_>>())]
        });
    }
}

/// The scale that is returned is the factor itself.
fn swiglu_quant_dynamic() {
    let (body, y) = swiglu(false);
    let op = "%m = abs %y
        %largest = reduce %m {op = max, axes = [1], nan = ignore}
        %top = literal f32 127
        %k = div %top, %largest
        %v = mul %y, %k
        %q = cast %v {to = i8, saturate}
        return %q, %k";
    near(&with(DType::BF16, "", &(body + op)), &given(DType::BF16), |_| {
        let factors: Vec<f32> = y.chunks(16).map(|row| 127.0 / row.iter().fold(0f32, |m, y| m.max(y.abs()))).collect();
        let codes: Vec<i64> = y.iter().enumerate().map(|(i, y)| code(y * factors[i / 16])).collect();
        vec![ints(DType::I8, &[3, 16], &codes), rows_of(DType::F32, &factors)]
    });
}

/// `x·r1 + rotate(x)·r2` in f32, rounded once.
fn rotary_mul() {
    let body = "%x32 = cast %x {to = f32}
        %r32 = cast %r {to = f32}
        %k = neg %r32
        %y32 = rope_neox %x32, %r32, %k
        %y = cast %y32 {to = {T}}
        return %y";
    for (dtype, round) in [BF16, F16] {
        exact(&with(dtype, "", body), &given(dtype), |_| {
            let (x, r) = (values(51), values(52));
            let y = |i: usize| {
                let other = if i % 32 < 16 { -x[i + 16] } else { x[i - 16] };
                round(x[i] * r[i] + other * -r[i])
            };
            vec![rows_of(dtype, &(0..COUNT).map(y).collect::<Vec<_>>())]
        });
    }
}

/// The scale has a floor, the offset is that of the largest value and is not rounded.
fn dynamic_quant_asymmetric() {
    let body = "%x32 = cast %x {to = f32}
        %most = reduce %x32 {op = max, axes = [1], nan = ignore}
        %least = reduce %x32 {op = min, axes = [1], nan = ignore}
        %d = sub %most, %least
        %n = literal f32 255.0
        %span = div %d, %n
        %eps = literal f32 1e-12
        %k = maxnum %span, %eps
        %t = div %most, %k
        %top = literal f32 127.0
        %o = sub %top, %t
        %one = literal f32 1.0
        %back = div %one, %k
        %a = mul %x32, %back
        %b = add %a, %o
        %whole = round %b
        %low = literal f32 -128.0
        %c = max %whole, %low
        %e = min %c, %top
        %q = cast %e {to = i8, round = trunc}
        return %q, %k, %o";
    let mut x = values(51);
    x[SHAPE[1]..2 * SHAPE[1]].fill(-1.5);
    let mut inputs = given(DType::BF16);
    inputs[0] = rows_of(DType::BF16, &x);
    exact(&with(DType::BF16, "", body), &inputs, |_| {
        let (mut codes, mut scales, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
        for row in x.chunks(SHAPE[1]) {
            let (most, least) = row.iter().fold((f32::MIN, f32::MAX), |(a, b), &x| (a.max(x), b.min(x)));
            let scale = ((most - least) / 255.0).max(1e-12);
            let offset = 127.0 - most / scale;
            codes.extend(row.iter().map(|x| code(x * (1.0 / scale) + offset)));
            scales.push(scale);
            offsets.push(offset);
        }
        vec![ints(DType::I8, &SHAPE, &codes), rows_of(DType::F32, &scales), rows_of(DType::F32, &offsets)]
    });
}

/// Nothing rounds before the offset is added; what is quantised is then rounded to f16.
fn rms_norm_quant() {
    let body = "%x32 = cast %x {to = f32}
        %n = rms_norm %x32, %w {eps = 1e-6, round = once, {F}}
        %b32 = cast %b {to = f32}
        %y = add %n, %b32
        %one = literal f32 1.0
        %f = div %one, %k
        %m = mul %y, %f
        %v = add %m, %z
        %h = cast %v {to = f16}
        %h32 = cast %h {to = f32}
        %whole = round %h32
        %low = literal f32 -128.0
        %high = literal f32 127.0
        %c = max %whole, %low
        %e = min %c, %high
        %q = cast %e {to = i8, round = trunc}
        return %q";
    for (dtype, _) in [BF16, F16] {
        let bias: Vec<f32> = weights().iter().rev().copied().collect();
        let mut inputs = given(dtype);
        inputs.push(floats(dtype, &SHAPE[1..], &bias));
        inputs.extend([floats(DType::F32, &[], &[0.0234]), floats(DType::F32, &[], &[-3.0])]);
        let params = format!(", %b: {dtype}[32], %k: f32[], %z: f32[]");
        exact(&with(dtype, &params, body), &inputs, |_| {
            let y = normed(&values(51), |n, w| n * w);
            let of = |(i, y): (usize, &f32)| code(f16((y + bias[i % 32]) * (1.0 / 0.0234) + -3.0));
            vec![ints(DType::I8, &SHAPE, &y.iter().enumerate().map(of).collect::<Vec<_>>())]
        });
    }
}

/// Sums of integers by the scales of their channel and token, plus a bias; the scale is `m / 127`, its reciprocal the
/// factor.
fn dequant_swiglu_quant() {
    let text = "graph @dequant(s: 0..; %x: i32[s, 32], %w: f32[32], %t: f32[s, 1], %b: f32[32]) {
        %x32 = cast %x {to = f32}
        %a = mul %x32, %w
        %c = mul %a, %t
        %y = add %c, %b
        %left = slice %y {axis = 1, start = 0, end = 16}
        %right = slice %y {axis = 1, start = 16, end = 32}
        %g = silu %right {form = quotient}
        %p = mul %g, %left
        %q, %k = quantize_dynamic %p {codes = i8, bound = 127.0, apply = reciprocal, nan = skip}
        return %q, %k
      }";
    let sums: Vec<i64> = (0..COUNT as i64).map(|i| i * 7919 % 2003 - 1000).collect();
    let (w, b, tokens) = (weights(), values(52), [0.03f32, 1.0, 0.007]);
    let inputs = [
        ints(DType::I32, &SHAPE, &sums),
        floats(DType::F32, &SHAPE[1..], &w),
        floats(DType::F32, &[3, 1], &tokens),
        floats(DType::F32, &SHAPE[1..], &b[..32]),
    ];
    near(text, &inputs, |_| {
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        for (row, token) in sums.chunks(32).zip(tokens) {
            let y: Vec<f32> = (0..32).map(|i| row[i] as f32 * w[i] * token + b[i]).collect();
            let y: Vec<f32> = (0..16).map(|i| gate(y[i + 16]) * y[i]).collect();
            let scale = y.iter().fold(0f32, |m, y| m.max(y.abs())) / 127.0;
            codes.extend(y.iter().map(|y| code(y * (1.0 / scale))));
            scales.push(scale);
        }
        vec![ints(DType::I8, &[3, 16], &codes), rows_of(DType::F32, &scales)]
    });
}
