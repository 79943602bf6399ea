//! Codes of neighbouring lanes in one integer. Those of four bits are placed as they are rounded: each moves those before it
//! up, its sign and its magnitude in one instruction each.

use fusewright_abi::DType;
use fusewright_graph::{Rounding, ScalarFn};
use inkwell::values::IntValue;
use inkwell::{FloatPredicate, IntPredicate};

use super::dialect::{above, bound, count, counted};
use super::plan::VECTOR;
use super::rows::Rows;
use crate::backend::llvm::narrow::{Format, format};
use crate::backend::llvm::{Built, Value};
use crate::kernel::{Inst, InstOp, Shape, Val};

/// Bits of a code.
const BITS: u32 = 4;
/// The signs of eight codes.
const SIGNS: i64 = 0x8888_8888;

/// For each lane bits whose low ones are the code of a magnitude, and bits whose first is its sign.
type Counts<'c> = Vec<[Value<'c>; 2]>;

impl<'c> Rows<'_, 'c> {
    /// Codes at neighbouring lanes in one element.
    pub fn pack(&mut self, x: Val, ways: u32, to: DType, lane: IntValue<'c>) -> Built<Value<'c>> {
        let from = |way| self.lane_of(lane, i64::from(ways), self.code.i64(i64::from(way)));
        let lanes = (0..ways).map(from).collect::<Built<Vec<_>>>()?;
        self.pack_of(x, to, &lanes)
    }

    /// The codes at some lanes in one element.
    pub fn pack_of(&mut self, x: Val, to: DType, lanes: &[IntValue<'c>]) -> Built<Value<'c>> {
        if let Some(packed) = self.pack_of_rounded(x, to, lanes)? {
            return Ok(packed);
        }
        let bits = self.segment.ty(x).dtype.bits();
        let word = self.code.int_type(to.bits().max(8));
        let mut packed = word.const_zero();
        for (way, &lane) in (0u32..).zip(lanes) {
            let element = self.element(x, lane)?;
            let (element, _) = self.in_memory(element)?;
            let code = self.code.bits(element, self.code.int_type(bits.max(8)))?.into_int_value();
            let code = self.code.resize(code, word.get_bit_width())?;
            let place = word.const_int(u64::from(way * bits), false);
            packed = self.code.b.build_or(packed, self.code.b.build_left_shift(code, place, "")?, "")?;
        }
        self.code.bits(packed, self.code.type_of(to))
    }

    /// Codes of lanes in one integer, the first in the low bits, if they are rounded from f32 and fill it.
    fn pack_of_rounded(&mut self, x: Val, to: DType, lanes: &[IntValue<'c>]) -> Built<Option<Value<'c>>> {
        let Some((from, f)) = self.rounded_to_codes(x) else { return Ok(None) };
        if to.bits() > 32 || lanes.len() as u32 * BITS != to.bits() {
            return Ok(None);
        }
        let code = self.code;
        let counts = self.counts_of_any(from, lanes, &f)?;
        let packed = code.resize(self.placed(&counts, &f)?.into_int_value(), to.bits())?;
        code.bits(packed, code.type_of(to)).map(Some)
    }

    /// All codes of a vector, if a value packs them.
    ///
    /// Magnitudes that are not all below the bound of the format are bounded in a branch of its own, where NaNs become its
    /// greatest number. Of a product with a factor for all lanes the sign is that of the lane, and that of the factor turns
    /// all at once.
    pub fn codes_of_vector(&mut self, packed: Val, vector: usize) -> Built<Option<IntValue<'c>>> {
        let segment = self.segment;
        let Inst { op: InstOp::Pack { ways, to }, args, .. } = &segment.insts[self.defining[packed.0 as usize]] else {
            return Ok(None);
        };
        let Some((from, f)) = self.rounded_to_codes(args[0]) else { return Ok(None) };
        let lanes = self.own(vector).to_vec();
        if ways * BITS != to.bits() || lanes.len() as u32 != VECTOR || VECTOR * BITS != 32 {
            return Ok(None);
        }
        let code = self.code;
        let (scaled, factor) = match self.uniform_factor(from) {
            Some((x, factor)) => {
                let factor = self.operand(factor, &segment.ty(from).shape, lanes[0])?;
                // Not by `fabs`: a product of two magnitudes becomes that of a product, whose sums need it as a number. A
                // negative zero stays, and has products that are not below the bound.
                let below_zero = code.fcmp(FloatPredicate::OLT, factor, code.float(factor, 0.0))?;
                let magnitude = code.select(below_zero, code.fneg(factor)?, factor)?;
                (x, Some((magnitude, code.sar(code.bits_of(factor)?, 31)?)))
            }
            None => (from, None),
        };
        let mut magnitudes = Vec::new();
        let mut greatest: Option<Value<'c>> = None;
        for &lane in &lanes {
            let x = self.element(scaled, lane)?;
            let mut magnitude = code.same("llvm.fabs", &[x])?;
            if let Some((factor, _)) = factor {
                magnitude = code.fmul(magnitude, factor)?;
            }
            let bits = code.bits_of(magnitude)?;
            greatest = Some(greatest.map_or(Ok(bits), |so_far| code.same("llvm.umax", &[so_far, bits]))?);
            magnitudes.push([magnitude, code.bits_of(x)?]);
        }
        let Some(greatest) = greatest else { return Ok(None) };
        // In the order of bits, in which NaNs are above all others.
        let below = code.icmp_const(IntPredicate::ULT, greatest, i64::from(bound(&f).to_bits()))?.into_int_value();
        let found = self.branch(
            below,
            |rows| {
                let counts = magnitudes.iter().map(|&[magnitude, sign]| Ok([count(code, magnitude, &f)?, sign]));
                let placed = rows.placed(&counts.collect::<Built<Counts<'c>>>()?, &f)?;
                Ok(vec![match factor {
                    Some((_, negative)) => code.xor(placed, code.masked(negative, SIGNS)?)?,
                    None => placed,
                }])
            },
            |rows| {
                let counts = rows.counts_of_any(from, &lanes, &f)?;
                Ok(vec![rows.placed(&counts, &f)?])
            },
        )?;
        Ok(found.first().map(|word| word.into_int_value()))
    }

    /// What codes of four bits are rounded from, and their format.
    fn rounded_to_codes(&self, x: Val) -> Option<(Val, Format)> {
        let Inst { op: InstOp::Cast { to: DType::F4E2M1, round: Rounding::NearestEven, saturate: true }, args, .. } =
            &self.segment.insts[self.defining[x.0 as usize]]
        else {
            return None;
        };
        let from = args[0];
        format(DType::F4E2M1).filter(|_| self.segment.ty(from).dtype == DType::F32).map(|f| (from, f))
    }

    /// The factors of a product, the second of which is one for all lanes of a vector.
    fn uniform_factor(&self, product: Val) -> Option<(Val, Val)> {
        let inst = &self.segment.insts[self.defining[product.0 as usize]];
        let (InstOp::Map(ScalarFn::Mul), &[a, b]) = (&inst.op, inst.args.as_slice()) else { return None };
        let uniform = |value: Val| matches!(self.segment.ty(value).shape, Shape::Scalar | Shape::Group { .. });
        let of_row = |value: Val| matches!(self.segment.ty(value).shape, Shape::Row(_));
        match (of_row(a) && uniform(b), of_row(b) && uniform(a)) {
            (true, _) => Some((a, b)),
            (_, true) => Some((b, a)),
            _ => None,
        }
    }

    fn counts_of_any(&mut self, from: Val, lanes: &[IntValue<'c>], f: &Format) -> Built<Counts<'c>> {
        let code = self.code;
        lanes.iter().map(|&lane| counted(code, self.element(from, lane)?, f)).collect()
    }

    /// Codes of at most eight lanes one after the other, the first in the low bits.
    fn placed(&self, counts: &[[Value<'c>; 2]], f: &Format) -> Built<Value<'c>> {
        let code = self.code;
        let mut packed: Value<'c> = code.i32(0).into();
        for &[count, sign] in counts.iter().rev() {
            let signed = code.same("llvm.fshl", &[packed, sign, code.i32(1).into()])?;
            packed = code.iadd(code.shl(signed, i64::from(BITS) - 1)?, count)?;
        }
        code.plus(packed, -i64::from(all_above(counts.len(), f)))
    }
}

/// What the bits above each code come to, where each moves those before it up.
fn all_above(lanes: usize, f: &Format) -> u32 {
    (0..lanes as u32).fold(0u32, |sum, _| (sum << BITS).wrapping_add(above(f)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the instructions make of codes without signs and the signs.
    fn placed(f: &Format, lanes: &[(u32, bool)]) -> u32 {
        let placed = lanes.iter().rev().fold(0u32, |packed, &(code, negative)| {
            (((packed << 1) | u32::from(negative)) << (BITS - 1)).wrapping_add(above(f) + code)
        });
        placed.wrapping_sub(all_above(lanes.len(), f))
    }

    #[test]
    fn what_is_above_codes_leaves_no_trace() {
        let f = format(DType::F4E2M1).expect("it is a float");
        for seed in 0..1u32 << 16 {
            let bits = seed.wrapping_mul(0x9e37_79b1) ^ seed;
            for count in 1..=8 {
                let code = |lane: u32| (bits >> (BITS * lane)) & 15;
                let lanes: Vec<_> = (0..count).map(|lane| (code(lane) & 7, code(lane) & 8 != 0)).collect();
                let expected = bits & (u32::MAX >> (32 - BITS * count));
                let mask = u32::MAX >> (32 - BITS * count);
                assert_eq!(placed(&f, &lanes) & mask, expected, "{bits:x} {count}");
            }
        }
    }
}
