//! Tiles: how many rows a core computes at once, and how often a value is in a tile.

use fusewright_graph::Dim;

use crate::kernel::{Level, Shape};

/// Copies of a scalar that lie side by side, so that a vector instruction takes them as a block of 32 bytes.
pub(super) const COPIES: u64 = 8;

/// The tiles of a segment: `rows` outer rows with all their inner rows, or one outer row with `inners` of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    /// Most outer rows.
    pub rows: u64,
    /// Most inner rows of each.
    pub inners: u64,
    /// Inner rows of an outer row.
    pub inner: Dim,
}

impl Tile {
    /// One row at a time.
    pub fn single(inner: &Dim) -> Self {
        Tile { rows: 1, inners: 1, inner: inner.clone() }
    }

    /// Whether a tile is one inner row.
    pub fn is_single(&self) -> bool {
        self.rows * self.inners == 1
    }

    /// Most times that a value of a level is in a tile.
    pub fn most(&self, level: Level) -> u64 {
        match level {
            Level::Kernel => 1,
            Level::Outer => self.rows,
            Level::Inner => self.rows * self.inners,
        }
    }

    /// How often a value of a level is in a tile, as C++.
    pub fn times(&self, level: Level) -> Count {
        match level {
            Level::Kernel => Count::one(),
            _ if self.is_single() => Count::one(),
            Level::Outer if self.rows == 1 => Count::one(),
            Level::Outer => Count { text: Some("tile.rows".into()), factor: 1 },
            Level::Inner if self.rows == 1 => Count { text: Some("tile.inners".into()), factor: 1 },
            Level::Inner if self.inners == 1 => Count { text: Some("tile.rows".into()), factor: 1 },
            Level::Inner => Count { text: Some("tile.Count()".into()), factor: 1 },
        }
    }

    /// Levels that are equally often in a tile are one.
    pub fn level(&self, level: Level) -> Level {
        match level {
            _ if self.is_single() => Level::Kernel,
            Level::Outer if self.rows == 1 => Level::Kernel,
            Level::Inner if self.inners == 1 => Level::Outer,
            other => other,
        }
    }
}

/// A number of elements: a constant, or a constant times a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Count {
    text: Option<String>,
    factor: u64,
}

impl Count {
    pub fn one() -> Self {
        Count { text: None, factor: 1 }
    }

    /// So many times as much.
    pub fn of(&self, lanes: u64) -> Self {
        Count { text: self.text.clone(), factor: self.factor * lanes }
    }

    /// Whether there is a value of the variable that makes it odd.
    pub fn may_be_odd(&self) -> bool {
        self.factor % 2 == 1
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.text, self.factor) {
            (None, n) => write!(f, "{n}"),
            (Some(text), 1) => f.write_str(text),
            (Some(text), n) => write!(f, "{text} * {n}"),
        }
    }
}

/// Lanes of a value in every row: those of rows, and the copies of scalars and of what groups have.
pub(super) fn lanes(shape: &Shape) -> Option<u64> {
    let elements = u64::try_from(shape.elements().as_const()?).ok()?;
    Some(if matches!(shape, Shape::Row(_)) { elements } else { elements * COPIES })
}
