//! Elementwise ops, comparisons and conversions.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::promote::{DEFAULT_FLOAT, constant, convert, is_exact, is_reduced, operand_as, result_type};
use crate::graph::Value;
use crate::num::int_range;
use crate::scalar::ScalarFn;

type One = Result<Value, Refusal>;

/// `f(a, b)` in `dtype`. Beside a bf16 or f16 tensor a number, or a 0-d tensor on the right, takes part in f32.
fn binary(call: &Call<'_>, f: ScalarFn, dtype: DType, a: Operand, b: Operand) -> One {
    let wide = |operand: Operand, right: bool| match operand {
        Operand::Scalar(scalar) => !is_exact(dtype, scalar),
        Operand::Size(_) => true,
        Operand::Tensor(value) => {
            let ty = call.b.ty(value);
            right && ty.rank() == 0 && ty.dtype.is_float() && ty.dtype != dtype
        }
    };
    if is_reduced(dtype) && (wide(a, false) || wide(b, true)) {
        let widen = |operand: Operand, keep: bool| match operand {
            Operand::Tensor(value) if !keep => convert(call.b, convert(call.b, value, dtype)?, DType::F32),
            other => operand_as(call.b, other, DType::F32),
        };
        let result = call.b.map(f, &[widen(a, false)?, widen(b, wide(b, true))?])?;
        return Ok(convert(call.b, result, dtype)?);
    }
    Ok(call.b.map(f, &[operand_as(call.b, a, dtype)?, operand_as(call.b, b, dtype)?])?)
}

/// `f(a, b)` in the common dtype.
pub(super) fn arithmetic(call: &Call<'_>, f: ScalarFn, a: Operand, b: Operand) -> One {
    let dtype = result_type(call, &[a, b])?;
    let f = match (dtype, f) {
        (DType::Bool, ScalarFn::Add | ScalarFn::Max) => ScalarFn::Or,
        (DType::Bool, ScalarFn::Mul | ScalarFn::Min) => ScalarFn::And,
        (DType::Bool, _) => return Err("arithmetic on booleans".into()),
        (_, f) => f,
    };
    binary(call, f, dtype, a, b)
}

/// `a ± alpha · b`.
fn scaled(call: &Call<'_>, f: ScalarFn, a: Operand, b: Operand) -> Imported {
    let alpha = call.scalar("alpha")?;
    if alpha.as_f64() == 1.0 {
        return Ok(vec![arithmetic(call, f, a, b)?]);
    }
    let dtype = result_type(call, &[a, b])?;
    if dtype == DType::Bool {
        return Err("arithmetic on booleans".into());
    }
    let work = if is_reduced(dtype) { DType::F32 } else { dtype };
    let widen = |operand| -> One { Ok(convert(call.b, operand_as(call.b, operand, dtype)?, work)?) };
    let (a, b) = (widen(a)?, widen(b)?);
    let factor = constant(call.b, work, alpha)?;
    if !work.is_float() {
        return Ok(vec![call.b.map(f, &[a, call.b.mul(b, factor)?])?]);
    }
    // The framework's kernels contract this product and sum.
    let factor = if f == ScalarFn::Sub { call.b.map(ScalarFn::Neg, &[factor])? } else { factor };
    let sum = call.b.map(ScalarFn::Fma, &[b, factor, a])?;
    Ok(vec![convert(call.b, sum, dtype)?])
}

pub(super) fn add(call: &Call<'_>) -> Imported {
    scaled(call, ScalarFn::Add, call.operand("self")?, call.operand("other")?)
}

pub(super) fn sub(call: &Call<'_>) -> Imported {
    scaled(call, ScalarFn::Sub, call.operand("self")?, call.operand("other")?)
}

pub(super) fn rsub(call: &Call<'_>) -> Imported {
    scaled(call, ScalarFn::Sub, call.operand("other")?, call.operand("self")?)
}

pub(super) fn mul(call: &Call<'_>) -> Imported {
    Ok(vec![arithmetic(call, ScalarFn::Mul, call.operand("self")?, call.operand("other")?)?])
}

pub(super) fn maximum(call: &Call<'_>) -> Imported {
    Ok(vec![arithmetic(call, ScalarFn::Max, call.operand("self")?, call.operand("other")?)?])
}

pub(super) fn minimum(call: &Call<'_>) -> Imported {
    Ok(vec![arithmetic(call, ScalarFn::Min, call.operand("self")?, call.operand("other")?)?])
}

pub(super) fn div(call: &Call<'_>) -> Imported {
    Ok(vec![quotient(call, call.operand("self")?, call.operand("other")?)?])
}

/// The quotient in the common dtype, of integers in that of floats.
pub(super) fn quotient(call: &Call<'_>, a: Operand, b: Operand) -> One {
    let dtype = result_type(call, &[a, b])?;
    let dtype = if dtype.is_float() { dtype } else { DEFAULT_FLOAT };
    binary(call, ScalarFn::Div, dtype, a, b)
}

/// 1, 0 or −1; 0 of NaN and of −0.
pub(super) fn sign(call: &Call<'_>) -> Imported {
    let (b, x) = (call.b, call.tensor("self")?);
    let dtype = b.dtype(x);
    if dtype == DType::Bool {
        return Ok(vec![x]);
    }
    let number = |n| constant(b, dtype, Scalar::Int(n));
    let (zero, one) = (number(0)?, number(1)?);
    let positive = b.map(ScalarFn::Gt, &[x, zero])?;
    if !dtype.is_float() && !dtype.is_signed_int() {
        return Ok(vec![b.map(ScalarFn::Select, &[positive, one, zero])?]);
    }
    let low = b.map(ScalarFn::Select, &[b.map(ScalarFn::Lt, &[x, zero])?, number(-1)?, zero])?;
    Ok(vec![b.map(ScalarFn::Select, &[positive, one, low])?])
}

pub(super) fn square(call: &Call<'_>) -> Imported {
    let x = call.operand("self")?;
    Ok(vec![arithmetic(call, ScalarFn::Mul, x, x)?])
}

/// Small exponents are products and roots, as in the framework's kernels.
pub(super) fn pow(call: &Call<'_>) -> Imported {
    let (base, exponent) = (Operand::Tensor(call.tensor("self")?), call.scalar("exponent")?);
    let dtype = result_type(call, &[base, Operand::Scalar(exponent)])?;
    Ok(vec![power(call, operand_as(call.b, base, dtype)?, exponent)?])
}

/// A power with a number as exponent, in the dtype of the base.
pub(super) fn power(call: &Call<'_>, x: Value, exponent: Scalar) -> One {
    let (b, dtype, e) = (call.b, call.b.dtype(x), exponent.as_f64());
    if e == 1.0 {
        return Ok(x);
    }
    if e == 2.0 || e == 3.0 {
        let square = arithmetic(call, ScalarFn::Mul, Operand::Tensor(x), Operand::Tensor(x))?;
        return Ok(if e == 2.0 { square } else { b.mul(square, x)? });
    }
    if !dtype.is_float() {
        return integer_power(call, x, exponent);
    }
    Ok(if e == 0.5 {
        b.map(ScalarFn::Sqrt, &[x])?
    } else if e == -0.5 {
        b.map(ScalarFn::Rsqrt, &[x])?
    } else if e == -1.0 {
        b.map(ScalarFn::Recip, &[x])?
    } else if e == -2.0 {
        b.map(ScalarFn::Recip, &[b.mul(x, x)?])?
    } else {
        // The exponent is rounded to the dtype, other than a number beside a tensor in arithmetic.
        b.map(ScalarFn::Pow, &[x, constant(b, dtype, exponent)?])?
    })
}

/// A power of integers by repeated squaring.
fn integer_power(call: &Call<'_>, x: Value, exponent: Scalar) -> One {
    let Scalar::Int(mut e @ 0..) = exponent else { return Err(format!("exponent {exponent:?} of integers").into()) };
    let (b, dtype) = (call.b, call.b.dtype(x));
    if dtype == DType::Bool {
        return Err("a power of booleans".into());
    }
    let one = constant(b, dtype, Scalar::Int(1))?;
    // Of exponent zero the power is one of every element.
    let mut power = if e == 0 { b.add(b.mul(x, constant(b, dtype, Scalar::Int(0))?)?, one)? } else { one };
    let mut square = x;
    while e > 0 {
        if e % 2 == 1 {
            power = b.mul(power, square)?;
        }
        e /= 2;
        if e > 0 {
            square = b.mul(square, square)?;
        }
    }
    Ok(power)
}

/// A power with a tensor as exponent; of a number as base, which takes the dtype of the result.
pub(super) fn pow_tensor(call: &Call<'_>) -> Imported {
    let (base, exponent) = (call.operand("self")?, call.operand("exponent")?);
    let dtype = result_type(call, &[base, exponent])?;
    let b = call.b;
    let (x, e) = (operand_as(b, base, dtype)?, operand_as(b, exponent, dtype)?);
    if dtype.is_float() {
        return Ok(vec![b.map(ScalarFn::Pow, &[x, e])?]);
    }
    // A negative exponent shifts everything out, as dividing one by a larger integer does.
    let two = matches!(base, Operand::Scalar(Scalar::Int(2)));
    if !two || dtype == DType::Bool {
        return Err("a power of integers other than 2".into());
    }
    let one = constant(b, dtype, Scalar::Int(1))?;
    Ok(vec![b.map(ScalarFn::Shl, &[one, e])?])
}

pub(super) fn bounded(call: &Call<'_>, low: Option<&str>, high: Option<&str>) -> Imported {
    let bound = |name: Option<&str>| -> Result<Option<Operand>, Refusal> {
        match name {
            Some(name) if !call.is_none(name)? => call.operand(name).map(Some),
            _ => Ok(None),
        }
    };
    let x = Operand::Tensor(call.tensor("self")?);
    let (low, high) = (bound(low)?, bound(high)?);
    let operands: Vec<Operand> = [Some(x), low, high].into_iter().flatten().collect();
    let dtype = result_type(call, &operands)?;
    if dtype == DType::Bool || operands.len() == 1 {
        return Err("no bounds, or bounds of booleans".into());
    }
    let mut y = operand_as(call.b, x, dtype)?;
    for (f, bound) in [(ScalarFn::Max, low), (ScalarFn::Min, high)] {
        match bound {
            Some(bound) if !is_beyond(dtype, f, bound)? => {
                y = within(call, y, f, bound)?;
            }
            _ => {}
        }
    }
    Ok(vec![y])
}

/// The larger or smaller of a value and a bound. A zero of either sign is its neighbour's equal, and which of them is the
/// result is the device's choice: PyTorch keeps the value beside a number on a CPU, and the greater or lesser zero else.
pub(super) fn within(call: &Call<'_>, x: Value, f: ScalarFn, bound: Operand) -> One {
    let dtype = call.b.dtype(x);
    let limit = operand_as(call.b, bound, dtype)?;
    let beyond = match (bound, f) {
        (Operand::Scalar(number), ScalarFn::Max) if number.is_zero(1.0) => Some(ScalarFn::Lt),
        (Operand::Scalar(number), ScalarFn::Min) if number.is_zero(-1.0) => Some(ScalarFn::Gt),
        _ => None,
    };
    match beyond.filter(|_| dtype.is_float() && call.is_on_cpu()) {
        Some(beyond) => Ok(call.b.map(ScalarFn::Select, &[call.b.map(beyond, &[x, limit])?, limit, x])?),
        None => Ok(call.b.map(f, &[x, limit])?),
    }
}

/// Whether a bound is one that every integer of a dtype keeps, so that it need be none of them.
fn is_beyond(dtype: DType, f: ScalarFn, bound: Operand) -> Result<bool, Refusal> {
    match bound {
        Operand::Scalar(Scalar::Int(n)) if dtype.is_int() => {
            let (least, greatest) = int_range(dtype);
            let (is_below, is_above) = (i128::from(n) < least, i128::from(n) > greatest);
            let is_kept = if f == ScalarFn::Max { is_below } else { is_above };
            if (is_below || is_above) && !is_kept {
                return Err(format!("the bound {n}, which no {dtype} keeps").into());
            }
            Ok(is_kept)
        }
        Operand::Size(_) if dtype.is_int() && dtype.bits() < DType::I64.bits() => {
            Err(format!("a size as a bound of {dtype}").into())
        }
        _ => Ok(false),
    }
}

pub(super) fn clamp(call: &Call<'_>) -> Imported {
    bounded(call, Some("min"), Some("max"))
}

pub(super) fn clamp_min(call: &Call<'_>) -> Imported {
    bounded(call, Some("min"), None)
}

pub(super) fn clamp_max(call: &Call<'_>) -> Imported {
    bounded(call, None, Some("max"))
}

pub(super) fn select(call: &Call<'_>) -> Imported {
    let condition = convert(call.b, call.tensor("condition")?, DType::Bool)?;
    let (a, b) = (call.operand("self")?, call.operand("other")?);
    let dtype = result_type(call, &[a, b])?;
    let (a, b) = (operand_as(call.b, a, dtype)?, operand_as(call.b, b, dtype)?);
    Ok(vec![call.b.map(ScalarFn::Select, &[condition, a, b])?])
}

pub(super) fn masked_fill(call: &Call<'_>) -> Imported {
    let (x, mask) = (call.tensor("self")?, call.tensor("mask")?);
    let fill = operand_as(call.b, call.operand("value")?, call.b.dtype(x))?;
    Ok(vec![call.b.map(ScalarFn::Select, &[mask, fill, x])?])
}

/// A function that keeps integers; `on_integers` says whether it does anything to them.
fn keeping(call: &Call<'_>, f: ScalarFn, on_integers: bool) -> Imported {
    let x = call.tensor("self")?;
    match call.b.dtype(x) {
        DType::Bool => Err("a number function of booleans".into()),
        dtype if dtype.is_int() && !on_integers => Ok(vec![x]),
        _ => Ok(vec![call.b.map(f, &[x])?]),
    }
}

/// The operand of a function that takes integers as floats.
pub(super) fn as_float(call: &Call<'_>) -> One {
    let x = call.tensor("self")?;
    if call.b.dtype(x).is_float() { Ok(x) } else { Ok(convert(call.b, x, DEFAULT_FLOAT)?) }
}

macro_rules! unary {
    ($($name:ident = $kind:ident $f:ident $($flag:literal)?;)*) => {
        $( pub(super) fn $name(call: &Call<'_>) -> Imported {
            unary!(@$kind call, ScalarFn::$f $(, $flag)?)
        } )*
    };
    (@keep $call:ident, $f:expr, $flag:literal) => { keeping($call, $f, $flag) };
    (@float $call:ident, $f:expr) => { Ok(vec![$call.b.map($f, &[as_float($call)?])?]) };
}

unary! {
    neg = keep Neg true;
    abs = keep Abs true;
    round = keep RoundEven false;
    floor = keep Floor false;
    ceil = keep Ceil false;
    trunc = keep Trunc false;
    sqrt = float Sqrt;
    rsqrt = float Rsqrt;
    reciprocal = float Recip;
    exp = float Exp;
    exp2 = float Exp2;
    log = float Log;
    log2 = float Log2;
    sin = float Sin;
    cos = float Cos;
    tanh = float Tanh;
    erf = float Erf;
    erfc = float Erfc;
    erfinv = float Erfinv;
}

/// The part behind the point, with the sign of the operand.
pub(super) fn frac(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    Ok(vec![call.b.sub(x, call.b.map(ScalarFn::Trunc, &[x])?)?])
}

fn compare(call: &Call<'_>, f: ScalarFn) -> Imported {
    let (a, b) = (call.operand("self")?, call.operand("other")?);
    let dtype = result_type(call, &[a, b])?;
    Ok(vec![call.b.map(f, &[operand_as(call.b, a, dtype)?, operand_as(call.b, b, dtype)?])?])
}

pub(super) fn isnan(call: &Call<'_>) -> Imported {
    let x = call.tensor("self")?;
    Ok(vec![call.b.map(ScalarFn::Ne, &[x, x])?])
}

fn logical(call: &Call<'_>, f: ScalarFn) -> Imported {
    let truth = |name| -> One { Ok(convert(call.b, call.tensor(name)?, DType::Bool)?) };
    let operands = match f {
        ScalarFn::Not => vec![truth("self")?],
        _ => vec![truth("self")?, truth("other")?],
    };
    Ok(vec![call.b.map(f, &operands)?])
}

fn bitwise(call: &Call<'_>, f: ScalarFn) -> Imported {
    let (a, b) = (call.operand("self")?, call.operand("other")?);
    let dtype = result_type(call, &[a, b])?;
    Ok(vec![call.b.map(f, &[operand_as(call.b, a, dtype)?, operand_as(call.b, b, dtype)?])?])
}

fn shift(call: &Call<'_>, f: ScalarFn) -> Imported {
    if !call.out()?.dtype.is_int() {
        return Err("a shift of floats".into());
    }
    bitwise(call, f)
}

pub(super) fn bitwise_not(call: &Call<'_>) -> Imported {
    Ok(vec![call.b.map(ScalarFn::Not, &[call.tensor("self")?])?])
}

macro_rules! binary_ops {
    ($($name:ident = $kind:ident $f:ident;)*) => {
        $( pub(super) fn $name(call: &Call<'_>) -> Imported {
            $kind(call, ScalarFn::$f)
        } )*
    };
}

binary_ops! {
    eq = compare Eq;
    ne = compare Ne;
    lt = compare Lt;
    le = compare Le;
    gt = compare Gt;
    ge = compare Ge;
    logical_not = logical Not;
    logical_and = logical And;
    logical_or = logical Or;
    logical_xor = logical Xor;
    bitwise_and = bitwise And;
    bitwise_or = bitwise Or;
    bitwise_xor = bitwise Xor;
    shift_left = shift Shl;
    shift_right = shift Shr;
}

pub(super) fn to_dtype(call: &Call<'_>) -> Imported {
    let dtype = call.dtype_or_none("dtype")?;
    match (call.operand("self")?, dtype) {
        (Operand::Tensor(x), None) => Ok(vec![x]),
        (x, Some(dtype)) => Ok(vec![operand_as(call.b, x, dtype)?]),
        // A graph that was taken apart has numbers where operands of one element were.
        (x, None) => Ok(vec![operand_as(call.b, x, call.out()?.dtype)?]),
    }
}

pub(super) fn convert_element_type(call: &Call<'_>) -> Imported {
    let dtype = call.dtype_or_none("dtype")?.ok_or("no dtype is given")?;
    Ok(vec![convert(call.b, call.tensor("a")?, dtype)?])
}

pub(super) fn type_as(call: &Call<'_>) -> Imported {
    let dtype = call.b.dtype(call.tensor("other")?);
    Ok(vec![convert(call.b, call.tensor("self")?, dtype)?])
}
