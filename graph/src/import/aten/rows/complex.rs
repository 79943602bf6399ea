//! Rows of ops that have complex operands or results; see `aten/complex.rs`.

use super::row;
use crate::import::aten::{complex, layout};
use crate::import::table::Row;

pub(super) const TABLE: &[Row] = &[
    row("aten.view_as_complex", "self", layout::identity),
    row("aten.view_as_real", "self", layout::identity),
    row("aten.complex", "real, imag", complex::complex),
    row("aten.polar", "abs, angle", complex::polar),
    row("aten.real", "self", complex::real),
    row("aten.imag", "self", complex::imag),
    row("aten.mul.Tensor", "self, other", complex::mul),
    row("aten.mul.Scalar", "self, other", complex::mul),
    row("aten.add.Tensor", "self, other, alpha=1", complex::add),
    row("aten.sub.Tensor", "self, other, alpha=1", complex::sub),
    row("aten.neg", "self", complex::neg),
    row("aten.conj", "self", complex::conj),
    row("aten._conj", "self", complex::conj),
    row("aten._conj_physical", "self", complex::conj),
    row("aten.conj_physical", "self", complex::conj),
    row("aten.to.dtype", "self, dtype, non_blocking=False, copy=False, memory_format=None", complex::kept),
    row(
        "aten.to.dtype_layout",
        "self, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, copy=False, memory_format=None",
        complex::kept,
    ),
    row("aten.to.device", "self, device, dtype, non_blocking=False, copy=False, memory_format=None", complex::kept),
    row(
        "aten._to_copy",
        "self, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None",
        complex::kept,
    ),
    row("aten.permute", "self, dims", complex::permute),
];

/// Ops beside views that move complex numbers as they move floats: their rows are those of other tensors.
pub(super) const MOVED: &[&str] = &[
    "aten.resolve_conj",
    "aten.resolve_neg",
    "aten.alias",
    "aten.detach",
    "aten.detach_",
    "aten.clone",
    "aten.contiguous",
    "aten.lift_fresh",
    "aten.lift_fresh_copy",
    "aten.transpose.int",
    "aten.slice.Tensor",
    "aten.narrow",
    "aten.select.int",
    "aten.cat",
    "aten.embedding",
    "aten.index_select",
    "aten.index.Tensor",
];
