//! Intervals: every value that a right implementation may give.
//!
//! Points become ranges where the contract leaves freedom: the order of a sum, the accumulator of a matrix product,
//! the last places of an approximate function. Every other op maps ranges exactly, so a range stays a single value
//! until freedom enters, and often becomes one again at the next cast.
//!
//! | source of freedom | bound |
//! |---|---|
//! | sum of n values that are not 0, any order, in a dtype of unit roundoff u | (n − 1)·u·Σ\|x\| (Rump: no higher-order terms) |
//! | product of k pairs, f32 accumulation (f64 for f64) | k·u·Σ\|a·b\|, then one rounding to the result |
//! | product of n values | ((1 + u)ⁿ⁻¹ − 1)·Π\|x\| |
//! | `Approx(k)` function | k units in the last place of f32 (f64 for f64), then one rounding to the dtype; the sign of the exact value is kept, and 0, infinity and NaN are exact |
//! | max or min of zeros of both signs | either zero |
//! | the bits of a NaN that is kept, by `bitcast` or `pack` | those of any NaN |
//! | attention | scores and sums as products, `e^x` as its row in the table, probabilities rounded to the operand dtype |
//!
//! Zeros are ordered −0 < +0. A NaN is a flag beside the range; a range with `lo > hi` holds no number.

mod arith;
mod convert;
mod curve;
mod domain;
mod int;
mod product;
mod reduce;

use std::fmt;

use fusewright_abi::DType;

use super::{Binding, Host, InterpError, NoHost, Symbols, machine, point};
use crate::graph::Graph;
use crate::num;
use crate::tensor::{Array, Data, Tensor, TensorError};

/// A range of floats and whether NaN is possible.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interval {
    /// Least number.
    pub lo: f64,
    /// Greatest number.
    pub hi: f64,
    /// Whether the value may be NaN.
    pub nan: bool,
}

/// A range of integers, as elements of their dtype.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IntRange {
    /// Least value.
    pub lo: i64,
    /// Greatest value.
    pub hi: i64,
}

/// A tensor of ranges.
pub type Intervals = Array<Interval, IntRange>;

impl Interval {
    /// No number, only NaN.
    pub const NAN: Interval = Interval { lo: f64::INFINITY, hi: f64::NEG_INFINITY, nan: true };
    /// Anything at all.
    pub const ANY: Interval = Interval { lo: f64::NEG_INFINITY, hi: f64::INFINITY, nan: true };

    /// A single value.
    pub fn point(x: f64) -> Self {
        if x.is_nan() { Interval::NAN } else { Interval { lo: x, hi: x, nan: false } }
    }

    /// The least range with all the values.
    pub fn of(values: &[f64]) -> Self {
        let none = Interval { nan: false, ..Interval::NAN };
        values.iter().fold(none, |hull, &x| hull.join(Interval::point(x)))
    }

    /// The least range with both.
    pub fn join(self, other: Interval) -> Self {
        let lo = if other.lo.total_cmp(&self.lo).is_lt() { other.lo } else { self.lo };
        let hi = if other.hi.total_cmp(&self.hi).is_gt() { other.hi } else { self.hi };
        Interval { lo, hi, nan: self.nan || other.nan }
    }

    /// Whether the value may be `x`; −0 and +0 differ.
    pub fn contains(self, x: f64) -> bool {
        if x.is_nan() { self.nan } else { self.lo.total_cmp(&x).is_le() && x.total_cmp(&self.hi).is_le() }
    }

    /// Whether no number is possible.
    pub fn is_empty(self) -> bool {
        self.lo > self.hi
    }

    /// The only possible value, if there is one.
    pub fn single(self) -> Option<f64> {
        match self.nan {
            true => self.is_empty().then_some(f64::NAN),
            false => (self.lo.to_bits() == self.hi.to_bits()).then_some(self.lo),
        }
    }

    /// The largest magnitude of a number.
    fn magnitude(self) -> f64 {
        if self.is_empty() { 0.0 } else { self.lo.abs().max(self.hi.abs()) }
    }

    /// Whether neither NaN nor infinity is possible.
    fn is_finite(self) -> bool {
        !self.nan && self.lo.is_finite() && self.hi.is_finite()
    }

    /// Whether nothing but zeros is possible.
    fn is_zero(self) -> bool {
        !self.nan && self.lo == 0.0 && self.hi == 0.0
    }

    /// Whether a zero of either sign is possible.
    fn has_zero(self) -> bool {
        self.lo <= 0.0 && self.hi >= 0.0
    }

    /// Whether an infinity is possible.
    fn has_infinity(self) -> bool {
        !self.is_empty() && (self.lo == f64::NEG_INFINITY || self.hi == f64::INFINITY)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_empty(), self.nan) {
            (true, true) => f.write_str("NaN"),
            (true, false) => f.write_str("no value"),
            (false, nan) => write!(f, "{}{}", span(self.lo, self.hi, number), if nan { " or NaN" } else { "" }),
        }
    }
}

/// The ends of a range in words, one if they are written alike.
fn span<T: Copy>(lo: T, hi: T, word: impl Fn(T) -> String) -> String {
    let (lo, hi) = (word(lo), word(hi));
    if lo == hi { lo } else { format!("{lo} to {hi}") }
}

/// A float as its shortest decimal.
fn number(x: f64) -> String {
    format!("{x:?}")
}

impl IntRange {
    /// A single value.
    pub fn point(v: i64) -> Self {
        IntRange { lo: v, hi: v }
    }

    /// Whether the value of that dtype is possible.
    pub fn contains(self, dtype: DType, v: i64) -> bool {
        let value = |v| num::int_value(dtype, v);
        (value(self.lo)..=value(self.hi)).contains(&value(v))
    }

    /// The only possible value, if there is one.
    pub fn single(self) -> Option<i64> {
        (self.lo == self.hi).then_some(self.lo)
    }
}

/// What an output may be, and what the reference gives.
#[derive(Clone, Debug)]
pub struct Enclosure {
    /// The value of the reference interpreter; it lies inside.
    pub point: Tensor,
    /// The values that are right.
    pub ranges: Intervals,
}

/// How a foreign result relates to an enclosure.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Number of elements.
    pub elements: usize,
    /// Elements inside their range.
    pub inside: usize,
    /// Ranges that are a single value. A check says little where these are few.
    pub single_valued: usize,
    /// Elements whose bits differ from the reference's.
    pub mismatched: usize,
    /// Largest distance outside a range, in units in the last place (codes); 0 if all are inside.
    pub worst: u64,
    /// Elements further outside their range than it is wide and than one place. Two graphs of one function that round at
    /// other places differ by about their ranges, or move a tie; nothing of that kind explains these.
    pub far: usize,
    /// The first element outside its range.
    pub outside: Option<Outside>,
    /// The first element that is as far outside as `far` counts.
    pub first_far: Option<Outside>,
}

/// An element outside its range, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outside {
    /// Its index in row-major order.
    pub index: usize,
    /// The element.
    pub got: String,
    /// Its range.
    pub range: String,
}

impl Report {
    /// Whether every element is right.
    pub fn is_ok(&self) -> bool {
        self.inside == self.elements
    }
}

/// The outputs of a graph as ranges, beside those of [`super::run`].
///
/// # Errors
/// As [`super::run`].
pub fn enclose(graph: &Graph, inputs: &[Tensor], symbols: &Symbols) -> Result<Vec<Enclosure>, InterpError> {
    enclose_with(graph, inputs, symbols, &NoHost)
}

/// As [`enclose`], with a host for opaque ops; these take operands that are single values, and theirs are exact.
///
/// # Errors
/// As [`super::run`], what the host refuses, and operands of an opaque op that are not single values.
pub fn enclose_with(
    graph: &Graph,
    inputs: &[Tensor],
    symbols: &Symbols,
    host: &dyn Host,
) -> Result<Vec<Enclosure>, InterpError> {
    let binding = Binding::of(graph, inputs, symbols)?;
    let graph = graph.expanded()?;
    let points = machine::Machine { domain: &point::Points { host }, binding: &binding }.run(&graph, inputs)?;
    let ranges = machine::Machine { domain: &domain::Ranges { host }, binding: &binding }.run(&graph, inputs)?;
    Ok(points.into_iter().zip(ranges).map(|(point, ranges)| Enclosure { point, ranges }).collect())
}

impl Enclosure {
    /// Judges a foreign result.
    ///
    /// # Errors
    /// A tensor of another dtype or shape.
    pub fn check(&self, foreign: &Tensor) -> Result<Report, TensorError> {
        let mismatched = self.point.compare(foreign)?.mismatched;
        let mut report = Report { elements: foreign.len(), mismatched, ..Report::default() };
        let dtype = foreign.dtype();
        match (self.ranges.data(), foreign.data()) {
            (Data::Float(ranges), Data::Float(values)) => {
                for (index, (range, &x)) in ranges.iter().zip(values).enumerate() {
                    let distance = if range.contains(x) { 0 } else { range.distance(dtype, x) };
                    report.single_valued += usize::from(range.single().is_some());
                    let far = distance > 1 && range.is_far(x);
                    report.count(index, distance, far, || (number(x), range.to_string()));
                }
            }
            (Data::Int(ranges), Data::Int(values)) => {
                let value = |v| num::int_value(dtype, v);
                for (index, (range, &v)) in ranges.iter().zip(values).enumerate() {
                    let below = value(range.lo).saturating_sub(value(v));
                    let distance = below.max(value(v).saturating_sub(value(range.hi))).max(0) as u64;
                    report.single_valued += usize::from(range.single().is_some());
                    let width = value(range.hi).saturating_sub(value(range.lo)).max(0) as u64;
                    let words = || (value(v).to_string(), span(value(range.lo), value(range.hi), |v| v.to_string()));
                    report.count(index, distance, distance > width.max(1), words);
                }
            }
            _ => {}
        }
        Ok(report)
    }
}

impl Interval {
    /// Whether a value outside the range is further from it than the range is wide.
    fn is_far(self, x: f64) -> bool {
        let beyond = (self.lo - x).max(x - self.hi);
        x.is_nan() || self.is_empty() || beyond > self.hi - self.lo
    }

    /// How far outside the range a value lies.
    fn distance(self, dtype: DType, x: f64) -> u64 {
        if x.is_nan() || self.is_empty() {
            return u64::MAX;
        }
        let key = num::key(dtype, x);
        let (lo, hi) = (num::key(dtype, self.lo), num::key(dtype, self.hi));
        if key < lo { key.abs_diff(lo) } else { key.abs_diff(hi).max(1) }
    }
}

impl Report {
    fn count(&mut self, index: usize, distance: u64, far: bool, words: impl Fn() -> (String, String)) {
        if distance == 0 {
            self.inside += 1;
            return;
        }
        self.worst = self.worst.max(distance);
        self.far += usize::from(far);
        let described = || {
            let (got, range) = words();
            Outside { index, got, range }
        };
        self.outside.get_or_insert_with(described);
        if far {
            self.first_far.get_or_insert_with(described);
        }
    }
}

#[cfg(test)]
mod tests;
