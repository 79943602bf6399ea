//! Index expressions as 64-bit integer code.

use fusewright_graph::Dim;
use fusewright_graph::dim::{DimFn, DimFold};
use inkwell::IntPredicate;
use inkwell::values::IntValue;

use super::code::Code;
use super::{BuildError, Built};

/// Computes dims in a function; `symbol` gives the value of a name.
struct Index<'e, 'c> {
    code: &'e Code<'c>,
    symbol: &'e dyn Fn(&str) -> Built<IntValue<'c>>,
}

/// The value of a dim.
pub(in crate::backend) fn dim<'c>(
    code: &Code<'c>,
    dim: &Dim,
    symbol: &dyn Fn(&str) -> Built<IntValue<'c>>,
) -> Built<IntValue<'c>> {
    dim.fold(&mut Index { code, symbol })
}

impl<'c> DimFold for Index<'_, 'c> {
    type Value = IntValue<'c>;
    type Error = BuildError;

    fn constant(&mut self, value: i64) -> Built<IntValue<'c>> {
        Ok(self.code.i64(value))
    }

    fn symbol(&mut self, name: &str) -> Built<IntValue<'c>> {
        (self.symbol)(name)
    }

    fn add(&mut self, a: IntValue<'c>, b: IntValue<'c>) -> Built<IntValue<'c>> {
        self.code.add(a, b)
    }

    fn mul(&mut self, a: IntValue<'c>, b: IntValue<'c>) -> Built<IntValue<'c>> {
        self.code.mul(a, b)
    }

    fn function(&mut self, f: DimFn, a: IntValue<'c>, b: IntValue<'c>) -> Built<IntValue<'c>> {
        match f {
            DimFn::FloorDiv => floor_div(self.code, a, b),
            DimFn::Mod => {
                let quotient = floor_div(self.code, a, b)?;
                Ok(self.code.b.build_int_sub(a, self.code.mul(quotient, b)?, "")?)
            }
            DimFn::Max => self.extreme("llvm.smax", a, b),
            DimFn::Min => self.extreme("llvm.smin", a, b),
        }
    }
}

impl<'c> Index<'_, 'c> {
    fn extreme(&self, name: &str, a: IntValue<'c>, b: IntValue<'c>) -> Built<IntValue<'c>> {
        let ty = self.code.ctx.i64_type().into();
        Ok(self.code.call(name, &[ty], &[a.into(), b.into()])?.into_int_value())
    }
}

/// `⌊a / b⌋`; a power of two becomes a shift.
pub(in crate::backend) fn floor_div<'c>(code: &Code<'c>, a: IntValue<'c>, b: IntValue<'c>) -> Built<IntValue<'c>> {
    let known = b.get_sign_extended_constant();
    if let Some(by) = known
        && by > 0
        && (by & (by - 1)) == 0
    {
        return Ok(code.b.build_right_shift(a, code.i64(i64::from(by.trailing_zeros())), true, "")?);
    }
    let zero = code.i64(0);
    let may_trap = known.is_none_or(|by| by == -1) && code.dialect.division_traps();
    let b = if may_trap { never_trapping(code, a, b)? } else { b };
    let quotient = code.b.build_int_signed_div(a, b, "")?;
    let rest = code.b.build_int_sub(a, code.mul(quotient, b)?, "")?;
    let low = if known.is_some_and(|by| by > 0) {
        code.cmp(IntPredicate::SLT, rest, zero)?
    } else {
        let inexact = code.cmp(IntPredicate::NE, rest, zero)?;
        let signs = code.cmp(IntPredicate::SLT, code.b.build_xor(rest, b, "")?, zero)?;
        code.b.build_and(inexact, signs, "")?
    };
    Ok(code.b.build_int_sub(quotient, code.resize(low, 64)?, "")?)
}

/// The divisor, or 1 where it is 0 and where the quotient is past the largest number, which wraps to `a` itself.
fn never_trapping<'c>(code: &Code<'c>, a: IntValue<'c>, b: IntValue<'c>) -> Built<IntValue<'c>> {
    let by_zero = code.cmp(IntPredicate::EQ, b, code.i64(0))?;
    let least = code.cmp(IntPredicate::EQ, a, code.i64(i64::MIN))?;
    let negated = code.b.build_and(least, code.cmp(IntPredicate::EQ, b, code.i64(-1))?, "")?;
    let traps = code.b.build_or(by_zero, negated, "")?;
    Ok(code.select(traps, code.i64(1), b)?.into_int_value())
}
