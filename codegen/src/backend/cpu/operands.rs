//! What a vector was made of, where one instruction more would undo what another one did.

use cranelift_codegen::ir::{Inst, InstructionData, Opcode, Value};

use super::code::Code;

impl Code<'_> {
    /// `x` of `x & mask`.
    pub fn under_mask(&self, v: Value, mask: u32) -> Option<Value> {
        let [x, by] = self.binary(v, Opcode::Band)?;
        self.has_lanes(by, mask).then_some(x)
    }

    /// `x` of what has the low bits of `x` sign-extended from so many.
    pub fn before_extension(&self, v: Value, bits: u32) -> Option<Value> {
        let [up, right] = self.binary(v, Opcode::Sshr)?;
        let [x, left] = self.binary(up, Opcode::Ishl)?;
        let unused = Some(i64::from(32 - bits));
        (self.is_vector(v) && self.constant(left) == unused && self.constant(right) == unused).then_some(x)
    }

    fn defining(&self, v: Value) -> Option<Inst> {
        let dfg = &self.b.func.dfg;
        dfg.value_def(dfg.resolve_aliases(v)).inst()
    }

    fn binary(&self, v: Value, of: Opcode) -> Option<[Value; 2]> {
        match self.b.func.dfg.insts[self.defining(v)?] {
            InstructionData::Binary { opcode, args } if opcode == of => Some(args),
            _ => None,
        }
    }

    fn constant(&self, v: Value) -> Option<i64> {
        match self.b.func.dfg.insts[self.defining(v)?] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
            _ => None,
        }
    }

    fn has_lanes(&self, v: Value, bits: u32) -> bool {
        let dfg = &self.b.func.dfg;
        self.defining(v).is_some_and(|inst| match dfg.insts[inst] {
            InstructionData::UnaryConst { opcode: Opcode::Vconst, constant_handle } => {
                dfg.constants.get(constant_handle).as_slice() == bits.to_le_bytes().repeat(4)
            }
            _ => false,
        })
    }
}
