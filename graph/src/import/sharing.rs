//! Whether a tensor in another shape shares the buffer of its operand, by sizes and strides, as PyTorch decides it.
//!
//! Every answer is `None` where it depends on the values of symbols, within their ranges.

use crate::axes::contiguous_strides;
use crate::dim::Dim;
use crate::dim_range::range;
use crate::graph::Symbol;

/// A tensor as it lies in its buffer.
pub(super) struct Strided<'a> {
    sizes: &'a [Dim],
    strides: &'a [Dim],
    symbols: &'a [Symbol],
}

impl<'a> Strided<'a> {
    /// `None` unless there is a stride for every size.
    pub(super) fn new(sizes: &'a [Dim], strides: &'a [Dim], symbols: &'a [Symbol]) -> Option<Self> {
        (sizes.len() == strides.len()).then_some(Strided { sizes, strides, symbols })
    }

    /// Whether elements follow each other, so that `contiguous()` is the tensor itself.
    pub(super) fn is_contiguous(&self) -> Option<bool> {
        let expected = contiguous_strides(self.sizes);
        let axes = self.sizes.iter().zip(self.strides.iter().zip(&expected));
        let found: Vec<Option<bool>> =
            axes.map(|(size, (stride, expected))| self.lies(size, stride, expected)).collect();
        all(&found)
    }

    /// Whether a reshape is a view: each run of axes that lie in the buffer as one axis is divided among axes of the
    /// result (PyTorch, `at::detail::computeStride`).
    pub(super) fn is_viewed(&self, to: &[Dim]) -> Option<bool> {
        let one = Dim::constant(1);
        let (mut left, mut ends_surely) = (to.iter().rev().peekable(), true);
        let (mut run, mut base) = (one.clone(), self.strides.last().unwrap_or(&one));
        for at in (0..self.sizes.len()).rev() {
            run = &run * &self.sizes[at];
            let before = at.checked_sub(1).map(|before| (&self.sizes[before], &self.strides[before]));
            if let Some((size, stride)) = before {
                let next = &run * base;
                match self.lies(size, stride, &next) {
                    Some(true) => continue,
                    // What is a view where the run ends here is one, too, where a single place goes on with it.
                    None if self.equal(stride, &next).is_none() => return None,
                    lies => ends_surely &= lies.is_some(),
                }
            }
            let mut taken = one.clone();
            while let Some(&size) = left.peek() {
                let with = &taken * size;
                // What may be 1 is left to the next run, which takes it whatever it is.
                let fits = self.equal(&with, &run) == Some(true) || self.equal(size, &one) == Some(true);
                if !fits && (self.equal(&taken, &run) == Some(true) || !self.less(&taken, &run)?) {
                    break;
                }
                taken = with;
                left.next();
            }
            if !self.equal(&taken, &run)? {
                return ends_surely.then_some(false);
            }
            if let Some((_, stride)) = before {
                (run, base) = (one.clone(), stride);
            }
        }
        all(&left.map(|size| self.equal(size, &one)).collect::<Vec<_>>()).filter(|viewed| *viewed || ends_surely)
    }

    /// Whether an axis has the stride that is expected, or a single place.
    fn lies(&self, size: &Dim, stride: &Dim, expected: &Dim) -> Option<bool> {
        match (self.equal(stride, expected), self.equal(size, &Dim::constant(1))) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        }
    }

    fn equal(&self, a: &Dim, b: &Dim) -> Option<bool> {
        match self.difference(a, b) {
            (0, 0) => Some(true),
            (least, greatest) if least > 0 || greatest < 0 => Some(false),
            _ => None,
        }
    }

    fn less(&self, a: &Dim, b: &Dim) -> Option<bool> {
        match self.difference(a, b) {
            (_, greatest) if greatest < 0 => Some(true),
            (least, _) if least >= 0 => Some(false),
            _ => None,
        }
    }

    fn difference(&self, a: &Dim, b: &Dim) -> (i128, i128) {
        range(&(a - b), self.symbols).unwrap_or((i128::MIN, i128::MAX))
    }
}

/// Whether all of some things hold: one that does not decides, whatever is known of the others.
fn all(found: &[Option<bool>]) -> Option<bool> {
    if found.contains(&Some(false)) { Some(false) } else { (!found.contains(&None)).then_some(true) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(texts: &[&str]) -> Vec<Dim> {
        texts.iter().map(|text| text.parse().expect(text)).collect()
    }

    fn ask<T>(sizes: &[&str], strides: &[&str], min: i64, ask: impl Fn(&Strided<'_>) -> T) -> T {
        let symbols = ["s", "t"].map(|name| Symbol { name: name.to_owned(), min, max: Some(30) });
        let (sizes, strides) = (dims(sizes), dims(strides));
        ask(&Strided::new(&sizes, &strides, &symbols).expect("a stride for each size"))
    }

    #[test]
    fn a_tensor_is_contiguous_or_not_for_every_size_in_the_ranges() {
        let is = |sizes: &[&str], strides: &[&str], min| ask(sizes, strides, min, |tensor| tensor.is_contiguous());
        assert_eq!(is(&["s", "8"], &["8", "1"], 2), Some(true));
        assert_eq!(is(&["s", "8"], &["16", "1"], 2), Some(false));
        assert_eq!(is(&["s", "8"], &["16", "1"], 1), None, "one row is contiguous");
        assert_eq!(is(&["8", "s"], &["1", "8"], 2), Some(false));
        assert_eq!(is(&["1", "s"], &["99", "1"], 2), Some(true));
        assert_eq!(is(&["s", "t"], &["t", "1"], 2), Some(true));
        assert_eq!(is(&["s", "t"], &["s", "1"], 2), None, "where both are equal");
        assert_eq!(is(&["t", "s", "8"], &["8*s", "16", "1"], 2), Some(false));
        assert_eq!(is(&[], &[], 2), Some(true));
    }

    #[test]
    fn a_reshape_is_a_view_where_runs_of_axes_are_divided() {
        let is = |sizes: &[&str], strides: &[&str], to: &[&str]| {
            let to = dims(to);
            ask(sizes, strides, 2, |tensor| tensor.is_viewed(&to))
        };
        // Columns that are cut out of wider rows.
        let (sizes, strides) = (&["s", "96"], &["128", "1"]);
        assert_eq!(is(sizes, strides, &["s", "2", "48"]), Some(true));
        assert_eq!(is(sizes, strides, &["s", "1", "96"]), Some(true));
        assert_eq!(is(sizes, strides, &["1", "s", "96", "1"]), Some(true));
        assert_eq!(is(sizes, strides, &["96*s"]), Some(false));
        assert_eq!(is(sizes, strides, &["2*s", "48"]), Some(false));
        // Axes that are exchanged.
        assert_eq!(is(&["8", "s"], &["1", "8"], &["8*s"]), Some(false));
        assert_eq!(is(&["8", "s"], &["1", "8"], &["2", "4", "s"]), Some(true));
        assert_eq!(is(&["s", "4", "16"], &["64", "16", "1"], &["s", "64"]), Some(true));
        assert_eq!(is(&["s", "4", "16"], &["64", "16", "1"], &["64*s"]), Some(true));
        assert_eq!(is(&["4", "s", "16"], &["16", "64", "1"], &["s", "64"]), Some(false));
        assert_eq!(is(&["s", "t"], &["64", "1"], &["s*t"]), None, "rows of 64 are whole");
        assert_eq!(is(&["s", "8"], &["0", "1"], &["8*s"]), Some(false), "repeated rows");
        assert_eq!(is(&[], &[], &["1", "1"]), Some(true));
        // Of one row at least.
        let of_one = |to: &[&str]| ask(sizes, strides, 1, |tensor| tensor.is_viewed(&dims(to)));
        assert_eq!(of_one(&["s", "2", "48"]), Some(true));
        assert_eq!(of_one(&["96*s"]), None);
    }
}
