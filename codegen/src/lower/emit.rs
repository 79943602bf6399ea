//! Emission of one segment: instructions on demand, from the outputs backwards.

use std::collections::{BTreeMap, BTreeSet};

use fusewright_fusion::region::{Piece, RowForm, Stored};
use fusewright_graph::axes::{AxisId, AxisMap, Strides};
use fusewright_graph::dim::product;
use fusewright_graph::padding::Pad;
use fusewright_graph::{DType, Def, Dim, Graph, Literal, Node, NodeId, Op, Prim, Rounding, ScalarFn, Value, num};

use super::space::{linear, strides};
use super::{LowerError, Orders, Space, View};
use crate::kernel::{INNER, InstOp, LANE, Param, ParamId, ROW, Segment, SegmentBuilder, Shape, Val};

pub(super) struct Emitter<'a> {
    form: &'a RowForm,
    pub(super) body: &'a Graph,
    pub(super) axes: &'a AxisMap,
    pub(super) views: &'a [Option<View>],
    pub(super) space: &'a Space,
    params: &'a [Param],
    pub(super) orders: &'a dyn Orders,
    pub(super) segment: SegmentBuilder<'a>,
    inner: Vec<AxisId>,
    done: BTreeMap<Value, Val>,
    /// Whether this row is before an end: the axes that are counted, the end, and the value that says so.
    pub(super) ends: Vec<(Vec<AxisId>, Dim, Val)>,
    /// Indices and what they are below, with the same moved into range.
    pub(super) clamped: Vec<(Val, Dim, Val)>,
}

/// A count as part of a name.
fn word(count: &Dim) -> String {
    let letter = |c: char| match c {
        '*' => Some('x'),
        c if c.is_ascii_alphanumeric() => Some(c),
        ' ' => None,
        _ => Some('_'),
    };
    count.to_string().chars().filter_map(letter).collect()
}

impl<'a> Emitter<'a> {
    pub fn new(
        form: &'a RowForm,
        axes: &'a AxisMap,
        views: &'a [Option<View>],
        space: &'a Space,
        params: &'a [Param],
        orders: &'a dyn Orders,
    ) -> Self {
        let segment = SegmentBuilder::new("main", Dim::constant(1), params);
        Emitter {
            form,
            body: &form.body,
            axes,
            views,
            space,
            params,
            orders,
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
        let name = if inner.is_empty() { "rows".to_owned() } else { format!("inner{}", word(&count)) };
        self.segment = SegmentBuilder::new(&name, count, self.params);
        let outputs = self.body.outputs().iter().zip(&self.form.pieces);
        let stored = outputs.map(|(o, piece)| (piece, o.value, Stored::of(self.body, o.value)));
        let own: Vec<(&Piece, Value, Stored)> = stored.filter(|(_, _, s)| self.is_own(s.value)).collect();
        let places = own.iter().filter_map(|(_, _, s)| Some(self.body.node(s.scatter?.node).operands[1]));
        // In node order, so that long chains do not recurse.
        for id in self.needed(own.iter().map(|(_, _, s)| s.value).chain(places)) {
            for &result in &self.body.node(id).results {
                self.value(result)?;
            }
        }
        for (piece, output, stored) in own {
            self.store(piece, output, stored)?;
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

    fn store(&mut self, piece: &Piece, output: Value, Stored { value, scatter }: Stored) -> Result<(), LowerError> {
        let first_output = self.params.len() - self.form.output_count();
        let param = ParamId((first_output + piece.output) as u32);
        let lanes = self.lanes_of(value);
        let stored = self.stretched(value, &lanes)?;
        let strides = strides(self.axes, output, piece);
        let (offset, chosen) = scatter.map(|s| self.chosen(s, &strides)).transpose()?.unzip();
        let here = match (self.before_end(value)?, chosen) {
            (Some(a), Some(b)) => Some(self.push(InstOp::Map(ScalarFn::And), &[a, b]).map_err(LowerError::new)?[0]),
            (a, b) => a.or(b),
        };
        let mut index = &piece.offset + &self.index(&strides, &lanes);
        if let Some(offset) = &offset {
            index = &index + offset;
        }
        let args: Vec<Val> = [stored].into_iter().chain(here).collect();
        self.push(InstOp::Store { param, index, otherwise: None }, &args).map_err(LowerError::new)?;
        Ok(())
    }

    /// The index of an access with the given stride per axis, whose lane counter runs over `lanes`.
    pub(super) fn index(&self, strides: &Strides, lanes: &[AxisId]) -> Dim {
        let walked = |run: &[AxisId]| strides.walked(self.axes, run);
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
            let made = *values.get(result).ok_or_else(|| wrap("no such result".into()))?;
            let shape = self.space.shape(self.axes, self.space.lanes().held(value));
            self.shaped(made, &shape).map_err(wrap)?
        };
        self.done.insert(value, result);
        Ok(result)
    }

    fn load(&mut self, view: &View, value: Value) -> Result<Val, LowerError> {
        let lanes = self.lanes_of(value);
        let shape = self.space.shape(self.axes, &lanes);
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
            index = &index + &linear(&place.symbol(), &gathered.walked);
        }
        let param = ParamId(self.form.inputs[view.input] as u32);
        let otherwise = here.map(|_| zero(self.params[param.0 as usize].dtype));
        let args: Vec<Val> = here.into_iter().collect();
        Ok(self.push(InstOp::Load { param, index, shape, otherwise }, &args).map_err(LowerError::new)?[0])
    }

    fn node(&mut self, id: NodeId) -> Result<Vec<Val>, LowerError> {
        let node = self.body.node(id);
        let Op::Prim(prim) = &node.op else { return Err(LowerError::at(id, "a composite was not expanded")) };
        let refuse = || Err(LowerError::at(id, format!("`{}` has no row program", node.op.name())));
        if let Some(pad) = Pad::of(self.body, id).filter(|_| self.axes.pads(id)) {
            return self.pad(id, pad);
        }
        let op = match prim {
            Prim::Literal(literal) => InstOp::Literal(*literal),
            Prim::SizeOf(dim) => InstOp::Index(dim.clone()),
            Prim::Map(f) => return self.map(id, node, *f),
            Prim::Cast { to, round, saturate } => InstOp::Cast { to: *to, round: *round, saturate: *saturate },
            Prim::Bitcast { to, nan } => return self.bitcast(id, node, *to, *nan),
            Prim::Iota { dtype, axis, .. } => return self.iota(id, node, *dtype, *axis),
            Prim::Reduce { op, nan, .. } => return self.reduce(id, node, *op, *nan),
            Prim::ArgReduce { op, .. } => return self.arg_reduce(id, node, *op),
            Prim::TopK { k } => return self.top_k(id, node, k),
            // Free where the lanes keep their order.
            Prim::Reshape { .. } | Prim::Permute { .. } | Prim::Expand { .. } => {
                return self.relabel(id, node).map(|value| vec![value]);
            }
            Prim::Pack { ways, to } => {
                let row = self.row(id, node.operands[0])?;
                return self.push_at(id, InstOp::Pack { ways: *ways, to: *to }, &[row]);
            }
            Prim::Slice { start, step, axis, .. } => {
                return self.slice(id, node, *axis, start, *step);
            }
            Prim::Cat { axis } => return self.cat(id, node, *axis),
            Prim::Gather { .. } => return Err(LowerError::at(id, "a gather from a computed value")),
            Prim::Scatter { .. }
            | Prim::ScatterReduce { .. }
            | Prim::MatMul { .. }
            | Prim::GroupedMatMul { .. }
            | Prim::Sdpa(_)
            | Prim::AllReduce(_)
            | Prim::Opaque { .. } => return refuse(),
        };
        let mut args = Vec::with_capacity(node.operands.len());
        for &operand in &node.operands {
            args.push(self.value(operand)?);
        }
        self.push_at(id, op, &args)
    }

    /// The rows of a value, and the filling behind them.
    fn pad(&mut self, id: NodeId, pad: Pad) -> Result<Vec<Val>, LowerError> {
        let x = self.value(pad.value)?;
        let Some(here) = self.before_end(pad.value)? else { return Ok(vec![x]) };
        let fill = self.push_at(id, InstOp::Literal(pad.fill), &[])?[0];
        self.push_at(id, InstOp::Map(ScalarFn::Select), &[here, x, fill])
    }

    fn iota(&mut self, id: NodeId, node: &Node, dtype: DType, axis: usize) -> Result<Vec<Val>, LowerError> {
        let counted = self.axes.dims(node.results[0]).swap_remove(axis);
        let by_row = counted.iter().all(|&a| self.space.is_row(a));
        let value = if by_row {
            let place = self.index(&Strides::of(self.axes, [(&counted[..], &Dim::constant(1))]), &[]);
            self.push_at(id, InstOp::Index(place), &[])?[0]
        } else {
            if counted.iter().any(|&a| self.space.is_row(a)) {
                return Err(LowerError::at(id, "counts lanes and rows"));
            }
            let lanes = product(counted.iter().map(|&a| self.axes.extent(a)));
            self.push_at(id, InstOp::Iota(lanes), &[])?[0]
        };
        if self.segment.ty(value).dtype == dtype {
            return Ok(vec![value]);
        }
        self.push_at(id, InstOp::Cast { to: dtype, round: Rounding::NearestEven, saturate: false }, &[value])
    }

    /// An integer as one of 64 bits, the nearest there is: of equal ones the same value.
    pub(super) fn as_i64(&mut self, mut integer: Val) -> Result<Val, String> {
        match self.segment.ty(integer).dtype {
            DType::I64 => return Ok(integer),
            DType::U64 => {
                let most = self.push(InstOp::Literal(Literal::Int(DType::U64, i64::MAX)), &[])?[0];
                integer = self.push(InstOp::Map(ScalarFn::Min), &[integer, most])?[0];
            }
            _ => {}
        }
        let op = InstOp::Cast { to: DType::I64, round: Rounding::NearestEven, saturate: false };
        Ok(self.push(op, &[integer])?[0])
    }

    pub(super) fn push_at(&mut self, id: NodeId, op: InstOp, args: &[Val]) -> Result<Vec<Val>, LowerError> {
        self.push(op, args).map_err(|m| LowerError::at(id, m))
    }

    pub(super) fn push(&mut self, op: InstOp, args: &[Val]) -> Result<Vec<Val>, String> {
        if let Some(results) = self.repeated(&op, args)? {
            return Ok(results);
        }
        self.segment.push(op, args).map_err(|e| e.to_string())
    }
}

/// What rows that are padding load.
fn zero(dtype: DType) -> Literal {
    if dtype.is_float() { Literal::Float(dtype, num::decode(dtype, 0)) } else { Literal::Int(dtype, 0) }
}
