//! Attention of programs on the CPU: scores and sums in f32, the unnormalised probabilities rounded to the operands'
//! dtype before they meet the values, one rounding at the end. That is what PyTorch's CPU kernel does for one block of
//! keys, so results stay close to its bits; any order and either choice of rounding lies in the op's interval. An op that
//! keeps probabilities wide has them in f32.

use crate::matmul::{MatMulShape, matmul};

/// Extents of `q[b, h, t, d] · k[b, g, u, d] · v[b, g, u, e]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionShape {
    pub batch: usize,
    pub query_heads: usize,
    pub key_heads: usize,
    pub queries: usize,
    pub keys: usize,
    pub depth: usize,
    pub value_depth: usize,
}

/// How scores become probabilities.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionRule {
    /// Query `i` sees keys `0..=i`.
    pub causal: bool,
    /// Factor of the scores.
    pub scale: f32,
    /// Rounds to the operands' dtype.
    pub round: fn(f32) -> f32,
}

/// What is added to the scaled scores, by broadcasting.
#[derive(Clone, Debug)]
pub(crate) struct Bias {
    values: Vec<f32>,
    /// Per axis of `[b, h, t, u]`; 0 where the mask stretches.
    strides: [usize; 4],
}

impl Bias {
    /// Of a mask whose shape is aligned at the last axis.
    pub fn new(values: Vec<f32>, shape: &[usize]) -> Bias {
        let (mut strides, mut step) = ([0; 4], 1);
        for (stride, &extent) in strides.iter_mut().rev().zip(shape.iter().rev()) {
            *stride = if extent == 1 { 0 } else { step };
            step *= extent;
        }
        Bias { values, strides }
    }

    fn get(&self, index: [usize; 4]) -> f32 {
        self.values[index.iter().zip(self.strides).map(|(i, stride)| i * stride).sum::<usize>()]
    }
}

/// Attention over the f32 operands `q`, `k` and `v`; zero where a query sees no key.
pub(crate) fn attention(
    shape: AttentionShape,
    rule: AttentionRule,
    [q, k, v]: [&[f32]; 3],
    bias: Option<&Bias>,
) -> Vec<f32> {
    let AttentionShape { batch, query_heads, key_heads, queries, keys, depth, value_depth } = shape;
    let mut out = Vec::with_capacity(batch * query_heads * queries * value_depth);
    let product = |m, k, n, transpose_b| MatMulShape { batch: 1, batched_b: false, m, k, n, transpose_b };
    for head in 0..batch * query_heads {
        let (b, h) = (head / query_heads, head % query_heads);
        let shared = b * key_heads + h / (query_heads / key_heads.max(1)).max(1);
        let q = &q[head * queries * depth..][..queries * depth];
        let k = &k[shared * keys * depth..][..keys * depth];
        let v = &v[shared * keys * value_depth..][..keys * value_depth];
        let mut weights = matmul(product(queries, depth, keys, true), q, k);
        let mut sums = Vec::with_capacity(queries);
        let mut hidden = Vec::new();
        for (i, row) in weights.chunks_mut(keys.max(1)).enumerate() {
            let seen = if rule.causal { (i + 1).min(keys) } else { keys };
            row[..seen].iter_mut().for_each(|score| *score *= rule.scale);
            if let Some(bias) = bias {
                row[..seen].iter_mut().enumerate().for_each(|(j, score)| *score += bias.get([b, h, i, j]));
            }
            hidden.extend(row.iter().enumerate().map(|(j, &score)| j >= seen || score == f32::NEG_INFINITY));
            sums.push(softmax_row(row, seen, rule));
        }
        let mut rows = matmul(product(queries, keys, value_depth, false), &weights, v);
        if !v.iter().all(|x| x.is_finite()) {
            spare_hidden(&mut rows, &weights, &hidden, v, value_depth);
        }
        for (row, sum) in rows.chunks_mut(value_depth.max(1)).zip(&sums) {
            row.iter_mut().for_each(|x| *x = if *sum == 0.0 { 0.0 } else { *x / sum });
        }
        out.extend(rows);
    }
    out
}

/// Computes the sums anew without the keys that a query does not see: no weight of theirs makes a NaN or an infinity
/// disappear.
fn spare_hidden(rows: &mut [f32], weights: &[f32], hidden: &[bool], v: &[f32], value_depth: usize) {
    let keys = v.len() / value_depth.max(1);
    for (i, row) in rows.chunks_mut(value_depth.max(1)).enumerate() {
        row.fill(0.0);
        for j in (0..keys).filter(|j| !hidden[i * keys + j]) {
            let weight = weights[i * keys + j];
            row.iter_mut().zip(&v[j * value_depth..]).for_each(|(sum, x)| *sum += weight * x);
        }
    }
}

/// Turns the scaled scores of one query into rounded, unnormalised probabilities of the keys it sees; returns their sum.
fn softmax_row(row: &mut [f32], seen: usize, rule: AttentionRule) -> f32 {
    let (visible, hidden) = row.split_at_mut(seen);
    let largest = visible.iter().copied().fold(f32::NEG_INFINITY, |a, b| if b.is_nan() { b } else { a.max(b) });
    if largest == f32::NEG_INFINITY {
        row.fill(0.0);
        return 0.0;
    }
    let mut sum = 0.0;
    for score in visible {
        let weight = (*score - largest).exp();
        sum += weight;
        *score = (rule.round)(weight);
    }
    hidden.fill(0.0);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: AttentionShape =
        AttentionShape { batch: 1, query_heads: 2, key_heads: 1, queries: 2, keys: 2, depth: 1, value_depth: 1 };

    fn rule(causal: bool) -> AttentionRule {
        AttentionRule { causal, scale: 1.0, round: |x| x }
    }

    #[test]
    fn heads_share_keys_and_the_mask_hides_the_future() {
        let (q, k, v) = ([0.0, 0.0, 0.0, 0.0], [1.0, 2.0], [4.0, 8.0]);
        assert_eq!(attention(SHAPE, rule(false), [&q, &k, &v], None), [6.0; 4]);
        assert_eq!(attention(SHAPE, rule(true), [&q, &k, &v], None), [4.0, 6.0, 4.0, 6.0]);
    }

    #[test]
    fn what_is_hidden_is_not_read() {
        let (q, k, v) = ([0.0; 4], [1.0, f32::NAN], [4.0, f32::NAN]);
        let rows = attention(SHAPE, rule(true), [&q, &k, &v], None);
        assert_eq!((rows[0], rows[2]), (4.0, 4.0));
        assert!(rows[1].is_nan() && rows[3].is_nan());
    }

    #[test]
    fn no_keys_give_zero() {
        let shape = AttentionShape { keys: 0, ..SHAPE };
        assert_eq!(attention(shape, rule(false), [&[0.0; 4], &[], &[]], None), [0.0; 4]);
    }

    #[test]
    fn a_mask_stretches_over_heads_and_may_hide_every_key() {
        let hidden = f32::NEG_INFINITY;
        let (q, k, v) = ([0.0; 4], [1.0, 2.0], [4.0, 8.0]);
        let bias = Bias::new(vec![hidden, 0.0, hidden, hidden], &[2, 2]);
        assert_eq!(attention(SHAPE, rule(false), [&q, &k, &v], Some(&bias)), [8.0, 0.0, 8.0, 0.0]);
        let per_head = Bias::new(vec![0.0, hidden], &[1, 2, 1, 1]);
        assert_eq!(attention(SHAPE, rule(false), [&q, &k, &v], Some(&per_head)), [6.0, 6.0, 0.0, 0.0]);
    }
}
