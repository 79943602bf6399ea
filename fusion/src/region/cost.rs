//! Work that one kernel does again and again, where one kernel per op would store its result.
//!
//! A sum over some lanes that all of them read is at hand in the loop over these lanes. Read anywhere else (at other lanes,
//! or in a loop over lanes of another kind) it is kept, or summed again for every lane that reads it, and so are the sums
//! below it: sums over columns and over rows in turn multiply with every turn, in time and in code. What a target's kernels
//! keep is data ([`Keeps`]).

use std::collections::BTreeMap;

use fusewright_graph::axes::{AxisId, AxisMap};
use fusewright_graph::{DType, Graph, Node, NodeId, Op, Prim, ScalarFn, Value};

use super::repeated::times_reduced;
use super::{Lanes, Limits, Space, Spread, Stored, spread};

/// Kernels of a target keep rows within these limits, and compute all others again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keeps {
    /// Most bytes of a row that is read at other lanes than those of the loop that computes it.
    pub row: u32,
    /// Most bytes of all such rows.
    pub rows: u32,
    /// The reduction of every group is kept if this is set.
    pub groups: bool,
}

impl Keeps {
    /// A kernel whose loops keep rows on the stack, and no groups by themselves.
    pub const STACK: Keeps = Keeps { row: 16 << 10, rows: 64 << 10, groups: false };
}

/// Lanes that a row of unknown length is taken to have.
pub(super) const UNKNOWN: f64 = 4096.0;

/// Says whether one kernel computes more again than the limits of regions allow.
pub(super) fn is_too_costly(body: &Graph, space: &Space, limits: &Limits) -> bool {
    times_computed(body, space, limits.keeps) > f64::from(limits.again)
        || times_reduced(body, space) > f64::from(limits.reduced)
}

/// Gives how often one kernel computes an element of a body on average.
fn times_computed(body: &Graph, space: &Space, keeps: Keeps) -> f64 {
    let body = space.form.as_ref().map_or(body, |form| &form.body);
    let wide = Lanes::beside_reductions(body, &space.axes);
    let lanes = wide.as_ref().unwrap_or(&space.lanes);
    let over: BTreeMap<NodeId, Vec<AxisId>> = space.axes.reduced().collect();
    let mut work = Work {
        body,
        axes: &space.axes,
        lanes,
        keeps,
        room: u64::from(keeps.rows),
        sums: sums(body, lanes, &space.axes, &over),
        over,
        read: vec![Read::default(); body.value_count()],
        all: 0.0,
        once: 0.0,
    };
    if !work.sums.contains(&true) {
        return 1.0;
    }
    for output in body.outputs() {
        work.reads(Stored::of(body, output.value).value, Read { times: 1.0, moved: false, turn: None });
    }
    body.node_ids().rev().for_each(|id| work.node(id));
    if work.once > 0.0 { work.all / work.once } else { 1.0 }
}

/// By value, whether it is a sum of some lanes of a row, or a function of one and of what has no more lanes.
fn sums(body: &Graph, lanes: &Lanes, axes: &AxisMap, over: &BTreeMap<NodeId, Vec<AxisId>>) -> Vec<bool> {
    let mut sums = vec![false; body.value_count()];
    for id in body.node_ids() {
        let node = body.node(id);
        let is_sum = match &node.op {
            Op::Prim(Prim::Reduce { .. }) => {
                let all = lanes.of_value(axes, node.operands[0]);
                over.get(&id).is_some_and(|over| !over.is_empty() && *over != all)
            }
            _ => node.results.iter().any(|&result| {
                let held = lanes.held(result);
                node.operands.iter().any(|v| sums[v.0 as usize] && lanes.held(*v) == held)
            }),
        };
        node.results.iter().for_each(|v| sums[v.0 as usize] = is_sum);
    }
    sums
}

/// The lanes of a row, and those of them along which its sums differ.
type Turn = (Vec<AxisId>, Vec<AxisId>);

/// The readers of a value ask for it in this way.
#[derive(Clone, Debug, Default)]
struct Read {
    /// Each of its elements is computed so often.
    times: f64,
    /// It is read at other lanes than those of the loop if this is set.
    moved: bool,
    /// The sums that the loop has at hand.
    turn: Option<Turn>,
}

struct Work<'b> {
    body: &'b Graph,
    axes: &'b AxisMap,
    lanes: &'b Lanes,
    keeps: Keeps,
    room: u64,
    sums: Vec<bool>,
    /// Each reduction runs over these axes.
    over: BTreeMap<NodeId, Vec<AxisId>>,
    read: Vec<Read>,
    all: f64,
    once: f64,
}

impl Work<'_> {
    fn reads(&mut self, value: Value, read: Read) {
        let known = &mut self.read[value.0 as usize];
        known.times = known.times.max(read.times);
        known.moved |= read.moved;
        known.turn = known.turn.take().or(read.turn);
    }

    /// Counts what a node computes, and says how it reads its operands. Readers come before it.
    fn node(&mut self, id: NodeId) {
        let body = self.body;
        let node = body.node(id);
        let Some(&first) = node.results.first() else { return };
        let Op::Prim(prim) = &node.op else { return };
        let mut read = Read::default();
        for &result in &node.results {
            let of = self.read[result.0 as usize].clone();
            read = Read { times: read.times.max(of.times), moved: read.moved || of.moved, turn: read.turn.or(of.turn) };
        }
        if read.times == 0.0 || self.lanes.is_view(first) {
            return;
        }
        let moves = match prim {
            Prim::Reduce { .. } => self.runs_ahead(id, node),
            Prim::Slice { .. } | Prim::Pack { .. } | Prim::TopK { .. } | Prim::ArgReduce { .. } => true,
            Prim::Cat { .. } => !self.axes.pads(id),
            _ => false,
        };
        match prim {
            Prim::Map(f) => return self.map(node, *f, read),
            Prim::Reduce { .. } => self.count(node.operands[0], read.times, 1.0),
            _ if super::is_layout(&node.op) || super::is_constant(&node.op) => {}
            _ => self.count(first, read.times, 1.0),
        }
        for &operand in &node.operands {
            self.reads(operand, Read { moved: read.moved || moves, ..read.clone() });
        }
    }

    /// Says whether a reduction runs over the leading lanes of its operand, of which it reads some at a time.
    fn runs_ahead(&self, id: NodeId, node: &Node) -> bool {
        let lanes = self.lanes.of_value(self.axes, node.operands[0]);
        self.over.get(&id).is_some_and(|over| !lanes.ends_with(over))
    }

    fn map(&mut self, node: &Node, f: ScalarFn, mut read: Read) {
        let result = node.results[0];
        let held = self.lanes.held(result);
        let turn = |v: &Value| self.turn(*v, held);
        let turns: Vec<Option<(Turn, f64)>> = node.operands.iter().map(turn).collect();
        for (turn, _) in turns.iter().flatten() {
            let here = !read.moved && read.turn.as_ref().is_none_or(|known| known == turn);
            let bytes = self.bytes(result).filter(|bytes| *bytes <= self.room.min(self.keeps.row.into()));
            match bytes {
                _ if here && !self.keeps.groups => read.turn = Some(turn.clone()),
                Some(bytes) => {
                    self.room -= bytes;
                    read = Read { times: 1.0, moved: false, turn: Some(turn.clone()) };
                }
                None => {}
            }
        }
        self.count(result, read.times, instructions(f, self.body.ty(node.operands[0]).dtype));
        for (&operand, turn) in node.operands.iter().zip(turns) {
            let again = match turn {
                Some((turn, times)) if read.turn.as_ref() != Some(&turn) || read.moved => {
                    // Where nothing is kept, or below another such sum, every piece of the row has code of its own for each of
                    // the lanes that are summed.
                    if self.keeps.row == 0 || read.times > 1.0 { times * times } else { times }
                }
                _ => 1.0,
            };
            self.reads(operand, Read { times: read.times * again, ..read.clone() });
        }
    }

    /// Gives the loop that has a sum of lanes at hand, and for how many lanes each of its elements is computed elsewhere. A value
    /// that is no such sum has none.
    fn turn(&self, value: Value, held: &[AxisId]) -> Option<(Turn, f64)> {
        let own = self.lanes.held(value);
        if !self.sums[value.0 as usize] || own.is_empty() || own == held {
            return None;
        }
        let kept = self.keeps.groups && spread(self.axes, own, held) == Some(Spread::Leading);
        (!kept).then(|| ((held.to_vec(), own.to_vec()), self.extent(held) / self.extent(own)))
    }

    /// Counts the code that computes a value, `each` an element.
    fn count(&mut self, value: Value, times: f64, each: f64) {
        let once = self.extent(self.lanes.held(value)) * each;
        self.all += times * once;
        self.once += once;
    }

    fn extent(&self, lanes: &[AxisId]) -> f64 {
        lanes.iter().map(|&a| self.axes.extent(a).as_const().map_or(UNKNOWN, |n| n as f64)).product()
    }

    /// The memory of a row, if its length is known.
    fn bytes(&self, value: Value) -> Option<u64> {
        let bytes = u64::from(self.body.ty(value).dtype.bits().div_ceil(8));
        self.lanes.held(value).iter().try_fold(bytes, |bytes, &a| {
            let extent = self.axes.extent(a).as_const()?;
            bytes.checked_mul(u64::try_from(extent).ok()?)
        })
    }
}

/// Says about how much more code a function takes than a sum does. Integers have instructions, and what is a polynomial
/// counts as one.
fn instructions(f: ScalarFn, dtype: DType) -> f64 {
    match f {
        _ if !dtype.is_float() => 1.0,
        // Fifteen quotients in f64, each of eight instructions.
        ScalarFn::Rem => 120.0,
        ScalarFn::Pow | ScalarFn::Atan2 | ScalarFn::Erfinv => 60.0,
        _ => 1.0,
    }
}
