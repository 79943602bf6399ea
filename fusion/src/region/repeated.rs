//! Reductions of rows that other rows of a kernel repeat.
//!
//! A kernel computes a row from its inputs. Where its outputs have an axis that a reduction below them lacks, every row along
//! that axis reduces the same elements again, unless all inner rows of an outer one do: these share it.

use std::collections::BTreeMap;

use fusewright_graph::axes::{AxisId, AxisMap};
use fusewright_graph::{Graph, Node, NodeId, Op, Prim, Value};

use super::cost::UNKNOWN;
use super::{Lanes, Space, Stored};

/// Gives how often one kernel computes what its reductions take, averaged over all that it computes.
pub(super) fn times_reduced(body: &Graph, space: &Space) -> f64 {
    let body = space.form.as_ref().map_or(body, |form| &form.body);
    let is_reduction =
        |node: &Node| matches!(node.op, Op::Prim(Prim::Reduce { .. } | Prim::TopK { .. } | Prim::ArgReduce { .. }));
    if !body.nodes().iter().any(is_reduction) {
        return 1.0;
    }
    let rows = Rows { axes: &space.axes, lanes: &space.lanes };
    let outputs: Vec<Value> = body.outputs().iter().map(|output| Stored::of(body, output.value).value).collect();
    let outer = rows.outer(body, &outputs);
    let over: BTreeMap<NodeId, Vec<AxisId>> = space.axes.reduced().collect();
    // By value, for how many rows it is asked, and whether a reduction asks.
    let mut asked = vec![(0.0_f64, false); body.value_count()];
    for &output in &outputs {
        asked[output.0 as usize].0 = rows.count(&rows.of(output));
    }
    let (mut all, mut once) = (0.0, 0.0);
    for id in body.node_ids().rev() {
        let node = body.node(id);
        let results = node.results.iter().map(|v| asked[v.0 as usize]);
        let (mut times, below) = results.fold((0.0_f64, false), |(a, b), (times, below)| (a.max(times), b | below));
        let Some(&first) = node.results.first().filter(|v| times > 0.0 && !space.lanes.is_view(**v)) else { continue };
        let own = rows.of(first);
        if own.iter().all(|axis| outer.contains(axis)) {
            times = times.min(rows.count(&outer));
        }
        let reduces = is_reduction(node);
        let each = match over.get(&id) {
            Some(_) if reduces => rows.count(&space.lanes.of_value(&space.axes, node.operands[0])),
            _ if super::is_layout(&node.op) || super::is_constant(&node.op) => 0.0,
            _ => rows.count(space.lanes.held(first)),
        };
        all += times * each;
        once += if below || reduces { rows.count(&own) * each } else { times * each };
        for operand in &node.operands {
            let known = &mut asked[operand.0 as usize];
            *known = (known.0.max(times), known.1 | below | reduces);
        }
    }
    if once > 0.0 { all / once } else { 1.0 }
}

/// The rows of a body's values.
struct Rows<'a> {
    axes: &'a AxisMap,
    lanes: &'a Lanes,
}

impl Rows<'_> {
    fn of(&self, value: Value) -> Vec<AxisId> {
        self.axes.flat(value).into_iter().filter(|axis| !self.lanes.is_lane(*axis)).collect()
    }

    fn count(&self, axes: &[AxisId]) -> f64 {
        axes.iter().map(|axis| self.axes.extent(*axis).as_const().map_or(UNKNOWN, |n| n as f64)).product()
    }

    /// The outer rows, about as lowering divides them: those that all outputs and all reads of inputs have. All others are inner.
    fn outer(&self, body: &Graph, outputs: &[Value]) -> Vec<AxisId> {
        let of_outputs: Vec<Vec<AxisId>> = outputs.iter().map(|output| self.of(*output)).collect();
        let mut outer = of_outputs.first().cloned().unwrap_or_default();
        outer.retain(|axis| of_outputs.iter().all(|rows| rows.contains(axis)));
        for view in (0..body.value_count() as u32).map(Value).filter(|value| self.lanes.is_view(*value)) {
            let rows = self.of(view);
            let (kept, other): (Vec<AxisId>, Vec<AxisId>) = outer.iter().partition(|axis| rows.contains(axis));
            if !kept.is_empty() && other.iter().all(|axis| self.axes.extent(*axis).as_const().is_some()) {
                outer = kept;
            }
        }
        // Axes that do not lie beside each other are walked one by one: the first of them counts rows.
        let together = |rows: &Vec<AxisId>| rows.windows(outer.len()).any(|window| window == outer);
        if outer.len() > 1 && !of_outputs.iter().all(together) {
            let symbolic = outer.iter().copied().find(|axis| self.axes.extent(*axis).as_const().is_none());
            outer = vec![symbolic.unwrap_or(outer[0])];
        }
        outer
    }
}
