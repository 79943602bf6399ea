//! Scaled values, and what a scale is of the extremes that it is made of: a multiple of them, or one over that.

use std::collections::BTreeSet;

use fusewright_graph::{Node, Prim, ScalarFn, Value};

use super::power::is_exponent;
use super::skeleton::Skeleton;

/// Most steps from a scale back to the extremes that it is made of.
const STEPS: usize = 32;
/// The largest number that a scale may have added against zeros.
const EPS: f64 = 1e-3;

/// A value divided by a scale, or times one, and times a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scaled {
    pub source: Value,
    /// The divisor or factor.
    pub by: Value,
    divides: bool,
    pub number: f64,
}

impl Scaled {
    /// What a value is, with the operand of more axes as what is scaled.
    pub fn of(s: &Skeleton<'_>, value: Value) -> Option<Scaled> {
        let axes = |v| s.axes.flat(v).len();
        let (source, by, divides) = match s.map(unguarded(s, value))? {
            (ScalarFn::Div, &[x, by]) if axes(x) >= axes(by) => (x, by, true),
            (ScalarFn::Mul, &[a, b]) if axes(a) >= axes(b) => (a, b, false),
            (ScalarFn::Mul, &[a, b]) => (b, a, false),
            _ => return None,
        };
        Some(Scaled { source, by, divides, number: 1.0 })
    }

    /// What a value is, then what it is with the largest code apart that stands before or behind the scale.
    pub fn all(s: &Skeleton<'_>, value: Value, largest: f64) -> Vec<Scaled> {
        let Some(first) = Scaled::of(s, value) else { return Vec::new() };
        let number = |scaled: &Scaled| s.constant(scaled.by).map(|n| if scaled.divides { n.recip() } else { n });
        let Some(inner) = Scaled::of(s, first.source) else { return vec![first] };
        let apart = match (number(&first), number(&inner)) {
            (Some(number), None) => Some(Scaled { number, ..inner }),
            (None, Some(number)) => Some(Scaled { source: inner.source, number, ..first }),
            _ => None,
        };
        let is_largest = |of: &Scaled| (of.number - largest).abs() <= largest * f64::from(f32::EPSILON);
        [Some(first), apart.filter(is_largest)].into_iter().flatten().collect()
    }

    /// Whether what is scaled is divided by a multiple of extremes, so that the codes of these are not below one.
    /// `made` are the values that depend on the extremes.
    pub fn is_by_multiple(&self, s: &Skeleton<'_>, extremes: &BTreeSet<Value>, made: &BTreeSet<Value>) -> bool {
        let Some(degree) = degree(s, self.by, (extremes, made), STEPS) else { return true };
        let (power, factor) = match self.divides {
            true => (1, degree.factor.map(f64::recip)),
            false => (-1, degree.factor),
        };
        degree.power == power && factor.is_none_or(|factor| (factor * self.number).abs() >= 1.0)
    }
}

/// The value that a guard against a zero scale chooses otherwise.
fn unguarded(s: &Skeleton<'_>, value: Value) -> Value {
    match s.map(value) {
        Some((ScalarFn::Select, &[_, a, b])) if s.constant(a).is_some() => b,
        Some((ScalarFn::Select, &[_, a, b])) if s.constant(b).is_some() => a,
        _ => value,
    }
}

/// A power of extremes, times a number that may be known.
#[derive(Clone, Copy)]
struct Degree {
    power: i32,
    factor: Option<f64>,
}

/// What a value is of extremes; `None` if that is not known, of the bits of a float, say.
fn degree(
    s: &Skeleton<'_>,
    value: Value,
    (extremes, made): (&BTreeSet<Value>, &BTreeSet<Value>),
    steps: usize,
) -> Option<Degree> {
    let steps = steps.checked_sub(1)?;
    let value = s.peel(value);
    if extremes.contains(&value) {
        return Some(Degree { power: 1, factor: Some(1.0) });
    }
    if !made.contains(&value) {
        return Some(Degree { power: 0, factor: s.constant(value) });
    }
    let of = |v| degree(s, v, (extremes, made), steps);
    let inverse = |d: Degree| Degree { power: -d.power, factor: d.factor.map(f64::recip) };
    let times =
        |a: Degree, b: Degree| Degree { power: a.power + b.power, factor: a.factor.zip(b.factor).map(|(a, b)| a * b) };
    // Bounds, guards against zeros and other cases are not of the extremes.
    let one_of = |operands: &[Value]| {
        let all: Vec<Degree> = operands.iter().map(|&v| of(v)).collect::<Option<_>>()?;
        let mut of_extremes = all.into_iter().filter(|d| d.power != 0);
        let first = of_extremes.next()?;
        let rest: Vec<Degree> = of_extremes.collect();
        let factor = first.factor.filter(|_| rest.is_empty());
        rest.iter().all(|d| d.power == first.power).then_some(Degree { factor, ..first })
    };
    match s.map(value) {
        Some((ScalarFn::Mul, &[a, b])) => Some(times(of(a)?, of(b)?)),
        Some((ScalarFn::Div, &[a, b])) => Some(times(of(a)?, inverse(of(b)?))),
        Some((ScalarFn::Recip, &[x])) => of(x).map(inverse),
        Some((ScalarFn::Neg | ScalarFn::Abs, &[x])) => of(x),
        Some((ScalarFn::Ue8m0Ceil, &[x])) => of(x).map(|d| Degree { factor: None, ..d }),
        Some((ScalarFn::Select, &[_, a, b])) => one_of(&[a, b]),
        Some((
            ScalarFn::Max | ScalarFn::Min | ScalarFn::MaxNum | ScalarFn::MinNum | ScalarFn::Add | ScalarFn::Sub,
            operands,
        )) => one_of(operands),
        _ => match s.prim(value)? {
            // The scale in another format, and extremes of extremes.
            (Prim::Cast { to, .. }, node) if to.is_float() => {
                of(node.operands[0]).map(|d| Degree { factor: None, ..d })
            }
            (Prim::Reduce { .. }, node) => of(node.operands[0]),
            _ => None,
        },
    }
}

/// Whether a function makes something else of an extreme than a multiple of it or a power of two near it.
fn bends(f: ScalarFn) -> bool {
    use ScalarFn::{Atan2, Cos, Erf, Erfc, Erfinv, Exp, Hypot, Rem, Rsqrt, Sin, Sqrt, Tanh};
    matches!(f, Sqrt | Rsqrt | Exp | Sin | Cos | Tanh | Erf | Erfc | Erfinv | Atan2 | Hypot | Rem)
}

/// Whether a node makes more than a multiple of an extreme of operands that depend on it: a root or a square, say.
pub(super) fn is_bent(s: &Skeleton<'_>, prim: &Prim, node: &Node, made: &BTreeSet<Value>) -> bool {
    let count = node.operands.iter().filter(|v| made.contains(v)).count();
    match prim {
        Prim::Map(ScalarFn::Mul | ScalarFn::Div) => count > 1,
        // Of the functions of an exponent, powers of two alone undo a logarithm.
        Prim::Map(ScalarFn::Pow) => count > 0 && !s.is_about(node.operands[0], 2.0),
        Prim::Map(ScalarFn::Add | ScalarFn::Sub) => count > 0 && is_shifted(s, node),
        Prim::Map(f) => count > 0 && bends(*f),
        _ => false,
    }
}

/// Whether a sum or a difference adds a number that is no guard against zeros to floats that are no exponents.
fn is_shifted(s: &Skeleton<'_>, node: &Node) -> bool {
    let far = |&v: &Value| s.constant(v).is_some_and(|number| number.abs() > EPS);
    let floats = s.body.ty(node.results[0]).dtype.is_float();
    floats && node.operands.iter().any(far) && !is_exponent(s, node.results[0])
}
