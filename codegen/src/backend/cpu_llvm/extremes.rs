//! The largest of integers in stack memory, one after the other: vectors find each without a branch that depends on values.

use fusewright_abi::DType;
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::eval::Eval;
use crate::backend::llvm::ops::widened;
use crate::backend::llvm::{Built, Value};

/// About as many integers are lanes of a vector.
pub(super) const WIDTH: i64 = 8;
/// Lanes of the longest and the shortest vectors that are taken at once.
const CHUNK: i64 = 16;
const SHORT: i64 = 4;
/// No integer that is ordered is as small.
const TAKEN: i32 = i32::MIN;

impl<'c> Eval<'_, '_, 'c> {
    /// Writes the lanes of the `count` largest of `size` integers, the first of equals first. Memory behind the integers can
    /// be read as far as a vector reaches.
    pub(super) fn extremes(&mut self, keys: IntValue<'c>, size: i64, count: i64, lanes: IntValue<'c>) -> Built<()> {
        let code = self.code;
        let width = (size.max(SHORT) as u64).next_power_of_two().min(CHUNK as u64) as i64;
        let (whole, all) = (size / width * width, (size + width - 1) / width * width);
        let taken = code.i32(i64::from(TAKEN));
        let left = self.lanes_memory(DType::I32, all)?;
        let load = |eval: &Self, base, at| eval.load_lanes(DType::I32, eval.best_place(base, at, 4)?, width as u32);
        let l = code.begin_loop(code.i64(0), code.i64(whole), width)?;
        let chunk = load(self, keys, l.i)?;
        self.store_lanes(DType::I32, chunk, self.best_place(left, l.i, 4)?)?;
        code.end_loop(l)?;
        if whole < all {
            let end = code.i64(whole);
            let chunk = load(self, keys, end)?;
            let filled = code.splat(code.i32(size - whole).into(), width as u32)?;
            let is_key = code.icmp(IntPredicate::ULT, self.lane_numbers(width as u32), filled)?;
            let chunk = code.select(is_key, chunk, code.splat(taken.into(), width as u32)?)?;
            self.store_lanes(DType::I32, chunk, self.best_place(left, end, 4)?)?;
        }
        let l = code.begin_loop(code.i64(0), code.i64(count), 1)?;
        let lane = self.extreme(left, all, width as u32)?;
        self.store_lanes(DType::I32, lane, self.best_place(lanes, l.i, 4)?)?;
        let lane = code.extend(lane, 64, false)?.into_int_value();
        self.store_lanes(DType::I32, taken.into(), self.best_place(left, lane, 4)?)?;
        code.end_loop(l)?;
        Ok(())
    }

    /// The first lane of the largest of some vectors of integers.
    fn extreme(&mut self, keys: IntValue<'c>, lanes: i64, width: u32) -> Built<Value<'c>> {
        let code = self.code;
        let vector = widened(code.int_type(32).into(), width);
        let (best, places) = (self.variable(vector)?, self.variable(vector)?);
        let numbers = self.lane_numbers(width);
        code.b.build_store(best, code.splat(code.i32(i64::from(TAKEN)).into(), width)?)?;
        code.b.build_store(places, numbers)?;
        let l = code.begin_loop(code.i64(0), code.i64(lanes), i64::from(width))?;
        let chunk = self.load_lanes(DType::I32, self.best_place(keys, l.i, 4)?, width)?;
        let base = code.splat(code.resize(l.i, 32)?.into(), width)?;
        let here = code.b.build_int_add(base.into_vector_value(), numbers.into_vector_value(), "")?;
        let (so_far, at) = (code.b.build_load(vector, best, "")?, code.b.build_load(vector, places, "")?);
        let better = code.icmp(IntPredicate::SGT, chunk, so_far)?;
        code.b.build_store(best, code.same("llvm.smax", &[chunk, so_far])?)?;
        code.b.build_store(places, code.select(better, here, at)?)?;
        code.end_loop(l)?;
        let (keys, places) = (code.b.build_load(vector, best, "")?, code.b.build_load(vector, places, "")?);
        let most = code.call("llvm.vector.reduce.smax", &[vector], &[keys])?;
        let is_most = code.icmp(IntPredicate::EQ, keys, code.splat(most, width)?)?;
        let behind = code.splat(code.i32(i64::from(i32::MAX)).into(), width)?;
        let places = code.select(is_most, places, behind)?;
        code.call("llvm.vector.reduce.smin", &[vector], &[places])
    }
}
