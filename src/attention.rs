//! Attention of programs on the CPU: scores and sums in f32, the unnormalised probabilities rounded to the operands'
//! dtype before they meet the values, one rounding at the end. That is what PyTorch's CPU kernel does for one block of
//! keys, so results stay close to its bits; any order and either choice of rounding lies in the op's interval.

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

/// Attention over f32 operands; zero where a query sees no key.
pub(crate) fn attention(shape: AttentionShape, rule: AttentionRule, q: &[f32], k: &[f32], v: &[f32]) -> Vec<f32> {
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
        for (i, row) in weights.chunks_mut(keys.max(1)).enumerate() {
            let seen = if rule.causal { (i + 1).min(keys) } else { keys };
            sums.push(softmax_row(row, seen, rule));
        }
        let mut rows = matmul(product(queries, keys, value_depth, false), &weights, v);
        for (row, sum) in rows.chunks_mut(value_depth.max(1)).zip(&sums) {
            row.iter_mut().for_each(|x| *x = if *sum == 0.0 { 0.0 } else { *x / sum });
        }
        out.extend(rows);
    }
    out
}

/// Turns the scores of one query into rounded, unnormalised probabilities of the keys it sees; returns their sum.
fn softmax_row(row: &mut [f32], seen: usize, rule: AttentionRule) -> f32 {
    let (visible, hidden) = row.split_at_mut(seen);
    visible.iter_mut().for_each(|score| *score *= rule.scale);
    let largest = visible.iter().copied().fold(f32::NEG_INFINITY, |a, b| if b.is_nan() { b } else { a.max(b) });
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
        assert_eq!(attention(SHAPE, rule(false), &q, &k, &v), [6.0; 4]);
        assert_eq!(attention(SHAPE, rule(true), &q, &k, &v), [4.0, 6.0, 4.0, 6.0]);
    }

    #[test]
    fn no_keys_give_zero() {
        let shape = AttentionShape { keys: 0, ..SHAPE };
        assert_eq!(attention(shape, rule(false), &[0.0; 4], &[], &[]), [0.0; 4]);
    }
}
