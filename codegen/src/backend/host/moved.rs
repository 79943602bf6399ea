//! Rows of groups that are read at other lanes than those of their groups.
//!
//! A loop over groups has the results of their reductions at hand. Read anywhere else, such a result is reduced again for
//! every lane, and so are those of the groups below it: sums over columns and over rows in turn would multiply with every
//! turn, in code and in time. Such a row is stored once, by a loop over its own groups.

use std::collections::HashSet;

use fusewright_fusion::region::Keeps;
use fusewright_graph::Dim;

use super::stash::{Stored, bytes};
use super::walk::{WHOLE, Walk};
use super::{Forms, plan};
use crate::kernel::{Inst, InstOp, Over, Segment, Shape, Val};

/// Adds such rows to those that are stored, as far as there is memory for them.
pub(super) fn add(segment: &Segment, found: &mut Stored) {
    if !segment.insts.iter().any(of_groups) {
        return;
    }
    let mut room = i64::from(Keeps::STACK.rows);
    // What is stored has a loop of its own, like a store or a reduction of a row.
    let has_loop = |at: &usize| found.stashed[*at] || plan::is_sink(segment, *at) && !of_groups(&segment.insts[*at]);
    let mut open: Vec<usize> = (0..segment.insts.len()).filter(has_loop).collect();
    while let Some(from) = open.pop() {
        for at in (Below { segment, found, from, regular: is_regular(segment, found, from) }).apart() {
            let taken = bytes(segment, at, false).filter(|bytes| *bytes <= room && !found.stashed[at]);
            if let Some(bytes) = taken {
                room -= bytes;
                found.stashed[at] = true;
                open.push(at);
            }
        }
    }
}

fn of_groups(inst: &Inst) -> bool {
    matches!(inst.op, InstOp::Reduce { over: Over::Group(_), .. })
}

/// Says whether one loop over groups, or none, computes a store, a reduction or a row.
fn is_regular(segment: &Segment, found: &Stored, from: usize) -> bool {
    let value = plan::sink_value(segment, from);
    if matches!(segment.ty(value).shape, Shape::Group { .. }) {
        return false;
    }
    let walk = Walk::of(segment, found, from, None, &Any);
    let lanes = segment.ty(value).shape.elements();
    walk.groups.is_empty() || walk.cuts.is_empty() && plan::single_group(&walk.groups, &lanes).is_some()
}

/// The groups that a walk meets do not depend on what is in vectors.
struct Any;

impl Forms for Any {}

/// A loop computes a value at these lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Lanes {
    /// Its own.
    Own,
    /// Others, some way apart.
    Moved,
    /// Others in no order that a loop over groups follows.
    Unordered,
}

/// The values that a loop computes.
struct Below<'k> {
    segment: &'k Segment,
    found: &'k Stored,
    /// The store, the reduction or the row that the loop is for.
    from: usize,
    /// As it stands, it is a loop over groups, or over none, if this is set.
    regular: bool,
}

/// The number of lanes of a grouped row, and of each of its groups.
type Groups<'k> = (&'k Dim, &'k Dim);

impl<'k> Below<'k> {
    /// The rows of groups that are better stored than computed in the loop.
    fn apart(&self) -> Vec<usize> {
        let (segment, roots) = (self.segment, plan::roots(self.segment, self.from));
        let (mut apart, mut seen) = (Vec::new(), HashSet::new());
        let mut own = roots.first().and_then(|v| groups(&segment.ty(*v).shape));
        // The nearest groups at lanes of the loop are its own, so these lanes come first.
        let mut direct: Vec<(Val, Lanes)> = roots.iter().rev().map(|v| (*v, Lanes::Own)).collect();
        let mut others: Vec<(Val, Lanes)> = Vec::new();
        while let Some((v, lanes)) = direct.pop().or_else(|| others.pop()) {
            let at = self.found.definitions[v.0 as usize];
            let stored = self.found.stashed[at] && at != self.from;
            if segment.ty(v).shape == Shape::Scalar || stored || !seen.insert((v, lanes)) {
                continue;
            }
            let inst = &segment.insts[at];
            if let Some(joined) = self.joined(inst) {
                if at != self.from && !self.has(joined, lanes, own) {
                    apart.push(at);
                    continue;
                }
                own = own.or(Some(joined));
            }
            let below = moved(&inst.op, lanes);
            let args = inst.args.iter().rev().map(|arg| (*arg, below));
            if below == Lanes::Own { direct.extend(args) } else { others.extend(args) }
        }
        apart
    }

    /// Says whether the loop has the results of groups at hand for a row that it computes at such lanes.
    fn has(&self, groups: Groups<'k>, lanes: Lanes, own: Option<Groups<'k>>) -> bool {
        match lanes {
            Lanes::Own => self.regular || own.is_none_or(|own| own == groups),
            Lanes::Moved => self.regular,
            // Chunks of lanes lie in one group.
            Lanes::Unordered => groups.1.as_const().is_some_and(|size| size % WHOLE == 0),
        }
    }

    /// The groups whose reductions an instruction takes at the lanes of a row.
    fn joined(&self, inst: &Inst) -> Option<Groups<'k>> {
        let of_row = |v: &Val| matches!(self.segment.ty(*v).shape, Shape::Row(_));
        let reduced = |v: &&Val| groups(&self.segment.ty(**v).shape).is_some() && self.is_reduced(**v);
        let takes = inst.results.iter().all(of_row) && moved(&inst.op, Lanes::Own) == Lanes::Own;
        let group = if takes { inst.args.iter().find(reduced) } else { None };
        group.and_then(|v| groups(&self.segment.ty(*v).shape))
    }

    /// Says whether a value of groups comes of a reduction over their lanes.
    fn is_reduced(&self, v: Val) -> bool {
        let (mut open, mut seen) = (vec![v], HashSet::new());
        while let Some(v) = open.pop() {
            let inst = &self.segment.insts[self.found.definitions[v.0 as usize]];
            if of_groups(inst) {
                return true;
            }
            let of_group = |v: &Val| groups(&self.segment.ty(*v).shape).is_some();
            open.extend(inst.args.iter().copied().filter(|arg| of_group(arg) && seen.insert(*arg)));
        }
        false
    }
}

fn groups(shape: &Shape) -> Option<Groups<'_>> {
    match shape {
        Shape::Group { lanes, size } => Some((lanes, size)),
        _ => None,
    }
}

/// Gives the lanes at which an instruction reads its operands, if its result is computed at such lanes.
fn moved(op: &InstOp, lanes: Lanes) -> Lanes {
    match (op, lanes) {
        (InstOp::Zip | InstOp::AsGroup { .. } | InstOp::AsRow, _) | (_, Lanes::Unordered) => Lanes::Unordered,
        (InstOp::Slice { .. } | InstOp::Cat | InstOp::Pack { .. }, _) | (_, Lanes::Moved) => Lanes::Moved,
        _ => Lanes::Own,
    }
}
