//! Literals: a dtype and a value that reads back to the bit.
//!
//! `f32 1e-5`, `bf16 -0.0`, `f8e4m3 nan`, `i32 -7`, `bool true`. A float that f32 holds is printed with as few digits as
//! identify it among f32 values. A written float means the nearest value of its dtype; one beyond the dtype's range is
//! refused.

use fusewright_abi::DType;

use crate::num;
use crate::prim::{Literal, Rounding};

use super::cursor::Cursor;
use super::error::TextError;

/// The literal as text.
pub fn print_literal(literal: &Literal) -> String {
    match *literal {
        Literal::Float(dtype, v) => format!("{dtype} {}", print_float(dtype, v)),
        Literal::Int(DType::Bool, v @ (0 | 1)) => format!("bool {}", v == 1),
        Literal::Int(DType::U64, v) => format!("u64 {}", v as u64),
        Literal::Int(dtype, v) => format!("{dtype} {v}"),
    }
}

/// A float value of a dtype as text.
pub fn print_float(dtype: DType, v: f64) -> String {
    let narrow = v as f32;
    if v.is_nan() {
        "nan".to_owned()
    } else if dtype != DType::F64 && f64::from(narrow).to_bits() == v.to_bits() {
        format!("{narrow:?}")
    } else {
        format!("{v:?}")
    }
}

/// Reads `dtype value`.
///
/// # Errors
/// No literal, or a value out of the dtype's range.
pub fn parse_literal(cursor: &mut Cursor<'_>) -> Result<Literal, TextError> {
    let dtype = parse_dtype(cursor)?;
    parse_value(cursor, dtype)
}

/// Reads a dtype.
///
/// # Errors
/// No dtype.
pub fn parse_dtype(cursor: &mut Cursor<'_>) -> Result<DType, TextError> {
    let found = cursor.peek().text.parse().ok().filter(|_| !cursor.peek().quoted);
    let dtype = found.ok_or_else(|| cursor.expected("a dtype"))?;
    cursor.take();
    Ok(dtype)
}

/// Reads a value of a dtype.
///
/// # Errors
/// No number, or a value out of the dtype's range.
pub fn parse_value(cursor: &mut Cursor<'_>, dtype: DType) -> Result<Literal, TextError> {
    let token = cursor.peek();
    if dtype.is_float() {
        let text = cursor.number()?;
        let value = nearest(dtype, &text);
        return value
            .map(|v| Literal::Float(dtype, v))
            .ok_or_else(|| cursor.error_at(&token, format!("{text} is not a value of {dtype}")));
    }
    if dtype == DType::Bool {
        let value = match token.text {
            "true" | "1" => 1,
            "false" | "0" => 0,
            _ => return Err(cursor.expected("`true` or `false`")),
        };
        cursor.take();
        return Ok(Literal::Int(dtype, value));
    }
    let value = if dtype == DType::U64 { cursor.unsigned_wide()? } else { cursor.int()? };
    let fits = dtype == DType::U64 || num::wrap_int(dtype, value) == value;
    if fits {
        Ok(Literal::Int(dtype, value))
    } else {
        Err(cursor.error_at(&token, format!("{value} is not a value of {dtype}")))
    }
}

/// Whether a dtype holds a value exactly.
pub fn holds(literal: &Literal) -> bool {
    match *literal {
        Literal::Float(dtype, v) if dtype.is_float() => {
            let rounded = num::round_to(dtype, v, Rounding::NearestEven, false);
            rounded.to_bits() == v.to_bits() || rounded.is_nan() && v.is_nan() && dtype != DType::F4E2M1
        }
        Literal::Int(dtype, v) if !dtype.is_float() => {
            num::wrap_int(dtype, v) == v && (dtype != DType::Bool || v >> 1 == 0)
        }
        _ => false,
    }
}

/// The nearest value of a float dtype, if the written one is in range.
fn nearest(dtype: DType, text: &str) -> Option<f64> {
    let written: f64 = text.parse().ok()?;
    let start = if dtype == DType::F64 { written } else { f64::from(text.parse::<f32>().ok()?) };
    let value = num::round_to(dtype, start, Rounding::NearestEven, false);
    // Dtypes without infinity, NaN, sign or zero put something else in their place.
    let kept = value.is_nan() == written.is_nan()
        && value.is_infinite() == written.is_infinite()
        && (written.is_nan() || value.is_sign_negative() == written.is_sign_negative())
        && (written != 0.0 || value == 0.0);
    let in_range = dtype != DType::F4E2M1 || written.abs() <= num::max_finite(dtype);
    (kept && in_range).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Literal, TextError> {
        let mut cursor = Cursor::new(text)?;
        let literal = parse_literal(&mut cursor)?;
        cursor.expect_end()?;
        Ok(literal)
    }

    #[test]
    fn every_code_of_the_narrow_floats_reads_back() {
        let mut count = 0;
        for dtype in DType::ALL.into_iter().filter(|d| d.is_float() && d.bits() <= 16) {
            for bits in 0..1u64 << dtype.bits() {
                let literal = Literal::Float(dtype, num::decode(dtype, bits));
                assert!(holds(&literal), "{literal:?}");
                assert_eq!(read(&print_literal(&literal)), Ok(literal));
                count += 1;
            }
        }
        assert_eq!(count, 2 * 65536 + 3 * 256 + 16);
    }

    #[test]
    fn wide_values_read_back() {
        let mut state = 1u64;
        for _ in 0..2000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let f32_value = f64::from(f32::from_bits((state >> 32) as u32));
            for literal in [
                Literal::Float(DType::F64, f64::from_bits(state)),
                Literal::Float(DType::F32, f32_value),
                Literal::Int(DType::I64, state as i64),
                Literal::Int(DType::U64, state as i64),
                Literal::Int(DType::I32, i64::from(state as i32)),
            ] {
                assert_eq!(read(&print_literal(&literal)), Ok(literal));
            }
        }
        assert_eq!(read("f32 1e-5"), Ok(Literal::Float(DType::F32, f64::from(1e-5f32))));
        assert_eq!(print_literal(&Literal::Float(DType::F32, f64::from(1e-5f32))), "f32 1e-5");
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for text in [
            "f8e4m3 1000",
            "f8e4m3 inf",
            "f4e2m1 nan",
            "f8e8m0 -1",
            "f8e8m0 0",
            "bf16 1e39",
            "f32 1e39",
            "f32 1e999",
            "f64 -1e999",
            "i8 128",
            "u8 -1",
            "bool 2",
            "i64 9223372036854775808",
            "f16 65520",
            "f4e2m1 6.5",
            "f32 true",
            "q8 1",
        ] {
            assert!(read(text).is_err(), "{text}: {:?}", read(text));
        }
        assert!(!holds(&Literal::Float(DType::F32, 0.1)));
        assert!(!holds(&Literal::Float(DType::I32, 1.0)) && !holds(&Literal::Int(DType::F32, 1)));
        assert!(!holds(&Literal::Int(DType::Bool, 2)) && !holds(&Literal::Int(DType::I4, 8)));
    }
}
