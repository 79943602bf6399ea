//! Where the elements of values lie: layout ops as views of other values' memory.
//!
//! A permutation, a slice, a stretched axis and most reshapes move no element: they are strides over the memory of their
//! operand. What reads strides (matrix products, attention, reference ops, results) reads them as they are. Kernels read
//! contiguous memory; where only a view is at hand, and where a reshape does not fit the strides, elements are copied.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_graph::axes::contiguous_strides;
use fusewright_graph::{Def, Dim, Graph, Op, Prim, Value};

use super::step::{Step, Work};
use crate::Error;

/// Strides of a value over the memory of its base, in elements.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Place of the first element.
    pub offset: Dim,
    /// Per axis.
    pub strides: Vec<Dim>,
}

/// A part of the memory of a value.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The value that has memory.
    pub base: Value,
    pub layout: Layout,
    pub shape: Vec<Dim>,
}

/// Where the values between steps lie.
#[derive(Debug, Default)]
pub(crate) struct Layouts {
    /// By value, for those that have memory or are views.
    pub views: BTreeMap<Value, View>,
    /// What each copy reads, by the value that it makes.
    pub copies: BTreeMap<Value, View>,
}

impl Layout {
    /// Row-major order.
    pub fn contiguous(shape: &[Dim]) -> Layout {
        Layout { offset: Dim::constant(0), strides: contiguous_strides(shape) }
    }

    /// Whether the elements lie in row-major order without gaps, wherever they start.
    pub fn is_contiguous(&self, shape: &[Dim]) -> bool {
        let wanted = contiguous_strides(shape);
        let fits = |((extent, stride), wanted): ((&Dim, &Dim), &Dim)| *extent == Dim::constant(1) || stride == wanted;
        shape.iter().zip(&self.strides).zip(&wanted).all(fits)
    }

    /// The layout of what a layout op makes of a value of shape `from`; `None` if no strides give it.
    pub fn through(&self, prim: &Prim, from: &[Dim], to: &[Dim]) -> Option<Layout> {
        let mut layout = self.clone();
        match prim {
            Prim::Permute { perm } => layout.strides = perm.iter().map(|&axis| self.strides[axis].clone()).collect(),
            Prim::Slice { axis, start, step, .. } => {
                layout.offset = &self.offset + &(start * &self.strides[*axis]);
                layout.strides[*axis] = &self.strides[*axis] * &Dim::constant(*step);
            }
            Prim::Expand { .. } => {
                let added = to.len().checked_sub(from.len())?;
                let stride = |axis: usize| match axis.checked_sub(added) {
                    Some(old) if from[old] == to[axis] => self.strides[old].clone(),
                    _ => Dim::constant(0),
                };
                layout.strides = (0..to.len()).map(stride).collect();
            }
            Prim::Reshape { .. } => layout.strides = self.reshaped(from, to)?,
            _ => return None,
        }
        Some(layout)
    }

    /// Strides of the same elements, in the same order, under another shape.
    fn reshaped(&self, from: &[Dim], to: &[Dim]) -> Option<Vec<Dim>> {
        if self.is_contiguous(from) {
            return Some(contiguous_strides(to));
        }
        let one = Dim::constant(1);
        let old: Vec<usize> = (0..from.len()).filter(|&i| from[i] != one).collect();
        let new: Vec<usize> = (0..to.len()).filter(|&i| to[i] != one).collect();
        let mut strides = vec![Dim::constant(0); to.len()];
        let (mut i, mut j) = (0, 0);
        while i < old.len() || j < new.len() {
            let (di, dj) = common_run(old[i..].iter().map(|&a| &from[a]), new[j..].iter().map(|&a| &to[a]))?;
            let (run, made) = (&old[i..i + di], &new[j..j + dj]);
            let merge = |pair: &[usize]| self.strides[pair[0]] == &self.strides[pair[1]] * &from[pair[1]];
            if !run.windows(2).all(merge) {
                return None;
            }
            let mut stride = self.strides[*run.last()?].clone();
            for &axis in made.iter().rev() {
                strides[axis] = stride.clone();
                stride = &stride * &to[axis];
            }
            (i, j) = (i + di, j + dj);
        }
        Some(strides)
    }

    /// The layout that an operand needs so that what a layout op makes of it has this one.
    fn before(&self, prim: &Prim, from: &[Dim], to: &[Dim]) -> Option<Layout> {
        let strides = match prim {
            Prim::Permute { perm } => {
                let axis = |axis: usize| perm.iter().position(|&p| p == axis).map(|at| self.strides[at].clone());
                (0..from.len()).map(axis).collect::<Option<_>>()?
            }
            Prim::Reshape { .. } => self.reshaped(to, from)?,
            _ => return None,
        };
        Some(Layout { offset: self.offset.clone(), strides })
    }
}

/// How many leading extents of both lists have the same product, the fewest there are.
fn common_run<'a>(a: impl Iterator<Item = &'a Dim>, b: impl Iterator<Item = &'a Dim>) -> Option<(usize, usize)> {
    let products = |extents: &mut dyn Iterator<Item = &'a Dim>| -> Vec<Dim> {
        let mut product = Dim::constant(1);
        extents
            .map(|extent| {
                product = &product * extent;
                product.clone()
            })
            .collect()
    };
    let (a, b) = (products(&mut { a }), products(&mut { b }));
    b.iter().enumerate().find_map(|(j, product)| Some((a.iter().position(|p| p == product)? + 1, j + 1)))
}

/// Lays out the values of the steps, and makes copies of the views that must be.
pub(crate) fn lay_out(graph: &Graph, mut steps: Vec<Step>) -> (Vec<Step>, Layouts) {
    let launched = steps.iter().filter(|s| matches!(s.work, Work::Kernel(_)));
    let contiguous: BTreeSet<Value> = launched.flat_map(|s| s.inputs.iter().copied()).collect();
    let mut readers: BTreeMap<Value, Vec<usize>> = BTreeMap::new();
    for (at, step) in steps.iter().enumerate() {
        step.inputs.iter().for_each(|&v| readers.entry(v).or_default().push(at));
    }
    let shape = |value: Value| graph.ty(value).shape.as_slice();
    let mut layouts = Layouts::default();
    let own = |value: Value, layout: Layout| View { base: value, layout, shape: shape(value).to_vec() };
    for input in graph.inputs() {
        layouts.views.insert(input.value, own(input.value, Layout::contiguous(shape(input.value))));
    }
    for at in 0..steps.len() {
        let step = &steps[at];
        if let Work::View = step.work {
            let (operand, result) = (step.inputs[0], step.outputs[0]);
            let copied = layouts.view(graph, operand, result, contiguous.contains(&result));
            if copied {
                steps[at].work = Work::Copy;
            }
            continue;
        }
        let strided =
            matches!(step.work, Work::MatMul { .. } | Work::GroupedMatMul | Work::Attention(_) | Work::Reference(_));
        for &value in &step.outputs {
            let wanted = strided.then(|| wanted_order(graph, &steps, &readers, value)).flatten();
            let layout = wanted.unwrap_or_else(|| Layout::contiguous(shape(value)));
            layouts.views.entry(value).or_insert_with(|| own(value, layout));
        }
    }
    (steps, layouts)
}

impl Layouts {
    /// Where a value lies that is there between steps.
    pub fn get(&self, value: Value) -> Result<&View, Error> {
        self.views.get(&value).ok_or_else(|| Error::Internal(format!("value {value:?} was not laid out")))
    }

    /// Lays out the result of a layout op; whether that is a copy.
    fn view(&mut self, graph: &Graph, operand: Value, result: Value, contiguous: bool) -> bool {
        let (from, to) = (graph.ty(operand).shape.as_slice(), graph.ty(result).shape.as_slice());
        let Some(source) = self.views.get(&operand).cloned() else { return false };
        let layout = layout_op(graph, result).and_then(|prim| source.layout.through(prim, from, to));
        let view = layout.map(|layout| View { base: source.base, layout, shape: to.to_vec() });
        let copied = match view {
            Some(view) if !contiguous || view.layout.is_contiguous(to) => {
                self.views.insert(result, view);
                return false;
            }
            Some(view) => view,
            None => source,
        };
        self.copies.insert(result, copied);
        self.views.insert(result, View { base: result, layout: Layout::contiguous(to), shape: to.to_vec() });
        true
    }
}

/// The layout op that makes a value.
fn layout_op(graph: &Graph, value: Value) -> Option<&Prim> {
    let Def::Node(id, _) = graph.def(value) else { return None };
    match &graph.node(id).op {
        Op::Prim(prim) => Some(prim),
        Op::Composite(_) => None,
    }
}

/// The order in which a value's elements are best written: so that the permuted form that alone is read is row-major.
fn wanted_order(graph: &Graph, steps: &[Step], readers: &BTreeMap<Value, Vec<usize>>, value: Value) -> Option<Layout> {
    let mut chain = vec![value];
    loop {
        let last = *chain.last()?;
        let next = match readers.get(&last).map(Vec::as_slice) {
            Some(&[at]) if matches!(steps[at].work, Work::View) && !graph.is_output(last) => steps[at].outputs[0],
            _ => break,
        };
        match layout_op(graph, next) {
            Some(Prim::Permute { .. } | Prim::Reshape { .. }) => chain.push(next),
            _ => break,
        }
    }
    let permutes = |value: &Value| matches!(layout_op(graph, *value), Some(Prim::Permute { .. }));
    let shape = |value: Value| graph.ty(value).shape.as_slice();
    (1..chain.len()).rev().filter(|&end| chain[1..=end].iter().any(permutes)).find_map(|end| {
        let mut layout = Layout::contiguous(shape(chain[end]));
        for pair in chain[..=end].windows(2).rev() {
            layout = layout.before(layout_op(graph, pair[1])?, shape(pair[0]), shape(pair[1]))?;
        }
        Some(layout)
    })
}
