//! What only GPU code has: memory of one block, barriers, and values that go from thread to thread.

use inkwell::AddressSpace;
use inkwell::module::Linkage;
use inkwell::types::{BasicType, BasicTypeEnum};
use inkwell::values::{BasicValue, InstructionValue, IntValue};

use crate::backend::llvm::code::Code;
use crate::backend::llvm::{BuildError, Built, Value};

/// Device memory.
pub(super) const GLOBAL: u16 = 1;
/// Memory of one block.
pub(super) const SHARED: u16 = 3;
/// Bytes of the widest loads and stores of a thread.
pub(super) const WIDEST: u32 = 16;

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

    /// The address of the shared memory whose size launches state.
    pub fn stated_shared(&self) -> Built<IntValue<'c>> {
        const NAME: &str = "stated";
        let global = self.module.get_global(NAME).unwrap_or_else(|| {
            let ty = self.ctx.i8_type().array_type(0);
            let global = self.module.add_global(ty, Some(AddressSpace::from(SHARED)), NAME);
            global.set_linkage(Linkage::External);
            global.set_alignment(WIDEST);
            global
        });
        Ok(self.b.build_ptr_to_int(global.as_pointer_value(), self.ctx.i64_type(), "")?)
    }

    /// Loads so many bytes, a power of two or a multiple of 16, from an address that is a multiple of them or of 16, as
    /// words of 32 bits. What is less than a word is in the low bits.
    pub fn load_words(&self, address: IntValue<'c>, bytes: u32, space: u16) -> Built<Vec<IntValue<'c>>> {
        let mut words = Vec::new();
        for first in (0..bytes).step_by(WIDEST as usize) {
            let address = self.add(address, self.i64(i64::from(first)))?;
            let pointer = self.b.build_int_to_ptr(address, self.ctx.ptr_type(AddressSpace::from(space)), "")?;
            let bytes = (bytes - first).min(WIDEST);
            let ty: BasicTypeEnum<'c> = match bytes {
                ..=4 => self.int_type(8 * bytes).into(),
                _ => self.ctx.i32_type().vec_type(bytes / 4).into(),
            };
            let loaded = self.b.build_load(ty, pointer, "")?;
            self.aligned(loaded.as_instruction_value(), bytes)?;
            match loaded {
                Value::VectorValue(vector) => {
                    for i in 0..bytes / 4 {
                        let word = self.b.build_extract_element(vector, self.i32(i64::from(i)), "")?;
                        words.push(word.into_int_value());
                    }
                }
                _ => words.push(self.resize(loaded.into_int_value(), 32)?),
            }
        }
        Ok(words)
    }

    /// Stores words, or one integer of at most 64 bits, to an address that is a multiple of their bytes, or of 16.
    pub fn store_words(&self, words: &[IntValue<'c>], address: IntValue<'c>, space: u16) -> Built<()> {
        let most = WIDEST as usize * 8 / words.first().map_or(32, |word| word.get_type().get_bit_width() as usize);
        for (i, words) in words.chunks(most).enumerate() {
            let address = self.add(address, self.i64(i as i64 * i64::from(WIDEST)))?;
            let pointer = self.b.build_int_to_ptr(address, self.ctx.ptr_type(AddressSpace::from(space)), "")?;
            let bytes = words.iter().map(|word| word.get_type().get_bit_width() / 8).sum();
            let stored: Value<'c> = match words {
                [word] => (*word).into(),
                _ => {
                    let mut vector = words[0].get_type().vec_type(words.len() as u32).get_undef();
                    for (j, word) in words.iter().enumerate() {
                        vector = self.b.build_insert_element(vector, *word, self.i32(j as i64), "")?;
                    }
                    vector.into()
                }
            };
            let store = self.b.build_store(pointer, stored)?;
            self.aligned(Some(store), bytes)?;
        }
        Ok(())
    }

    fn aligned(&self, inst: Option<InstructionValue<'c>>, bytes: u32) -> Built<()> {
        let Some(inst) = inst else { return Ok(()) };
        inst.set_alignment(bytes).map_err(|e| BuildError::Llvm(e.to_string()))
    }

    /// An instruction that has no operands and that no access of memory is moved across.
    pub fn assembly(&self, text: &str) -> Built<()> {
        let ty = self.ctx.void_type().fn_type(&[], false);
        let asm = self.ctx.create_inline_asm(ty, text.to_owned(), "~{memory}".to_owned(), true, false, None, false);
        self.b.build_indirect_call(ty, asm, &[], "")?;
        Ok(())
    }

    /// A condition that all threads of a warp have alike, so that the assembler knows it: threads that exchange values
    /// behind a branch on it are there together.
    pub fn of_warp(&self, condition: IntValue<'c>) -> Built<IntValue<'c>> {
        let args = [self.i32(-1).into(), condition.into()];
        Ok(self.call("llvm.nvvm.vote.any.sync", &[], &args)?.into_int_value())
    }

    /// Waits until every thread of the block is here.
    pub fn barrier(&self) -> Built<()> {
        self.effect("llvm.nvvm.barrier.cta.sync.aligned.all", &[], &[self.i32(0).into()])
    }

    /// The value of the lane `offset` above in the team of `width` lanes (a power of two).
    pub fn shuffle_down(&self, value: Value<'c>, offset: u32, width: u32) -> Built<Value<'c>> {
        let clamp = ((32 - i64::from(width)) << 8) | 31;
        self.shuffled(value, &|word| self.shuffle_word("down", word, offset, clamp))
    }

    /// The value of the lane whose number differs by `offset`, a power of two: both lanes get each other's.
    pub fn shuffle_across(&self, value: Value<'c>, offset: u32) -> Built<Value<'c>> {
        self.shuffled(value, &|word| self.shuffle_word("bfly", word, offset, 31))
    }

    /// The value of one of each team of `width` lanes (a power of two).
    pub fn shuffle_from(&self, value: Value<'c>, lane: u32, width: u32) -> Built<Value<'c>> {
        let clamp = ((32 - i64::from(width)) << 8) | 31;
        self.shuffled(value, &|word| self.shuffle_word("idx", word, lane, clamp))
    }

    fn shuffled(&self, value: Value<'c>, word: &dyn Fn(IntValue<'c>) -> Built<IntValue<'c>>) -> Built<Value<'c>> {
        let ty = value.get_type();
        let bits = match ty {
            BasicTypeEnum::FloatType(t) => t.get_bit_width(),
            BasicTypeEnum::IntType(t) => t.get_bit_width(),
            _ => return Err(BuildError::Llvm("only numbers are shuffled".into())),
        };
        let raw = self.bits(value, self.int_type(bits))?.into_int_value();
        let moved = if bits == 64 {
            let high = self.b.build_right_shift(raw, self.i64(32), false, "")?;
            let low = word(self.resize(raw, 32)?)?;
            let high = word(self.resize(high, 32)?)?;
            let high = self.b.build_left_shift(self.resize(high, 64)?, self.i64(32), "")?;
            self.b.build_or(high, self.resize(low, 64)?, "")?
        } else {
            self.resize(word(self.resize(raw, 32)?)?, bits)?
        };
        self.bits(moved, ty)
    }

    fn shuffle_word(&self, way: &str, word: IntValue<'c>, offset: u32, clamp: i64) -> Built<IntValue<'c>> {
        let args = [self.i32(-1).into(), word.into(), self.i32(i64::from(offset)).into(), self.i32(clamp).into()];
        Ok(self.call(&format!("llvm.nvvm.shfl.sync.{way}.i32"), &[], &args)?.into_int_value())
    }
}
