//! How a view is cut out of its buffer: layout ops that can be done again on new contents, and undone.

use fusewright_abi::DType;

use super::call::Refusal;
use crate::builder::Builder;
use crate::dim::Dim;
use crate::graph::{Op, Value};
use crate::prim::Prim;

/// The layout ops that lead from one value to another, or `None` where something else lies between them.
pub(super) fn between(b: &Builder, from: Value, to: Value) -> Option<Vec<Prim>> {
    let (mut steps, mut at) = (Vec::new(), to);
    while at != from {
        match b.definition(at)? {
            (
                Op::Prim(
                    step @ (Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Slice { .. } | Prim::Expand { .. }),
                ),
                operands,
            ) => {
                steps.push(step);
                at = operands[0];
            }
            _ => return None,
        }
    }
    steps.reverse();
    Some(steps)
}

/// The view of other contents of the buffer.
pub(super) fn apply(b: &Builder, buffer: Value, steps: &[Prim]) -> Result<Value, Refusal> {
    steps.iter().try_fold(buffer, |x, step| Ok(b.prim(step.clone(), &[x])?))
}

/// The buffer after its view was overwritten by `contents`.
///
/// # Errors
/// A view in which one element of the buffer stands at several places.
pub(super) fn write_back(b: &Builder, buffer: Value, steps: &[Prim], contents: Value) -> Result<Value, Refusal> {
    let Some((step, rest)) = steps.split_first() else { return Ok(contents) };
    if rest.is_empty() {
        return undo(b, buffer, step, contents);
    }
    let part = b.prim(step.clone(), &[buffer])?;
    undo(b, buffer, step, write_back(b, part, rest, contents)?)
}

/// `buffer` with what `step` takes out of it replaced by `part`.
fn undo(b: &Builder, buffer: Value, step: &Prim, part: Value) -> Result<Value, Refusal> {
    let whole = b.ty(buffer);
    match step {
        Prim::Permute { perm } => {
            let mut inverse = vec![0; perm.len()];
            perm.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
            Ok(b.prim(Prim::Permute { perm: inverse }, &[part])?)
        }
        Prim::Slice { axis, start, end, step: 1 } => {
            let extent = &whole.shape[*axis];
            let mut parts = Vec::with_capacity(3);
            if start.as_const() != Some(0) {
                parts.push(b.slice(buffer, *axis, Dim::constant(0), start.clone())?);
            }
            parts.push(part);
            if end != extent {
                parts.push(b.slice(buffer, *axis, end.clone(), extent.clone())?);
            }
            if parts.len() == 1 { Ok(part) } else { Ok(b.cat(&parts, *axis)?) }
        }
        Prim::Slice { axis, start, step, .. } => {
            let shape = vec![b.ty(part).shape[*axis].clone()];
            let count = b.prim(Prim::Iota { dtype: DType::I64, shape, axis: 0 }, &[])?;
            let first = match start.as_const() {
                Some(n) => b.int(DType::I64, n)?,
                None => b.prim(Prim::SizeOf(start.clone()), &[])?,
            };
            let places = b.add(b.mul(count, b.int(DType::I64, *step)?)?, first)?;
            Ok(b.prim(Prim::Scatter { axis: *axis }, &[buffer, places, part])?)
        }
        Prim::Expand { .. } if b.ty(part).elements() != whole.elements() => {
            Err("one element of the buffer stands at several places of the view".into())
        }
        _ => Ok(b.reshape(part, whole.shape)?),
    }
}
