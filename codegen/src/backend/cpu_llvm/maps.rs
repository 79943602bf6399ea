//! Extremes where something is known of the operands; everything else is as for all targets.

use fusewright_abi::DType;
use fusewright_graph::ScalarFn;
use inkwell::FloatPredicate;

use crate::backend::host::facts::Known;
use crate::backend::llvm::code::Code;
use crate::backend::llvm::{Built, Value, map as common};

/// Emits `f` of operands of a dtype, of which something may be known.
pub(super) fn map<'c>(
    code: &Code<'c>,
    f: ScalarFn,
    dtype: DType,
    x: &[Value<'c>],
    known: &[Known],
) -> Built<Value<'c>> {
    let extreme = matches!(f, ScalarFn::Max | ScalarFn::Min) && matches!(dtype, DType::F32 | DType::F64);
    if let (true, [a, b], [known_a, known_b]) = (extreme, x, known) {
        let max = f == ScalarFn::Max;
        if max && known_a.sign_clear && known_b.sign_clear && dtype == DType::F32 {
            return max_of_positive(code, *a, *b);
        }
        // The other operand is taken where it is NaN, and where both are zeros: the smaller of +0 and that, but not the larger.
        let is_constant = |known: &Known| known.constant || known.zero && !max;
        match (is_constant(known_a), is_constant(known_b)) {
            (true, _) => return beyond(code, max, *a, *b),
            (_, true) => return beyond(code, max, *b, *a),
            _ => {}
        }
    }
    common::map(code, f, dtype, x)
}

/// The larger of two f32 whose sign bits are clear: their bits are in order, and NaNs are above infinity.
pub(super) fn max_of_positive<'c>(code: &Code<'c>, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
    let larger = code.same("llvm.smax", &[code.bits_of(a)?, code.bits_of(b)?])?;
    code.float_of(larger)
}

/// `a` where it is beyond `b`, else `b`: one instruction, which yields `b` if either is NaN or both are zero.
pub(super) fn beyond<'c>(code: &Code<'c>, max: bool, a: Value<'c>, b: Value<'c>) -> Built<Value<'c>> {
    let takes = code.fcmp(if max { FloatPredicate::OGT } else { FloatPredicate::OLT }, a, b)?;
    code.select(takes, a, b)
}
