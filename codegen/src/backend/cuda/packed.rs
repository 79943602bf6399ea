//! Codes of four bits of neighbouring lanes in one integer, as they are rounded: each moves those before it up, its sign and
//! its magnitude in one instruction each.

use fusewright_abi::DType;
use fusewright_graph::Rounding;
use inkwell::values::IntValue;

use super::dialect::counted;
use super::rows::Rows;
use crate::backend::llvm::narrow::format;
use crate::backend::llvm::{Built, Value};
use crate::kernel::{Inst, InstOp, Val};

/// Bits of a code.
const BITS: u32 = 4;

impl<'c> Rows<'_, 'c> {
    /// Codes of lanes in one integer, the first in the low bits, if they are rounded from f32 and fill no more than the bits
    /// below which [`counted`] has zeros.
    pub fn pack_of_rounded(&mut self, x: Val, to: DType, lanes: &[IntValue<'c>]) -> Built<Option<Value<'c>>> {
        let Inst { op: InstOp::Cast { to: DType::F4E2M1, round: Rounding::NearestEven, saturate: true }, args, .. } =
            &self.segment.insts[self.defining[x.0 as usize]]
        else {
            return Ok(None);
        };
        let (from, fits) = (args[0], to.bits() <= 16 && lanes.len() as u32 * BITS == to.bits());
        let Some(f) = format(DType::F4E2M1).filter(|_| fits && self.segment.ty(from).dtype == DType::F32) else {
            return Ok(None);
        };
        let code = self.code;
        let mut packed = code.i32(0);
        for &lane in lanes.iter().rev() {
            let element = self.element(from, lane)?;
            let [sum, sign] = counted(code, element, &f)?;
            let one = code.i32(1).into();
            let signed = code.call("llvm.fshl", &[code.ctx.i32_type().into()], &[packed.into(), sign, one])?;
            let above = code.b.build_left_shift(signed.into_int_value(), code.i32(i64::from(BITS) - 1), "")?;
            packed = code.b.build_int_add(above, sum.into_int_value(), "")?;
        }
        let packed = code.resize(packed, to.bits())?;
        code.bits(packed, code.type_of(to)).map(Some)
    }
}
