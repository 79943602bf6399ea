//! Chunks of elements that do not just follow each other in memory: every other element, runs of eight within which
//! they do, and elements of four bits, of which a byte holds two.

use cranelift_codegen::ir::InstBuilder;
use fusewright_graph::Dim;
use fusewright_graph::dim::product;

use super::eval::{Eval, Key};
use super::index::Pos;
use super::memory::{Lanes, Width};
use crate::backend::host::Taken;
use crate::backend::host::index::{consecutive, parity, runs_by_one};
use crate::kernel::{InstOp, LANE, ParamId};

impl Eval<'_, '_> {
    /// A chunk at a position, if whole vectors of memory hold it.
    pub(super) fn load_chunk(&mut self, param: ParamId, index: &Dim, pos: &Pos, width: Width) -> Taken<Option<Lanes>> {
        let dtype = self.kernel.param(param).dtype;
        match (dtype.bits(), consecutive(index)) {
            (4, 1) if width == Width::Eight && self.starts_even(index, pos) => {
                let address = self.byte_of(param, index, pos)?;
                Ok(Some(self.code.load_nibbles(dtype, address)))
            }
            (8..=32, 2) => self.load_alternate(param, index, pos, width),
            (8..=32, 0) if self.is_run(index, pos, width) => {
                let address = self.address(param, index, Some(pos))?;
                Ok(Some(self.code.load_lanes(dtype, address.pointer, address.offset, width)))
            }
            _ => Ok(None),
        }
    }

    /// Every other element: the even or the odd ones of twice as many. Those beside them have to be in memory.
    fn load_alternate(&mut self, param: ParamId, index: &Dim, pos: &Pos, width: Width) -> Taken<Option<Lanes>> {
        let param_type = self.kernel.param(param);
        let rest = index.split_linear(LANE).map(|(_, rest)| rest);
        let in_pairs = parity(&product(&param_type.shape)) == Some(false);
        let Some(odd) = rest.and_then(|rest| parity(&rest)).filter(|odd| *odd || in_pairs) else { return Ok(None) };
        let (dtype, start) = (param_type.dtype, index - &Dim::constant(i64::from(odd)));
        let part = |eval: &mut Self, pos: &Pos| -> Taken<_> {
            let key = Key::Pairs(param, start.clone(), pos.clone());
            let pairs = match eval.memo.known(&key) {
                Some(known) => known,
                None => {
                    let address = eval.address(param, &start, Some(pos))?;
                    let pairs = eval.code.load_lanes(dtype, address.pointer, address.offset, Width::Eight);
                    eval.remember_lanes(key, pairs)
                }
            };
            Ok(if odd { pairs.second.unwrap_or(pairs.first) } else { pairs.first })
        };
        let low = part(self, pos)?;
        if width == Width::Four {
            return Ok(Some(Lanes::one(low)));
        }
        let high = part(self, &pos.plus(4))?;
        Ok(Some(self.code.split_even_odd(low, high)))
    }

    /// Writes elements of four bits, two of which share a byte; no other row may have its part in one.
    pub(super) fn store_packed(&mut self, at: usize, value: Lanes, pos: Option<&Pos>, width: Width) -> Taken<()> {
        let inst = &self.segment.insts[at];
        let InstOp::Store { param, index, .. } = &inst.op else { return Err(self.refuse("not a store")) };
        let dtype = self.kernel.param(*param).dtype;
        if inst.args.len() > 1 {
            return Err(self.refuse(format!("a predicated store of {dtype} elements")));
        }
        let elements = self.segment.ty(inst.args[0]).shape.elements();
        let start = index.split_linear(LANE).map(|(_, rest)| rest);
        let whole = |dim: &Dim| parity(dim) == Some(false);
        let own = consecutive(index) == 1 && whole(&elements) && start.is_some_and(|start| whole(&start));
        let Some(pos) = pos.filter(|_| own) else {
            return Err(self.refuse(format!("rows of {dtype} elements that share bytes")));
        };
        if width == Width::Eight && self.starts_even(index, pos) {
            let address = self.byte_of(*param, index, pos)?;
            self.code.store_nibbles(dtype, value, address);
        } else {
            let base = self.buffers[param.0 as usize];
            for (i, lane) in self.code.scatter(value, dtype).into_iter().enumerate() {
                let element = self.element(index, Some(&pos.plus(i as i64)))?;
                self.code.store_nibble(dtype, lane, base, element);
            }
        }
        self.at = None;
        Ok(())
    }

    /// The address of the byte of an even element of four bits.
    fn byte_of(&mut self, param: ParamId, index: &Dim, pos: &Pos) -> Taken<cranelift_codegen::ir::Value> {
        let element = self.element(index, Some(pos))?;
        let byte = self.code.sar(element, 1);
        Ok(self.code.b.ins().iadd(self.buffers[param.0 as usize], byte))
    }

    /// Whether consecutive elements start at an even one.
    fn starts_even(&self, index: &Dim, pos: &Pos) -> bool {
        let start = index.split_linear(LANE).map(|(_, rest)| &rest + &pos.offset);
        (pos.scale % 2 == 0 || self.even_base(pos.base)) && start.is_some_and(|start| parity(&start) == Some(false))
    }

    /// Whether a chunk of eight at a position lies in one piece, though others of the row need not follow it.
    pub(super) fn is_run(&self, index: &Dim, pos: &Pos, width: Width) -> bool {
        width == Width::Eight && self.starts_at_eight(pos) && runs_by_one(index, 8)
    }

    /// Says whether a position is a multiple of eight in every pass.
    fn starts_at_eight(&self, pos: &Pos) -> bool {
        let whole = self.pass.as_ref().is_some_and(|pass| pass.base == pos.base && pass.multiple % 8 == 0);
        whole && pos.scale == 1 && pos.offset.as_const().is_some_and(|offset| offset % 8 == 0)
    }
}
