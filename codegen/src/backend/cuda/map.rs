//! Scalar functions of one element.
//!
//! Functions are exact: one instruction that rounds once. Those of the table that are rewritten before emission are
//! refused here by name. On 16-bit floats the functions below are computed in f32 and rounded, which equals one
//! rounding because f32 has more than twice as many bits plus two.

use fusewright_abi::DType;
use fusewright_graph::{Rounding, ScalarFn};
use inkwell::values::{FloatValue, IntValue};
use inkwell::{FloatPredicate, IntPredicate};

use super::EmitError;
use super::arch::Arch;
use super::cast::{Cast, cast, round_to_integral, widen};
use super::code::{Built, Code, Value};

/// Emits `f` of operands of dtype `dtype` (of the last operand, for `select`).
pub(super) fn map<'c>(code: &Code<'c>, arch: Arch, f: ScalarFn, dtype: DType, x: &[Value<'c>]) -> Built<Value<'c>> {
    match f {
        ScalarFn::Select => code.select(x[0].into_int_value(), x[1], x[2]),
        ScalarFn::Neg | ScalarFn::Abs if dtype.is_float() => sign(code, f, dtype, x[0]),
        _ => match dtype {
            DType::F32 | DType::F64 => float(code, f, dtype, x),
            DType::BF16 | DType::F16 => through_f32(code, arch, f, dtype, x),
            _ if dtype.is_float() => refuse(f, dtype),
            _ => {
                let ints: Vec<IntValue<'c>> = x.iter().map(|v| v.into_int_value()).collect();
                int(code, f, dtype, &ints).map(Into::into)
            }
        },
    }
}

fn refuse<T>(f: ScalarFn, dtype: DType) -> Built<T> {
    Err(EmitError::unsupported(format!("`{}` of {dtype} is not expanded into native functions", f.name())))
}

/// Sign changes touch the top bit only, NaN included.
fn sign<'c>(code: &Code<'c>, f: ScalarFn, dtype: DType, x: Value<'c>) -> Built<Value<'c>> {
    let bits = dtype.bits();
    if dtype == DType::F8E8M0 {
        return refuse(f, dtype);
    }
    let ty = code.int_type(bits.max(8));
    let top = ty.const_int(1 << (bits - 1), false);
    let rest = ty.const_int((1 << (bits - 1)) - 1, false);
    let word = code.bits(x, ty)?.into_int_value();
    let word = match f {
        ScalarFn::Neg => code.b.build_xor(word, top, "")?,
        _ => code.b.build_and(word, rest, "")?,
    };
    code.bits(word, code.type_of(dtype))
}

fn through_f32<'c>(code: &Code<'c>, arch: Arch, f: ScalarFn, dtype: DType, x: &[Value<'c>]) -> Built<Value<'c>> {
    if f == ScalarFn::Fma {
        return refuse(f, dtype);
    }
    let wide = x.iter().map(|&v| widen(code, v, dtype).map(Into::into)).collect::<Built<Vec<Value<'c>>>>()?;
    let result = float(code, f, DType::F32, &wide)?;
    if !result.is_float_value() {
        return Ok(result);
    }
    let narrow = Cast { from: DType::F32, to: dtype, round: Rounding::NearestEven, saturate: false };
    cast(code, arch, result, narrow)
}

fn float<'c>(code: &Code<'c>, f: ScalarFn, dtype: DType, x: &[Value<'c>]) -> Built<Value<'c>> {
    let ty = code.float_type(dtype);
    let v: Vec<FloatValue<'c>> = x.iter().map(|v| v.into_float_value()).collect();
    let call = |name: &str| code.call(name, &[ty.into()], x);
    let nvvm =
        |stem: &str| code.call(&format!("llvm.nvvm.{stem}.{}", if dtype == DType::F64 { "d" } else { "f" }), &[], x);
    let compare = |p| code.fcmp(p, v[0], v[1]).map(Into::into);
    let whole = |round| round_to_integral(code, v[0], round).map(Into::into);
    match f {
        ScalarFn::Add => Ok(code.b.build_float_add(v[0], v[1], "")?.into()),
        ScalarFn::Sub => Ok(code.b.build_float_sub(v[0], v[1], "")?.into()),
        ScalarFn::Mul => Ok(code.b.build_float_mul(v[0], v[1], "")?.into()),
        ScalarFn::Div => nvvm("div.rn"),
        ScalarFn::Fma => call("llvm.fma"),
        ScalarFn::Sqrt => nvvm("sqrt.rn"),
        ScalarFn::Max => call("llvm.maximum"),
        ScalarFn::Min => call("llvm.minimum"),
        ScalarFn::MaxNum => call("llvm.maximumnum"),
        ScalarFn::MinNum => call("llvm.minimumnum"),
        ScalarFn::Floor => whole(Rounding::Down),
        ScalarFn::Ceil => whole(Rounding::Up),
        ScalarFn::Trunc => whole(Rounding::TowardZero),
        ScalarFn::RoundEven => whole(Rounding::NearestEven),
        ScalarFn::Eq => compare(FloatPredicate::OEQ),
        ScalarFn::Ne => compare(FloatPredicate::UNE),
        ScalarFn::Lt => compare(FloatPredicate::OLT),
        ScalarFn::Le => compare(FloatPredicate::OLE),
        ScalarFn::Gt => compare(FloatPredicate::OGT),
        ScalarFn::Ge => compare(FloatPredicate::OGE),
        _ => refuse(f, dtype),
    }
}

fn int<'c>(code: &Code<'c>, f: ScalarFn, dtype: DType, x: &[IntValue<'c>]) -> Built<IntValue<'c>> {
    if dtype.bits() == 4 {
        return refuse(f, dtype);
    }
    let b = &code.b;
    let signed = dtype.is_signed_int();
    let call = |name: &str| -> Built<IntValue<'c>> {
        let args: Vec<Value<'c>> = x.iter().map(|&v| v.into()).collect();
        Ok(code.call(name, &[x[0].get_type().into()], &args)?.into_int_value())
    };
    let order = |s, u| code.cmp(if signed { s } else { u }, x[0], x[1]);
    Ok(match f {
        ScalarFn::Add => b.build_int_add(x[0], x[1], "")?,
        ScalarFn::Sub => b.build_int_sub(x[0], x[1], "")?,
        ScalarFn::Mul => b.build_int_mul(x[0], x[1], "")?,
        ScalarFn::Div | ScalarFn::Rem => divide(code, f, signed, x[0], x[1])?,
        ScalarFn::Max | ScalarFn::MaxNum => call(if signed { "llvm.smax" } else { "llvm.umax" })?,
        ScalarFn::Min | ScalarFn::MinNum => call(if signed { "llvm.smin" } else { "llvm.umin" })?,
        ScalarFn::Neg => b.build_int_neg(x[0], "")?,
        ScalarFn::Abs if signed => {
            let low = code.cmp(IntPredicate::SLT, x[0], x[0].get_type().const_zero())?;
            code.select(low, b.build_int_neg(x[0], "")?, x[0])?.into_int_value()
        }
        ScalarFn::Abs => x[0],
        ScalarFn::Eq => code.cmp(IntPredicate::EQ, x[0], x[1])?,
        ScalarFn::Ne => code.cmp(IntPredicate::NE, x[0], x[1])?,
        ScalarFn::Lt => order(IntPredicate::SLT, IntPredicate::ULT)?,
        ScalarFn::Le => order(IntPredicate::SLE, IntPredicate::ULE)?,
        ScalarFn::Gt => order(IntPredicate::SGT, IntPredicate::UGT)?,
        ScalarFn::Ge => order(IntPredicate::SGE, IntPredicate::UGE)?,
        ScalarFn::And => b.build_and(x[0], x[1], "")?,
        ScalarFn::Or => b.build_or(x[0], x[1], "")?,
        ScalarFn::Xor => b.build_xor(x[0], x[1], "")?,
        ScalarFn::Not => b.build_not(x[0], "")?,
        ScalarFn::Shl | ScalarFn::Shr => shift(code, f, signed, x[0], x[1])?,
        _ => return refuse(f, dtype),
    })
}

/// Division toward zero, defined for every operand: by zero it gives 0, and the least integer by −1 wraps.
fn divide<'c>(code: &Code<'c>, f: ScalarFn, signed: bool, a: IntValue<'c>, b: IntValue<'c>) -> Built<IntValue<'c>> {
    let ty = a.get_type();
    let (zero, one, minus_one) = (ty.const_zero(), ty.const_int(1, false), ty.const_all_ones());
    let by_zero = code.cmp(IntPredicate::EQ, b, zero)?;
    let by_minus_one = code.b.build_and(code.cmp(IntPredicate::EQ, b, minus_one)?, code.bool(signed), "")?;
    let special = code.b.build_or(by_zero, by_minus_one, "")?;
    let divisor = code.select(special, one, b)?.into_int_value();
    let quotient = if signed {
        code.b.build_int_signed_div(a, divisor, "")?
    } else {
        code.b.build_int_unsigned_div(a, divisor, "")?
    };
    if f == ScalarFn::Rem {
        let rest = code.b.build_int_sub(a, code.mul(quotient, divisor)?, "")?;
        return Ok(code.select(special, zero, rest)?.into_int_value());
    }
    let quotient = code.select(by_minus_one, code.b.build_int_neg(a, "")?, quotient)?;
    Ok(code.select(by_zero, zero, quotient.into_int_value())?.into_int_value())
}

/// Shifts by any count: left by the width or more gives 0, right the sign fill.
fn shift<'c>(code: &Code<'c>, f: ScalarFn, signed: bool, a: IntValue<'c>, n: IntValue<'c>) -> Built<IntValue<'c>> {
    let ty = a.get_type();
    let (zero, last) = (ty.const_zero(), ty.const_int(u64::from(ty.get_bit_width()) - 1, false));
    let inside = code.cmp(IntPredicate::ULE, n, last)?;
    let count = code.select(inside, n, last)?.into_int_value();
    let shifted = match f {
        ScalarFn::Shl => code.b.build_left_shift(a, count, "")?,
        _ => code.b.build_right_shift(a, count, signed, "")?,
    };
    if f == ScalarFn::Shr && signed {
        return Ok(shifted);
    }
    Ok(code.select(inside, shifted, zero)?.into_int_value())
}
