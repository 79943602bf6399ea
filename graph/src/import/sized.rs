//! Whether the sizes that a view, an expansion or a split asks for are those that the file states for its results.
//!
//! The importer takes result shapes from the file's table of types, so a size that says something else is an error of
//! the file, not an op that stays opaque.

use super::call::{Call, Names, Refusal};
use crate::diag::Diagnostic;
use crate::dim::{Dim, product};
use crate::ty::TensorType;

/// Ops that keep the elements in row-major order.
const RESHAPES: &[&str] = &[
    "aten.view",
    "aten._unsafe_view",
    "aten.reshape",
    "aten.view_as",
    "aten.reshape_as",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.ravel",
    "aten.unsqueeze",
    "aten.squeeze",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
];
const EXPANSIONS: &[&str] = &["aten.expand", "aten.broadcast_to", "aten.expand_as"];
/// Ops that cut a tensor into pieces, with the name of their sizes.
const SPLITS: &[(&str, &str)] = &[
    ("aten.split_with_sizes", "split_sizes"),
    ("aten.split.sizes", "split_size"),
    ("aten.split.Tensor", "split_size"),
    ("aten.unsafe_split.Tensor", "split_size"),
];

/// Whether an op only gives its operand another shape.
pub(super) fn is_view(target: &str) -> bool {
    RESHAPES.contains(&target) || EXPANSIONS.contains(&target)
}

/// Checks the size argument and the operand of a call against the types that the file states for the results.
///
/// # Errors
/// A size, or a number of elements, that is not that of a result.
pub(super) fn check(call: &Call<'_>) -> Result<(), Diagnostic> {
    let target = call.row.target;
    let wrong = |Refusal(why)| Diagnostic::new("import.size", format!("`{target}` {why}"));
    if let Some((_, sizes)) = SPLITS.iter().find(|(op, _)| *op == target) {
        return pieces(call, sizes).map_err(wrong);
    }
    if !is_view(target) {
        return Ok(());
    }
    let expands = EXPANSIONS.contains(&target);
    // What a call lacks is the importer's to refuse.
    let (Ok(x), Ok(out)) = (call.tensor("self"), call.out()) else { return Ok(()) };
    let (from, out) = (counted(call, call.b.ty(x)), &counted(call, out.clone()));
    let asked = ["size", "shape"].into_iter().find(|name| call.row.parameter(name).is_some());
    let fits = asked.and_then(|name| call.dims(name).ok()).map_or(Ok(()), |size| {
        if expands { expanded(call.names, &size, &from.shape, out) } else { viewed(call.names, &size, out) }
    });
    let same = if expands { stretched } else { same_elements };
    let fits = fits.and_then(|()| same(call.names, &from, out));
    fits.map_err(wrong)
}

/// Pieces of listed sizes; of a lone one every piece but the last, which has what is left.
fn pieces(call: &Call<'_>, sizes: &str) -> Result<(), Refusal> {
    let (Ok(x), Ok(asked)) = (call.tensor("self"), call.dims(sizes)) else { return Ok(()) };
    let Ok(axis) = call.axis("dim", call.b.ty(x).rank()) else { return Ok(()) };
    let stated: Vec<Dim> = call.results.iter().filter_map(|piece| piece.shape.get(axis).cloned()).collect();
    let same = |(asked, stated): (&Dim, &Dim)| call.names.same_extent(asked, stated);
    let fits = match (asked.as_slice(), stated.as_slice()) {
        ([each], [most @ .., last]) if call.row.target.ends_with("Tensor") => {
            let longer = matches!((last.as_const(), each.as_const()), (Some(last), Some(each)) if last > each);
            !longer && most.iter().all(|piece| same((each, piece)))
        }
        (asked, stated) => asked.len() == stated.len() && asked.iter().zip(stated).all(same),
    };
    if fits {
        Ok(())
    } else {
        Err(Refusal(format!("asks for pieces of {}, but the file has {}", list(&asked), list(&stated))))
    }
}

/// A type without the axes that the op does not count.
fn counted(call: &Call<'_>, mut ty: TensorType) -> TensorType {
    ty.shape.truncate(ty.rank().saturating_sub(call.uncounted));
    ty
}

fn list(shape: &[Dim]) -> String {
    let extents: Vec<String> = shape.iter().map(Dim::to_string).collect();
    format!("[{}]", extents.join(", "))
}

fn other(size: &[Dim], out: &TensorType) -> Refusal {
    Refusal(format!("asks for {}, but its result is {out} in the file", list(size)))
}

/// A size in which one extent may be −1, which stands for what is left.
fn viewed(names: &dyn Names, size: &[Dim], out: &TensorType) -> Result<(), Refusal> {
    let rest = Dim::constant(-1);
    if size.iter().filter(|d| **d == rest).count() > 1 {
        return Err(Refusal(format!("asks for {}, where several extents are left open", list(size))));
    }
    let fits = |(asked, stated): (&Dim, &Dim)| *asked == rest || names.same_extent(asked, stated);
    let same = size.len() == out.rank() && size.iter().zip(&out.shape).all(fits);
    if same { Ok(()) } else { Err(other(size, out)) }
}

/// A size in which −1 stands for the operand's extent.
fn expanded(names: &dyn Names, size: &[Dim], from: &[Dim], out: &TensorType) -> Result<(), Refusal> {
    let keep = Dim::constant(-1);
    let new = size.len().checked_sub(from.len()).ok_or_else(|| other(size, out))?;
    let fits = |(i, (asked, stated)): (usize, (&Dim, &Dim))| match i.checked_sub(new) {
        Some(at) if *asked == keep => names.same_extent(&from[at], stated),
        _ => names.same_extent(asked, stated),
    };
    let same = size.len() == out.rank() && size.iter().zip(&out.shape).enumerate().all(fits);
    if same { Ok(()) } else { Err(other(size, out)) }
}

fn same_elements(names: &dyn Names, from: &TensorType, out: &TensorType) -> Result<(), Refusal> {
    if names.same_extent(&product(&from.shape), &product(&out.shape)) {
        return Ok(());
    }
    Err(Refusal(format!("takes {from}, but its result is {out} in the file: the numbers of elements differ")))
}

fn stretched(names: &dyn Names, from: &TensorType, out: &TensorType) -> Result<(), Refusal> {
    let one = Dim::constant(1);
    let fits = |(a, b): (&Dim, &Dim)| *a == one || names.same_extent(a, b);
    let all = from.rank() <= out.rank() && from.shape.iter().rev().zip(out.shape.iter().rev()).all(fits);
    if all { Ok(()) } else { Err(Refusal(format!("takes {from}, which does not expand to {out}, as the file states"))) }
}
