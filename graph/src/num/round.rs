//! Rounding: the one place where a value changes to fit a dtype.

use fusewright_abi::DType;

use super::float::{Format, Specials, exponent, max_finite, power_of_two};
use super::int::{int_range, int_value};
use crate::prim::Rounding;

/// `x` rounded to a value of a float dtype.
///
/// A magnitude that rounds beyond the largest finite value becomes that value if `saturate`, else infinity (NaN where
/// the dtype has no infinity, the largest value where it has no NaN either). Infinity saturates too; NaN stays NaN.
/// `f8e8m0` to nearest rounds ties up, and what lies between 2⁻¹²⁷ and 2⁻¹²⁶ to the latter, as PyTorch does. A dtype
/// that is not a float leaves `x` as it is.
pub fn round_to(dtype: DType, x: f64, rounding: Rounding, saturate: bool) -> f64 {
    match (dtype, rounding, saturate) {
        (DType::F64, _, false) => return x,
        (DType::F32, Rounding::NearestEven, false) => return f64::from(x as f32),
        (DType::F8E8M0, ..) => return round_e8m0(x, rounding, saturate),
        _ => {}
    }
    let Some(format) = Format::of(dtype) else { return x };
    if x.is_nan() {
        return if format.specials == Specials::None { format.max_finite } else { x };
    }
    let a = x.abs();
    let rounded = if a.is_infinite() { a } else { round_magnitude(a, format.quantum(a), rounding, x < 0.0) };
    let fitted = if rounded <= format.max_finite {
        rounded
    } else if saturate {
        format.max_finite
    } else {
        match format.specials {
            Specials::Ieee => f64::INFINITY,
            Specials::NanOnly => return f64::NAN,
            Specials::None => format.max_finite,
        }
    };
    fitted.copysign(x)
}

/// `magnitude` rounded to a multiple of the power of two `quantum`.
fn round_magnitude(magnitude: f64, quantum: f64, rounding: Rounding, negative: bool) -> f64 {
    if rounding == Rounding::NearestEven && quantum < 1e250 && magnitude < quantum * 1e15 {
        // The sum's last place is `quantum`, so the addition itself rounds.
        let shift = quantum * 4_503_599_627_370_496.0;
        return (magnitude + shift) - shift;
    }
    round_integral(magnitude / quantum, rounding, negative) * quantum
}

/// A non-negative value rounded to an integer; `negative` says which way is down.
fn round_integral(magnitude: f64, rounding: Rounding, negative: bool) -> f64 {
    match rounding {
        Rounding::NearestEven => magnitude.round_ties_even(),
        Rounding::HalfAway => magnitude.round(),
        Rounding::TowardZero => magnitude.floor(),
        Rounding::Down if negative => magnitude.ceil(),
        Rounding::Down => magnitude.floor(),
        Rounding::Up if negative => magnitude.floor(),
        Rounding::Up => magnitude.ceil(),
    }
}

fn round_e8m0(x: f64, rounding: Rounding, saturate: bool) -> f64 {
    let (a, least) = (x.abs(), power_of_two(-127));
    if a.is_nan() {
        return f64::NAN;
    }
    let low = power_of_two(exponent(a).clamp(-127, 1023));
    let up = match rounding {
        Rounding::NearestEven | Rounding::HalfAway => a >= low * 1.5 || (low == least && a > low),
        Rounding::TowardZero | Rounding::Down => false,
        Rounding::Up => a > low,
    };
    let rounded = if up { low * 2.0 } else { low };
    match rounded <= max_finite(DType::F8E8M0) && a.is_finite() {
        true => rounded,
        false if saturate => max_finite(DType::F8E8M0),
        false => f64::NAN,
    }
}

/// `x` rounded to an integer of `dtype`. Out of range it saturates or, if not `saturate`, wraps modulo 2^bits; an
/// infinity that does not saturate gives 0, and so does NaN. As `bool`, everything but zero is 1.
pub fn float_to_int(dtype: DType, x: f64, rounding: Rounding, saturate: bool) -> i64 {
    if dtype == DType::Bool {
        return i64::from(x != 0.0);
    }
    if x.is_nan() || (x.is_infinite() && !saturate) {
        return 0;
    }
    let whole = round_integral(x.abs(), rounding, x < 0.0).copysign(x);
    if saturate {
        let (least, greatest) = int_range(dtype);
        // A conversion from float saturates at the range of `i128`, which holds every range.
        return (whole as i128).clamp(least, greatest) as i64;
    }
    // The remainder is exact, and below 2^64 in magnitude.
    super::int::wrap_int(dtype, (whole % power_of_two(64)) as i128 as i64)
}

/// An integer of dtype `from` rounded once to a value of the float dtype `to`, as by [`round_to`].
pub fn int_to_float(from: DType, v: i64, to: DType, rounding: Rounding, saturate: bool) -> f64 {
    let exact = int_value(from, v);
    let magnitude = exact.unsigned_abs() as u64;
    let kept = 64 - magnitude.leading_zeros();
    if kept <= 53 {
        return round_to(to, exact as f64, rounding, saturate);
    }
    let shift = kept - 53;
    let (top, lost) = (magnitude >> shift, magnitude & ((1 << shift) - 1));
    let negative = exact < 0;
    let kept = if to == DType::F64 {
        top + u64::from(rounds_away(top, lost, 1 << (shift - 1), rounding, negative))
    } else {
        // Rounding to odd keeps every later rounding to a shorter format correct.
        top | u64::from(lost != 0)
    };
    let value = kept as f64 * power_of_two(shift as i32);
    round_to(to, if negative { -value } else { value }, rounding, saturate)
}

/// Whether `top` with the bits `lost` below it, of which `half` is the middle, rounds to the larger magnitude.
fn rounds_away(top: u64, lost: u64, half: u64, rounding: Rounding, negative: bool) -> bool {
    match rounding {
        Rounding::NearestEven => lost > half || (lost == half && top & 1 == 1),
        Rounding::HalfAway => lost >= half,
        Rounding::TowardZero => false,
        Rounding::Down => negative && lost != 0,
        Rounding::Up => !negative && lost != 0,
    }
}

/// `a · b + c` rounded once to nearest even in a float dtype that holds all three.
pub fn fma(dtype: DType, a: f64, b: f64, c: f64) -> f64 {
    match dtype {
        DType::F64 => a.mul_add(b, c),
        DType::F32 => f64::from((a as f32).mul_add(b as f32, c as f32)),
        _ => round_to(dtype, fma_to_odd(a, b, c), Rounding::NearestEven, false),
    }
}

/// `a · b + c` of operands that f32 can hold, rounded to odd in `f64`: a later rounding to a shorter format decides as
/// if it saw the exact value.
pub(crate) fn fma_to_odd(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    if !sum.is_finite() {
        return sum;
    }
    let part = sum - product;
    let error = (product - (sum - part)) + (c - part);
    if error == 0.0 || sum.to_bits() & 1 == 1 {
        sum
    } else if (error > 0.0) == (sum > 0.0) {
        f64::from_bits(sum.to_bits() + 1)
    } else {
        f64::from_bits(sum.to_bits() - 1)
    }
}
