//! `exp` and `exp2` in `f32`, a polynomial of degree 6: at most 1 ulp. Overflow gives infinity, underflow is
//! gradual, NaN stays NaN, `exp(0)` is 1.

use fusewright_graph::ScalarFn;

use super::Column;
use super::emit::Emit;
use crate::kernel::Val;

/// `1.5 · 2²³`: adding it rounds to an integer, which then stands in the low bits.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// `(exp(r) − 1 − r) / r²` on `|r| ≤ ln 2 / 2`, of least relative error of `exp(r)`: 3.1e-9.
pub(super) const POLY: [f32; 5] = [1.381_45e-3, 8.368_75e-3, 4.166_839e-2, 1.666_652e-1, 4.999_999_3e-1];

/// `ln 2` in two parts; the first has few bits, so that its multiples are exact.
pub(super) const LN2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);

/// Beyond these bounds `exp` is 0 or infinity.
const BOUNDS: (f32, f32) = (-105.0, 90.0);
/// By this power `exp` of the lower bound is a normal number.
const TOO_MUCH: i32 = 32;
/// What the exponent of 1 is stored as.
const BIAS: i32 = 127;
/// Below the first of these bounds `1 + exp` is 1, and beyond the second it is infinity.
const BOUNDS_BESIDE_ONE: (f32, f32) = (-64.0, 89.0);
/// Beyond these bounds of `exp(−2x)` `tanh` is ±1.
const BOUNDS_OF_TANH: (f32, f32) = (-40.0, 40.0);

/// The argument of an exponential: a value or its negative, once or twice, and what is to be added to that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Argument {
    pub x: Val,
    pub negative: bool,
    /// Whether it is twice the value.
    pub twice: bool,
    /// Less than an ulp of `x`, and zero where that is beyond ±128.
    pub tail: Option<Val>,
}

impl Argument {
    pub(super) fn of(x: Val) -> Self {
        Argument { x, negative: false, twice: false, tail: None }
    }
}

/// An argument as `n · ln 2 + r`, or less `r` if it is a negative, with `2r` for `r` if it is twice a value: constants have
/// the other sign and the factor, not values.
#[derive(Clone, Copy)]
struct Reduced {
    r: Val,
    negative: bool,
    twice: bool,
    /// `n`, and what was to be added to it, in the low bits.
    t: Val,
}

impl Emit<'_> {
    pub(super) fn exp(&mut self, of: Argument) -> Val {
        let reduced = self.reduced(of, BOUNDS, 0);
        self.exp_reduced(reduced)
    }

    /// `exp` of what is not above 0: the power comes in one factor that no such argument leads out of the normal range,
    /// and one that undoes what it has too much. The bits are those of [`Emit::exp`], which rounds once as well.
    pub(super) fn exp_below_one(&mut self, x: Val) -> Val {
        let power = self.exp_below_one_as_share(x);
        let down = self.c(f32::from_bits(((BIAS - TOO_MUCH) << 23) as u32));
        self.mul(power, down)
    }

    /// The same without the second factor, for quotients by a sum of all of a row: those are the same, and for what would
    /// be below the normal numbers more accurate.
    pub(super) fn exp_below_one_as_share(&mut self, x: Val) -> Val {
        let x = self.at_least(x, BOUNDS.0);
        let reduced = self.split(Argument::of(x), BIAS + TOO_MUCH);
        let p = self.exp_poly(reduced, 1.0);
        self.scaled_up(p, reduced.t)
    }

    /// `exp(x + tail)`.
    pub(super) fn exp_with_tail(&mut self, x: Val, tail: Val) -> Val {
        self.exp(Argument { tail: Some(tail), ..Argument::of(x) })
    }

    /// An `exp` that is only added to 1: no power is below those of normal numbers, so that one factor does.
    pub(super) fn exp_beside_one(&mut self, of: Argument) -> Val {
        // Twice the polynomial by half of the power: the greatest power is no number.
        let reduced = self.reduced(of, BOUNDS_BESIDE_ONE, BIAS - 1);
        let twice = self.exp_poly(reduced, 2.0);
        self.scaled_up(twice, reduced.t)
    }

    /// `1 + tanh(x)` by `2 / (1 + exp(−2x))`, of which `tanh` is that less 1: there it is rounded as well, so that of what
    /// is far below zero as much is left as of a rounded `tanh`. Above zero the last two bits are not right; of a
    /// `gelu` of bf16 that changes none (`tests`).
    pub(super) fn one_plus_tanh(&mut self, x: Val) -> Val {
        let of = Argument { negative: true, twice: true, ..Argument::of(x) };
        let reduced = self.reduced(of, BOUNDS_OF_TANH, BIAS - 1);
        let p = self.exp_poly(reduced, 1.0);
        let half_power = self.scaled_up(p, reduced.t);
        let (one, half) = (self.c(1.0), self.c(0.5));
        let divisor = self.add(half, half_power);
        let quotient = self.div(one, divisor);
        let tanh = self.sub(quotient, one);
        self.add(one, tanh)
    }

    pub(super) fn exp2(&mut self, x: Val) -> Val {
        let x = self.clamped(x, -151.0, 130.0);
        let round = self.c(ROUND);
        let t = self.add(x, round);
        let n = self.sub(t, round);
        let (r, ln2) = (self.sub(x, n), self.c(std::f32::consts::LN_2));
        let r = self.mul(r, ln2);
        self.exp_reduced(Reduced { r, negative: false, twice: false, t })
    }

    /// The parts of an argument, brought within bounds.
    fn reduced(&mut self, of: Argument, (low, high): (f32, f32), more: i32) -> Reduced {
        let (low, high) = if of.negative { (-high, -low) } else { (low, high) };
        let by = if of.twice { 0.5 } else { 1.0 };
        let x = self.clamped(of.x, by * low, by * high);
        self.split(Argument { x, ..of }, more)
    }

    /// The parts of an argument within bounds, with `more` added to `n`. No argument lies between two `n`, so that this
    /// changes none.
    fn split(&mut self, Argument { x, negative, twice, tail }: Argument, more: i32) -> Reduced {
        let by = if twice { 2.0 } else { 1.0 };
        let sign = if negative { -1.0 } else { 1.0 };
        let (log2e, round) = (self.c(sign * by * std::f32::consts::LOG2_E), self.c(ROUND + more as f32));
        let t = self.fma(x, log2e, round);
        let n = self.sub(t, round);
        let (high, low) = (self.c(-sign * LN2.0 / by), self.c(-sign * LN2.1 / by));
        let r = self.fma(n, high, x);
        let r = self.fma(n, low, r);
        let r = tail.map_or(r, |tail| self.add(r, tail));
        Reduced { r, negative, twice, t }
    }

    /// The exponential of a reduced argument without its power of two, times a power of two.
    fn exp_poly(&mut self, of: Reduced, factor: f32) -> Val {
        let mut coefficients: Vec<f32> = POLY.iter().chain(&[1.0, 1.0]).map(|c| c * factor).collect();
        if of.negative {
            coefficients.iter_mut().rev().skip(1).step_by(2).for_each(|odd| *odd = -*odd);
        }
        if of.twice {
            coefficients.iter_mut().rev().fold(1.0, |power, c| {
                *c *= power;
                2.0 * power
            });
        }
        self.poly(of.r, &coefficients)
    }

    /// The power comes in two factors, so that only the last product may leave the normal range, and rounds once there.
    /// Products, not additions to the exponent, so that a NaN of any payload stays one.
    fn exp_reduced(&mut self, of: Reduced) -> Val {
        let p = self.exp_poly(of, 1.0);
        let n = self.bits(of.t);
        let half = self.shr(n, 1);
        let rest = self.sub(n, half);
        let p = self.scaled(p, half, 0);
        self.scaled(p, rest, 0)
    }

    /// `p · 2^(n + more)` for a normal power.
    fn scaled(&mut self, p: Val, n: Val, more: i32) -> Val {
        let factor = self.power_of_two(n, more);
        self.mul(p, factor)
    }

    /// `p` times the power of two whose biased exponent is in the low bits of a value.
    fn scaled_up(&mut self, p: Val, t: Val) -> Val {
        let exponent = self.bits(t);
        let factor = self.shl(exponent, 23);
        let factor = self.float(factor);
        self.mul(p, factor)
    }

    /// `2^(n + more)`, a normal number, of an integer whose low bits are `n`.
    pub(super) fn power_of_two(&mut self, n: Val, more: i32) -> Val {
        let (exponent, bias) = (self.shl(n, 23), self.i((BIAS + more) << 23));
        let factor = self.add(exponent, bias);
        self.float(factor)
    }

    /// `x` within bounds; a NaN stays.
    fn clamped(&mut self, x: Val, low: f32, high: f32) -> Val {
        let x = self.at_least(x, low);
        let high = self.c(high);
        if self.column == Column::Cuda {
            return self.raw(ScalarFn::Min, &[x, high]);
        }
        let above = self.lt(high, x);
        self.select(above, high, x)
    }

    /// `x`, or a bound that it is below; a NaN stays. CPUs have one instruction for the selection, GPUs for the extreme.
    fn at_least(&mut self, x: Val, low: f32) -> Val {
        let low = self.c(low);
        if self.column == Column::Cuda {
            return self.raw(ScalarFn::Max, &[x, low]);
        }
        let below = self.lt(x, low);
        self.select(below, low, x)
    }

    /// What lies within bounds, in words that divisions of GPUs understand, which take fewer steps for it.
    pub(super) fn known_within(&mut self, x: Val, (low, high): (f32, f32)) -> Val {
        if self.column == Column::Cuda { self.clamped(x, low, high) } else { x }
    }
}
