//! Functions that the training IR keeps whole, as the framework's CPU kernels compute them.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::activation::{log1p_of, select, wide};
use super::elementwise::{arithmetic, as_float, power};
use super::promote::{DEFAULT_FLOAT, constant, convert, operand_as, result_type};
use super::reduce::over;
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::Value;
use crate::prim::ReduceOp;
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// A product with a number of the framework.
fn times(call: &Call<'_>, x: Value, factor: f64) -> One {
    arithmetic(call, ScalarFn::Mul, Operand::Tensor(x), Operand::Scalar(Scalar::Float(factor)))
}

pub(super) fn rad2deg(call: &Call<'_>) -> Imported {
    Ok(vec![times(call, as_float(call)?, 180.0 / std::f64::consts::PI)?])
}

pub(super) fn deg2rad(call: &Call<'_>) -> Imported {
    Ok(vec![times(call, as_float(call)?, std::f64::consts::PI / 180.0)?])
}

/// `(1 + erf(x/√2)) / 2`; every step rounds to the operand's dtype.
pub(super) fn ndtr(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, as_float(call)?);
    let bent = b.map(ScalarFn::Erf, &[times(call, x, std::f64::consts::FRAC_1_SQRT_2)?])?;
    let sum = b.add(bent, constant(b, b.dtype(x), Scalar::Int(1))?)?;
    Ok(vec![times(call, sum, 0.5)?])
}

/// `sin(πx) / πx`, 1 at zero.
pub(super) fn sinc(call: &Call<'_>) -> Imported {
    wide(call, |b, x| {
        let number = |v: f64| constant(b, DType::F32, Scalar::Float(v));
        let angle = b.mul(x, number(std::f64::consts::PI)?)?;
        let ratio = b.div(b.map(ScalarFn::Sin, &[angle])?, angle)?;
        Ok(select(b, (ScalarFn::Eq, angle, number(0.0)?), number(1.0)?, ratio)?)
    })
}

/// `log2(2^a + 2^b)`.
pub(super) fn logaddexp2(call: &Call<'_>) -> Imported {
    let [x, y] = [Operand::Tensor(call.tensor("self")?), Operand::Tensor(call.tensor("other")?)];
    let dtype = result_type(call, &[x, y])?;
    if !matches!(dtype, DType::F32 | DType::BF16 | DType::F16) {
        return Err(format!("is not taken apart on {dtype}").into());
    }
    let b = call.b;
    let widen = |v| -> One { Ok(convert(b, operand_as(b, v, dtype)?, DType::F32)?) };
    let (x, y) = (widen(x)?, widen(y)?);
    let top = b.map(ScalarFn::Max, &[x, y])?;
    let gap = b.map(ScalarFn::Neg, &[b.map(ScalarFn::Abs, &[b.sub(x, y)?])?])?;
    let log = log1p_of(b, b.map(ScalarFn::Exp2, &[gap])?)?;
    let sum = b.add(top, b.mul(log, constant(b, DType::F32, Scalar::Float(std::f64::consts::LOG2_E))?)?)?;
    // The gap between equal infinities is no number.
    let size = b.map(ScalarFn::Abs, &[top])?;
    let infinity = constant(b, DType::F32, Scalar::Float(f64::INFINITY))?;
    Ok(vec![convert(b, select(b, (ScalarFn::Eq, size, infinity), top, sum)?, dtype)?])
}

/// `x · f(y)`, 0 where x is zero and NaN where y is none; the logarithm rounds to the common dtype.
fn times_log(call: &Call<'_>, [x, y]: [Operand; 2], f: impl FnOnce(&Builder, Value) -> One) -> One {
    let b = call.b;
    let dtype = result_type(call, &[x, y])?;
    let dtype = if dtype.is_float() { dtype } else { DEFAULT_FLOAT };
    let (x, y) = (operand_as(b, x, dtype)?, operand_as(b, y, dtype)?);
    let zero = constant(b, dtype, Scalar::Int(0))?;
    let product = select(b, (ScalarFn::Eq, x, zero), zero, b.mul(x, f(b, y)?)?)?;
    Ok(select(b, (ScalarFn::Ne, y, y), constant(b, dtype, Scalar::Float(f64::NAN))?, product)?)
}

/// `x · log(y)`.
pub(super) fn xlogy_of(call: &Call<'_>, operands: [Operand; 2]) -> One {
    times_log(call, operands, |b, y| Ok(b.map(ScalarFn::Log, &[y])?))
}

pub(super) fn xlogy(call: &Call<'_>) -> Imported {
    Ok(vec![xlogy_of(call, [call.operand("self")?, call.operand("other")?])?])
}

pub(super) fn xlog1py(call: &Call<'_>) -> Imported {
    Ok(vec![times_log(call, [call.operand("self")?, call.operand("other")?], log1p_rounded)?])
}

/// `log(1 + x)`, rounded to the dtype of `x`.
pub(super) fn log1p_rounded(b: &Builder, x: Value) -> One {
    let dtype = b.dtype(x);
    if dtype == DType::F64 {
        return Err("is not taken apart on f64".into());
    }
    Ok(convert(b, log1p_of(b, convert(b, x, DType::F32)?)?, dtype)?)
}

/// `−x · log(x)` above zero, 0 at zero and −∞ below; the logarithm rounds to the dtype.
pub(super) fn entr(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, as_float(call)?);
    let number = |v: f64| constant(b, b.dtype(x), Scalar::Float(v));
    let zero = number(0.0)?;
    let inside = b.mul(b.map(ScalarFn::Neg, &[x])?, b.map(ScalarFn::Log, &[x])?)?;
    let outside = select(b, (ScalarFn::Eq, x, zero), zero, number(f64::NEG_INFINITY)?)?;
    let y = select(b, (ScalarFn::Gt, x, zero), inside, outside)?;
    Ok(vec![select(b, (ScalarFn::Ne, x, x), x, y)?])
}

/// `x · 2^n`, the power rounded to the dtype of the exponent, or to the result's where that is an integer.
pub(super) fn ldexp(call: &Call<'_>) -> Imported {
    let (b, x, n) = (call.b, call.tensor("self")?, call.tensor("other")?);
    let dtype = if b.dtype(n).is_float() { b.dtype(n) } else { call.out()?.dtype };
    let scale = b.map(ScalarFn::Pow, &[constant(b, dtype, Scalar::Int(2))?, convert(b, n, dtype)?])?;
    Ok(vec![arithmetic(call, ScalarFn::Mul, Operand::Tensor(x), Operand::Tensor(scale))?])
}

/// Equal, or a distance of at most `atol + |rtol · other|`; every step rounds to the common dtype. Integers are compared
/// as they are, their distance as floats.
pub(super) fn isclose(call: &Call<'_>) -> Imported {
    let (b, mut x, mut y) = (call.b, call.tensor("self")?, call.tensor("other")?);
    if b.dtype(y) != b.dtype(x) {
        return Err("a comparison within a tolerance of two dtypes".into());
    }
    let mut close = b.map(ScalarFn::Eq, &[x, y])?;
    if !b.dtype(x).is_float() {
        (x, y) = (convert(b, x, DEFAULT_FLOAT)?, convert(b, y, DEFAULT_FLOAT)?);
    }
    let dtype = b.dtype(x);
    if call.bool("equal_nan")? {
        let nan = |v| b.map(ScalarFn::Ne, &[v, v]);
        close = b.map(ScalarFn::Or, &[close, b.map(ScalarFn::And, &[nan(x)?, nan(y)?])?])?;
    }
    let (rtol, atol) = (call.scalar("rtol")?, call.scalar("atol")?);
    if rtol.as_f64() == 0.0 && atol.as_f64() == 0.0 {
        return Ok(vec![close]);
    }
    let part = b.map(ScalarFn::Abs, &[times(call, y, rtol.as_f64())?])?;
    let allowed = arithmetic(call, ScalarFn::Add, Operand::Tensor(part), Operand::Scalar(atol))?;
    let distance = b.map(ScalarFn::Abs, &[b.sub(x, y)?])?;
    let infinity = constant(b, dtype, Scalar::Float(f64::INFINITY))?;
    let near = b.map(ScalarFn::Le, &[distance, allowed])?;
    let near = b.map(ScalarFn::And, &[b.map(ScalarFn::Lt, &[distance, infinity])?, near])?;
    Ok(vec![b.map(ScalarFn::Or, &[close, near])?])
}

/// 1 above zero and 0 below it and of NaN; the second operand at zero.
pub(super) fn heaviside(call: &Call<'_>) -> Imported {
    let (b, x, at_zero) = (call.b, call.tensor("self")?, call.tensor("values")?);
    let number = |n| constant(b, b.dtype(x), Scalar::Int(n));
    let step = select(b, (ScalarFn::Gt, x, number(0)?), number(1)?, number(0)?)?;
    Ok(vec![select(b, (ScalarFn::Eq, x, number(0)?), convert(b, at_zero, b.dtype(x))?, step)?])
}

/// A power in f64, whatever the operands are.
pub(super) fn float_power(call: &Call<'_>) -> Imported {
    let (base, exponent) = (call.operand("self")?, call.operand("exponent")?);
    let x = operand_as(call.b, base, DType::F64)?;
    match exponent {
        Operand::Scalar(exponent) => Ok(vec![power(call, x, Scalar::Float(exponent.as_f64()))?]),
        exponent => Ok(vec![call.b.map(ScalarFn::Pow, &[x, operand_as(call.b, exponent, DType::F64)?])?]),
    }
}

/// How many boundaries lie before each element; those that equal it count if `right`, and all of them for NaN.
pub(super) fn bucketize(call: &Call<'_>) -> Imported {
    let boundaries = call.tensor("boundaries")?;
    let x = match call.operand("self")? {
        Operand::Tensor(x) | Operand::Size(x) => x,
        number => operand_as(call.b, number, result_type(call, &[number, Operand::Tensor(boundaries)])?)?,
    };
    counted(call, x, boundaries, call.bool("right")?)
}

/// As `bucketize`, of lines of boundaries for as many lines of elements, or of one for all.
pub(super) fn searchsorted(call: &Call<'_>) -> Imported {
    if !call.is_none("sorter")? {
        return Err("boundaries in the order of another tensor".into());
    }
    let right = match call.is_none("side")? {
        true => call.bool("right")?,
        false => call.word("side")? == "right",
    };
    counted(call, call.tensor("self")?, call.tensor("sorted_sequence")?, right)
}

fn counted(call: &Call<'_>, x: Value, boundaries: Value, right: bool) -> Imported {
    let b = call.b;
    let dtype = result_type(call, &[Operand::Tensor(x), Operand::Tensor(boundaries)])?;
    let mut shape = b.ty(x).shape;
    let axis = shape.len();
    shape.push(Dim::constant(1));
    let mut lines = b.ty(boundaries).shape;
    if lines.len() > 1 {
        lines.insert(lines.len() - 1, Dim::constant(1));
    }
    let (x, boundaries) = (b.reshape(x, shape.clone())?, b.reshape(boundaries, lines)?);
    let (x, boundaries) = (convert(b, x, dtype)?, convert(b, boundaries, dtype)?);
    let f = if right { ScalarFn::Gt } else { ScalarFn::Ge };
    let before = b.map(ScalarFn::Not, &[b.map(f, &[boundaries, x])?])?;
    let counted = over(call, ReduceOp::Add, convert(b, before, call.out()?.dtype)?, &[axis])?;
    shape.pop();
    Ok(vec![b.reshape(counted, shape)?])
}

/// Whether each element is among those of another tensor, or is a number.
pub(super) fn isin(call: &Call<'_>) -> Imported {
    let b = call.b;
    let named = |several: &str, one: &str| {
        if call.row.parameter(several).is_some() {
            call.tensor(several).map(Operand::Tensor)
        } else {
            call.operand(one)
        }
    };
    let (x, tested) = (named("elements", "element")?, named("test_elements", "test_element")?);
    let dtype = result_type(call, &[x, tested])?;
    let (mut x, mut tested) = (operand_as(b, x, dtype)?, operand_as(b, tested, dtype)?);
    let mut shape = b.ty(x).shape;
    let axis = shape.len();
    let several = b.ty(tested).rank() > 0;
    if several {
        shape.push(Dim::constant(1));
        x = b.reshape(x, shape.clone())?;
        tested = b.reshape(tested, vec![b.ty(tested).elements()])?;
    }
    let mut hit = b.map(ScalarFn::Eq, &[x, tested])?;
    if several {
        shape.pop();
        hit = b.reshape(over(call, ReduceOp::Max, hit, &[axis])?, shape)?;
    }
    Ok(vec![if call.bool("invert")? { b.map(ScalarFn::Not, &[hit])? } else { hit }])
}
