//! Integers and booleans: ranges, wrapping and codes.

use fusewright_abi::DType;

/// The least and greatest value of an integer dtype or `bool`; `(0, 0)` for a float dtype.
pub const fn int_range(dtype: DType) -> (i128, i128) {
    if dtype.is_float() {
        return (0, 0);
    }
    if matches!(dtype, DType::Bool) {
        return (0, 1);
    }
    let bits = dtype.bits();
    if dtype.is_signed_int() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// The number that an element stands for: `u64` elements are carried as the same bits in `i64`.
pub const fn int_value(dtype: DType, v: i64) -> i128 {
    if matches!(dtype, DType::U64) { v as u64 as i128 } else { v as i128 }
}

/// `v` modulo 2^bits as an element of `dtype`; as `bool`, everything but zero is 1.
pub const fn wrap_int(dtype: DType, v: i64) -> i64 {
    if matches!(dtype, DType::Bool) {
        return (v != 0) as i64;
    }
    let unused = 64 - dtype.bits();
    if dtype.is_signed_int() { v << unused >> unused } else { ((v as u64) << unused >> unused) as i64 }
}

/// An element of dtype `from` clamped to the range of `to`; as `bool`, everything but zero is 1.
pub fn saturate_int(from: DType, v: i64, to: DType) -> i64 {
    if to == DType::Bool {
        return i64::from(v != 0);
    }
    let (least, greatest) = int_range(to);
    int_value(from, v).clamp(least, greatest) as i64
}

/// The bits of an integer or boolean element, in the low end of the word.
pub const fn encode_int(dtype: DType, v: i64) -> u64 {
    let unused = 64 - dtype.bits();
    (v as u64) << unused >> unused
}

/// The element of an integer or boolean code; bits above the dtype's width are ignored.
pub const fn decode_int(dtype: DType, bits: u64) -> i64 {
    let unused = 64 - dtype.bits();
    wrap_int(dtype, ((bits << unused) >> unused) as i64)
}
