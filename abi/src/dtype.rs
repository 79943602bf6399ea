//! Element types and their storage sizes.
//!
//! A dtype says how one element is stored; packed 4-bit types store two elements per byte, the even one in the low
//! nibble. Nothing here converts values: numeric meaning lives in the graph crate.

use std::fmt;
use std::str::FromStr;

/// The type of one tensor element.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DType {
    /// IEEE binary64.
    F64,
    /// IEEE binary32.
    F32,
    /// bfloat16: 8 exponent bits, 7 mantissa bits.
    BF16,
    /// IEEE binary16.
    F16,
    /// OCP fp8 e4m3fn: no infinities, NaN is 0x7f/0xff, largest finite 448.
    F8E4M3,
    /// OCP fp8 e5m2: IEEE-like, with infinities, largest finite 57344.
    F8E5M2,
    /// Exponent-only scale: 2^(code − 127), 0xff is NaN.
    F8E8M0,
    /// Packed 4-bit float e2m1: ±{0, 0.5, 1, 1.5, 2, 3, 4, 6}.
    F4E2M1,
    /// Signed 64-bit integer.
    I64,
    /// Signed 32-bit integer.
    I32,
    /// Signed 16-bit integer.
    I16,
    /// Signed 8-bit integer.
    I8,
    /// Unsigned 64-bit integer.
    U64,
    /// Unsigned 32-bit integer.
    U32,
    /// Unsigned 16-bit integer.
    U16,
    /// Unsigned 8-bit integer.
    U8,
    /// Packed signed 4-bit integer.
    I4,
    /// Packed unsigned 4-bit integer.
    U4,
    /// One byte, 0 or 1.
    Bool,
}

impl DType {
    /// Every dtype, in declaration order.
    pub const ALL: [DType; 19] = [
        DType::F64,
        DType::F32,
        DType::BF16,
        DType::F16,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F8E8M0,
        DType::F4E2M1,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U64,
        DType::U32,
        DType::U16,
        DType::U8,
        DType::I4,
        DType::U4,
        DType::Bool,
    ];

    /// Storage bits of one element.
    pub const fn bits(self) -> u32 {
        match self {
            DType::F64 | DType::I64 | DType::U64 => 64,
            DType::F32 | DType::I32 | DType::U32 => 32,
            DType::BF16 | DType::F16 | DType::I16 | DType::U16 => 16,
            DType::F8E4M3 | DType::F8E5M2 | DType::F8E8M0 | DType::I8 | DType::U8 | DType::Bool => 8,
            DType::F4E2M1 | DType::I4 | DType::U4 => 4,
        }
    }

    /// Bytes that `elements` consecutive elements take; packed types round up to a whole byte.
    pub const fn bytes_for(self, elements: usize) -> usize {
        // No buffer has as many bytes as what is beyond 64 bits is taken for.
        let bytes = (elements as u128 * self.bits() as u128).div_ceil(8);
        if bytes > usize::MAX as u128 { usize::MAX } else { bytes as usize }
    }

    /// Bytes that a tensor without gaps takes; `None` if they are more than an address can tell apart.
    pub fn bytes_of(self, shape: &[usize]) -> Option<usize> {
        shape.iter().try_fold(1usize, |n, &extent| n.checked_mul(extent)).map(|n| self.bytes_for(n))
    }

    /// True for every floating-point type, the 8- and 4-bit ones included.
    pub const fn is_float(self) -> bool {
        matches!(
            self,
            DType::F64
                | DType::F32
                | DType::BF16
                | DType::F16
                | DType::F8E4M3
                | DType::F8E5M2
                | DType::F8E8M0
                | DType::F4E2M1
        )
    }

    /// True for signed and unsigned integers; `Bool` is neither float nor integer.
    pub const fn is_int(self) -> bool {
        !self.is_float() && !matches!(self, DType::Bool)
    }

    /// True for signed integers.
    pub const fn is_signed_int(self) -> bool {
        matches!(self, DType::I64 | DType::I32 | DType::I16 | DType::I8 | DType::I4)
    }

    /// The name used in every text form.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::BF16 => "bf16",
            DType::F16 => "f16",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::F8E8M0 => "f8e8m0",
            DType::F4E2M1 => "f4e2m1",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::I16 => "i16",
            DType::I8 => "i8",
            DType::U64 => "u64",
            DType::U32 => "u32",
            DType::U16 => "u16",
            DType::U8 => "u8",
            DType::I4 => "i4",
            DType::U4 => "u4",
            DType::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not the name of a dtype.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseDTypeError(pub String);

impl fmt::Display for ParseDTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown dtype `{}`", self.0)
    }
}

impl std::error::Error for ParseDTypeError {}

impl FromStr for DType {
    type Err = ParseDTypeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        DType::ALL.into_iter().find(|d| d.name() == text).ok_or_else(|| ParseDTypeError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_parse_back() {
        for dtype in DType::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        assert!("float8".parse::<DType>().is_err());
    }

    #[test]
    fn packed_types_round_up() {
        assert_eq!(DType::F4E2M1.bytes_for(7), 4);
        assert_eq!(DType::BF16.bytes_for(7), 14);
        assert_eq!(DType::U4.bytes_for(0), 0);
    }
}
