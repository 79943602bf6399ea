//! vLLM's gated activations: `act(gate)` is rounded, then multiplied. Alone, and with a quantiser behind.

use super::super::aten::layout::cut;
use super::super::call::{Call, Imported, Refusal};
use super::blocks::nvfp4_codes;
use super::groups::{dynamic_groups, group_scales, in_groups, least_fp8_scale};
use super::vllm::{fp8_codes, halves, shaped, single};
use super::{One, absmax, f32, last_axis, wide};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{
    Apply, ClampedSwiglu, Codes, Composite, DynamicScale, FatRelu, FatReluNan, Floor, Gelu, GeluForm, GeluRounding,
    NanCode, QuantizeDynamic, QuantizeStatic, Silu, SiluForm, StepRounding, SwigluAct, SwigluRounding, SwigluStep,
};
use crate::scalar::ScalarFn;

/// Makes an op of a value.
fn one(b: &Builder, op: Composite, x: Value) -> One {
    Ok(b.composite(op, &[x])?[0])
}

fn silu(form: SiluForm) -> Composite {
    Composite::new(Silu { form })
}

/// `act(gate) · up`, where the gate is the first half.
fn gated(call: &Call<'_>, act: Composite) -> One {
    let [gate, up] = halves(call, call.tensor("input")?, "input")?;
    Ok(call.b.mul(one(call.b, act, gate)?, up)?)
}

pub(super) fn silu_and_mul(call: &Call<'_>) -> Imported {
    Ok(vec![gated(call, silu(SiluForm::Quotient))?])
}

/// The second half is the gate.
pub(super) fn mul_and_silu(call: &Call<'_>) -> Imported {
    let [up, gate] = halves(call, call.tensor("input")?, "input")?;
    Ok(vec![call.b.mul(up, one(call.b, silu(SiluForm::Quotient), gate)?)?])
}

pub(super) fn gelu_and_mul(call: &Call<'_>) -> Imported {
    Ok(vec![gated(call, Composite::new(Gelu::new(GeluForm::Erf)))?])
}

pub(super) fn gelu_tanh_and_mul(call: &Call<'_>) -> Imported {
    Ok(vec![gated(call, Composite::new(Gelu::new(GeluForm::Tanh)))?])
}

/// The gate where it is above the threshold, else 0.
pub(super) fn fatrelu_and_mul(call: &Call<'_>) -> Imported {
    let threshold = number(call, "threshold")?;
    Ok(vec![gated(call, Composite::new(FatRelu { threshold, nan: FatReluNan::Zero }))?])
}

/// A number argument as the nearest f32.
fn number(call: &Call<'_>, name: &str) -> Result<f64, Refusal> {
    Ok(f64::from(call.scalar(name)?.as_f64() as f32))
}

/// A gate of two operands.
fn of_pair(call: &Call<'_>, op: Composite, pair: [Value; 2]) -> Imported {
    Ok(call.b.composite(op, &pair)?)
}

/// Both halves are clamped and rounded; the activation is rounded, and its product with `up + beta`.
pub(super) fn silu_and_mul_with_clamp(call: &Call<'_>) -> Imported {
    let [limit, alpha, beta] = ["limit", "alpha", "beta"].map(|name| number(call, name));
    let (act, round) = (SwigluAct::Quotient, SwigluRounding::Steps);
    let op = ClampedSwiglu { limit: limit?, alpha: alpha?, beta: beta?, act, round };
    of_pair(call, Composite::new(op), halves(call, call.tensor("input")?, "input")?)
}

/// Neighbours are gate and up: `((up + 1) · gate) / (1 + e^(−alpha · gate))` in f32, rounded once.
pub(super) fn swigluoai_and_mul(call: &Call<'_>) -> Imported {
    let input = call.tensor("input")?;
    let axis = last_axis(call, input)?;
    let extent = call.b.ty(input).shape[axis].clone();
    if extent.exact_div(&Dim::constant(2)).is_none() {
        return Err(call.refused("input", "an odd last axis"));
    }
    let every_other = |start| cut(call, input, axis, [Dim::constant(start), extent.clone()], 2);
    let (limit, alpha) = (number(call, "limit")?, number(call, "alpha")?);
    let op = ClampedSwiglu { limit, alpha, beta: 1.0, act: SwigluAct::Late, round: SwigluRounding::Once };
    of_pair(call, Composite::new(op), [every_other(0)?, every_other(1)?])
}

/// The gate is clamped behind its activation; all in f32, rounded once.
pub(super) fn swiglustep_and_mul(call: &Call<'_>) -> Imported {
    let op = SwigluStep { limit: number(call, "limit")?, form: SiluForm::Quotient, round: StepRounding::Once };
    of_pair(call, Composite::new(op), halves(call, call.tensor("input")?, "input")?)
}

/// `silu(gate) · up` in f32, which nothing rounds; the sigmoid is a factor.
fn wide_product(call: &Call<'_>, form: SiluForm) -> One {
    let [gate, up] = halves(call, wide(call, "input")?, "input")?;
    Ok(call.b.mul(one(call.b, silu(form), gate)?, up)?)
}

pub(super) fn silu_and_mul_quant(call: &Call<'_>) -> Imported {
    let y = gated(call, silu(SiluForm::Quotient))?;
    Ok(vec![fp8_codes(call, y, single(call, "scale")?)?])
}

/// The product is quantised unrounded. `scale_ub` bounds the scale itself, not the magnitude.
pub(super) fn silu_and_mul_per_block_quant(call: &Call<'_>) -> Imported {
    let groups = in_groups(call, wide_product(call, SiluForm::Product)?)?;
    if !call.is_none("scale_ub")? {
        return bounded_scales(call, groups);
    }
    let op = QuantizeDynamic {
        floor_of: Floor::Scale,
        floor: least_fp8_scale(),
        scale: DynamicScale::Quotient,
        apply: Apply::Divide,
        nan: NanCode::High,
        ..QuantizeDynamic::default()
    };
    dynamic_groups(call, op, &[groups], ["out", "scales"])
}

/// Codes by `max(min(absmax / 448, scale_ub), least)`.
fn bounded_scales(call: &Call<'_>, groups: Value) -> Imported {
    let b = call.b;
    let largest = absmax(call, groups, vec![last_axis(call, groups)?])?;
    let largest = b.map(ScalarFn::Max, &[largest, f32(call, 0.0)?])?;
    let quotient = b.div(largest, f32(call, 448.0)?)?;
    let bounded = b.map(ScalarFn::Min, &[quotient, single(call, "scale_ub")?])?;
    let scale = b.map(ScalarFn::Max, &[bounded, f32(call, least_fp8_scale())?])?;
    let op = QuantizeStatic { codes: Codes::F8E4M3, apply: Apply::Divide, bound: 448.0, nan: NanCode::High };
    let codes = b.composite(Composite::new(op), &[groups, scale])?[0];
    Ok(vec![shaped(call, codes, "out")?, group_scales(call, scale, "scales")?])
}

/// The product is rounded once, before the blocks.
pub(super) fn silu_and_mul_nvfp4_quant(call: &Call<'_>) -> Result<Vec<Value>, Refusal> {
    let b = call.b;
    let y = b.cast(wide_product(call, SiluForm::Quotient)?, b.dtype(call.tensor("input")?))?;
    nvfp4_codes(call, y, single(call, "input_global_scale")?, ("result_block_scale", true))
}

/// One operand without a gate.
fn alone(call: &Call<'_>, op: Composite) -> Imported {
    Ok(vec![one(call.b, op, call.tensor("input")?)?])
}

/// By a hyperbolic tangent; every step rounds.
pub(super) fn gelu_new(call: &Call<'_>) -> Imported {
    alone(call, Composite::new(Gelu { approximate: GeluForm::Tanh, round: GeluRounding::Each }))
}

/// The same in the form of models that call it fast.
pub(super) fn gelu_fast(call: &Call<'_>) -> Imported {
    alone(call, Composite::new(Gelu { approximate: GeluForm::Fast, round: GeluRounding::Each }))
}

/// `x / (1 + e^(−1.702 · x))` in f32, rounded once.
pub(super) fn gelu_quick(call: &Call<'_>) -> Imported {
    let b = call.b;
    let x = wide(call, "input")?;
    let power = b.map(ScalarFn::Exp, &[b.map(ScalarFn::Neg, &[b.mul(f32(call, 1.702)?, x)?])?])?;
    let y = b.div(x, b.add(f32(call, 1.0)?, power)?)?;
    Ok(vec![b.cast(y, b.dtype(call.tensor("input")?))?])
}
