//! Reductions, searches and selections over lanes.

use std::collections::BTreeMap;

use fusewright_graph::axes::AxisId;
use fusewright_graph::{DType, Dim, Literal, NanRule, Node, NodeId, ReduceOp, Rounding, ScalarFn, num};

use super::LowerError;
use super::emit::Emitter;
use super::run::Run;
use crate::kernel::{InstOp, Order, Over, Shape, Tree, Val};

/// Searches of groups that find more than this are reductions, one after the other: what one instruction finds lies on a stack.
const MOST_FOUND: i64 = 1024;

/// A small integer, or a truth value, as lanes are counted.
const WIDEN: InstOp = InstOp::Cast { to: DType::I32, round: Rounding::NearestEven, saturate: false };

impl Emitter<'_> {
    pub(super) fn reduce(
        &mut self,
        id: NodeId,
        node: &Node,
        op: ReduceOp,
        nan: NanRule,
    ) -> Result<Vec<Val>, LowerError> {
        let over = self.reduced_by(id);
        if over.is_empty() {
            let one = self.value(node.operands[0])?;
            return self.reduce_one(id, one, op, nan);
        }
        let lanes = self.lanes_of(node.operands[0]);
        let row = self.row(id, node.operands[0])?;
        if self.segment.ty(row).dtype != DType::Bool {
            return self.reduce_lanes(id, row, &lanes, &over, op, nan);
        }
        // Row programs reduce numbers; booleans go through integers.
        let wide = self.widened(id, row)?;
        let reduced = self.reduce_lanes(id, wide, &lanes, &over, op, nan)?;
        // The largest of no integers is the least one, which must not count as true.
        let is_true = if op == ReduceOp::Max { ScalarFn::Gt } else { ScalarFn::Ne };
        let zero = self.push_at(id, InstOp::Literal(Literal::Int(DType::I32, 0)), &[])?;
        self.push_at(id, InstOp::Map(is_true), &[reduced[0], zero[0]])
    }

    fn reduce_lanes(
        &mut self,
        id: NodeId,
        row: Val,
        lanes: &[AxisId],
        over: &[AxisId],
        op: ReduceOp,
        nan: NanRule,
    ) -> Result<Vec<Val>, LowerError> {
        let extent = self.count(over);
        if lanes == over {
            let order = self.orders.row(&extent);
            return self.push_at(id, InstOp::Reduce { op, over: Over::Row, nan, order }, &[row]);
        }
        if lanes.ends_with(over) {
            let order = self.orders.group(&extent);
            return self.push_at(id, InstOp::Reduce { op, over: Over::Group(extent), nan, order }, &[row]);
        }
        match extent.as_const() {
            Some(count) if lanes.starts_with(over) => {
                self.reduce_first(id, row, count, &self.count(&lanes[over.len()..]), op, nan)
            }
            _ => Err(LowerError::at(id, "a reduction over lanes that are neither the first nor the last of its row")),
        }
    }

    /// A reduction over the leading lanes: rows of the others, combined as the lanes of one row would be.
    fn reduce_first(
        &mut self,
        id: NodeId,
        row: Val,
        count: i64,
        len: &Dim,
        op: ReduceOp,
        nan: NanRule,
    ) -> Result<Vec<Val>, LowerError> {
        let tree = match self.orders.row(&Dim::constant(count)) {
            Order::Tree(tree) => tree,
            Order::Relaxed => Tree::interleaved(1),
        };
        let start = self.push_at(id, InstOp::Literal(op.start(self.segment.ty(row).dtype)), &[])?[0];
        let mut sums: BTreeMap<usize, Val> = BTreeMap::new();
        for i in 0..count {
            let part = self.run(row, &mut Run::new(i, len)).map_err(|m| LowerError::at(id, m))?;
            let into = tree.accumulator(i as usize);
            // What starts one of them starts them all: it ends where it would have come to several times.
            let sum = match sums.get(&into).or((into == 0).then_some(&start)) {
                Some(&sum) => self.push_at(id, InstOp::Map(op.step(nan)), &[sum, part])?[0],
                None => part,
            };
            sums.insert(into, sum);
        }
        for (into, from) in tree.combine_steps() {
            let Some(other) = sums.remove(&from) else { continue };
            let sum = match sums.get(&into) {
                Some(&sum) => self.push_at(id, InstOp::Map(op.step(nan)), &[sum, other])?[0],
                None => other,
            };
            sums.insert(into, sum);
        }
        match sums.remove(&0) {
            Some(sum) => Ok(vec![sum]),
            None => self.push_at(id, InstOp::Broadcast(Shape::Row(len.clone())), &[start]),
        }
    }

    pub(super) fn arg_reduce(&mut self, id: NodeId, node: &Node, op: ReduceOp) -> Result<Vec<Val>, LowerError> {
        let over = self.reduced_by(id);
        if over.is_empty() {
            return self.push_at(id, InstOp::Literal(Literal::Int(DType::I64, 0)), &[]);
        }
        let lanes = self.lanes_of(node.operands[0]);
        let mut row = self.row(id, node.operands[0])?;
        if self.segment.ty(row).dtype == DType::Bool {
            row = self.widened(id, row)?;
        }
        let lane = if lanes == over {
            self.push_at(id, InstOp::ArgReduce(op), &[row])?[1]
        } else if lanes.ends_with(&over) {
            let groups = Groups { lanes: self.count(&lanes), size: self.count(&over) };
            let found = self.extreme(id, row, op, &groups, None)?;
            self.inside(found, &groups).map_err(|m| LowerError::at(id, m))?
        } else {
            return Err(LowerError::at(id, "runs over lanes that are not the last of its row"));
        };
        Ok(vec![self.as_i64(lane).map_err(|m| LowerError::at(id, m))?])
    }

    /// The largest lanes of a row, or of each group of its lanes, and where they are. One lane is no row, be it all there
    /// are or all that are asked for.
    pub(super) fn top_k(&mut self, id: NodeId, node: &Node, k: &Dim) -> Result<Vec<Val>, LowerError> {
        let over = self.reduced_by(id);
        if over.is_empty() {
            let value = self.value(node.operands[0])?;
            let first = self.push_at(id, InstOp::Literal(Literal::Int(DType::I64, 0)), &[])?;
            return Ok(vec![value, first[0]]);
        }
        let lanes = self.lanes_of(node.operands[0]);
        let mut row = self.row(id, node.operands[0])?;
        let is_bool = self.segment.ty(row).dtype == DType::Bool;
        if is_bool {
            row = self.widened(id, row)?;
        }
        let mut found = if lanes == over {
            let op = if k.as_const() == Some(1) {
                InstOp::ArgReduce(ReduceOp::Max)
            } else {
                InstOp::TopK { k: k.clone(), over: Over::Row }
            };
            let found = self.push_at(id, op, &[row])?;
            vec![found[0], self.as_i64(found[1]).map_err(|m| LowerError::at(id, m))?]
        } else if let Some(k) = k.as_const().filter(|_| lanes.ends_with(&over)) {
            let groups = Groups { lanes: self.count(&lanes), size: self.count(&over) };
            self.top_k_groups(id, row, k, &groups)?
        } else {
            return Err(LowerError::at(id, "runs over lanes that are not the last of its row"));
        };
        if is_bool {
            let narrow = InstOp::Cast { to: DType::Bool, round: Rounding::NearestEven, saturate: false };
            found[0] = self.push_at(id, narrow, &found[..1])?[0];
        }
        Ok(found)
    }

    /// The largest lanes of each group. Where no instruction finds them, each is searched among those that are left.
    fn top_k_groups(&mut self, id: NodeId, row: Val, k: i64, groups: &Groups) -> Result<Vec<Val>, LowerError> {
        let found = groups.lanes.as_const().zip(groups.size.as_const()).map(|(lanes, size)| lanes / size.max(1) * k);
        if self.orders.searches_groups() && found.is_some_and(|found| (1..=MOST_FOUND).contains(&found)) {
            let op = InstOp::TopK { k: Dim::constant(k), over: Over::Group(groups.size.clone()) };
            let found = self.push_at(id, op, &[row])?;
            return Ok(vec![found[0], self.as_i64(found[1]).map_err(|m| LowerError::at(id, m))?]);
        }
        let dtype = self.segment.ty(row).dtype;
        let least = self.push_at(id, InstOp::Literal(ReduceOp::Max.start(dtype)), &[])?[0];
        let lanes = self.push_at(id, InstOp::Iota(groups.lanes.clone()), &[])?[0];
        let (mut left, mut values, mut places) = (None, Vec::new(), Vec::new());
        for _ in 0..k {
            let found = self.extreme(id, row, ReduceOp::Max, groups, left)?;
            let here = self.push_at(id, InstOp::Map(ScalarFn::Eq), &[lanes, found])?[0];
            let alone = self.push_at(id, InstOp::Map(ScalarFn::Select), &[here, row, least])?[0];
            let value = self.reduced(id, alone, ReduceOp::Max, groups)?;
            let place = self.inside(found, groups).map_err(|m| LowerError::at(id, m))?;
            for (column, element) in [(&mut values, value), (&mut places, place)] {
                column.push(self.push_at(id, InstOp::AsRow, &[element])?[0]);
            }
            let others = self.push_at(id, InstOp::Map(ScalarFn::Ne), &[lanes, found])?[0];
            left = Some(match left {
                Some(left) => self.push_at(id, InstOp::Map(ScalarFn::And), &[left, others])?[0],
                None => others,
            });
        }
        let [values, places] = [values, places].map(|column| self.push_at(id, InstOp::Zip, &column));
        Ok(vec![values?[0], self.as_i64(places?[0]).map_err(|m| LowerError::at(id, m))?])
    }

    fn reduced(&mut self, id: NodeId, row: Val, op: ReduceOp, groups: &Groups) -> Result<Val, LowerError> {
        let (over, order) = (Over::Group(groups.size.clone()), self.orders.group(&groups.size));
        Ok(self.push_at(id, InstOp::Reduce { op, over, nan: NanRule::Propagate, order }, &[row])?[0])
    }

    /// The least lane of each group that holds the group's extreme, or a NaN, among the lanes that are left.
    fn extreme(
        &mut self,
        id: NodeId,
        row: Val,
        op: ReduceOp,
        groups: &Groups,
        left: Option<Val>,
    ) -> Result<Val, LowerError> {
        let dtype = self.segment.ty(row).dtype;
        let mut among = row;
        if let Some(left) = left {
            let start = self.push_at(id, InstOp::Literal(op.start(dtype)), &[])?[0];
            among = self.push_at(id, InstOp::Map(ScalarFn::Select), &[left, row, start])?[0];
        }
        let extreme = self.reduced(id, among, op, groups)?;
        let mut found = self.push_at(id, InstOp::Map(ScalarFn::Eq), &[among, extreme])?[0];
        if dtype.is_float() {
            let nan = self.push_at(id, InstOp::Map(ScalarFn::Ne), &[among, among])?[0];
            found = self.push_at(id, InstOp::Map(ScalarFn::Or), &[found, nan])?[0];
        }
        if let Some(left) = left {
            found = self.push_at(id, InstOp::Map(ScalarFn::And), &[found, left])?[0];
        }
        let last = self.push_at(id, InstOp::Literal(Literal::Int(DType::I32, i32::MAX.into())), &[])?[0];
        let lane = self.push_at(id, InstOp::Iota(groups.lanes.clone()), &[])?[0];
        let lane = self.push_at(id, InstOp::Map(ScalarFn::Select), &[found, lane, last])?[0];
        self.reduced(id, lane, ReduceOp::Min, groups)
    }

    /// Lanes counted from the start of their groups.
    pub(super) fn inside(&mut self, lane: Val, groups: &Groups) -> Result<Val, String> {
        let numbers = self.push(InstOp::Iota(groups.lanes.ceil_div(&groups.size)), &[])?;
        let group = InstOp::AsGroup { lanes: groups.lanes.clone(), size: groups.size.clone() };
        let group = self.push(group, &numbers)?[0];
        let size = self.push(InstOp::Index(groups.size.clone()), &[])?[0];
        let size = self.push(WIDEN, &[size])?[0];
        let start = self.push(InstOp::Map(ScalarFn::Mul), &[group, size])?[0];
        Ok(self.push(InstOp::Map(ScalarFn::Sub), &[lane, start])?[0])
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

    /// A boolean or an integer as i32.
    fn widened(&mut self, id: NodeId, value: Val) -> Result<Val, LowerError> {
        Ok(self.push_at(id, WIDEN, &[value])?[0])
    }

    fn reduced_by(&self, id: NodeId) -> Vec<AxisId> {
        self.axes.reduced().find(|(node, _)| *node == id).map(|(_, over)| over).unwrap_or_default()
    }
}

/// Groups of lanes of a row.
pub(super) struct Groups {
    pub lanes: Dim,
    pub size: Dim,
}
