//! Distance and neighbours of floats.

use fusewright_abi::DType;

use super::float::{Format, decode, encode, exponent, max_finite, power_of_two};

/// A position on the line of a float dtype's values: neighbours differ by 1, −0 comes right before +0. All NaNs have
/// one position above everything else.
pub fn key(dtype: DType, x: f64) -> i64 {
    if x.is_nan() {
        return i64::MAX;
    }
    let bits = encode(dtype, x);
    if dtype == DType::F8E8M0 {
        return bits as i64;
    }
    let sign = 1u64 << (dtype.bits() - 1);
    let magnitude = (bits & (sign - 1)) as i64;
    if bits & sign != 0 { -1 - magnitude } else { magnitude }
}

/// The distance of neighbouring values at `x`; at a power of two, the distance to the next larger magnitude.
pub fn ulp(dtype: DType, x: f64) -> f64 {
    let x = if x.is_finite() { x.abs().min(max_finite(dtype)) } else { max_finite(dtype) };
    match Format::of(dtype) {
        Some(format) => format.quantum(x),
        None => power_of_two(exponent(x).clamp(-127, 127)),
    }
}

/// Half the distance from 1 to the next value: the bound of one rounding's relative error.
pub fn unit_roundoff(dtype: DType) -> f64 {
    ulp(dtype, 1.0) / 2.0
}

/// The next larger value of a float dtype, from −0 to the least positive one; infinity (or the largest value, if there
/// is none) and NaN stay.
pub fn next_up(dtype: DType, x: f64) -> f64 {
    if x.is_nan() || x == f64::INFINITY {
        return x;
    }
    if dtype == DType::F8E8M0 {
        return if x >= max_finite(dtype) { x } else { x * 2.0 };
    }
    let sign = 1u64 << (dtype.bits() - 1);
    let bits = encode(dtype, x);
    let up = match bits & sign != 0 {
        true if bits == sign => decode(dtype, 1),
        true => decode(dtype, bits - 1),
        false => decode(dtype, bits + 1),
    };
    // Formats without infinity end in a NaN or wrap to the sign bit.
    if up >= x { up } else { x }
}

/// The next smaller value: the mirror image of [`next_up`]; the least value of `f8e8m0` stays.
pub fn next_down(dtype: DType, x: f64) -> f64 {
    if dtype == DType::F8E8M0 {
        return if x.is_nan() { x } else { (x / 2.0).max(decode(dtype, 0)) };
    }
    -next_up(dtype, -x)
}
