//! Rows that are stored once, by loops of their own, and loaded wherever they are read.
//!
//! - Group values that are read as a row: every lane that reads one would run through its group again, and through those
//!   below it.
//! - Joined rows that a reduction takes: it would run part by part, lane by lane where parts begin between its
//!   accumulators, and every loop behind it would compute the parts again.
//! - Rows of groups that are read at other lanes (`moved.rs`).
//! - Rows that loops of their own compute in vectors, below loops that do not (`apart.rs`).

use std::collections::{BTreeMap, BTreeSet};

use fusewright_fusion::region::Keeps;
use fusewright_graph::Dim;

use super::cost::{STORE_AND_LOAD, Values, keeps_lanes};
use super::keep::SHORT;
use super::{CHUNK, Forms, apart, moved, shared};
use crate::kernel::{InstOp, Over, Segment, Shape, Val};

/// Values that loops of a segment find stored. They are found once, as every walk asks for them.
#[derive(Clone, Debug, Default)]
pub(in crate::backend) struct Stored {
    /// By instruction, whether its result is stored by a loop of its own.
    pub stashed: Vec<bool>,
    /// The values that are computed before the inner rows, and the bytes of their lanes.
    pub shared: BTreeMap<Val, i64>,
    /// By value, whether it is the same for all inner rows, of which there are others than one.
    pub outer: Vec<bool>,
    /// The instruction that defines each value.
    pub definitions: Vec<usize>,
    /// Lengths of stored rows that are no constants, which are taken to be at most [`SHORT`].
    pub lengths: BTreeSet<Dim>,
}

impl Stored {
    /// Finds what is stored, for an emitter with those vector forms. `short` says that no row is longer than [`SHORT`].
    pub fn of(segment: &Segment, forms: &dyn Forms, short: bool) -> Stored {
        let mut found = Stored::unshared(segment);
        let taken: i64 = found.rows(segment).filter_map(|(at, _)| bytes(segment, at, short)).sum();
        apart::add(segment, &mut found, forms, short, i64::from(Keeps::STACK.rows) - taken);
        found.shared = shared::values(segment, &found.stashed);
        found
    }

    /// Finds what is stored because it would be computed many times otherwise.
    pub fn needed(segment: &Segment) -> Stored {
        let mut found = Stored::unshared(segment);
        found.shared = shared::values(segment, &found.stashed);
        found
    }

    /// As [`Stored::needed`], but for what inner rows share, which depends on all that is stored.
    fn unshared(segment: &Segment) -> Stored {
        let mut stashed = read_as_row(segment);
        joined(segment).into_iter().for_each(|at| stashed[at] = true);
        let (outer, definitions) = (shared::outer(segment), segment.definitions());
        let mut found = Stored { stashed, shared: BTreeMap::new(), outer, definitions, lengths: BTreeSet::new() };
        moved::add(segment, &mut found);
        found
    }

    /// Stores the result of an instruction.
    pub(super) fn stash(&mut self, segment: &Segment, at: usize) {
        self.stashed[at] = true;
        let lanes = segment.ty(segment.insts[at].results[0]).shape.elements();
        if lanes.as_const().is_none() {
            self.lengths.insert(lanes);
        }
    }

    /// Says whether a loop of its own stores a value.
    pub fn is_stashed(&self, v: Val) -> bool {
        self.stashed[self.definitions[v.0 as usize]]
    }

    /// The values of rows that have loops of their own.
    pub fn rows<'s>(&'s self, segment: &'s Segment) -> impl Iterator<Item = (usize, Val)> + 's {
        let stashed = self.stashed.iter().enumerate().filter(|(_, stashed)| **stashed);
        stashed.map(|(at, _)| (at, segment.insts[at].results[0]))
    }
}

/// By instruction, whether it takes the elements of groups as a row, and these depend on a reduction over lanes.
fn read_as_row(segment: &Segment) -> Vec<bool> {
    let definitions = segment.definitions();
    let mut reduced = vec![false; segment.insts.len()];
    let mut stashed = vec![false; segment.insts.len()];
    for (at, inst) in segment.insts.iter().enumerate() {
        let own = matches!(inst.op, InstOp::Reduce { over: Over::Group(_), .. });
        let below = || {
            let mut operands = inst.args.iter().filter(|v| !matches!(segment.ty(**v).shape, Shape::Scalar));
            operands.any(|v| reduced[definitions[v.0 as usize]])
        };
        reduced[at] = own || below();
        if matches!(inst.op, InstOp::AsRow) && reduced[at] && bytes(segment, at, false).is_some() {
            (stashed[at], reduced[at]) = (true, false);
        }
    }
    stashed
}

/// Joins whose lanes a reduction takes one for one, and that a load does not give again.
fn joined(segment: &Segment) -> Vec<usize> {
    let definitions = segment.definitions();
    let mut reduced = vec![false; segment.types.len()];
    let mut found = Vec::new();
    for (at, inst) in segment.insts.iter().enumerate().rev() {
        let passes_on = keeps_lanes(&inst.op) && inst.results.iter().any(|v| reduced[v.0 as usize]);
        if inst.op.combines_lanes() || passes_on {
            inst.args.iter().for_each(|v| reduced[v.0 as usize] = true);
        }
        if inst.op == InstOp::Cat && reduced[inst.results[0].0 as usize] && bytes(segment, at, false).is_some() {
            found.push(at);
        }
    }
    let values = Values { segment, definitions: &definitions };
    found.retain(|&at| is_dear(&values, segment.insts[at].results[0]));
    found
}

/// Whether a join costs more than storing and loading it, or has a part that begins within a chunk.
fn is_dear(values: &Values<'_>, join: Val) -> bool {
    let mut start = 0;
    let within = values.inst(join).args.iter().any(|part| {
        let begins = start;
        start += values.segment.ty(*part).shape.elements().as_const().unwrap_or(1);
        begins % CHUNK != 0
    });
    within || values.cost(join, STORE_AND_LOAD + 1, &|_| false) > STORE_AND_LOAD
}

/// The memory that the result of an instruction takes, if it is known and not too much. `short` says that no row is longer
/// than [`SHORT`].
pub(in crate::backend) fn bytes(segment: &Segment, at: usize, short: bool) -> Option<i64> {
    let ty = segment.ty(*segment.insts[at].results.first()?);
    let elements = ty.shape.elements().as_const().or_else(|| short.then_some(SHORT))?;
    if ty.dtype.bits() < 8 {
        return None;
    }
    let bytes = elements.checked_mul(i64::from(ty.dtype.bits() / 8))?;
    (1..=i64::from(Keeps::STACK.row)).contains(&bytes).then_some(bytes)
}
