//! Scalar functions as machine operations, exact as the function table says.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F32X4, F64, I64};
use cranelift_codegen::ir::{InstBuilder, Value};
use fusewright_abi::DType;
use fusewright_graph::scalar::Yields;
use fusewright_graph::{NanRule, ReduceOp, ScalarFn};

use super::cast::Refusal;
use super::code::Code;
use crate::backend::host::facts::Known;

impl Code<'_> {
    /// `f` of operands of one dtype (after a boolean condition for `select`).
    pub fn map(&mut self, f: ScalarFn, dtype: DType, x: &[Value], known: &[Known]) -> Result<Value, Refusal> {
        if f == ScalarFn::Select {
            return Ok(self.select(x[0], x[1], x[2]));
        }
        match dtype {
            DType::F32 | DType::F64 => self.float_map(f, x, known),
            DType::Bool => self.bool_map(f, x),
            DType::I32 | DType::I64 => self.int_map(f, x, true),
            DType::U32 | DType::U64 => self.int_map(f, x, false),
            // Held in 32 bits with their sign or with zeros, of which the operands of no function lack any.
            _ if dtype.is_int() => self.int_map(f, x, true).map(|v| match f.spec().yields {
                Yields::Bool => v,
                Yields::Operand => self.wrap_int(v, dtype),
            }),
            _ => None,
        }
        .ok_or_else(|| format!("`{}` of {dtype}", f.name()))
    }

    fn float_map(&mut self, f: ScalarFn, x: &[Value], known: &[Known]) -> Option<Value> {
        let cc = match f {
            ScalarFn::Eq => Some(FloatCC::Equal),
            ScalarFn::Ne => Some(FloatCC::NotEqual),
            ScalarFn::Lt => Some(FloatCC::LessThan),
            ScalarFn::Le => Some(FloatCC::LessThanOrEqual),
            ScalarFn::Gt => Some(FloatCC::GreaterThan),
            ScalarFn::Ge => Some(FloatCC::GreaterThanOrEqual),
            _ => None,
        };
        if let Some(cc) = cc {
            return Some(self.fcmp(cc, x[0], x[1]));
        }
        let known = |i: usize| known.get(i).copied().unwrap_or_default();
        Some(match f {
            ScalarFn::Add => self.b.ins().fadd(x[0], x[1]),
            ScalarFn::Sub => self.b.ins().fsub(x[0], x[1]),
            ScalarFn::Mul => self.b.ins().fmul(x[0], x[1]),
            ScalarFn::Div => self.b.ins().fdiv(x[0], x[1]),
            ScalarFn::Fma => self.b.ins().fma(x[0], x[1], x[2]),
            ScalarFn::Max | ScalarFn::Min => self.extreme(f == ScalarFn::Max, x[0], x[1], known(0), known(1)),
            ScalarFn::MaxNum | ScalarFn::MinNum => self.extreme_num(f == ScalarFn::MaxNum, x[0], x[1]),
            ScalarFn::Neg => self.negated(x[0]),
            ScalarFn::Abs => self.magnitude(x[0]),
            ScalarFn::Sqrt => self.b.ins().sqrt(x[0]),
            ScalarFn::Floor => self.b.ins().floor(x[0]),
            ScalarFn::Ceil => self.b.ins().ceil(x[0]),
            ScalarFn::Trunc => self.b.ins().trunc(x[0]),
            ScalarFn::RoundEven => self.b.ins().nearest(x[0]),
            _ => return None,
        })
    }

    /// The larger or smaller; NaN if either is; −0 below +0.
    pub fn extreme(&mut self, max: bool, a: Value, b: Value, known_a: Known, known_b: Known) -> Value {
        if known_a.sign_clear && known_b.sign_clear && max && self.ty(a) != F64 {
            // The bits of non-negative floats are in order, and NaNs are above infinity.
            let (x, y) = (self.bits_of(a), self.bits_of(b));
            let larger = self.b.ins().smax(x, y);
            return self.float_of(larger);
        }
        let is_constant = |known: Known| known.constant || known.zero;
        let (constant, other, known) = match (is_constant(known_a), is_constant(known_b)) {
            (true, _) => (a, b, known_a),
            (_, true) => (b, a, known_b),
            _ => return if max { self.b.ins().fmax(a, b) } else { self.b.ins().fmin(a, b) },
        };
        // The second operand is taken where it is NaN, and where both are zeros: the smaller of +0 and that, but not the larger.
        if !max {
            return self.min_or_second(constant, other);
        }
        let larger = self.max_or_second(constant, other);
        // Added to +0, a zero of either sign is +0, and everything else is what it was.
        if known.zero { self.b.ins().fadd(larger, constant) } else { larger }
    }

    /// The larger or smaller lanes, in fewer instructions than [`Code::extreme`]: a NaN stays one, but has all bits set,
    /// which the next extreme of that function mends.
    pub fn extreme_so_far(&mut self, max: bool, so_far: Value, x: Value) -> Value {
        let nan = self.fcmp(FloatCC::Unordered, so_far, x);
        // Operands in either order differ in the sign of zeros alone: that of +0 is clear, that of −0 is set.
        let orders = [(so_far, x), (x, so_far)];
        let [a, b] = orders.map(|(a, b)| if max { self.max_or_second(a, b) } else { self.min_or_second(a, b) });
        let [a, b, nan] = [a, b, nan].map(|v| self.bits_of(v));
        let extreme = if max { self.b.ins().band(a, b) } else { self.b.ins().bor(a, b) };
        let extreme = self.b.ins().bor(extreme, nan);
        self.float_of(extreme)
    }

    fn extreme_num(&mut self, max: bool, a: Value, b: Value) -> Value {
        let nan_a = self.fcmp(FloatCC::Unordered, a, a);
        let nan_b = self.fcmp(FloatCC::Unordered, b, b);
        let x = self.select(nan_a, b, a);
        let y = self.select(nan_b, a, b);
        if max { self.b.ins().fmax(x, y) } else { self.b.ins().fmin(x, y) }
    }

    fn bool_map(&mut self, f: ScalarFn, x: &[Value]) -> Option<Value> {
        Some(match f {
            ScalarFn::And => self.b.ins().band(x[0], x[1]),
            ScalarFn::Or => self.b.ins().bor(x[0], x[1]),
            ScalarFn::Xor | ScalarFn::Ne => self.b.ins().bxor(x[0], x[1]),
            ScalarFn::Not => self.not(x[0]),
            ScalarFn::Eq => {
                let differ = self.b.ins().bxor(x[0], x[1]);
                self.not(differ)
            }
            _ => return None,
        })
    }

    /// The complement of a mask.
    pub fn not(&mut self, mask: Value) -> Value {
        if self.is_vector(mask) { self.b.ins().bnot(mask) } else { self.icmp_zero(mask) }
    }

    fn icmp_zero(&mut self, mask: Value) -> Value {
        let ty = self.ty(mask);
        let zero = self.b.ins().iconst(ty, 0);
        self.icmp(IntCC::Equal, mask, zero)
    }

    fn int_map(&mut self, f: ScalarFn, x: &[Value], signed: bool) -> Option<Value> {
        let cc = match f {
            ScalarFn::Eq => Some(IntCC::Equal),
            ScalarFn::Ne => Some(IntCC::NotEqual),
            ScalarFn::Lt => Some(IntCC::SignedLessThan),
            ScalarFn::Le => Some(IntCC::SignedLessThanOrEqual),
            ScalarFn::Gt => Some(IntCC::SignedGreaterThan),
            ScalarFn::Ge => Some(IntCC::SignedGreaterThanOrEqual),
            _ => None,
        };
        if let Some(cc) = cc {
            return Some(self.icmp(if signed { cc } else { cc.unsigned() }, x[0], x[1]));
        }
        Some(match f {
            ScalarFn::Add => self.b.ins().iadd(x[0], x[1]),
            ScalarFn::Sub => self.b.ins().isub(x[0], x[1]),
            ScalarFn::Mul => self.b.ins().imul(x[0], x[1]),
            ScalarFn::Div | ScalarFn::Rem if signed => self.divide(f == ScalarFn::Div, x[0], x[1]),
            ScalarFn::Max | ScalarFn::MaxNum if signed => self.b.ins().smax(x[0], x[1]),
            ScalarFn::Min | ScalarFn::MinNum if signed => self.b.ins().smin(x[0], x[1]),
            ScalarFn::Max | ScalarFn::MaxNum => self.b.ins().umax(x[0], x[1]),
            ScalarFn::Min | ScalarFn::MinNum => self.b.ins().umin(x[0], x[1]),
            ScalarFn::Neg => self.b.ins().ineg(x[0]),
            ScalarFn::Abs if signed => self.b.ins().iabs(x[0]),
            ScalarFn::Abs => x[0],
            ScalarFn::And => self.b.ins().band(x[0], x[1]),
            ScalarFn::Or => self.b.ins().bor(x[0], x[1]),
            ScalarFn::Xor => self.b.ins().bxor(x[0], x[1]),
            ScalarFn::Not => self.b.ins().bnot(x[0]),
            ScalarFn::Shl | ScalarFn::Shr => self.shift(f == ScalarFn::Shl, signed, x[0], x[1]),
            ScalarFn::Div | ScalarFn::Rem => self.divide_unsigned(f == ScalarFn::Div, x[0], x[1]),
            _ => return None,
        })
    }

    /// Toward zero; by zero 0; the least integer by −1 wraps to itself, with remainder 0. One lane only.
    fn divide(&mut self, quotient: bool, a: Value, b: Value) -> Value {
        let ty = self.ty(b);
        let (zero, one) = (self.b.ins().iconst(ty, 0), self.b.ins().iconst(ty, 1));
        let by_zero = self.icmp(IntCC::Equal, b, zero);
        let minus = self.icmp_const(IntCC::Equal, b, -1);
        let safe = self.b.ins().select(by_zero, one, b);
        let safe = self.b.ins().select(minus, one, safe);
        let (value, by_minus_one) = if quotient {
            // The least value over −1 wraps to itself.
            (self.b.ins().sdiv(a, safe), self.b.ins().ineg(a))
        } else {
            (self.b.ins().srem(a, safe), zero)
        };
        let value = self.b.ins().select(minus, by_minus_one, value);
        self.b.ins().select(by_zero, zero, value)
    }

    /// By zero 0. One lane only.
    fn divide_unsigned(&mut self, quotient: bool, a: Value, b: Value) -> Value {
        let ty = self.ty(b);
        let (zero, one) = (self.b.ins().iconst(ty, 0), self.b.ins().iconst(ty, 1));
        let by_zero = self.icmp(IntCC::Equal, b, zero);
        let safe = self.b.ins().select(by_zero, one, b);
        let value = if quotient { self.b.ins().udiv(a, safe) } else { self.b.ins().urem(a, safe) };
        self.b.ins().select(by_zero, zero, value)
    }

    /// By the width or more: 0 to the left and of unsigned integers, else the sign. One lane only.
    fn shift(&mut self, left: bool, signed: bool, a: Value, by: Value) -> Value {
        let ty = self.ty(a);
        let width = i64::from(ty.bits());
        let inside = self.icmp_const(IntCC::UnsignedLessThan, by, width);
        if left || !signed {
            let shifted = if left { self.b.ins().ishl(a, by) } else { self.b.ins().ushr(a, by) };
            let zero = self.b.ins().iconst(ty, 0);
            return self.b.ins().select(inside, shifted, zero);
        }
        let most = self.b.ins().iconst(ty, width - 1);
        let zero = self.b.ins().iconst(ty, 0);
        let negative = self.icmp_const(IntCC::SignedLessThan, by, 0);
        let capped = self.b.ins().select(inside, by, most);
        let count = self.b.ins().select(negative, zero, capped);
        self.b.ins().sshr(a, count)
    }

    /// One step of a reduction: `a ∘ b`, both of `dtype`.
    pub fn combine(
        &mut self,
        op: ReduceOp,
        nan: NanRule,
        dtype: DType,
        known: Known,
        a: Value,
        b: Value,
    ) -> Result<Value, Refusal> {
        let f = op.step(nan);
        if f == ScalarFn::MaxNum && self.float_lane(a) {
            // An accumulator starts from a number and never becomes NaN, and `maxps` keeps it against a NaN first
            // operand; equal zeros are the only other case where the order of operands shows.
            if known.sign_clear {
                return Ok(self.max_or_second(b, a));
            }
        }
        if f == ScalarFn::Max && known.sign_clear && self.float_lane(a) {
            let (x, y) = (self.bits_of(a), self.bits_of(b));
            let larger = self.b.ins().smax(x, y);
            return Ok(self.float_of(larger));
        }
        self.map(f, dtype, &[a, b], &[])
    }

    fn float_lane(&self, v: Value) -> bool {
        matches!(self.ty(v), F32 | F32X4)
    }

    /// A boolean as it is stored: 0 or 1 in an `i32` lane.
    pub fn bool_code(&mut self, mask: Value) -> Value {
        self.mask_to_one(mask)
    }

    /// Sign- or zero-extends an index operand to 64 bits.
    pub fn index_value(&mut self, v: Value, dtype: DType) -> Value {
        match self.ty(v) {
            I64 => v,
            _ if dtype.is_signed_int() => self.b.ins().sextend(I64, v),
            _ => self.b.ins().uextend(I64, v),
        }
    }
}
