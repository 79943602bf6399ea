//! Views that are given by extents, strides and an offset, as the layout ops that cut them out of a tensor.
//!
//! The axes of the tensor in the order of its memory, together or one by one, are the digits of an address, and so are
//! those of the view. Where the view's strides split the tensor's axes, and every range lies inside what it is a range
//! of, the view is a selection: axes that are split, cut and put into another order.

use std::fmt;

use fusewright_abi::DType;

use super::call::{Names, Refusal};
use super::sharing::Sharing;
use super::steps::{Step, number};
use crate::builder::Builder;
use crate::dim::{Dim, DimFn, product};
use crate::graph::Value;
use crate::prim::Prim;

/// Where a tensor lies in its memory, in elements.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Strided {
    pub(super) shape: Vec<Dim>,
    /// One for each axis.
    pub(super) strides: Vec<Dim>,
    /// Of the first element.
    pub(super) offset: Dim,
}

impl fmt::Display for Strided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |dims: &[Dim]| dims.iter().map(Dim::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "[{}] with strides [{}]", list(&self.shape), list(&self.strides))?;
        if is(&self.offset, 0) { Ok(()) } else { write!(f, " from element {}", self.offset) }
    }
}

/// An axis of other than one element.
#[derive(Clone)]
struct Axis {
    /// Its place in the shape.
    at: usize,
    extent: Dim,
    stride: Dim,
}

impl Strided {
    fn axes(&self) -> Vec<Axis> {
        let all = self.shape.iter().zip(&self.strides).enumerate();
        let axes = all.map(|(at, (extent, stride))| Axis { at, extent: extent.clone(), stride: stride.clone() });
        axes.filter(|axis| !is(&axis.extent, 1)).collect()
    }

    /// Whether an axis repeats elements.
    pub(super) fn is_stretched(&self) -> bool {
        self.axes().iter().any(|axis| is(&axis.stride, 0))
    }

    /// Whether all elements are known to be among those of a tensor without gaps: along each of its axes, of which the
    /// places are the digits of an address, none is beyond the last place.
    fn is_inside(&self, base: &Strided, names: &dyn Names) -> bool {
        let (one, zero) = (Dim::constant(1), Dim::constant(0));
        let mut rest = vec![(&self.offset - &base.offset, one.clone())];
        rest.extend(self.axes().into_iter().map(|axis| (axis.stride, &axis.extent - &one)));
        for (extent, unit) in base.shape.iter().zip(&base.strides).filter(|(extent, _)| !is(extent, 1)) {
            let mut last = zero.clone();
            for (distance, times) in &mut rest {
                let (steps, inner) = distance.divided(unit);
                if !names.never_negative(&steps) {
                    return false;
                }
                last = &last + &(&steps * &*times);
                *distance = inner;
            }
            let room = |last: &Dim| names.never_negative(&(&(extent - &one) - last));
            // What is the least of several is at most each of them.
            if !room(&last) && ![false, true].into_iter().any(|second| room(&without_least(&last, second))) {
                return false;
            }
        }
        rest.iter().all(|(distance, _)| is(distance, 0))
    }

    /// Whether all elements are known to be at different places: each axis steps over all that those inside of it reach.
    fn is_injective(&self, names: &dyn Names) -> bool {
        let one = Dim::constant(1);
        let Some(nested) = nested(self.axes(), names) else { return false };
        let reach = nested.iter().rev().try_fold(Dim::constant(0), |reach, axis| {
            let over = &(&axis.stride - &reach) - &one;
            names.never_negative(&over).then(|| &reach + &(&(&axis.extent - &one) * &axis.stride))
        });
        reach.is_some()
    }

    /// Whether two tensors of one memory are the same elements in the same order.
    pub(super) fn is_same(&self, other: &Strided) -> bool {
        let strides = self.strides.iter().zip(&other.strides).zip(&self.shape);
        self.shape == other.shape
            && self.offset == other.offset
            && strides.into_iter().all(|((a, b), extent)| is(extent, 1) || a == b)
    }

    /// The same with strides in which an extent of 0 counts as 0 and not as 1, which is the same where there are elements.
    fn plain(&self, counts: &[Dim; 2]) -> Strided {
        let plain = |dim: &Dim| {
            dim.rebuild(|f, a, b| {
                let other = [(&a, &b), (&b, &a)].into_iter().find(|(x, _)| is(x, 1)).map(|(_, other)| other);
                let counted = |d: &&Dim| counts.iter().any(|count| exact(count, d).is_some());
                match other.filter(counted) {
                    Some(extent) if f == DimFn::Max => extent.clone(),
                    _ => Dim::function(f, &a, &b),
                }
            })
        };
        let strides = self.strides.iter().map(plain).collect();
        Strided { shape: self.shape.clone(), strides, offset: plain(&self.offset) }
    }

    /// The least and the largest place of an element, within the elements of which a modulus counts one; `None` where
    /// that range is not inside of one such count.
    fn range(&self, modulus: Option<&Dim>, names: &dyn Names) -> Option<[Dim; 2]> {
        let one = Dim::constant(1);
        let first = modulus.map_or_else(|| self.offset.clone(), |m| self.offset.divided(m).1);
        let axes = self.axes().into_iter().filter(|axis| modulus.is_none_or(|m| exact(&axis.stride, m).is_none()));
        let last = axes.fold(first.clone(), |sum, axis| &sum + &(&(&axis.extent - &one) * &axis.stride));
        let inside = |m: &Dim| names.never_negative(&first) && names.never_negative(&(&(m - &one) - &last));
        modulus.is_none_or(inside).then_some([first, last])
    }
}

/// Whether two tensors of one memory have no element in common.
pub(super) fn disjoint(a: &Strided, b: &Strided, names: &dyn Names) -> bool {
    let moduli = a.strides.iter().chain(&b.strides).filter(|m| m.as_const().is_none_or(|m| m > 1));
    let apart = |modulus: Option<&Dim>| {
        let [Some([a_first, a_last]), Some([b_first, b_last])] = [a.range(modulus, names), b.range(modulus, names)]
        else {
            return false;
        };
        let before = |last: &Dim, first: &Dim| names.never_negative(&(&(first - last) - &Dim::constant(1)));
        before(&a_last, &b_first) || before(&b_last, &a_first)
    };
    std::iter::once(None).chain(moduli.map(Some)).any(apart)
}

/// The layout ops that cut a view out of a tensor of the same memory.
///
/// # Errors
/// A view of which one element is at several places, or that is no selection of the tensor's elements.
pub(super) fn cut(base: &Strided, view: &Strided, names: &dyn Names) -> Result<Vec<Step>, Refusal> {
    for of in [base, view] {
        if of.shape.len() != of.strides.len() {
            return Err(format!("{of}: of another number of axes").into());
        }
    }
    if base.is_same(view) {
        return Ok(Vec::new());
    }
    let counts = [product(&base.shape), product(&view.shape)];
    if is(&counts[1], 0) {
        return Ok(nothing(&counts[0], view));
    }
    let (from, to) = (base.plain(&counts), view.plain(&counts));
    let (held, wanted) = (from.axes(), to.axes());
    let twice = |of: &[Axis], axis: &Axis| of.iter().any(|other| other.at != axis.at && other.stride == axis.stride);
    for (of, axes) in [(base, &held), (view, &wanted)] {
        if axes.iter().any(|axis| is(&axis.stride, 0) || twice(axes, axis)) {
            return Err(several_places(of).into());
        }
    }
    let selected = nested(held, names).zip(nested(wanted, names)).and_then(|(held, wanted)| {
        let (held_joined, wanted_joined) = (joined(&held), joined(&wanted));
        let ways = [(&held, &wanted_joined), (&held, &wanted), (&held_joined, &wanted_joined), (&held_joined, &wanted)];
        ways.into_iter().find_map(|(parts, taken)| {
            let mut steps = Steps { names, shape: from.shape.clone(), done: Vec::new() };
            steps.arrange(&held, parts);
            steps.select(parts, taken, &to.offset - &from.offset)?;
            steps.place(&wanted);
            steps.reshape(to.shape.clone());
            Some(steps.done.into_iter().map(Step::Op).collect())
        })
    });
    selected.ok_or_else(|| Refusal(format!("{view} is no selection of the elements of {base}")))
}

/// A view by the place of each of its elements; `None` if the base has gaps or another order of axes, or if the places are
/// not known to lie inside of it.
pub(super) fn by_places(b: &Builder, base: &Strided, view: &Strided, names: &dyn Names) -> Option<Step> {
    let one = Dim::constant(1);
    let contiguous = (Sharing { tensor: base, names }).is_contiguous() == Some(true);
    if !contiguous || !view.is_inside(base, names) {
        return None;
    }
    let first = &view.offset - &base.offset;
    let along = |at: Value, axis: &Axis| {
        let mut shape = vec![one.clone(); view.shape.len()];
        shape[axis.at] = axis.extent.clone();
        let counted = b.prim(Prim::Iota { dtype: DType::I64, shape, axis: axis.at }, &[])?;
        b.add(b.mul(counted, number(b, &axis.stride)?)?, at)
    };
    let at = view.axes().iter().try_fold(number(b, &first).ok()?, along).ok()?;
    let at = b.reshape(at, vec![product(&view.shape)]).ok()?;
    Some(Step::Places { at, shape: view.shape.clone(), distinct: view.is_injective(names) })
}

/// Words for a tensor that is refused for it.
pub(super) fn several_places(of: &Strided) -> String {
    format!("{of} has one element at several places")
}

fn is(dim: &Dim, value: i64) -> bool {
    dim.as_const() == Some(value)
}

fn exact(a: &Dim, divisor: &Dim) -> Option<Dim> {
    let (quotient, rest) = a.divided(divisor);
    (is(&rest, 0) && !is(divisor, 0)).then_some(quotient)
}

/// A dim with the first or the second operand in place of the lesser of two.
fn without_least(dim: &Dim, second: bool) -> Dim {
    dim.rebuild(|f, a, b| match f {
        DimFn::Min if second => b,
        DimFn::Min => a,
        _ => Dim::function(f, &a, &b),
    })
}

/// No element of so many, as a view has them.
fn nothing(count: &Dim, view: &Strided) -> Vec<Step> {
    let (start, end) = (Dim::constant(0), Dim::constant(0));
    let steps = [
        Prim::Reshape { shape: vec![count.clone()] },
        Prim::Slice { axis: 0, start, end, step: 1 },
        Prim::Reshape { shape: view.shape.clone() },
    ];
    steps.map(Step::Op).into()
}

/// Axes from the one of the largest stride to that of the least; `None` where that is not known.
fn nested(mut axes: Vec<Axis>, names: &dyn Names) -> Option<Vec<Axis>> {
    let around = |outer: &Dim, inner: &Dim| {
        exact(outer, inner).is_some() || exact(inner, outer).is_none() && names.never_negative(&(outer - inner))
    };
    let mut sorted = Vec::with_capacity(axes.len());
    while !axes.is_empty() {
        let outermost = axes.iter().position(|a| axes.iter().all(|b| a.at == b.at || around(&a.stride, &b.stride)))?;
        sorted.push(axes.remove(outermost));
    }
    Some(sorted)
}

/// Axes without gaps between them as one.
fn joined(axes: &[Axis]) -> Vec<Axis> {
    let mut joined: Vec<Axis> = Vec::with_capacity(axes.len());
    for inner in axes {
        match joined.last_mut() {
            Some(outer) if outer.stride == &inner.stride * &inner.extent => {
                outer.extent = &outer.extent * &inner.extent;
                outer.stride = inner.stride.clone();
            }
            _ => joined.push(inner.clone()),
        }
    }
    joined
}

fn extents(axes: &[Axis]) -> Vec<Dim> {
    axes.iter().map(|axis| axis.extent.clone()).collect()
}

/// Layout ops in the making.
struct Steps<'n> {
    names: &'n dyn Names,
    /// Behind those that are made.
    shape: Vec<Dim>,
    done: Vec<Prim>,
}

impl Steps<'_> {
    fn reshape(&mut self, shape: Vec<Dim>) {
        if shape == self.shape {
            return;
        }
        if matches!(self.done.last(), Some(Prim::Reshape { .. })) {
            self.done.pop();
        }
        self.shape.clone_from(&shape);
        self.done.push(Prim::Reshape { shape });
    }

    fn permute(&mut self, perm: Vec<usize>) {
        if perm.iter().enumerate().any(|(to, &from)| to != from) {
            self.shape = perm.iter().map(|&from| self.shape[from].clone()).collect();
            self.done.push(Prim::Permute { perm });
        }
    }

    fn split(&mut self, axis: usize, outer: Dim, inner: Dim) {
        let mut shape = self.shape.clone();
        shape.splice(axis..=axis, [outer, inner]);
        self.reshape(shape);
    }

    /// So many elements of an axis, every so many from one on.
    fn slice(&mut self, axis: usize, start: &Dim, count: &Dim, step: i64) -> Option<()> {
        let (extent, gap) = (&self.shape[axis], Dim::constant(step.checked_sub(1)?));
        let mut end = start + &(count * &Dim::constant(step));
        if !self.names.never_negative(&(extent - &end)) && self.names.never_negative(&(count - &Dim::constant(1))) {
            // Behind the last one nothing need follow.
            end = &end - &gap;
        }
        let inside = [start, &(&end - start), &(extent - &end)].into_iter().all(|d| self.names.never_negative(d));
        if step < 1 || !inside {
            return None;
        }
        if step > 1 || !is(start, 0) || end != *extent {
            self.done.push(Prim::Slice { axis, start: start.clone(), end, step });
            self.shape[axis] = count.clone();
        }
        Some(())
    }

    /// From axes in the order of memory, at their places, to `parts`, which are the same or some of them joined.
    fn arrange(&mut self, held: &[Axis], parts: &[Axis]) {
        let mut by_place = held.to_vec();
        by_place.sort_by_key(|axis| axis.at);
        self.reshape(extents(&by_place));
        self.permute(held.iter().filter_map(|axis| by_place.iter().position(|other| other.at == axis.at)).collect());
        self.reshape(extents(parts));
    }

    /// From axes in the order of memory to those of a view, the first element of which is at an offset.
    fn select(&mut self, parts: &[Axis], taken: &[Axis], offset: Dim) -> Option<()> {
        let (mut at, mut rest, mut left) = (0, offset, taken);
        for part in parts {
            let (first, inner) = rest.divided(&part.stride);
            rest = inner;
            let unit = |axis: &Axis| Some((axis.extent.clone(), exact(&axis.stride, &part.stride)?));
            let units: Vec<(Dim, Dim)> = left.iter().map_while(unit).collect();
            left = &left[units.len()..];
            at = self.take(at, first, &units)?;
        }
        (left.is_empty() && is(&rest, 0)).then_some(())
    }

    /// To axes that are in the order of memory, at their places.
    fn place(&mut self, wanted: &[Axis]) {
        self.reshape(extents(wanted));
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by_key(|&i| wanted[i].at);
        self.permute(order);
    }

    /// Cuts an axis to the elements `first + Σ i·unit` for `i` below the count of each unit, from the largest unit to the
    /// least. It becomes an axis for each, and one of one element behind them where elements between are left out.
    /// Returns the axis behind.
    fn take(&mut self, mut axis: usize, mut first: Dim, units: &[(Dim, Dim)]) -> Option<usize> {
        for (i, (count, unit)) in units.iter().enumerate() {
            if let (true, Some(step)) = (i + 1 == units.len(), unit.as_const()) {
                self.slice(axis, &first, count, step)?;
                return Some(axis + 1);
            }
            let (extent, span) = (self.shape[axis].clone(), count * unit);
            let (place, inner) = first.divided(unit);
            let one = Dim::constant(1);
            let reach = units[i + 1..].iter().fold(one.clone(), |sum, (n, u)| &sum + &(&(n - &one) * u));
            // Whether units that begin at a place hold the elements, each in one of them, and lie inside the axis.
            let hold = |start: &Dim| {
                let inner = &first - start;
                let room = [start.clone(), &extent - &(start + &span), &(unit - &inner) - &reach, inner];
                room.iter().all(|d| self.names.never_negative(d))
            };
            let aligned = &place * unit;
            if let Some(outer) = exact(&extent, unit).filter(|_| hold(&aligned)) {
                self.split(axis, outer, unit.clone());
                self.slice(axis, &place, count, 1)?;
                first = inner;
            } else {
                let start = [aligned, first.clone(), &extent - &span].into_iter().find(hold)?;
                first = &first - &start;
                self.slice(axis, &start, &span, 1)?;
                self.split(axis, count.clone(), unit.clone());
            }
            axis += 1;
        }
        self.slice(axis, &first, &Dim::constant(1), 1)?;
        Some(axis + 1)
    }
}
