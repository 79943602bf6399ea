//! Two ways to find the largest lanes of a row. Code takes the one that should be faster: the costs below are estimates, and
//! searches of 8, 32, 64 and 256 lanes were measured with them.

/// One insertion into the list of the best costs so many cycles, most of them for branches that were predicted wrongly.
const INSERTION: i64 = 40;
/// Finding one extreme among those of vector lanes costs so many cycles.
const AMONG_LANES: i64 = 40;

/// Says whether it is faster to search `k` times for the extreme of `lanes` integers, in vectors of `width` lanes, than to
/// compare each of them with the best so far. A random lane `i` is among the `k` best of those before it with a chance of `k/i`.
pub(in crate::backend) fn one_by_one(lanes: i64, k: i64, width: i64) -> bool {
    let insertions = k * (1 + i64::from((lanes / k.max(1)).max(1).ilog2()));
    k * (2 * lanes / width + AMONG_LANES) < 2 * lanes + INSERTION * insertions
}

#[cfg(test)]
mod tests {
    use super::one_by_one;

    #[test]
    fn extremes_are_searched_for_where_few_of_short_rows_are_wanted() {
        let fast = |lanes, k| one_by_one(lanes, k, 4);
        assert!([(8, 2), (32, 2), (64, 8), (256, 8)].into_iter().all(|(lanes, k)| fast(lanes, k)));
        assert!([(64, 64), (4096, 8), (128_000, 50)].into_iter().all(|(lanes, k)| !fast(lanes, k)));
    }
}
