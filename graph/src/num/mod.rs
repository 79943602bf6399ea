//! Numbers of every dtype: codes, rounding and distance.
//!
//! A float element is carried as the `f64` that it stands for; every float dtype's values are exact in `f64`. An
//! integer or boolean element is carried as `i64`; `u64` as the same 64 bits. Results that have to be rounded are
//! rounded exactly once, from the exact value of the argument.
//!
//! No function keeps a NaN's payload: its result is encoded as the dtype's canonical NaN. Elements that are moved keep
//! their codes ([`element`] and [`code`]). `f8e8m0` has neither sign nor zero: the
//! sign of an operand is dropped and zero becomes the least value, 2⁻¹²⁷. `f4e2m1` has no NaN: it becomes 6.

mod float;
mod int;
mod nan;
mod order;
mod round;

pub use float::{decode, encode, max_finite};
pub use int::{decode_int, encode_int, int_range, int_value, saturate_int, wrap_int};
pub use nan::{code, element, has_nans};
pub use order::{key, next_down, next_up, ulp, unit_roundoff};
pub(crate) use round::fma_to_odd;
pub use round::{float_to_int, fma, int_to_float, round_to};

#[cfg(test)]
mod tests;
