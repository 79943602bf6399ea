//! The LLVM builder as backends use it: one function under construction, typed shorthands, intrinsics by name.
//!
//! Addresses are computed as integers and cast to pointers of their address space, which needs no unsafe indexing and
//! costs nothing: there is no type-based reasoning to lose.

use fusewright_abi::DType;
use inkwell::basic_block::BasicBlock;
use inkwell::builder::Builder;
use inkwell::context::Context;
use inkwell::intrinsics::Intrinsic;
use inkwell::module::Module;
use inkwell::types::{BasicTypeEnum, IntType};
use inkwell::values::{BasicValue, FunctionValue, IntValue};
use inkwell::{AddressSpace, IntPredicate};

use super::{BuildError, Built, Dialect, Value};

/// A function under construction.
pub(in crate::backend) struct Code<'c> {
    pub ctx: &'c Context,
    pub module: Module<'c>,
    pub b: Builder<'c>,
    pub function: FunctionValue<'c>,
    pub dialect: &'c dyn Dialect,
}

impl<'c> Code<'c> {
    pub fn i64(&self, value: i64) -> IntValue<'c> {
        self.ctx.i64_type().const_int(value as u64, true)
    }

    pub fn i32(&self, value: i64) -> IntValue<'c> {
        self.ctx.i32_type().const_int(value as u64, true)
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

    /// Calls an intrinsic that returns a value.
    pub fn call(&self, name: &str, overload: &[BasicTypeEnum<'c>], args: &[Value<'c>]) -> Built<Value<'c>> {
        self.call_raw(name, overload, args)?.ok_or_else(|| BuildError::Llvm(format!("`{name}` returns nothing")))
    }

    /// Calls an intrinsic for its effect.
    pub fn effect(&self, name: &str, overload: &[BasicTypeEnum<'c>], args: &[Value<'c>]) -> Built<()> {
        self.call_raw(name, overload, args).map(|_| ())
    }

    fn call_raw(&self, name: &str, overload: &[BasicTypeEnum<'c>], args: &[Value<'c>]) -> Built<Option<Value<'c>>> {
        let missing = || BuildError::Llvm(format!("this LLVM has no `{name}`"));
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
        self.b.get_insert_block().ok_or_else(|| BuildError::Llvm("no block is being filled".into()))
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

    /// An unsigned integer of another width.
    pub fn resize(&self, value: IntValue<'c>, bits: u32) -> Built<IntValue<'c>> {
        Ok(self.b.build_int_cast_sign_flag(value, self.int_type(bits), false, "")?)
    }

    /// Loads a value of a type from an integer address, aligned as its elements.
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
        let Some(inst) = inst else { return Ok(()) };
        inst.set_alignment(element_bits(ty).div_ceil(8)).map_err(|e| BuildError::Llvm(e.to_string()))
    }
}

/// Bits of an element of a type.
pub(in crate::backend) fn element_bits(ty: BasicTypeEnum<'_>) -> u32 {
    match ty {
        BasicTypeEnum::IntType(t) => t.get_bit_width(),
        BasicTypeEnum::FloatType(t) => t.get_bit_width(),
        BasicTypeEnum::VectorType(t) => element_bits(t.get_element_type()),
        _ => 8,
    }
}
