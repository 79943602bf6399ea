//! Casts, and the same bits as another dtype.
//!
//! A range of codes is contiguous as long as its sign bit is fixed, and then a bitcast keeps the order of its ends.

use fusewright_abi::DType;

use super::arith::absolute;
use super::{IntRange, Interval, Intervals};
use crate::interp::domain::CastTo;
use crate::interp::fault::Fault;
use crate::interp::walk::reserve;
use crate::num;
use crate::prim::{NanBits, Rounding};
use crate::tensor::Data;

type Ranges = Data<Interval, IntRange>;

pub(super) fn to_nearest(dtype: DType, x: Interval) -> Interval {
    round(x, dtype, Rounding::NearestEven, false)
}

/// Every value that a member of the range may round to. Rounding is monotone, but may leave the numbers at the ends.
pub(super) fn round(x: Interval, dtype: DType, rounding: Rounding, saturate: bool) -> Interval {
    let rounded = |x| num::round_to(dtype, x, rounding, saturate);
    let of_nan = if x.nan { Interval::point(rounded(f64::NAN)) } else { Interval { nan: false, ..Interval::NAN } };
    if x.is_empty() {
        return of_nan;
    }
    let x = if dtype == DType::F8E8M0 { absolute(x) } else { x };
    let (lo, hi) = (rounded(x.lo), rounded(x.hi));
    let max = num::max_finite(dtype);
    let least = if dtype == DType::F8E8M0 { num::decode(dtype, 0) } else { -max };
    let numbers = match (lo.is_nan(), hi.is_nan()) {
        (true, true) if x.lo.is_sign_negative() == x.hi.is_sign_negative() => Interval::NAN,
        (true, true) => Interval { lo: least, hi: max, nan: true },
        (true, false) => Interval { lo: least, hi, nan: true },
        (false, true) => Interval { lo, hi: max, nan: true },
        (false, false) => Interval { lo, hi, nan: false },
    };
    numbers.join(of_nan)
}

/// Every value of `dtype` between two real bounds; `lo` and `hi` rounded to nearest where there is none.
pub(super) fn between(lo: f64, hi: f64, dtype: DType) -> Interval {
    let inner = |x: f64, rounding| {
        let nearest = num::round_to(dtype, x, Rounding::NearestEven, false);
        if nearest.is_finite() { num::round_to(dtype, x, rounding, false) } else { nearest }
    };
    let (a, b) = (inner(lo, Rounding::Up), inner(hi, Rounding::Down));
    if a <= b { Interval { lo: a, hi: b, nan: false } } else { to_nearest(dtype, Interval { lo, hi, nan: false }) }
}

pub(super) fn cast(x: &Intervals, cast: CastTo) -> Result<Ranges, Fault> {
    let CastTo { to, round: rounding, saturate } = cast;
    let from = x.dtype();
    Ok(match x.data() {
        Data::Float(v) if to.is_float() => {
            let mut out = reserve(v.len())?;
            out.extend(v.iter().map(|&x| round(x, to, rounding, saturate)));
            Data::Float(out)
        }
        Data::Float(v) => {
            let mut out = reserve(v.len())?;
            out.extend(v.iter().map(|&x| float_to_int(x, cast)));
            Data::Int(out)
        }
        Data::Int(v) if to.is_float() => {
            let end = |v| num::int_to_float(from, v, to, rounding, saturate);
            let mut out = reserve(v.len())?;
            out.extend(v.iter().map(|x| match x.single() {
                Some(v) => Interval::point(end(v)),
                None if to == DType::F8E8M0 => Interval::ANY,
                None => int_ends(from, *x, to, rounding, saturate),
            }));
            Data::Float(out)
        }
        Data::Int(v) => {
            let mut out = reserve(v.len())?;
            out.extend(v.iter().map(|&x| int_to_int(from, x, to, saturate)));
            Data::Int(out)
        }
    })
}

fn int_ends(from: DType, x: IntRange, to: DType, rounding: Rounding, saturate: bool) -> Interval {
    let end = |v| num::int_to_float(from, v, to, rounding, saturate);
    let (lo, hi) = (end(x.lo), end(x.hi));
    // An end that overflows a format without infinity: let the general rule decide, on the exact ends in f64.
    if lo.is_nan() || hi.is_nan() {
        let exact = |v| num::int_value(from, v) as f64;
        return round(Interval { lo: exact(x.lo), hi: exact(x.hi), nan: false }, to, rounding, saturate);
    }
    Interval { lo, hi, nan: false }
}

/// All of an integer dtype.
pub(super) fn whole(dtype: DType) -> IntRange {
    let (least, greatest) = num::int_range(dtype);
    IntRange { lo: least as i64, hi: greatest as i64 }
}

/// A range of numbers as elements of a dtype: what is beyond its range has wrapped to anywhere.
pub(super) fn fit(dtype: DType, lo: i128, hi: i128) -> IntRange {
    let (least, greatest) = num::int_range(dtype);
    if lo >= least && hi <= greatest { IntRange { lo: lo as i64, hi: hi as i64 } } else { whole(dtype) }
}

fn float_to_int(x: Interval, cast: CastTo) -> IntRange {
    let CastTo { to, round, saturate } = cast;
    let convert = |x| num::float_to_int(to, x, round, saturate);
    if let Some(x) = x.single() {
        return IntRange::point(convert(x));
    }
    if to == DType::Bool {
        let may_be_true = x.nan || (!x.is_empty() && (x.lo != 0.0 || x.hi != 0.0));
        return IntRange { lo: i64::from(!x.has_zero()), hi: i64::from(may_be_true) };
    }
    let wide = |x| num::int_value(DType::I64, num::float_to_int(DType::I64, x, round, true));
    let ends = if saturate {
        let value = |x| num::int_value(to, convert(x));
        fit(to, value(x.lo), value(x.hi))
    } else if x.magnitude() < 9e18 {
        fit(to, wide(x.lo), wide(x.hi))
    } else {
        whole(to)
    };
    if x.nan { super::int::join(to, ends, IntRange::point(0)) } else { ends }
}

fn int_to_int(from: DType, x: IntRange, to: DType, saturate: bool) -> IntRange {
    if saturate || to == DType::Bool {
        let convert = |v| num::saturate_int(from, v, to);
        let crosses = num::int_value(from, x.lo) < 0 && num::int_value(from, x.hi) > 0;
        let (lo, hi) = (convert(x.lo), convert(x.hi));
        return match to {
            DType::Bool if crosses => IntRange { lo: 0, hi: 1 },
            DType::Bool => IntRange { lo: lo.min(hi), hi: lo.max(hi) },
            _ => IntRange { lo, hi },
        };
    }
    match x.single() {
        Some(v) => IntRange::point(num::wrap_int(to, v)),
        None => fit(to, num::int_value(from, x.lo), num::int_value(from, x.hi)),
    }
}

/// The codes of a range, if they are contiguous and share the sign bit.
fn code_range_float(dtype: DType, x: Interval, nan: NanBits) -> Option<(u64, u64)> {
    match x.single() {
        Some(x) if x.is_nan() => return Some(nan_codes(dtype, nan)),
        Some(x) => {
            let code = num::encode(dtype, x);
            return Some((code, code));
        }
        None => {}
    }
    if x.nan || x.lo.is_sign_negative() != x.hi.is_sign_negative() {
        return None;
    }
    let (a, b) = (num::encode(dtype, x.lo), num::encode(dtype, x.hi));
    Some((a.min(b), a.max(b)))
}

/// The least and the greatest code that may stand for a NaN: of its own bits a range knows nothing.
fn nan_codes(dtype: DType, nan: NanBits) -> (u64, u64) {
    let canonical = num::encode(dtype, f64::NAN);
    if nan == NanBits::One || !num::has_nans(dtype) {
        return (canonical, canonical);
    }
    let largest = num::encode(dtype, num::max_finite(dtype));
    let first = (largest + 1..=canonical).find(|&code| num::decode(dtype, code).is_nan());
    (first.unwrap_or(canonical), u64::MAX >> (64 - dtype.bits()))
}

fn code_range_int(dtype: DType, x: IntRange) -> Option<(u64, u64)> {
    let (a, b) = (num::encode_int(dtype, x.lo), num::encode_int(dtype, x.hi));
    (a <= b && ((a ^ b) >> (dtype.bits() - 1)) == 0).then_some((a, b))
}

fn codes(x: &Intervals, nan: NanBits) -> Result<Vec<Option<(u64, u64)>>, Fault> {
    let mut out = reserve(x.len())?;
    match x.data() {
        Data::Float(v) => out.extend(v.iter().map(|&v| code_range_float(x.dtype(), v, nan))),
        Data::Int(v) => out.extend(v.iter().map(|&v| code_range_int(x.dtype(), v))),
    }
    Ok(out)
}

fn from_codes(codes: Vec<Option<(u64, u64)>>, to: DType) -> Result<Ranges, Fault> {
    let unsigned = to == DType::F8E8M0 || (to.is_int() && !to.is_signed_int());
    let same_sign = |a: u64, b: u64| unsigned || ((a ^ b) >> (to.bits() - 1)) & 1 == 0;
    if to.is_float() {
        let mut out = reserve(codes.len())?;
        out.extend(codes.into_iter().map(|range| match range {
            Some((a, b)) if a == b => Interval::point(num::decode(to, a)),
            Some((a, b)) if same_sign(a, b) => match Interval::of(&[num::decode(to, a), num::decode(to, b)]) {
                ends if ends.nan => Interval::ANY,
                ends => ends,
            },
            _ => Interval::ANY,
        }));
        return Ok(Data::Float(out));
    }
    let mut out = reserve(codes.len())?;
    out.extend(codes.into_iter().map(|range| match range {
        Some((a, b)) if a == b || same_sign(a, b) => {
            IntRange { lo: num::decode_int(to, a), hi: num::decode_int(to, b) }
        }
        _ => whole(to),
    }));
    Ok(Data::Int(out))
}

pub(super) fn bitcast(x: &Intervals, to: DType, nan: NanBits) -> Result<Ranges, Fault> {
    from_codes(codes(x, nan)?, to)
}

pub(super) fn pack(x: &Intervals, ways: usize, to: DType) -> Result<Ranges, Fault> {
    let bits = x.dtype().bits();
    let all = (0, num::encode_int(DType::U64, -1) >> (64 - bits));
    let join = |codes: &[Option<(u64, u64)>]| {
        let ends = codes.iter().map(|range| range.unwrap_or(all)).rev();
        Some(ends.fold((0, 0), |(low, high), (a, b)| (low << bits | a, high << bits | b)))
    };
    from_codes(codes(x, NanBits::Kept)?.chunks_exact(ways).map(join).collect(), to)
}
