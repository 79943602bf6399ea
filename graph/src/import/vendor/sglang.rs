//! SGLang's kernels: those of FlashInfer, which compute in f32 and round once where they store.

use fusewright_abi::DType;

use super::super::call::{Call, Imported};
use super::groups::{Bounds, dynamic_group_codes};
use super::vllm::{halves, shaped};
use super::{One, absmax, f32, last_axis, wide};
use crate::builder::Builder;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::ops::{
    Apply, Codes, Composite, Gelu, GeluForm, GemmaRmsNorm, NanCode, QuantizeStatic, RmsNorm, RmsRounding, RmsScale,
    Silu, SiluForm,
};
use crate::scalar::ScalarFn;

/// What a weight is to a norm.
#[derive(Clone, Copy)]
enum Weight {
    Factor,
    /// Its distance from one.
    Gemma,
}

fn norm(call: &Call<'_>, x: Value, weight: Weight) -> One {
    let scale = RmsScale::new(f64::from(call.scalar("eps")?.as_f64() as f32));
    let op = match weight {
        Weight::Factor => Composite::new(RmsNorm { scale, round: RmsRounding::Once }),
        Weight::Gemma => Composite::new(GemmaRmsNorm { scale }),
    };
    Ok(call.b.composite(op, &[x, call.tensor("weight")?])?[0])
}

/// The norm of the unrounded sum, and the rounded sum.
fn add_norm(call: &Call<'_>, weight: Weight) -> Imported {
    let (b, dtype) = (call.b, call.b.dtype(call.tensor("input")?));
    let sum = b.add(wide(call, "input")?, wide(call, "residual")?)?;
    Ok(vec![b.cast(norm(call, sum, weight)?, dtype)?, b.cast(sum, dtype)?])
}

pub(super) fn rmsnorm(call: &Call<'_>) -> Imported {
    Ok(vec![norm(call, call.tensor("input")?, Weight::Factor)?])
}

pub(super) fn gemma_rmsnorm(call: &Call<'_>) -> Imported {
    Ok(vec![norm(call, call.tensor("input")?, Weight::Gemma)?])
}

pub(super) fn fused_add_rmsnorm(call: &Call<'_>) -> Imported {
    add_norm(call, Weight::Factor)
}

pub(super) fn gemma_fused_add_rmsnorm(call: &Call<'_>) -> Imported {
    add_norm(call, Weight::Gemma)
}

/// `act(first) · second` in f32, rounded once.
fn gated(call: &Call<'_>, act: impl Fn(&Builder, Value) -> Result<Value, TypeError>) -> Imported {
    let b = call.b;
    let [gate, up] = halves(call, wide(call, "input")?, "input")?;
    Ok(vec![b.cast(b.mul(act(b, gate)?, up)?, b.dtype(call.tensor("input")?))?])
}

pub(super) fn silu_and_mul(call: &Call<'_>) -> Imported {
    gated(call, |b, x| Ok(b.composite(Composite::new(Silu { form: SiluForm::Quotient }), &[x])?[0]))
}

pub(super) fn gelu_and_mul(call: &Call<'_>) -> Imported {
    gated(call, |b, x| Ok(b.composite(Composite::new(Gelu::new(GeluForm::Erf)), &[x])?[0]))
}

/// The cube is of products from the left: `0.044715·x·x·x`.
pub(super) fn gelu_tanh_and_mul(call: &Call<'_>) -> Imported {
    gated(call, |b, x| {
        let number = |v: f64| b.float(DType::F32, f64::from(v as f32));
        let cube = b.mul(b.mul(b.mul(number(0.044_715)?, x)?, x)?, x)?;
        let beta = std::f64::consts::SQRT_2 * std::f64::consts::FRAC_2_SQRT_PI * 0.5;
        let bend = b.map(ScalarFn::Tanh, &[b.mul(number(beta)?, b.add(x, cube)?)?])?;
        b.mul(x, b.mul(number(0.5)?, b.add(number(1.0)?, bend)?)?)
    })
}

/// `absmax / 448` and codes by its reciprocal; of a row of zeros both are 0, as in the kernel for many tokens.
pub(super) fn per_token_quant_fp8(call: &Call<'_>) -> Imported {
    let b = call.b;
    let x = wide(call, "input")?;
    let largest = absmax(call, x, vec![last_axis(call, x)?])?;
    let largest = b.map(ScalarFn::Max, &[largest, f32(call, 0.0)?])?;
    let scale = b.div(largest, f32(call, 448.0)?)?;
    let none = b.map(ScalarFn::Eq, &[scale, f32(call, 0.0)?])?;
    let factor = b.map(ScalarFn::Select, &[none, f32(call, 0.0)?, b.div(f32(call, 1.0)?, scale)?])?;
    let (apply, nan) = (Apply::Multiply, NanCode::High);
    let op = QuantizeStatic { codes: Codes::F8E4M3, apply, bound: 448.0, nan };
    let codes = b.composite(Composite::new(op), &[x, factor])?[0];
    Ok(vec![codes, shaped(call, scale, "output_s")?])
}

/// `max(m, eps) / bound` and codes of the quotients by it. Powers of two as scales are by a chain of functions that the
/// GPU approximates, and lie in words.
pub(super) fn per_token_group_quant_8bit(call: &Call<'_>) -> Imported {
    if call.bool("scale_ue8m0")? {
        return Err(call.refused("scale_ue8m0", "powers of two by the GPU's logarithm, four to a word"));
    }
    dynamic_group_codes(call, Apply::Divide, false, Bounds { low: "fp8_min", high: "fp8_max" })
}
