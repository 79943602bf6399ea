//! Products of matrices and attention on ranges.
//!
//! A row of ranges is taken as middles and radii: the exact result lies within `Σ (|a|+ra)(|b|+rb) − |a||b|` of the
//! product of the middles, and any order of accumulation adds its share of `Σ (|a|+ra)(|b|+rb)`.

use fusewright_abi::DType;

use super::convert::{between, to_nearest};
use super::reduce::{slack, sum_bounded};
use super::{Interval, arith, num};
use crate::interp::domain::{Head, Product};
use crate::interp::point::softmax;

/// Rows of ranges as middles and radii.
struct Rows {
    length: usize,
    middle: Vec<f64>,
    /// Empty if all ranges are points.
    radius: Vec<f64>,
    /// For each row, whether all its ranges are finite.
    finite: Vec<bool>,
}

impl Rows {
    fn new(data: &[Interval], count: usize, length: usize) -> Self {
        let finite: Vec<bool> =
            (0..count).map(|i| data[i * length..][..length].iter().all(|x| x.is_finite())).collect();
        let middle: Vec<f64> = data.iter().map(|x| x.lo + (x.hi - x.lo) / 2.0).collect();
        let points = data.iter().all(|x| x.lo == x.hi);
        // Rounding of the middle is covered by taking the farther end.
        let radius = |(x, middle): (&Interval, &f64)| (x.hi - middle).max(middle - x.lo);
        let radius = if points { Vec::new() } else { data.iter().zip(&middle).map(radius).collect() };
        Rows { length, middle, radius, finite }
    }

    fn middle(&self, row: usize) -> &[f64] {
        &self.middle[row * self.length..][..self.length]
    }

    fn radius(&self, row: usize) -> Option<&[f64]> {
        (!self.radius.is_empty()).then(|| &self.radius[row * self.length..][..self.length])
    }
}

/// The product of two finite rows: its middle, its radius from the operands, and the sum of magnitudes.
fn pair(a: &Rows, i: usize, b: &Rows, j: usize) -> (f64, f64, f64) {
    let (x, y) = (a.middle(i), b.middle(j));
    let (centre, magnitude) = dot_and_magnitude(x, y);
    let (rx, ry) = (a.radius(i), b.radius(j));
    let outer: f64 = match (rx, ry) {
        (None, None) => return (centre, 0.0, magnitude),
        (Some(rx), None) => dot_and_magnitude(rx, y).1,
        (None, Some(ry)) => dot_and_magnitude(x, ry).1,
        (Some(rx), Some(ry)) => {
            let both = x.iter().zip(rx).zip(y.iter().zip(ry));
            both.map(|((x, rx), (y, ry))| x.abs() * ry + rx * (y.abs() + ry)).sum()
        }
    };
    (centre, outer * (1.0 + slack(a.length)), magnitude + outer)
}

/// `Σ x·y` and `Σ |x·y|`, with interleaved partial sums.
fn dot_and_magnitude(x: &[f64], y: &[f64]) -> (f64, f64) {
    let (mut sums, mut magnitudes) = ([0.0f64; 4], [0.0f64; 4]);
    let (a, b) = (x.chunks_exact(4), y.chunks_exact(4));
    let tail = a.remainder().iter().zip(b.remainder());
    for (a, b) in a.zip(b) {
        for lane in 0..4 {
            let product = a[lane] * b[lane];
            sums[lane] += product;
            magnitudes[lane] += product.abs();
        }
    }
    for (lane, (a, b)) in tail.enumerate() {
        sums[lane] += a * b;
        magnitudes[lane] += (a * b).abs();
    }
    (sums.iter().sum(), magnitudes.iter().sum())
}

/// Unit roundoff of the accumulator, its dtype, and how many roundings `k` terms take.
fn accumulator(dtype: DType, k: usize) -> (DType, f64) {
    let work = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    // Products of 16-bit and shorter operands are exact in f32.
    let roundings = if dtype.bits() <= 16 { k.saturating_sub(1) } else { k };
    (work, roundings as f64 * num::unit_roundoff(work))
}

pub(super) fn floats(p: Product<'_, Interval>, out: &mut Vec<Interval>) {
    let (a, b) = (Rows::new(p.a, p.m, p.k), Rows::new(p.b, p.n, p.k));
    for i in 0..p.m {
        for j in 0..p.n {
            let sum = if a.finite[i] && b.finite[j] { finite_element(p, &a, i, &b, j) } else { open_element(p, i, j) };
            out.push(to_nearest(p.out, sum));
        }
    }
}

/// The accumulator of one element, whose operands are finite.
fn finite_element(p: Product<'_, Interval>, a: &Rows, i: usize, b: &Rows, j: usize) -> Interval {
    let (work, relative) = accumulator(p.dtype, p.k);
    let (centre, radius, magnitude) = pair(a, i, b, j);
    if magnitude == 0.0 {
        // Nothing but zeros, added to the +0 that most accumulators start from.
        let negative = a.middle(i).iter().zip(b.middle(j)).all(|(x, y)| (x * y).is_sign_negative());
        return if negative && p.k > 0 { Interval::of(&[0.0, -0.0]) } else { Interval::point(0.0) };
    }
    if magnitude * (1.0 + relative + slack(p.k)) > num::max_finite(work) {
        return Interval::ANY;
    }
    // A product that leaves the normal range of the accumulator loses up to its least value.
    let tiny = p.k as f64 * num::ulp(work, 0.0);
    let error = radius + relative * magnitude + tiny + slack(p.k) * magnitude;
    between(centre - error, centre + error, work)
}

/// The accumulator of one element, where an operand may be infinite or NaN.
fn open_element(p: Product<'_, Interval>, i: usize, j: usize) -> Interval {
    let (work, relative) = accumulator(p.dtype, p.k);
    let pairs = p.a[i * p.k..][..p.k].iter().zip(&p.b[j * p.k..][..p.k]);
    let terms: Vec<Interval> = pairs
        .map(|(&x, &y)| match x.is_empty() || y.is_empty() {
            true => Interval::NAN,
            false => arith::mul(x, y).with_nan(x.nan || y.nan),
        })
        .collect();
    sum_bounded(&terms, relative, work, false)
}

/// An average that may be zero may be either zero: it depends on the sign of what the sum starts from.
fn signed_zero(x: Interval) -> Interval {
    if x.contains(0.0) || x.contains(-0.0) { x.join(Interval::of(&[0.0, -0.0])) } else { x }
}

pub(super) fn attend(head: Head<'_, Interval>, out: &mut Vec<Interval>) {
    let Head { q, k, v, t, u, d, e, dtype, attrs, bias } = head;
    let (queries, keys) = (Rows::new(q, t, d), Rows::new(k, u, d));
    let values = Rows::new(v, u, e);
    let scale = f64::from_bits(attrs.scale_bits);
    for i in 0..t {
        let reach = if attrs.causal { u.min(i + 1) } else { u };
        let row = bias.map(|all| &all[i * u..][..reach]);
        let (seen, settled) = row.map_or_else(|| ((0..reach).collect(), true), visible);
        if settled && seen.is_empty() {
            out.extend(std::iter::repeat_n(Interval::point(0.0), e));
            continue;
        }
        let finite = queries.finite[i] && keys.finite[..reach].iter().chain(&values.finite[..reach]).all(|&f| f);
        if let (&[only], true, true) = (seen.as_slice(), settled && dtype.bits() <= 16, finite) {
            // The only weight is 1; what the accumulator is off by is far below the last place of a short dtype.
            out.extend(v[only * e..][..e].iter().map(|&x| signed_zero(x)));
            continue;
        }
        let query = Query { queries: &queries, i, row, scale };
        let weights = (finite && settled).then(|| Weights::new(&query, &keys, &seen, (dtype, attrs.wide))).flatten();
        match weights {
            Some(weights) => (0..e).for_each(|lane| out.push(weights.column(&values, lane, e, dtype))),
            None => out.extend(std::iter::repeat_n(Interval::ANY, e)),
        }
    }
}

/// One query, and what is added to its scores.
struct Query<'a> {
    queries: &'a Rows,
    i: usize,
    row: Option<&'a [Interval]>,
    scale: f64,
}

/// The keys that have a weight under a mask, and whether that is certain. A key far below another one, such as under the
/// least finite number of a dtype, has the weight zero in every order of computing it.
fn visible(row: &[Interval]) -> (Vec<usize>, bool) {
    const FAR: f64 = -1e30;
    let open = row.iter().any(|x| x.lo > FAR / 2.0);
    let hidden = |x: &Interval| x.hi == f64::NEG_INFINITY || (open && x.hi < FAR);
    let settled = row.iter().all(|x| !x.nan && x.hi < f64::INFINITY && (hidden(x) || x.lo > f64::NEG_INFINITY));
    ((0..row.len()).filter(|&j| !hidden(&row[j])).collect(), settled)
}

/// Normalised weights of one query and their uncertainty.
struct Weights {
    /// The keys that the weights are of.
    places: Vec<usize>,
    weight: Vec<f64>,
    /// Relative uncertainty of each weight before normalisation.
    error: Vec<f64>,
    /// Relative error of the weighted sum beside that of the weights.
    relative: f64,
    /// Absolute error of each probability.
    tiny: f64,
}

impl Weights {
    /// `None` where a score may overflow; `wide` keeps probabilities out of `dtype`.
    fn new(query: &Query<'_>, keys: &Rows, places: &[usize], (dtype, wide): (DType, bool)) -> Option<Weights> {
        let Query { queries, i, row, scale } = *query;
        let seen = places.len();
        let (work, relative) = accumulator(dtype, queries.length);
        let u = num::unit_roundoff(work);
        let (mut weight, mut radius) = (Vec::with_capacity(seen), Vec::with_capacity(seen));
        for &j in places {
            let (centre, r, magnitude) = pair(queries, i, keys, j);
            let added = row.map_or(Interval::point(0.0), |row| row[j]);
            let bias = added.lo + (added.hi - added.lo) / 2.0;
            let magnitude = magnitude * scale.abs() + added.lo.abs().max(added.hi.abs());
            if magnitude.is_nan() || magnitude >= num::max_finite(work) / 4.0 {
                return None;
            }
            weight.push(scale * centre + bias);
            // The scale is applied before or after the product; each application rounds, and so does the sum.
            let spread = scale.abs() * r + (added.hi - added.lo);
            radius.push(spread + (relative + 4.0 * u + slack(queries.length)) * magnitude);
        }
        let largest = weight.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // e^x within its class, the rescaling by a running maximum, and rounding of the difference.
        let steps = 2.0 * f64::from(EXP_ULPS) + 8.0 + seen as f64;
        let error = weight.iter().zip(&radius).map(|(s, r)| (r + u * ((s - largest).abs() + steps)).exp_m1()).collect();
        let total = softmax(&mut weight);
        weight.iter_mut().for_each(|w| *w /= total);
        let probability = if dtype.bits() < work.bits() && !wide { dtype } else { work };
        let relative = num::unit_roundoff(probability) * 1.01 + (2.0 * seen as f64 + 4.0) * u + slack(2 * seen);
        let tiny = num::ulp(probability, 0.0).max(f64::from(f32::MIN_POSITIVE));
        Some(Weights { places: places.to_vec(), weight, error, relative, tiny })
    }

    /// One element of the output: `Σ w·v` with every weight off by its share and the rest of the weights adjusted.
    fn column(&self, values: &Rows, lane: usize, e: usize, dtype: DType) -> Interval {
        let at = |j: usize| self.places[j] * e + lane;
        let value = |j: usize| values.middle[at(j)];
        let radius = |j: usize| if values.radius.is_empty() { 0.0 } else { values.radius[at(j)] };
        let places = 0..self.weight.len();
        let centre: f64 = places.clone().map(|j| self.weight[j] * value(j)).sum();
        let (mut off, mut drift, mut magnitude, mut own, mut all) = (0.0, 0.0, 0.0, 0.0, 0.0f64);
        for j in places {
            let (w, d) = (self.weight[j], self.error[j]);
            drift += w * d * (value(j) - centre).abs();
            off += w * d;
            magnitude += w * (1.0 + d) * (value(j).abs() + radius(j));
            own += w * (1.0 + d) * radius(j);
            all += value(j).abs() + radius(j);
        }
        let rest = 1.0 - off;
        if rest.is_nan() || rest <= 0.0 || !magnitude.is_finite() {
            // The weights are anything; the result is still an average of the values.
            let bound = (0..self.weight.len()).map(|j| value(j).abs() + radius(j)).fold(0.0, f64::max);
            let bound = bound * (1.0 + self.relative) + self.tiny * all;
            return to_nearest(dtype, Interval { lo: -bound, hi: bound, nan: false });
        }
        let error = (drift + own + self.relative * magnitude) / rest + self.tiny * all;
        to_nearest(dtype, signed_zero(Interval { lo: centre - error, hi: centre + error, nan: false }))
    }
}

/// Accuracy of `e^x` in the table of scalar functions.
const EXP_ULPS: u32 = match crate::scalar::ScalarFn::Exp.spec().accuracy {
    crate::scalar::Accuracy::Approx(ulps) => ulps,
    crate::scalar::Accuracy::Exact => 0,
};
