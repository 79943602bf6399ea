//! Sums of products of points: accumulated in `f64`, rounded once.

use crate::interp::domain::{Head, Product};
use crate::num;
use crate::prim::Rounding;

/// The dot product, with eight interleaved partial sums.
pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut parts = [0.0f64; 8];
    let (x, y) = (a.chunks_exact(8), b.chunks_exact(8));
    let tails = x.remainder().iter().zip(y.remainder());
    for (x, y) in x.zip(y) {
        for lane in 0..8 {
            parts[lane] += x[lane] * y[lane];
        }
    }
    parts.iter_mut().zip(tails).for_each(|(part, (x, y))| *part += x * y);
    parts.iter().fold(0.0, |sum, part| sum + part)
}

pub(super) fn floats(p: Product<'_, f64>, out: &mut Vec<f64>) {
    for i in 0..p.m {
        let a = &p.a[i * p.k..][..p.k];
        for j in 0..p.n {
            let value = dot(a, &p.b[j * p.k..][..p.k]);
            out.push(num::round_to(p.out, value, Rounding::NearestEven, false));
        }
    }
}

pub(super) fn attend(head: Head<'_, f64>, out: &mut Vec<f64>) {
    let Head { q, k, v, t, u, d, e, dtype, attrs, bias } = head;
    let scale = f64::from_bits(attrs.scale_bits);
    let mut weights = Vec::with_capacity(u);
    let mut sums = vec![0.0; e];
    for i in 0..t {
        let seen = if attrs.causal { u.min(i + 1) } else { u };
        weights.clear();
        let added = |j: usize| bias.map_or(0.0, |all| all[i * u + j]);
        weights.extend((0..seen).map(|j| scale * dot(&q[i * d..][..d], &k[j * d..][..d]) + added(j)));
        let seen = if bias.is_some() && weights.iter().all(|&w| w == f64::NEG_INFINITY) { 0 } else { seen };
        weights.truncate(seen);
        // What a key that is hidden holds is not read, be it NaN.
        let visible: Vec<bool> = weights.iter().map(|&w| w != f64::NEG_INFINITY).collect();
        let total = softmax(&mut weights);
        sums.fill(0.0);
        for (j, weight) in weights.iter().enumerate().filter(|(j, _)| visible[*j]) {
            sums.iter_mut().zip(&v[j * e..][..e]).for_each(|(sum, x)| *sum += weight * x);
        }
        let value = |&sum: &f64| if seen == 0 { 0.0 } else { sum / total };
        out.extend(sums.iter().map(value).map(|x| num::round_to(dtype, x, Rounding::NearestEven, false)));
    }
}

/// Replaces scores by `e^(score − largest)` and returns their sum.
pub(in crate::interp) fn softmax(scores: &mut [f64]) -> f64 {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    scores.iter_mut().for_each(|score| *score = (*score - largest).exp());
    super::sum(scores)
}
