//! Searches of rows: the extreme element, and the largest in order.
//!
//! Largest elements are found one after the other, each by a reduction for which all threads wait. Where a row has a thread
//! for each of its lanes and many of them are asked for, threads count at once how many lanes are before their own.

use fusewright_abi::DType;
use fusewright_graph::{Dim, ReduceOp, ScalarFn};
use inkwell::IntPredicate;
use inkwell::types::{BasicTypeEnum, IntType};
use inkwell::values::IntValue;

use super::code::SHARED;
use super::plan::WARP;
use super::reduce::start;
use super::rows::Rows;
use crate::backend::llvm::cast::{Cast, cast, literal};
use crate::backend::llvm::code::Code;
use crate::backend::llvm::map::map;
use crate::backend::llvm::{BuildError, Built, Value};
use crate::kernel::{Inst, InstOp, Over, Segment, Val};

/// Most lanes of a row whose places are counted: a block's threads.
const MOST_RANKED: i64 = 1024;
/// How often comparing two lanes takes less than searching for one more element, for a row of a device that is not filled.
const COMPARED_FOR_ONE: i64 = 1 << 15;
/// Lanes that a thread compares with its own at once.
const AT_ONCE: u32 = 8;

/// The lanes of a row, if to count the places of all is faster than to search for the `k` largest.
fn ranked(lanes: &Dim, k: &Dim) -> Option<u32> {
    let (lanes, k) = (lanes.as_const()?, k.as_const()?);
    let few = lanes <= MOST_RANKED && lanes * lanes <= k.saturating_mul(COMPARED_FOR_ONE);
    u32::try_from(lanes).ok().filter(|_| few)
}

/// The same of an instruction of a segment.
pub(super) fn ranked_by(segment: &Segment, inst: &Inst) -> Option<u32> {
    match &inst.op {
        InstOp::TopK { k, over: Over::Row } => ranked(&segment.ty(inst.args[0]).shape.elements(), k),
        _ => None,
    }
}

/// One integer of words, the low one first.
fn joined<'c>(code: &Code<'c>, words: &[IntValue<'c>], ty: IntType<'c>) -> Built<IntValue<'c>> {
    let mut all = ty.const_zero();
    for (place, word) in (0..).step_by(32).zip(words) {
        let wide = code.resize(*word, ty.get_bit_width())?;
        let placed = code.b.build_left_shift(wide, ty.const_int(place, false), "")?;
        all = code.b.build_or(all, placed, "")?;
    }
    Ok(all)
}

impl<'a, 'c> Rows<'a, 'c> {
    /// The extreme element of a row and its lane: the first of equals, and a NaN before all.
    pub fn arg_reduce(&mut self, op: ReduceOp, x: Val) -> Built<Vec<Value<'c>>> {
        let none = vec![literal(self.code, &start(op, self.segment.ty(x).dtype)?)?, self.code.i32(-1).into()];
        self.next_extreme(op, x, &none)
    }

    /// The elements of a row in descending order, as [`Rows::arg_reduce`] orders them.
    pub fn top_k(&mut self, x: Val, k: &Dim, held: [IntValue<'c>; 2]) -> Built<()> {
        match ranked(&self.segment.ty(x).shape.elements(), k).filter(|lanes| *lanes <= self.frame.threads) {
            Some(lanes) => self.by_rank(x, lanes, k, held),
            None => self.by_search(x, k, held),
        }
    }

    /// Each thread has one element, counts those before it, and writes it to that place.
    fn by_rank(&mut self, x: Val, lanes: u32, k: &Dim, held: [IntValue<'c>; 2]) -> Built<()> {
        let (code, thread, dtype) = (self.code, self.frame.thread, self.segment.ty(x).dtype);
        let has_one = code.cmp(IntPredicate::ULT, thread, code.i64(i64::from(lanes)))?;
        let key_type = code.int_type(if dtype.bits() > 32 { 64 } else { 32 });
        // What is behind the last lane is equal to others at most, and never before them.
        let least = key_type.const_int(1 << (key_type.get_bit_width() - 1), false);
        let none = match code.type_of(dtype) {
            BasicTypeEnum::FloatType(ty) => ty.const_zero().into(),
            ty => ty.into_int_type().const_zero().into(),
        };
        let own = self.branch(
            has_one,
            |rows| {
                let element = rows.element(x, thread)?;
                Ok(vec![element, rows.key(element, dtype)?.into()])
            },
            |_| Ok(vec![none, least.into()]),
        )?;
        let (element, key) = (own[0], own[1].into_int_value());
        let bytes = i64::from(key_type.get_bit_width() / 8);
        self.take_shared(i64::from(self.frame.threads) * bytes)?;
        let name = format!("{}.{}.keys", self.segment.name, x.0);
        let keys = code.shared_array(&name, key_type.into(), self.frame.threads)?;
        self.put(keys, thread, key.into())?;
        code.barrier()?;
        let end = code.i64(i64::from(lanes));
        let bytes = code.i64(bytes);
        let lane = code.resize(thread, 32)?;
        let zero = code.i32(0).into();
        let rank = self.each(code.i64(0), end, code.i64(i64::from(AT_ONCE)), vec![zero], |rows, first, so_far| {
            let code = rows.code;
            let address = code.add(keys, code.mul(first, bytes)?)?;
            let words = code.load_words(address, AT_ONCE * key_type.get_bit_width() / 8, SHARED)?;
            let others = words.chunks(words.len() / AT_ONCE as usize);
            let first = code.resize(first, 32)?;
            let mut rank = so_far[0].into_int_value();
            for (i, words) in others.enumerate() {
                let at = code.i32(i as i64);
                let other = joined(code, words, key_type)?;
                let larger = code.cmp(IntPredicate::SGT, other, key)?;
                let equal = code.cmp(IntPredicate::EQ, other, key)?;
                let earlier = code.cmp(IntPredicate::ULT, code.add(first, at)?, lane)?;
                let before = code.b.build_or(larger, code.b.build_and(equal, earlier, "")?, "")?;
                rank = code.add(rank, code.resize(before, 32)?)?;
            }
            Ok(vec![rank.into()])
        })?;
        let place = code.resize(rank[0].into_int_value(), 64)?;
        let asked = code.cmp(IntPredicate::SLT, place, self.dim(k)?)?;
        let writes = code.b.build_and(has_one, asked, "")?;
        self.when(writes, |rows| {
            rows.put(held[0], place, element)?;
            rows.put(held[1], place, lane.into())
        })?;
        self.code.barrier()
    }

    /// An integer with a sign that is in the order of the elements of a row: two zeros are equal, and NaN is the greatest.
    fn key(&self, x: Value<'c>, dtype: DType) -> Built<IntValue<'c>> {
        let code = self.code;
        if dtype.is_float() {
            let wide = if dtype.bits() < 32 { cast(code, x, Cast::nearest(dtype, DType::F32))? } else { x };
            let zero = code.float(wide, 0.0).into_float_value();
            return self.ordered(code.b.build_float_add(wide.into_float_value(), zero, "")?.into());
        }
        let int = x.into_int_value();
        let key_type = code.int_type(int.get_type().get_bit_width().max(32));
        let key = code.b.build_int_cast_sign_flag(int, key_type, dtype.is_signed_int(), "")?;
        if dtype.is_signed_int() || dtype.bits() < 32 {
            return Ok(key);
        }
        let sign = key_type.const_int(1 << (key_type.get_bit_width() - 1), false);
        Ok(code.b.build_xor(key, sign, "")?)
    }

    /// One search after the other.
    fn by_search(&mut self, x: Val, k: &Dim, held: [IntValue<'c>; 2]) -> Built<()> {
        let none =
            vec![literal(self.code, &start(ReduceOp::Max, self.segment.ty(x).dtype)?)?, self.code.i32(-1).into()];
        let count = self.dim(k)?;
        self.each(self.code.i64(0), count, self.code.i64(1), none, |rows, place, last| {
            let next = rows.next_extreme(ReduceOp::Max, x, last)?;
            let leads = rows.code.cmp(IntPredicate::EQ, rows.frame.thread, rows.code.i64(0))?;
            rows.when(leads, |rows| held.iter().zip(&next).try_for_each(|(&to, &value)| rows.put(to, place, value)))?;
            // The next search uses the same slots.
            rows.code.barrier()?;
            Ok(next)
        })
        .map(|_| ())
    }

    /// The first element, in the order of the search, behind the pair `last`; a negative lane is before all.
    fn next_extreme(&mut self, op: ReduceOp, x: Val, last: &[Value<'c>]) -> Built<Vec<Value<'c>>> {
        let dtype = self.segment.ty(x).dtype;
        let count = self.dim(&self.segment.ty(x).shape.elements())?;
        let beyond = if op == ReduceOp::Max { ScalarFn::Gt } else { ScalarFn::Lt };
        let precedes = move |rows: &Rows<'a, 'c>, b: &[Value<'c>], a: &[Value<'c>]| {
            let code = rows.code;
            let test = |f, x: Value<'c>, y: Value<'c>| -> Built<IntValue<'c>> {
                Ok(map(code, f, dtype, &[x, y])?.into_int_value())
            };
            let (a_nan, b_nan) = (test(ScalarFn::Ne, a[0], a[0])?, test(ScalarFn::Ne, b[0], b[0])?);
            let larger = code.b.build_or(test(beyond, b[0], a[0])?, b_nan, "")?;
            let larger = code.b.build_and(larger, code.b.build_not(a_nan, "")?, "")?;
            let both_nan = code.b.build_and(a_nan, b_nan, "")?;
            let equal = code.b.build_or(test(ScalarFn::Eq, a[0], b[0])?, both_nan, "")?;
            // Unsigned, so that a missing lane comes behind every other.
            let earlier = code.cmp(IntPredicate::ULT, b[1].into_int_value(), a[1].into_int_value())?;
            Ok::<_, BuildError>(code.b.build_or(larger, code.b.build_and(equal, earlier, "")?, "")?)
        };
        let combine = move |rows: &Rows<'a, 'c>, a: &[Value<'c>], b: &[Value<'c>]| {
            let takes = precedes(rows, b, a)?;
            Ok(vec![rows.code.select(takes, b[0], a[0])?, rows.code.select(takes, b[1], a[1])?])
        };
        let start = vec![literal(self.code, &start(op, dtype)?)?, self.code.i32(-1).into()];
        let step = self.code.i64(i64::from(self.frame.threads));
        let fresh = self.code.cmp(IntPredicate::SLT, last[1].into_int_value(), self.code.i32(0))?;
        let own = self.each(self.frame.thread, count, step, start, |rows, lane, so_far| {
            let element = [rows.element(x, lane)?, rows.code.resize(lane, 32)?.into()];
            let behind = rows.code.b.build_or(precedes(rows, last, &element)?, fresh, "")?;
            let better = combine(rows, so_far, &element)?;
            better.iter().zip(so_far).map(|(&new, &old)| rows.code.select(behind, new, old)).collect()
        })?;
        let warp = self.combine_warp(own, self.frame.threads, WARP, &combine)?;
        self.combine_blocks(warp, self.frame.threads / WARP, &combine)
    }
}
