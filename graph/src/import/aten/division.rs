//! Quotients rounded to integers, and remainders.
//!
//! Floats go the way of the framework's kernels, by the exact remainder; integers divide toward zero and are corrected.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Refusal, Scalar};
use super::elementwise;
use super::promote::{constant, convert, is_reduced, operand_as, result_type};
use crate::builder::Builder;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::scalar::ScalarFn;

type Typed = Result<Value, TypeError>;

/// `f` of both operands in their common dtype, every step rounded to it; in f32 where a number stands beside a narrow
/// tensor and `wide_numbers` keeps it from being rounded.
fn on_pair(call: &Call<'_>, wide_numbers: bool, f: impl FnOnce(&Builder, Value, Value) -> Typed) -> Imported {
    let (a, b) = (call.operand("self")?, call.operand("other")?);
    let dtype = result_type(call, &[a, b])?;
    if dtype == DType::Bool {
        return Err("a division of booleans".into());
    }
    let number = [a, b].iter().any(|x| !matches!(x, Operand::Tensor(_)));
    let work = if is_reduced(dtype) && wide_numbers && number { DType::F32 } else { dtype };
    let take = |x: Operand| -> Result<Value, Refusal> {
        let to = if matches!(x, Operand::Tensor(_)) { dtype } else { work };
        Ok(convert(call.b, operand_as(call.b, x, to)?, work)?)
    };
    let y = f(call.b, take(a)?, take(b)?)?;
    Ok(vec![convert(call.b, y, dtype)?])
}

fn number(b: &Builder, like: Value, n: i64) -> Typed {
    constant(b, b.dtype(like), Scalar::Int(n))
}

fn is_negative(b: &Builder, x: Value) -> Typed {
    b.map(ScalarFn::Lt, &[x, number(b, x, 0)?])
}

/// Whether a remainder is not zero and has another sign than the divisor.
fn is_off(b: &Builder, remainder: Value, divisor: Value) -> Typed {
    let some = b.map(ScalarFn::Ne, &[remainder, number(b, remainder, 0)?])?;
    let signs = b.map(ScalarFn::Ne, &[is_negative(b, divisor)?, is_negative(b, remainder)?])?;
    b.map(ScalarFn::And, &[some, signs])
}

/// Remainder with the sign of the divisor.
pub(super) fn remainder(call: &Call<'_>) -> Imported {
    on_pair(call, false, |b, x, y| {
        let r = b.map(ScalarFn::Rem, &[x, y])?;
        b.map(ScalarFn::Select, &[is_off(b, r, y)?, b.add(r, y)?, r])
    })
}

/// Remainder with the sign of the dividend.
pub(super) fn fmod(call: &Call<'_>) -> Imported {
    on_pair(call, false, |b, x, y| b.map(ScalarFn::Rem, &[x, y]))
}

/// The quotient toward minus infinity.
pub(super) fn floored(b: &Builder, x: Value, y: Value) -> Typed {
    let r = b.map(ScalarFn::Rem, &[x, y])?;
    let one = number(b, x, 1)?;
    let corrected = |q: Value| b.map(ScalarFn::Select, &[is_off(b, r, y)?, b.sub(q, one)?, q]);
    if !b.dtype(x).is_float() {
        return corrected(b.div(x, y)?);
    }
    let q = corrected(b.div(b.sub(x, r)?, y)?)?;
    // The division may have rounded up to just below the next integer.
    let low = b.map(ScalarFn::Floor, &[q])?;
    let half = constant(b, b.dtype(x), Scalar::Float(0.5))?;
    let over = b.map(ScalarFn::Gt, &[b.sub(q, low)?, half])?;
    let low = b.map(ScalarFn::Select, &[over, b.add(low, one)?, low])?;
    let zero = number(b, x, 0)?;
    let plain = b.div(x, y)?;
    let signed = b.map(ScalarFn::Select, &[b.map(ScalarFn::Eq, &[plain, zero])?, plain, zero])?;
    let minus = constant(b, b.dtype(x), Scalar::Float(-0.0))?;
    let signed = b.map(ScalarFn::Select, &[is_negative(b, plain)?, minus, signed])?;
    let floor = b.map(ScalarFn::Select, &[b.map(ScalarFn::Ne, &[q, zero])?, low, signed])?;
    b.map(ScalarFn::Select, &[b.map(ScalarFn::Eq, &[y, zero])?, plain, floor])
}

pub(super) fn floor_divide(call: &Call<'_>) -> Imported {
    on_pair(call, true, floored)
}

/// Division with `rounding_mode`.
pub(super) fn div_mode(call: &Call<'_>) -> Imported {
    if call.is_none("rounding_mode")? {
        return elementwise::div(call);
    }
    match call.word("rounding_mode")? {
        "floor" => floor_divide(call),
        "trunc" => on_pair(call, true, |b, x, y| {
            let q = b.div(x, y)?;
            if b.dtype(q).is_float() { b.map(ScalarFn::Trunc, &[q]) } else { Ok(q) }
        }),
        other => Err(format!("the rounding mode `{other}`").into()),
    }
}

/// Powers of ten up to this one are numbers of f64.
const MOST_DECIMALS: i64 = 22;

/// Rounded to a number of decimal places, in f32 for narrow floats.
pub(super) fn round_decimals(call: &Call<'_>) -> Imported {
    let (b, x, decimals) = (call.b, call.tensor("self")?, call.int("decimals")?);
    if decimals == 0 {
        return elementwise::round(call);
    }
    let dtype = b.dtype(x);
    if !dtype.is_float() || !(-MOST_DECIMALS..=MOST_DECIMALS).contains(&decimals) {
        return Err(format!("{decimals} decimal places of {dtype}").into());
    }
    let wide = convert(b, x, if is_reduced(dtype) { DType::F32 } else { dtype })?;
    let power = (0..decimals.abs()).fold(1.0, |power, _| power * 10.0);
    let power = constant(b, b.dtype(wide), Scalar::Float(power))?;
    let [there, back] = if decimals > 0 { [ScalarFn::Mul, ScalarFn::Div] } else { [ScalarFn::Div, ScalarFn::Mul] };
    let rounded = b.map(ScalarFn::RoundEven, &[b.map(there, &[wide, power])?])?;
    Ok(vec![convert(b, b.map(back, &[rounded, power])?, dtype)?])
}
