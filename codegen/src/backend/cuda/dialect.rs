//! Instructions of GPUs for what other targets compute otherwise.

use fusewright_abi::DType;
use fusewright_graph::Rounding;

use super::arch::Arch;
use crate::backend::llvm::cast::Cast;
use crate::backend::llvm::code::Code;
use crate::backend::llvm::narrow::{Format, format};
use crate::backend::llvm::{BuildError, Built, Dialect, Value, ops};

/// From here on neighbours are one apart.
const SUM: u32 = 1 << 23;

/// The bits that [`count`] has above codes; none is below the 23rd.
pub(super) fn above(f: &Format) -> u32 {
    ((unit(f) * f64::from(SUM)) as f32).to_bits()
}

impl Dialect for Arch {
    fn divide<'c>(&self, code: &Code<'c>, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
        // The rounded reciprocal is the rounded quotient of 1, in fewer steps.
        if let Value::FloatValue(a) = a
            && a.get_constant().is_some_and(|(one, _)| one == 1.0)
        {
            return code.call(&of_width("llvm.nvvm.rcp.rn", b), &[], &[b]);
        }
        code.call(&of_width("llvm.nvvm.div.rn", a), &[], &[a, b])
    }

    fn sqrt<'c>(&self, code: &Code<'c>, x: Value<'c>) -> Built<Value<'c>> {
        code.call(&of_width("llvm.nvvm.sqrt.rn", x), &[], &[x])
    }

    fn widen<'c>(&self, code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Option<Value<'c>>> {
        // By way of f16, which has every number of the format. Of e5m2 shifts make that.
        if cast.from != DType::F8E4M3 || !self.fp8_convert || ops::lanes(x) > 1 {
            return Ok(None);
        }
        let pair = code.call("llvm.nvvm.e4m3x2.to.f16x2.rn", &[], &[code.extend(x, 16, false)?])?;
        let half = code.b.build_extract_element(pair.into_vector_value(), code.i32(0), "")?;
        code.float_width(half, code.ctx.f32_type()).map(Some)
    }

    fn narrow<'c>(&self, code: &Code<'c>, x: Value<'c>, cast: Cast) -> Built<Option<Value<'c>>> {
        let packed = |name: &str| -> Built<Option<Value<'c>>> {
            let pair = code.call(name, &[], &[code.float(x, 0.0), x])?;
            code.extend(pair, 8, false).map(Some)
        };
        let nearest = cast.round == Rounding::NearestEven;
        match cast.to {
            DType::BF16 if nearest && !cast.saturate => {
                let value = code.call("llvm.nvvm.f2bf16.rn", &[], &[x])?;
                code.bits(value, code.int_type(16)).map(Some)
            }
            DType::F8E4M3 if nearest && cast.saturate && self.fp8_convert => packed("llvm.nvvm.ff.to.e4m3x2.rn"),
            DType::F8E5M2 if nearest && cast.saturate && self.fp8_convert => packed("llvm.nvvm.ff.to.e5m2x2.rn"),
            DType::F4E2M1 if nearest && cast.saturate => {
                format(cast.to).map(|f| code_of_bounded(code, x, &f)).transpose()
            }
            _ => Ok(None),
        }
    }
}

/// The code of a format whose NaN is its greatest number: extremes leave NaNs out, so that bounds make that of them.
fn code_of_bounded<'c>(code: &Code<'c>, x: Value<'c>, f: &Format) -> Built<Value<'c>> {
    let [sum, sign] = counted(code, x, f)?;
    let top = 1 << (f.bits - 1);
    let sign = code.masked(code.shr(sign, i64::from(32 - f.bits))?, top)?;
    let value = code.or(code.masked(sum, top - 1)?, sign)?;
    code.extend(value, f.bits.max(8), false)
}

/// Bits whose low ones are the code of a magnitude, and bits whose first is its sign; of a NaN those of the greatest number.
pub(super) fn counted<'c>(code: &Code<'c>, x: Value<'c>, f: &Format) -> Built<[Value<'c>; 2]> {
    let most = code.float(x, most(f));
    let magnitude = code.same("llvm.minnum", &[code.same("llvm.fabs", &[x])?, most])?;
    let sign = code.bits_of(code.same("llvm.minnum", &[x, most])?)?;
    Ok([count(code, magnitude, f)?, sign])
}

/// Bits that are those of [`above`] more than the code of a magnitude below [`bound`].
///
/// Codes are a line of the magnitude for each exponent, of which the least is right: every line is rounded by the sum that it
/// is, whose last bit is worth a code.
pub(super) fn count<'c>(code: &Code<'c>, magnitude: Value<'c>, f: &Format) -> Built<Value<'c>> {
    let line = |[slope, start]: [f64; 2]| {
        let sum = code.same("llvm.fma", &[magnitude, code.float(magnitude, slope), code.float(magnitude, start)])?;
        code.bits_of(sum)
    };
    let mut sums = lines(f).map(line);
    let first = sums.next().ok_or_else(|| BuildError::unsupported("a float without exponents"))??;
    sums.try_fold(first, |least, sum| code.same("llvm.umin", &[least, sum?]))
}

/// What magnitudes are below that round to a code: the middle between the greatest and the one that would be next.
pub(super) fn bound(f: &Format) -> f32 {
    let next = f64::from(f32::from_bits(f.widened(f.max + 1) as u32));
    ((most(f) + next) / 2.0) as f32
}

/// The greatest number of a format.
fn most(f: &Format) -> f64 {
    f64::from(f32::from_bits(f.widened(f.max) as u32))
}

/// The least number above zero: numbers below the least normal one are as far apart as those above it.
fn unit(f: &Format) -> f64 {
    f64::from(f32::from_bits(f.widened(1 << f.mantissa) as u32)) / f64::from(1 << f.mantissa)
}

/// The lines of [`count`], one for each exponent: slope, and where it starts.
fn lines(f: &Format) -> impl Iterator<Item = [f64; 2]> {
    let (unit, mantissa) = (unit(f), f.mantissa);
    let exponents = 0..f.max >> mantissa;
    exponents.map(move |at| [1.0 / f64::from(1 << at), unit * (f64::from(SUM) + (at << mantissa) as f64)])
}

fn of_width(stem: &str, x: Value<'_>) -> String {
    format!("{stem}.{}", if ops::bits(x) == 64 { "d" } else { "f" })
}

#[cfg(test)]
mod tests {
    use fusewright_graph::num::round_to;

    use super::*;

    /// What the instructions of [`count`] make of a magnitude.
    fn count(f: &Format, magnitude: f32) -> u32 {
        let sums = lines(f).map(|[slope, start]| magnitude.mul_add(slope as f32, start as f32).to_bits());
        sums.min().expect("there are exponents")
    }

    /// What those of [`counted`] do.
    fn count_of_bounded(f: &Format, magnitude: f32) -> u32 {
        count(f, magnitude.min(most(f) as f32))
    }

    /// Both the code and the number that it should be grow with the magnitude, so that what holds on both sides of each step
    /// of either holds everywhere.
    #[test]
    fn the_least_line_is_the_code_of_every_magnitude() {
        let f = format(DType::F4E2M1).expect("it is a float");
        let right = |bits: u32| {
            let x = f64::from(f32::from_bits(bits));
            round_to(DType::F4E2M1, x, Rounding::NearestEven, true)
        };
        let found = |bits: u32| {
            let count = count_of_bounded(&f, f32::from_bits(bits));
            assert_eq!(count & ((1 << 23) - 8), 0, "no bit above the code, {bits:x}");
            [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0][(count & 7) as usize]
        };
        let steps = |of: &dyn Fn(u32) -> f64| -> Vec<u32> {
            let mut steps = vec![0];
            while let Some(&last) = steps.last() {
                let (mut low, mut high) = (last, f32::INFINITY.to_bits());
                if of(high) == of(low) {
                    break;
                }
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    if of(middle) == of(last) { low = middle } else { high = middle }
                }
                steps.push(high);
            }
            steps
        };
        let expected = steps(&right);
        assert_eq!(expected.len(), 8, "{expected:x?}");
        assert_eq!(steps(&found), expected);
        for step in expected {
            assert_eq!(found(step), right(step), "{step:x}");
        }
        assert_eq!(count_of_bounded(&f, f32::NAN) & 7, 7, "a NaN is the greatest number");
    }

    /// Both grow with the magnitude, so that they are the same up to the bound if they are where either changes and before.
    #[test]
    fn magnitudes_below_the_bound_need_not_be_bounded() {
        let f = format(DType::F4E2M1).expect("it is a float");
        assert_eq!(bound(&f), 7.0);
        let ties = [0.25f32, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, 7.0];
        for near in
            ties.into_iter().flat_map(|tie| [tie.next_down(), tie, tie.next_up()]).chain([0.0, f32::MIN_POSITIVE])
        {
            let (free, bounded) = (count(&f, near), count_of_bounded(&f, near));
            assert_eq!(free == bounded, near < bound(&f), "{near}");
            assert!(bounded - above(&f) < 8, "{near}");
        }
    }

    #[test]
    fn numbers_of_e4m3_are_numbers_of_f16() {
        let f = format(DType::F8E4M3).expect("it is a float");
        let number = |code: i64| match code >> f.mantissa {
            0 => code as f64 * unit(&f),
            _ => f64::from(f32::from_bits(f.widened(code) as u32)),
        };
        for x in (0..=f.max).map(number) {
            assert_eq!(round_to(DType::F16, x, Rounding::NearestEven, false), x);
            assert_eq!(round_to(DType::F8E4M3, x, Rounding::NearestEven, false), x);
        }
    }
}
