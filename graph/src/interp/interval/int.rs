//! Functions of ranges of integers and booleans.

use fusewright_abi::DType;

use super::IntRange;
use super::convert::{fit, whole};
use crate::interp::point::int_fn;
use crate::num;
use crate::scalar::{ScalarFn, Yields};

/// Either of two.
pub(super) fn join(dtype: DType, a: IntRange, b: IntRange) -> IntRange {
    let value = |v| num::int_value(dtype, v);
    let lo = if value(b.lo) < value(a.lo) { b.lo } else { a.lo };
    IntRange { lo, hi: if value(b.hi) > value(a.hi) { b.hi } else { a.hi } }
}

/// A function of integers or booleans that is defined on them.
pub(super) fn apply(f: ScalarFn, dtype: DType, x: &[IntRange]) -> IntRange {
    let mut values = [0; 3];
    if x.iter().zip(&mut values).all(|(x, slot)| x.single().map(|v| *slot = v).is_some()) {
        return IntRange::point(int_fn(f, dtype, &values[..x.len()]));
    }
    if dtype == DType::Bool {
        return of_bools(f, x);
    }
    let wide = |x: IntRange| (num::int_value(dtype, x.lo), num::int_value(dtype, x.hi));
    match (f, x) {
        (ScalarFn::Neg, &[a]) => {
            let (lo, hi) = wide(a);
            fit(dtype, -hi, -lo)
        }
        (ScalarFn::Not, &[a]) => IntRange { lo: num::wrap_int(dtype, !a.hi), hi: num::wrap_int(dtype, !a.lo) },
        (ScalarFn::Abs, &[a]) => {
            let (lo, hi) = wide(a);
            let least = if lo <= 0 && hi >= 0 { 0 } else { lo.abs().min(hi.abs()) };
            fit(dtype, least, lo.abs().max(hi.abs()))
        }
        (_, &[a, b]) if f.spec().yields == Yields::Bool => compare(f, wide(a), wide(b)),
        (_, &[a, b]) => arithmetic(f, dtype, wide(a), wide(b)),
        _ => whole(dtype),
    }
}

fn arithmetic(f: ScalarFn, dtype: DType, a: (i128, i128), b: (i128, i128)) -> IntRange {
    let corners = |g: &dyn Fn(i128, i128) -> i128| {
        let corners = [g(a.0, b.0), g(a.0, b.1), g(a.1, b.0), g(a.1, b.1)];
        let lo = corners.into_iter().min().unwrap_or(i128::MIN);
        fit(dtype, lo, corners.into_iter().max().unwrap_or(i128::MAX))
    };
    let bits = i128::from(dtype.bits());
    match f {
        ScalarFn::Add => fit(dtype, a.0 + b.0, a.1 + b.1),
        ScalarFn::Sub => fit(dtype, a.0 - b.1, a.1 - b.0),
        ScalarFn::Mul => corners(&|x, y| x.saturating_mul(y)),
        ScalarFn::Max | ScalarFn::MaxNum => fit(dtype, a.0.max(b.0), a.1.max(b.1)),
        ScalarFn::Min | ScalarFn::MinNum => fit(dtype, a.0.min(b.0), a.1.min(b.1)),
        ScalarFn::Div if b.0 > 0 || b.1 < 0 => corners(&|x, y| x / y),
        ScalarFn::Rem if b.0 > 0 => {
            let largest = b.1 - 1;
            let lo = if a.0 < 0 { a.0.max(-largest) } else { 0 };
            fit(dtype, lo, if a.1 > 0 { a.1.min(largest) } else { 0 })
        }
        ScalarFn::Shr if b.0 >= 0 => corners(&|x, y| x >> y.min(64)),
        ScalarFn::Shl if b.0 >= 0 && b.1 < bits => corners(&|x, y| x << y),
        _ => whole(dtype),
    }
}

/// All combinations of two truth values each.
fn of_bools(f: ScalarFn, x: &[IntRange]) -> IntRange {
    let mut results = [false; 2];
    for combination in 0..1i64 << x.len() {
        let mut values = [0; 3];
        let mut bits = x.iter().enumerate().map(|(i, x)| (i, combination >> i & 1, x));
        if bits.all(|(i, bit, x)| {
            values[i] = bit;
            (x.lo..=x.hi).contains(&bit)
        }) {
            results[usize::from(int_fn(f, DType::Bool, &values[..x.len()]) != 0)] = true;
        }
    }
    truth((results[0], results[1]))
}

/// The range of a truth value that may be false and may be true.
pub(super) fn truth((may_be_false, may_be_true): (bool, bool)) -> IntRange {
    IntRange { lo: i64::from(!may_be_false), hi: i64::from(may_be_true) }
}

fn compare(f: ScalarFn, a: (i128, i128), b: (i128, i128)) -> IntRange {
    let equal = (!(a.0 == a.1 && a == b), a.0 <= b.1 && b.0 <= a.1);
    truth(match f {
        ScalarFn::Lt => (a.1 >= b.0, a.0 < b.1),
        ScalarFn::Le => (a.1 > b.0, a.0 <= b.1),
        ScalarFn::Gt => (b.1 >= a.0, b.0 < a.1),
        ScalarFn::Ge => (b.1 > a.0, b.0 <= a.1),
        ScalarFn::Eq => equal,
        ScalarFn::Ne => (equal.1, equal.0),
        _ => (true, true),
    })
}

/// The exact sum or product of ranges, or the extremum, as elements of the dtype.
pub(super) fn reduce(op: crate::ReduceOp, dtype: DType, row: &[IntRange]) -> IntRange {
    use crate::ReduceOp::{Add, Max, Min, Mul};
    let (least, greatest) = num::int_range(dtype);
    let ends = row.iter().map(|x| (num::int_value(dtype, x.lo), num::int_value(dtype, x.hi)));
    let (lo, hi) = match op {
        Add => ends.fold((0i128, 0i128), |s, x| (s.0.saturating_add(x.0), s.1.saturating_add(x.1))),
        Max => ends.fold((least, least), |s, x| (s.0.max(x.0), s.1.max(x.1))),
        Min => ends.fold((greatest, greatest), |s, x| (s.0.min(x.0), s.1.min(x.1))),
        Mul => return whole(dtype),
    };
    fit(dtype, lo, hi)
}
