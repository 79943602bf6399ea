//! Stack memory of values that are kept between loops.
//!
//! Behind the lanes there is room for one more chunk, so that the last one is stored and loaded whole. A loop over part of
//! the lanes, or over those of a group, stores no more than these.

use fusewright_abi::DType;
use inkwell::values::IntValue;

use super::address::Pos;
use super::eval::{CHUNK, Eval};
use crate::backend::host::place::Slot;
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::Val;

impl<'c> Eval<'_, '_, 'c> {
    /// Stack memory for that many lanes.
    pub fn lanes_memory(&self, dtype: DType, lanes: i64) -> Built<IntValue<'c>> {
        let bytes = i64::from(dtype.bits() / 8);
        // The widest chunk is what is packed into one element of a chunk of the result.
        self.stack((lanes + 8 * i64::from(CHUNK)) * bytes)
    }

    /// A stored value at a position, if its lanes are known to be there.
    pub fn load_kept(&mut self, v: Val, pos: &Pos<'c>, width: u32) -> Built<Option<Value<'c>>> {
        let Some(slot) = self.slots.get(&v).copied().filter(|slot| slot.filled) else { return Ok(None) };
        if slot.group.is_some_and(|index| !self.inside_group(index, pos, width)) {
            return Ok(None);
        }
        let address = self.kept_address(v, slot, pos)?;
        self.load_consecutive(self.dtype(v), address, width).map(Some)
    }

    /// Stores lanes of a value that has a slot, those of a mask if others lie behind them.
    pub fn store_kept(&mut self, v: Val, lanes: Value<'c>, pos: &Pos<'c>, mask: Option<Value<'c>>) -> Built<()> {
        let address = self.kept_place(v, pos)?;
        match mask {
            None => self.store_lanes(self.dtype(v), lanes, address),
            Some(mask) => {
                let lanes = self.to_memory(lanes, self.dtype(v))?;
                self.store_masked(lanes, address, mask)
            }
        }
    }

    /// Where lanes of a value that has a slot are, from a position on.
    pub fn kept_place(&mut self, v: Val, pos: &Pos<'c>) -> Built<IntValue<'c>> {
        let Some(slot) = self.slots.get(&v).copied() else {
            return Err(BuildError::Llvm("a value that is kept has no memory".into()));
        };
        self.kept_address(v, slot, pos)
    }

    /// Whether lanes from a position on belong to the group that the loop is in, and that group is `index`.
    fn inside_group(&self, index: IntValue<'c>, pos: &Pos<'c>, width: u32) -> bool {
        let (Some(group), Some(pass)) = (&self.group, &self.pass) else { return false };
        group.covers(index, pass.base, pos, i64::from(width))
    }

    fn kept_address(&mut self, v: Val, slot: Slot<IntValue<'c>>, pos: &Pos<'c>) -> Built<IntValue<'c>> {
        let lane = self.lane(pos)?;
        let distance = self.scaled(lane, i64::from(self.dtype(v).bits() / 8))?;
        self.code.add(slot.address, distance)
    }
}
