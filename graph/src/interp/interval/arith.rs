//! Exact functions of ranges of floats.
//!
//! Before rounding, a bound is computed in `f64` from the operands' bounds. For the dtypes up to f32 that is the value
//! which the point interpreter rounds, so bounds are rounded exactly as points are.

use fusewright_abi::DType;

use super::{Interval, convert, curve};
use crate::num;
use crate::prim::Rounding;
use crate::scalar::{Accuracy, ScalarFn};

/// A function of ranges that yields its operands' dtype.
pub(super) fn apply(f: ScalarFn, dtype: DType, x: &[Interval]) -> Interval {
    let mut values = [0.0; 3];
    let singles = x.iter().zip(&mut values).all(|(x, slot)| x.single().map(|v| *slot = v).is_some());
    if let Accuracy::Approx(ulps) = f.spec().accuracy {
        if singles {
            let value = Interval::point(f.eval(&values[..x.len()]));
            return convert::to_nearest(dtype, curve::widen(value, dtype, ulps));
        }
        // In f64 the reference itself is off by a few last places, so its values at the ends do not bound the others.
        let own = if dtype == DType::F64 { 8 } else { 0 };
        return convert::to_nearest(dtype, curve::widen(curve::apply(f, x), dtype, ulps + own));
    }
    let zeros = is_extreme(f) && x.iter().all(|x| x.single() == Some(0.0));
    if singles && !zeros {
        return Interval::point(match f {
            ScalarFn::Fma => num::fma(dtype, values[0], values[1], values[2]),
            _ => num::round_to(dtype, f.eval(&values[..x.len()]), Rounding::NearestEven, false),
        });
    }
    match (f, x) {
        (ScalarFn::MaxNum | ScalarFn::MinNum, &[a, b]) => numeric(f, a, b),
        (ScalarFn::Ue8m0Ceil, &[a]) => {
            let none =
                if a.nan { Interval::point(f.eval(&[f64::NAN])) } else { Interval { nan: false, ..Interval::NAN } };
            convert::to_nearest(dtype, ends(f, absolute(Interval { nan: false, ..a })).join(none))
        }
        _ if x.iter().any(|x| x.is_empty()) => Interval { nan: x.iter().any(|x| x.nan), ..Interval::NAN },
        _ => {
            let range = exact(f, dtype, x);
            convert::to_nearest(dtype, Interval { nan: range.nan || x.iter().any(|x| x.nan), ..range })
        }
    }
}

/// Ranges that hold numbers; the NaN of an operand is the caller's.
fn exact(f: ScalarFn, dtype: DType, x: &[Interval]) -> Interval {
    match (f, x) {
        (ScalarFn::Add, &[a, b]) => add(a, b),
        (ScalarFn::Sub, &[a, b]) => add(a, negated(b)),
        (ScalarFn::Mul, &[a, b]) => mul(a, b),
        (ScalarFn::Div, &[a, b]) => div(a, b),
        (ScalarFn::Recip, &[a]) => div(Interval::point(1.0), a),
        (ScalarFn::Rem, &[a, b]) => remainder(a, b),
        (ScalarFn::Fma, &[a, b, c]) => fma(dtype, a, b, c),
        (ScalarFn::Max | ScalarFn::Min, &[a, b]) => extreme(f, a, b),
        (ScalarFn::Neg, &[a]) => negated(a),
        (ScalarFn::Abs, &[a]) => absolute(a),
        (ScalarFn::Sqrt, &[a]) => curve::positive(f, a),
        (ScalarFn::Floor | ScalarFn::Ceil | ScalarFn::Trunc | ScalarFn::RoundEven, &[a]) => ends(f, a),
        _ => Interval::ANY,
    }
}

/// Whether a function chooses the larger or the smaller of two.
pub(super) fn is_extreme(f: ScalarFn) -> bool {
    matches!(f, ScalarFn::Max | ScalarFn::Min | ScalarFn::MaxNum | ScalarFn::MinNum)
}

/// The larger or the smaller of two numbers. Of zeros of both signs it is either: processors and GPUs choose
/// differently, and so do loops over single elements and over vectors of one framework.
pub(super) fn extreme(f: ScalarFn, a: Interval, b: Interval) -> Interval {
    let (lo, hi) = (f.eval(&[a.lo, b.lo]), f.eval(&[a.hi, b.hi]));
    let may_be = |zero: f64| a.contains(zero) || b.contains(zero);
    let is = |x: f64, zero: f64| x.to_bits() == zero.to_bits();
    match f {
        ScalarFn::Max | ScalarFn::MaxNum if is(lo, 0.0) && may_be(-0.0) => Interval { lo: -0.0, hi, nan: false },
        ScalarFn::Min | ScalarFn::MinNum if is(hi, -0.0) && may_be(0.0) => Interval { lo, hi: 0.0, nan: false },
        _ => Interval { lo, hi, nan: false },
    }
}

impl Interval {
    pub(super) fn with_nan(self, nan: bool) -> Self {
        Interval { nan: self.nan || nan, ..self }
    }
}

/// A monotone function: the range between the values at the ends.
pub(super) fn ends(f: ScalarFn, x: Interval) -> Interval {
    if x.is_empty() { x } else { Interval::of(&[f.eval(&[x.lo]), f.eval(&[x.hi])]) }
}

pub(super) fn negated(x: Interval) -> Interval {
    Interval { lo: -x.hi, hi: -x.lo, nan: x.nan }
}

pub(super) fn absolute(x: Interval) -> Interval {
    if x.is_empty() {
        return x;
    }
    let ends = Interval::of(&[x.lo.abs(), x.hi.abs()]).with_nan(x.nan);
    if x.lo.is_sign_negative() == x.hi.is_sign_negative() { ends } else { Interval { lo: 0.0, ..ends } }
}

fn add(a: Interval, b: Interval) -> Interval {
    let (lo, hi) = (a.lo + b.lo, a.hi + b.hi);
    let meets = |a: Interval, b: Interval| a.hi == f64::INFINITY && b.lo == f64::NEG_INFINITY;
    let nan = meets(a, b) || meets(b, a);
    match (lo.is_nan(), hi.is_nan()) {
        (true, true) => Interval::NAN,
        // One operand is nothing but the infinity of the other end.
        (true, false) => Interval { lo: hi, hi, nan },
        (false, true) => Interval { lo, hi: lo, nan },
        (false, false) => Interval { lo, hi, nan },
    }
}

pub(super) fn mul(a: Interval, b: Interval) -> Interval {
    let nan = (a.has_zero() && b.has_infinity()) || (a.has_infinity() && b.has_zero());
    if !nan {
        return Interval::of(&[a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi]);
    }
    // Zero meets infinity at a corner; the finite values beside the infinity still give a zero.
    let corner = |x: f64, y: f64| [x * y, beside(a, x) * y, x * beside(b, y)];
    let corners = [corner(a.lo, b.lo), corner(a.lo, b.hi), corner(a.hi, b.lo), corner(a.hi, b.hi)];
    Interval::of(corners.as_flattened()).with_nan(true)
}

/// The finite value next to an end of a range that is infinite, if the range has one.
fn beside(x: Interval, end: f64) -> f64 {
    if x.lo < x.hi { end.clamp(-f64::MAX, f64::MAX) } else { end }
}

fn div(a: Interval, b: Interval) -> Interval {
    let nan = (a.has_zero() && b.has_zero()) || (a.has_infinity() && b.has_infinity());
    if b.lo.is_sign_negative() != b.hi.is_sign_negative() {
        return Interval { nan, ..Interval::ANY };
    }
    if !nan {
        return Interval::of(&[a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi]);
    }
    let corner = |x: f64, y: f64| [x / y, beside(a, x) / y, x / beside(b, y)];
    let corners = [corner(a.lo, b.lo), corner(a.lo, b.hi), corner(a.hi, b.lo), corner(a.hi, b.hi)];
    Interval::of(corners.as_flattened()).with_nan(true)
}

fn fma(dtype: DType, a: Interval, b: Interval, c: Interval) -> Interval {
    let product = mul(a, b);
    let sum = add(product, c);
    if sum.nan || product.nan {
        return Interval::ANY;
    }
    let corner = |x: f64, y, z| if dtype == DType::F64 { x.mul_add(y, z) } else { num::fma_to_odd(x, y, z) };
    let corners =
        |z| Interval::of(&[corner(a.lo, b.lo, z), corner(a.lo, b.hi, z), corner(a.hi, b.lo, z), corner(a.hi, b.hi, z)]);
    corners(c.lo).join(corners(c.hi))
}

fn remainder(a: Interval, b: Interval) -> Interval {
    let nan = a.has_infinity() || b.has_zero();
    if let (Some(divisor), false) = (b.single(), nan)
        && a.lo.is_sign_negative() == a.hi.is_sign_negative()
        && (a.lo / divisor).trunc() == (a.hi / divisor).trunc()
        && (a.magnitude() / divisor).abs() < 1e15
    {
        let (lo, hi) = (a.lo % divisor, a.hi % divisor);
        // A quotient that rounded up to an integer shows as a remainder that jumped.
        if lo.total_cmp(&hi).is_le() && (hi - lo) <= (a.hi - a.lo) {
            return Interval { lo, hi, nan };
        }
    }
    let largest = a.magnitude().min(b.magnitude());
    let lo = if a.lo.is_sign_negative() { -largest } else { 0.0 };
    let hi = if a.hi.is_sign_negative() { -0.0 } else { largest };
    Interval { lo, hi, nan }
}

/// Max or min that ignores a NaN operand.
fn numeric(f: ScalarFn, a: Interval, b: Interval) -> Interval {
    let mut range = Interval { nan: a.nan && b.nan, ..Interval::NAN };
    if !a.is_empty() && !b.is_empty() {
        range = range.join(extreme(f, a, b));
    }
    if a.nan {
        range = range.join(Interval { nan: false, ..b });
    }
    if b.nan {
        range = range.join(Interval { nan: false, ..a });
    }
    range
}

/// A comparison: whether it may be false and may be true, as 0 and 1.
pub(super) fn compare(f: ScalarFn, a: Interval, b: Interval) -> (bool, bool) {
    let nan = a.nan || b.nan;
    let none = a.is_empty() || b.is_empty();
    let less = |a: Interval, b: Interval| (nan || none || a.hi >= b.lo, !none && a.lo < b.hi);
    let not_greater = |a: Interval, b: Interval| (nan || none || a.hi > b.lo, !none && a.lo <= b.hi);
    let equal = || {
        let same = a.lo == a.hi && b.lo == b.hi && a.lo == b.lo;
        (nan || none || !same, !none && a.lo <= b.hi && b.lo <= a.hi)
    };
    match f {
        ScalarFn::Lt => less(a, b),
        ScalarFn::Le => not_greater(a, b),
        ScalarFn::Gt => less(b, a),
        ScalarFn::Ge => not_greater(b, a),
        ScalarFn::Eq => equal(),
        ScalarFn::Ne => {
            let (may_differ, may_equal) = equal();
            (may_equal, may_differ)
        }
        _ => (true, true),
    }
}
