//! Elements in memory and in registers: how many lanes a value holds, and how they are loaded and stored.
//!
//! Eight lanes are two vectors, the even lanes and the odd ones: a 32-bit word of memory holds two bf16 elements, which
//! a shift and a mask take apart, and two words of codes are joined the same way.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32, F32X4, F64, I32, I32X4, I64};
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use fusewright_abi::DType;

use super::code::{Code, mem};

/// How many consecutive lanes a value holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Width {
    /// One, in a scalar register.
    One,
    /// Four, in one vector in ascending order.
    Four,
    /// Eight, in two vectors: even lanes, odd lanes.
    Eight,
}

impl Width {
    pub const fn lanes(self) -> i64 {
        match self {
            Width::One => 1,
            Width::Four => 4,
            Width::Eight => 8,
        }
    }
}

/// Consecutive lanes of a row in registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lanes {
    /// The only register, or the even lanes.
    pub first: Value,
    /// The odd lanes.
    pub second: Option<Value>,
}

impl Lanes {
    pub fn one(first: Value) -> Self {
        Lanes { first, second: None }
    }

    pub fn pair(even: Value, odd: Value) -> Self {
        Lanes { first: even, second: Some(odd) }
    }

    /// The registers, one or two.
    pub fn parts(self) -> impl Iterator<Item = Value> {
        std::iter::once(self.first).chain(self.second)
    }
}

/// How the bits of a narrow element sit in its `i32` lane.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seat {
    Upper,
    Signed,
    Unsigned,
}

fn seat(dtype: DType) -> Seat {
    match dtype {
        DType::BF16 => Seat::Upper,
        _ if dtype.is_signed_int() => Seat::Signed,
        _ => Seat::Unsigned,
    }
}

impl Code<'_> {
    /// Consecutive elements from an address.
    pub fn load_lanes(&mut self, dtype: DType, address: Value, offset: i32, width: Width) -> Lanes {
        match (width, dtype.bits()) {
            (Width::One, _) => Lanes::one(self.load_one(dtype, address, offset)),
            (Width::Four, 32) => Lanes::one(self.load_word_vector(dtype, address, offset)),
            (Width::Eight, 32) => {
                let low = self.load_word_vector(dtype, address, offset);
                let high = self.load_word_vector(dtype, address, offset + 16);
                self.split_even_odd(low, high)
            }
            (Width::Four, 16) => {
                let words = if seat(dtype) == Seat::Signed {
                    self.b.ins().sload16x4(mem(), address, offset)
                } else {
                    self.b.ins().uload16x4(mem(), address, offset)
                };
                Lanes::one(if seat(dtype) == Seat::Upper { self.shl(words, 16) } else { words })
            }
            (Width::Four, _) => {
                let bytes = self.load(I32, address, offset);
                let codes = self.widen_u8(bytes);
                let value = self.extend(codes, 0, 8, seat(dtype));
                Lanes::one(self.loaded(value, dtype))
            }
            (Width::Eight, bits) => {
                let pairs = if bits == 16 {
                    self.load(I32X4, address, offset)
                } else {
                    self.b.ins().uload16x4(mem(), address, offset)
                };
                let even = self.extend(pairs, 0, bits, seat(dtype));
                let odd = self.extend(pairs, bits, bits, seat(dtype));
                Lanes::pair(self.loaded(even, dtype), self.loaded(odd, dtype))
            }
        }
    }

    /// The elements of a table of words, in their registers' form, that the 16-bit codes from an address on choose.
    pub fn load_by_codes(
        &mut self,
        dtype: DType,
        table: Value,
        (address, offset): (Value, i32),
        width: Width,
    ) -> Lanes {
        let word = |c: &mut Self, ty: Type, lane: i32| {
            let code = c.b.ins().uload16(I64, mem(), address, offset + 2 * lane);
            let distance = c.shl(code, 2);
            let place = c.b.ins().iadd(table, distance);
            c.load(ty, place, 0)
        };
        let is_float = dtype == DType::F32;
        // Of integers too: words enter lanes of floats from memory, without a register of their own.
        let vector = |c: &mut Self, lanes: [i32; 4]| {
            let first = word(c, F32, lanes[0]);
            let mut vector = c.b.ins().splat(F32X4, first);
            for (at, &lane) in lanes.iter().enumerate().skip(1) {
                let word = word(c, F32, lane);
                vector = c.b.ins().insertlane(vector, word, at as u8);
            }
            if is_float { vector } else { c.bits_of(vector) }
        };
        match width {
            Width::One => Lanes::one(word(self, if is_float { F32 } else { I32 }, 0)),
            Width::Four => Lanes::one(vector(self, [0, 1, 2, 3])),
            Width::Eight => {
                let even = vector(self, [0, 2, 4, 6]);
                Lanes::pair(even, vector(self, [1, 3, 5, 7]))
            }
        }
    }

    fn load_word_vector(&mut self, dtype: DType, address: Value, offset: i32) -> Value {
        self.load(if dtype == DType::F32 { F32X4 } else { I32X4 }, address, offset)
    }

    /// The code of `bits` bits at bit `at` of every lane, seated. The pair fills the low `2 · bits` bits.
    fn extend(&mut self, pairs: Value, at: u32, bits: u32, seat: Seat) -> Value {
        match seat {
            Seat::Upper if at == 0 => self.shl(pairs, 16),
            Seat::Upper => self.and(pairs, 0xffff_0000),
            Seat::Unsigned if at == 0 => self.and(pairs, (1 << bits) - 1),
            Seat::Unsigned => self.shr(pairs, at),
            Seat::Signed => {
                let left = 32 - at - bits;
                let top = if left > 0 { self.shl(pairs, left) } else { pairs };
                self.sar(top, 32 - bits)
            }
        }
    }

    fn loaded(&mut self, v: Value, dtype: DType) -> Value {
        if dtype == DType::Bool { self.one_to_mask(v) } else { v }
    }

    fn load_one(&mut self, dtype: DType, address: Value, offset: i32) -> Value {
        let v = match (dtype.bits(), dtype) {
            (64, DType::F64) => self.load(F64, address, offset),
            (64, _) => self.load(I64, address, offset),
            (32, DType::F32) => self.load(F32, address, offset),
            (32, _) => self.load(I32, address, offset),
            (16, _) if seat(dtype) == Seat::Signed => self.b.ins().sload16(I32, mem(), address, offset),
            (16, _) => self.b.ins().uload16(I32, mem(), address, offset),
            (_, _) if seat(dtype) == Seat::Signed => self.b.ins().sload8(I32, mem(), address, offset),
            _ => self.b.ins().uload8(I32, mem(), address, offset),
        };
        match dtype {
            DType::BF16 => self.shl(v, 16),
            _ => self.loaded(v, dtype),
        }
    }

    /// One 4-bit element; `index` counts elements from `base`.
    pub fn load_nibble(&mut self, dtype: DType, base: Value, index: Value) -> Value {
        let byte = self.sar(index, 1);
        let address = self.b.ins().iadd(base, byte);
        let both = self.b.ins().uload8(I32, mem(), address, 0);
        let odd = self.b.ins().ireduce(I32, index);
        let odd = self.and(odd, 1);
        let shift = self.shl(odd, 2);
        let code = self.b.ins().ushr(both, shift);
        self.extend(code, 0, 4, seat(dtype))
    }

    /// Eight 4-bit elements from the address of their first byte.
    pub fn load_nibbles(&mut self, dtype: DType, address: Value) -> Lanes {
        let bytes = self.load(I32, address, 0);
        let pairs = self.widen_u8(bytes);
        let (even, odd) = (self.extend(pairs, 0, 4, seat(dtype)), self.extend(pairs, 4, 4, seat(dtype)));
        Lanes::pair(even, odd)
    }

    /// Writes eight 4-bit elements to four bytes.
    pub fn store_nibbles(&mut self, dtype: DType, v: Lanes, address: Value) {
        let v = self.codes(dtype, v);
        let high = self.shl(v.second.unwrap_or(v.first), 4);
        let pairs = self.or(v.first, high);
        let bytes = self.narrow_to_u8(pairs);
        self.store(bytes, address, 0);
    }

    /// Writes one 4-bit element beside its neighbour; `index` counts elements from `base`.
    pub fn store_nibble(&mut self, dtype: DType, v: Value, base: Value, index: Value) {
        let code = self.codes(dtype, Lanes::one(v)).first;
        let byte = self.sar(index, 1);
        let address = self.b.ins().iadd(base, byte);
        let odd = self.b.ins().ireduce(I32, index);
        let odd = self.and(odd, 1);
        let shift = self.shl(odd, 2);
        let fifteen = self.int(code, 15);
        let place = self.b.ins().ishl(fifteen, shift);
        let other = self.b.ins().bnot(place);
        let both = self.b.ins().uload8(I32, mem(), address, 0);
        let kept = self.b.ins().band(both, other);
        let moved = self.b.ins().ishl(code, shift);
        let joined = self.or(kept, moved);
        self.b.ins().istore8(mem(), joined, address, 0);
    }

    /// Writes consecutive elements of at least 8 bits.
    pub fn store_lanes(&mut self, dtype: DType, v: Lanes, address: Value, offset: i32, width: Width) {
        if let (DType::BF16, Width::Eight, Some(odd)) = (dtype, width, v.second) {
            // The odd codes are where they belong already.
            let even = self.upper_half(v.first);
            let pairs = self.or(even, odd);
            return self.store(pairs, address, offset);
        }
        let v = self.codes(dtype, v);
        match (width, dtype.bits()) {
            (Width::One, 16) => {
                self.b.ins().istore16(mem(), v.first, address, offset);
            }
            (Width::One, 8) => {
                self.b.ins().istore8(mem(), v.first, address, offset);
            }
            (Width::One, _) | (Width::Four, 32) => self.store(v.first, address, offset),
            (Width::Four, 16) => {
                let packed = self.narrow_to_u16(v.first);
                self.store(packed, address, offset);
            }
            (Width::Four, _) => {
                let packed = self.narrow_to_u8(v.first);
                self.store(packed, address, offset);
            }
            (Width::Eight, 32) => {
                let (low, high) = self.join_even_odd(v);
                self.store(low, address, offset);
                self.store(high, address, offset + 16);
            }
            (Width::Eight, bits) => {
                let odd = v.second.unwrap_or(v.first);
                let high = self.shl(odd, bits);
                let pairs = self.or(v.first, high);
                if bits == 16 {
                    self.store(pairs, address, offset);
                } else {
                    let packed = self.narrow_to_u16(pairs);
                    self.store(packed, address, offset);
                }
            }
        }
    }

    /// The upper halves of lanes, whether or not the lower ones are clear.
    fn upper_half(&mut self, v: Value) -> Value {
        let v = self.under_mask(v, 0xffff_0000).unwrap_or(v);
        self.shr(v, 16)
    }

    /// Lanes as zero-extended codes in the low bits (32- and 64-bit elements as they are).
    fn codes(&mut self, dtype: DType, v: Lanes) -> Lanes {
        let code = |c: &mut Self, v: Value| match (dtype, dtype.bits()) {
            (DType::BF16, _) => c.upper_half(v),
            (DType::Bool, _) => c.bool_code(v),
            (_, bits) if bits < 32 && dtype.is_signed_int() => {
                let v = c.before_extension(v, bits).unwrap_or(v);
                c.and(v, (1 << bits) - 1)
            }
            _ => v,
        };
        let first = code(self, v.first);
        Lanes { first, second: v.second.map(|odd| code(self, odd)) }
    }

    /// Zero-extended codes of `bits` bits of one element each as lanes of `dtype`.
    pub fn seat_code(&mut self, code: Value, dtype: DType) -> Value {
        match (dtype, dtype.bits()) {
            (DType::BF16, _) => self.shl(code, 16),
            (DType::F32, _) => self.float_of(code),
            (DType::F64, _) => self.float_of(code),
            (DType::Bool, _) => self.one_to_mask(code),
            (_, bits) if bits < 32 && dtype.is_signed_int() => self.wrap_int(code, dtype),
            _ => code,
        }
    }

    /// The inverse of [`Self::seat_code`].
    pub fn code_of(&mut self, v: Value, dtype: DType) -> Value {
        match dtype {
            DType::F32 | DType::F64 => self.bits_of(v),
            _ => self.codes(dtype, Lanes::one(v)).first,
        }
    }

    /// Two vectors of consecutive lanes as even and odd lanes.
    pub fn split_even_odd(&mut self, low: Value, high: Value) -> Lanes {
        let even = self.shuffle(low, high, [0, 2, 4, 6]);
        let odd = self.shuffle(low, high, [1, 3, 5, 7]);
        Lanes::pair(even, odd)
    }

    /// The inverse of [`Self::split_even_odd`].
    pub fn join_even_odd(&mut self, v: Lanes) -> (Value, Value) {
        let odd = v.second.unwrap_or(v.first);
        let low = self.shuffle(v.first, odd, [0, 4, 1, 5]);
        let high = self.shuffle(v.first, odd, [2, 6, 3, 7]);
        (low, high)
    }

    /// Vectors from as many single lanes as the width has.
    pub fn gather(&mut self, lanes: &[Value]) -> Lanes {
        let vector = |c: &mut Self, ix: [usize; 4]| {
            let first = lanes[ix[0]];
            let boolean = c.ty(first) == cranelift_codegen::ir::types::I8;
            let of = |c: &mut Self, v: Value| if boolean { c.b.ins().uextend(I32, v) } else { v };
            let start = of(c, first);
            let ty = super::code::vector_of(c.ty(start));
            let mut vector = c.b.ins().splat(ty, start);
            for (at, &i) in ix.iter().enumerate().skip(1) {
                let lane = of(c, lanes[i]);
                vector = c.b.ins().insertlane(vector, lane, at as u8);
            }
            if boolean { c.icmp_const(IntCC::NotEqual, vector, 0) } else { vector }
        };
        match lanes.len() {
            1 => Lanes::one(lanes[0]),
            4 => Lanes::one(vector(self, [0, 1, 2, 3])),
            _ => Lanes::pair(vector(self, [0, 2, 4, 6]), vector(self, [1, 3, 5, 7])),
        }
    }

    /// Single lanes of a value, in ascending order; masks as 0 or 1 of `i8`.
    pub fn scatter(&mut self, v: Lanes, dtype: DType) -> Vec<Value> {
        let Some(odd) = v.second else {
            if !self.is_vector(v.first) {
                return vec![v.first];
            }
            return (0..4).map(|i| self.extract(v.first, i, dtype)).collect();
        };
        (0..8u8).map(|i| self.extract(if i % 2 == 0 { v.first } else { odd }, i / 2, dtype)).collect()
    }

    pub fn extract(&mut self, v: Value, lane: u8, dtype: DType) -> Value {
        let lane = self.b.ins().extractlane(v, lane);
        if dtype == DType::Bool { self.icmp_const(IntCC::NotEqual, lane, 0) } else { lane }
    }
}
