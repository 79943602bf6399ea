//! What happens ahead of its turn: loads of what no running kernel writes, before the kernels ahead are done; all other
//! loads before anything is computed of them; stores that no reduction decides, before the first reduction.

use fusewright_graph::Dim;

use super::hazard::overlap;
use super::plan::{VECTOR, values_of};
use super::rows::Rows;
use crate::backend::llvm::Built;
use crate::kernel::{Inst, InstOp, Shape};

/// Registers of a thread that hold what is read ahead of its turn; what is read beyond them is read where it is used.
const ROOM: u32 = 128;

impl Rows<'_, '_> {
    /// Loads what no running kernel writes, with the scalars that lead there: before the kernels ahead of this one are
    /// done. Nothing else is computed of what is loaded, which would wait for it.
    pub fn read_early(&mut self) -> Built<()> {
        let segment = self.segment;
        let mut leads = vec![false; segment.types.len()];
        for inst in segment.insts.iter().rev() {
            let used = inst.results.iter().any(|result| leads[result.0 as usize]);
            let places = inst.op.index().filter(|_| matches!(inst.op, InstOp::Load { .. } | InstOp::Index(_)));
            places.into_iter().flat_map(values_of).for_each(|value| leads[value.0 as usize] = true);
            if used {
                inst.args.iter().for_each(|arg| leads[arg.0 as usize] = true);
            }
        }
        let mut early = vec![false; segment.types.len()];
        for inst in &segment.insts {
            let ready = inst.args.iter().all(|arg| early[arg.0 as usize])
                && inst.op.index().is_none_or(|index| values_of(index).all(|value| early[value.0 as usize]));
            let ready = ready
                && match &inst.op {
                    InstOp::Literal(_) | InstOp::Index(_) => true,
                    InstOp::Load { param, .. } => self.frame.kernel.param(*param).early,
                    InstOp::Cat => self.joined.pieces(inst.results[0]).is_some(),
                    InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_) => {
                        segment.ty(inst.results[0]).shape == Shape::Scalar
                    }
                    _ => false,
                };
            if !ready {
                continue;
            }
            inst.results.iter().for_each(|result| early[result.0 as usize] = true);
            let now = leads[inst.results[0].0 as usize] || matches!(inst.op, InstOp::Load { .. });
            match (&segment.ty(inst.results[0]).shape, &inst.op) {
                (Shape::Scalar, _) if now => self.scalar(inst).map_err(|e| e.at(segment, inst))?,
                (_, InstOp::Load { .. }) if self.moves_vectors(inst) && self.has_room(inst) => self.read(inst)?,
                (_, InstOp::Cat) if self.has_room(inst) => self.read(inst)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Loads what is read in any case.
    pub fn read_at_once(&mut self) -> Built<()> {
        let insts = &self.segment.insts;
        insts.iter().try_for_each(|inst| if self.is_read_at_once(inst) { self.read(inst) } else { Ok(()) })
    }

    /// Loads all vectors of a value.
    fn read(&mut self, inst: &Inst) -> Built<()> {
        let value = inst.results[0];
        for vector in 0..self.vectors(value) {
            let first = self.own(vector)[0];
            self.element(value, first).map_err(|e| e.at(self.segment, inst))?;
        }
        Ok(())
    }

    /// Whether an instruction is read before anything is computed of it.
    fn is_read_at_once(&self, inst: &Inst) -> bool {
        self.is_at_known_places(inst) && self.has_room(inst)
    }

    /// Whether registers are left for what an instruction reads, with what is read ahead of it: first of all what kernels
    /// ahead of this one write.
    fn has_room(&self, inst: &Inst) -> bool {
        let insts = &self.segment.insts;
        let early =
            |inst: &Inst| matches!(&inst.op, InstOp::Load { param, .. } if self.frame.kernel.param(*param).early);
        let registers = |inst: &Inst| {
            let value = inst.results[0];
            VECTOR * self.segment.ty(value).dtype.bits().max(8) / 32 * self.vectors(value) as u32
        };
        let behind = insts.iter().position(|other| std::ptr::eq(other, inst)).map_or(insts.len(), |at| at + 1);
        let ahead = insts.iter().enumerate().filter(|(i, other)| match (early(other), early(inst)) {
            (false, true) => true,
            (a, b) => a == b && *i < behind,
        });
        let ahead = ahead.filter(|(_, other)| self.is_at_known_places(other));
        ahead.map(|(_, other)| registers(other)).sum::<u32>() <= ROOM
    }

    /// Whether an instruction loads vectors at places that nothing is computed for.
    fn is_at_known_places(&self, inst: &Inst) -> bool {
        match &inst.op {
            InstOp::Load { index, .. } => self.moves_vectors(inst) && !reads_values(index),
            InstOp::Cat => self.joined.is_at_known_places(inst.results[0]),
            _ => false,
        }
    }

    /// Whether each thread has all in its registers that it or others overwrite, once lanes are dealt: what other threads
    /// overwrite it has no use for, or rows would not lie in registers.
    pub fn has_read_what_it_overwrites(&self) -> bool {
        let (kernel, insts) = (self.frame.kernel, &self.segment.insts);
        insts.iter().all(|load| {
            let InstOp::Load { param, .. } = &load.op else { return true };
            let overwritten = insts
                .iter()
                .any(|store| matches!(&store.op, InstOp::Store { param: to, .. } if overlap(kernel, *param, *to)));
            !overwritten || self.is_read_at_once(load)
        })
    }

    /// Stores whole vectors that no reduction decides before the first reduction, so that memory has time for them.
    pub fn store_early(&mut self) -> Built<()> {
        let segment = self.segment;
        let mut late = vec![false; segment.types.len()];
        for inst in &segment.insts {
            let decided = match &inst.op {
                InstOp::Reduce { .. } => true,
                InstOp::Load { index, .. } => reads_values(index),
                _ => false,
            };
            let decided = decided || inst.args.iter().any(|arg| late[arg.0 as usize]);
            inst.results.iter().for_each(|result| late[result.0 as usize] = decided);
        }
        if !late.contains(&true) {
            return Ok(());
        }
        for (i, store) in segment.insts.iter().enumerate() {
            let InstOp::Store { otherwise: None, .. } = &store.op else { continue };
            if store.args.len() == 1 && !late[store.args[0].0 as usize] && self.moves_vectors(store) {
                for vector in 0..self.vectors(store.args[0]) {
                    self.where_present(vector, |rows| rows.store_vector(store, vector))
                        .map_err(|e| e.at(segment, store))?;
                }
                if let Some(lanes) = &mut self.lanes {
                    lanes.stored.insert(i);
                }
            }
        }
        Ok(())
    }
}
/// Whether an index is made of values that the segment computes.
fn reads_values(index: &Dim) -> bool {
    values_of(index).next().is_some()
}
