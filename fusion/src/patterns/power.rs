//! Values that are powers of two by the way they are made, as the scales of the microscaling formats are.

use fusewright_graph::prim::Literal;
use fusewright_graph::{DType, Prim, ScalarFn, Value};

use super::skeleton::Skeleton;

/// Most steps between a power and what it is made of.
const STEPS: usize = 24;
/// Bits of an f32's mantissa.
const MANTISSA: u32 = 23;

/// Whether a value is a power of two in every element, but for zeros and NaN.
pub(super) fn is_power(s: &Skeleton<'_>, value: Value) -> bool {
    power(s, value, STEPS)
}

fn power(s: &Skeleton<'_>, value: Value, steps: usize) -> bool {
    let Some(steps) = steps.checked_sub(1) else { return false };
    if let Some(number) = s.constant(value) {
        return number == 0.0 || number.is_nan() || is_power_of_two(number);
    }
    let again = |v| power(s, v, steps);
    if let Some((f, operands)) = s.map(value) {
        return match (f, operands) {
            (ScalarFn::Ue8m0Ceil, _) => true,
            (ScalarFn::Exp2, &[x]) => integral(s, x, steps),
            (ScalarFn::Pow, &[two, x]) => s.is_about(two, 2.0) && integral(s, x, steps),
            (ScalarFn::Mul | ScalarFn::Div | ScalarFn::Max | ScalarFn::Min, &[a, b]) => again(a) && again(b),
            (ScalarFn::Recip, &[x]) => again(x),
            (ScalarFn::Select, &[_, a, b]) => again(a) && again(b),
            _ => false,
        };
    }
    match s.prim(s.peel(value)) {
        Some((Prim::Cast { .. }, node)) => s.body.ty(node.operands[0]).dtype == DType::F8E8M0,
        Some((Prim::Bitcast { to: DType::F32, .. }, node)) => bits_of_power(s, node.operands[0], steps),
        _ => false,
    }
}

/// Whether a largest magnitude, or a scale made of it, has a bound from below that the range of exponents does not set.
pub(super) fn has_floor(s: &Skeleton<'_>, value: Value) -> bool {
    s.ancestors(value).into_iter().any(|v| {
        let bounds = [ScalarFn::Max, ScalarFn::MaxNum].into_iter().flat_map(|f| s.pairs(v, f));
        let is_floor = |number: f64| number > f64::from(f32::MIN_POSITIVE);
        let mut magnitudes = bounds.filter(|&(_, bound)| s.constant(bound).is_some_and(is_floor)).map(|(x, _)| x);
        magnitudes.any(|x| !is_exponent(s, x) && s.body.ty(x).dtype.is_float())
    })
}

/// Whether a value is the exponent of another, or computed from one.
pub(super) fn is_exponent(s: &Skeleton<'_>, value: Value) -> bool {
    !is_power(s, value)
        && s.ancestors(value).into_iter().any(|v| matches!(s.map(v), Some((ScalarFn::Log2 | ScalarFn::Log, _))))
}

fn is_power_of_two(number: f64) -> bool {
    number > 0.0 && number.is_finite() && number.log2().fract() == 0.0
}

/// Whether a value of integers is the bits of a power of two in f32: an exponent alone.
fn bits_of_power(s: &Skeleton<'_>, value: Value, steps: usize) -> bool {
    let Some(steps) = steps.checked_sub(1) else { return false };
    let mantissa = (1i64 << MANTISSA) - 1;
    let alone = |bits: i64| bits & mantissa == 0 || (bits <= mantissa && bits.count_ones() == 1);
    if let Some((Prim::Literal(Literal::Int(_, bits)), _)) = s.prim(s.peel(value)) {
        return alone(*bits);
    }
    let is = |v, wanted: &dyn Fn(i64) -> bool| match s.prim(s.peel(v)) {
        Some((Prim::Literal(Literal::Int(_, n)), _)) => wanted(*n),
        _ => false,
    };
    match s.map(value) {
        Some((ScalarFn::Shl, &[_, by])) => is(by, &|n| n == i64::from(MANTISSA)),
        Some((ScalarFn::And, &[a, b])) => [a, b].into_iter().any(|v| is(v, &|n| n & mantissa == 0)),
        Some((ScalarFn::Max | ScalarFn::Min, &[a, b])) | Some((ScalarFn::Select, &[_, a, b])) => {
            bits_of_power(s, a, steps) && bits_of_power(s, b, steps)
        }
        _ => false,
    }
}

/// Whether a value is a whole number in every element.
fn integral(s: &Skeleton<'_>, value: Value, steps: usize) -> bool {
    let Some(steps) = steps.checked_sub(1) else { return false };
    if let Some(number) = s.constant(value) {
        return number.fract() == 0.0;
    }
    if let Some((Prim::Cast { .. }, node)) = s.prim(s.peel(value)) {
        return s.body.ty(node.operands[0]).dtype.is_int();
    }
    match s.map(value) {
        Some((ScalarFn::Floor | ScalarFn::Ceil | ScalarFn::Trunc | ScalarFn::RoundEven, _)) => true,
        Some((ScalarFn::Add | ScalarFn::Sub | ScalarFn::Max | ScalarFn::Min, &[a, b])) => {
            integral(s, a, steps) && integral(s, b, steps)
        }
        Some((ScalarFn::Neg, &[x])) => integral(s, x, steps),
        _ => false,
    }
}
