//! Functions of three tensors: interpolation, and sums with a product or a quotient.

use fusewright_abi::DType;

use super::super::call::{Call, Imported, Operand, Scalar};
use super::activation::select;
use super::promote::{constant, convert, is_reduced, operand_as, result_type};
use crate::builder::Builder;
use crate::graph::Value;
use crate::infer::TypeError;
use crate::scalar::ScalarFn;

type Typed = Result<Value, TypeError>;

/// `f` of three operands in the dtype that the framework computes in, rounded once to their common dtype.
fn on_three(
    call: &Call<'_>,
    names: [&str; 3],
    f: impl FnOnce(&Builder, [Value; 3]) -> Result<Value, TypeError>,
) -> Imported {
    let [x, y, z] = names;
    let operands = [call.operand(x)?, call.operand(y)?, call.operand(z)?];
    let dtype = result_type(call, &operands)?;
    let work = if is_reduced(dtype) { DType::F32 } else { dtype };
    let take = |operand: Operand| -> Typed {
        // A number is not rounded to a narrow dtype first.
        let to = if matches!(operand, Operand::Tensor(_)) { dtype } else { work };
        convert(call.b, operand_as(call.b, operand, to)?, work)
    };
    let [x, y, z] = operands;
    let y = f(call.b, [take(x)?, take(y)?, take(z)?])?;
    Ok(vec![convert(call.b, y, dtype)?])
}

/// From `self` to `end` by `weight`, counted from the nearer end; the framework's kernels contract product and sum.
pub(super) fn lerp(call: &Call<'_>) -> Imported {
    if !call.out()?.dtype.is_float() {
        return Err("an interpolation of integers".into());
    }
    on_three(call, ["self", "end", "weight"], |b, [from, to, weight]| {
        let dtype = b.dtype(from);
        let float = |v: f64| constant(b, dtype, Scalar::Float(v));
        let gap = b.sub(to, from)?;
        let near = b.map(ScalarFn::Fma, &[weight, gap, from])?;
        let far = b.map(ScalarFn::Fma, &[b.sub(weight, float(1.0)?)?, gap, to])?;
        let size = b.map(ScalarFn::Abs, &[weight])?;
        select(b, (ScalarFn::Lt, size, float(0.5)?), near, far)
    })
}

/// `self + value · (tensor1 ∘ tensor2)`, the factor taken to the first operand.
fn with_factor(call: &Call<'_>, f: ScalarFn) -> Imported {
    let value = call.scalar("value")?;
    on_three(call, ["self", "tensor1", "tensor2"], |b, [x, left, right]| {
        let left = if value.as_f64() == 1.0 { left } else { b.mul(constant(b, b.dtype(x), value)?, left)? };
        // The framework's kernels contract this product and sum.
        let contracted = f == ScalarFn::Mul && b.dtype(x).is_float();
        if contracted { b.map(ScalarFn::Fma, &[left, right, x]) } else { b.add(x, b.map(f, &[left, right])?) }
    })
}

pub(super) fn addcmul(call: &Call<'_>) -> Imported {
    with_factor(call, ScalarFn::Mul)
}

pub(super) fn addcdiv(call: &Call<'_>) -> Imported {
    if !call.out()?.dtype.is_float() {
        return Err("a quotient of integers".into());
    }
    with_factor(call, ScalarFn::Div)
}
