//! Gates of models, where every function rounds to the dtype of the rows, and bounded logits.

use fusewright::graph::DType;

use crate::activations::{halves, sigmoid, silu, text};
use crate::ways::{coded, differ, exact, floats};

rows! {
    "act.gpt_oss" => gpt_oss;
    "act.clamped_silu" => clamped_silu;
    "act.relu_squared_and_mul" => relu_squared_and_mul;
    "act.fatrelu_model" => fatrelu_model;
    "act.sigmoid_and_mul" => sigmoid_and_mul;
    "act.soft_cap" => soft_cap;
}

fn gpt_oss() {
    let body = "%y = clamped_swiglu %gate, %up {limit = 4, alpha = 1.702, beta = 1}\nreturn %y";
    halves(body, |gate, up, round| {
        let (g, u) = (gate.min(4.0), up.clamp(-4.0, 4.0));
        round(round(u + 1.0) * round(g * round(sigmoid(round(g * 1.702)))))
    });
    // In f32 throughout some bits are others.
    let once = body.replace("beta = 1", "beta = 1, round = once");
    let rows = [floats(DType::BF16, &[3, 96], &(0..288).map(|i| (i % 61) as f32 / 8.0 - 3.5).collect::<Vec<_>>())];
    differ(&text(DType::BF16, body), &text(DType::BF16, &once), &rows);
}

fn clamped_silu() {
    let attrs = "limit = 4, alpha = 1, beta = 0, act = quotient";
    let body = format!("%y = clamped_swiglu %gate, %up {{{attrs}}}\nreturn %y");
    halves(&body, |gate, up, round| round(round(silu(gate.min(4.0))) * up.clamp(-4.0, 4.0)));
}

/// Exact but for its two products, each rounded once.
fn relu_squared_and_mul() {
    let body = "%a = relu_squared %gate\n%y = mul %a, %up\nreturn %y";
    halves(body, |gate, up, round| round(round(gate.max(0.0) * gate.max(0.0)) * up));
}

/// NaN stays, and what is at the threshold goes.
fn fatrelu_model() {
    let bits = |values: &[f32]| values.iter().map(|v| u64::from(v.to_bits() >> 16)).collect::<Vec<u64>>();
    let (x, y) = (
        [0.5, 0.503_906_25, -1.0, f32::NAN, f32::INFINITY, 0.0],
        [0.0, 0.503_906_25, 0.0, f32::NAN, f32::INFINITY, 0.0],
    );
    let text = "graph @fatrelu(s: 0..; %x: bf16[s, 6]) {\n%y = fatrelu %x {threshold = 0.5}\nreturn %y\n}";
    let row = |values: &[f32]| coded(DType::BF16, &[1, 6], &bits(values));
    exact(text, &[row(&x)], |_| vec![row(&y)]);
    let kernel = text.replace("0.5}", "0.5, nan = zero}");
    exact(&kernel, &[row(&x)], |_| vec![row(&[0.0, 0.503_906_25, 0.0, 0.0, f32::INFINITY, 0.0])]);
}

fn sigmoid_and_mul() {
    let body = "%a = sigmoid %gate\n%y = mul %a, %up\nreturn %y";
    halves(body, |gate, up, round| round(round(sigmoid(gate)) * up));
}

/// Three functions, each rounded.
fn soft_cap() {
    let body = "%a = soft_cap %gate {cap = 30}\n%y = add %a, %up\nreturn %y";
    halves(body, |gate, up, round| {
        let bent = round(f64::from(round(gate / 30.0)).tanh() as f32);
        round(round(bent * 30.0) + up)
    });
}
