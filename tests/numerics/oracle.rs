//! Rounding and codes written a second time, from the formats' public definitions: the 16-bit ones by the crate `half`,
//! the shorter ones by a search over the line of their values. Nothing here calls what it is to judge.

use fusewright::graph::{DType, Rounding};

/// The finite magnitudes of a signed float format in ascending order; the index is the code.
pub struct Line {
    magnitudes: Vec<f64>,
    /// Code of what is beyond: infinity, NaN, or none where the format has neither.
    beyond: Option<(u64, bool)>,
    nan: u64,
    sign: u64,
}

impl Line {
    /// The line of a format of 4, 8 or 16 bits; `None` for other dtypes and `f8e8m0`.
    pub fn of(dtype: DType) -> Option<Line> {
        let line = |codes: u64, value: &dyn Fn(u64) -> f64, beyond, nan| {
            let magnitudes = (0..codes).map(value).collect();
            Line { magnitudes, beyond, nan, sign: 1 << (dtype.bits() - 1) }
        };
        Some(match dtype {
            DType::BF16 => {
                let value = |code: u64| half::bf16::from_bits(code as u16).to_f64();
                line(0x7f80, &value, Some((0x7f80, true)), 0x7fc0)
            }
            DType::F16 => {
                let value = |code: u64| half::f16::from_bits(code as u16).to_f64();
                line(0x7c00, &value, Some((0x7c00, true)), 0x7e00)
            }
            DType::F8E5M2 => {
                // The upper byte of binary16.
                let value = |code: u64| half::f16::from_bits((code as u16) << 8).to_f64();
                line(0x7c, &value, Some((0x7c, true)), 0x7f)
            }
            DType::F8E4M3 => {
                let value = |code: u64| match (code >> 3, (code & 7) as f64) {
                    (0, mantissa) => mantissa / 512.0,
                    (exponent, mantissa) => (1.0 + mantissa / 8.0) * 2f64.powi(exponent as i32 - 7),
                };
                line(0x7f, &value, Some((0x7f, false)), 0x7f)
            }
            DType::F4E2M1 => {
                let value = |code: u64| [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][code as usize];
                line(8, &value, None, 7)
            }
            _ => return None,
        })
    }

    /// The value of a code.
    pub fn value(&self, code: u64) -> f64 {
        let magnitude = code & (self.sign - 1);
        let beyond = self.magnitudes.len() as u64;
        let value = match (self.magnitudes.get(magnitude as usize), self.beyond) {
            (Some(&value), _) => value,
            (None, Some((_, true))) if magnitude == beyond => f64::INFINITY,
            (None, _) => f64::NAN,
        };
        if code & self.sign == 0 { value } else { -value }
    }

    /// The code of `x`, rounded once.
    pub fn code(&self, x: f64, rounding: Rounding, saturate: bool) -> u64 {
        if x.is_nan() {
            return self.nan;
        }
        let (sign, negative) = (if x.is_sign_negative() { self.sign } else { 0 }, x < 0.0);
        let (a, last) = (x.abs(), self.magnitudes.len() - 1);
        let low = self.magnitudes.partition_point(|&m| m <= a) - 1;
        let step = self.magnitudes[last] - self.magnitudes[last - 1];
        let high = self.magnitudes.get(low + 1).copied().unwrap_or(self.magnitudes[last] + step);
        let below = a - self.magnitudes[low];
        let (middle, above) = (high - a, high - self.magnitudes[low]);
        let up = below > 0.0
            && (middle <= 0.0
                || match rounding {
                    Rounding::NearestEven => below > above / 2.0 || (below == above / 2.0 && low % 2 == 1),
                    Rounding::HalfAway => below >= above / 2.0,
                    Rounding::TowardZero => false,
                    Rounding::Down => negative,
                    Rounding::Up => !negative,
                });
        let code = low + usize::from(up);
        match self.beyond {
            _ if code <= last => sign | code as u64,
            _ if saturate => sign | last as u64,
            Some((code, true)) => sign | code,
            Some((nan, false)) => nan,
            None => sign | last as u64,
        }
    }
}

/// The code of `|x|` in `f8e8m0`: of two neighbouring powers of two the nearer in magnitude, the middle to the larger;
/// what lies between the two least goes to the larger; zero is the least. Beyond 2¹²⁷ is NaN, or the largest.
pub fn e8m0(x: f64, rounding: Rounding, saturate: bool) -> u64 {
    let a = x.abs();
    if a.is_nan() {
        return 255;
    }
    let value = |code: u64| 2f64.powi(code as i32 - 127);
    // The exponent's field of binary64, which has no subnormal value here but zero.
    let low = (a.to_bits() >> 52).saturating_sub(1023 - 127);
    let up = match rounding {
        Rounding::NearestEven | Rounding::HalfAway => a / value(low) >= 1.5 || (low == 0 && a > value(0)),
        Rounding::Up => a > value(low),
        Rounding::TowardZero | Rounding::Down => false,
    };
    match low + u64::from(up) {
        code if code < 255 && a.is_finite() => code,
        _ if saturate => 254,
        _ => 255,
    }
}

/// The bits of `x` as an integer or boolean, in the low end of the word.
pub fn integer(dtype: DType, x: f64, rounding: Rounding, saturate: bool) -> u64 {
    if dtype == DType::Bool {
        return u64::from(x != 0.0);
    }
    let mask = u64::MAX >> (64 - dtype.bits());
    if x.is_nan() || (x.is_infinite() && !saturate) {
        return 0;
    }
    let whole = match rounding {
        Rounding::NearestEven => x.round_ties_even(),
        Rounding::TowardZero => x.trunc(),
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
        Rounding::HalfAway => x.round(),
    };
    let signed = dtype.is_signed_int();
    if saturate {
        let width = dtype.bits() - u32::from(signed);
        let (least, greatest) = (if signed { -(1i128 << width) } else { 0 }, (1i128 << width) - 1);
        return (whole as i128).clamp(least, greatest) as u64 & mask;
    }
    // The remainder by 2⁶⁴ is exact.
    (whole % 2f64.powi(64)) as i128 as u64 & mask
}

/// The value of any float code.
pub fn value(dtype: DType, code: u64) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(code),
        DType::F32 => f64::from(f32::from_bits(code as u32)),
        DType::BF16 => half::bf16::from_bits(code as u16).to_f64(),
        DType::F16 => half::f16::from_bits(code as u16).to_f64(),
        DType::F8E8M0 if code == 255 => f64::NAN,
        DType::F8E8M0 => 2f64.powi(code as i32 - 127),
        _ => Line::of(dtype).map_or(f64::NAN, |line| line.value(code)),
    }
}

/// A bf16 value next to `x`.
pub fn bf16(x: f32) -> f32 {
    half::bf16::from_f32(x).to_f32()
}

/// An f16 value next to `x`.
pub fn f16(x: f32) -> f32 {
    half::f16::from_f32(x).to_f32()
}

/// The e4m3fn code of a value clamped to ±448; NaN is 0x7f.
pub fn e4m3(x: f32) -> u64 {
    Line::of(DType::F8E4M3).expect("a format").code(f64::from(x), Rounding::NearestEven, true)
}

/// The e5m2 code of a value, which saturates.
pub fn e5m2(x: f32) -> u64 {
    Line::of(DType::F8E5M2).expect("a format").code(f64::from(x), Rounding::NearestEven, true)
}

/// The e2m1 code of a value.
pub fn e2m1(x: f32) -> u64 {
    Line::of(DType::F4E2M1).expect("a format").code(f64::from(x), Rounding::NearestEven, true)
}

/// The value of an e4m3fn code.
pub fn of_e4m3(code: u64) -> f32 {
    value(DType::F8E4M3, code) as f32
}
