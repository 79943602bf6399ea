//! Counts as launches evaluate them: most are a number times integer arguments, which takes neither recursion nor memory
//! from the heap.

use fusewright_abi::{Count, CountOp};

/// Most integer arguments of a product.
const MOST: usize = 4;

/// A count, made ready when a kernel is loaded. For all integer arguments it is what the count is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Size {
    /// A number times integer arguments.
    Product(Product),
    /// Anything else.
    Other(Count),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Product {
    factor: i64,
    /// Places of the integer arguments, then `NONE`.
    dims: [u32; MOST],
}

/// The place of no integer argument.
const NONE: u32 = u32::MAX;

impl Size {
    pub fn of(count: &Count) -> Size {
        product(count).map_or_else(|| Size::Other(count.clone()), Size::Product)
    }

    /// As [`Count::count`].
    #[inline]
    pub fn count(&self, dims: &[i64]) -> usize {
        self.counted(dims).unwrap_or(0)
    }

    /// The number of things: zero where it is negative, `None` where it is beyond 64 bits or has no value.
    #[inline]
    pub fn counted(&self, dims: &[i64]) -> Option<usize> {
        let value = match self {
            // The order of the factors does not matter: without a zero among them a product goes beyond 64 bits in every
            // order or in none.
            Size::Product(product) => product.value(dims)?,
            Size::Other(count) => count.eval(dims)?,
        };
        Some(usize::try_from(value).unwrap_or(0))
    }
}

impl Product {
    #[inline]
    fn value(&self, dims: &[i64]) -> Option<i64> {
        let mut places = self.dims.into_iter().take_while(|&place| place != NONE);
        places.try_fold(self.factor, |value, place| value.checked_mul(*dims.get(place as usize)?))
    }

    fn times(mut self, other: Product) -> Option<Product> {
        self.factor = self.factor.checked_mul(other.factor)?;
        for place in other.dims.into_iter().take_while(|&place| place != NONE) {
            *self.dims.iter_mut().find(|free| **free == NONE)? = place;
        }
        Some(self)
    }
}

/// A count as a product, if it is one and short enough.
fn product(count: &Count) -> Option<Product> {
    match count {
        Count::Constant(value) => Some(Product { factor: *value, dims: [NONE; MOST] }),
        Count::Dim(index) => Some(Product { factor: 1, dims: [u32::try_from(*index).ok()?, NONE, NONE, NONE] }),
        Count::Binary(CountOp::Mul, a, b) => product(a)?.times(product(b)?),
        Count::Binary(..) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Count {
        Count::parse(text, &["a", "b", "c"]).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn sizes_are_the_counts_that_they_were_made_of() {
        let products = ["7", "a", "mul(a, 4)", "mul(mul(a, 4), mul(b, -3))", "mul(mul(c, b), mul(a, a))"];
        let others = ["add(a, 1)", "floordiv(a, 4)", "mul(mul(mul(a, b), mul(c, a)), b)", "mul(a, max(b, 2))"];
        let ends = [i64::MIN, i64::MIN + 1, -1, 0, 1, 2, 3, 1 << 31, 1 << 62, i64::MAX];
        for (text, is_product) in products.map(|text| (text, true)).into_iter().chain(others.map(|text| (text, false)))
        {
            let count = read(text);
            let size = Size::of(&count);
            assert_eq!(matches!(size, Size::Product(_)), is_product, "{text}");
            for a in ends {
                for b in ends {
                    for c in ends {
                        let dims = [a, b, c];
                        assert_eq!(size.count(&dims), count.count(&dims), "{text} of {dims:?}");
                    }
                }
            }
            assert_eq!(size.count(&[]), count.count(&[]), "{text} without arguments");
        }
    }

    #[test]
    fn what_is_too_large_counts_nothing() {
        let size = Size::of(&read("mul(4611686018427387904, mul(a, 4))"));
        assert!(matches!(size, Size::Other(_)));
        assert_eq!([size.count(&[0]), size.count(&[1])], [0, 0]);
    }
}
