//! Emission of one segment: instructions on demand, from the outputs backwards.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_fusion::region::Stored;
use fusewright_graph::axes::{AxisId, AxisMap, contiguous_strides};
use fusewright_graph::dim::product;
use fusewright_graph::padding::Pad;
use fusewright_graph::{
    DType, Def, Dim, Graph, Literal, NanRule, Node, NodeId, Op, Prim, ReduceOp, Rounding, ScalarFn, Value, num,
};

use super::space::{is_layout, linear};
use super::view::split_stride;
use super::{LowerError, Orders, Space, View};
use crate::kernel::{INNER, InstOp, LANE, Over, Param, ParamId, ROW, Segment, SegmentBuilder, Shape, Val};

pub(super) struct Emitter<'a> {
    pub(super) body: &'a Graph,
    pub(super) axes: &'a AxisMap,
    pub(super) views: &'a [Option<View>],
    pub(super) space: &'a Space,
    pub(super) params: &'a [Param],
    orders: &'a dyn Orders,
    /// How the ranks of a peer parameter combine.
    pub(super) combine: Option<ReduceOp>,
    pub(super) segment: SegmentBuilder<'a>,
    inner: Vec<AxisId>,
    done: BTreeMap<Value, Val>,
    /// Whether this row is before an end: the axes that are counted, the end, and the value that says so.
    pub(super) ends: Vec<(Vec<AxisId>, Dim, Val)>,
    /// Indices and what they are below, with the same moved into range.
    pub(super) clamped: Vec<(Val, Dim, Val)>,
}

impl<'a> Emitter<'a> {
    pub fn new(
        body: &'a Graph,
        axes: &'a AxisMap,
        views: &'a [Option<View>],
        space: &'a Space,
        params: &'a [Param],
        orders: &'a dyn Orders,
        combine: Option<ReduceOp>,
    ) -> Self {
        let segment = SegmentBuilder::new("main", Dim::constant(1), params);
        Emitter {
            body,
            axes,
            views,
            space,
            params,
            orders,
            combine,
            segment,
            inner: Vec::new(),
            done: BTreeMap::new(),
            ends: Vec::new(),
            clamped: Vec::new(),
        }
    }

    /// The segment of all outputs whose inner rows are these.
    pub fn segment(mut self, inner: &[AxisId]) -> Result<Segment, LowerError> {
        let count = product(inner.iter().map(|&a| self.axes.extent(a)));
        self.inner = inner.to_vec();
        let name = if inner.is_empty() { "rows".to_owned() } else { format!("inner{count}").replace('*', "x") };
        self.segment = SegmentBuilder::new(&name, count, self.params);
        let first_output = self.body.inputs().len();
        let outputs = self.body.outputs().iter().enumerate();
        let stored = outputs.map(|(i, o)| (first_output + i, o.value, Stored::of(self.body, o.value)));
        let own: Vec<(usize, Value, Stored)> = stored.filter(|(_, _, s)| self.is_own(s.value)).collect();
        let places = own.iter().filter_map(|(_, _, s)| Some(self.body.node(s.scatter?.node).operands[1]));
        // In node order, so that long chains do not recurse.
        for id in self.needed(own.iter().map(|(_, _, s)| s.value).chain(places)) {
            for &result in &self.body.node(id).results {
                self.value(result)?;
            }
        }
        for (param, output, stored) in own {
            self.store(ParamId(param as u32), output, stored)?;
        }
        Ok(self.segment.finish())
    }

    /// Whether an output's inner rows are those of this segment.
    fn is_own(&self, output: Value) -> bool {
        let rows = self.axes.flat(output).into_iter().filter(|&a| self.space.is_row(a));
        let inner: Vec<AxisId> = rows.filter(|a| !self.space.outer().contains(a)).collect();
        inner.len() == self.inner.len() && inner.iter().all(|a| self.inner.contains(a))
    }

    /// The computed nodes that the values depend on, in order.
    fn needed(&self, values: impl Iterator<Item = Value>) -> Vec<NodeId> {
        let mut wanted: BTreeSet<Value> = values.collect();
        let mut nodes = Vec::new();
        for id in self.body.node_ids().rev() {
            let node = self.body.node(id);
            let computed = node.results.iter().any(|r| wanted.contains(r) && self.views[r.0 as usize].is_none());
            if computed {
                wanted.extend(&node.operands);
                nodes.push(id);
            }
        }
        nodes.reverse();
        nodes
    }

    fn store(&mut self, param: ParamId, output: Value, Stored { value, scatter }: Stored) -> Result<(), LowerError> {
        let shape = self.space.shape(self.axes, value).map_err(LowerError::new)?;
        let stored = self.value(value)?;
        let stored = self.spread(stored, &shape).map_err(LowerError::new)?;
        let extents = &self.body.ty(output).shape;
        let mut strides = Vec::new();
        for (dim, stride) in self.axes.dims(output).iter().zip(contiguous_strides(extents)) {
            strides.extend(split_stride(self.axes, dim, &stride));
        }
        let (offset, chosen) = scatter.map(|s| self.chosen(s, &strides)).transpose()?.unzip();
        let here = match (self.before_end(value)?, chosen) {
            (Some(a), Some(b)) => Some(self.push(InstOp::Map(ScalarFn::And), &[a, b]).map_err(LowerError::new)?[0]),
            (a, b) => a.or(b),
        };
        let lanes: Vec<AxisId> = self.axes.flat(value).into_iter().filter(|&a| !self.space.is_row(a)).collect();
        let mut index = self.index(&strides, &lanes);
        if let Some(offset) = &offset {
            index = &index + offset;
        }
        let args: Vec<Val> = [stored].into_iter().chain(here).collect();
        self.push(InstOp::Store { param, index, otherwise: None }, &args).map_err(LowerError::new)?;
        Ok(())
    }

    /// The index of an access with the given stride per axis, whose lane counter runs over `lanes`.
    pub(super) fn index(&self, strides: &[(AxisId, Dim)], lanes: &[AxisId]) -> Dim {
        let walked = |run: &[AxisId]| -> Vec<(Dim, Dim)> {
            let stride = |a: &AxisId| strides.iter().find(|(b, _)| a == b).map_or(Dim::constant(0), |(_, s)| s.clone());
            run.iter().map(|a| (self.axes.extent(*a).clone(), stride(a))).collect()
        };
        let rows = linear(&Dim::symbol(ROW), &walked(self.space.outer()));
        let inner = linear(&Dim::symbol(INNER), &walked(&self.inner));
        let lane = linear(&Dim::symbol(LANE), &walked(lanes));
        &(&rows + &inner) + &lane
    }

    /// The value in this segment's rows.
    pub(super) fn value(&mut self, value: Value) -> Result<Val, LowerError> {
        if let Some(&done) = self.done.get(&value) {
            return Ok(done);
        }
        let node = match self.body.def(value) {
            Def::Node(id, _) => Some(id),
            Def::Input(_) => None,
        };
        let wrap = |message: String| LowerError { node, message };
        let result = if let Some(view) = &self.views[value.0 as usize] {
            self.load(view, value)?
        } else {
            let Def::Node(id, result) = self.body.def(value) else { return Err(wrap("an input is no view".into())) };
            let values = self.node(id)?;
            *values.get(result).ok_or_else(|| wrap("no such result".into()))?
        };
        self.done.insert(value, result);
        Ok(result)
    }

    fn load(&mut self, view: &View, value: Value) -> Result<Val, LowerError> {
        let mut lanes: Vec<AxisId> = self.axes.flat(value).into_iter().filter(|&a| !self.space.is_row(a)).collect();
        let shape = match self.space.shape(self.axes, value) {
            Ok(shape) => shape,
            // Not the leading lanes of its row: load it lane by lane of the whole row, standing still where it has none.
            Err(message) => {
                let row = lanes.first().map_or(&[][..], |&a| self.space.row_of(a)).to_vec();
                if !lanes.iter().all(|a| row.contains(a)) {
                    return Err(LowerError::new(message));
                }
                lanes = row;
                Shape::Row(product(lanes.iter().map(|&a| self.axes.extent(a))))
            }
        };
        let here = self.before_end(value)?;
        self.load_lanes(view, &lanes, shape, here)
    }

    /// Loads what a view shows; zeros where it is not `here`.
    pub(super) fn load_lanes(
        &mut self,
        view: &View,
        lanes: &[AxisId],
        shape: Shape,
        here: Option<Val>,
    ) -> Result<Val, LowerError> {
        let reachable = |a: AxisId| !self.space.is_row(a) || self.space.outer().contains(&a) || self.inner.contains(&a);
        if let Some((axis, _)) = view.strides.iter().find(|(a, _)| !reachable(*a)) {
            let extent = self.axes.extent(*axis);
            return Err(LowerError::new(format!("an axis of extent {extent} is neither a row nor a lane here")));
        }
        let mut index = &view.offset + &self.index(&view.strides, lanes);
        for gathered in &view.gathers {
            let place = self.place(gathered, here)?;
            let place = self.clamped(place, &gathered.extent).map_err(LowerError::new)?;
            index = &index + &(&place.symbol() * &gathered.stride);
        }
        self.load_ranks(ParamId(view.input as u32), &index, &shape, here)
    }

    /// Loads elements of a parameter; zeros where it is not `here`.
    pub(super) fn load_at(
        &mut self,
        param: ParamId,
        index: Dim,
        shape: &Shape,
        here: Option<Val>,
    ) -> Result<Val, LowerError> {
        let otherwise = here.map(|_| zero(self.params[param.0 as usize].dtype));
        let args: Vec<Val> = here.into_iter().collect();
        let load = InstOp::Load { param, index, shape: shape.clone(), otherwise };
        Ok(self.push(load, &args).map_err(LowerError::new)?[0])
    }

    fn node(&mut self, id: NodeId) -> Result<Vec<Val>, LowerError> {
        let node = self.body.node(id);
        let Op::Prim(prim) = &node.op else { return Err(LowerError::at(id, "a composite was not expanded")) };
        let refuse = || Err(LowerError::at(id, format!("`{}` has no row program", node.op.name())));
        if let Some(pad) = Pad::of(self.body, id).filter(|_| self.axes.pads(id)) {
            return self.pad(id, pad);
        }
        let mut args = Vec::with_capacity(node.operands.len());
        if !matches!(
            prim,
            Prim::MatMul { .. } | Prim::GroupedMatMul { .. } | Prim::Sdpa(_) | Prim::Opaque { .. } | Prim::AllReduce(_)
        ) {
            for &operand in &node.operands {
                args.push(self.value(operand)?);
            }
        }
        if is_layout(&node.op) {
            return self.relabel(id, node, args[0]);
        }
        let op = match prim {
            Prim::Literal(literal) => InstOp::Literal(*literal),
            Prim::SizeOf(dim) => InstOp::Index(dim.clone()),
            Prim::Map(f) => InstOp::Map(*f),
            Prim::Cast { to, round, saturate } => InstOp::Cast { to: *to, round: *round, saturate: *saturate },
            Prim::Bitcast { to } => InstOp::Bitcast(*to),
            Prim::Pack { ways, to } => {
                args[0] = self.full(id, node.operands[0], args[0])?;
                if matches!(self.segment.ty(args[0]).shape, Shape::Group { .. }) {
                    args[0] = self.push_at(id, InstOp::AsRow, &[args[0]])?[0];
                }
                InstOp::Pack { ways: *ways, to: *to }
            }
            Prim::Iota { dtype, axis, .. } => return self.iota(id, node, *dtype, *axis),
            Prim::Reduce { op, nan, .. } if axes_reduced_by(self.axes, id).is_empty() => {
                return self.reduce_one(id, args[0], *op, *nan);
            }
            Prim::Reduce { op, nan, .. } => {
                let make = |over, order| InstOp::Reduce { op: *op, over, nan: *nan, order };
                return self.reduce(id, node, args[0], &make);
            }
            Prim::ArgReduce { .. } if axes_reduced_by(self.axes, id).is_empty() => {
                return self.push_at(id, InstOp::Literal(Literal::Int(DType::I64, 0)), &[]);
            }
            Prim::ArgReduce { op, .. } => return self.arg_reduce(id, node, args[0], *op),
            Prim::TopK { k } => return self.top_k(id, node, args[0], k),
            Prim::Slice { start, step, axis, .. } => {
                args[0] = self.full(id, node.operands[0], args[0])?;
                self.covers_row(id, node.operands[0], *axis)?;
                self.covers_row(id, node.results[0], *axis)?;
                let len = self.body.ty(node.results[0]).shape[*axis].clone();
                InstOp::Slice { start: start.clone(), len, step: *step }
            }
            Prim::Cat { axis } => {
                for (arg, &operand) in args.iter_mut().zip(&node.operands) {
                    *arg = self.joined(id, operand, *arg, *axis)?;
                }
                self.join_of(id, node, *axis)?
            }
            Prim::Gather { .. } => return Err(LowerError::at(id, "a gather from a computed value")),
            Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } => return refuse(),
            Prim::Scatter { .. }
            | Prim::MatMul { .. }
            | Prim::GroupedMatMul { .. }
            | Prim::Sdpa(_)
            | Prim::AllReduce(_)
            | Prim::Opaque { .. } => return refuse(),
        };
        self.push_at(id, op, &args)
    }

    /// The rows of a value, and the filling behind them.
    fn pad(&mut self, id: NodeId, pad: Pad) -> Result<Vec<Val>, LowerError> {
        let x = self.value(pad.value)?;
        let Some(here) = self.before_end(pad.value)? else { return Ok(vec![x]) };
        let fill = self.push_at(id, InstOp::Literal(pad.fill), &[])?[0];
        self.push_at(id, InstOp::Map(ScalarFn::Select), &[here, x, fill])
    }

    /// A layout op on a computed value is free if the lanes keep their order.
    fn relabel(&mut self, id: NodeId, node: &Node, operand: Val) -> Result<Vec<Val>, LowerError> {
        self.space.shape(self.axes, node.results[0]).map_err(|m| LowerError::at(id, m))?;
        Ok(vec![operand])
    }

    fn reduce(
        &mut self,
        id: NodeId,
        node: &Node,
        operand: Val,
        make: &dyn Fn(Over, crate::kernel::Order) -> InstOp,
    ) -> Result<Vec<Val>, LowerError> {
        let over = axes_reduced_by(self.axes, id);
        let operand = self.full(id, node.operands[0], operand)?;
        let lanes: Vec<AxisId> =
            self.axes.flat(node.operands[0]).into_iter().filter(|&a| !self.space.is_row(a)).collect();
        let extent = product(over.iter().map(|&a| self.axes.extent(a)));
        if lanes == over {
            let row = match self.segment.ty(operand).shape {
                Shape::Group { .. } => self.push_at(id, InstOp::AsRow, &[operand])?[0],
                _ => operand,
            };
            return self.reduce_as_int(id, row, make(Over::Row, self.orders.row(&extent)));
        }
        let whole = matches!(self.segment.ty(operand).shape, Shape::Row(_));
        if lanes.ends_with(&over) && whole {
            return self.reduce_as_int(id, operand, make(Over::Group(extent.clone()), self.orders.group(&extent)));
        }
        Err(LowerError::at(id, "a reduction over lanes that are not the last of its row"))
    }

    fn arg_reduce(&mut self, id: NodeId, node: &Node, x: Val, op: ReduceOp) -> Result<Vec<Val>, LowerError> {
        let over = axes_reduced_by(self.axes, id);
        let mut x = self.full(id, node.operands[0], x)?;
        if self.segment.ty(x).dtype == DType::Bool {
            let widen = InstOp::Cast { to: DType::I32, round: Rounding::NearestEven, saturate: false };
            x = self.push_at(id, widen, &[x])?[0];
        }
        let lanes = self.axes.flat(node.operands[0]).into_iter().filter(|&a| !self.space.is_row(a));
        let lane = match (lanes.collect::<Vec<_>>(), &self.segment.ty(x).shape) {
            (lanes, Shape::Group { .. }) if lanes == over => {
                let row = self.push_at(id, InstOp::AsRow, &[x])?;
                self.push_at(id, InstOp::ArgReduce(op), &row)?[1]
            }
            (lanes, _) if lanes == over => self.push_at(id, InstOp::ArgReduce(op), &[x])?[1],
            (lanes, Shape::Row(all)) if lanes.ends_with(&over) => {
                let all = all.clone();
                self.arg_reduce_groups(id, x, op, &all, &product(over.iter().map(|&a| self.axes.extent(a))))?
            }
            _ => return Err(LowerError::at(id, "runs over lanes that are not the last of its row")),
        };
        Ok(vec![self.as_i64(lane).map_err(|m| LowerError::at(id, m))?])
    }

    /// The largest lanes of a row and where they are. One lane is no row, be it all there are or all that are asked for.
    fn top_k(&mut self, id: NodeId, node: &Node, x: Val, k: &Dim) -> Result<Vec<Val>, LowerError> {
        let one = k.as_const() == Some(1);
        if one && axes_reduced_by(self.axes, id).is_empty() {
            let first = self.push_at(id, InstOp::Literal(Literal::Int(DType::I64, 0)), &[])?;
            return Ok(vec![x, first[0]]);
        }
        let row = self.whole_row(id, node, x)?;
        let op = if one { InstOp::ArgReduce(ReduceOp::Max) } else { InstOp::TopK(k.clone()) };
        let found = self.push_at(id, op, &[row])?;
        Ok(vec![found[0], self.as_i64(found[1]).map_err(|m| LowerError::at(id, m))?])
    }

    /// The least lane of each group that holds the group's extreme, or a NaN, counted from the start of the group.
    fn arg_reduce_groups(
        &mut self,
        id: NodeId,
        x: Val,
        op: ReduceOp,
        lanes: &Dim,
        size: &Dim,
    ) -> Result<Val, LowerError> {
        let (over, order) = (Over::Group(size.clone()), self.orders.group(size));
        let extreme = InstOp::Reduce { op, over: over.clone(), nan: NanRule::Propagate, order };
        let extreme = self.push_at(id, extreme, &[x])?[0];
        let mut found = self.push_at(id, InstOp::Map(ScalarFn::Eq), &[x, extreme])?[0];
        if self.segment.ty(x).dtype.is_float() {
            let nan = self.push_at(id, InstOp::Map(ScalarFn::Ne), &[x, x])?[0];
            found = self.push_at(id, InstOp::Map(ScalarFn::Or), &[found, nan])?[0];
        }
        let last = self.push_at(id, InstOp::Literal(Literal::Int(DType::I32, i32::MAX.into())), &[])?[0];
        let lane = self.push_at(id, InstOp::Iota(lanes.clone()), &[])?[0];
        let lane = self.push_at(id, InstOp::Map(ScalarFn::Select), &[found, lane, last])?;
        let first = InstOp::Reduce { op: ReduceOp::Min, over, nan: NanRule::Propagate, order };
        let first = self.push_at(id, first, &lane)?[0];
        let numbers = self.push_at(id, InstOp::Iota(lanes.ceil_div(size)), &[])?;
        let group = InstOp::AsGroup { lanes: lanes.clone(), size: size.clone() };
        let group = self.push_at(id, group, &numbers)?[0];
        let size = self.push_at(id, InstOp::Index(size.clone()), &[])?;
        let to_i32 = InstOp::Cast { to: DType::I32, round: Rounding::NearestEven, saturate: false };
        let size = self.push_at(id, to_i32, &size)?[0];
        let start = self.push_at(id, InstOp::Map(ScalarFn::Mul), &[group, size])?[0];
        Ok(self.push_at(id, InstOp::Map(ScalarFn::Sub), &[first, start])?[0])
    }

    /// A reduction of one element: combined with what the reduction starts from, where that changes a bit.
    fn reduce_one(&mut self, id: NodeId, x: Val, op: ReduceOp, nan: NanRule) -> Result<Vec<Val>, LowerError> {
        let dtype = self.segment.ty(x).dtype;
        let (f, start) = match (op, nan) {
            _ if !dtype.is_float() => return Ok(vec![x]),
            (ReduceOp::Add, _) => (ScalarFn::Add, 0.0),
            (ReduceOp::Max, NanRule::Ignore) => (ScalarFn::MaxNum, f64::NEG_INFINITY),
            (ReduceOp::Min, NanRule::Ignore) => (ScalarFn::MinNum, f64::INFINITY),
            (ReduceOp::Mul, _) | (ReduceOp::Max | ReduceOp::Min, NanRule::Propagate) => return Ok(vec![x]),
        };
        // Formats without infinities start from their largest numbers.
        let held = |saturate| num::round_to(dtype, start, Rounding::NearestEven, saturate);
        let start = if held(false).is_nan() { held(true) } else { held(false) };
        let start = self.push_at(id, InstOp::Literal(Literal::Float(dtype, start)), &[])?;
        self.push_at(id, InstOp::Map(f), &[x, start[0]])
    }

    /// Row programs reduce numbers; booleans go through integers.
    fn reduce_as_int(&mut self, id: NodeId, row: Val, op: InstOp) -> Result<Vec<Val>, LowerError> {
        if self.segment.ty(row).dtype != DType::Bool {
            return self.push_at(id, op, &[row]);
        }
        let widen = InstOp::Cast { to: DType::I32, round: Rounding::NearestEven, saturate: false };
        // The largest of no integers is the least one, which must not count as true.
        let is_true = match op {
            InstOp::Reduce { op: ReduceOp::Max, .. } => ScalarFn::Gt,
            _ => ScalarFn::Ne,
        };
        let wide = self.push_at(id, widen, &[row])?;
        let reduced = self.push_at(id, op, &wide)?;
        let zero = self.push_at(id, InstOp::Literal(Literal::Int(DType::I32, 0)), &[])?;
        self.push_at(id, InstOp::Map(is_true), &[reduced[0], zero[0]])
    }

    fn iota(&mut self, id: NodeId, node: &Node, dtype: DType, axis: usize) -> Result<Vec<Val>, LowerError> {
        let counted = &self.axes.dims(node.results[0])[axis];
        let by_row = counted.iter().all(|&a| self.space.is_row(a));
        let value = if by_row {
            let extents: Vec<Dim> = counted.iter().map(|&a| self.axes.extent(a).clone()).collect();
            let strides: Vec<_> = counted.iter().copied().zip(contiguous_strides(&extents)).collect();
            self.push_at(id, InstOp::Index(self.index(&strides, &[])), &[])?[0]
        } else {
            let row = counted.first().map_or(&[][..], |&a| self.space.row_of(a));
            if row != counted {
                return Err(LowerError::at(id, "counts part of the lanes"));
            }
            let lanes = product(row.iter().map(|&a| self.axes.extent(a)));
            self.push_at(id, InstOp::Iota(lanes), &[])?[0]
        };
        if self.segment.ty(value).dtype == dtype {
            return Ok(vec![value]);
        }
        self.push_at(id, InstOp::Cast { to: dtype, round: Rounding::NearestEven, saturate: false }, &[value])
    }

    /// The value spread over all lanes that its graph type has.
    fn full(&mut self, id: NodeId, value: Value, val: Val) -> Result<Val, LowerError> {
        let shape = self.space.shape(self.axes, value).map_err(|m| LowerError::at(id, m))?;
        self.spread(val, &shape).map_err(|m| LowerError::at(id, m))
    }

    fn spread(&mut self, val: Val, shape: &Shape) -> Result<Val, String> {
        if self.segment.ty(val).shape == *shape {
            return Ok(val);
        }
        Ok(self.push(InstOp::Broadcast(shape.clone()), &[val])?[0])
    }

    fn whole_row(&mut self, id: NodeId, node: &Node, val: Val) -> Result<Val, LowerError> {
        let val = self.full(id, node.operands[0], val)?;
        let lanes = self.axes.flat(node.operands[0]).into_iter().filter(|&a| !self.space.is_row(a));
        if !lanes.eq(axes_reduced_by(self.axes, id)) {
            return Err(LowerError::at(id, "runs over part of the lanes"));
        }
        if matches!(self.segment.ty(val).shape, Shape::Group { .. }) {
            return Ok(self.push_at(id, InstOp::AsRow, &[val])?[0]);
        }
        Ok(val)
    }

    /// An operand of a concatenation as lanes; an extent of 1 is no axis, yet one lane here, or a row of a stack.
    fn joined(&mut self, id: NodeId, value: Value, val: Val, axis: usize) -> Result<Val, LowerError> {
        let val = self.full(id, value, val)?;
        if self.axes.dims(value)[axis].is_empty() {
            return match self.segment.ty(val).shape {
                Shape::Scalar => self.spread(val, &Shape::Row(Dim::constant(1))).map_err(|m| LowerError::at(id, m)),
                Shape::Row(_) => Ok(val),
                Shape::Group { .. } => Ok(self.push_at(id, InstOp::AsRow, &[val])?[0]),
            };
        }
        self.covers_row(id, value, axis)?;
        Ok(val)
    }

    /// How the lanes of a concatenation follow each other: those of a stack take turns where its axis is the innermost.
    fn join_of(&self, id: NodeId, node: &Node, axis: usize) -> Result<InstOp, LowerError> {
        let dim = &self.axes.dims(node.results[0])[axis];
        let row = dim.first().map_or(&[][..], |&a| self.space.row_of(a));
        let stack = node.operands.iter().all(|&v| self.axes.dims(v)[axis].is_empty());
        if stack && row.len() > dim.len() {
            return Ok(if row.ends_with(dim) { InstOp::Zip } else { InstOp::Cat });
        }
        self.covers_row(id, node.results[0], axis)?;
        Ok(InstOp::Cat)
    }

    /// Checks that the dim that a slice or concatenation changes is all the lanes of a value.
    fn covers_row(&self, id: NodeId, value: Value, axis: usize) -> Result<(), LowerError> {
        let dim = &self.axes.dims(value)[axis];
        let row = dim.first().map_or(&[][..], |&a| self.space.row_of(a));
        if dim != row || dim.is_empty() {
            return Err(LowerError::at(id, "cuts part of the lanes"));
        }
        Ok(())
    }

    /// An integer as one of 64 bits: of equal ones the same value.
    pub(super) fn as_i64(&mut self, integer: Val) -> Result<Val, String> {
        if self.segment.ty(integer).dtype == DType::I64 {
            return Ok(integer);
        }
        let op = InstOp::Cast { to: DType::I64, round: Rounding::NearestEven, saturate: false };
        Ok(self.push(op, &[integer])?[0])
    }

    pub(super) fn push_at(&mut self, id: NodeId, op: InstOp, args: &[Val]) -> Result<Vec<Val>, LowerError> {
        self.push(op, args).map_err(|m| LowerError::at(id, m))
    }

    pub(super) fn push(&mut self, op: InstOp, args: &[Val]) -> Result<Vec<Val>, String> {
        self.segment.push(op, args).map_err(|e| e.to_string())
    }
}

/// What rows that are padding load.
fn zero(dtype: DType) -> Literal {
    if dtype.is_float() { Literal::Float(dtype, num::decode(dtype, 0)) } else { Literal::Int(dtype, 0) }
}

fn axes_reduced_by(axes: &AxisMap, id: NodeId) -> Vec<AxisId> {
    axes.reduced().find(|(node, _)| *node == id).map(|(_, over)| over).unwrap_or_default()
}
