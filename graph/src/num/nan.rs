//! NaNs that have a code of their own: elements of tensors keep it as long as they are moved.
//!
//! Of the `f64`s that stand for elements, `f64::NAN` is the canonical NaN of every dtype. Another NaN of a dtype of at
//! most 32 bits is one that holds the code in its low half; one of `f64` is itself. Whatever else is NaN counts as the
//! canonical one.

use fusewright_abi::DType;

use super::{decode, encode};

/// The upper half of an `f64` that holds a code: a quiet NaN, so that nothing changes it on the way.
const HOLDS: u64 = 0x7ffc_0000;

/// Whether a dtype has NaNs of several codes.
pub const fn has_nans(dtype: DType) -> bool {
    dtype.is_float() && !matches!(dtype, DType::F8E8M0 | DType::F4E2M1)
}

/// The element that a code is: its value, or the NaN that it is.
pub fn element(dtype: DType, code: u64) -> f64 {
    let value = decode(dtype, code);
    if !value.is_nan() || dtype == DType::F64 {
        return value;
    }
    let code = code & (u64::MAX >> (64 - dtype.bits()));
    if code == encode(dtype, f64::NAN) { f64::NAN } else { f64::from_bits(HOLDS << 32 | code) }
}

/// The code of an element: as [`encode`], but for a NaN that [`element`] made of another code.
pub fn code(dtype: DType, x: f64) -> u64 {
    if !x.is_nan() {
        return encode(dtype, x);
    }
    if dtype == DType::F64 {
        return x.to_bits();
    }
    let (holds, code) = (x.to_bits() >> 32 == HOLDS, x.to_bits() & u64::from(u32::MAX));
    let fits = holds && code >> dtype.bits() == 0 && decode(dtype, code).is_nan();
    if fits { code } else { encode(dtype, x) }
}
