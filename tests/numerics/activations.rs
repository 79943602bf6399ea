//! Gated activations: which half is activated, what is clamped, and what is rounded before the product.

use fusewright::graph::{DType, Tensor};

use crate::oracle::{bf16, e4m3, f16};
use crate::ways::{Random, coded, differ, exact, floats, near};

rows! {
    "act.silu_and_mul" => silu_and_mul;
    "act.mul_and_silu" => mul_and_silu;
    "act.silu_and_mul_clamp" => silu_and_mul_clamp;
    "act.swigluoai" => swigluoai;
    "act.swigluoai_product" => swigluoai_product;
    "act.swiglu_step" => swiglu_step;
    "act.swiglu_step_kernel" => swiglu_step_kernel;
    "act.gelu_and_mul" => gelu_and_mul;
    "act.gelu_tanh_and_mul" => gelu_tanh_and_mul;
    "act.gelu_new" => gelu_new;
    "act.gelu_fast" => gelu_fast;
    "act.fatrelu_and_mul" => fatrelu_and_mul;
    "act.situ" => situ;
    "act.silu_fp8_static" => silu_fp8_static;
    "act.silu_fp8_group" => silu_fp8_group;
    "act.silu_nvfp4_input" => silu_nvfp4_input;
}

const M: usize = 3;
const LANES: usize = 48;

pub type Round = fn(f32) -> f32;

const TYPES: [(DType, Round); 2] = [(DType::BF16, bf16), (DType::F16, f16)];

fn values() -> Vec<f32> {
    let mut values = Random::new(7).steps(M * 2 * LANES, 127, 1.0 / 16.0);
    values[..4].copy_from_slice(&[0.0, -0.0, -96.0, 90.0]);
    values
}

pub fn silu(g: f32) -> f32 {
    g / (1.0 + f64::from(-g).exp() as f32)
}

pub fn sigmoid(g: f32) -> f32 {
    1.0 / (1.0 + f64::from(-g).exp() as f32)
}

pub fn text(dtype: DType, body: &str) -> String {
    let halves = "%gate = slice %x {axis = 1, start = 0, end = 48, step = 1}
        %up = slice %x {axis = 1, start = 48, end = 96, step = 1}";
    format!("graph @act(s: 0..; %x: {dtype}[s, 96]) {{\n{halves}\n{body}\n}}").replace("{T}", dtype.name())
}

fn input(dtype: DType) -> Tensor {
    floats(dtype, &[M, 2 * LANES], &values())
}

/// `combine(gate, up)` of halves.
fn of_halves(combine: impl Fn(f32, f32) -> f32) -> Vec<f32> {
    let values = values();
    values
        .chunks(2 * LANES)
        .flat_map(|row| (0..LANES).map(|i| combine(row[i], row[i + LANES])).collect::<Vec<_>>())
        .collect()
}

#[track_caller]
pub fn halves(body: &str, combine: impl Fn(f32, f32, Round) -> f32) {
    for (dtype, round) in TYPES {
        near(&text(dtype, body), &[input(dtype)], |_| {
            vec![floats(dtype, &[M, LANES], &of_halves(|gate, up| combine(gate, up, round)))]
        });
    }
}

const SILU: &str = "%a = silu %gate {form = quotient}\n%y = mul %a, %up\nreturn %y";

fn silu_and_mul() {
    halves(SILU, |gate, up, round| round(round(silu(gate)) * up));
    // Without the rounding of the activation some bits are others.
    let unrounded = "%g32 = cast %gate {to = f32}\n%u32 = cast %up {to = f32}\n%a = silu %g32 {form = quotient}
        %p = mul %a, %u32\n%y = cast %p {to = {T}}\nreturn %y";
    differ(&text(DType::BF16, SILU), &text(DType::BF16, unrounded), &[input(DType::BF16)]);
}

fn mul_and_silu() {
    let body = "%a = silu %up {form = quotient}\n%y = mul %gate, %a\nreturn %y";
    halves(body, |gate, up, round| round(gate * round(silu(up))));
}

/// Clamps of `gate` from above and of `up` from both sides, `a` rounded, then `a · (up + beta)` in f32.
const CLAMPED: &str = "%limit = literal {T} 4
    %low = literal {T} -4
    %g = min %gate, %limit
    %u0 = max %up, %low
    %u = min %u0, %limit
    %g32 = cast %g {to = f32}
    %alpha = literal f32 1.5
    %t = mul %g32, %alpha
    %neg = neg %t
    %e = exp %neg
    %one = literal f32 1
    %d = add %one, %e
    %s = div %g32, %d
    %a = cast %s {to = {T}}
    %a32 = cast %a {to = f32}
    %u32 = cast %u {to = f32}
    %beta = literal f32 1
    %ub = add %u32, %beta
    %p = mul %a32, %ub
    %y = cast %p {to = {T}}
    return %y";

fn silu_and_mul_clamp() {
    halves(CLAMPED, |gate, up, round| {
        let (g, u) = (gate.min(4.0), up.clamp(-4.0, 4.0));
        let a = round(g / (1.0 + f64::from(-(g * 1.5)).exp() as f32));
        round(a * (u + 1.0))
    });
}

/// Neighbouring lanes are gate and up; `last` makes `%p` from the clamped `%g` and `%u`.
#[track_caller]
fn neighbours(last: &str, combine: impl Fn(f32, f32) -> f32) {
    let body = format!(
        "%limit = literal f32 7
         %low = literal f32 -7
         %gate32 = cast %gate {{to = f32}}
         %up32 = cast %up {{to = f32}}
         %g = min %gate32, %limit
         %u0 = max %up32, %low
         %u = min %u0, %limit
         %alpha = literal f32 1.702
         %one = literal f32 1
         %u1 = add %u, %one
         {last}
         %y = cast %p {{to = {{T}}}}
         return %y"
    );
    for (dtype, round) in TYPES {
        let text = text(dtype, &body)
            .replace("start = 0, end = 48, step = 1", "start = 0, end = 96, step = 2")
            .replace("start = 48, end = 96, step = 1", "start = 1, end = 96, step = 2");
        near(&text, &[input(dtype)], |_| {
            let pair = |pair: &[f32]| round(combine(pair[0].min(7.0), pair[1].clamp(-7.0, 7.0)));
            vec![floats(dtype, &[M, LANES], &values().chunks(2).map(pair).collect::<Vec<_>>())]
        });
    }
}

/// The product with `u + 1` comes before the quotient.
fn swigluoai() {
    let last = "%n = neg %g\n%t = mul %n, %alpha\n%e = exp %t\n%d = add %one, %e\n%m = mul %u1, %g\n%p = div %m, %d";
    neighbours(last, |g, u| (u + 1.0) * g / (1.0 + f64::from(-g * 1.702).exp() as f32));
}

fn swigluoai_product() {
    let last = "%t = mul %g, %alpha\n%sg = sigmoid %t\n%glu = mul %g, %sg\n%p = mul %u1, %glu";
    neighbours(last, |g, u| (u + 1.0) * (g * sigmoid(g * 1.702)));
}

/// The clamp of the gate is behind its activation.
fn swiglu_step() {
    let body = "%limit = literal {T} 2
        %low = literal {T} -2
        %a = silu %gate {form = quotient}
        %g = min %a, %limit
        %u0 = max %up, %low
        %u = min %u0, %limit
        %y = mul %g, %u
        return %y";
    halves(body, |gate, up, round| round(round(silu(gate)).min(2.0) * up.clamp(-2.0, 2.0)));
}

/// The same in f32, rounded once.
fn swiglu_step_kernel() {
    let body = "%limit = literal f32 2
        %low = literal f32 -2
        %gate32 = cast %gate {to = f32}
        %up32 = cast %up {to = f32}
        %a = silu %gate32 {form = quotient}
        %g = min %a, %limit
        %u0 = max %up32, %low
        %u = min %u0, %limit
        %p = mul %g, %u
        %y = cast %p {to = {T}}
        return %y";
    halves(body, |gate, up, round| round(silu(gate).min(2.0) * up.clamp(-2.0, 2.0)));
}

/// `erf` by its Taylor series, summed in f64; ±1 where that is the nearest f32.
fn erf(x: f64) -> f64 {
    if x.abs() > 3.93 {
        return x.signum();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

fn gelu_and_mul() {
    let body = "%a = gelu %gate {approximate = none}\n%y = mul %a, %up\nreturn %y";
    halves(body, |gate, up, round| {
        let inner = gate * std::f32::consts::FRAC_1_SQRT_2;
        round(round(gate * 0.5 * (1.0 + erf(f64::from(inner)) as f32)) * up)
    });
}

fn gelu_tanh_and_mul() {
    let body = "%a = gelu %gate {approximate = tanh}\n%y = mul %a, %up\nreturn %y";
    halves(body, |gate, up, round| {
        let beta = std::f64::consts::SQRT_2 * std::f64::consts::FRAC_2_SQRT_PI * 0.5;
        let inner = beta as f32 * (gate + 0.044_715 * (gate * gate * gate));
        round(round(0.5 * gate * (1.0 + f64::from(inner).tanh() as f32)) * up)
    });
}

/// `gelu` of the gate, rounded at every step; `inner` is what the tangent is of.
fn gelu_each(approximate: &str, inner: impl Fn(f32, Round, f32) -> f32) {
    let body = format!("%a = gelu %gate {{approximate = {approximate}, round = each}}\n%y = mul %a, %up\nreturn %y");
    halves(&body, |gate, up, round| {
        let beta = (2.0 / std::f64::consts::PI).sqrt() as f32;
        let bend = round(f64::from(inner(gate, round, beta)).tanh() as f32);
        round(round(round(0.5 * gate) * round(1.0 + bend)) * up)
    });
}

fn gelu_new() {
    gelu_each("tanh", |gate, round, beta| {
        let cube = round(round(gate * gate) * gate);
        round(beta * round(gate + round(0.044_715 * cube)))
    });
}

fn gelu_fast() {
    gelu_each("fast", |gate, round, beta| {
        let slope = round(1.0 + round(round(0.044_715 * gate) * gate));
        round(round(beta * gate) * slope)
    });
}

fn fatrelu_and_mul() {
    let body = "%t = literal {T} 0.5
        %zero = literal {T} 0
        %over = gt %gate, %t
        %a = select %over, %gate, %zero
        %y = mul %a, %up
        return %y";
    for (dtype, round) in TYPES {
        exact(&text(dtype, body), &[input(dtype)], |_| {
            let y = of_halves(|gate, up| round(if gate > 0.5 { gate } else { 0.0 } * up));
            vec![floats(dtype, &[M, LANES], &y)]
        });
    }
}

/// All in f32, rounded once.
fn situ() {
    let body = "%g32 = cast %gate {to = f32}
        %u32 = cast %up {to = f32}
        %beta = literal f32 3
        %q = div %g32, %beta
        %t = tanh %q
        %bt = mul %beta, %t
        %s = sigmoid %g32
        %a = mul %bt, %s
        %p = mul %a, %u32
        %y = cast %p {to = {T}}
        return %y";
    halves(body, |gate, up, round| round(3.0 * f64::from(gate / 3.0).tanh() as f32 * sigmoid(gate) * up));
}

fn silu_fp8_static() {
    let body = SILU.replace(
        "return %y",
        "%k = literal f32 0.03
         %q = quantize_static %y, %k {codes = f8e4m3, apply = reciprocal, bound = 448.0, nan = high}\nreturn %q",
    );
    for (dtype, round) in TYPES {
        near(&text(dtype, &body), &[input(dtype)], |_| {
            let y = of_halves(|gate, up| round(round(silu(gate)) * up));
            let codes: Vec<u64> = y.iter().map(|y| e4m3((y * (1.0 / 0.03f32)).clamp(-448.0, 448.0))).collect();
            vec![coded(DType::F8E4M3, &[M, LANES], &codes)]
        });
    }
}

/// `silu` as a product with the reciprocal of its denominator, and no rounding to the activation's dtype at all. The
/// bound is on the scale, and the quotient is exact.
fn silu_fp8_group() {
    let body = "%g32 = cast %gate {to = f32}
        %u32 = cast %up {to = f32}
        %a = silu %g32 {form = product}
        %y = mul %a, %u32
        %groups = reshape %y {shape = [s, 3, 16]}
        %m = abs %groups
        %largest = reduce %m {op = max, axes = [2], nan = ignore}
        %e = literal f32 448
        %unbounded = div %largest, %e
        %ub = literal f32 0.05
        %below = min %unbounded, %ub
        %floor = literal f32 4.359654e-6
        %k = max %below, %floor
        %v = div %groups, %k
        %high = minnum %v, %e
        %ne = neg %e
        %c = maxnum %high, %ne
        %codes = cast %c {to = f8e4m3, saturate}
        %q = reshape %codes {shape = [s, 48]}
        return %q, %k";
    for (dtype, _) in TYPES {
        near(&text(dtype, body), &[input(dtype)], |_| {
            let y = of_halves(|gate, up| gate * sigmoid(gate) * up);
            let scale = |group: &[f32]| {
                let largest = group.iter().fold(0f32, |m, y| m.max(y.abs()));
                (largest / 448.0).min(0.05).max((1.0 / (448.0 * 512.0)) as f32)
            };
            let scales: Vec<f32> = y.chunks(16).map(scale).collect();
            let codes = y.iter().enumerate().map(|(i, y)| e4m3((y / scales[i / 16]).clamp(-448.0, 448.0)));
            let q = coded(DType::F8E4M3, &[M, LANES], &codes.collect::<Vec<_>>());
            vec![q, floats(DType::F32, &[M, 3, 1], &scales)]
        });
    }
}

/// What the block quantiser sees: the product, rounded once.
fn silu_nvfp4_input() {
    let body = "%g32 = cast %gate {to = f32}
        %u32 = cast %up {to = f32}
        %a = silu %g32 {form = quotient}
        %p = mul %a, %u32
        %y = cast %p {to = {T}}
        return %y";
    halves(body, |gate, up, round| round(silu(gate) * up));
}
