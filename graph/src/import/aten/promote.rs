//! PyTorch's dtype rules: type promotion, conversions and constants.

use fusewright_abi::DType;

use super::super::call::{Call, Operand, Refusal, Scalar};
use crate::builder::Builder;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::num;
use crate::prim::{Literal, Prim, Rounding};
use crate::scalar::ScalarFn;

/// The dtype of Python floats and of integer tensors in floating-point functions.
pub(super) const DEFAULT_FLOAT: DType = DType::F32;

/// Whether PyTorch computes on this dtype in f32.
pub(super) fn is_reduced(dtype: DType) -> bool {
    matches!(dtype, DType::BF16 | DType::F16)
}

/// The common dtype of operands: tensors with axes first, then 0-d tensors, then Python numbers, each later group only
/// where it is of a higher category (boolean, integer, float).
pub(super) fn result_type(call: &Call<'_>, operands: &[Operand]) -> Result<DType, Refusal> {
    let mut groups: [Option<DType>; 3] = [None; 3];
    for operand in operands {
        let (group, dtype) = match operand {
            Operand::Tensor(value) => {
                let ty = call.b.ty(*value);
                (usize::from(ty.rank() == 0), ty.dtype)
            }
            Operand::Scalar(Scalar::Float(_)) => (2, DEFAULT_FLOAT),
            Operand::Scalar(Scalar::Int(_)) | Operand::Size(_) => (2, DType::I64),
            Operand::Scalar(Scalar::Bool(_)) => (2, DType::Bool),
        };
        groups[group] = Some(match groups[group] {
            Some(other) => promote(other, dtype)?,
            None => dtype,
        });
    }
    let [tensors, scalars, numbers] = groups;
    let combined = combine(tensors, combine(scalars, numbers)?)?;
    combined.ok_or_else(|| Refusal("has no operands".into()))
}

/// `high` unless `low` is of a higher category.
fn combine(high: Option<DType>, low: Option<DType>) -> Result<Option<DType>, Refusal> {
    let category = |d: DType| if d.is_float() { 2 } else { u8::from(d.is_int()) };
    match (high, low) {
        (Some(h), Some(l)) if category(l) > category(h) => promote(h, l).map(Some),
        (Some(h), _) => Ok(Some(h)),
        (None, low) => Ok(low),
    }
}

/// The smallest dtype that both promote to.
pub(super) fn promote(a: DType, b: DType) -> Result<DType, Refusal> {
    use DType::{BF16, Bool, F16, F32, F64, U8};
    let refuse = || Refusal(format!("{a} and {b} have no common dtype"));
    if a == b {
        return Ok(a);
    }
    let small = |d: DType| d.is_float() && d.bits() <= 8;
    if small(a) || small(b) {
        return Err(refuse());
    }
    Ok(match (a, b) {
        (Bool, x) | (x, Bool) => x,
        (F64, _) | (_, F64) => F64,
        (F32, _) | (_, F32) | (BF16, F16) | (F16, BF16) => F32,
        (x, y) if x.is_float() && y.is_int() => x,
        (x, y) if x.is_int() && y.is_float() => y,
        (U8, signed) | (signed, U8) if signed.is_signed_int() => {
            if signed.bits() > 8 {
                signed
            } else {
                DType::I16
            }
        }
        (x, y) if x.is_signed_int() && y.is_signed_int() => {
            if x.bits() > y.bits() {
                x
            } else {
                y
            }
        }
        _ => return Err(refuse()),
    })
}

/// `x` as another dtype, by PyTorch's rules: float to integer truncates and wraps, e4m3 saturates, other overflows give
/// infinity, and the narrow floats are reached through f32.
pub(in crate::import) fn convert(b: &Builder, x: Value, to: DType) -> Result<Value, TypeError> {
    let from = b.dtype(x);
    if from == to {
        return Ok(x);
    }
    if to == DType::Bool {
        let zero = b.prim(Prim::Literal(literal(from, Scalar::Int(0))), &[])?;
        return b.map(ScalarFn::Ne, &[x, zero]);
    }
    let narrow = to.is_float() && to.bits() <= 16;
    let wide = matches!(from, DType::F64 | DType::I64 | DType::I32 | DType::U64 | DType::U32);
    let x = if narrow && wide { convert(b, x, DType::F32)? } else { x };
    let from = b.dtype(x);
    let round = if from.is_float() && to.is_int() {
        Rounding::TowardZero
    } else if to == DType::F8E8M0 {
        Rounding::HalfAway
    } else {
        Rounding::NearestEven
    };
    b.prim(Prim::Cast { to, round, saturate: to == DType::F8E4M3 }, &[x])
}

/// A Python number as a constant of a dtype.
pub(super) fn literal(dtype: DType, value: Scalar) -> Literal {
    if dtype.is_float() {
        let wide = value.as_f64();
        let narrow = dtype.bits() <= 16;
        let through = if narrow { f64::from(wide as f32) } else { wide };
        let rounded = num::round_to(dtype, through, Rounding::NearestEven, dtype == DType::F8E4M3);
        return Literal::Float(dtype, rounded);
    }
    let integer = match value {
        Scalar::Bool(b) => i64::from(b),
        Scalar::Int(n) => n,
        Scalar::Float(v) => v as i64,
    };
    Literal::Int(
        dtype,
        if dtype == DType::Bool { i64::from(value.as_f64() != 0.0) } else { num::wrap_int(dtype, integer) },
    )
}

/// A constant node.
pub(super) fn constant(b: &Builder, dtype: DType, value: Scalar) -> Result<Value, TypeError> {
    b.prim(Prim::Literal(literal(dtype, value)), &[])
}

/// An operand as a value of a dtype.
pub(super) fn operand_as(b: &Builder, operand: Operand, dtype: DType) -> Result<Value, TypeError> {
    match operand {
        Operand::Tensor(value) | Operand::Size(value) => convert(b, value, dtype),
        Operand::Scalar(scalar) => constant(b, dtype, scalar),
    }
}

/// Whether a number is a value of the dtype.
pub(super) fn is_exact(dtype: DType, value: Scalar) -> bool {
    match literal(dtype, value) {
        Literal::Float(_, v) => v == value.as_f64() || v.is_nan(),
        Literal::Int(_, v) => v as f64 == value.as_f64(),
    }
}
