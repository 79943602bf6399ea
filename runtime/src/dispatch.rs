//! Shape dispatch: which variant serves a number of rows.

use std::ops::RangeInclusive;

/// Variants of one kernel for ranges of row counts. Ranges do not overlap; every variant gives the same bits, so the
/// choice is one of speed alone.
#[derive(Clone, Debug)]
pub struct Variants<T> {
    ranges: Vec<(RangeInclusive<usize>, T)>,
}

impl<T> Default for Variants<T> {
    fn default() -> Self {
        Variants { ranges: Vec::new() }
    }
}

impl<T> Variants<T> {
    /// One variant for every number of rows.
    pub fn single(variant: T) -> Self {
        Variants { ranges: vec![(0..=usize::MAX, variant)] }
    }

    /// Adds a variant; returns it if its range is empty or overlaps another's.
    ///
    /// # Errors
    /// The variant, refused.
    pub fn insert(&mut self, rows: RangeInclusive<usize>, variant: T) -> Result<(), T> {
        let at = self.ranges.partition_point(|(range, _)| range.end() < rows.start());
        let overlaps = self.ranges.get(at).is_some_and(|(range, _)| range.start() <= rows.end());
        if rows.is_empty() || overlaps {
            return Err(variant);
        }
        self.ranges.insert(at, (rows, variant));
        Ok(())
    }

    /// The variant for a number of rows.
    pub fn get(&self, rows: usize) -> Option<&T> {
        let at = self.ranges.partition_point(|(range, _)| *range.end() < rows);
        self.ranges.get(at).filter(|(range, _)| range.contains(&rows)).map(|(_, variant)| variant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_and_kept_apart() {
        let mut variants = Variants::default();
        assert_eq!(variants.insert(9..=128, "many"), Ok(()));
        assert_eq!(variants.insert(1..=8, "few"), Ok(()));
        assert_eq!(variants.insert(8..=9, "between"), Err("between"));
        assert_eq!(
            [0, 1, 8, 9, 128, 129].map(|rows| variants.get(rows).copied()),
            [None, Some("few"), Some("few"), Some("many"), Some("many"), None]
        );
        assert_eq!(Variants::single(1).get(0), Some(&1));
    }
}
