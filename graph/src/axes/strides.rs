//! Strides of axes: the distances in memory between elements of a view.

use super::{AxisId, AxisMap};
use crate::dim::{self, Dim};

/// Row-major strides of a contiguous tensor, in elements.
pub fn contiguous_strides(shape: &[Dim]) -> Vec<Dim> {
    (0..shape.len()).map(|i| dim::product(&shape[i + 1..])).collect()
}

/// The distance in memory of neighbours along each axis, in elements. A view does not move along an axis that is missing.
#[derive(Clone, Debug, Default)]
pub struct Strides(Vec<(AxisId, Dim)>);

impl Strides {
    /// The strides of dims that are walked with one stride each.
    pub fn of<'d>(axes: &AxisMap, dims: impl IntoIterator<Item = (&'d [AxisId], &'d Dim)>) -> Strides {
        Strides(dims.into_iter().flat_map(|(dim, stride)| split(axes, dim, stride)).collect())
    }

    /// The strides of a tensor in memory of its own, whose dims are these axes.
    pub fn contiguous(axes: &AxisMap, dims: &[Vec<AxisId>], shape: &[Dim]) -> Strides {
        let strides = contiguous_strides(shape);
        Strides::of(axes, dims.iter().map(Vec::as_slice).zip(&strides))
    }

    /// Each axis that moves, with its stride.
    pub fn iter(&self) -> impl Iterator<Item = &(AxisId, Dim)> {
        self.0.iter()
    }

    /// The stride of an axis, zero if the view does not move along it.
    pub fn stride(&self, axis: AxisId) -> Dim {
        self.0.iter().find(|(a, _)| *a == axis).map_or(Dim::constant(0), |(_, s)| s.clone())
    }

    /// The extent and the stride of each of these axes.
    pub fn walked(&self, axes: &AxisMap, run: &[AxisId]) -> Vec<(Dim, Dim)> {
        run.iter().map(|&axis| (axes.extent(axis).clone(), self.stride(axis))).collect()
    }

    /// The view without these axes.
    pub fn without(mut self, axes: &[AxisId]) -> Strides {
        self.0.retain(|(axis, _)| !axes.contains(axis));
        self
    }

    /// The one stride that walks a dim's axes in order, if there is one; zero for extent 1.
    pub fn merged(&self, axes: &AxisMap, dim: &[AxisId]) -> Option<Dim> {
        let Some(last) = dim.last() else { return Some(Dim::constant(0)) };
        let innermost = self.stride(*last);
        let mut expected = innermost.clone();
        for axis in dim.iter().rev() {
            if self.stride(*axis) != expected {
                return None;
            }
            expected = &expected * axes.extent(*axis);
        }
        Some(innermost)
    }

    /// Says whether a slice shows every element at the place where it was. Where padding fills a slice up, it has the rows of
    /// its source, and other elements there unless it begins as that does.
    pub fn stays(from: &[AxisId], to: &[AxisId], start: &Dim, step: i64) -> bool {
        from == to && (start.as_const(), step) == (Some(0), 1)
    }

    /// The strides of a slice that takes every `step`-th element along the dim `from`, whose axes are `to` then; `None` if no one
    /// stride walks the dim.
    pub fn cut(&self, axes: &AxisMap, from: &[AxisId], to: &[AxisId], step: i64) -> Option<Strides> {
        let step = &self.merged(axes, from)? * &Dim::constant(step);
        let mut strides = self.clone().without(from);
        if step != Dim::constant(0) {
            strides.0.extend(split(axes, to, &step));
        }
        Some(strides)
    }
}

/// Strides of the axes of a dim that is walked with one stride.
fn split(axes: &AxisMap, dim: &[AxisId], stride: &Dim) -> Vec<(AxisId, Dim)> {
    let mut stride = stride.clone();
    let mut strides = Vec::with_capacity(dim.len());
    for &axis in dim.iter().rev() {
        strides.push((axis, stride.clone()));
        stride = &stride * axes.extent(axis);
    }
    strides
}
