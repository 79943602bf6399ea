//! How long the rows of a segment are, and how many neighbouring threads can share one.

use fusewright_graph::ReduceOp;

use super::joined::Joined;
use super::plan::{VECTOR, WARP, team};
use crate::kernel::{InstOp, Kernel, Order, Over, Segment, Shape, Val};

/// The lengths of the rows of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Extents {
    /// Lanes of the longest.
    pub lanes: i64,
    /// What all lengths are multiples of, and all lanes where parts begin.
    pub unit: i64,
    /// Threads of the tree of a sum of whole rows.
    pub summed: Option<u32>,
    /// Whether threads exchange values, which those of a power of two can.
    pub exchanged: bool,
}

impl Extents {
    /// Of a segment of a kernel, whose threads may be those of other segments elsewhere.
    pub fn within(kernel: &Kernel, segment: &Segment) -> Option<Extents> {
        let exchanged = kernel.segments.iter().any(exchanges);
        Extents::of(segment).map(|extents| Extents { exchanged, ..extents })
    }

    /// Of a segment whose rows are whole or parts of such, cut at known lanes, or codes of some lanes each.
    pub fn of(segment: &Segment) -> Option<Extents> {
        let packed: Vec<Val> = segment
            .insts
            .iter()
            .filter(|inst| matches!(inst.op, InstOp::Pack { .. }))
            .flat_map(|inst| inst.results.iter().copied())
            .collect();
        let (mut found, mut grouped): (Option<Extents>, _) = (None, None);
        let mut meet = |lanes: i64, at: i64| {
            let none = Extents { lanes, unit: lanes, summed: None, exchanged: exchanges(segment) };
            let so_far = found.unwrap_or(none);
            found = Some(Extents { lanes: so_far.lanes.max(lanes), unit: gcd(gcd(so_far.unit, lanes), at), ..so_far });
        };
        let joined = Joined::of(segment);
        for (i, ty) in segment.types.iter().enumerate() {
            match &ty.shape {
                Shape::Row(_) if joined.is_piece(Val(i as u32)) => {}
                Shape::Row(lanes) if !packed.contains(&Val(i as u32)) => meet(lanes.as_const()?, 0),
                Shape::Group { lanes, size } => {
                    team(size)?;
                    let lanes = lanes.as_const()?;
                    meet(lanes, 0);
                    grouped = Some(lanes);
                }
                _ => {}
            }
        }
        for inst in &segment.insts {
            match &inst.op {
                InstOp::Slice { start, step: 1, .. } => meet(0, start.as_const()?),
                InstOp::Slice { .. } => return None,
                _ => {}
            }
        }
        let summed = segment.insts.iter().find_map(|inst| match &inst.op {
            InstOp::Reduce { op, over: Over::Row, order: Order::Tree(tree), .. } if !is_free(*op) => Some(tree.threads),
            _ => None,
        });
        let found = Extents { summed, ..found? };
        (found.lanes > 0 && grouped.is_none_or(|lanes| lanes == found.lanes)).then_some(found)
    }

    /// Threads that share a row and exchange values in registers, with one vector each.
    pub fn team(&self) -> Option<u32> {
        self.team_of(1)
    }

    /// Threads that share a row and exchange values in registers: as many as a sum asks for, or as have so many vectors
    /// each, fewer where parts are short, and so many that all have equally many of each part; none where rows are too long
    /// for that.
    pub fn team_of(&self, each: u32) -> Option<u32> {
        let [vectors, cut] = [self.lanes, self.unit].map(|lanes| u32::try_from(lanes).ok().map(|lanes| lanes / VECTOR));
        let (vectors, cut) = (vectors?, cut?);
        if self.lanes % i64::from(VECTOR) != 0 || vectors > WARP {
            return None;
        }
        let can = |team: &u32| cut.is_multiple_of(*team) && (!self.exchanged || team.is_power_of_two());
        match self.summed {
            Some(team) => Some(team).filter(|team| *team > 0 && can(team)),
            None => (1..=(vectors / each).max(1)).rev().find(can),
        }
    }
}

pub(super) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Whether threads exchange values of a segment.
pub(super) fn exchanges(segment: &Segment) -> bool {
    segment.insts.iter().any(|inst| inst.op.combines_lanes())
}

/// Whether every order of a reduction gives the same.
pub(super) fn is_free(op: ReduceOp) -> bool {
    matches!(op, ReduceOp::Max | ReduceOp::Min)
}
