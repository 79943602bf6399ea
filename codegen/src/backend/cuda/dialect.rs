//! Instructions of GPUs for what other targets compute otherwise.

use fusewright_abi::DType;
use fusewright_graph::Rounding;

use super::arch::Arch;
use crate::backend::llvm::cast::Cast;
use crate::backend::llvm::code::Code;
use crate::backend::llvm::narrow::{Format, format, rounded_by_sum};
use crate::backend::llvm::{Built, Dialect, Value, ops};

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

    fn widen<'c>(&self, _: &Code<'c>, _: Value<'c>, _: Cast) -> Built<Option<Value<'c>>> {
        Ok(None)
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
    let number = |bits: i64| code.float(x, f64::from(f32::from_bits(bits as u32)));
    let most = f32::from_bits(f.widened(f.max) as u32);
    let below = code.same("llvm.minnum", &[x, number(f.widened(f.max))])?;
    let bounded = code.same("llvm.maxnum", &[below, code.float(x, -f64::from(most))])?;
    let magnitude = code.same("llvm.fabs", &[bounded])?;
    let normal = code.same("llvm.maxnum", &[magnitude, number(f.widened(1 << f.mantissa))])?;
    let value = rounded_by_sum(code, f, magnitude, code.bits_of(normal)?, code.bits_of(bounded)?)?;
    code.extend(value, f.bits.max(8), false)
}

fn of_width(stem: &str, x: Value<'_>) -> String {
    format!("{stem}.{}", if ops::bits(x) == 64 { "d" } else { "f" })
}
