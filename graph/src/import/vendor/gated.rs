//! vLLM's gated activations: `act(gate)` is rounded, then multiplied. Alone, and with a quantiser behind.

use fusewright_abi::DType;

use super::super::aten::layout::cut;
use super::super::aten::promote::convert;
use super::super::call::{Call, Imported, Refusal};
use super::blocks::nvfp4_codes;
use super::groups::{dynamic_groups, in_groups};
use super::vllm::{fp8_codes, halves, single};
use super::{One, f32, last_axis, wide};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::ops::{Apply, Composite, DynamicScale, Floor, Gelu, GeluForm, NanCode, QuantizeDynamic, Silu, SiluForm};
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
    let [gate, up] = halves(call, call.tensor("input")?)?;
    Ok(call.b.mul(one(call.b, act, gate)?, up)?)
}

pub(super) fn silu_and_mul(call: &Call<'_>) -> Imported {
    Ok(vec![gated(call, silu(SiluForm::Quotient))?])
}

/// The second half is the gate.
pub(super) fn mul_and_silu(call: &Call<'_>) -> Imported {
    let [up, gate] = halves(call, call.tensor("input")?)?;
    Ok(vec![call.b.mul(up, one(call.b, silu(SiluForm::Quotient), gate)?)?])
}

pub(super) fn gelu_and_mul(call: &Call<'_>) -> Imported {
    Ok(vec![gated(call, Composite::new(Gelu { approximate: GeluForm::Erf }))?])
}

pub(super) fn gelu_tanh_and_mul(call: &Call<'_>) -> Imported {
    Ok(vec![gated(call, Composite::new(Gelu { approximate: GeluForm::Tanh }))?])
}

/// The gate where it is above the threshold, else 0.
pub(super) fn fatrelu_and_mul(call: &Call<'_>) -> Imported {
    let b = call.b;
    let [gate, up] = halves(call, call.tensor("input")?)?;
    let threshold = f32(call, call.scalar("threshold")?.as_f64())?;
    let above = b.map(ScalarFn::Gt, &[convert(b, gate, DType::F32)?, threshold])?;
    let kept = b.map(ScalarFn::Select, &[above, gate, b.float(b.dtype(gate), 0.0)?])?;
    Ok(vec![b.mul(kept, up)?])
}

/// `value` in f32, no more than `limit`, and no less than its negative where both sides are bounded.
fn clamped(call: &Call<'_>, value: Value, both: bool) -> One {
    let limit = call.scalar("limit")?.as_f64();
    let below = call.b.map(ScalarFn::MinNum, &[convert(call.b, value, DType::F32)?, f32(call, limit)?])?;
    if both { Ok(call.b.map(ScalarFn::MaxNum, &[below, f32(call, -limit)?])?) } else { Ok(below) }
}

/// `1 + e^(−alpha · gate)` of an f32 value.
fn slope(call: &Call<'_>, gate: Value) -> One {
    let b = call.b;
    let turned = b.mul(b.map(ScalarFn::Neg, &[gate])?, f32(call, call.scalar("alpha")?.as_f64())?)?;
    Ok(b.add(f32(call, 1.0)?, b.map(ScalarFn::Exp, &[turned])?)?)
}

/// Both halves are clamped and rounded; the activation is rounded, and its product with `up + beta`.
pub(super) fn silu_and_mul_with_clamp(call: &Call<'_>) -> Imported {
    let b = call.b;
    let input = call.tensor("input")?;
    let dtype = b.dtype(input);
    let [gate, up] = halves(call, input)?;
    let wide = |x: Value| -> One { Ok(convert(b, b.cast(x, dtype)?, DType::F32)?) };
    let (gate, up) = (wide(clamped(call, gate, false)?)?, wide(clamped(call, up, true)?)?);
    let act = wide(b.div(gate, slope(call, gate)?)?)?;
    let shifted = b.add(up, f32(call, call.scalar("beta")?.as_f64())?)?;
    Ok(vec![b.cast(b.mul(act, shifted)?, dtype)?])
}

/// Neighbours are gate and up: `((up + 1) · gate) / (1 + e^(−alpha · gate))` in f32, rounded once.
pub(super) fn swigluoai_and_mul(call: &Call<'_>) -> Imported {
    let b = call.b;
    let input = call.tensor("input")?;
    let axis = last_axis(call, input)?;
    let extent = b.ty(input).shape[axis].clone();
    if extent.exact_div(&Dim::constant(2)).is_none() {
        return Err("an odd last axis".into());
    }
    let every_other = |start| cut(call, input, axis, [Dim::constant(start), extent.clone()], 2);
    let (gate, up) = (clamped(call, every_other(0)?, false)?, clamped(call, every_other(1)?, true)?);
    let product = b.mul(b.add(up, f32(call, 1.0)?)?, gate)?;
    Ok(vec![b.cast(b.div(product, slope(call, gate)?)?, b.dtype(input))?])
}

/// The gate is clamped behind its activation; all in f32, rounded once.
pub(super) fn swiglustep_and_mul(call: &Call<'_>) -> Imported {
    let b = call.b;
    let input = call.tensor("input")?;
    let [gate, up] = halves(call, wide(call, "input")?)?;
    let act = one(b, silu(SiluForm::Quotient), gate)?;
    let y = b.mul(clamped(call, act, false)?, clamped(call, up, true)?)?;
    Ok(vec![b.cast(y, b.dtype(input))?])
}

/// `silu(gate) · up` in f32, which nothing rounds; the sigmoid is a factor.
fn wide_product(call: &Call<'_>, form: SiluForm) -> One {
    let [gate, up] = halves(call, wide(call, "input")?)?;
    Ok(call.b.mul(one(call.b, silu(form), gate)?, up)?)
}

pub(super) fn silu_and_mul_quant(call: &Call<'_>) -> Imported {
    let y = gated(call, silu(SiluForm::Quotient))?;
    Ok(vec![fp8_codes(call, y, single(call, "scale")?)?])
}

/// The product is quantised unrounded. A bound would be one of the scale, which is no bound of the magnitude.
pub(super) fn silu_and_mul_per_block_quant(call: &Call<'_>) -> Imported {
    if !call.is_none("scale_ub")? {
        return Err("a bound of the scale".into());
    }
    let groups = in_groups(call, wide_product(call, SiluForm::Product)?)?;
    let op = QuantizeDynamic {
        floor_of: Floor::Scale,
        floor: super::groups::least_fp8_scale(),
        scale: DynamicScale::Quotient,
        apply: Apply::Divide,
        nan: NanCode::High,
        ..QuantizeDynamic::default()
    };
    dynamic_groups(call, op, groups, ["out", "scales"])
}

/// The product is rounded once, before the blocks.
pub(super) fn silu_and_mul_nvfp4_quant(call: &Call<'_>) -> Result<Vec<Value>, Refusal> {
    let b = call.b;
    let y = b.cast(wide_product(call, SiluForm::Quotient)?, b.dtype(call.tensor("input")?))?;
    nvfp4_codes(call, y, single(call, "input_global_scale")?, true)
}
