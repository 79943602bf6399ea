//! Scalar functions of one element.
//!
//! Functions are exact: one instruction that rounds once. Those of the table that are rewritten before emission are
//! refused here by name. On 16-bit floats the functions below are computed in f32 and rounded, which equals one
//! rounding because f32 has more than twice as many bits plus two.

use fusewright_abi::DType;
use fusewright_graph::scalar::Yields;
use fusewright_graph::{Rounding, ScalarFn};
use inkwell::values::InstructionOpcode;
use inkwell::{FloatPredicate, IntPredicate};

use super::cast::{Cast, cast, round_to_integral, widen};
use super::code::Code;
use super::integer::{int_value, mask_nibble};
use super::ops::{bits, element};
use super::{BuildError, Built, Value};

/// Emits `f` of operands of dtype `dtype` (of the last operand, for `select`).
pub(in crate::backend) fn map<'c>(code: &Code<'c>, f: ScalarFn, dtype: DType, x: &[Value<'c>]) -> Built<Value<'c>> {
    match f {
        ScalarFn::Select => code.select(x[0], x[1], x[2]),
        ScalarFn::Neg | ScalarFn::Abs if dtype.is_float() => sign(code, f, dtype, x[0]),
        _ => match dtype {
            DType::F32 | DType::F64 => float(code, f, dtype, x),
            DType::BF16 | DType::F16 => through_f32(code, f, dtype, x),
            _ if dtype.is_float() => refuse(f, dtype),
            DType::Bool if !is_logic(f) => refuse(f, dtype),
            _ if dtype.bits() == 4 => nibble(code, f, dtype, x),
            _ => int(code, f, dtype, x),
        },
    }
}

/// Whether a function of one-bit integers is that of booleans.
fn is_logic(f: ScalarFn) -> bool {
    let wraps = matches!(f, ScalarFn::Add | ScalarFn::Sub | ScalarFn::Neg | ScalarFn::Abs);
    !wraps && !matches!(f, ScalarFn::Div | ScalarFn::Rem | ScalarFn::Shl | ScalarFn::Shr)
}

fn refuse<T>(f: ScalarFn, dtype: DType) -> Built<T> {
    Err(BuildError::unsupported(format!("`{}` of {dtype} is not expanded into native functions", f.name())))
}

/// Sign changes touch the top bit only, NaN included.
fn sign<'c>(code: &Code<'c>, f: ScalarFn, dtype: DType, x: Value<'c>) -> Built<Value<'c>> {
    let bits = dtype.bits();
    if dtype == DType::F8E8M0 {
        return refuse(f, dtype);
    }
    let word = code.bits(x, code.int_type(bits.max(8)))?;
    let word = match f {
        ScalarFn::Neg => code.xor(word, code.int(word, 1 << (bits - 1)))?,
        _ => code.masked(word, ((1i128 << (bits - 1)) - 1) as i64)?,
    };
    code.bits(word, code.type_of(dtype))
}

fn through_f32<'c>(code: &Code<'c>, f: ScalarFn, dtype: DType, x: &[Value<'c>]) -> Built<Value<'c>> {
    if f == ScalarFn::Fma {
        return refuse(f, dtype);
    }
    let wide = x.iter().map(|&v| widen(code, v, dtype)).collect::<Built<Vec<Value<'c>>>>()?;
    let result = float(code, f, DType::F32, &wide)?;
    match f.spec().yields {
        Yields::Bool => Ok(result),
        Yields::Operand => cast(code, result, Cast::nearest(DType::F32, dtype)),
    }
}

fn float<'c>(code: &Code<'c>, f: ScalarFn, dtype: DType, x: &[Value<'c>]) -> Built<Value<'c>> {
    let call = |name: &str| code.same(name, x);
    let compare = |p| code.fcmp(p, x[0], x[1]);
    let whole = |round| round_to_integral(code, x[0], round);
    let op = |op| code.op(op, x[0], x[1]);
    match f {
        ScalarFn::Add => op(InstructionOpcode::FAdd),
        ScalarFn::Sub => op(InstructionOpcode::FSub),
        ScalarFn::Mul => op(InstructionOpcode::FMul),
        ScalarFn::Div => code.dialect.divide(code, x[0], x[1]),
        ScalarFn::Fma => call("llvm.fma"),
        ScalarFn::Sqrt => code.dialect.sqrt(code, x[0]),
        ScalarFn::Max => call("llvm.maximum"),
        ScalarFn::Min => call("llvm.minimum"),
        ScalarFn::MaxNum => code.dialect.extreme_number(code, "llvm.maximumnum", x),
        ScalarFn::MinNum => code.dialect.extreme_number(code, "llvm.minimumnum", x),
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

/// Four-bit integers: as bytes, of which the low half is kept.
fn nibble<'c>(code: &Code<'c>, f: ScalarFn, dtype: DType, x: &[Value<'c>]) -> Built<Value<'c>> {
    let wide = x.iter().map(|&v| int_value(code, v, dtype)).collect::<Built<Vec<Value<'c>>>>()?;
    let result = int(code, f, if dtype.is_signed_int() { DType::I8 } else { DType::U8 }, &wide)?;
    match f.spec().yields {
        Yields::Bool => Ok(result),
        Yields::Operand => mask_nibble(code, result, dtype),
    }
}

fn int<'c>(code: &Code<'c>, f: ScalarFn, dtype: DType, x: &[Value<'c>]) -> Built<Value<'c>> {
    let signed = dtype.is_signed_int();
    let call = |name: &str| code.same(name, x);
    let order = |s, u| code.icmp(if signed { s } else { u }, x[0], x[1]);
    let op = |op| code.op(op, x[0], x[1]);
    debug_assert!(element(x[0]).is_int_type());
    match f {
        ScalarFn::Add => op(InstructionOpcode::Add),
        ScalarFn::Sub => op(InstructionOpcode::Sub),
        ScalarFn::Mul => op(InstructionOpcode::Mul),
        ScalarFn::Div | ScalarFn::Rem => divide(code, f, signed, x[0], x[1]),
        ScalarFn::Max | ScalarFn::MaxNum => call(if signed { "llvm.smax" } else { "llvm.umax" }),
        ScalarFn::Min | ScalarFn::MinNum => call(if signed { "llvm.smin" } else { "llvm.umin" }),
        ScalarFn::Neg => code.ineg(x[0]),
        ScalarFn::Abs if signed => {
            let low = code.icmp_const(IntPredicate::SLT, x[0], 0)?;
            code.select(low, code.ineg(x[0])?, x[0])
        }
        ScalarFn::Abs => Ok(x[0]),
        ScalarFn::Eq => code.icmp(IntPredicate::EQ, x[0], x[1]),
        ScalarFn::Ne => code.icmp(IntPredicate::NE, x[0], x[1]),
        ScalarFn::Lt => order(IntPredicate::SLT, IntPredicate::ULT),
        ScalarFn::Le => order(IntPredicate::SLE, IntPredicate::ULE),
        ScalarFn::Gt => order(IntPredicate::SGT, IntPredicate::UGT),
        ScalarFn::Ge => order(IntPredicate::SGE, IntPredicate::UGE),
        ScalarFn::And => code.and(x[0], x[1]),
        ScalarFn::Or => code.or(x[0], x[1]),
        ScalarFn::Xor => code.xor(x[0], x[1]),
        ScalarFn::Not => code.not(x[0]),
        ScalarFn::Shl | ScalarFn::Shr => shift(code, f, signed, x[0], x[1]),
        _ => refuse(f, dtype),
    }
}

/// Division toward zero, defined for every operand: by zero it gives 0, and the least integer by −1 wraps.
fn divide<'c>(code: &Code<'c>, f: ScalarFn, signed: bool, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
    let zero = code.int(a, 0);
    let by_zero = code.icmp(IntPredicate::EQ, b, zero)?;
    let by_minus_one = code.icmp_const(IntPredicate::EQ, b, -1)?;
    let by_minus_one = code.and(by_minus_one, code.int(by_minus_one, i64::from(signed)))?;
    let special = code.or(by_zero, by_minus_one)?;
    let divisor = code.select(special, code.int(a, 1), b)?;
    let quotient = code.op(if signed { InstructionOpcode::SDiv } else { InstructionOpcode::UDiv }, a, divisor)?;
    if f == ScalarFn::Rem {
        let rest = code.isub(a, code.op(InstructionOpcode::Mul, quotient, divisor)?)?;
        return code.select(special, zero, rest);
    }
    let quotient = code.select(by_minus_one, code.ineg(a)?, quotient)?;
    code.select(by_zero, zero, quotient)
}

/// Shifts by any count: left by the width or more gives 0, right the sign fill. A negative count is more to the left, and
/// none to the right of signed integers.
fn shift<'c>(code: &Code<'c>, f: ScalarFn, signed: bool, a: Value<'c>, n: Value<'c>) -> Built<Value<'c>> {
    let last = i64::from(bits(a)) - 1;
    let inside = code.icmp_const(IntPredicate::ULE, n, last)?;
    let bounded = || code.select(inside, n, code.int(n, last));
    if f == ScalarFn::Shr && signed {
        let negative = code.icmp_const(IntPredicate::SLT, n, 0)?;
        let count = code.select(negative, code.int(n, 0), bounded()?)?;
        return code.op(InstructionOpcode::AShr, a, count);
    }
    let op = if f == ScalarFn::Shl { InstructionOpcode::Shl } else { InstructionOpcode::LShr };
    if bits(a) == 64 {
        // LLVM 22 takes a selected shift for one of PTX, which clamps its count and reads 32 bits of it
        // (llvm-project#201165). So the operand is selected.
        let operand = code.select(inside, a, code.int(a, 0))?;
        return code.op(op, operand, code.masked(n, last)?);
    }
    let shifted = code.op(op, a, bounded()?)?;
    code.select(inside, shifted, code.int(a, 0))
}
