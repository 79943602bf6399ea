//! Typed arithmetic over Cranelift's builder, the same for one lane and for vectors of four.
//!
//! Every function looks at the type of its operands: `i32`, `f32`, `i64`, `f64` or one of the 128-bit vectors of the
//! first two. A *mask* is what a comparison yields: all bits of a lane in vectors, 0 or 1 in an `i8` for one lane.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, F32X4, F64, I8X16, I16X8, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{
    Block, ConstantData, Endianness, InstBuilder, InstructionData, MemFlagsData, Opcode, StackSlotData, StackSlotKind,
    Type, Value,
};
use cranelift_frontend::FunctionBuilder;

/// The function being built.
pub(super) struct Code<'f> {
    pub b: FunctionBuilder<'f>,
    /// The processor converts `f16` itself (`half.rs`).
    pub halves: bool,
}

/// Accesses are unaligned, and a fault is the caller's bug, not the kernel's.
pub(super) fn mem() -> MemFlagsData {
    MemFlagsData::new().with_notrap()
}

pub(super) fn reinterpret() -> MemFlagsData {
    MemFlagsData::new().with_endianness(Endianness::Little)
}

impl Code<'_> {
    pub fn ty(&self, v: Value) -> Type {
        self.b.func.dfg.value_type(v)
    }

    pub fn is_vector(&self, v: Value) -> bool {
        self.ty(v).is_vector()
    }

    pub fn i64(&mut self, value: i64) -> Value {
        self.b.ins().iconst(I64, value)
    }

    /// A lane constant by its bits, of a lane type or a vector of it.
    pub fn bits(&mut self, ty: Type, bits: u32) -> Value {
        match ty {
            I32 => self.b.ins().iconst(I32, i64::from(bits as i32)),
            F32 => self.b.ins().f32const(f32::from_bits(bits)),
            _ => {
                let lane = bits.to_le_bytes();
                let data = ConstantData::from(&lane.repeat(4)[..]);
                let constant = self.b.func.dfg.constants.insert(data);
                self.b.ins().vconst(ty, constant)
            }
        }
    }

    /// Four different lanes.
    pub fn lanes(&mut self, lanes: [u32; 4]) -> Value {
        let bytes: Vec<u8> = lanes.iter().flat_map(|lane| lane.to_le_bytes()).collect();
        let constant = self.b.func.dfg.constants.insert(ConstantData::from(&bytes[..]));
        self.b.ins().vconst(I32X4, constant)
    }

    /// An integer constant of the type of `like`.
    pub fn int(&mut self, like: Value, value: i64) -> Value {
        match self.ty(like) {
            I64 => self.i64(value),
            ty => self.bits(ty, value as u32),
        }
    }

    /// A float constant of the type of `like`.
    pub fn float(&mut self, like: Value, value: f32) -> Value {
        match self.ty(like) {
            F64 => self.b.ins().f64const(f64::from(value)),
            ty => self.bits(ty, value.to_bits()),
        }
    }

    /// The float bits as an integer of the same shape.
    pub fn bits_of(&mut self, v: Value) -> Value {
        match self.ty(v) {
            F32 => self.b.ins().bitcast(I32, mem_free(), v),
            F64 => self.b.ins().bitcast(I64, mem_free(), v),
            F32X4 => self.b.ins().bitcast(I32X4, reinterpret(), v),
            _ => v,
        }
    }

    /// Integer bits as a float of the same shape.
    pub fn float_of(&mut self, v: Value) -> Value {
        match self.ty(v) {
            I32 => self.b.ins().bitcast(F32, mem_free(), v),
            I64 => self.b.ins().bitcast(F64, mem_free(), v),
            I32X4 => self.b.ins().bitcast(F32X4, reinterpret(), v),
            _ => v,
        }
    }

    pub fn and(&mut self, a: Value, mask: u32) -> Value {
        let mask = self.int(a, i64::from(mask as i32));
        self.b.ins().band(a, mask)
    }

    pub fn or(&mut self, a: Value, b: Value) -> Value {
        self.b.ins().bor(a, b)
    }

    pub fn add(&mut self, a: Value, constant: i64) -> Value {
        let constant = self.int(a, constant);
        self.b.ins().iadd(a, constant)
    }

    pub fn shl(&mut self, a: Value, by: u32) -> Value {
        let by = self.b.ins().iconst(I32, i64::from(by));
        self.b.ins().ishl(a, by)
    }

    /// Logical shift right.
    pub fn shr(&mut self, a: Value, by: u32) -> Value {
        let by = self.b.ins().iconst(I32, i64::from(by));
        self.b.ins().ushr(a, by)
    }

    /// Arithmetic shift right.
    pub fn sar(&mut self, a: Value, by: u32) -> Value {
        let by = self.b.ins().iconst(I32, i64::from(by));
        self.b.ins().sshr(a, by)
    }

    pub fn icmp(&mut self, cc: IntCC, a: Value, b: Value) -> Value {
        self.b.ins().icmp(cc, a, b)
    }

    pub fn icmp_const(&mut self, cc: IntCC, a: Value, b: i64) -> Value {
        let b = self.int(a, b);
        self.b.ins().icmp(cc, a, b)
    }

    pub fn fcmp(&mut self, cc: FloatCC, a: Value, b: Value) -> Value {
        self.b.ins().fcmp(cc, a, b)
    }

    /// `a` where the mask holds, else `b`.
    pub fn select(&mut self, mask: Value, a: Value, b: Value) -> Value {
        if !self.is_vector(mask) {
            return self.b.ins().select(mask, a, b);
        }
        let float = self.ty(a) == F32X4;
        if float && self.is_float_comparison(mask) {
            // In this form a comparison of the operands themselves becomes one minimum or maximum.
            let (a, b) = (self.compared(mask, a), self.compared(mask, b));
            return self.pick(mask, a, b);
        }
        let (x, y) = (self.bits_of(a), self.bits_of(b));
        let chosen = self.b.ins().bitselect(mask, x, y);
        if float { self.float_of(chosen) } else { chosen }
    }

    fn is_float_comparison(&self, mask: Value) -> bool {
        let defined = self.b.func.dfg.value_def(mask).inst();
        defined.is_some_and(|inst| self.b.func.dfg.insts[inst].opcode() == Opcode::Fcmp)
    }

    /// The operand of a comparison that is the same constant as `v`, or `v`.
    fn compared(&self, mask: Value, v: Value) -> Value {
        let dfg = &self.b.func.dfg;
        let constant = |v: Value| match dfg.insts[dfg.value_def(v).inst()?] {
            InstructionData::UnaryConst { constant_handle, .. } => Some(constant_handle),
            _ => None,
        };
        let operands = dfg.value_def(mask).inst().map_or(&[][..], |inst| dfg.inst_args(inst));
        let same = |x: &&Value| constant(v).is_some() && constant(**x) == constant(v);
        operands.iter().find(same).copied().unwrap_or(v)
    }

    /// The sign bit flipped: one instruction, where the set's own negation makes its mask anew each time.
    pub fn negated(&mut self, v: Value) -> Value {
        if self.ty(v) != F32X4 {
            return self.b.ins().fneg(v);
        }
        let sign = self.bits(F32X4, 1 << 31);
        self.b.ins().bxor(v, sign)
    }

    /// The sign bit cleared, as [`Self::negated`].
    pub fn magnitude(&mut self, v: Value) -> Value {
        if self.ty(v) != F32X4 {
            return self.b.ins().fabs(v);
        }
        let rest = self.bits(F32X4, !(1 << 31));
        self.b.ins().band(v, rest)
    }

    /// A mask as 0 and −1 (vectors) or 0 and 1 (one lane) in `i32` lanes, to be subtracted from or added to codes.
    pub fn mask_to_one(&mut self, mask: Value) -> Value {
        match self.ty(mask) {
            I32X4 => self.shr(mask, 31),
            _ => self.b.ins().uextend(I32, mask),
        }
    }

    /// A mask from 0 and non-zero `i32` lanes.
    pub fn one_to_mask(&mut self, v: Value) -> Value {
        self.icmp_const(IntCC::NotEqual, v, 0)
    }

    /// `x < y ? x : y` as one instruction: `y` if either is NaN or both are zero.
    pub fn min_or_second(&mut self, x: Value, y: Value) -> Value {
        let less = self.b.ins().fcmp(FloatCC::LessThan, x, y);
        self.pick(less, x, y)
    }

    /// `y < x ? x : y` as one instruction: `y` if either is NaN or both are zero.
    pub fn max_or_second(&mut self, x: Value, y: Value) -> Value {
        let less = self.b.ins().fcmp(FloatCC::LessThan, y, x);
        self.pick(less, x, y)
    }

    fn pick(&mut self, less: Value, x: Value, y: Value) -> Value {
        if self.is_vector(x) {
            let ty = self.ty(x);
            let less = self.b.ins().bitcast(ty, reinterpret(), less);
            return self.b.ins().bitselect(less, x, y);
        }
        self.b.ins().select(less, x, y)
    }

    /// One lane repeated.
    pub fn splat(&mut self, v: Value) -> Value {
        match self.ty(v) {
            F32 => self.b.ins().splat(F32X4, v),
            I32 => self.b.ins().splat(I32X4, v),
            // A boolean.
            _ => {
                let wide = self.b.ins().uextend(I32, v);
                let negative = self.b.ins().ineg(wide);
                self.b.ins().splat(I32X4, negative)
            }
        }
    }

    /// Four lanes chosen from the eight of two vectors.
    pub fn shuffle(&mut self, a: Value, b: Value, lanes: [u8; 4]) -> Value {
        let ty = self.ty(a);
        let (x, y) = (self.b.ins().bitcast(I8X16, reinterpret(), a), self.b.ins().bitcast(I8X16, reinterpret(), b));
        let bytes: Vec<u8> = lanes.iter().flat_map(|&lane| (0..4).map(move |i| lane * 4 + i)).collect();
        let mask = self.b.func.dfg.immediates.push(ConstantData::from(&bytes[..]));
        let mixed = self.b.ins().shuffle(x, y, mask);
        self.b.ins().bitcast(ty, reinterpret(), mixed)
    }

    /// The low 64 bits of two vectors of 16-bit codes in 32-bit lanes, narrowed: eight bytes.
    pub fn narrow_to_u16(&mut self, v: Value) -> Value {
        let narrow = self.b.ins().unarrow(v, v);
        let wide = self.b.ins().bitcast(I64X2, reinterpret(), narrow);
        self.b.ins().extractlane(wide, 0)
    }

    /// Four 8-bit codes in 32-bit lanes, narrowed to four bytes of an `i32`.
    pub fn narrow_to_u8(&mut self, v: Value) -> Value {
        let words = self.b.ins().unarrow(v, v);
        let bytes = self.b.ins().unarrow(words, words);
        let lanes = self.b.ins().bitcast(I32X4, reinterpret(), bytes);
        self.b.ins().extractlane(lanes, 0)
    }

    /// Four bytes of an `i32` as zero-extended lanes.
    pub fn widen_u8(&mut self, v: Value) -> Value {
        let vector = self.b.ins().scalar_to_vector(I32X4, v);
        let bytes = self.b.ins().bitcast(I8X16, reinterpret(), vector);
        let words = self.b.ins().uwiden_low(bytes);
        debug_assert_eq!(self.ty(words), I16X8);
        self.b.ins().uwiden_low(words)
    }

    pub fn load(&mut self, ty: Type, address: Value, offset: i32) -> Value {
        self.b.ins().load(ty, mem(), address, offset)
    }

    pub fn store(&mut self, v: Value, address: Value, offset: i32) {
        self.b.ins().store(mem(), v, address, offset);
    }

    /// Address of fresh stack memory.
    pub fn stack(&mut self, bytes: u32) -> Value {
        let slot = self.b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, 4));
        self.b.ins().stack_addr(I64, slot, 0)
    }

    /// Opens a loop over `i = start, start + step, …` while `i + step ≤ bound`; close it with [`Self::end_loop`].
    pub fn begin_loop(&mut self, start: Value, bound: Value, step: i64) -> Loop {
        let last = self.add(bound, -step);
        let (head, exit) = (self.b.create_block(), self.b.create_block());
        let i = self.b.append_block_param(head, I64);
        let end = self.b.append_block_param(exit, I64);
        let any = self.icmp(IntCC::SignedLessThanOrEqual, start, last);
        self.b.ins().brif(any, head, &[start.into()], exit, &[start.into()]);
        self.b.switch_to_block(head);
        Loop { head, exit, i, end, last, step }
    }

    /// Closes a loop and returns the first `i` not run.
    pub fn end_loop(&mut self, l: Loop) -> Value {
        let next = self.add(l.i, l.step);
        let more = self.icmp(IntCC::SignedLessThanOrEqual, next, l.last);
        self.b.ins().brif(more, l.head, &[next.into()], l.exit, &[next.into()]);
        self.b.seal_block(l.head);
        self.b.switch_to_block(l.exit);
        self.b.seal_block(l.exit);
        l.end
    }
}

/// An open loop.
pub(super) struct Loop {
    pub head: Block,
    exit: Block,
    /// The counter.
    pub i: Value,
    end: Value,
    last: Value,
    step: i64,
}

fn mem_free() -> MemFlagsData {
    MemFlagsData::new()
}

/// The 128-bit vector of a lane type.
pub(super) fn vector_of(ty: Type) -> Type {
    if ty == F32 { F32X4 } else { I32X4 }
}
