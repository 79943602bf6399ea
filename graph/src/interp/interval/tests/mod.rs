//! Ranges hold whatever a right implementation gives, and are no wider than they must be.

mod elements;
mod graphs;
mod rows;

use fusewright_abi::DType;

use super::*;
use crate::prim::Rounding;

pub(super) const FLOATS: [DType; 8] =
    [DType::F64, DType::F32, DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2, DType::F8E8M0, DType::F4E2M1];

/// Whether an extreme is one of zeros of both signs.
pub(super) fn is_either_zero(x: Interval) -> bool {
    (x.lo.to_bits(), x.hi.to_bits()) == ((-0.0f64).to_bits(), 0.0f64.to_bits())
}

/// A small generator of random numbers, the same on every run.
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 33) % n as u64) as usize
    }

    /// Between −1 and 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    /// A value of a float dtype: special, of any exponent, or of everyday size.
    pub fn value(&mut self, dtype: DType) -> f64 {
        let edge = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, num::max_finite(dtype)];
        let x = match self.below(4) {
            0 => edge[self.below(edge.len())],
            1 => num::decode(dtype, self.next()),
            _ => self.unit() * [1.0, 8.0, 300.0][self.below(3)],
        };
        num::round_to(dtype, x, Rounding::NearestEven, false)
    }

    /// A range with some of its members.
    pub fn interval(&mut self, dtype: DType) -> (Interval, Vec<f64>) {
        let count = 1 + self.below(3);
        let near = self.below(2) == 0;
        let mut members = vec![self.value(dtype)];
        for _ in 1..count {
            let (first, steps) = (members[0], self.below(20));
            members.push(if near { (0..steps).fold(first, |x, _| num::next_up(dtype, x)) } else { self.value(dtype) });
        }
        let range = Interval::of(&members);
        if let (false, false) = (range.is_empty(), range.has_infinity()) {
            let inner = range.lo + (range.hi - range.lo) * (self.unit() + 1.0) / 2.0;
            let inner = num::round_to(dtype, inner, Rounding::NearestEven, false);
            members.extend(range.contains(inner).then_some(inner));
        }
        (range, members)
    }
}
