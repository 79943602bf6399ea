//! Stack memory of values that are kept between loops.

use cranelift_codegen::ir::{InstBuilder, Value};

use super::eval::{Eval, Key};
use super::index::{Address, Pos};
use super::memory::{Lanes, Width};
use crate::backend::host::Taken;
use crate::backend::host::index::split_constant;
use crate::backend::host::place::Slot;
use crate::kernel::Val;

impl Eval<'_, '_> {
    /// A stored value at a position, if its lanes are known to be there.
    pub(super) fn load_kept(&mut self, v: Val, pos: &Pos, width: Width) -> Taken<Option<Lanes>> {
        let Some(slot) = self.slots.get(&v).copied().filter(|slot| slot.filled) else { return Ok(None) };
        if slot.group.is_some_and(|index| !self.inside_group(index, pos, width)) {
            return Ok(None);
        }
        let address = self.kept_address(v, slot, pos)?;
        Ok(Some(self.code.load_lanes(self.dtype(v), address.pointer, address.offset, width)))
    }

    /// A scalar that a slot has for every inner row, of the one at `pos`.
    pub(super) fn load_carried(&mut self, v: Val, pos: &Pos) -> Taken<Value> {
        let Some(slot) = self.slots.get(&v).copied() else { return Err(self.refuse("a scalar without a slot")) };
        let address = self.kept_address(v, slot, pos)?;
        Ok(self.code.load_lanes(self.dtype(v), address.pointer, address.offset, Width::One).first)
    }

    /// Stores lanes of a value that has a slot.
    pub(super) fn store_kept(&mut self, v: Val, lanes: Lanes, pos: &Pos, width: Width) -> Taken<()> {
        let Some(slot) = self.slots.get(&v).copied() else { return Err(self.refuse("a value without a slot")) };
        let address = self.kept_address(v, slot, pos)?;
        self.code.store_lanes(self.dtype(v), lanes, address.pointer, address.offset, width);
        Ok(())
    }

    /// Whether lanes from a position on belong to the group that the loop is in, and that group is `index`.
    fn inside_group(&self, index: Value, pos: &Pos, width: Width) -> bool {
        let (Some(group), Some(pass)) = (&self.group, &self.pass) else { return false };
        group.covers(index, pass.base, pos, width.lanes())
    }

    fn kept_address(&mut self, v: Val, slot: Slot<Value>, pos: &Pos) -> Taken<Address> {
        let bytes = i64::from(self.dtype(v).bits() / 8);
        let (start, constant) = split_constant(&pos.offset);
        let near = constant.checked_mul(bytes).and_then(|c| i32::try_from(c).ok()).filter(|c| c.abs() < 1 << 30);
        let from =
            Pos { base: pos.base, scale: pos.scale, offset: if near.is_some() { start } else { pos.offset.clone() } };
        let key = Key::Kept(v, from.clone());
        let pointer = match self.memo.known(&key) {
            Some(known) => known.first,
            None => {
                let lane = self.lane(&from)?;
                let distance = self.scaled(lane, bytes);
                let pointer = self.code.b.ins().iadd(slot.address, distance);
                self.remember(key, pointer)
            }
        };
        Ok(Address { pointer, offset: near.unwrap_or(0) })
    }
}
