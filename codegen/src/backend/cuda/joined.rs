//! Rows that are joined of pieces which lie in memory at places of their own, as the angles of positions in time, height
//! and width: a vector is in one piece, so that a choice of its address makes one load of what would be a branch for each
//! lane.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::Dim;
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::plan::{VECTOR, values_of};
use super::rows::Rows;
use crate::backend::llvm::{BuildError, Built};
use crate::kernel::{Inst, InstOp, LANE, ParamId, Segment, Shape, Val};

/// A piece of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    pub param: ParamId,
    /// Of its element at [`LANE`], which counts from its start.
    pub index: Dim,
    /// The lane of the row where it begins.
    pub start: i64,
}

/// The joined rows of a segment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Joined {
    rows: BTreeMap<Val, Vec<Piece>>,
    pieces: BTreeSet<Val>,
}

impl Joined {
    /// The rows of a segment whose pieces are loaded for nothing else, and begin and end where vectors do.
    pub fn of(segment: &Segment) -> Joined {
        let mut uses = vec![0; segment.types.len()];
        segment.insts.iter().flat_map(|inst| &inst.args).for_each(|arg| uses[arg.0 as usize] += 1);
        let loads: BTreeMap<Val, &Inst> = segment
            .insts
            .iter()
            .filter(|inst| matches!(inst.op, InstOp::Load { .. }))
            .map(|inst| (inst.results[0], inst))
            .collect();
        let piece = |value: &Val, start: i64| -> Option<(Piece, i64)> {
            let InstOp::Load { param, index, shape: Shape::Row(lanes), otherwise: None } = &loads.get(value)?.op else {
                return None;
            };
            let whole = |dim: &Dim| dim.exact_div(&Dim::constant(i64::from(VECTOR))).is_some();
            let (slope, rest) = index.split_linear(LANE)?;
            let fits = uses[value.0 as usize] == 1 && slope.as_const() == Some(1) && whole(&rest) && whole(lanes);
            let wide = segment.ty(*value).dtype.bits() >= 8;
            let piece = Piece { param: *param, index: index.clone(), start };
            Some((piece, lanes.as_const()?)).filter(|_| fits && wide)
        };
        let mut joined = Joined::default();
        for inst in segment.insts.iter().filter(|inst| matches!(inst.op, InstOp::Cat)) {
            let mut start = 0;
            let pieces = inst.args.iter().map(|value| {
                let (piece, lanes) = piece(value, start)?;
                start += lanes;
                Some(piece)
            });
            if let Some(pieces) = pieces.collect::<Option<Vec<Piece>>>() {
                joined.pieces.extend(&inst.args);
                joined.rows.insert(inst.results[0], pieces);
            }
        }
        joined
    }

    /// The pieces of a value that is joined.
    pub fn pieces(&self, value: Val) -> Option<&[Piece]> {
        self.rows.get(&value).map(Vec::as_slice)
    }

    /// Whether a value is a piece of another.
    pub fn is_piece(&self, value: Val) -> bool {
        self.pieces.contains(&value)
    }

    /// Whether a value is joined of pieces at places that nothing is computed for.
    pub fn is_at_known_places(&self, value: Val) -> bool {
        self.pieces(value).is_some_and(|pieces| pieces.iter().all(|piece| values_of(&piece.index).next().is_none()))
    }
}

impl<'c> Rows<'_, 'c> {
    /// Where a vector of a joined row begins.
    pub fn joined_address(&mut self, row: Val, vector: usize) -> Built<IntValue<'c>> {
        let (code, first) = (self.code, self.own(vector)[0]);
        let pieces = self.joined.pieces(row).map(<[Piece]>::to_vec).unwrap_or_default();
        let mut chosen: Option<IntValue<'c>> = None;
        for piece in pieces {
            let bytes = code.i64(i64::from(self.frame.kernel.param(piece.param).dtype.bits() / 8));
            let lane = code.add(first, code.i64(-piece.start))?;
            let element = self.index(&piece.index, Some(lane))?;
            let address = code.add(self.buffer(piece.param), code.mul(element, bytes)?)?;
            chosen = Some(match chosen {
                None => address,
                Some(before) => {
                    let here = code.cmp(IntPredicate::SGE, first, code.i64(piece.start))?;
                    code.b.build_select(here, address, before, "")?.into_int_value()
                }
            });
        }
        chosen.ok_or_else(|| BuildError::unsupported("a row of no pieces"))
    }
}
