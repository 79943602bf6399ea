//! Reductions of ranges: sums in any order, products, extrema and their places.

use fusewright_abi::DType;

use super::convert::between;
use super::{IntRange, Interval, num};
use crate::interp::point;
use crate::prim::{NanRule, ReduceOp};
use crate::scalar::ScalarFn;

/// Relative slack for the interpreter's own sums in `f64`, for a number of terms.
pub(super) fn slack(terms: usize) -> f64 {
    (terms as f64 + 4.0) * f64::EPSILON
}

pub(super) fn reduce(op: ReduceOp, nan: NanRule, dtype: DType, row: &[Interval]) -> Interval {
    match op {
        ReduceOp::Add => sum(dtype, row),
        ReduceOp::Mul => product(dtype, row),
        ReduceOp::Max => extremum(ScalarFn::Max, nan, point::start(dtype, op), row),
        ReduceOp::Min => extremum(ScalarFn::Min, nan, point::start(dtype, op), row),
    }
}

fn extremum(f: ScalarFn, rule: NanRule, start: f64, row: &[Interval]) -> Interval {
    let mut range = Interval::point(start);
    for &x in row {
        if rule == NanRule::Propagate {
            if x.is_empty() {
                return Interval::NAN;
            }
            range = super::arith::extreme(f, range, x).with_nan(range.nan || x.nan);
        } else if !x.is_empty() {
            let with = super::arith::extreme(f, range, x);
            // A NaN is skipped, so the element may not take part.
            range = if x.nan { with.join(range) } else { with };
        }
    }
    range
}

fn sum(dtype: DType, row: &[Interval]) -> Interval {
    // Zeros round nothing, wherever they are added.
    let mut terms = row.iter().copied().filter(|x| !x.is_zero());
    let range = match (terms.next(), terms.next(), terms.next()) {
        (None, ..) => Interval::point(0.0),
        (Some(x), None, _) => x,
        (Some(a), Some(b), None) => super::arith::apply(ScalarFn::Add, dtype, &[a, b]),
        _ => {
            let roundings = row.iter().filter(|x| !x.is_zero()).count() - 1;
            let relative = roundings as f64 * num::unit_roundoff(dtype);
            sum_bounded(row, relative, dtype, exact_sum(dtype, row))
        }
    };
    // Accumulators may start from +0, and only a sum of nothing but −0 is −0.
    let range = if range.contains(-0.0) { range.join(Interval::point(0.0)) } else { range };
    let negative = !row.is_empty() && row.iter().all(|x| x.contains(-0.0));
    if range.lo == 0.0 { Interval { lo: if negative { -0.0 } else { 0.0 }, ..range } } else { range }
}

/// The sum if it is exact in any order: all operands are points, and every partial sum is a multiple of their common
/// last place that the mantissa can hold.
fn exact_sum(dtype: DType, row: &[Interval]) -> bool {
    let (mut total, mut place) = (0.0f64, f64::INFINITY);
    for x in row {
        match x.single() {
            Some(v) if v.is_finite() => {
                total += v.abs();
                place = place.min(last_place(v));
            }
            _ => return false,
        }
    }
    total == 0.0 || total <= place / num::unit_roundoff(dtype)
}

/// The value of the lowest set bit; infinity for zero.
fn last_place(x: f64) -> f64 {
    if x == 0.0 {
        return f64::INFINITY;
    }
    let bits = x.abs().to_bits();
    let (fraction, field) = (bits & ((1 << 52) - 1), (bits >> 52) as i32);
    let below = if fraction == 0 { 0 } else { 52 - fraction.trailing_zeros() as i32 };
    2f64.powi(field.max(1) - 1023 - below)
}

/// A sum whose absolute error is at most `relative` times the sum of magnitudes.
pub(super) fn sum_bounded(row: &[Interval], relative: f64, dtype: DType, exact: bool) -> Interval {
    if row.iter().any(|x| x.is_empty()) {
        return Interval::NAN;
    }
    let nan = row.iter().any(|x| x.nan);
    let (mut lo, mut hi, mut up, mut down) = (0.0f64, 0.0f64, 0.0f64, 0.0f64);
    for x in row {
        lo += x.lo;
        hi += x.hi;
        up += x.hi.max(0.0);
        down -= x.lo.min(0.0);
    }
    let largest = num::max_finite(dtype) / (1.0 + relative + slack(row.len()));
    let (over, under) = (up > largest, down > largest);
    if over || under {
        let certain = |end: f64, of: fn(&Interval) -> f64| row.iter().any(|x| of(x) == end);
        let nan = nan || (over && under);
        return match (certain(f64::INFINITY, |x| x.lo), certain(f64::NEG_INFINITY, |x| x.hi)) {
            (true, true) => Interval::NAN,
            (true, false) => Interval { nan, ..Interval::point(f64::INFINITY) },
            (false, true) => Interval { nan, ..Interval::point(f64::NEG_INFINITY) },
            (false, false) => Interval { nan, ..Interval::ANY },
        };
    }
    let error = if exact { 0.0 } else { relative * (up + down) + slack(row.len()) * (up + down) };
    between(lo - error, hi + error, dtype).with_nan(nan)
}

fn product(dtype: DType, row: &[Interval]) -> Interval {
    if row.iter().any(|x| x.is_empty()) {
        return Interval::NAN;
    }
    let nan = row.iter().any(|x| x.nan);
    // Partial products, in whatever order, stay between the product of what shrinks and that of what grows.
    let (mut range, mut large, mut small) = (Interval::point(1.0), 1.0f64, 1.0f64);
    for &x in row {
        range = super::arith::mul(range, x);
        large *= x.magnitude().max(1.0);
        small *= if x.has_zero() { 0.0 } else { x.lo.abs().min(x.hi.abs()).min(1.0) };
    }
    let normal = num::ulp(dtype, 0.0) / num::unit_roundoff(dtype);
    if row.len() < 2 {
        return range.with_nan(nan);
    }
    if large * 2.0 > num::max_finite(dtype) || small < normal * 2.0 || range.nan {
        let zero = row.iter().any(|x| x.single() == Some(0.0)) && row.iter().all(|x| x.is_finite());
        let all =
            if zero && large * 2.0 <= num::max_finite(dtype) { Interval::of(&[0.0, -0.0]) } else { Interval::ANY };
        return all.with_nan(nan);
    }
    let relative = (row.len() as f64 * num::unit_roundoff(dtype).ln_1p()).exp_m1() + slack(row.len());
    let bound = |x: f64, direction: f64| x + direction * x.abs() * relative;
    between(bound(range.lo, -1.0), bound(range.hi, 1.0), dtype).with_nan(nan)
}

/// Places that may hold the best element.
pub(super) fn arg_floats(op: ReduceOp, row: &[Interval]) -> IntRange {
    let flip = |x: Interval| if op == ReduceOp::Max { x } else { super::arith::negated(x) };
    let row: Vec<Interval> = row.iter().map(|&x| flip(x)).collect();
    let certain_nan = row.iter().position(|x| x.is_empty());
    let end = certain_nan.map_or(row.len(), |at| at + 1);
    // The first element whose least value is the largest: others must reach it, later ones exceed it.
    let bar = point::arg_best(ReduceOp::Max, row.iter().map(|x| x.lo)) as usize;
    let possible = |&i: &usize| match (row[i].nan, certain_nan) {
        (true, _) => true,
        (false, Some(_)) => false,
        (false, None) if i <= bar => row[i].hi >= row[bar].lo,
        (false, None) => row[i].hi > row[bar].lo,
    };
    let mut places = (0..end).filter(possible);
    let first = places.next().unwrap_or(0);
    IntRange { lo: first as i64, hi: places.next_back().unwrap_or(first) as i64 }
}

/// The same of integers.
pub(super) fn arg_ints(op: ReduceOp, dtype: DType, row: &[IntRange]) -> IntRange {
    let sign = if op == ReduceOp::Max { 1 } else { -1 };
    let value = |v| sign * num::int_value(dtype, v);
    let ends: Vec<(i128, i128)> =
        row.iter().map(|x| (value(x.lo), value(x.hi))).map(|(a, b)| (a.min(b), a.max(b))).collect();
    let bar = ends.iter().map(|x| x.0).max().unwrap_or(i128::MIN);
    let at = ends.iter().position(|x| x.0 == bar).unwrap_or(0);
    let mut places = (0..ends.len()).filter(|&i| if i <= at { ends[i].1 >= bar } else { ends[i].1 > bar });
    let first = places.next().unwrap_or(0);
    IntRange { lo: first as i64, hi: places.next_back().unwrap_or(first) as i64 }
}

/// The `k` largest: each lies between the same place among the least and among the greatest values.
pub(super) fn top_floats(row: &[Interval], k: usize) -> (Vec<Interval>, Vec<IntRange>) {
    let values: Option<Vec<f64>> = row.iter().map(|x| x.single()).collect();
    if let Some(values) = values {
        let order = point::top_order(&values);
        let chosen = order.iter().take(k);
        return chosen.map(|&i| (row[i], IntRange::point(i as i64))).unzip();
    }
    let anywhere = IntRange { lo: 0, hi: row.len() as i64 - 1 };
    if row.iter().any(|x| x.nan) {
        let all = row.iter().fold(Interval::NAN, |all, &x| all.join(x));
        return (vec![all; k], vec![anywhere; k]);
    }
    let sorted = |end: fn(&Interval) -> f64| {
        let mut ends: Vec<f64> = row.iter().map(end).collect();
        ends.sort_by(|a, b| b.total_cmp(a));
        ends
    };
    let (mut lows, mut highs) = (sorted(|x| x.lo), sorted(|x| x.hi));
    // Zeros of both signs are equal: their places say which comes first, and not their signs.
    let may_be = |zero: f64| row.iter().any(|x| x.lo.total_cmp(&zero).is_le() && x.hi.total_cmp(&zero).is_ge());
    for (ends, zero) in [(&mut lows, -0.0), (&mut highs, 0.0)] {
        if may_be(zero) {
            ends.iter_mut().filter(|end| **end == 0.0).for_each(|end| *end = zero);
        }
    }
    let place = |j: usize| {
        let mut meets = (0..row.len()).filter(|&i| row[i].lo <= highs[j] && row[i].hi >= lows[j]);
        let first = meets.next().unwrap_or(0);
        IntRange { lo: first as i64, hi: meets.next_back().unwrap_or(first) as i64 }
    };
    (0..k).map(|j| (Interval { lo: lows[j], hi: highs[j], nan: false }, place(j))).unzip()
}

/// The same of integers.
pub(super) fn top_ints(dtype: DType, row: &[IntRange], k: usize) -> (Vec<IntRange>, Vec<IntRange>) {
    let value = |v| num::int_value(dtype, v);
    if row.iter().all(|x| x.single().is_some()) {
        let mut order: Vec<usize> = (0..row.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(value(row[i].lo)));
        return order.iter().take(k).map(|&i| (row[i], IntRange::point(i as i64))).unzip();
    }
    let sorted = |end: fn(&IntRange) -> i64| {
        let mut ends: Vec<i64> = row.iter().map(end).collect();
        ends.sort_by_key(|&v| std::cmp::Reverse(value(v)));
        ends
    };
    let (lows, highs) = (sorted(|x| x.lo), sorted(|x| x.hi));
    let anywhere = IntRange { lo: 0, hi: row.len() as i64 - 1 };
    (0..k).map(|j| (IntRange { lo: lows[j], hi: highs[j] }, anywhere)).unzip()
}
