//! The LLVM builder as this backend uses it: one function under construction, typed shorthands, intrinsics by name.
//!
//! Addresses are computed as integers and cast to pointers of their address space, which needs no unsafe indexing and
//! costs nothing: the target has no type-based reasoning to lose.

use fusewright_abi::DType;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::module::{Linkage, Module};
use inkwell::types::{BasicType, BasicTypeEnum, FloatType, IntType};
use inkwell::values::{BasicValue, BasicValueEnum, FloatValue, FunctionValue, IntValue};
use inkwell::{AddressSpace, FloatPredicate, IntPredicate};

use super::EmitError;

/// Device memory.
pub(super) const GLOBAL: u16 = 1;
/// Memory of one block.
pub(super) const SHARED: u16 = 3;

/// A function under construction.
pub(super) struct Code<'c> {
    pub ctx: &'c Context,
    pub module: Module<'c>,
    pub b: Builder<'c>,
    pub function: FunctionValue<'c>,
}

pub(super) type Value<'c> = BasicValueEnum<'c>;
pub(super) type Built<T> = Result<T, EmitError>;

impl<'c> Code<'c> {
    pub fn i64(&self, value: i64) -> IntValue<'c> {
        self.ctx.i64_type().const_int(value as u64, true)
    }

    pub fn i32(&self, value: i64) -> IntValue<'c> {
        self.ctx.i32_type().const_int(value as u64, true)
    }

    pub fn f32(&self, value: f32) -> FloatValue<'c> {
        // Through f64 every f32 is exact, NaN aside, which LLVM keeps as a quiet NaN.
        self.ctx.f32_type().const_float(f64::from(value))
    }

    pub fn bool(&self, value: bool) -> IntValue<'c> {
        self.ctx.bool_type().const_int(u64::from(value), false)
    }

    /// The type that values of a dtype are computed in. Narrow floats are carried as their bits.
    pub fn type_of(&self, dtype: DType) -> BasicTypeEnum<'c> {
        match dtype {
            DType::F64 => self.ctx.f64_type().into(),
            DType::F32 => self.ctx.f32_type().into(),
            DType::Bool => self.ctx.bool_type().into(),
            _ => self.int_type(dtype.bits().max(8)).into(),
        }
    }

    pub fn int_type(&self, bits: u32) -> IntType<'c> {
        match bits {
            1 => self.ctx.bool_type(),
            8 => self.ctx.i8_type(),
            16 => self.ctx.i16_type(),
            32 => self.ctx.i32_type(),
            _ => self.ctx.i64_type(),
        }
    }

    pub fn float_type(&self, dtype: DType) -> FloatType<'c> {
        if dtype == DType::F64 { self.ctx.f64_type() } else { self.ctx.f32_type() }
    }

    /// Calls an intrinsic that returns a value.
    pub fn call(&self, name: &str, overload: &[BasicTypeEnum<'c>], args: &[Value<'c>]) -> Built<Value<'c>> {
        self.call_raw(name, overload, args)?.ok_or_else(|| EmitError::Llvm(format!("`{name}` returns nothing")))
    }

    /// Calls an intrinsic for its effect.
    pub fn effect(&self, name: &str, args: &[Value<'c>]) -> Built<()> {
        self.call_raw(name, &[], args).map(|_| ())
    }

    fn call_raw(&self, name: &str, overload: &[BasicTypeEnum<'c>], args: &[Value<'c>]) -> Built<Option<Value<'c>>> {
        let missing = || EmitError::Llvm(format!("this LLVM has no `{name}`"));
        let intrinsic = Intrinsic::find(name).ok_or_else(missing)?;
        let overload = if intrinsic.is_overloaded() { overload } else { &[] };
        let callee = intrinsic.get_declaration(&self.module, overload).ok_or_else(missing)?;
        let args: Vec<_> = args.iter().map(|&a| a.into()).collect();
        Ok(self.b.build_call(callee, &args, "")?.try_as_basic_value().basic())
    }

    pub fn block(&self) -> BasicBlock<'c> {
        self.ctx.append_basic_block(self.function, "")
    }

    /// The block that is being filled.
    pub fn here(&self) -> Built<BasicBlock<'c>> {
        self.b.get_insert_block().ok_or_else(|| EmitError::Llvm("no block is being filled".into()))
    }

    /// Ends the current block with a jump to a new one, which becomes the current one.
    pub fn fall_into_new_block(&self) -> Built<BasicBlock<'c>> {
        let next = self.block();
        self.b.build_unconditional_branch(next)?;
        self.b.position_at_end(next);
        Ok(next)
    }

    pub fn merge(&self, paths: &[(Value<'c>, BasicBlock<'c>)]) -> Built<Value<'c>> {
        let phi = self.b.build_phi(paths[0].0.get_type(), "")?;
        for (value, block) in paths {
            phi.add_incoming(&[(value as &dyn BasicValue<'c>, *block)]);
        }
        Ok(phi.as_basic_value())
    }

    pub fn add(&self, a: IntValue<'c>, b: IntValue<'c>) -> Built<IntValue<'c>> {
        Ok(self.b.build_int_add(a, b, "")?)
    }

    pub fn mul(&self, a: IntValue<'c>, b: IntValue<'c>) -> Built<IntValue<'c>> {
        Ok(self.b.build_int_mul(a, b, "")?)
    }

    pub fn cmp(&self, p: IntPredicate, a: IntValue<'c>, b: IntValue<'c>) -> Built<IntValue<'c>> {
        Ok(self.b.build_int_compare(p, a, b, "")?)
    }

    pub fn fcmp(&self, p: FloatPredicate, a: FloatValue<'c>, b: FloatValue<'c>) -> Built<IntValue<'c>> {
        Ok(self.b.build_float_compare(p, a, b, "")?)
    }

    pub fn select(&self, c: IntValue<'c>, a: impl Into<Value<'c>>, b: impl Into<Value<'c>>) -> Built<Value<'c>> {
        Ok(self.b.build_select(c, a.into(), b.into(), "")?)
    }

    pub fn bits(&self, value: impl Into<Value<'c>>, to: impl BasicType<'c>) -> Built<Value<'c>> {
        Ok(self.b.build_bit_cast(value.into(), to.as_basic_type_enum(), "")?)
    }

    /// Bits of an f32.
    pub fn f32_bits(&self, value: FloatValue<'c>) -> Built<IntValue<'c>> {
        Ok(self.bits(value, self.ctx.i32_type())?.into_int_value())
    }

    /// The f32 of 32 bits.
    pub fn bits_f32(&self, value: IntValue<'c>) -> Built<FloatValue<'c>> {
        Ok(self.bits(value, self.ctx.f32_type())?.into_float_value())
    }

    /// An unsigned integer of another width.
    pub fn resize(&self, value: IntValue<'c>, bits: u32) -> Built<IntValue<'c>> {
        Ok(self.b.build_int_cast_sign_flag(value, self.int_type(bits), false, "")?)
    }

    /// Loads a value of a type from an integer address.
    pub fn load(&self, ty: BasicTypeEnum<'c>, address: IntValue<'c>, space: u16) -> Built<Value<'c>> {
        let ptr = self.b.build_int_to_ptr(address, self.ctx.ptr_type(AddressSpace::from(space)), "")?;
        let value = self.b.build_load(ty, ptr, "")?;
        self.align(value.as_instruction_value(), ty)?;
        Ok(value)
    }

    /// Stores a value to an integer address.
    pub fn store(&self, value: Value<'c>, address: IntValue<'c>, space: u16) -> Built<()> {
        let ptr = self.b.build_int_to_ptr(address, self.ctx.ptr_type(AddressSpace::from(space)), "")?;
        let store = self.b.build_store(ptr, value)?;
        self.align(Some(store), value.get_type())
    }

    fn align(&self, inst: Option<inkwell::values::InstructionValue<'c>>, ty: BasicTypeEnum<'c>) -> Built<()> {
        let bits = match ty {
            BasicTypeEnum::IntType(t) => t.get_bit_width(),
            BasicTypeEnum::FloatType(t) => t.get_bit_width(),
            _ => 8,
        };
        let Some(inst) = inst else { return Ok(()) };
        inst.set_alignment(bits.div_ceil(8)).map_err(|e| EmitError::Llvm(e.to_string()))
    }

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
        self.effect("llvm.nvvm.barrier.cta.sync.aligned.all", &[self.i32(0).into()])
    }

    /// The value of the lane `offset` above in the team of `width` lanes (a power of two).
    pub fn shuffle_down(&self, value: Value<'c>, offset: u32, width: u32) -> Built<Value<'c>> {
        let ty = value.get_type();
        let bits = match ty {
            BasicTypeEnum::FloatType(t) => t.get_bit_width(),
            BasicTypeEnum::IntType(t) => t.get_bit_width(),
            _ => return Err(EmitError::Llvm("only numbers are shuffled".into())),
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
