//! Instructions of Kernel IR and the order of reductions.

use std::fmt;

use fusewright_abi::DType;
use fusewright_graph::{Dim, Literal, NanRule, ReduceOp, Rounding, ScalarFn};

use super::{ParamId, Shape, Val};

/// What a reduction runs over.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Over {
    /// All lanes; yields a scalar.
    Row,
    /// Groups of that many lanes; yields a group value.
    Group(Dim),
}

/// The order in which a reduction combines its operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// As the tree says, on every target, for every number of rows and threads.
    Tree(Tree),
    /// Whatever is fastest; results may differ between targets.
    Relaxed,
}

/// A reduction tree.
///
/// There are `threads · ways` accumulators, each starting from the op's neutral element. Lane `l` (counted from the
/// start of its group) goes to accumulator `((l / vec) mod threads) · ways + (l mod vec) mod ways`; each accumulator
/// folds its lanes in ascending order. Then the ways of each thread are combined by halving, then the threads within blocks of 32 by halving, then the blocks by halving. *Halving* `n`
/// partial results replaces `p[i]` by `p[i] ∘ p[i + ⌈n/2⌉]` where both exist, until one is left.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tree {
    /// Consecutive lanes that one thread takes.
    pub vec: u32,
    /// Threads.
    pub threads: u32,
    /// Accumulators of each thread.
    pub ways: u32,
}

impl Tree {
    /// `width` accumulators, lane `l` in accumulator `l mod width`.
    pub const fn interleaved(width: u32) -> Self {
        Tree { vec: 1, threads: width, ways: 1 }
    }

    /// The accumulator of a lane.
    pub const fn accumulator(&self, lane: usize) -> usize {
        let (vec, threads, ways) = (self.vec as usize, self.threads as usize, self.ways as usize);
        ((lane / vec) % threads) * ways + (lane % vec) % ways
    }

    /// Number of accumulators.
    pub const fn accumulators(&self) -> usize {
        self.threads as usize * self.ways as usize
    }

    /// The combining steps after the fold, as `(into, from)` accumulator pairs in order.
    pub fn combine_steps(&self) -> Vec<(usize, usize)> {
        let (threads, ways) = (self.threads as usize, self.ways as usize);
        let mut steps = Vec::new();
        for thread in 0..threads {
            halve(ways, |i| thread * ways + i, &mut steps);
        }
        for block in (0..threads).step_by(32) {
            halve((threads - block).min(32), |i| (block + i) * ways, &mut steps);
        }
        halve(threads.div_ceil(32), |i| i * 32 * ways, &mut steps);
        steps
    }
}

fn halve(count: usize, place: impl Fn(usize) -> usize, steps: &mut Vec<(usize, usize)>) {
    let mut left = count;
    while left > 1 {
        let half = left.div_ceil(2);
        steps.extend((0..left - half).map(|i| (place(i), place(i + half))));
        left = half;
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Relaxed => f.write_str("relaxed"),
            Order::Tree(Tree { vec: 1, threads, ways: 1 }) => write!(f, "tree({threads})"),
            Order::Tree(Tree { vec, threads, ways }) => write!(f, "tree({vec}, {threads}, {ways})"),
        }
    }
}

/// What an instruction does. Operand values are in [`Inst::args`] in the order named here.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum InstOp {
    /// `() → scalar`: a constant.
    Literal(Literal),
    /// `() → scalar<i64>`: the value of an index without [`super::LANE`].
    Index(Dim),
    /// `() → row<i32, n>`: lane numbers.
    Iota(Dim),
    /// `([predicate]) → shape`: elements of a parameter at an index. The predicate is a boolean scalar or row.
    Load {
        /// Parameter that is read.
        param: ParamId,
        /// Which element; [`super::LANE`] runs over the shape's elements.
        index: Dim,
        /// Shape of the result.
        shape: Shape,
        /// Value where the predicate is false; present exactly if there is a predicate.
        otherwise: Option<Literal>,
    },
    /// `(value, [predicate]) → ()`: writes elements of a parameter.
    Store {
        /// Parameter that is written.
        param: ParamId,
        /// Which element.
        index: Dim,
        /// Written where the predicate is false; nothing is written there without it.
        otherwise: Option<Literal>,
    },
    /// Elementwise function; scalars and groups broadcast over rows, scalars over groups.
    Map(ScalarFn),
    /// Conversion, as the graph's `cast`.
    Cast {
        /// Result dtype.
        to: DType,
        /// Rounding mode.
        round: Rounding,
        /// Clamp to the finite range instead of overflowing.
        saturate: bool,
    },
    /// The same bits as another dtype of equal width.
    Bitcast(DType),
    /// `(row) → scalar | group`: reduction.
    Reduce {
        /// Combining op.
        op: ReduceOp,
        /// What it runs over.
        over: Over,
        /// NaN rule of max and min.
        nan: NanRule,
        /// Order of combination.
        order: Order,
    },
    /// `(row) → (scalar, scalar<i32>)`: the extreme element and its lane; the first of equals; a NaN wins.
    ArgReduce(ReduceOp),
    /// `(row) → (row<T, g·k>, row<i32, g·k>)`: the `k` largest of each of `g` groups in descending order, one group after the
    /// other, and their lanes, which count from the start of their group, as the graph's `top_k`. A row is one group. With a
    /// second operand, a `row<i32>`, its lanes are ordered in place of those of the first; none of them is the least `i32`.
    TopK {
        /// How many of a group are found.
        k: Dim,
        /// The groups, which are all as long.
        over: Over,
    },
    /// `(row) → row<T, len>`: lanes `start, start + step, …`.
    Slice {
        /// First lane.
        start: Dim,
        /// Number of lanes.
        len: Dim,
        /// Distance of taken lanes.
        step: i64,
    },
    /// `(row, …) → row`: lanes one after the other.
    Cat,
    /// `(row, …) → row`: lanes of equally long rows in turn.
    Zip,
    /// `(row) → row<to, n / ways>`: `ways` consecutive codes in one element, the first in the lowest bits.
    Pack {
        /// Codes per element.
        ways: u32,
        /// Result dtype.
        to: DType,
    },
    /// `(value) → shape`: a scalar or group spread over a larger shape, for stores and joins; maps broadcast by
    /// themselves.
    Broadcast(Shape),
    /// `(group) → row<T, ⌈n/g⌉>`: the group's elements as lanes.
    AsRow,
    /// `(row<T, ⌈n/g⌉>) → group<T, n, g>`: lanes as the elements of groups.
    AsGroup {
        /// Lanes of the grouped row.
        lanes: Dim,
        /// Lanes per group.
        size: Dim,
    },
}

impl InstOp {
    /// Says that the instruction compares the lanes of rows with the best so far.
    pub fn is_search(&self) -> bool {
        matches!(self, InstOp::ArgReduce(_) | InstOp::TopK { .. })
    }

    /// Says that the lanes of a row become fewer by it: a reduction or a search.
    pub fn combines_lanes(&self) -> bool {
        matches!(self, InstOp::Reduce { .. }) || self.is_search()
    }

    /// Name in text forms.
    pub fn name(&self) -> &'static str {
        match self {
            InstOp::Literal(_) => "literal",
            InstOp::Index(_) => "index",
            InstOp::Iota(_) => "iota",
            InstOp::Load { .. } => "load",
            InstOp::Store { .. } => "store",
            InstOp::Map(f) => f.name(),
            InstOp::Cast { .. } => "cast",
            InstOp::Bitcast(_) => "bitcast",
            InstOp::Reduce { .. } => "reduce",
            InstOp::ArgReduce(_) => "arg_reduce",
            InstOp::TopK { .. } => "top_k",
            InstOp::Slice { .. } => "slice",
            InstOp::Cat => "cat",
            InstOp::Zip => "zip",
            InstOp::Pack { .. } => "pack",
            InstOp::Broadcast(_) => "broadcast",
            InstOp::AsRow => "as_row",
            InstOp::AsGroup { .. } => "as_group",
        }
    }

    /// Says whether this gives every element of a narrower float as it is in f32; a conversion that clamps gives no infinities.
    pub fn is_widening(&self) -> bool {
        matches!(self, InstOp::Cast { to: DType::F32, saturate: false, .. })
    }

    /// The index expression of a load, store or index.
    pub fn index(&self) -> Option<&Dim> {
        match self {
            InstOp::Index(index) | InstOp::Load { index, .. } | InstOp::Store { index, .. } => Some(index),
            _ => None,
        }
    }
}

/// One instruction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Inst {
    /// What it does.
    pub op: InstOp,
    /// Operands.
    pub args: Vec<Val>,
    /// Results.
    pub results: Vec<Val>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tree_ends_in_accumulator_zero_and_uses_each_once() {
        for tree in [
            Tree::interleaved(16),
            Tree { vec: 8, threads: 320, ways: 2 },
            Tree { vec: 4, threads: 33, ways: 3 },
            Tree::interleaved(1),
        ] {
            let mut used = vec![false; tree.accumulators()];
            for (into, from) in tree.combine_steps() {
                assert!(!used[into] && !used[from] && into != from, "{tree:?}");
                used[from] = true;
            }
            assert_eq!(used.iter().filter(|u| !**u).count(), 1, "{tree:?}");
            assert!(!used[0]);
        }
    }

    #[test]
    fn lanes_are_dealt_as_stated() {
        let tree = Tree { vec: 8, threads: 4, ways: 2 };
        assert_eq!([0, 1, 7, 8, 31, 32].map(|l| tree.accumulator(l)), [0, 1, 1, 2, 7, 0]);
    }
}
