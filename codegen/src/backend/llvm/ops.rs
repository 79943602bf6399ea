//! Arithmetic that is the same for one element and for a vector of lanes. A constant takes the type of another operand.

use inkwell::types::{BasicType, BasicTypeEnum, FloatType, VectorType};
use inkwell::values::{BasicValue, InstructionOpcode};
use inkwell::{FloatPredicate, IntPredicate};

use super::code::{Code, element_bits};
use super::{BuildError, Built, Value};

/// How many lanes a value has: one if it is no vector.
pub(in crate::backend) fn lanes(v: Value<'_>) -> u32 {
    match v {
        Value::VectorValue(v) => v.get_type().get_size(),
        _ => 1,
    }
}

/// The type of one lane of a value.
pub(in crate::backend) fn element<'c>(v: Value<'c>) -> BasicTypeEnum<'c> {
    match v.get_type() {
        BasicTypeEnum::VectorType(t) => t.get_element_type(),
        other => other,
    }
}

/// Bits of one lane of a value.
pub(in crate::backend) fn bits(v: Value<'_>) -> u32 {
    element_bits(v.get_type())
}

/// That many lanes of a type.
pub(in crate::backend) fn widened<'c>(ty: BasicTypeEnum<'c>, lanes: u32) -> BasicTypeEnum<'c> {
    match (ty, lanes) {
        (_, 1) => ty,
        (BasicTypeEnum::FloatType(t), _) => t.vec_type(lanes).into(),
        (BasicTypeEnum::IntType(t), _) => t.vec_type(lanes).into(),
        _ => ty,
    }
}

impl<'c> Code<'c> {
    /// A constant in every lane.
    pub fn splat_const(&self, value: Value<'c>, lanes: u32) -> Value<'c> {
        if lanes == 1 {
            return value;
        }
        match value {
            Value::FloatValue(v) => VectorType::const_vector(&vec![v; lanes as usize]).into(),
            Value::IntValue(v) => VectorType::const_vector(&vec![v; lanes as usize]).into(),
            other => other,
        }
    }

    /// An integer constant of the integer type as wide as a lane of `like`, in as many lanes.
    pub fn int(&self, like: Value<'c>, value: i64) -> Value<'c> {
        self.splat_const(self.int_type(bits(like)).const_int(value as u64, true).into(), lanes(like))
    }

    /// A float constant of the type of `like`.
    pub fn float(&self, like: Value<'c>, value: f64) -> Value<'c> {
        let ty = if bits(like) == 64 { self.ctx.f64_type() } else { self.ctx.f32_type() };
        self.splat_const(ty.const_float(value).into(), lanes(like))
    }

    pub fn op(&self, op: InstructionOpcode, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        Ok(self.b.build_binop(op, a, b, "")?)
    }

    pub fn iadd(&self, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        self.op(InstructionOpcode::Add, a, b)
    }

    pub fn isub(&self, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        self.op(InstructionOpcode::Sub, a, b)
    }

    pub fn and(&self, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        self.op(InstructionOpcode::And, a, b)
    }

    pub fn or(&self, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        self.op(InstructionOpcode::Or, a, b)
    }

    pub fn xor(&self, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        self.op(InstructionOpcode::Xor, a, b)
    }

    pub fn fmul(&self, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        self.op(InstructionOpcode::FMul, a, b)
    }

    /// `a + value`, of integers.
    pub fn plus(&self, a: Value<'c>, value: i64) -> Built<Value<'c>> {
        self.iadd(a, self.int(a, value))
    }

    /// The bits of `a` that a mask has.
    pub fn masked(&self, a: Value<'c>, mask: i64) -> Built<Value<'c>> {
        self.and(a, self.int(a, mask))
    }

    pub fn shl(&self, a: Value<'c>, by: i64) -> Built<Value<'c>> {
        self.op(InstructionOpcode::Shl, a, self.int(a, by))
    }

    /// Logical shift right.
    pub fn shr(&self, a: Value<'c>, by: i64) -> Built<Value<'c>> {
        self.op(InstructionOpcode::LShr, a, self.int(a, by))
    }

    /// Arithmetic shift right.
    pub fn sar(&self, a: Value<'c>, by: i64) -> Built<Value<'c>> {
        self.op(InstructionOpcode::AShr, a, self.int(a, by))
    }

    /// `0 − a`, of integers.
    pub fn ineg(&self, a: Value<'c>) -> Built<Value<'c>> {
        self.isub(self.int(a, 0), a)
    }

    pub fn not(&self, a: Value<'c>) -> Built<Value<'c>> {
        self.xor(a, self.int(a, -1))
    }

    pub fn fneg(&self, a: Value<'c>) -> Built<Value<'c>> {
        match a {
            Value::FloatValue(v) => Ok(self.b.build_float_neg(v, "")?.into()),
            Value::VectorValue(v) => Ok(self.b.build_float_neg(v, "")?.into()),
            _ => Err(BuildError::Llvm("only floats have a sign bit".into())),
        }
    }

    pub fn icmp(&self, p: IntPredicate, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        match (a, b) {
            (Value::IntValue(a), Value::IntValue(b)) => Ok(self.b.build_int_compare(p, a, b, "")?.into()),
            (Value::VectorValue(a), Value::VectorValue(b)) => Ok(self.b.build_int_compare(p, a, b, "")?.into()),
            _ => Err(BuildError::Llvm("operands of different kinds are compared".into())),
        }
    }

    /// Compares integers with a constant.
    pub fn icmp_const(&self, p: IntPredicate, a: Value<'c>, b: i64) -> Built<Value<'c>> {
        self.icmp(p, a, self.int(a, b))
    }

    pub fn fcmp(&self, p: FloatPredicate, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        match (a, b) {
            (Value::FloatValue(a), Value::FloatValue(b)) => Ok(self.b.build_float_compare(p, a, b, "")?.into()),
            (Value::VectorValue(a), Value::VectorValue(b)) => Ok(self.b.build_float_compare(p, a, b, "")?.into()),
            _ => Err(BuildError::Llvm("operands of different kinds are compared".into())),
        }
    }

    /// `a` where the condition holds, else `b`.
    pub fn select(
        &self,
        c: impl Into<Value<'c>>,
        a: impl Into<Value<'c>>,
        b: impl Into<Value<'c>>,
    ) -> Built<Value<'c>> {
        let (a, b) = (a.into(), b.into());
        match c.into() {
            Value::IntValue(c) => Ok(self.b.build_select(c, a, b, "")?),
            Value::VectorValue(c) => Ok(self.b.build_select(c, a, b, "")?),
            _ => Err(BuildError::Llvm("a condition is no boolean".into())),
        }
    }

    /// The same bits as lanes of another type of equal width.
    pub fn bits(&self, value: impl Into<Value<'c>>, to: impl BasicType<'c>) -> Built<Value<'c>> {
        let value = value.into();
        Ok(self.b.build_bit_cast(value, widened(to.as_basic_type_enum(), lanes(value)), "")?)
    }

    /// The bits of a float as an integer of its width.
    pub fn bits_of(&self, value: Value<'c>) -> Built<Value<'c>> {
        self.bits(value, self.int_type(bits(value)))
    }

    /// The float of 32 or 64 bits.
    pub fn float_of(&self, value: Value<'c>) -> Built<Value<'c>> {
        let ty = if bits(value) == 64 { self.ctx.f64_type() } else { self.ctx.f32_type() };
        self.bits(value, ty)
    }

    fn convert(&self, op: InstructionOpcode, value: Value<'c>, to: BasicTypeEnum<'c>) -> Built<Value<'c>> {
        Ok(self.b.build_cast(op, value, widened(to, lanes(value)), "")?)
    }

    /// An integer of another width.
    pub fn extend(&self, value: Value<'c>, width: u32, signed: bool) -> Built<Value<'c>> {
        let op = match width.cmp(&bits(value)) {
            std::cmp::Ordering::Equal => return Ok(value),
            std::cmp::Ordering::Less => InstructionOpcode::Trunc,
            std::cmp::Ordering::Greater if signed => InstructionOpcode::SExt,
            std::cmp::Ordering::Greater => InstructionOpcode::ZExt,
        };
        self.convert(op, value, self.int_type(width).into())
    }

    /// A float of another width, rounded to the nearest even where that is narrower.
    pub fn float_width(&self, value: Value<'c>, to: FloatType<'c>) -> Built<Value<'c>> {
        let narrower = to.get_bit_width() < bits(value);
        self.convert(if narrower { InstructionOpcode::FPTrunc } else { InstructionOpcode::FPExt }, value, to.into())
    }

    /// An integer as the nearest float.
    pub fn int_to_float(&self, value: Value<'c>, signed: bool, to: FloatType<'c>) -> Built<Value<'c>> {
        self.convert(if signed { InstructionOpcode::SIToFP } else { InstructionOpcode::UIToFP }, value, to.into())
    }

    /// An integral float inside the range of `i32` as that.
    pub fn float_to_i32(&self, value: Value<'c>) -> Built<Value<'c>> {
        self.convert(InstructionOpcode::FPToSI, value, self.int_type(32).into())
    }

    /// An intrinsic whose operands and result are of one type.
    pub fn same(&self, name: &str, args: &[Value<'c>]) -> Built<Value<'c>> {
        self.call(name, &[args[0].get_type()], args)
    }

    /// One element in every lane.
    pub fn splat(&self, value: Value<'c>, lanes: u32) -> Built<Value<'c>> {
        if lanes == 1 {
            return Ok(value);
        }
        let constant = match value {
            Value::IntValue(v) => v.is_const(),
            Value::FloatValue(v) => v.is_const(),
            _ => false,
        };
        if constant {
            return Ok(self.splat_const(value, lanes));
        }
        let BasicTypeEnum::VectorType(ty) = widened(value.get_type(), lanes) else { return Ok(value) };
        let first = self.b.build_insert_element(ty.get_poison(), value, self.i64(0), "")?;
        let zeros = self.ctx.i32_type().vec_type(lanes).const_zero();
        Ok(self.b.build_shuffle_vector(first, ty.get_poison(), zeros, "")?.as_basic_value_enum())
    }
}
