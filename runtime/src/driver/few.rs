//! Some values on the stack, where memory from the heap would cost more than what is done with them.

use std::mem::MaybeUninit;
use std::ops::Deref;

/// At most so many values. Places without one are not written, which is most of what an array would cost.
pub(super) struct Few<T, const MOST: usize> {
    places: [MaybeUninit<T>; MOST],
    /// How many have a value, the first ones.
    count: usize,
}

impl<T: Copy, const MOST: usize> Few<T, MOST> {
    /// None.
    #[inline]
    pub fn new() -> Few<T, MOST> {
        Few { places: [const { MaybeUninit::uninit() }; MOST], count: 0 }
    }

    /// Adds a value, if there is a place.
    #[inline]
    pub fn push(&mut self, value: T) {
        if let Some(place) = self.places.get_mut(self.count) {
            place.write(value);
            self.count += 1;
        }
    }

    /// Adds values, as far as there are places.
    #[inline]
    pub fn extend(&mut self, values: impl Iterator<Item = T>) {
        let mut values = values;
        while let Some(place) = self.places.get_mut(self.count)
            && let Some(value) = values.next()
        {
            place.write(value);
            self.count += 1;
        }
    }
}

impl<T, const MOST: usize> Deref for Few<T, MOST> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: so many places, which are there, were written.
        unsafe { std::slice::from_raw_parts(self.places.as_ptr().cast::<T>(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_there_in_their_order_as_far_as_there_are_places() {
        let mut few = Few::<u64, 5>::new();
        assert!(few.is_empty());
        few.extend([3, 1].into_iter());
        assert_eq!(*few, [3, 1]);
        few.extend(std::iter::empty());
        few.extend([4, 1, 5, 9].into_iter());
        assert_eq!(*few, [3, 1, 4, 1, 5]);
    }
}
