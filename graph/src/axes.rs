//! Axis identity: which axes of which values are the same axis.
//!
//! Every axis of an input is an axis of its own. Elementwise ops identify the axes of their operands, permutations
//! move them, reshapes split and merge them, reductions end them, and slices and concatenations derive new ones. From
//! this follows what shares an iteration space, and how each element of each value is addressed in it.
//!
//! An axis of extent 1 is no axis: it is represented by an empty list, as it broadcasts. A dim of a value is a list of
//! axes, outermost first, whose extents multiply to the dim's extent.
//!
//! A padded axis is one derived from what it pads, or, where rows are padded, the same axis: a value that is shorter
//! than its axes has nothing behind its end.
//!
//! A stack has an axis for its operands. Where a reshape makes one dim of that axis and a neighbour, the elements take
//! turns (or the operands follow each other) in that dim: the two are then derived together, as one axis that is split.

use std::collections::BTreeSet;

mod padded;
mod strides;

pub use strides::{Strides, contiguous_strides};

use crate::dim::{self, Dim};
use crate::graph::{Graph, Node, NodeId, Op, Value};
use crate::padding::Pad;
use crate::prim::Prim;

/// An axis. Use [`AxisMap::resolve`] before comparing: an axis may be split or found equal to another later on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AxisId(u32);

/// The axes of one dim of a value, outermost first; empty for extent 1.
pub type DimAxes = Vec<AxisId>;

/// Why axes cannot be identified.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct AxisError {
    /// The node at which it was found.
    pub node: NodeId,
    /// What does not fit.
    pub message: String,
}

/// How an axis was derived from others.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Derived {
    /// The node that made it.
    pub node: NodeId,
    /// The new axis.
    pub axis: AxisId,
    /// The axes of the same dim of each operand.
    pub from: Vec<DimAxes>,
}

#[derive(Clone, Debug)]
enum State {
    Leaf,
    Same(AxisId),
    Split(AxisId, AxisId),
}

/// The axes of all values of a graph of primitives.
#[derive(Clone, Debug, Default)]
pub struct AxisMap {
    axes: Vec<(Dim, State)>,
    values: Vec<Vec<DimAxes>>,
    derived: Vec<Derived>,
    reduced: Vec<(NodeId, DimAxes)>,
    taken: Vec<(NodeId, DimAxes)>,
    /// The nodes whose padding has an axis of its own, where that of others keeps its axis.
    keeps_padded: Option<BTreeSet<NodeId>>,
    /// Nodes that pad, with the axes before and after.
    padded: Vec<(NodeId, DimAxes, DimAxes)>,
}

impl AxisMap {
    /// Analyses a graph of primitives.
    ///
    /// # Errors
    /// A reshape or broadcast whose extents do not factor into common axes, or a composite.
    pub fn of(graph: &Graph) -> Result<AxisMap, AxisError> {
        AxisMap::analyse(graph, AxisMap::default())
    }

    fn analyse(graph: &Graph, start: AxisMap) -> Result<AxisMap, AxisError> {
        let mut map = AxisMap { values: vec![Vec::new(); graph.value_count()], ..start };
        for input in graph.inputs() {
            map.values[input.value.0 as usize] = graph.ty(input.value).shape.iter().map(|e| map.fresh(e)).collect();
        }
        for id in graph.node_ids() {
            map.visit(graph, id).map_err(|message| AxisError { node: id, message })?;
        }
        Ok(map)
    }

    /// Axes of each dim of a value, as far as they are split and identified now.
    pub fn dims(&self, value: Value) -> Vec<DimAxes> {
        self.values[value.0 as usize].iter().map(|axes| self.resolve(axes)).collect()
    }

    /// All axes of a value in order of its dims.
    pub fn flat(&self, value: Value) -> DimAxes {
        self.dims(value).concat()
    }

    /// Whether a value has an axis twice: elements of rows and columns that are one.
    pub fn is_diagonal(&self, value: Value) -> bool {
        let flat = self.flat(value);
        (1..flat.len()).any(|i| flat[..i].contains(&flat[i]))
    }

    /// Extent of an axis.
    pub fn extent(&self, axis: AxisId) -> &Dim {
        &self.axes[axis.0 as usize].0
    }

    /// The finest known axes that a list stands for.
    pub fn resolve(&self, axes: &[AxisId]) -> DimAxes {
        let mut leaves = Vec::new();
        axes.iter().for_each(|&axis| self.leaves(axis, &mut leaves));
        leaves
    }

    /// Axes made by slices, concatenations and packing, in order of nodes.
    pub fn derived(&self) -> &[Derived] {
        &self.derived
    }

    /// The axes that each reduction, index search or top-k runs over, or that are packed into one word, in order of nodes.
    pub fn reduced(&self) -> impl Iterator<Item = (NodeId, DimAxes)> + '_ {
        self.reduced.iter().map(|(node, axes)| (*node, self.resolve(axes)))
    }

    /// The axes of which each slice takes one element, which is no axis, in order of nodes.
    pub fn taken(&self) -> impl Iterator<Item = (NodeId, DimAxes)> + '_ {
        self.taken.iter().map(|(node, axes)| (*node, self.resolve(axes)))
    }

    fn leaves(&self, axis: AxisId, out: &mut DimAxes) {
        match self.axes[axis.0 as usize].1 {
            State::Leaf => out.push(axis),
            State::Same(other) => self.leaves(other, out),
            State::Split(high, low) => {
                self.leaves(high, out);
                self.leaves(low, out);
            }
        }
    }

    fn fresh(&mut self, extent: &Dim) -> DimAxes {
        if extent.as_const() == Some(1) {
            return Vec::new();
        }
        self.axes.push((extent.clone(), State::Leaf));
        vec![AxisId(self.axes.len() as u32 - 1)]
    }

    fn derive(&mut self, node: NodeId, extent: &Dim, from: Vec<DimAxes>) -> DimAxes {
        let axes = self.fresh(extent);
        self.derived.extend(axes.iter().map(|&axis| Derived { node, axis, from: from.clone() }));
        axes
    }

    /// Splits a leaf into `[extent / low, low]`.
    fn split(&mut self, axis: AxisId, low: &Dim) -> Result<(), String> {
        let extent = self.extent(axis).clone();
        let high = extent.exact_div(low).ok_or_else(|| format!("an axis of {extent} is not a multiple of {low}"))?;
        let (high, low) = (self.fresh(&high), self.fresh(low));
        if let ([high], [low]) = (&high[..], &low[..]) {
            self.axes[axis.0 as usize].1 = State::Split(*high, *low);
        }
        Ok(())
    }

    /// Identifies two lists whose extents multiply to the same product.
    fn unify(&mut self, a: &[AxisId], b: &[AxisId]) -> Result<(), String> {
        loop {
            let (left, right) = (self.resolve(a), self.resolve(b));
            let Some(at) = left.iter().zip(&right).position(|(x, y)| x != y) else {
                return if left.len() == right.len() {
                    Ok(())
                } else {
                    Err(format!("{} and {} differ", self.describe(&left), self.describe(&right)))
                };
            };
            let (x, y) = (left[at], right[at]);
            let (ex, ey) = (self.extent(x).clone(), self.extent(y).clone());
            if ex == ey {
                self.axes[y.0 as usize].1 = State::Same(x);
            } else if let Some(low) = ex.exact_div(&ey) {
                self.split(x, &low)?;
            } else if let Some(low) = ey.exact_div(&ex) {
                self.split(y, &low)?;
            } else {
                return Err(format!("{} and {} share no axes", self.describe(&left), self.describe(&right)));
            }
        }
    }

    /// Deals a list of axes out to dims of the given extents, splitting where needed.
    fn deal(&mut self, axes: &[AxisId], extents: &[Dim]) -> Result<Vec<DimAxes>, String> {
        let mut dims: Vec<DimAxes> = Vec::with_capacity(extents.len());
        let mut taken = 0;
        for extent in extents {
            let mut dim = DimAxes::new();
            let mut product = Dim::constant(1);
            while product != *extent {
                let rest = self.resolve(axes);
                let Some(&axis) = rest.get(taken) else {
                    return Err(format!("{} does not reshape to {extents:?}", self.describe(&rest)));
                };
                let with = &product * self.extent(axis);
                if extent.exact_div(&with).is_some() {
                    product = with;
                    dim.push(axis);
                    taken += 1;
                } else if let Some(low) = with.exact_div(extent) {
                    self.split(axis, &low)?;
                } else {
                    return Err(format!("{} does not reshape to {extents:?}", self.describe(&rest)));
                }
            }
            dims.push(dim);
        }
        Ok(dims)
    }

    fn describe(&self, axes: &[AxisId]) -> String {
        let extents: Vec<String> = axes.iter().map(|&a| self.extent(a).to_string()).collect();
        format!("axes [{}]", extents.join(", "))
    }

    fn visit(&mut self, graph: &Graph, id: NodeId) -> Result<(), String> {
        let node = graph.node(id);
        let Op::Prim(prim) = &node.op else { return Err(format!("`{}` is not expanded", node.op.name())) };
        let results: Vec<Vec<DimAxes>> = match prim {
            Prim::Map(_) => vec![self.broadcast(graph, node)?],
            Prim::Cast { .. } | Prim::Bitcast { .. } | Prim::AllReduce(_) => vec![self.of_operand(node, 0)],
            Prim::Reduce { axes, .. } => vec![self.reduce(id, node, axes)],
            Prim::ArgReduce { axis, .. } => vec![self.reduce(id, node, &[*axis])],
            Prim::TopK { k } => {
                let last = self.of_operand(node, 0).len() - 1;
                let mut dims = self.reduce(id, node, &[last]);
                dims[last] = self.fresh(k);
                vec![dims.clone(), dims]
            }
            Prim::Reshape { shape } => {
                let flat = self.of_operand(node, 0).concat();
                vec![self.deal(&flat, shape)?]
            }
            Prim::Permute { perm } => {
                let dims = self.of_operand(node, 0);
                vec![perm.iter().map(|&i| dims[i].clone()).collect()]
            }
            Prim::Expand { shape } => vec![self.expand(graph, node, shape)],
            Prim::Slice { axis, start, .. } => vec![self.slice(graph, id, *axis, start)],
            Prim::Cat { axis } => vec![self.cat(graph, id, *axis)?],
            Prim::Gather { axis } => {
                let mut dims = self.of_operand(node, 0);
                dims[*axis] = self.of_operand(node, 1)[0].clone();
                vec![dims]
            }
            Prim::Scatter { axis } => vec![self.scatter(node, *axis)?],
            Prim::Pack { .. } => {
                let mut dims = self.of_operand(node, 0);
                let last = dims.len() - 1;
                let from = std::mem::take(&mut dims[last]);
                let extent = &graph.ty(node.results[0]).shape[last];
                if extent.as_const() == Some(1) {
                    // One word is no axis: packing ends those of its codes.
                    self.reduced.push((id, from));
                } else {
                    dims[last] = self.derive(id, extent, vec![from]);
                }
                vec![dims]
            }
            Prim::Literal(_)
            | Prim::SizeOf(_)
            | Prim::Iota { .. }
            | Prim::ScatterReduce { .. }
            | Prim::MatMul { .. }
            | Prim::GroupedMatMul { .. }
            | Prim::Sdpa(_)
            | Prim::Opaque { .. } => {
                node.results.iter().map(|&r| graph.ty(r).shape.iter().map(|e| self.fresh(e)).collect()).collect()
            }
        };
        for (&result, dims) in node.results.iter().zip(results) {
            self.values[result.0 as usize] = dims;
        }
        Ok(())
    }

    fn of_operand(&self, node: &Node, operand: usize) -> Vec<DimAxes> {
        self.values[node.operands[operand].0 as usize].clone()
    }

    fn broadcast(&mut self, graph: &Graph, node: &Node) -> Result<Vec<DimAxes>, String> {
        let rank = graph.ty(node.results[0]).rank();
        let mut dims = vec![DimAxes::new(); rank];
        for operand in 0..node.operands.len() {
            let from = self.of_operand(node, operand);
            let skip = rank - from.len();
            for (dim, axes) in dims[skip..].iter_mut().zip(from) {
                if dim.is_empty() {
                    *dim = axes;
                } else if !axes.is_empty() {
                    self.unify(dim, &axes)?;
                }
            }
        }
        Ok(dims)
    }

    fn reduce(&mut self, id: NodeId, node: &Node, axes: &[usize]) -> Vec<DimAxes> {
        let mut dims = self.of_operand(node, 0);
        let over = axes.iter().flat_map(|&axis| std::mem::take(&mut dims[axis])).collect();
        self.reduced.push((id, over));
        dims
    }

    fn expand(&mut self, graph: &Graph, node: &Node, shape: &[Dim]) -> Vec<DimAxes> {
        let from = self.of_operand(node, 0);
        let operand = &graph.ty(node.operands[0]).shape;
        let skip = shape.len() - from.len();
        shape
            .iter()
            .enumerate()
            .map(|(i, extent)| match i.checked_sub(skip) {
                Some(j) if operand[j] == *extent => from[j].clone(),
                _ => self.fresh(extent),
            })
            .collect()
    }

    fn slice(&mut self, graph: &Graph, id: NodeId, axis: usize, start: &Dim) -> Vec<DimAxes> {
        let node = graph.node(id);
        let mut dims = self.of_operand(node, 0);
        let (from, to) = (&graph.ty(node.operands[0]).shape[axis], &graph.ty(node.results[0]).shape[axis]);
        if from != to || start.as_const() != Some(0) {
            let source = std::mem::take(&mut dims[axis]);
            if to.as_const() == Some(1) {
                self.taken.push((id, source));
            } else {
                dims[axis] = self.derive(id, to, vec![source]);
            }
        }
        dims
    }

    /// The axes of what is written into; updates share all of them but the one that indices choose.
    fn scatter(&mut self, node: &Node, axis: usize) -> Result<Vec<DimAxes>, String> {
        let (into, updates) = (self.of_operand(node, 0), self.of_operand(node, 2));
        for (i, axes) in updates.iter().enumerate() {
            let same = if i == axis { &self.of_operand(node, 1)[0] } else { &into[i] };
            self.unify(&same.clone(), axes)?;
        }
        Ok(into)
    }

    fn cat(&mut self, graph: &Graph, id: NodeId, axis: usize) -> Result<Vec<DimAxes>, String> {
        let node = graph.node(id);
        let mut dims = self.of_operand(node, 0);
        let mut from = vec![std::mem::take(&mut dims[axis])];
        for operand in 1..node.operands.len() {
            for (i, axes) in self.of_operand(node, operand).into_iter().enumerate() {
                if i == axis {
                    from.push(axes);
                } else {
                    self.unify(&dims[i], &axes)?;
                }
            }
        }
        let extent = |i: usize| &graph.ty(node.results[0]).shape[i];
        let keeps = self.keeps_padded.as_ref().is_some_and(|joins| !joins.contains(&id));
        if keeps && Pad::of(graph, id).is_some() {
            dims[axis] = self.fresh(extent(axis));
            self.padded.push((id, from.swap_remove(0), dims[axis].clone()));
            return Ok(dims);
        }
        let merged = if from.iter().all(Vec::is_empty) { merged_dim(graph, id, axis) } else { None };
        match merged {
            Some(other) => {
                let from = vec![dims[other].clone(); node.operands.len()];
                let joined = self.derive(id, &(extent(other) * extent(axis)), from);
                let (outer, inner) = (other.min(axis), other.max(axis));
                let split = self.deal(&joined, &[extent(outer).clone(), extent(inner).clone()])?;
                [dims[outer], dims[inner]] = <[DimAxes; 2]>::try_from(split).map_err(|_| "no two dims".to_owned())?;
            }
            None => dims[axis] = self.derive(id, extent(axis), from),
        }
        Ok(dims)
    }
}

/// The dim of known extent with which a reshape merges the new dim of a stack: the last before it, if nothing is
/// behind, or the last behind it.
fn merged_dim(graph: &Graph, stack: NodeId, axis: usize) -> Option<usize> {
    let result = graph.node(stack).results[0];
    let shape = &graph.ty(result).shape;
    let wide = |i: &usize| shape[*i].as_const() != Some(1);
    let mut behind = (axis + 1..shape.len()).filter(wide);
    let (other, border) = match (behind.next(), behind.next()) {
        (None, _) => ((0..axis).rfind(wide)?, axis),
        (Some(next), None) => (next, axis + 1),
        _ => return None,
    };
    let known = wide(&axis) && shape[other].as_const().is_some();
    (known && loses_border(graph, &graph.users(), result, border)).then_some(other)
}

/// Whether a reshape of a value, or of what conversions make of it, puts the dims around a border into one.
fn loses_border(graph: &Graph, users: &[Vec<NodeId>], value: Value, border: usize) -> bool {
    let behind = dim::product(&graph.ty(value).shape[border..]);
    users[value.0 as usize].iter().any(|&user| {
        let node = graph.node(user);
        match &node.op {
            Op::Prim(Prim::Reshape { shape }) => !(0..=shape.len()).any(|i| dim::product(&shape[i..]) == behind),
            Op::Prim(Prim::Cast { .. }) => loses_border(graph, users, node.results[0], border),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Builder, DType::F32, ReduceOp, TensorType};

    fn shape(extents: &[i64]) -> Vec<Dim> {
        std::iter::once(Dim::symbol("s")).chain(extents.iter().map(|&e| Dim::constant(e))).collect()
    }

    #[test]
    fn a_group_view_splits_the_lanes_everywhere() {
        let b = Builder::new("g");
        let x = b.input("x", TensorType::new(F32, shape(&[12])));
        let y = b.mul(x, x).expect("mul");
        let v = b.reshape(y, shape(&[3, 4])).expect("reshape");
        let r = b.reduce_last(ReduceOp::Max, v).expect("reduce");
        b.output(r);
        let graph = b.finish();
        let map = AxisMap::of(&graph).expect("axes");
        let lanes = &map.dims(x)[1];
        assert_eq!(lanes.len(), 2);
        assert_eq!(map.dims(v)[1..], [vec![lanes[0]], vec![lanes[1]]]);
        assert_eq!(map.dims(r)[1..], [vec![lanes[0]], vec![]]);
        let reduced: Vec<_> = map.reduced().collect();
        assert_eq!(reduced, [(NodeId(2), vec![lanes[1]])]);
    }

    #[test]
    fn an_axis_that_two_nodes_pad_is_one_axis() {
        let b = Builder::new("g");
        let [x, y] = ["x", "y"].map(|name| b.input(name, TensorType::new(F32, shape(&[12]))));
        b.output(b.add(x, y).expect("add"));
        let zero = b.float(F32, 0.0).expect("zero");
        let fill = b.prim(Prim::Expand { shape: vec![Dim::constant(3), Dim::constant(12)] }, &[zero]).expect("fill");
        let [long, other] = [x, y].map(|v| b.cat(&[v, fill], 0).expect("cat"));
        b.output(b.mul(long, other).expect("mul"));
        let map = AxisMap::with_padded_rows(&b.finish(), &BTreeSet::new()).expect("axes");
        assert!(map.has_padded_rows());
        assert_eq!(map.dims(x)[0], map.dims(other)[0]);
        assert_eq!(map.dims(long), map.dims(y));
    }

    #[test]
    fn merged_and_split_dims_meet() {
        let b = Builder::new("g");
        let x = b.input("x", TensorType::new(F32, shape(&[4, 6])));
        let y = b.input("y", TensorType::new(F32, shape(&[24])));
        let z = b.reshape(x, shape(&[24])).expect("reshape");
        let sum = b.add(z, y).expect("add");
        b.output(sum);
        let graph = b.finish();
        let map = AxisMap::of(&graph).expect("axes");
        assert_eq!(map.flat(x), map.flat(y));
        assert_eq!(map.flat(sum), map.flat(x));
    }

    /// A stack of `%x` and `%y: f32[s, 6]` along `axis`, reshaped.
    fn stacked(axis: usize, to: &[i64]) -> (AxisMap, Value, Value, Value) {
        let b = Builder::new("g");
        let one = |v| b.reshape(v, [shape(&[6]), vec![Dim::constant(1)]].concat()).expect("reshape");
        let (x, y) = (b.input("x", TensorType::new(F32, shape(&[6]))), b.input("y", TensorType::new(F32, shape(&[6]))));
        let mut operands = [one(x), one(y)];
        if axis == 1 {
            let swap = |v| b.prim(Prim::Permute { perm: vec![0, 2, 1] }, &[v]).expect("permute");
            operands = operands.map(swap);
        }
        let stack = b.cat(&operands, axis).expect("stack");
        let flat = b.reshape(stack, shape(to)).expect("reshape");
        b.output(flat);
        (AxisMap::of(&b.finish()).expect("axes"), x, stack, flat)
    }

    #[test]
    fn a_stack_that_is_flattened_has_lanes_of_its_own() {
        for (axis, extents) in [(2, ["6", "2"]), (1, ["2", "6"])] {
            let (map, x, stack, flat) = stacked(axis, &[12]);
            let lanes = map.dims(flat)[1].clone();
            assert_eq!(lanes.iter().map(|&a| map.extent(a).to_string()).collect::<Vec<_>>(), extents);
            assert_eq!(map.dims(stack)[1..], [vec![lanes[0]], vec![lanes[1]]]);
            assert!(!lanes.contains(&map.dims(x)[1][0]));
            let [cut] = map.derived() else { panic!("one cut") };
            assert_eq!(map.resolve(&[cut.axis]), lanes);
            assert_eq!(cut.from, [map.dims(x)[1].clone(), map.dims(x)[1].clone()]);
        }
    }

    #[test]
    fn a_stack_that_keeps_its_border_shares_the_axis_of_its_operands() {
        let (map, x, stack, _) = stacked(2, &[3, 2, 2]);
        assert_eq!(map.resolve(&map.dims(stack)[1]), map.dims(x)[1]);
    }

    #[test]
    fn a_slice_of_one_lane_ends_the_lanes() {
        let b = Builder::new("g");
        let x = b.input("x", TensorType::new(F32, shape(&[4])));
        let one = b.slice(x, 1, 2.into(), 3.into()).expect("one lane");
        b.output(one);
        b.output(b.slice(x, 1, 1.into(), 3.into()).expect("two lanes"));
        let map = AxisMap::of(&b.finish()).expect("axes");
        assert!(map.dims(one)[1].is_empty());
        assert_eq!(map.taken().collect::<Vec<_>>(), [(NodeId(0), map.dims(x)[1].clone())]);
        assert_eq!(map.derived().len(), 1);
    }

    #[test]
    fn reshapes_without_common_factors_are_refused() {
        let b = Builder::new("g");
        let x = b.input("x", TensorType::new(F32, [Dim::constant(6), Dim::constant(4)]));
        let y = b.reshape(x, vec![Dim::constant(8), Dim::constant(3)]).expect("reshape");
        b.output(y);
        assert!(AxisMap::of(&b.finish()).is_err());
    }
}
