//! Whether a tensor in another shape shares the buffer of its operand, by sizes and strides, as PyTorch decides it.
//!
//! Every answer is `None` where it depends on the values of symbols, within their ranges.

use super::call::Names;
use super::strided::Strided;
use crate::axes::contiguous_strides;
use crate::dim::Dim;

/// A tensor, and what is known of its symbols.
pub(super) struct Sharing<'a> {
    pub(super) tensor: &'a Strided,
    pub(super) names: &'a dyn Names,
}

impl Sharing<'_> {
    /// Whether elements follow each other, so that `contiguous()` is the tensor itself.
    pub(super) fn is_contiguous(&self) -> Option<bool> {
        let expected = contiguous_strides(&self.tensor.shape);
        let axes = self.tensor.shape.iter().zip(self.tensor.strides.iter().zip(&expected));
        let found: Vec<Option<bool>> =
            axes.map(|(size, (stride, expected))| self.lies(size, stride, expected)).collect();
        all(&found)
    }

    /// Whether a reshape is a view: each run of axes that lie in the buffer as one axis is divided among axes of the
    /// result (PyTorch, `at::detail::computeStride`).
    pub(super) fn is_viewed(&self, to: &[Dim]) -> Option<bool> {
        let one = Dim::constant(1);
        let (mut left, mut ends_surely) = (to.iter().rev().peekable(), true);
        let (mut run, mut base) = (one.clone(), self.tensor.strides.last().unwrap_or(&one));
        for at in (0..self.tensor.shape.len()).rev() {
            run = &run * &self.tensor.shape[at];
            let before = at.checked_sub(1).map(|before| (&self.tensor.shape[before], &self.tensor.strides[before]));
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
        match (a == b, self.less(a, b), self.less(b, a)) {
            (true, ..) => Some(true),
            (_, Some(true), _) | (.., Some(true)) => Some(false),
            _ => None,
        }
    }

    fn less(&self, a: &Dim, b: &Dim) -> Option<bool> {
        let at_least = |a: &Dim, b: &Dim| self.names.never_negative(&(a - b));
        match (at_least(a, b), at_least(b, &(a + &Dim::constant(1)))) {
            (true, _) => Some(false),
            (_, true) => Some(true),
            _ => None,
        }
    }
}

/// Whether all of some things hold: one that does not decides, whatever is known of the others.
fn all(found: &[Option<bool>]) -> Option<bool> {
    if found.contains(&Some(false)) { Some(false) } else { (!found.contains(&None)).then_some(true) }
}
