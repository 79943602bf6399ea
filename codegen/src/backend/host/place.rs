//! Where loops are and what they know there, for emitters whose registers are `B`.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use fusewright_graph::Dim;

use super::CHUNK;
use super::plan::{self, Pass};
use crate::kernel::{Segment, Val};

/// The lane (or group) `scale · base + offset`: an affine function of a loop counter.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::backend) struct Pos<B> {
    pub base: B,
    pub scale: i64,
    pub offset: Dim,
}

impl<B: Copy> Pos<B> {
    pub fn at(base: B) -> Self {
        Pos { base, scale: 1, offset: Dim::constant(0) }
    }

    pub fn plus(&self, lanes: i64) -> Self {
        self.plus_dim(&Dim::constant(lanes))
    }

    pub fn plus_dim(&self, lanes: &Dim) -> Self {
        Pos { base: self.base, scale: self.scale, offset: &self.offset + lanes }
    }

    pub fn times(&self, factor: i64) -> Self {
        let scale = self.scale.saturating_mul(factor);
        Pos { base: self.base, scale, offset: &self.offset * &Dim::constant(factor) }
    }
}

/// Lanes that a loop runs over.
#[derive(Clone, Debug)]
pub(in crate::backend) struct Span<B> {
    pub start: B,
    pub end: B,
    /// How many, if it is known.
    pub length: Option<i64>,
    /// How many from 0 on, if the loop starts there.
    pub lanes: Option<Dim>,
    /// Chunks start at multiples of so many lanes, 1 if no more is known.
    pub multiple: i64,
}

/// Every chunk of a group starts at a multiple of so many lanes of the loop, which has one lane for `rate` lanes of the group.
pub(in crate::backend) fn multiple(size: &Dim, rate: i64) -> i64 {
    let lanes = size.as_const().filter(|size| rate > 0 && size % rate == 0).map_or(1, |size| size / rate);
    // A power of two that divides both.
    if lanes > 0 { CHUNK.min(1 << lanes.trailing_zeros()) } else { 1 }
}

/// The group that a loop is in: lanes `rate · base … rate · (base + span)` of a pass belong to group `index`.
#[derive(Clone, Debug)]
pub(in crate::backend) struct InGroup<B> {
    pub lanes: Dim,
    pub size: Dim,
    pub index: B,
    pub rate: i64,
    pub span: i64,
}

impl<B: Copy + PartialEq> InGroup<B> {
    /// Whether this is the group of the lanes at a position of the loop that counts `counter`, for groups of that number
    /// and size.
    pub fn holds(&self, counter: B, pos: &Pos<B>, lanes: &Dim, size: &Dim) -> bool {
        (&self.lanes, &self.size, self.rate, counter) == (lanes, size, pos.scale, pos.base)
            && pos.offset.as_const().is_some_and(|offset| (0..self.rate * self.span).contains(&offset))
    }

    /// Whether this is group `index`, and that many lanes from a position on are its own in a pass of the loop that
    /// counts `counter`.
    pub fn covers(&self, index: B, counter: B, pos: &Pos<B>, lanes: i64) -> bool {
        let inside = |offset: i64| offset >= 0 && offset + lanes <= self.rate * self.span;
        (self.index, counter, self.rate) == (index, pos.base, pos.scale) && pos.offset.as_const().is_some_and(inside)
    }
}

/// Stack memory of the lanes of a value that is kept between loops.
#[derive(Clone, Copy, Debug)]
pub(in crate::backend) struct Slot<B> {
    /// Where lane 0 of the row is, or would be.
    pub address: B,
    /// The group whose lanes there are, unless all of the row's.
    pub group: Option<B>,
    /// Whether the loop that stores the lanes is over.
    pub filled: bool,
}

/// The values that are kept.
pub(in crate::backend) type Slots<B> = BTreeMap<Val, Slot<B>>;

/// From here on, the values of these jobs that are kept are loaded.
pub(in crate::backend) fn fill<B>(slots: &mut Slots<B>, segment: &Segment, jobs: impl Iterator<Item = usize>) {
    for inst in jobs.filter(|&inst| !plan::is_sink(segment, inst)) {
        if let Some(slot) = slots.get_mut(&plan::sink_value(segment, inst)) {
            slot.filled = true;
        }
    }
}

/// The same for the first of `passes`, a loop over lanes; of what the loops behind it go on to store, they still compute it.
pub(in crate::backend) fn fill_behind<B>(slots: &mut Slots<B>, segment: &Segment, passes: &[Pass]) {
    let stored = |pass: &Pass| match pass {
        Pass::Flat { jobs, .. } => jobs.iter().map(|job| job.inst).collect(),
        Pass::Grouped(_) | Pass::Search(_) => Vec::new(),
    };
    let Some((ended, behind)) = passes.split_first() else { return };
    let later: Vec<usize> = behind.iter().flat_map(stored).collect();
    fill(slots, segment, stored(ended).into_iter().filter(|inst| !later.contains(inst)));
}

/// What is computed in the scopes around the current place of the code.
#[derive(Debug)]
pub(in crate::backend) struct Memo<K, V> {
    values: HashMap<K, V>,
    order: Vec<K>,
}

impl<K: Eq + Hash + Clone, V: Copy> Memo<K, V> {
    pub fn new() -> Self {
        Memo { values: HashMap::new(), order: Vec::new() }
    }

    /// What is remembered from here on is forgotten by [`Self::leave`].
    pub fn enter(&self) -> usize {
        self.order.len()
    }

    pub fn leave(&mut self, mark: usize) {
        for key in self.order.drain(mark..) {
            self.values.remove(&key);
        }
    }

    pub fn known(&self, key: &K) -> Option<V> {
        self.values.get(key).copied()
    }

    pub fn remember(&mut self, key: K, value: V) -> V {
        self.values.insert(key.clone(), value);
        self.order.push(key);
        value
    }
}
