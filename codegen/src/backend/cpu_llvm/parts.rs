//! Twice as many lanes as a chunk has, taken as the even and the odd ones.
//!
//! A vector of words that hold two elements each becomes both parts by a shift and a mask, and is made of both by the
//! same, where elements that follow each other have to be moved to lanes of twice their width and back.

use std::collections::HashSet;

use fusewright_abi::DType;
use inkwell::values::IntValue;

use super::address::Pos;
use super::eval::{CHUNK, Eval};
use super::function::Open;
use super::loops::Loops;
use super::memory::MEMORY;
use super::passes::{Iteration, Stride};
use crate::backend::host::index::consecutive;
use crate::backend::host::plan::{self, Job};
use crate::backend::llvm::ops::{bits, widened};
use crate::backend::llvm::{Built, Value};
use crate::kernel::{Inst, InstOp, LANE, Shape, Val};

/// Every other lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Even,
    Odd,
}

impl Part {
    fn first(self) -> u32 {
        u32::from(self == Part::Odd)
    }
}

/// Accesses to the lanes of a loop, by what they cost as parts: elements of 32 bits have to be moved.
#[derive(Clone, Copy, Default)]
struct Accesses {
    narrow: u32,
    wide: u32,
}

impl Accesses {
    /// Counts an access, if elements of the dtype can be taken in parts.
    fn count(&mut self, dtype: DType) -> bool {
        match dtype.bits() {
            8 | 16 => self.narrow += 1,
            32 => self.wide += 1,
            _ => return false,
        }
        dtype != DType::Bool
    }
}

impl<'c> Eval<'_, '_, 'c> {
    /// Elements from an address on: as many as the width says, or that part of twice as many.
    pub(super) fn load_consecutive(&self, dtype: DType, address: IntValue<'c>, width: u32) -> Built<Value<'c>> {
        match self.pass.as_ref().and_then(|pass| pass.part) {
            Some(part) if width == CHUNK => self.load_part(dtype, address, part),
            _ => self.load_lanes(dtype, address, width),
        }
    }

    fn load_part(&self, dtype: DType, address: IntValue<'c>, part: Part) -> Built<Value<'c>> {
        let (code, size) = (self.code, dtype.bits());
        if size == 32 {
            let next = code.add(address, code.i64(i64::from(CHUNK * size / 8)))?;
            let (low, high) = (self.load_lanes(dtype, address, CHUNK)?, self.load_lanes(dtype, next, CHUNK)?);
            return self.shuffle(low, high, (0..CHUNK).map(|i| 2 * i + part.first()));
        }
        // Aligned as elements are.
        let elements = code.load(widened(code.int_type(size).into(), 2 * CHUNK), address, MEMORY)?;
        let words = code.b.build_bit_cast(elements, widened(code.int_type(2 * size).into(), CHUNK), "")?;
        let low = if part == Part::Odd { code.shr(words, i64::from(size))? } else { words };
        code.extend(low, size, false)
    }

    /// Writes both parts of consecutive elements to an address.
    fn store_parts(&self, [even, odd]: [Value<'c>; 2], address: IntValue<'c>) -> Built<()> {
        let (code, size) = (self.code, bits(even));
        if size == 32 {
            return code.store(self.interleave(even, odd)?, address, MEMORY);
        }
        // Joined where the lanes are of 32 bits, as what was rounded still is.
        let (even, odd) = (code.extend(even, 32, false)?, code.extend(odd, 32, false)?);
        let words = code.extend(code.or(even, code.shl(odd, i64::from(size))?)?, 2 * size, false)?;
        let elements = code.b.build_bit_cast(words, widened(code.int_type(size).into(), 2 * CHUNK), "")?;
        code.store(elements, address, MEMORY)
    }
}

impl<'c> Loops<'_, '_, '_, 'c> {
    /// Twice as many lanes as a chunk has of every sink: all loads come before all stores.
    pub(super) fn pair(&mut self, jobs: &[Job], open: &Open<'c>, pass: &Iteration<'_, 'c>) -> Built<()> {
        let (segment, base) = (self.eval.segment, pass.base);
        let mut parts: Vec<Vec<Value<'c>>> = Vec::new();
        for part in [Part::Even, Part::Odd] {
            let mark = self.enter_part(Stride::Pair, Some(part), pass);
            let value = |job: &Job| {
                let (pos, arg) = (Pos::at(base).plus_dim(&job.offset), plan::sink_value(segment, job.inst));
                self.eval.value(arg, self.eval.shape(arg), Some(&pos), CHUNK)
            };
            parts.push(jobs.iter().map(value).collect::<Built<_>>()?);
            self.eval.memo.leave(mark);
        }
        let mark = self.eval.memo.enter();
        for ((job, &even), &odd) in jobs.iter().zip(&parts[0]).zip(&parts[1]) {
            let (inst, pos) = (&segment.insts[job.inst], Pos::at(base).plus_dim(&job.offset));
            if let Some(acc) = open.get(&job.inst) {
                self.eval.accumulate(acc, even, 0)?;
                self.eval.accumulate(acc, odd, 0)?;
                continue;
            }
            let address = match &inst.op {
                InstOp::Store { param, index, .. } => self.eval.address(*param, index, Some(&pos))?,
                _ => self.eval.kept_place(plan::sink_value(segment, job.inst), &pos)?,
            };
            self.eval.store_parts([even, odd], address).map_err(|e| e.at(segment, inst))?;
        }
        self.eval.memo.leave(mark);
        Ok(())
    }

    /// Whether a loop can take even and odd lanes apart, and is the faster for it: nothing depends on the order of lanes,
    /// and more accesses are of narrow elements than of wide ones.
    pub(super) fn splits(&self, jobs: &[Job], open: &Open<'c>, in_group: bool) -> bool {
        let (eval, segment) = (&*self.eval, self.eval.segment);
        let mut accesses = Accesses::default();
        let mut seen = HashSet::new();
        jobs.iter().all(|job| {
            let inst = &segment.insts[job.inst];
            let fits = match (&inst.op, open.get(&job.inst)) {
                (_, Some(acc)) => acc.is_unordered(),
                (InstOp::Store { param, index, .. }, None) => {
                    inst.args.len() == 1 && consecutive(index) == 1 && accesses.count(eval.kernel.param(*param).dtype)
                }
                (_, None) if plan::is_sink(segment, job.inst) => false,
                _ => accesses.count(eval.dtype(plan::sink_value(segment, job.inst))),
            };
            fits && self.are_lanewise(plan::roots(segment, job.inst), &mut seen, &mut accesses, in_group)
        }) && accesses.narrow > accesses.wide
    }

    /// Whether lane `i` of values is made of lanes `i` in memory, one after the other, and of what is the same for all.
    fn are_lanewise(&self, roots: &[Val], seen: &mut HashSet<Val>, accesses: &mut Accesses, in_group: bool) -> bool {
        let mut open = roots.to_vec();
        while let Some(v) = open.pop() {
            if !matches!(self.eval.shape(v), Shape::Row(_)) || !seen.insert(v) {
                continue;
            }
            if self.eval.slots.get(&v).is_some_and(|slot| slot.filled) {
                if !accesses.count(self.eval.dtype(v)) {
                    return false;
                }
                continue;
            }
            let (_, inst) = self.eval.definition(v);
            // The loops over the parts of a row know which operand a part is of.
            let joined = matches!(inst.op, InstOp::Cat) && !in_group;
            if !joined && !self.is_lanewise(inst, accesses) {
                return false;
            }
            open.extend(&inst.args);
        }
        true
    }

    fn is_lanewise(&self, inst: &Inst, accesses: &mut Accesses) -> bool {
        match &inst.op {
            InstOp::Load { index, .. } if inst.args.is_empty() && !index.mentions(LANE) => true,
            InstOp::Load { param, index, .. } => {
                let whole = inst.args.is_empty() && consecutive(index) == 1;
                whole && accesses.count(self.eval.kernel.param(*param).dtype)
            }
            InstOp::Slice { step, .. } => *step == 1,
            InstOp::Map(_) | InstOp::Cast { .. } | InstOp::Bitcast(_) | InstOp::Broadcast(_) => true,
            _ => false,
        }
    }
}
