//! What computing a value costs, in instructions, against storing it and loading it.

use std::collections::BTreeSet;

use fusewright_abi::DType;
use fusewright_graph::ScalarFn;

use crate::kernel::{Inst, InstOp, Segment, Shape, Val};

/// Most bytes of stack memory that the values of a segment take.
pub(super) const MOST_BYTES: i64 = 64 << 10;
/// What storing and loading a value costs.
pub(super) const STORE_AND_LOAD: u32 = 6;
/// What loading one costs.
pub(super) const LOAD: u32 = 2;

/// The values of a segment, whose defining instructions are known.
#[derive(Clone, Copy)]
pub(in crate::backend) struct Values<'k> {
    pub segment: &'k Segment,
    pub definitions: &'k [usize],
}

impl<'k> Values<'k> {
    pub fn inst(&self, v: Val) -> &'k Inst {
        &self.segment.insts[self.definitions[v.0 as usize]]
    }

    pub fn is_row(&self, v: Val) -> bool {
        matches!(self.segment.ty(v).shape, Shape::Row(_))
    }

    /// The memory of that many lanes of a value, if a lane is a byte or more: a store of four-bit elements writes two.
    pub fn bytes(&self, v: Val, lanes: i64) -> Option<i64> {
        let bits = self.segment.ty(v).dtype.bits();
        (bits >= 8 && (1..=MOST_BYTES).contains(&lanes)).then(|| lanes * i64::from(bits / 8))
    }

    /// What computing four lanes of a value costs, down to what is `stored`, or at least `enough`.
    pub fn cost(&self, v: Val, enough: u32, stored: &dyn Fn(Val) -> bool) -> u32 {
        let mut seen = BTreeSet::new();
        let mut open = vec![v];
        let mut cost = 0;
        while let Some(v) = open.pop() {
            if self.segment.ty(v).shape == Shape::Scalar || !seen.insert(v) {
                continue;
            }
            if stored(v) || !self.is_row(v) {
                cost += 1;
                continue;
            }
            let inst = self.inst(v);
            cost += weight(self.segment, inst);
            if cost >= enough {
                return cost;
            }
            open.extend(&inst.args);
        }
        cost
    }

    /// Gives the only row of which a value is computed, if that is done lane by lane and at little cost.
    fn below(&self, v: Val) -> Option<Val> {
        let inst = self.inst(v);
        let mut rows = inst.args.iter().filter(|a| self.segment.ty(**a).shape != Shape::Scalar);
        let (Some(&below), None) = (rows.next(), rows.next()) else { return None };
        (weight(self.segment, inst) <= 1 && keeps_lanes(&inst.op) && self.is_row(below)).then_some(below)
    }

    /// Gives the lowest row from which a value follows at little cost.
    pub fn lowest(&self, v: Val) -> Val {
        std::iter::successors(Some(v), |v| self.below(*v)).last().unwrap_or(v)
    }

    /// A value of fewer bytes from which `v` follows at little cost, or `v`.
    pub fn narrowest(&self, v: Val) -> Val {
        // The first of equally narrow ones.
        let bits = |v: &Val| self.segment.ty(*v).dtype.bits();
        std::iter::successors(Some(v), |v| self.below(*v)).min_by_key(bits).unwrap_or(v)
    }
}

/// Whether lane `i` of the result takes lane `i` of every operand.
pub(super) fn keeps_lanes(op: &InstOp) -> bool {
    matches!(op, InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_) | InstOp::Broadcast(_))
}

/// About how many instructions compute four lanes of a value from its operands.
pub(super) fn weight(segment: &Segment, inst: &Inst) -> u32 {
    let dtype = |v: Option<&Val>| v.map_or(DType::F32, |v| segment.ty(*v).dtype);
    let narrow = |d: DType| d.is_float() && d.bits() < 32 && d != DType::BF16;
    match &inst.op {
        InstOp::Load { .. } if !inst.args.is_empty() => 4,
        InstOp::Load { .. } => 1 + u32::from(dtype(inst.results.first()).bits() < 32),
        InstOp::Cast { to, .. } => match (dtype(inst.args.first()), *to) {
            (DType::BF16, DType::F32) => 0,
            (DType::F16, DType::F32) => 2,
            (DType::F32, DType::F16) => 3,
            (from, to) if narrow(from) || narrow(to) => 12,
            (DType::F32, DType::BF16) => 7,
            _ => 3,
        },
        InstOp::Map(ScalarFn::Div | ScalarFn::Sqrt) => 4,
        InstOp::Map(_) | InstOp::Cat | InstOp::Zip | InstOp::Iota(_) => 1,
        InstOp::Slice { step, .. } => u32::from(*step != 1),
        InstOp::Pack { .. } => 3,
        _ => 0,
    }
}
