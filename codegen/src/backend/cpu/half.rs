//! Conversions between `f16` and `f32` that processors have and Cranelift has not.
//!
//! Cranelift makes another instruction of the same length in their place, whose operands are of the same kind. The source
//! location of the instruction says where its bytes are, and the bytes become those of the conversion.
//!
//! | wanted | in its place |
//! |---|---|
//! | `vcvtph2ps xmm, xmm` | `vpmovsxwd xmm, xmm` |
//! | `vcvtps2ph xmm, xmm, 0` | `vroundps xmm, xmm, imm8`, whose operands stand the other way round |
//!
//! NaN keeps its sign and the upper bits of its payload, as in code of LLVM.

use cranelift_codegen::CompiledCode;
use cranelift_codegen::ir::types::{F32X4, I16X8, I32X4};
use cranelift_codegen::ir::{Function, InstBuilder, InstructionData, Opcode, SourceLoc, Value};
use cranelift_codegen::isa::TargetIsa;

use super::code::{Code, reinterpret};

/// The locations that mark instructions. Behind [`number`] every location is one of these plus a multiple of [`APART`] of its
/// own. Cranelift keeps how far each is from the first, and takes a distance of −1 for no location: all are odd.
const WIDENS: u32 = 1;
const NARROWS: u32 = 3;
const APART: u32 = 4;

/// Says whether the processor has the conversions and Cranelift makes the instructions in their place.
pub(super) fn exists(isa: &dyn TargetIsa) -> bool {
    #[cfg(target_arch = "x86_64")]
    let here = std::arch::is_x86_feature_detected!("f16c");
    #[cfg(not(target_arch = "x86_64"))]
    let here = false;
    let mut flags = isa.isa_flags().into_iter();
    here && isa.name() == "x64" && flags.any(|flag| flag.name == "has_avx" && flag.as_bool() == Some(true))
}

impl Code<'_> {
    /// Four codes of `f16`, in the low halves of lanes, as `f32`.
    pub(super) fn widen_halves(&mut self, codes: Value) -> Value {
        let packed = match self.unwidened(codes) {
            Some(packed) => packed,
            None => self.b.ins().unarrow(codes, codes),
        };
        self.b.set_srcloc(SourceLoc::new(WIDENS));
        let wide = self.b.ins().swiden_low(packed);
        self.end_of_mark(wide);
        self.float_of(wide)
    }

    /// Four `f32` rounded to the nearest `f16`, as codes in the low halves of lanes.
    pub(super) fn narrow_to_halves(&mut self, v: Value) -> Value {
        // A value that is not a load is in a register.
        let bits = self.bits_of(v);
        let v = self.float_of(bits);
        self.b.set_srcloc(SourceLoc::new(NARROWS));
        let codes = self.b.ins().nearest(v);
        self.end_of_mark(codes);
        let packed = self.b.ins().bitcast(I16X8, reinterpret(), codes);
        self.b.ins().uwiden_low(packed)
    }

    /// The codes of a value that was rounded to `f16` just now, as the conversion left them: four beside each other.
    fn unwidened(&self, codes: Value) -> Option<Value> {
        let dfg = &self.b.func.dfg;
        match dfg.insts[dfg.value_def(dfg.resolve_aliases(codes)).inst()?] {
            InstructionData::Unary { opcode: Opcode::UwidenLow, arg } => Some(arg),
            _ => None,
        }
    }

    /// The instructions that follow the one of a value are not marked.
    fn end_of_mark(&mut self, made: Value) {
        let function = &self.b.func;
        debug_assert!(function.dfg.value_def(made).inst().is_some_and(|inst| !function.srcloc(inst).is_default()));
        self.b.set_srcloc(SourceLoc::default());
    }

    /// One lane by a function of four.
    pub(super) fn by_four(&mut self, v: Value, of_four: impl FnOnce(&mut Self, Value) -> Value) -> Value {
        let ty = if self.ty(v).is_float() { F32X4 } else { I32X4 };
        let four = self.b.ins().scalar_to_vector(ty, v);
        let made = of_four(self, four);
        self.b.ins().extractlane(made, 0)
    }
}

/// Gives every marked instruction a location that no other has.
pub(super) fn number(function: &mut Function) {
    let blocks: Vec<_> = function.layout.blocks().collect();
    let insts: Vec<_> = blocks.into_iter().flat_map(|block| function.layout.block_insts(block)).collect();
    let marked: Vec<_> = insts.into_iter().filter(|inst| !function.srcloc(*inst).is_default()).collect();
    for (i, inst) in (1u32..).zip(marked) {
        let kind = function.srcloc(inst).bits();
        function.set_srcloc(inst, SourceLoc::new(kind + APART * i));
    }
}

/// Makes conversions of the instructions that stand in their place.
pub(super) fn put(code: &CompiledCode, bytes: &mut [u8]) -> Result<(), String> {
    for place in code.buffer.get_srclocs_sorted().iter().filter(|place| !place.loc.is_default()) {
        let inst = bytes.get_mut(place.start as usize..place.end as usize).unwrap_or_default();
        let widens = place.loc.bits() % APART == WIDENS;
        if !(if widens { widening(inst) } else { narrowing(inst) }) {
            return Err(format!("no conversion of f16 takes the place of {inst:02x?}"));
        }
    }
    Ok(())
}

/// Says whether an instruction has two operands in registers, three bytes of prefix, this opcode in this map, and 128 bits.
fn is_of_registers(inst: &[u8], map: u8, opcode: u8) -> bool {
    matches!(inst, [0xc4, b, c, op, operands, ..]
        if b & 0x1f == map && c & 0x7f == 0x79 && *op == opcode && operands >> 6 == 3)
}

fn widening(inst: &mut [u8]) -> bool {
    let found = is_of_registers(inst, 2, 0x23);
    if found {
        inst[2] &= 0x7f;
        inst[3] = 0x13;
    }
    found
}

fn narrowing(inst: &mut [u8]) -> bool {
    let found = is_of_registers(inst, 3, 0x08) && inst.len() >= 6;
    if found {
        // The register that is written is the second operand, and the upper bits of both stand in the prefix.
        let (b, operands) = (inst[1], inst[4]);
        inst[1] = b & 0x5f | (b & 0x80) >> 2 | (b & 0x20) << 2;
        inst[2] &= 0x7f;
        inst[3] = 0x1d;
        inst[4] = 0xc0 | (operands & 7) << 3 | operands >> 3 & 7;
        inst[5] = 0;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodings as an assembler gives them.
    #[test]
    fn bytes_become_those_of_the_conversions() {
        // vpmovsxwd xmm9, xmm3; vcvtph2ps xmm9, xmm3.
        let mut widened = [0xc4, 0x62, 0x79, 0x23, 0xcb];
        assert!(widening(&mut widened));
        assert_eq!(widened, [0xc4, 0x62, 0x79, 0x13, 0xcb]);
        // vroundps xmm9, xmm3, 0; vcvtps2ph xmm9, xmm3, 0.
        let mut narrowed = [0xc4, 0x63, 0x79, 0x08, 0xcb, 0x00];
        assert!(narrowing(&mut narrowed));
        assert_eq!(narrowed, [0xc4, 0xc3, 0x79, 0x1d, 0xd9, 0x00]);
        // From memory: vroundps xmm1, [rax], 0.
        assert!(!narrowing(&mut [0xc4, 0xe3, 0x79, 0x08, 0x08, 0x00]));
        assert!(!widening(&mut [0x66, 0x0f, 0x38, 0x23, 0xcb]));
    }
}
