//! Activations and their kin: functions of one tensor that are computed in f32 and rounded once.
//!
//! What PyTorch writes with `log1p` and `expm1` is written here with the functions that there are, so that small
//! operands keep their relative accuracy.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::elementwise::{as_float, bounded, within};
use super::layout::cut;
use super::promote::{constant, convert};
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::ops::{Composite, Gelu, GeluForm, Sigmoid, Silu, SiluForm};
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;
type Typed = Result<Value, TypeError>;

pub(super) fn relu(call: &Call<'_>) -> Imported {
    Ok(vec![positive(call, call.tensor("self")?)?])
}

/// `max(x, 0)`.
pub(super) fn positive(call: &Call<'_>, x: Value) -> One {
    within(call, x, ScalarFn::Max, Operand::Scalar(Scalar::Int(0)))
}

/// The operand of an activation that is computed in f32.
pub(super) fn activation(call: &Call<'_>) -> One {
    let x = as_float(call)?;
    match call.b.dtype(x) {
        DType::F32 | DType::BF16 | DType::F16 => Ok(x),
        other => Err(format!("is not taken apart on {other}").into()),
    }
}

pub(super) fn sigmoid(call: &Call<'_>) -> Imported {
    Ok(call.b.composite(Composite::new(Sigmoid), &[activation(call)?])?)
}

pub(super) fn silu(call: &Call<'_>) -> Imported {
    Ok(call.b.composite(Composite::new(Silu { form: SiluForm::Quotient }), &[activation(call)?])?)
}

pub(super) fn gelu(call: &Call<'_>) -> Imported {
    let approximate = match call.word("approximate")? {
        "none" => GeluForm::Erf,
        "tanh" => GeluForm::Tanh,
        other => return Err(format!("the approximation `{other}`").into()),
    };
    Ok(call.b.composite(Composite::new(Gelu::new(approximate)), &[activation(call)?])?)
}

/// `f` of the operand in f32, rounded once to the operand's dtype.
pub(super) fn wide(call: &Call<'_>, f: impl FnOnce(&Builder, Value) -> One) -> Imported {
    let x = activation(call)?;
    let y = f(call.b, convert(call.b, x, DType::F32)?)?;
    Ok(vec![convert(call.b, y, call.b.dtype(x))?])
}

/// A number argument as a constant of f32.
pub(super) fn number(call: &Call<'_>, name: &str) -> One {
    Ok(constant(call.b, DType::F32, call.scalar(name)?)?)
}

pub(super) fn select(b: &Builder, condition: (ScalarFn, Value, Value), yes: Value, no: Value) -> Typed {
    let (f, left, right) = condition;
    b.map(ScalarFn::Select, &[b.map(f, &[left, right])?, yes, no])
}

/// `ln(1 + x)` of an f32: the logarithm of the rounded `1 + x`, times what the rounding changed.
pub(super) fn log1p_of(b: &Builder, x: Value) -> Typed {
    let one = b.float(DType::F32, 1.0)?;
    let sum = b.add(one, x)?;
    let taken = b.sub(sum, one)?;
    let log = b.map(ScalarFn::Log, &[sum])?;
    let corrected = b.mul(log, b.div(x, taken)?)?;
    // Where nothing was rounded, among others at infinity, there is nothing to correct.
    let large = select(b, (ScalarFn::Eq, taken, x), log, corrected)?;
    select(b, (ScalarFn::Eq, sum, one), x, large)
}

/// `ln(1 + e)` of an `e` that is itself an approximation: below 2⁻⁴ the series, in which no rounding of `1 + e` turns
/// the doubt about `e` into a larger one.
pub(super) fn log1p_of_exp(b: &Builder, e: Value) -> Typed {
    let nearest = |v: f64| b.float(DType::F32, f64::from(v as f32));
    // e · (1 − e·(1/2 − e·(1/3 − …))): the first term left out is below e/7 · 2⁻²⁴.
    let mut series = nearest(1.0 / 6.0)?;
    for n in (1..=5).rev() {
        series = b.sub(nearest(f64::from(n).recip())?, b.mul(e, series)?)?;
    }
    select(b, (ScalarFn::Lt, e, nearest(0.0625)?), b.mul(e, series)?, log1p_of(b, e)?)
}

/// `e^x − 1` of an f32: by `2t / (1 − t)` with `t = tanh(x/2)` where the subtraction would cancel.
pub(super) fn expm1_of(b: &Builder, x: Value) -> Typed {
    let float = |v: f64| b.float(DType::F32, v);
    let one = float(1.0)?;
    let t = b.map(ScalarFn::Tanh, &[b.mul(x, float(0.5)?)?])?;
    let small = b.div(b.add(t, t)?, b.sub(one, t)?)?;
    let large = b.sub(b.map(ScalarFn::Exp, &[x])?, one)?;
    let size = b.map(ScalarFn::Abs, &[x])?;
    let y = select(b, (ScalarFn::Lt, size, one), small, large)?;
    // Halves of the least numbers are not numbers.
    select(b, (ScalarFn::Lt, size, float(2f64.powi(-26))?), x, y)
}

pub(super) fn log1p(call: &Call<'_>) -> Imported {
    wide(call, |b, x| Ok(log1p_of(b, x)?))
}

pub(super) fn expm1(call: &Call<'_>) -> Imported {
    wide(call, |b, x| Ok(expm1_of(b, x)?))
}

/// `log1p(e^(beta·x)) / beta`; the operand where `beta·x` is above the threshold.
pub(super) fn softplus(call: &Call<'_>) -> Imported {
    let (beta, threshold) = (number(call, "beta")?, number(call, "threshold")?);
    wide(call, |b, x| {
        let scaled = b.mul(x, beta)?;
        let soft = b.div(log1p_of_exp(b, b.map(ScalarFn::Exp, &[scaled])?)?, beta)?;
        Ok(select(b, (ScalarFn::Gt, scaled, threshold), x, soft)?)
    })
}

/// `x · tanh(log1p(e^x))`.
pub(super) fn mish(call: &Call<'_>) -> Imported {
    wide(call, |b, x| {
        let soft = log1p_of_exp(b, b.map(ScalarFn::Exp, &[x])?)?;
        Ok(b.mul(x, b.map(ScalarFn::Tanh, &[soft])?)?)
    })
}

/// `min(x, 0) − log1p(e^−|x|)` of an f32.
pub(super) fn log_sigmoid_of(b: &Builder, x: Value) -> Typed {
    let size = b.map(ScalarFn::Abs, &[x])?;
    let tail = log1p_of_exp(b, b.map(ScalarFn::Exp, &[b.map(ScalarFn::Neg, &[size])?])?)?;
    b.sub(b.map(ScalarFn::Min, &[x, b.float(DType::F32, 0.0)?])?, tail)
}

pub(super) fn log_sigmoid(call: &Call<'_>) -> Imported {
    wide(call, |b, x| Ok(log_sigmoid_of(b, x)?))
}

/// `scale · x` above zero, `alpha · scale · expm1(input_scale · x)` elsewhere, with numbers rounded to f32.
fn scaled_elu(call: &Call<'_>, alpha: f64, scale: f64, input_scale: f64) -> Imported {
    let number = |v: f32| constant(call.b, DType::F32, Scalar::Float(v.into()));
    let (inner, high, low) = (number(input_scale as f32)?, number(scale as f32)?, number(alpha as f32 * scale as f32)?);
    wide(call, |b, x| {
        let below = b.mul(expm1_of(b, b.mul(x, inner)?)?, low)?;
        Ok(select(b, (ScalarFn::Le, x, b.float(DType::F32, 0.0)?), below, b.mul(x, high)?)?)
    })
}

pub(super) fn elu(call: &Call<'_>) -> Imported {
    let number = |name| -> Result<f64, Refusal> { Ok(call.scalar(name)?.as_f64()) };
    scaled_elu(call, number("alpha")?, number("scale")?, number("input_scale")?)
}

/// The constants of Klambauer et al., Self-Normalizing Neural Networks (2017), equation 14.
pub(super) fn selu(call: &Call<'_>) -> Imported {
    scaled_elu(call, 1.673_263_242_354_377_2, 1.050_700_987_355_480_5, 1.0)
}

pub(super) fn celu(call: &Call<'_>) -> Imported {
    match call.scalar("alpha")?.as_f64() {
        0.0 => Err("an alpha of zero".into()),
        alpha => scaled_elu(call, alpha, 1.0, alpha.recip()),
    }
}

/// The operand moved towards zero by `lambd`; a zero of its sign, or its NaN, where it is no farther from zero than that.
pub(super) fn softshrink(call: &Call<'_>) -> Imported {
    let by = number(call, "lambd")?;
    wide(call, |b, x| {
        let below = b.map(ScalarFn::Neg, &[by])?;
        let inside = b.mul(x, b.float(DType::F32, 0.0)?)?;
        let low = select(b, (ScalarFn::Lt, x, below), b.add(x, by)?, inside)?;
        Ok(select(b, (ScalarFn::Gt, x, by), b.sub(x, by)?, low)?)
    })
}

/// Zero where the operand is no farther than `lambd`, in its own dtype, from it.
pub(super) fn hardshrink(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, activation(call)?);
    let dtype = b.dtype(x);
    let by = constant(b, dtype, call.scalar("lambd")?)?;
    let size = b.map(ScalarFn::Abs, &[x])?;
    Ok(vec![select(b, (ScalarFn::Le, size, by), b.float(dtype, 0.0)?, x)?])
}

pub(super) fn leaky_relu(call: &Call<'_>) -> Imported {
    let slope = number(call, "negative_slope")?;
    wide(call, |b, x| Ok(select(b, (ScalarFn::Gt, x, b.float(DType::F32, 0.0)?), x, b.mul(x, slope)?)?))
}

/// `min(max(x + 3, 0), 6)`.
fn hard(b: &Builder, x: Value) -> Typed {
    let float = |v: f64| b.float(DType::F32, v);
    let low = b.map(ScalarFn::Max, &[b.add(x, float(3.0)?)?, float(0.0)?])?;
    b.map(ScalarFn::Min, &[low, float(6.0)?])
}

pub(super) fn hardswish(call: &Call<'_>) -> Imported {
    wide(call, |b, x| Ok(b.div(b.mul(x, hard(b, x)?)?, b.float(DType::F32, 6.0)?)?))
}

pub(super) fn hardsigmoid(call: &Call<'_>) -> Imported {
    wide(call, |b, x| Ok(b.div(hard(b, x)?, b.float(DType::F32, 6.0)?)?))
}

pub(super) fn hardtanh(call: &Call<'_>) -> Imported {
    bounded(call, Some("min_val"), Some("max_val"))
}

pub(super) fn relu6(call: &Call<'_>) -> Imported {
    let x = positive(call, call.tensor("self")?)?;
    Ok(vec![within(call, x, ScalarFn::Min, Operand::Scalar(Scalar::Int(6)))?])
}

/// A tensor above a bound, a number elsewhere; NaN stays.
pub(super) fn threshold(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let number = |name| -> One { Ok(constant(b, b.dtype(x), call.scalar(name)?)?) };
    Ok(vec![select(b, (ScalarFn::Le, x, number("threshold")?), number("value")?, x)?])
}

/// The operand above zero, its product with a weight of its second axis elsewhere.
pub(super) fn prelu(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, activation(call)?);
    let (ty, weight) = (b.ty(x), call.tensor("weight")?);
    let mut shape = vec![Dim::constant(1); ty.rank()];
    if b.ty(weight).elements() != Dim::constant(1) {
        *shape.get_mut(1).ok_or("a weight of an axis that does not exist")? = b.ty(weight).elements();
    }
    let product = b.mul(x, b.reshape(weight, shape)?)?;
    Ok(vec![select(b, (ScalarFn::Gt, x, constant(b, ty.dtype, Scalar::Int(0))?), x, product)?])
}

/// The first half of an axis times the logistic function of the second, in f32, rounded once.
pub(super) fn glu(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, activation(call)?);
    let ty = b.ty(x);
    let axis = call.axis("dim", ty.rank())?;
    let half = call.out()?.shape.get(axis).ok_or("a result of another rank")?;
    let end = half + half;
    if end != ty.shape[axis] {
        return Err("an axis without halves".into());
    }
    let part = |range| -> One { Ok(convert(b, cut(call, x, axis, range, 1)?, DType::F32)?) };
    let (value, gate) = (part([Dim::constant(0), half.clone()])?, part([half.clone(), end.clone()])?);
    let gate = b.composite(Composite::new(Sigmoid), &[gate])?[0];
    Ok(vec![convert(b, b.mul(value, gate)?, ty.dtype)?])
}
