//! Where along an axis an index or a range of a call lies.
//!
//! As in Python, indices below zero count from the end and ranges are clamped to the axis. What the ranges of symbols
//! decide of that is decided here. Exporters decide the rest by the sizes that they saw, and the extent that the file
//! states for a result says how: that range is taken as it is, and a call in which it leaves the axis fails.

use super::super::call::{Call, Refusal};
use crate::dim::{Dim, DimFn};

/// `min(a, b)`, decided where the ranges allow it.
fn lesser(call: &Call<'_>, a: &Dim, b: &Dim) -> Dim {
    if call.names.never_negative(&(b - a)) {
        a.clone()
    } else if call.names.never_negative(&(a - b)) {
        b.clone()
    } else {
        Dim::function(DimFn::Min, a, b)
    }
}

fn greater(call: &Call<'_>, a: &Dim, b: &Dim) -> Dim {
    if call.names.never_negative(&(a - b)) {
        a.clone()
    } else if call.names.never_negative(&(b - a)) {
        b.clone()
    } else {
        Dim::function(DimFn::Max, a, b)
    }
}

/// Whether an index counts from the end; `None` where only a call can tell.
fn counts_from_end(call: &Call<'_>, index: &Dim) -> Option<bool> {
    if call.names.never_negative(index) {
        Some(false)
    } else {
        call.names.never_negative(&(&Dim::constant(-1) - index)).then_some(true)
    }
}

/// The place along an axis that an index names.
pub(super) fn place(call: &Call<'_>, index: &Dim, extent: &Dim) -> Dim {
    match counts_from_end(call, index) {
        Some(false) => index.clone(),
        Some(true) => extent + index,
        None => {
            // One below zero, else zero.
            let (zero, one) = (Dim::constant(0), Dim::constant(1));
            let below = Dim::function(DimFn::Max, &zero, &Dim::function(DimFn::Min, &one, &(&zero - index)));
            index + &(extent * &below)
        }
    }
}

/// A bound of a range as a place from 0 to the extent.
fn clamped(call: &Call<'_>, index: &Dim, extent: &Dim) -> Dim {
    if index.as_const() == Some(i64::MAX) {
        return extent.clone();
    }
    let at = place(call, index, extent);
    match counts_from_end(call, index) {
        Some(false) => lesser(call, &at, extent),
        Some(true) => greater(call, &at, &Dim::constant(0)),
        None => greater(call, &lesser(call, &at, extent), &Dim::constant(0)),
    }
}

/// What a bound of a range can be: clamped, or where it would be inside the axis.
fn possible(call: &Call<'_>, index: Option<&Dim>, open: &Dim, extent: &Dim) -> Vec<Dim> {
    let Some(index) = index else { return vec![open.clone()] };
    let mut places = vec![clamped(call, index, extent)];
    if index.as_const() != Some(i64::MAX) {
        match counts_from_end(call, index) {
            Some(_) => places.push(place(call, index, extent)),
            None => places.extend([index.clone(), extent + index]),
        }
    }
    places
}

/// The elements that `start` and `end` of a call take along an axis; `taken` is how many, where the file states it.
pub(super) fn slice_range(call: &Call<'_>, extent: &Dim, taken: Option<&Dim>) -> Result<[Dim; 2], Refusal> {
    let [start, end] = [call.dim_or_none("start")?, call.dim_or_none("end")?];
    let starts = possible(call, start.as_ref(), &Dim::constant(0), extent);
    let ends = possible(call, end.as_ref(), extent, extent);
    let clamped = [starts[0].clone(), greater(call, &ends[0], &starts[0])];
    let step = Dim::constant(call.int("step")?);
    let is_taken = |[start, end]: &[Dim; 2]| taken.is_none_or(|taken| (end - start).ceil_div(&step) == *taken);
    if is_taken(&clamped) {
        return Ok(clamped);
    }
    let pairs = starts.iter().flat_map(|start| ends.iter().map(move |end| [start.clone(), end.clone()]));
    Ok(pairs.into_iter().find(is_taken).unwrap_or(clamped))
}
