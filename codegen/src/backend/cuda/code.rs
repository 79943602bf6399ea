//! What only GPU code has: memory of one block, barriers, and values that go from thread to thread.

use inkwell::AddressSpace;
use inkwell::module::Linkage;
use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::IntValue;

use crate::backend::llvm::code::Code;
use crate::backend::llvm::{BuildError, Built, Value};

/// Device memory.
pub(super) const GLOBAL: u16 = 1;
/// Memory of one block.
pub(super) const SHARED: u16 = 3;

impl<'c> Code<'c> {
    /// An array in shared memory; yields its address as an integer.
    pub fn shared_array(&self, name: &str, element: BasicTypeEnum<'c>, count: u32) -> Built<IntValue<'c>> {
        let ty = element.array_type(count);
        let global = self.module.add_global(ty, Some(AddressSpace::from(SHARED)), name);
        global.set_linkage(Linkage::Internal);
        global.set_initializer(&ty.get_undef());
        global.set_alignment(16);
        Ok(self.b.build_ptr_to_int(global.as_pointer_value(), self.ctx.i64_type(), "")?)
    }

    /// Waits until every thread of the block is here.
    pub fn barrier(&self) -> Built<()> {
        self.effect("llvm.nvvm.barrier.cta.sync.aligned.all", &[], &[self.i32(0).into()])
    }

    /// The value of the lane `offset` above in the team of `width` lanes (a power of two).
    pub fn shuffle_down(&self, value: Value<'c>, offset: u32, width: u32) -> Built<Value<'c>> {
        let ty = value.get_type();
        let bits = match ty {
            BasicTypeEnum::FloatType(t) => t.get_bit_width(),
            BasicTypeEnum::IntType(t) => t.get_bit_width(),
            _ => return Err(BuildError::Llvm("only numbers are shuffled".into())),
        };
        let raw = self.bits(value, self.int_type(bits))?.into_int_value();
        let moved = if bits == 64 {
            let high = self.b.build_right_shift(raw, self.i64(32), false, "")?;
            let low = self.shuffle_word(self.resize(raw, 32)?, offset, width)?;
            let high = self.shuffle_word(self.resize(high, 32)?, offset, width)?;
            let high = self.b.build_left_shift(self.resize(high, 64)?, self.i64(32), "")?;
            self.b.build_or(high, self.resize(low, 64)?, "")?
        } else {
            self.resize(self.shuffle_word(self.resize(raw, 32)?, offset, width)?, bits)?
        };
        self.bits(moved, ty)
    }

    fn shuffle_word(&self, word: IntValue<'c>, offset: u32, width: u32) -> Built<IntValue<'c>> {
        let clamp = ((32 - i64::from(width)) << 8) | 31;
        let args = [self.i32(-1).into(), word.into(), self.i32(i64::from(offset)).into(), self.i32(clamp).into()];
        Ok(self.call("llvm.nvvm.shfl.sync.down.i32", &[], &args)?.into_int_value())
    }
}
