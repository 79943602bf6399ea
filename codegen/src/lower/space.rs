//! The iteration space of a body: which axes are rows, which are lanes, which rows are outer.
//!
//! Which axes are lanes is the region's own analysis; every other axis counts rows. *Outer* rows are common to all outputs; rows that
//! only some outputs or loads have (heads, groups) are *inner*, one segment for each distinct set of them. Outputs that
//! have no rows in common have one: there is one token, say.

use fusewright_fusion::region::{Lanes, Piece, RowForm, Stored};
use fusewright_graph::axes::{AxisId, AxisMap, Strides};
use fusewright_graph::dim::{DimFn, product};
use fusewright_graph::{Dim, Value};

use super::{LowerError, View};
use crate::kernel::Shape;

/// The iteration space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Space {
    lanes: Lanes,
    /// Outer row axes, outermost first.
    outer: Vec<AxisId>,
    /// Inner row axes of each segment, outermost first.
    inner: Vec<Vec<AxisId>>,
}

impl Space {
    /// Divides the axes of a body.
    ///
    /// # Errors
    /// A body without outputs.
    pub fn of(form: &RowForm, axes: &AxisMap, views: &[Option<View>], lanes: Lanes) -> Result<Space, LowerError> {
        let mut space = Space { lanes, ..Space::default() };
        space.find_rows(form, axes, views)?;
        Ok(space)
    }

    /// Whether an axis counts rows.
    pub fn is_row(&self, axis: AxisId) -> bool {
        !self.lanes.is_lane(axis)
    }

    /// Inner row axes of each segment.
    pub fn segments(&self) -> &[Vec<AxisId>] {
        &self.inner
    }

    /// Outer row axes.
    pub fn outer(&self) -> &[AxisId] {
        &self.outer
    }

    /// Number of outer rows.
    pub fn rows(&self, axes: &AxisMap) -> Dim {
        product(self.outer.iter().map(|&a| axes.extent(a)))
    }

    /// Which lanes values hold.
    pub fn lanes(&self) -> &Lanes {
        &self.lanes
    }

    /// Shape of elements over some lanes: a row, a group of the row that they begin, or a row of their own.
    pub fn shape(&self, axes: &AxisMap, lanes: &[AxisId]) -> Shape {
        if lanes.is_empty() {
            return Shape::Scalar;
        }
        let count = |lanes: &[AxisId]| product(lanes.iter().map(|&a| axes.extent(a)));
        match self.lanes.row_of(lanes) {
            Some(row) if row.len() > lanes.len() => {
                Shape::Group { lanes: count(row), size: count(&row[lanes.len()..]) }
            }
            _ => Shape::Row(count(lanes)),
        }
    }

    fn find_rows(&mut self, form: &RowForm, axes: &AxisMap, views: &[Option<View>]) -> Result<(), LowerError> {
        let body = &form.body;
        let rows_of =
            |value: Value| -> Vec<AxisId> { axes.flat(value).into_iter().filter(|&a| self.is_row(a)).collect() };
        let outputs: Vec<Vec<AxisId>> =
            body.outputs().iter().map(|o| rows_of(Stored::of(body, o.value).value)).collect();
        let Some(first) = outputs.first() else { return Err(LowerError::new("the body has no output")) };
        let mut outer: Vec<AxisId> =
            first.iter().copied().filter(|a| outputs.iter().all(|rows| rows.contains(a))).collect();
        // What some load lacks is better an inner row: the load is then hoisted out of it.
        for load in views.iter().flatten().map(|view| view.walked(axes, views)) {
            let kept: Vec<AxisId> = outer.iter().copied().filter(|a| load.contains(a)).collect();
            let movable = outer.iter().filter(|a| !load.contains(a)).all(|&a| axes.extent(a).as_const().is_some());
            if !kept.is_empty() && kept.len() < outer.len() && movable {
                outer = kept;
            }
        }
        if outer.len() > 1 {
            let orders = outputs.iter().map(|rows| rows.iter().copied().filter(|a| outer.contains(a)).collect());
            let merged = orders.into_iter().find(|order: &Vec<AxisId>| merges(form, axes, views, order));
            let symbolic = outer.iter().copied().find(|&a| axes.extent(a).as_const().is_none());
            outer = merged.unwrap_or_else(|| vec![symbolic.unwrap_or(outer[0])]);
        }
        for rows in outputs {
            let inner: Vec<AxisId> = rows.into_iter().filter(|a| !outer.contains(a)).collect();
            if !self.inner.iter().any(|known| same_set(known, &inner)) {
                self.inner.push(inner);
            }
        }
        self.outer = outer;
        Ok(())
    }
}

/// Whether every access walks the axes, in this order, with one stride, so that they are one axis. Padded results may
/// lie in an order of their own, as swizzled scales do.
fn merges(form: &RowForm, axes: &AxisMap, views: &[Option<View>], run: &[AxisId]) -> bool {
    let body = &form.body;
    let pairs = || run.windows(2).map(|pair| (pair[0], pair[1]));
    let merged = |high: Dim, low: Dim, extent: &Dim| high == &low * extent;
    let together = |of: &Strides| pairs().all(|(h, l)| merged(of.stride(h), of.stride(l), axes.extent(l)));
    let loads = views.iter().flatten().all(|view| together(&view.strides));
    let padded = axes.has_padded_rows();
    loads
        && (padded
            || body.outputs().iter().zip(&form.pieces).all(|(o, piece)| {
                let flat = axes.flat(Stored::of(body, o.value).value);
                flat.windows(run.len()).any(|window| window == run) && {
                    let strides = strides(axes, o.value, piece);
                    let stride = |a: AxisId| strides.iter().find(|(b, _)| *b == a).map(|(_, s)| s.clone());
                    pairs().all(|(h, l)| stride(h).zip(stride(l)).is_none_or(|(h, s)| merged(h, s, axes.extent(l))))
                }
            }))
}

/// Stride of each axis of a value where its piece of an output lies.
pub(crate) fn strides(axes: &AxisMap, value: Value, piece: &Piece) -> Strides {
    let dims = axes.dims(value);
    Strides::of(axes, dims.iter().map(Vec::as_slice).zip(&piece.strides))
}

fn same_set(a: &[AxisId], b: &[AxisId]) -> bool {
    a.len() == b.len() && a.iter().all(|x| b.contains(x))
}

/// `Σ stride · index` for axes that one index symbol counts in row-major order. Neighbours that are walked with one
/// stride stay one axis, so most indices need no division.
pub(crate) fn linear(symbol: &Dim, walked: &[(Dim, Dim)]) -> Dim {
    let mut merged: Vec<(Dim, Dim)> = Vec::new();
    for (extent, stride) in walked {
        match merged.last_mut() {
            Some((e, s)) if *s == stride * extent => {
                *e = &*e * extent;
                *s = stride.clone();
            }
            _ => merged.push((extent.clone(), stride.clone())),
        }
    }
    let mut index = Dim::constant(0);
    for (i, (extent, stride)) in merged.iter().enumerate() {
        let below = product(merged[i + 1..].iter().map(|(e, _)| e));
        let mut digit = Dim::function(DimFn::FloorDiv, symbol, &below);
        if i > 0 {
            digit = Dim::function(DimFn::Mod, &digit, extent);
        }
        index = &index + &(&digit * stride);
    }
    index
}
