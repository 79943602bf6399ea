//! Float formats: layout of the bits, and the value of each code.

use fusewright_abi::DType;

/// What the codes with all exponent bits set mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Specials {
    /// Infinities and NaNs, as in IEEE 754.
    Ieee,
    /// Only the code of all ones is NaN; the others are numbers.
    NanOnly,
    /// All are numbers.
    None,
}

/// A binary format with a sign bit, `exponent` bits below it and `mantissa` bits at the bottom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub bits: u32,
    pub mantissa: u32,
    /// Exponent of the least normal number.
    pub min_exponent: i32,
    pub max_finite: f64,
    pub specials: Specials,
    /// Code of the canonical NaN.
    pub nan: u64,
}

const fn format(bits: u32, mantissa: u32, max_finite: f64, specials: Specials, nan: u64) -> Format {
    let exponent_bits = bits - 1 - mantissa;
    let min_exponent = 2 - (1 << (exponent_bits - 1));
    Format { bits, mantissa, min_exponent, max_finite, specials, nan }
}

const F64: Format = format(64, 52, f64::MAX, Specials::Ieee, 0x7ff8_0000_0000_0000);
const F32: Format = format(32, 23, f32::MAX as f64, Specials::Ieee, 0x7fc0_0000);
const BF16: Format = format(16, 7, 3.389_531_389_251_535_5e38, Specials::Ieee, 0x7fc0);
const F16: Format = format(16, 10, 65504.0, Specials::Ieee, 0x7e00);
const F8E5M2: Format = format(8, 2, 57344.0, Specials::Ieee, 0x7f);
const F8E4M3: Format = format(8, 3, 448.0, Specials::NanOnly, 0x7f);
const F4E2M1: Format = format(4, 1, 6.0, Specials::None, 0x7);

/// 2¹²⁷, the largest value of `f8e8m0`.
const E8M0_MAX: f64 = 1.701_411_834_604_692_3e38;

impl Format {
    /// The format of a signed float dtype; `None` for `f8e8m0`, integers and booleans.
    pub(super) const fn of(dtype: DType) -> Option<Format> {
        Some(match dtype {
            DType::F64 => F64,
            DType::F32 => F32,
            DType::BF16 => BF16,
            DType::F16 => F16,
            DType::F8E5M2 => F8E5M2,
            DType::F8E4M3 => F8E4M3,
            DType::F4E2M1 => F4E2M1,
            _ => return None,
        })
    }

    const fn magnitude_mask(&self) -> u64 {
        (1 << (self.bits - 1)) - 1
    }

    /// Code of +infinity in an IEEE format.
    const fn infinity(&self) -> u64 {
        self.magnitude_mask() >> self.mantissa << self.mantissa
    }

    /// The distance of neighbours at a magnitude.
    pub(super) fn quantum(&self, magnitude: f64) -> f64 {
        power_of_two(exponent(magnitude).max(self.min_exponent) - self.mantissa as i32)
    }

    fn encode(&self, x: f64) -> u64 {
        if x.is_nan() {
            return self.nan;
        }
        let sign = u64::from(x.is_sign_negative()) << (self.bits - 1);
        let a = x.abs();
        if a.is_infinite() {
            return sign | self.infinity();
        }
        let steps = (a / self.quantum(a)) as u64;
        let binade = (exponent(a).max(self.min_exponent) - self.min_exponent) as u64;
        // Steps of a normal number include the hidden bit, which carries into the exponent field.
        sign | ((binade << self.mantissa) + steps)
    }

    fn decode(&self, bits: u64) -> f64 {
        let code = bits & self.magnitude_mask();
        let magnitude = match self.specials {
            Specials::Ieee if code == self.infinity() => f64::INFINITY,
            Specials::Ieee if code > self.infinity() => return f64::NAN,
            Specials::NanOnly if code == self.magnitude_mask() => return f64::NAN,
            _ => {
                let fraction = (code & ((1 << self.mantissa) - 1)) as f64;
                let field = (code >> self.mantissa) as i32;
                let hidden = if field == 0 { 0.0 } else { (1u64 << self.mantissa) as f64 };
                (hidden + fraction) * power_of_two(field.max(1) - 1 + self.min_exponent - self.mantissa as i32)
            }
        };
        if bits >> (self.bits - 1) & 1 == 1 { -magnitude } else { magnitude }
    }
}

/// The bits of a float that `dtype` can hold, in the low end of the word. A value that it cannot hold is rounded to
/// nearest even first, as by [`super::round_to`] without saturation. Zero for a dtype that is not a float.
pub fn encode(dtype: DType, x: f64) -> u64 {
    match dtype {
        DType::F64 if x.is_nan() => F64.nan,
        DType::F64 => x.to_bits(),
        DType::F32 if x.is_nan() => F32.nan,
        DType::F32 => u64::from((x as f32).to_bits()),
        _ => {
            let x = super::round_to(dtype, x, crate::Rounding::NearestEven, false);
            match Format::of(dtype) {
                Some(format) => format.encode(x),
                None if dtype == DType::F8E8M0 && x.is_nan() => 255,
                None if dtype == DType::F8E8M0 => (exponent(x) + 127) as u64,
                None => 0,
            }
        }
    }
}

/// The value of a float code; bits above the dtype's width are ignored. NaN for a dtype that is not a float.
pub fn decode(dtype: DType, bits: u64) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f64::from(f32::from_bits(bits as u32)),
        DType::F8E8M0 if bits & 255 == 255 => f64::NAN,
        DType::F8E8M0 => power_of_two((bits & 255) as i32 - 127),
        _ => Format::of(dtype).map_or(f64::NAN, |format| format.decode(bits)),
    }
}

/// The largest finite value of a float dtype; NaN for a dtype that is not a float.
pub fn max_finite(dtype: DType) -> f64 {
    match dtype {
        DType::F8E8M0 => E8M0_MAX,
        _ => Format::of(dtype).map_or(f64::NAN, |format| format.max_finite),
    }
}

/// `⌊log2 |x|⌋` of a normal `f64`; −1023 for zero and subnormals, 1024 for infinity and NaN.
pub(super) const fn exponent(x: f64) -> i32 {
    ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023
}

/// `2^n` for an `n` whose power is a normal or subnormal `f64`.
pub(super) fn power_of_two(n: i32) -> f64 {
    if n >= -1022 { f64::from_bits(((n + 1023) as u64) << 52) } else { f64::from_bits(1 << (n + 1074).max(0)) }
}
