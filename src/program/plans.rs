//! The plans that a program keeps: of the shapes that were called last, as every new shape makes one.

use std::collections::BTreeMap;

/// Plans kept. A server that pads to powers of two has a dozen shapes; one that does not has thousands, and plans hold
/// workspaces.
const KEPT: usize = 64;

/// Values by key, at most [`KEPT`]: the one that was not used for the longest time makes room.
#[derive(Debug)]
pub(super) struct Plans<K, V> {
    /// Counts uses.
    clock: u64,
    /// With the time of the last use.
    known: BTreeMap<K, (u64, V)>,
}

impl<K, V> Default for Plans<K, V> {
    fn default() -> Self {
        Plans { clock: 0, known: BTreeMap::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Plans<K, V> {
    pub fn get(&mut self, key: &K) -> Option<V> {
        self.clock += 1;
        let (used, value) = self.known.get_mut(key)?;
        *used = self.clock;
        Some(value.clone())
    }

    pub fn insert(&mut self, key: K, value: V) {
        self.clock += 1;
        let oldest = || self.known.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
        if self.known.len() >= KEPT
            && let Some(oldest) = oldest()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(key, (self.clock, value));
    }
}

#[cfg(test)]
impl<K, V> Plans<K, V> {
    pub fn len(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_is_bounded() {
        let mut plans = Plans::default();
        plans.insert(0, "zero");
        for key in 1..1000 {
            plans.insert(key, "other");
            assert_eq!(plans.get(&0), Some("zero"), "it is used all the time");
            assert_eq!(plans.len(), KEPT.min(key + 1));
        }
        assert_eq!((plans.get(&999), plans.get(&500)), (Some("other"), None));
    }
}
