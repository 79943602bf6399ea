//! The numbers of rows that graphs are recorded for.

use std::fmt;

/// Numbers of rows, ascending. A call of a number between two has the rows of the next one, of which the last are padding.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaptureSizes(Vec<usize>);

/// Why a list of numbers of rows is none to record graphs for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizesError {
    /// There is none.
    Empty,
    /// One is zero: a call without rows has nothing to replay.
    Zero,
}

impl fmt::Display for SizesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SizesError::Empty => "there are no sizes to record graphs for",
            SizesError::Zero => "a graph of no rows cannot be recorded",
        })
    }
}

impl std::error::Error for SizesError {}

impl CaptureSizes {
    /// These numbers, in whatever order and as often as they come.
    ///
    /// # Errors
    /// No number, or zero.
    pub fn new(sizes: impl IntoIterator<Item = usize>) -> Result<CaptureSizes, SizesError> {
        let mut sizes: Vec<usize> = sizes.into_iter().collect();
        sizes.sort_unstable();
        sizes.dedup();
        match sizes.first() {
            None => Err(SizesError::Empty),
            Some(0) => Err(SizesError::Zero),
            Some(_) => Ok(CaptureSizes(sizes)),
        }
    }

    /// The size that serves so many rows: the next one. None for no rows, and for more than the largest.
    pub fn fit(&self, rows: usize) -> Option<usize> {
        let at = self.0.partition_point(|&size| size < rows);
        self.0.get(at).copied().filter(|_| rows > 0)
    }

    /// All of them, ascending.
    pub fn all(&self) -> &[usize] {
        &self.0
    }
}

impl Default for CaptureSizes {
    /// 1, 2, 4, then to 256 in steps of 8, then to 512 in steps of 16.
    fn default() -> Self {
        let sizes = [1, 2, 4].into_iter().chain((8..=256).step_by(8)).chain((272..=512).step_by(16));
        CaptureSizes(sizes.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_to_the_next_size() {
        let sizes = CaptureSizes::default();
        assert_eq!(sizes.all().len(), 3 + 32 + 16);
        let fits = [0, 1, 2, 3, 5, 8, 9, 256, 257, 511, 512, 513].map(|rows| sizes.fit(rows));
        let expected = [0, 1, 2, 4, 8, 8, 16, 256, 272, 512, 512, 0].map(|size| Some(size).filter(|&size| size > 0));
        assert_eq!(fits, expected);
    }

    #[test]
    fn sizes_are_sorted_and_positive() {
        assert_eq!(CaptureSizes::new([8, 2, 8]).map(|sizes| sizes.all().to_vec()), Ok(vec![2, 8]));
        assert_eq!(CaptureSizes::new([]), Err(SizesError::Empty));
        assert_eq!(CaptureSizes::new([4, 0]), Err(SizesError::Zero));
    }
}
