//! The largest of integers in stack memory, one after the other: vectors find each without a branch that depends on values.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I32X4};
use cranelift_codegen::ir::{InstBuilder, Value};

use super::code::Code;

/// Lanes of a vector of integers.
pub(super) const WIDTH: i64 = 4;
/// No integer that is ordered is as small.
const TAKEN: i32 = i32::MIN;

impl Code<'_> {
    /// Writes the lanes of the `count` largest of `size` integers, the first of equals first.
    pub(super) fn extremes(&mut self, keys: Value, size: i64, count: i64, lanes: Value) {
        let (whole, all) = (size / WIDTH * WIDTH, (size + WIDTH - 1) / WIDTH * WIDTH);
        let left = self.stack(all as u32 * 4);
        let (zero, end) = (self.i64(0), self.i64(whole));
        let l = self.begin_loop(zero, end, WIDTH);
        let from = self.element(keys, l.i, 4);
        let chunk = self.load(I32X4, from, 0);
        let to = self.element(left, l.i, 4);
        self.store(chunk, to, 0);
        self.end_loop(l);
        let taken = self.bits(I32, TAKEN as u32);
        for lane in whole..all {
            let key = if lane < size { self.load(I32, keys, lane as i32 * 4) } else { taken };
            self.store(key, left, lane as i32 * 4);
        }
        let (zero, end) = (self.i64(0), self.i64(count));
        let l = self.begin_loop(zero, end, 1);
        let lane = self.first_extreme(left, all);
        let place = self.element(lanes, l.i, 4);
        self.store(lane, place, 0);
        let lane = self.b.ins().uextend(cranelift_codegen::ir::types::I64, lane);
        let found = self.element(left, lane, 4);
        self.store(taken, found, 0);
        self.end_loop(l);
    }

    /// The first lane of the largest of some vectors of integers.
    fn first_extreme(&mut self, keys: Value, lanes: i64) -> Value {
        let [best, places] = std::array::from_fn(|_| self.b.declare_var(I32X4));
        let least = self.bits(I32X4, TAKEN as u32);
        self.b.def_var(best, least);
        let first = self.lanes([0, 1, 2, 3]);
        self.b.def_var(places, first);
        let (zero, end) = (self.i64(0), self.i64(lanes));
        let l = self.begin_loop(zero, end, WIDTH);
        let from = self.element(keys, l.i, 4);
        let chunk = self.load(I32X4, from, 0);
        let number = self.b.ins().ireduce(I32, l.i);
        let base = self.splat(number);
        let numbers = self.b.ins().iadd(base, first);
        let (so_far, at) = (self.b.use_var(best), self.b.use_var(places));
        let better = self.icmp(IntCC::SignedGreaterThan, chunk, so_far);
        let (key, place) = (self.select(better, chunk, so_far), self.select(better, numbers, at));
        self.b.def_var(best, key);
        self.b.def_var(places, place);
        self.end_loop(l);
        let (mut key, mut place) = (self.b.use_var(best), self.b.use_var(places));
        for turned in [[2, 3, 0, 1], [1, 0, 3, 2]] {
            let (other_key, other_place) = (self.shuffle(key, key, turned), self.shuffle(place, place, turned));
            let (more, same) =
                (self.icmp(IntCC::SignedGreaterThan, other_key, key), self.icmp(IntCC::Equal, other_key, key));
            let ahead = self.icmp(IntCC::SignedLessThan, other_place, place);
            let first_of_same = self.b.ins().band(same, ahead);
            let better = self.or(more, first_of_same);
            (key, place) = (self.select(better, other_key, key), self.select(better, other_place, place));
        }
        self.b.ins().extractlane(place, 0)
    }
}
