//! Reductions within the threads of a warp, for rows and groups of few lanes, and the greatest magnitude of a thread's.

use std::ops::Range;

use fusewright_abi::DType;
use fusewright_graph::{NanRule, ReduceOp, ScalarFn};
use inkwell::values::IntValue;

use super::plan::VECTOR;
use super::rows::Rows;
use crate::backend::llvm::map::map;
use crate::backend::llvm::{Built, Value};
use crate::kernel::{InstOp, Shape, Val};

/// The greater magnitude of two pairs of bf16, NaN of one; its signs say nothing.
const PACKED_MAGNITUDE: &str = "llvm.nvvm.fmax.nan.xorsign.abs.bf16x2";
/// The same, NaN of two.
const PACKED_MAGNITUDE_OF_NUMBERS: &str = "llvm.nvvm.fmax.xorsign.abs.bf16x2";

impl<'c> Rows<'_, 'c> {
    /// Reduces the row of a team; every thread of the team ends with the result.
    pub fn reduce_own_row(&mut self, op: ReduceOp, nan: NanRule, x: Val) -> Built<Option<Value<'c>>> {
        let Some(lanes) = self.lanes.as_ref().filter(|lanes| lanes.held.is_team) else { return Ok(None) };
        let (team, vectors) = (lanes.held.row_threads(self.frame.threads), lanes.numbers.len());
        self.reduce_team(op, nan, x, 0..vectors, team).map(Some)
    }

    /// Reduces vectors of each thread of a team: with the two accumulators of the trees, which are combined, and then
    /// across threads. Operands of a step come in either order, which no step but that of NaNs sees.
    pub fn reduce_team(
        &mut self,
        op: ReduceOp,
        nan: NanRule,
        x: Val,
        vectors: Range<usize>,
        team: u32,
    ) -> Built<Value<'c>> {
        let mut part = self.own_part(op, nan, x, vectors)?;
        let mut offset = team / 2;
        while offset > 0 {
            part = self.across(op, nan, x, part, self.code.shuffle_across(part, offset)?)?;
            offset /= 2;
        }
        self.of_part(x, part)
    }

    /// What vectors of this thread come to: of a greatest magnitude its bits, in whose order it is.
    pub fn own_part(&mut self, op: ReduceOp, nan: NanRule, x: Val, vectors: Range<usize>) -> Built<Value<'c>> {
        if let Some(bits) = self.greatest_magnitude(op, nan, x, vectors.clone())? {
            return Ok(bits.into());
        }
        if let Some(extreme) = self.packed_extreme(op, nan, x, vectors.clone())? {
            return Ok(extreme);
        }
        let lanes = self.own_lanes().unwrap_or_default()[vectors].concat();
        let start = vec![self.start_of(op, x)?; 2];
        let ways = self.fold_lanes(op, nan, x, &lanes, start)?;
        map(self.code, op.step(nan), self.segment.ty(x).dtype, &[ways[0], ways[1]])
    }

    /// Combines parts of two threads.
    pub fn across(&self, op: ReduceOp, nan: NanRule, x: Val, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        match (self.segment.ty(x).dtype, a) {
            (DType::F32, Value::IntValue(_)) => self.code.same("llvm.umax", &[a, b]),
            (dtype, _) => map(self.code, op.step(nan), dtype, &[a, b]),
        }
    }

    /// The result that a part of all threads is.
    pub fn of_part(&self, x: Val, part: Value<'c>) -> Built<Value<'c>> {
        self.code.bits(part, self.code.type_of(self.segment.ty(x).dtype))
    }

    /// The greatest or the least of bf16 in vectors of this thread as an f32, NaN if there is one, or the greatest magnitude
    /// of those that are numbers: two lanes in one instruction. Of what is only widened every order gives the same, and
    /// nothing is rounded.
    pub fn packed_extreme(
        &mut self,
        op: ReduceOp,
        nan: NanRule,
        x: Val,
        vectors: Range<usize>,
    ) -> Built<Option<Value<'c>>> {
        let magnitude = &self.segment.insts[self.defining[x.0 as usize]];
        let (instruction, of) = match (op, nan, &magnitude.op) {
            (ReduceOp::Max, NanRule::Propagate, _) => ("llvm.nvvm.fmax.nan.bf16x2", x),
            (ReduceOp::Min, NanRule::Propagate, _) => ("llvm.nvvm.fmin.nan.bf16x2", x),
            (ReduceOp::Max, NanRule::Ignore, InstOp::Map(ScalarFn::Abs)) => {
                (PACKED_MAGNITUDE_OF_NUMBERS, magnitude.args[0])
            }
            _ => return Ok(None),
        };
        let Some(value) = self.widened(of) else { return Ok(None) };
        let Some([even, odd]) = self.packed_extremes(instruction, value, vectors)? else { return Ok(None) };
        let code = self.code;
        let both = code.call(instruction, &[], &[even, odd])?;
        let both = code.b.build_bit_cast(both, code.ctx.i32_type(), "")?;
        let mut halves = [code.float_of(code.shl(both, 16)?)?, code.float_of(code.masked(both, 0xffff_0000)?)?];
        if of != x {
            halves = [code.same("llvm.fabs", &halves[..1])?, code.same("llvm.fabs", &halves[1..])?];
            // Where none is a number the result is what the reduction starts from.
            halves[0] = map(code, op.step(nan), DType::F32, &[halves[0], self.start_of(op, x)?])?;
        }
        map(code, op.step(nan), DType::F32, &halves).map(Some)
    }

    /// The row of bf16 that a value in f32 is a wider form of, where threads compute with pairs.
    fn widened(&self, value: Val) -> Option<Val> {
        let segment = self.segment;
        let wide = &segment.insts[self.defining[value.0 as usize]];
        let of = wide.op.is_widening().then(|| wide.args[0])?;
        let ty = segment.ty(of);
        let packed = ty.dtype == DType::BF16 && matches!(ty.shape, Shape::Row(_)) && self.frame.arch.packed;
        packed.then_some(of)
    }

    /// What an instruction of pairs of bf16 makes of those of vectors of this thread, of every other pair.
    fn packed_extremes(
        &mut self,
        instruction: &str,
        value: Val,
        vectors: Range<usize>,
    ) -> Built<Option<[Value<'c>; 2]>> {
        let code = self.code;
        let ty = code.ctx.bf16_type().vec_type(2);
        let mut extremes = [None; 2];
        for vector in vectors {
            for pair in 0..VECTOR as usize / 2 {
                let word: Value<'c> = code.b.build_bit_cast(self.pair(value, vector, pair)?, ty, "")?;
                let way = &mut extremes[pair % 2];
                *way = Some(match *way {
                    Some(so_far) => code.call(instruction, &[], &[so_far, word])?,
                    None => word,
                });
            }
        }
        let [Some(even), Some(odd)] = extremes else { return Ok(None) };
        Ok(Some([even, odd]))
    }

    /// The greatest magnitude of bf16 in vectors of this thread as the bits of an f32, those of a NaN if there is one: two
    /// lanes in one instruction. It begins with the first of them, never with a zero: of a product and a constant zero the
    /// assembler makes an instruction that takes negative products for zeros.
    pub fn greatest_magnitude(
        &mut self,
        op: ReduceOp,
        nan: NanRule,
        x: Val,
        vectors: Range<usize>,
    ) -> Built<Option<IntValue<'c>>> {
        let magnitude = &self.segment.insts[self.defining[x.0 as usize]];
        if op != ReduceOp::Max || nan != NanRule::Propagate || !matches!(magnitude.op, InstOp::Map(ScalarFn::Abs)) {
            return Ok(None);
        }
        let Some(value) = self.widened(magnitude.args[0]) else { return Ok(None) };
        let Some([even, odd]) = self.packed_extremes(PACKED_MAGNITUDE, value, vectors)? else { return Ok(None) };
        let code = self.code;
        let both = code.call(PACKED_MAGNITUDE, &[], &[even, odd])?;
        let both = code.b.build_bit_cast(both, code.ctx.i32_type(), "")?.into_int_value();
        let low = code.b.build_and(code.b.build_left_shift(both, code.i32(16), "")?, code.i32(0x7fff_ffff), "")?;
        let high = code.b.build_and(both, code.i32(0x7fff_0000), "")?;
        let word = code.ctx.i32_type().into();
        Ok(Some(code.call("llvm.umax", &[word], &[low.into(), high.into()])?.into_int_value()))
    }
}
