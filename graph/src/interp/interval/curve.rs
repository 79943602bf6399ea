//! Approximate functions of ranges of floats.

use fusewright_abi::DType;

use super::arith::{absolute, ends};
use super::{Interval, num};
use crate::prim::Rounding;
use crate::scalar::ScalarFn;

/// The range of the exact function, to f64 accuracy.
pub(super) fn apply(f: ScalarFn, x: &[Interval]) -> Interval {
    let nan = x.iter().any(|x| x.nan);
    let range = match (f, x) {
        (ScalarFn::Pow, &[a, b]) => return power(a, b),
        (ScalarFn::Hypot, &[a, b]) => return length(a, b),
        _ if x.iter().any(|x| x.is_empty()) => return Interval { nan, ..Interval::NAN },
        (ScalarFn::Exp | ScalarFn::Exp2 | ScalarFn::Tanh | ScalarFn::Erf | ScalarFn::Erfc, &[a]) => ends(f, a),
        (ScalarFn::Rsqrt | ScalarFn::Log | ScalarFn::Log2, &[a]) => positive(f, a),
        (ScalarFn::Erfinv, &[a]) => within_one(f, a),
        (ScalarFn::Sin, &[a]) => wave(f, a, 0.5),
        (ScalarFn::Cos, &[a]) => wave(f, a, 0.0),
        (ScalarFn::Atan2, &[a, b]) => angle(a, b),
        _ => Interval::ANY,
    };
    range.with_nan(nan)
}

/// A function that is monotone from −0 up and NaN below.
pub(super) fn positive(f: ScalarFn, x: Interval) -> Interval {
    if x.hi < 0.0 {
        return Interval::NAN;
    }
    let lo = if x.lo < 0.0 { -0.0 } else { x.lo };
    let mut range = Interval::of(&[f.eval(&[lo]), f.eval(&[x.hi])]);
    if lo.is_sign_negative() && x.hi.is_sign_positive() {
        range = range.join(Interval::point(f.eval(&[0.0])));
    }
    range.with_nan(x.lo < 0.0)
}

/// A function that grows from −1 to 1 and is NaN beyond.
fn within_one(f: ScalarFn, x: Interval) -> Interval {
    if x.hi < -1.0 || x.lo > 1.0 {
        return Interval::NAN;
    }
    let inside = Interval { lo: x.lo.max(-1.0), hi: x.hi.min(1.0), nan: false };
    ends(f, inside).with_nan(x.lo < -1.0 || x.hi > 1.0)
}

/// Sine or cosine, whose extrema lie at `(offset + n)·π`, the maxima at even `n`.
fn wave(f: ScalarFn, x: Interval, offset: f64) -> Interval {
    let all = Interval { lo: -1.0, hi: 1.0, nan: x.has_infinity() };
    // Far from zero, or across half a turn, the position within the wave is not worth knowing.
    if x.magnitude() > 1e6 || x.hi - x.lo > 3.0 {
        return all;
    }
    let turn = |x: f64| x / std::f64::consts::PI - offset;
    // The slack covers the rounding of the division and can only add an extremum.
    let (first, last) = ((turn(x.lo) - 1e-9).ceil(), (turn(x.hi) + 1e-9).floor());
    let mut range = ends(f, x);
    let mut n = first;
    while n <= last {
        range = range.join(Interval::point(if n.rem_euclid(2.0) == 0.0 { 1.0 } else { -1.0 }));
        n += 1.0;
    }
    range
}

/// The angles of the points of a rectangle. Above or below the first axis they are greatest and least in its corners; the
/// zeros of both signs are on either side of the axis.
fn angle(y: Interval, x: Interval) -> Interval {
    let f = ScalarFn::Atan2;
    let corners = |lo: f64, hi: f64| {
        Interval::of(&[f.eval(&[lo, x.lo]), f.eval(&[lo, x.hi]), f.eval(&[hi, x.lo]), f.eval(&[hi, x.hi])])
    };
    if y.lo.is_sign_negative() == y.hi.is_sign_negative() {
        return corners(y.lo, y.hi);
    }
    corners(y.lo, -0.0).join(corners(0.0, y.hi))
}

/// The distance from zero, which grows with both magnitudes, and is infinite where one is, NaN beside it or not.
fn length(a: Interval, b: Interval) -> Interval {
    let mut range = Interval { nan: a.nan || b.nan, ..Interval::NAN };
    if !a.is_empty() && !b.is_empty() {
        let (a, b) = (absolute(a), absolute(b));
        let f = ScalarFn::Hypot;
        range = range.join(Interval::of(&[f.eval(&[a.lo, b.lo]), f.eval(&[a.hi, b.hi])]));
    }
    if (a.nan && b.has_infinity()) || (b.nan && a.has_infinity()) {
        range = range.join(Interval::point(f64::INFINITY));
    }
    range
}

fn power(a: Interval, b: Interval) -> Interval {
    if a.is_empty() || b.is_empty() || a.nan || b.nan {
        return Interval::ANY;
    }
    let f = |x: f64, y: f64| x.powf(y);
    let corners = |a: Interval| Interval::of(&[f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)]);
    if a.lo.is_sign_positive() && a.lo > 0.0 && !a.has_infinity() && !b.has_infinity() {
        return corners(a);
    }
    match b.single() {
        // Whole positive powers: monotone on either side of zero.
        Some(y) if y > 0.0 && y.fract() == 0.0 && y.is_finite() => {
            if a.has_zero() {
                corners(a).join(Interval::of(&[f(0.0, y), f(-0.0, y)]))
            } else {
                corners(a)
            }
        }
        Some(y) if y > 0.0 && y.is_finite() && a.lo >= 0.0 => corners(a),
        _ => Interval::ANY,
    }
}

/// Every value within some units in the last place of f32 (of f64 for f64). The sign of the exact value stays, and
/// zero and infinity are exact.
pub(super) fn widen(x: Interval, dtype: DType, ulps: u32) -> Interval {
    let work = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    if x.is_empty() {
        return x;
    }
    let moved = |value: f64, direction: f64| {
        if value == 0.0 || value.is_infinite() {
            return value;
        }
        let nearest = num::round_to(work, value, Rounding::NearestEven, false);
        let from = if nearest.is_finite() { nearest } else { value };
        let to = from + direction * f64::from(ulps) * num::ulp(work, from);
        let kept = if (to < 0.0) == (value < 0.0) { to } else { 0.0f64.copysign(value) };
        num::round_to(work, kept, Rounding::NearestEven, false)
    };
    // A power of two has a larger unit than the numbers below it, and so reaches further down than they do.
    let up = |value: f64| 2f64.powi(value.log2().ceil() as i32);
    let mut range = Interval { lo: moved(x.lo, -1.0), hi: moved(x.hi, 1.0), nan: x.nan };
    if x.lo > 0.0 && up(x.lo) <= x.hi {
        range.lo = range.lo.min(moved(up(x.lo), -1.0));
    }
    if x.hi < 0.0 && up(-x.hi) <= -x.lo {
        range.hi = range.hi.max(moved(-up(-x.hi), 1.0));
    }
    range
}
