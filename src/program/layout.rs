//! Where the elements of values lie: layout ops as views of other values' memory.
//!
//! A permutation, a slice, a stretched axis and most reshapes move no element: they are strides over the memory of their
//! operand. What reads strides (matrix products, attention, reference ops, results) reads them as they are. Kernels read
//! contiguous memory; where only a view is at hand, and where a reshape does not fit the strides, elements are copied.
//!
//! On a device the library takes matrices whose rows or columns are contiguous, and results are contiguous.

use std::collections::BTreeMap;

use fusewright_abi::Target;
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

    /// Whether neighbours along one of the last two axes are neighbours in memory, and the other axis moves, so that a
    /// library takes matrices of these axes.
    pub fn is_matrix(&self, shape: &[Dim]) -> bool {
        let one = Dim::constant(1);
        let (Some(rows), Some(columns)) = (shape.len().checked_sub(2), shape.len().checked_sub(1)) else {
            return false;
        };
        let inner = |axis: usize| shape[axis] == one || self.strides[axis] == one;
        let outer = |axis: usize| shape[axis] == one || self.strides[axis] != Dim::constant(0);
        (inner(columns) && outer(rows)) || (inner(rows) && outer(columns))
    }

    /// The axes from the outermost in memory to the innermost, if in that order the elements lie without gaps.
    pub fn memory_order(&self, shape: &[Dim]) -> Option<Vec<usize>> {
        if self.is_contiguous(shape) {
            return Some((0..shape.len()).collect());
        }
        let one = Dim::constant(1);
        let (mut left, mut order): (Vec<usize>, Vec<usize>) = (0..shape.len()).partition(|&axis| shape[axis] != one);
        let (mut inner, mut stride) = (Vec::new(), one);
        while !left.is_empty() {
            let at = left.iter().position(|&axis| self.strides[axis] == stride)?;
            let axis = left.remove(at);
            stride = &stride * &shape[axis];
            inner.push(axis);
        }
        order.extend(inner.into_iter().rev());
        Some(order)
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

/// Where values lie, and so what reads them beside kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Home {
    /// Memory of the host: whatever is no kernel reads any strides.
    Host,
    /// Memory of a device: its library reads matrices.
    Device,
}

impl Home {
    /// Where programs for a target have their values.
    pub fn of(target: &Target) -> Home {
        match target {
            Target::Cuda { .. } | Target::Ascend { .. } | Target::AscendSim { .. } => Home::Device,
            Target::Cpu | Target::CpuLlvm { .. } => Home::Host,
        }
    }
}

/// What the readers of a value take.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Need {
    /// Row-major order.
    contiguous: bool,
    /// Rows or columns of the last two axes that are contiguous.
    matrix: bool,
}

impl Need {
    fn is_met(self, layout: &Layout, shape: &[Dim]) -> bool {
        let row_major = !self.contiguous || layout.is_contiguous(shape);
        row_major && (!self.matrix || layout.is_matrix(shape))
    }
}

/// What the readers of each value take that do not take everything.
fn needs(graph: &Graph, steps: &[Step], home: Home) -> BTreeMap<Value, Need> {
    let mut needs: BTreeMap<Value, Need> = BTreeMap::new();
    for step in steps {
        for &value in &step.inputs {
            let need = needs.entry(value).or_default();
            let product = home == Home::Device && matches!(step.work, Work::MatMul { .. });
            // Of integers libraries take one order of the operands alone.
            need.contiguous |= matches!(step.work, Work::Kernel(_)) || (product && graph.ty(value).dtype.is_int());
            need.matrix |= product;
        }
    }
    if home == Home::Device {
        graph.outputs().iter().for_each(|output| needs.entry(output.value).or_default().contiguous = true);
    }
    needs
}

/// Lays out the values of the steps, and makes copies of the views that must be.
pub(crate) fn lay_out(graph: &Graph, mut steps: Vec<Step>, home: Home) -> (Vec<Step>, Layouts) {
    let needs = needs(graph, &steps, home);
    let need = |value: Value| needs.get(&value).copied().unwrap_or_default();
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
            if layouts.view(graph, operand, result, need(result)) {
                steps[at].work = Work::Copy(None);
            }
            continue;
        }
        let strided =
            matches!(step.work, Work::MatMul { .. } | Work::GroupedMatMul | Work::Attention(_) | Work::Reference(_));
        for &value in &step.outputs {
            let wanted = strided.then(|| wanted_order(graph, &steps, &readers, value)).flatten();
            let library = home == Home::Device && matches!(step.work, Work::MatMul { .. });
            let wanted =
                wanted.filter(|layout| !library || (layout.is_matrix(shape(value)) && !graph.ty(value).dtype.is_int()));
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
    fn view(&mut self, graph: &Graph, operand: Value, result: Value, need: Need) -> bool {
        let (from, to) = (graph.ty(operand).shape.as_slice(), graph.ty(result).shape.as_slice());
        let Some(source) = self.views.get(&operand).cloned() else { return false };
        let layout = layout_op(graph, result).and_then(|prim| source.layout.through(prim, from, to));
        let view = layout.map(|layout| View { base: source.base, layout, shape: to.to_vec() });
        let copied = match view {
            Some(view) if need.is_met(&view.layout, to) => {
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
pub(super) fn layout_op(graph: &Graph, value: Value) -> Option<&Prim> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(values: &[i64]) -> Vec<Dim> {
        values.iter().map(|&n| Dim::constant(n)).collect()
    }

    #[test]
    fn a_library_takes_rows_or_columns_that_are_contiguous() {
        let is_matrix = |shape: &[i64], strides: &[i64]| {
            Layout { offset: Dim::constant(0), strides: dims(strides) }.is_matrix(&dims(shape))
        };
        assert!(is_matrix(&[2, 3, 4], &[12, 4, 1]) && is_matrix(&[2, 3, 4], &[4, 8, 1]) && is_matrix(&[3, 4], &[1, 9]));
        assert!(is_matrix(&[1, 4], &[0, 1]) && is_matrix(&[3, 1], &[7, 5]));
        assert!(!is_matrix(&[3, 4], &[8, 2]) && !is_matrix(&[3, 4], &[0, 1]) && !is_matrix(&[4], &[1]));
    }

    #[test]
    fn memory_is_walked_from_the_outermost_axis_to_the_innermost() {
        let order = |shape: &[i64], strides: &[i64]| {
            Layout { offset: Dim::constant(0), strides: dims(strides) }.memory_order(&dims(shape))
        };
        assert_eq!(order(&[2, 3, 4], &[12, 4, 1]), Some(vec![0, 1, 2]));
        assert_eq!(order(&[2, 3, 4], &[4, 8, 1]), Some(vec![1, 0, 2]));
        assert_eq!(order(&[1, 3, 4], &[7, 1, 3]), Some(vec![0, 2, 1]));
        assert_eq!(order(&[3, 4], &[8, 1]), None, "there are gaps");
    }
}
